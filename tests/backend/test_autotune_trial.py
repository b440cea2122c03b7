"""Decisions of timing trials for made-up durations, and how calls alternate."""

from __future__ import annotations

import itertools
import threading

import pytest

from ortable.backend.autotune import autotuner as autotuner_module
from ortable.backend.autotune.autotuner import Autotuner
from ortable.backend.autotune.decisions import Decisions
from ortable.backend.autotune.trial import CANDIDATES, Decision, TimingTrial


class Clock:
    """A clock that advances only where a test changes `now`."""

    def __init__(self):
        self.now = 100.0

    def perf_counter(self):
        return self.now


def run_trial(seconds, settle=0.025, max_calls=100_000, candidates=("onnxruntime", "torch")):
    """Return a trial's decision and each call's turn, if calls take `seconds(turn, call)`."""
    trial, clock, turns = TimingTrial(settle, candidates), Clock(), []
    while trial.decision is None:
        assert len(turns) < max_calls
        turns.append(trial.turn)
        duration = seconds(trial.turn, len(turns) - 1)
        trial.record_call(clock.now, duration)
        clock.now += duration
    return trial.decision, turns


def make_constant_durations(ort_time, torch_time):
    return lambda turn, call: torch_time if turn == "torch" else ort_time


@pytest.mark.parametrize(
    ("ort_time", "torch_time", "winner"),
    [
        (1.0, 2.0, "onnxruntime"),
        (1.0, 1.0, "onnxruntime"),
        (1.0, 0.98, "onnxruntime"),  # too small a gain
        (1.0, 0.95, "torch"),
        (1.0, 0.5, "torch"),
    ],
)
@pytest.mark.parametrize("scale", [1e-5, 1e-3, 0.05])
def test_the_faster_one_is_kept_and_torch_where_it_clearly_is(ort_time, torch_time, winner, scale):
    decision, _ = run_trial(make_constant_durations(ort_time * scale, torch_time * scale))
    assert decision.kept == winner
    assert decision.seconds["onnxruntime"] == pytest.approx(ort_time * scale)
    assert decision.seconds["torch"] == pytest.approx(torch_time * scale)


@pytest.mark.parametrize(
    ("ort_time", "torch_time", "calls"),
    [
        (0.05, 0.1, 2),  # the first call does not count
        (0.05, 0.07, 3),  # a factor of 1.4 needs more than one call
        (0.002, 0.01, 2),
    ],
)
def test_a_clear_case_costs_few_calls_of_torch(ort_time, torch_time, calls):
    decision, turns = run_trial(make_constant_durations(ort_time, torch_time), settle=0.0)
    assert decision.kept == "onnxruntime"
    assert turns.count("torch") == calls and turns[-calls:] == ["torch"] * calls


def test_a_slow_first_call_of_torch_does_not_choose_onnx_runtime():
    calls = []

    def seconds(turn, call):
        calls.append(turn)
        is_cold = turn == "torch" and calls.count("torch") == 1
        return 0.05 if is_cold else 0.006 if turn == "torch" else 0.01

    assert run_trial(seconds)[0].kept == "torch"


def test_torch_is_not_kept_after_one_turn():
    _, turns = run_trial(make_constant_durations(0.1, 0.05))
    changes = sum(a != b for a, b in itertools.pairwise(turns))
    assert changes == 3


def test_the_session_and_the_first_calls_of_a_turn_do_not_count():
    previous = [None]

    def seconds(turn, call):
        first, previous[0] = turn != previous[0], turn
        return (3.0 if call == 0 else 0.0) + (0.5 if first else 0.01 if turn == "torch" else 0.02)

    decision, _ = run_trial(seconds)
    assert decision == Decision("torch", {"onnxruntime": 0.02, "torch": 0.01})


def test_threads_that_still_wait_for_work_do_not_count():
    turn_start: dict[str, float] = {}
    elapsed = [0.0]

    def seconds(turn, call):
        if turn_start.get("turn") != turn:
            turn_start.update(turn=turn, at=elapsed[0])
        is_disturbed = elapsed[0] - turn_start["at"] < 0.02 and turn == "torch" and call > 100
        duration = 5e-4 if is_disturbed else 1e-4 if turn == "torch" else 2e-4
        elapsed[0] += duration
        return duration

    decision, _ = run_trial(seconds)
    assert decision.kept == "torch" and decision.seconds["torch"] == pytest.approx(1e-4)


@pytest.mark.parametrize("winner", ["onnxruntime", "torch"])
def test_calls_that_were_interrupted_change_nothing(winner):
    fast, slow = 1e-3, 1.2e-3
    ort_time, torch_time = (fast, slow) if winner == "onnxruntime" else (slow, fast)

    def seconds(turn, call):
        duration = torch_time if turn == "torch" else ort_time
        return duration * (4 if call % 3 == 0 else 1 + call % 5 / 100)

    assert run_trial(seconds)[0].kept == winner


def test_fast_calls_among_many_slow_ones_do_not_count_for_all():
    """Threads of two libraries disturb each other in most calls, but not in every call."""

    def seconds(turn, call):
        return 1.5e-4 if turn == "torch" else 1e-4 if call % 3 == 0 else 4e-4

    assert run_trial(seconds)[0].kept == "torch"


def test_one_bad_moment_of_onnx_runtime_does_not_choose_torch():
    def seconds(turn, call):
        return 1.05e-3 if turn == "torch" else 3e-3 if call < 40 else 1e-3

    assert run_trial(seconds)[0].kept == "onnxruntime"


# -- three candidates


