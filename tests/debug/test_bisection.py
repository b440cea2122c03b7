"""`ortable.bisect` names the line of each of 30 faults, and says nothing about a model without."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import pytest
import torch
from torch.nn import functional

import ortable
from ortable.backend.cache.memory import conversions
from ortable.debug.bisection.records import Bisection, Fault
from ortable.debug.bisection.search import bisect
from ortable.passes import pipeline
from tests.packaging.files import ROOT

from .faults import (
    ENTRIES,
    RULES,
    Changed,
    around,
    changed_entry,
    changed_rule,
    line_of,
    tables_kept,
)


@pytest.fixture(autouse=True)
def _no_conversion_is_kept() -> Iterator[None]:
    conversions.clear()
    yield
    conversions.clear()
    torch.compiler.reset()


@pytest.mark.alternates(parts=3)
@pytest.mark.parametrize("fault", ENTRIES, ids=lambda fault: fault.name)
def test_a_changed_entry_is_named_with_its_line(fault: Changed, tmp_path: Path) -> None:
    model, args = fault.call()
    with changed_entry(fault, tmp_path):
        found = bisect(model, args, train=fault.train, dynamic=fault.dynamic)
    assert found.fault is not None
    assert (found.fault.kind, found.fault.name) == ("entry", fault.name), str(found)
    assert found.fault.place == f"{fault.file}:{line_of(fault, f'op: {fault.name}')}"
    assert "faults.py" in found.fault.source
    assert not found.fault.after


@pytest.mark.alternates(parts=3)
@pytest.mark.parametrize("fault", RULES, ids=lambda fault: fault.name)
def test_a_changed_rule_is_named_with_its_line(
    fault: Changed, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, args = fault.call()
    with changed_rule(fault, monkeypatch):
        found = bisect(model, args, train=fault.train, dynamic=fault.dynamic, export=fault.export)
    assert found.fault is not None
    assert (found.fault.kind, found.fault.name) == ("rule", fault.name), str(found)
    assert found.fault.place == f"{fault.file}:{line_of(fault, f'rewrite: {fault.name}')}"
    assert not found.fault.after


# -- options, optimizers, kept conversions


def _line(file: str, text: str) -> int:
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def _of_optimizer(name: str) -> str:
    """File and line of an optimizer. An installed package finds the file, too: tests run in the
    root of a checkout."""
    return f"{OPTIMIZERS}:{_line(OPTIMIZERS, f'name: {name}')}"


def _own_line(text: str) -> str:
    return f"{__file__}:{_line(__file__, text)}"


def _told(found: Bisection) -> tuple[str, str, str]:
    assert found.fault is not None
    return found.fault.kind, found.fault.name, found.fault.place


def test_a_setting_of_the_session() -> None:
    settings = {"optimization.enable_gelu_approximation": "1", "log_severity_level": 3}
    options = {"session_options": settings, "target_opset": 18}
    found = bisect(functional.gelu, (torch.linspace(-3, 3, 50),), options=options)
    name = "session_options['optimization.enable_gelu_approximation']"
    assert _told(found) == ("option", name, "")
    assert found.fault is not None
    assert not found.fault.after


def test_weights_that_are_rounded() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
    found = bisect(model.eval(), (torch.randn(4, 64),), options={"weights": "int8"})
    assert _told(found) == ("option", "weights='int8'", "")


def _harmless(model: onnx.ModelProto) -> None:
    model.doc_string = "seen"


def _changing(model: onnx.ModelProto) -> None:
    for node in model.graph.node:
        node.op_type = "Sigmoid" if node.op_type == "Tanh" else node.op_type


def test_a_function_over_models() -> None:
    found = bisect(
        torch.tanh, (torch.randn(5),), options={"pre_ort_model_transforms": [_harmless, _changing]}
    )
    assert _told(found) == ("transform", "_changing", _own_line("def _changing"))


class _Counting(torch.nn.Module):
    """Writes into its buffer where torch does not see it."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("gain", torch.ones(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * self.gain
        _grow(self.gain)
        return y


