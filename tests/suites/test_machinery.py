"""The suites fail when they must: exceptions only shrink, and floors hold."""

from __future__ import annotations

import contextlib
import os
import signal
import time

import pytest
import torch

from tests.suites import decomposition_check, expected, extreme_check, workers
from tests.suites.expected import Expectations, compact, judge, part_of
from tests.suites.extreme_calls import extremes
from tests.suites.isolation import Outcome, run_isolated
from tests.suites.workers import Record

CASES = ["a/0", "a/1", "b"]


def judge_outcomes(outcomes, listed=(), floors=(), **facts):
    records = [Record(case, outcome, facts=dict(facts)) for case, outcome in outcomes.items()]
    return judge(records, CASES, CASES, Expectations(dict(listed), dict(floors)), {"ran": 1})


def test_what_is_exact_passes():
    assert judge_outcomes(dict.fromkeys(CASES, "exact"), floors={"exact": 3, "collected": 3}) == []


@pytest.mark.parametrize(
    "outcomes, listed, floors",
    [
        ({"a/0": "exact", "a/1": "exact", "b": "refused"}, {}, {}),
        ({"a/0": "exact", "a/1": "exact", "b": "exact"}, {"b": "refused"}, {}),
        ({"a/0": "exact", "a/1": "exact", "b": "uncaptured"}, {"b": "refused"}, {}),
        ({"a/0": "exact", "a/1": "exact"}, {}, {}),
        ({"a/0": "exact", "a/1": "exact", "b": "exact"}, {"c": "refused"}, {}),
        ({"a/0": "exact", "a/1": "exact", "b": "exact"}, {}, {"exact": 4}),
        ({"a/0": "exact", "a/1": "exact", "b": "exact"}, {}, {"collected": 4}),
        ({"a/0": "exact", "a/1": "exact", "b": "exact"}, {}, {"ran": 2}),
    ],
)
def test_what_is_not_as_listed_fails(outcomes, listed, floors):
    assert len(judge_outcomes(outcomes, listed, floors)) == 1


def test_a_deviation_must_be_listed():
    assert len(judge_outcomes(dict.fromkeys(CASES, "exact"), deviates="onnxruntime")) == 3


def test_what_the_rules_do_not_know_must_be_listed():
    outcomes = dict.fromkeys(CASES, "exact")
    assert judge_outcomes(outcomes, inferred="sizes") == []
    for known in ("shape", "dtype", "nothing", "refused"):
        assert len(judge_outcomes(outcomes, inferred=known)) == 3
    records = [Record(case, "exact", facts={"inferred": "dtype"}) for case in CASES]
    listed = Expectations({}, {}, unsized=frozenset(CASES))
    assert judge(records, CASES, CASES, listed, {}) == []
    assert len(judge(records, CASES, [*CASES, "c"], listed, {})) == 0
    with_unknown_case = Expectations({}, {}, unsized=frozenset([*CASES, "c"]))
    assert judge(records, CASES, CASES, with_unknown_case, {}) == ["c: listed, and no such case"]


def test_a_result_that_is_undefined_may_differ():
    undefined = Expectations({}, {}, undefined=("a/*",))

    def check(outcome, case="a/0"):
        outcomes = {**dict.fromkeys(CASES, "exact"), case: outcome}
        records = [Record(case, outcome) for case, outcome in outcomes.items()]
        return judge(records, CASES, CASES, undefined, {})

    assert check("different") == check("error") == []
    assert len(check("crash")) == 2
    assert len(check("different", "b")) == 2
    assert check("exact") == ["a/*: listed as undefined, and no case differs"]


def test_a_run_over_nothing_fails():
    assert judge([], [], CASES, Expectations({}, {}), {}) == ["nothing was run"]


def test_a_fault_can_not_be_listed(tmp_path, monkeypatch):
    monkeypatch.setattr(expected, "FOLDER", tmp_path)
    group = "exceptions: [{outcome: %s, reason: %s, cases: [a, {b/c: '0-2,5'}]}]"
    (tmp_path / "suite.yaml").write_text(group % ("refused", "why"))
    cases = ["a", "b/c/0", "b/c/1", "b/c/2", "b/c/5"]
    assert dict(expected.load("suite").listed) == dict.fromkeys(cases, "refused")
    assert compact(cases) == ["a", {"b/c": "0-2,5"}]
    for outcome, reason in (("different", "why"), ("crash", "why"), ("refused", "''")):
        (tmp_path / "suite.yaml").write_text(group % (outcome, reason))
        with pytest.raises(ValueError, match="needs outcome"):
            expected.load("suite")


@pytest.mark.parametrize("file", sorted(expected.FOLDER.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_lists_can_be_read(file):
    assert expected.load(file.stem).floors["collected"] > 0


def test_parts_make_the_whole():
    parts = [part_of(CASES, part, 2) for part in range(2)]
    assert sorted(parts[0] + parts[1]) == CASES


def check(case):
    if case == "crash":
        os._exit(3)
    if case == "sleep":
        time.sleep(60)
    if case == "raise":
        raise RuntimeError("of the check")
    return Record(case, "exact")


def test_a_crash_and_a_hang_cost_one_case():
    cases = ["one", "crash", "sleep", "raise", "two", "three"]
    outcomes = {record.case: record.outcome for record in workers.run(cases, check, 2, 2.0)}
    assert outcomes == {
        "one": "exact", "two": "exact", "three": "exact",
        "crash": "crash", "sleep": "timeout", "raise": "error",
    }  # fmt: skip


def test_a_dead_process_is_a_result():
    jobs = [lambda: 1, lambda: os.kill(os.getpid(), signal.SIGFPE), lambda: 1 // 0, lambda: "last"]
    outcomes = run_isolated(jobs)
    assert outcomes == [
        Outcome(1),
        Outcome(signal="SIGFPE"),
        Outcome(error="ZeroDivisionError: integer division or modulo by zero"),
        Outcome("last"),
    ]


def test_extremes_are_those_of_the_dtype():
    assert {-128, 127, -1, 0, 7, 8} <= set(extremes(torch.int8))
    assert {2**63 - 1, -(2**63), 2**31, 64} <= set(extremes(torch.int64))
    assert extreme_check.check_case("aten::floor_divide/int8").outcome == "exact"


@pytest.mark.parametrize(
    "name", ["upsample_nearest2d.vec", "multilabel_margin_loss_forward", "multi_margin_loss"]
)
def test_a_decomposition_that_differs_is_found(name):
    def check_decomposed():
        decomposition_check.preserve_operators = contextlib.nullcontext
        return decomposition_check.check_case(f"spec/aten::{name}").outcome

    # in a child, as the check changes torch for the rest of the process
    checks = [lambda: decomposition_check.check_case(f"spec/aten::{name}").outcome]
    checks.append(check_decomposed)
    assert run_isolated(checks) == [Outcome("exact"), Outcome("different")]
