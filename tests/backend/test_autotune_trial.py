"""When a trial keeps which candidate, from seconds that are made up; and how calls take turns."""

from __future__ import annotations

import itertools
import threading

import pytest

from ortable.backend.autotune import autotuner as module
from ortable.backend.autotune.autotuner import Autotuner
from ortable.backend.autotune.decisions import Decisions
from ortable.backend.autotune.trial import Decision, TimingTrial


class Clock:
    """Seconds that pass when somebody says so."""

    def __init__(self):
        self.now = 100.0

    def perf_counter(self):
        return self.now


def run_trial(seconds, settle=0.025, most=100_000):
    """A trial of calls that take `seconds(turn, call)`, and whose turn each call was."""
    trial, clock, turns = TimingTrial(settle), Clock(), []
    while trial.decision is None:
        assert len(turns) < most
        turns.append(trial.turn)
        taken = seconds(trial.turn, len(turns) - 1)
        trial.record_call(clock.now, taken)
        clock.now += taken
    return trial.decision, turns


def constant(ours, torchs):
    return lambda turn, call: torchs if turn == "torch" else ours


@pytest.mark.parametrize(
    ("ours", "torchs", "kept"),
    [
        (1.0, 2.0, "onnxruntime"),
        (1.0, 1.0, "onnxruntime"),
        (1.0, 0.98, "onnxruntime"),  # not clearly
        (1.0, 0.95, "torch"),
        (1.0, 0.5, "torch"),
    ],
)
@pytest.mark.parametrize("scale", [1e-5, 1e-3, 0.05])
def test_the_faster_one_is_kept_and_torch_where_it_clearly_is(ours, torchs, kept, scale):
    decision, _ = run_trial(constant(ours * scale, torchs * scale))
    assert decision.kept == kept
    assert decision.onnxruntime == pytest.approx(ours * scale)
    assert decision.torch == pytest.approx(torchs * scale)


@pytest.mark.parametrize(
    ("ours", "torchs", "calls"),
    [
        (0.05, 0.1, 2),  # the first one does not count
        (0.05, 0.07, 3),  # 1.4 is no single call's to say
        (0.002, 0.01, 2),
    ],
)
def test_a_clear_case_costs_few_calls_of_torch(ours, torchs, calls):
    decision, turns = run_trial(constant(ours, torchs), settle=0.0)
    assert decision.kept == "onnxruntime"
    assert turns.count("torch") == calls and turns[-calls:] == ["torch"] * calls


def test_a_slow_first_call_of_torch_does_not_choose_onnx_runtime():
    calls = []

    def seconds(turn, call):
        calls.append(turn)
        cold = turn == "torch" and calls.count("torch") == 1
        return 0.05 if cold else 0.006 if turn == "torch" else 0.01

    assert run_trial(seconds)[0].kept == "torch"


def test_torch_is_not_kept_after_one_turn():
    _, turns = run_trial(constant(0.1, 0.05))
    changes = sum(a != b for a, b in itertools.pairwise(turns))
    assert changes == 3


def test_the_session_and_the_first_calls_of_a_turn_do_not_count():
    last = [None]

    def seconds(turn, call):
        first, last[0] = turn != last[0], turn
        return (3.0 if call == 0 else 0.0) + (0.5 if first else 0.01 if turn == "torch" else 0.02)

    decision, _ = run_trial(seconds)
    assert decision == Decision("torch", 0.02, 0.01)


def test_threads_that_still_wait_for_work_do_not_count():
    began: dict[str, float] = {}
    passed = [0.0]

    def seconds(turn, call):
        if began.get("turn") != turn:
            began.update(turn=turn, at=passed[0])
        spoiled = passed[0] - began["at"] < 0.02 and turn == "torch" and call > 100
        taken = 5e-4 if spoiled else 1e-4 if turn == "torch" else 2e-4
        passed[0] += taken
        return taken

    decision, _ = run_trial(seconds)
    assert decision.kept == "torch" and decision.torch == pytest.approx(1e-4)


@pytest.mark.parametrize("kept", ["onnxruntime", "torch"])
def test_calls_that_were_interrupted_change_nothing(kept):
    fast, slow = 1e-3, 1.2e-3
    ours, torchs = (fast, slow) if kept == "onnxruntime" else (slow, fast)

    def seconds(turn, call):
        usual = torchs if turn == "torch" else ours
        return usual * (4 if call % 3 == 0 else 1 + call % 5 / 100)

    assert run_trial(seconds)[0].kept == kept