@pytest.mark.parametrize("candidates", list(itertools.permutations(CANDIDATES)))
@pytest.mark.parametrize("scale", [1e-5, 1e-3, 0.05])
def test_the_fastest_of_three_is_kept(candidates, scale):
    seconds = {"onnxruntime": 1.0, "torch": 0.9, "inductor": 0.8}
    decision, _ = run_trial(lambda turn, _: seconds[turn] * scale, candidates=candidates)
    assert decision.kept == "inductor"
    assert decision.seconds == pytest.approx({k: v * scale for k, v in seconds.items()})


@pytest.mark.parametrize("candidates", list(itertools.permutations(CANDIDATES)))
def test_the_default_is_kept_of_three_that_are_close(candidates):
    seconds = dict(zip(candidates, (1.0, 0.99, 0.98), strict=True))
    decision, _ = run_trial(lambda turn, _: seconds[turn] * 1e-3, candidates=candidates)
    assert decision.kept == candidates[0]


def test_a_slow_candidate_takes_no_more_turns():
    seconds = {"onnxruntime": 0.01, "torch": 0.02, "inductor": 0.0099}
    decision, turns = run_trial(lambda turn, _: seconds[turn], candidates=CANDIDATES)
    assert decision.kept == "onnxruntime"
    assert turns.count("torch") < turns.count("inductor") / 2


def test_a_slow_default_takes_turns_until_another_candidate_is_kept():
    seconds = {"onnxruntime": 0.02, "torch": 0.01, "inductor": 0.0099}
    decision, turns = run_trial(lambda turn, _: seconds[turn], settle=0.0, candidates=CANDIDATES)
    assert decision.kept == "inductor"
    assert turns.count("onnxruntime") >= turns.count("inductor")


# -- calls


class Candidates:
    """Two callables that advance a clock and record their calls."""

    def __init__(self, clock, ort_time, torch_time):
        self.calls = []
        self.ort_run = self._make_candidate(clock, "onnxruntime", ort_time)
        self.torch_run = self._make_candidate(clock, "torch", torch_time)

    def _make_candidate(self, clock, name, seconds):
        def run(*args):
            self.calls.append((name, args))
            clock.now += seconds(*args) if callable(seconds) else seconds
            return name

        return run


@pytest.fixture
def clock(monkeypatch):
    fake = Clock()
    monkeypatch.setattr(autotuner_module, "time", fake)
    return fake


def make_tuner(ort_run, torch_run, **keywords):
    return Autotuner(ort_run, {"torch": lambda: torch_run}, Decisions([None], None), **keywords)


def test_every_call_runs_one_candidate_once(clock):
    pair = Candidates(clock, 0.01, 0.005)
    tuner = make_tuner(pair.ort_run, pair.torch_run)
    assert tuner.is_open and tuner.kept is None
    results = [tuner.run(call) for call in range(50)]
    assert [args for _, args in pair.calls] == [(call,) for call in range(50)]
    assert results == [name for name, _ in pair.calls]
    assert tuner.kept == "torch" and not tuner.is_open
    assert tuner.run is pair.torch_run and tuner.ort_run is None  # later calls have no wrapper
    assert "torch is kept: 5.00 ms a call, 10.00 ms in ONNX Runtime" in str(tuner)


def test_an_error_is_that_of_the_candidate_and_nothing_is_run_again(clock):
    pair = Candidates(clock, lambda x: 0.01 / x, 0.005)
    tuner = make_tuner(pair.ort_run, pair.torch_run)
    with pytest.raises(ZeroDivisionError):
        tuner.run(0)
    assert len(pair.calls) == 1
    assert tuner.run(1) == "onnxruntime" and tuner.is_open


def test_each_class_of_sizes_has_its_decision(clock):
    pair = Candidates(clock, lambda n: 0.01, lambda n: 0.001 * n)
    tuner = make_tuner(pair.ort_run, pair.torch_run, sizes=[(0, None)])
    for _ in range(60):
        for n in (4, 5, 100):
            tuner.run(n)
    assert {sizes: decision.kept for sizes, decision in tuner.decisions.items()} == {
        (3,): "torch",
        (7,): "onnxruntime",
    }
    assert tuner.run(7) == "torch" and tuner.run(64) == "onnxruntime"
    assert tuner.kept is None and not tuner.is_open


def test_more_classes_than_anybody_measures_run_with_onnx_runtime(clock):
    pair = Candidates(clock, 0.01, 0.001)
    tuner = make_tuner(pair.ort_run, pair.torch_run, sizes=[(0, None), (1, None)])
    for _ in range(20):
        for n in range(12):
            for k in range(12):
                tuner.run(1 << n, 1 << k)
    assert len(tuner.decisions) == autotuner_module._MAX_CLASSES
    assert tuner.run(1 << 11, 1 << 11) == "onnxruntime"


def test_parts_are_measured_before_the_whole(clock):
    inner = Candidates(clock, 0.01, 0.005)
    part = make_tuner(inner.ort_run, inner.torch_run)
    outer = Candidates(clock, 0.0, 1.0)
    calls = []

    def run_ort():
        calls.append("onnxruntime")
        return part.run()

    tuner = make_tuner(run_ort, outer.torch_run, inner=lambda: [part])
    while part.is_open:
        tuner.run()
    assert not outer.calls
    while tuner.is_open:
        tuner.run()
    assert part.kept == "torch" and tuner.kept == "onnxruntime"


def test_calls_at_the_same_time_do_not_count(clock):
    entered, leave = threading.Event(), threading.Event()
    calls = []

    def run_ort(wait):
        calls.append(wait)
        if wait:
            entered.set()
            leave.wait(10)

    tuner = make_tuner(run_ort, lambda wait: calls.append("torch"))
    first = threading.Thread(target=tuner.run, args=(True,))
    first.start()
    entered.wait(10)
    tuner.run(False)
    tuner.run(False)
    leave.set()
    first.join()
    assert calls == [True, False, False]
    assert tuner._trials[()].calls == 0