@torch.compiler.disable
def _grow(weight: torch.Tensor) -> None:
    weight.detach().numpy()[:] += 1.0


def test_trust_in_weights_that_change() -> None:
    model = _Counting().eval()
    found = bisect(model, (torch.randn(4, 6),), options={"freeze": "trust"})
    assert _told(found)[:2] == ("option", "freeze='trust'")


def test_a_kept_conversion_of_another_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, args = RULES[0].call()
    options = {"cache_dir": str(tmp_path)}
    with changed_rule(RULES[0], monkeypatch), torch.no_grad():
        torch.compile(model, backend="ortable", options=options)(*args)
    conversions.clear()
    torch.compiler.reset()
    found = bisect(model, args, options=options)
    kind, name, place = _told(found)
    assert (kind, name) == ("cache", "disk")
    assert Path(place).parent == tmp_path
    assert Path(place).exists()


OPTIMIZERS = "specs/runtime/optimizers.yaml"
_OFF = "optimization.disable_specified_optimizers"


def _gelu_of_1_4142(x: torch.Tensor) -> torch.Tensor:
    return 0.5 * x * (1 + torch.erf(x / 1.4142))


def test_an_optimizer_that_is_wrong() -> None:
    """ONNX Runtime takes 1.4142 for the root of 2: too little for the usual tolerance."""
    x = torch.linspace(-2, 2, 40)
    assert bisect(_gelu_of_1_4142, (x,))
    found = bisect(_gelu_of_1_4142, (x,), atol=1e-6, rtol=0.0)
    kind, name, place = _told(found)
    assert (kind, name) == ("optimizer", "GeluFusionL1")
    assert place == _of_optimizer("GeluFusionL1")
    assert found.fault is not None
    assert _OFF in found.fault.advice


class _WrongSession(onnxruntime.InferenceSession):
    """ONNX Runtime with an optimizer that makes another function of Tanh."""

    def __init__(self, model: bytes, options: Any, **given: Any) -> None:
        off = list(given.get("disabled_optimizers") or ())
        with contextlib.suppress(RuntimeError):  # the entry is not there
            off += options.get_session_config_entry(_OFF).split(";")
        if "ConvActivationFusion" not in off:
            proto = onnx.load_from_string(model)
            _changing(proto)
            model = proto.SerializeToString()
        super().__init__(model, options, **given)


def test_an_optimizer_that_fuses_wrongly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnxruntime, "InferenceSession", _WrongSession)
    found = bisect(*around(torch.tanh)())
    place = _of_optimizer("ConvActivationFusion")
    assert _told(found) == ("optimizer", "ConvActivationFusion", place)
    assert found.fault is not None
    assert not found.fault.after


def test_an_entry_in_an_export(tmp_path: Path) -> None:
    fault = ENTRIES[0]
    with changed_entry(fault, tmp_path):
        found = bisect(*fault.call(), export=True)
    place = f"{fault.file}:{line_of(fault, f'op: {fault.name}')}"
    assert _told(found) == ("entry", fault.name, place)
    assert found.fault is not None and found.fault.after == "not tried"
    assert found.fault.advice == "Please report it with this text."  # no option of an export heals


RULE_OF_A_USER = """
- rewrite: half_of_twice
  stage: simplify
  why: it is what it was
  pattern: return Mul(Add(x, x), 0.5)
  replace: return Neg(x)
  samples:
    - {x: "f32[2,3]", expect: Neg}
    - {graph: "return Mul(Add(x, x), 0.25)", x: "f32[2,3]", unchanged: ""}
"""


