"""A run survives crashes and slow samples, can be resumed, and finds wrong answers."""

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

from tests.conformance import check, plan, report, samples, workers

FORWARD = {"kind": "forward", "opsets": (18,), "modes": ("static",), "samples": 10}


def _info(function: Any, count: int = 3) -> SimpleNamespace:
    inputs = [SimpleNamespace(input=torch.full((2,), float(i)), args=(), kwargs={})
              for i in range(count)]  # fmt: skip
    return SimpleNamespace(op=function, sample_inputs=lambda *_, **__: iter(inputs))


def _kill_process(x: torch.Tensor) -> torch.Tensor:
    if not isinstance(x, torch._subclasses.FakeTensor) and x[0] == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return x + 1


def _sleep(x: torch.Tensor) -> torch.Tensor:
    if not isinstance(x, torch._subclasses.FakeTensor) and x[0] == 1:
        time.sleep(60)
    return x + 1


@pytest.mark.parametrize(("function", "outcome"), [(_kill_process, "crash"), (_sleep, "timeout")])
def test_a_crash_or_a_slow_sample_costs_that_sample(
    function: Any, outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (samples, workers):
        monkeypatch.setattr(module, "op_infos", lambda: {"f": _info(function)})
    task = plan.Task("f", "f32", **FORWARD)
    records = list(workers.run([task], jobs=1, limit_s=8.0))
    assert records[-1][1] is None, "a task ends with None"
    outcomes = {record["index"]: record["outcome"] for _, record in records if record is not None}
    assert outcomes == {0: "exact", 1: outcome, 2: "exact"}


def _call(function: Any, *args: Any) -> samples.Call:
    return samples.Call("f", "f32", 0, function, args)


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
    first, second = (samples.calls("add", "f32", 4) for _ in range(2))
    assert [call.index for call in first] == [call.index for call in second]
    for sample, repeated in zip(first, second, strict=True):
        assert sample.describe() == repeated.describe()
        for tensor, repeated_tensor in zip(sample.tensors(), repeated.tensors(), strict=True):
            torch.testing.assert_close(tensor, repeated_tensor, rtol=0, atol=0, equal_nan=True)


def _record(op: str, outcome: str, **more: Any) -> dict[str, Any]:
    return {"op": op, "dtype": "f32", "kind": "forward", "index": 0, "outcome": outcome,
            "overloads": [], **more}  # fmt: skip


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