def test_fast_calls_among_many_slow_ones_do_not_count_for_all():
    """Threads of two libraries are in each other's way at most calls, not at every one."""

    def seconds(turn, call):
        return 1.5e-4 if turn == "torch" else 1e-4 if call % 3 == 0 else 4e-4

    assert run_trial(seconds)[0].kept == "torch"


def test_one_bad_moment_of_onnx_runtime_does_not_choose_torch():
    def seconds(turn, call):
        return 1.05e-3 if turn == "torch" else 3e-3 if call < 40 else 1e-3

    assert run_trial(seconds)[0].kept == "onnxruntime"


# -- calls


class Candidates:
    """Two callables that take time of a clock, and note that they were called."""

    def __init__(self, clock, ours, torchs):
        self.calls = []
        self.ort_run = self._made(clock, "onnxruntime", ours)
        self.torchs = self._made(clock, "torch", torchs)

    def _made(self, clock, name, seconds):
        def run(*given):
            self.calls.append((name, given))
            clock.now += seconds(*given) if callable(seconds) else seconds
            return name

        return run


@pytest.fixture
def clock(monkeypatch):
    found = Clock()
    monkeypatch.setattr(module, "time", found)
    return found


def no_decisions():
    return Decisions([None], None)


def test_every_call_runs_one_candidate_once(clock):
    both = Candidates(clock, 0.01, 0.005)
    tuned = Autotuner(both.ort_run, lambda: both.torchs, no_decisions())
    assert tuned.is_open and tuned.kept is None
    results = [tuned.run(call) for call in range(50)]
    assert [given for _, given in both.calls] == [(call,) for call in range(50)]
    assert results == [name for name, _ in both.calls]
    assert tuned.kept == "torch" and not tuned.is_open
    assert tuned.run is both.torchs and tuned.ort_run is None  # nothing stands between any more
    assert "torch is kept: 5.00 ms a call, 10.00 ms in ONNX Runtime" in str(tuned)


def test_an_error_is_that_of_the_candidate_and_nothing_is_run_again(clock):
    both = Candidates(clock, lambda x: 0.01 / x, 0.005)
    tuned = Autotuner(both.ort_run, lambda: both.torchs, no_decisions())
    with pytest.raises(ZeroDivisionError):
        tuned.run(0)
    assert len(both.calls) == 1
    assert tuned.run(1) == "onnxruntime" and tuned.is_open


def test_each_class_of_sizes_has_its_decision(clock):
    both = Candidates(clock, lambda n: 0.01, lambda n: 0.001 * n)
    tuned = Autotuner(both.ort_run, lambda: both.torchs, no_decisions(), sizes=[(0, None)])
    for _ in range(60):
        for n in (4, 5, 100):
            tuned.run(n)
    assert {sizes: each.kept for sizes, each in tuned.decisions.items()} == {
        (3,): "torch",
        (7,): "onnxruntime",
    }
    assert tuned.run(7) == "torch" and tuned.run(64) == "onnxruntime"
    assert tuned.kept is None and not tuned.is_open


def test_more_classes_than_anybody_measures_run_with_onnx_runtime(clock):
    both = Candidates(clock, 0.01, 0.001)
    tuned = Autotuner(
        both.ort_run, lambda: both.torchs, no_decisions(), sizes=[(0, None), (1, None)]
    )
    for _ in range(20):
        for n in range(12):
            for k in range(12):
                tuned.run(1 << n, 1 << k)
    assert len(tuned.decisions) == module._MAX_CLASSES
    assert tuned.run(1 << 11, 1 << 11) == "onnxruntime"


def test_parts_are_measured_before_the_whole(clock):
    inside = Candidates(clock, 0.01, 0.005)
    part = Autotuner(inside.ort_run, lambda: inside.torchs, no_decisions())
    outside = Candidates(clock, 0.0, 1.0)
    calls = []

    def ours():
        calls.append("onnxruntime")
        return part.run()

    tuned = Autotuner(ours, lambda: outside.torchs, no_decisions(), inner=lambda: [part])
    while part.is_open:
        tuned.run()
    assert not outside.calls
    while tuned.is_open:
        tuned.run()
    assert part.kept == "torch" and tuned.kept == "onnxruntime"


def test_calls_at_the_same_time_do_not_count(clock):
    entered, leave = threading.Event(), threading.Event()
    ran = []

    def ours(wait):
        ran.append(wait)
        if wait:
            entered.set()
            leave.wait(10)

    tuned = Autotuner(ours, lambda: lambda wait: ran.append("torch"), no_decisions())
    first = threading.Thread(target=tuned.run, args=(True,))
    first.start()
    entered.wait(10)
    tuned.run(False)
    tuned.run(False)
    leave.set()
    first.join()
    assert ran == [True, False, False]
    assert tuned._trials[()].calls == 0