def test_a_rule_of_the_user(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(RULE_OF_A_USER)
    found = bisect(
        lambda x: (x + x) * 0.5, (torch.randn(4),), options={"rewrites": ["default", str(file)]}
    )
    assert _told(found) == ("rule", "half_of_twice", f"{file}:2")
    assert found.fault is not None
    assert f"rewrites=['default', '{file}', '-half_of_twice']" in found.fault.advice
    assert (
        f"Fix it at {file}:2, and then run `ortable rewrites check {file}`." in found.fault.advice
    )


ENTRY_OF_A_USER = """# two cases, of which the second is wrong
- op: aten::relu(Tensor self) -> Tensor
  out: {shape: same(self), dtype: same(self)}
  lower:
    - when: dtype_of(self) == float64
      do: return Relu(self)
    - do: return Neg(self)
  samples: [{self: "f32[2,3]"}, {self: "f64[2,3]"}]
"""


def test_an_entry_of_the_user(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(ENTRY_OF_A_USER)
    with tables_kept("aten::relu"):
        ortable.load_specs(file, override=True)
        found = bisect(torch.relu, (torch.randn(4),))
    assert _told(found) == ("entry", "aten::relu", f"{file}:7")
    assert found.fault is not None
    assert f"Fix it at {file}:7, and then run `ortable specs test {file}`." in found.fault.advice


def _wrong_silu(x: torch.Tensor) -> torch.Tensor:
    return x * torch.sigmoid(x + 1)


def test_an_optimizer_in_an_export() -> None:
    """The sessions that run an exported model are the user's: the advice is for these."""
    model = torch.nn.Module()
    model.forward = _gelu_of_1_4142
    found = bisect(model, (torch.linspace(-2, 2, 40),), export=True, atol=1e-6, rtol=0.0)
    kind, name, _ = _told(found)
    assert kind == "optimizer" and name.startswith("GeluFusion")  # which one, the opset decides
    assert found.fault is not None and found.fault.after == ""
    assert f'SessionOptions.add_session_config_entry("{_OFF}", "{name}")' in found.fault.advice


def test_a_decomposition() -> None:
    table = {torch.ops.aten.silu.default: _wrong_silu}
    options = {"export_options": ortable.ExportOptions(decomposition_table=table)}
    found = bisect(*around(functional.silu)(), options=options)
    assert _told(found) == ("decomposition", "aten::silu", _own_line("def _wrong_silu"))


def test_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(graph: Any) -> int:
        for node in graph.nodes:
            if node.op_type == "Tanh":
                node.op_type = node.key = "Sigmoid"
        return 1

    monkeypatch.setattr(pipeline.common_subexpressions, "merge_equal_nodes", wrong)
    found = bisect(torch.tanh, (torch.randn(5),))
    kind, name, place = _told(found)
    assert (kind, name) == ("pass", "merge_equal_nodes")
    assert place.startswith("runtime/ortable/passes/pipeline.py:")


# -- models without a fault, and what cannot be compared


@pytest.mark.parametrize("train", [False, True])
def test_a_model_without_a_fault(train: bool) -> None:
    model, args = around(functional.dropout)()
    model.train(train)
    found = bisect(model, args, train=train)
    assert found and found.fault is None
    assert found.runs == 1
    assert found.compared == (12 if train else 4)
    assert str(found) == f"nothing differs from eager: {found.compared} values compared"
    assert json.loads(found.to_json())["ok"] is True


@pytest.mark.parametrize(
    ("compared", "runs", "said"),
    [(1, 1, "(1 value compared in 1 run)"), (4, 9, "(4 values compared in 9 runs)")],
)
def test_the_report_of_a_fault_counts_values_and_runs(compared: int, runs: int, said: str) -> None:
    found = Bisection(Fault("pass", "fold_constants"), compared, runs)
    assert str(found).splitlines()[-1] == said


def test_an_operator_without_a_converter_is_an_error_of_its_own() -> None:
    with pytest.raises(ortable.FunctionNotFoundError, match="aten::relu"):
        bisect(torch.relu, (torch.randn(3),), options={"raise_on": ["aten::relu"]})


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(ortable.OptionError, match="freez"):
        bisect(torch.relu, (torch.randn(3),), options={"freez": "off"})
