"""The conformance run itself: crashes and slow samples cost one sample, a run can be resumed, wrong
answers are seen, and expectations that no longer hold are."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from tests.conformance import check, expected, report, samples, workers
from tests.conformance.expected import Expectation

FORWARD = {"kind": "forward", "opsets": (18,), "modes": ("static",), "samples": 10}


def _info(function: Any, count: int = 3) -> SimpleNamespace:
    inputs = [SimpleNamespace(input=torch.full((2,), float(i)), args=(), kwargs={})
              for i in range(count)]  # fmt: skip
    return SimpleNamespace(op=function, sample_inputs=lambda *_, **__: iter(inputs))


def _dies(x: torch.Tensor) -> torch.Tensor:
    if not isinstance(x, torch._subclasses.FakeTensor) and x[0] == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return x + 1


def _sleeps(x: torch.Tensor) -> torch.Tensor:
    if not isinstance(x, torch._subclasses.FakeTensor) and x[0] == 1:
        time.sleep(60)
    return x + 1


@pytest.mark.parametrize(("function", "outcome"), [(_dies, "crash"), (_sleeps, "timeout")])
def test_a_crash_or_a_slow_sample_costs_that_sample(
    function: Any, outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (samples, workers):
        monkeypatch.setattr(module, "op_infos", lambda: {"f": _info(function)})
    task = workers.Task("f", "f32", **FORWARD)
    found = list(workers.run([task], jobs=1, limit_s=8.0))
    assert found[-1][1] is None, "the task ends with its marker"
    outcomes = {record["index"]: record["outcome"] for _, record in found if record is not None}
    assert outcomes == {0: "exact", 1: outcome, 2: "exact"}


def _call(function: Any, *args: Any) -> samples.Call:
    return samples.Call("f", "f32", 0, function, args)


def test_a_wrong_answer_is_a_mismatch() -> None:
    call = _call(lambda x: x + 1, torch.ones(2))
    wanted = [torch.full((2,), 2.0)]
    check.compare(call, wanted, [torch.full((2,), 2.0)])
    for wrong in (
        torch.full((2,), 2.1),
        torch.full((2,), 2.0, dtype=torch.float64),
        torch.full((2, 1), 2.0),
        torch.tensor([2.0, float("nan")]),
    ):
        with pytest.raises(check.Mismatch):
            check.compare(call, wanted, [wrong])
    with pytest.raises(check.Mismatch, match="0 outputs"):
        check.compare(call, wanted, [])


def test_results_that_eager_does_not_repeat_have_a_dtype_and_a_shape() -> None:
    call = _call(lambda x: torch.rand_like(x), torch.ones(2))
    check.compare(call, [torch.rand(2)], [torch.zeros(2)])
    with pytest.raises(check.Mismatch, match="shape"):
        check.compare(call, [torch.rand(2)], [torch.zeros(3)])


@pytest.mark.parametrize(
    ("function", "drawn"),
    [
        (lambda x: torch.ops.aten.native_dropout(x, 0.5, True)[0], True),
        (lambda x: torch.ops.aten.native_dropout(x, 0.5, False)[0], False),
        (lambda x: torch.ops.aten.native_dropout(x, 0.0, True)[0], False),
        (lambda x: torch.ops.aten.rrelu_with_noise_functional(x, x, 0.1, 0.3, True)[0], True),
        (lambda x: torch.ops.aten.rrelu_with_noise_functional(x, x, 0.1, 0.3, False)[0], False),
        (lambda x: torch.ops.aten.bernoulli(x), True),
        (lambda x: torch.ops.aten.empty_like(x), True),
        (lambda x: torch.ops.aten.empty([0, 3]), False),
        (lambda x: torch.ops.aten.resize(x, [2]), False),
        (lambda x: torch.ops.aten.resize(x, [9]), True),
        (lambda x: x + 1, False),
    ],
)
def test_only_what_draws_is_compared_without_its_values(function: Any, drawn: bool) -> None:
    graph = make_fx(function, tracing_mode="fake")(torch.rand(4)).graph
    assert check._draws(graph) is drawn


def test_a_difference_that_float64_puts_on_eager_is_none() -> None:
    """Eager cancels 1e8 + 1 - 1e8 in float32; the exact answer is accepted, a third one is not."""
    call = _call(lambda x: x + 1e8 - 1e8, torch.ones(1))
    wanted = [torch.ones(1) + 1e8 - 1e8]
    assert wanted[0].item() != 1.0
    check.compare(call, wanted, [torch.ones(1)])
    with pytest.raises(check.Mismatch):
        check.compare(call, wanted, [torch.full((1,), 9.0)])


def test_operators_without_a_converter_are_named() -> None:
    @torch.library.custom_op("conformance_test::nothing", mutates_args=())
    def nothing(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    nothing.register_fake(lambda x: torch.empty_like(x))
    record = check.check_call(_call(nothing, torch.ones(2)), (18,), ("static",))
    assert (record.outcome, record.detail) == ("missing", "conformance_test::nothing")


def test_samples_are_spread_and_the_same_each_time() -> None:
    assert list(samples.spread(3, 10)) == [0, 1, 2]
    assert list(samples.spread(100, 3)) == [0, 50, 99]
    first, again = (samples.calls("add", "f32", 4) for _ in range(2))
    assert [call.index for call in first] == [call.index for call in again]
    for one, other in zip(first, again, strict=True):
        assert one.describe() == other.describe()
        for left, right in zip(one.tensors(), other.tensors(), strict=True):
            torch.testing.assert_close(left, right, rtol=0, atol=0, equal_nan=True)


def _record(op: str, outcome: str, **more: Any) -> dict[str, Any]:
    return {"op": op, "dtype": "f32", "kind": "forward", "index": 0, "outcome": outcome,
            "overloads": [], **more}  # fmt: skip


def test_the_verdict_needs_a_reason_for_every_failure_and_a_failure_for_every_reason() -> None:
    groups = [Expectation("refused", "a reason", {"a": ("f32",), "b": ("f32",), "c": ("i64",)})]
    records = [_record("a", "refused"), _record("b", "exact"), _record("d", "mismatch"),
               _record("e", "uncaptured")]  # fmt: skip
    verdict = expected.judge(records, groups, complete=True)
    assert [record["op"] for record in verdict.unexpected] == ["d"]
    assert verdict.stale == ("b (forward, f32) is expected to be refused, and is not",)
    assert not verdict.passed
    short = expected.judge(records[:2], groups, complete=False)
    assert short.passed, "a run with few samples cannot say that an expectation is stale"


def test_a_resumed_run_keeps_finished_operators_only(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    lines = [_record("a", "exact"), {"done": ["a", "f32", "forward"]}, _record("b", "exact")]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"op": "c", "dty')
    records, done = report.read(file)
    assert [record["op"] for record in records] == ["a"]
    assert done == {("a", "f32", "forward")}


def test_numbers_are_counted_for_each_operator_of_a_graph() -> None:
    records = [
        _record("a", "exact", overloads=["aten::add.Tensor", "aten::mul.Tensor"]),
        _record("b", "refused", overloads=["aten::mul.Tensor"]),
        _record("b", "uncaptured"),
        _record("a", "exact", kind="gradient"),
    ]
    assert report.measured(records) == {
        "aten::add.Tensor": {"forward": "1/1", "gradient": "1/1"},
        "aten::mul.Tensor": {"forward": "1/2", "gradient": "1/1"},
    }


def test_the_file_of_expected_failures_is_well_formed() -> None:
    groups = expected.load()
    known = set(samples.op_infos())
    listed = [(g.kind, op, d, g.outcome) for g in groups for op, ds in g.ops.items() for d in ds]
    assert len(listed) == len(set(listed)), "an outcome is listed twice"
    assert {op for _, op, _, _ in listed} <= known
    assert not [g for g in groups if g.outcome in check.FAULTS], "a fault is not to be expected"
