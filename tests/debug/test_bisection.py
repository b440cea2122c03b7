"""`ortable.bisect` reports the line of each of 30 faults, and no fault in a correct model."""

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
    Mutant,
    around,
    changed_entry,
    changed_rule,
    find_case_line,
    restore_tables,
)


@pytest.fixture(autouse=True)
def _clear_conversions() -> Iterator[None]:
    conversions.clear()
    yield
    conversions.clear()
    torch.compiler.reset()


@pytest.mark.alternates(parts=3)
@pytest.mark.parametrize("fault", ENTRIES, ids=lambda fault: fault.name)
def test_a_changed_entry_is_named_with_its_line(fault: Mutant, tmp_path: Path) -> None:
    model, args = fault.call()
    with changed_entry(fault, tmp_path):
        result = bisect(model, args, train=fault.train, dynamic=fault.dynamic)
    assert result.fault is not None
    assert (result.fault.kind, result.fault.name) == ("entry", fault.name), str(result)
    assert result.fault.place == f"{fault.file}:{find_case_line(fault, f'op: {fault.name}')}"
    assert "faults.py" in result.fault.source
    assert not result.fault.after


@pytest.mark.alternates(parts=3)
@pytest.mark.parametrize("fault", RULES, ids=lambda fault: fault.name)
def test_a_changed_rule_is_named_with_its_line(
    fault: Mutant, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, args = fault.call()
    with changed_rule(fault, monkeypatch):
        result = bisect(model, args, train=fault.train, dynamic=fault.dynamic, export=fault.export)
    assert result.fault is not None
    assert (result.fault.kind, result.fault.name) == ("rule", fault.name), str(result)
    assert result.fault.place == f"{fault.file}:{find_case_line(fault, f'rewrite: {fault.name}')}"
    assert not result.fault.after


# -- options, optimizers, cached conversions


def _find_line(file: str, text: str) -> int:
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def _optimizer_location(name: str) -> str:
    """Return file and line of an optimizer in the specs.

    An installed package also finds the file, since tests run in the root of a checkout.
    """
    return f"{OPTIMIZERS}:{_find_line(OPTIMIZERS, f'name: {name}')}"


def _locate_here(text: str) -> str:
    return f"{__file__}:{_find_line(__file__, text)}"


def _get_fault(result: Bisection) -> tuple[str, str, str]:
    assert result.fault is not None
    return result.fault.kind, result.fault.name, result.fault.place


def test_a_setting_of_the_session() -> None:
    settings = {"optimization.enable_gelu_approximation": "1", "log_severity_level": 3}
    options = {"session_options": settings, "target_opset": 18}
    result = bisect(functional.gelu, (torch.linspace(-3, 3, 50),), options=options)
    name = "session_options['optimization.enable_gelu_approximation']"
    assert _get_fault(result) == ("option", name, "")
    assert result.fault is not None
    assert not result.fault.after


def test_weights_that_are_rounded() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
    result = bisect(model.eval(), (torch.randn(4, 64),), options={"weights": "int8"})
    assert _get_fault(result) == ("option", "weights='int8'", "")


def _set_doc(model: onnx.ModelProto) -> None:
    model.doc_string = "seen"


def _replace_tanh(model: onnx.ModelProto) -> None:
    for node in model.graph.node:
        node.op_type = "Sigmoid" if node.op_type == "Tanh" else node.op_type


def test_a_function_over_models() -> None:
    result = bisect(
        torch.tanh,
        (torch.randn(5),),
        options={"pre_ort_model_transforms": [_set_doc, _replace_tanh]},
    )
    assert _get_fault(result) == ("transform", "_replace_tanh", _locate_here("def _replace_tanh"))


class _HiddenWrite(torch.nn.Module):
    """A module whose buffer changes in a way that torch does not notice."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("gain", torch.ones(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * self.gain
        _add_one(self.gain)
        return y


@torch.compiler.disable
def _add_one(weight: torch.Tensor) -> None:
    weight.detach().numpy()[:] += 1.0


def test_trust_in_weights_that_change() -> None:
    model = _HiddenWrite().eval()
    result = bisect(model, (torch.randn(4, 6),), options={"freeze": "trust"})
    assert _get_fault(result)[:2] == ("option", "freeze='trust'")


def test_a_kept_conversion_of_another_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, args = RULES[0].call()
    options = {"cache_dir": str(tmp_path)}
    with changed_rule(RULES[0], monkeypatch), torch.no_grad():
        torch.compile(model, backend="ortable", options=options)(*args)
    conversions.clear()
    torch.compiler.reset()
    result = bisect(model, args, options=options)
    kind, name, place = _get_fault(result)
    assert (kind, name) == ("cache", "disk")
    assert Path(place).parent == tmp_path
    assert Path(place).exists()


OPTIMIZERS = "specs/runtime/optimizers.yaml"
_KEY = "optimization.disable_specified_optimizers"


def _gelu_of_1_4142(x: torch.Tensor) -> torch.Tensor:
    return 0.5 * x * (1 + torch.erf(x / 1.4142))


def test_an_optimizer_that_is_wrong() -> None:
    """ONNX Runtime treats 1.4142 as sqrt(2), an error within the default tolerance."""
    x = torch.linspace(-2, 2, 40)
    assert bisect(_gelu_of_1_4142, (x,))
    result = bisect(_gelu_of_1_4142, (x,), atol=1e-6, rtol=0.0)
    kind, name, place = _get_fault(result)
    assert (kind, name) == ("optimizer", "GeluFusionL1")
    assert place == _optimizer_location("GeluFusionL1")
    assert result.fault is not None
    assert _KEY in result.fault.advice


class _WrongSession(onnxruntime.InferenceSession):
    """A session whose optimizer ConvActivationFusion replaces Tanh by Sigmoid."""

    def __init__(self, model: bytes, options: Any, **kwargs: Any) -> None:
        disabled = list(kwargs.get("disabled_optimizers") or ())
        with contextlib.suppress(RuntimeError):  # the session config has no such entry
            disabled += options.get_session_config_entry(_KEY).split(";")
        if "ConvActivationFusion" not in disabled:
            proto = onnx.load_from_string(model)
            _replace_tanh(proto)
            model = proto.SerializeToString()
        super().__init__(model, options, **kwargs)


def test_an_optimizer_that_fuses_wrongly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnxruntime, "InferenceSession", _WrongSession)
    result = bisect(*around(torch.tanh)())
    place = _optimizer_location("ConvActivationFusion")
    assert _get_fault(result) == ("optimizer", "ConvActivationFusion", place)
    assert result.fault is not None
    assert not result.fault.after


def test_an_entry_in_an_export(tmp_path: Path) -> None:
    fault = ENTRIES[0]
    with changed_entry(fault, tmp_path):
        result = bisect(*fault.call(), export=True)
    place = f"{fault.file}:{find_case_line(fault, f'op: {fault.name}')}"
    assert _get_fault(result) == ("entry", fault.name, place)
    assert result.fault is not None and result.fault.after == "not tried"
    assert result.fault.advice == "Please report it with this text."  # no export option avoids it


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
    result = bisect(
        lambda x: (x + x) * 0.5, (torch.randn(4),), options={"rewrites": ["default", str(file)]}
    )
    assert _get_fault(result) == ("rule", "half_of_twice", f"{file}:2")
    assert result.fault is not None
    assert f"rewrites=['default', '{file}', '-half_of_twice']" in result.fault.advice
    assert (
        f"Fix it at {file}:2, and then run `ortable rewrites check {file}`." in result.fault.advice
    )


class _SymbolicHalf(torch.nn.Module):
    """Half of twice a tensor of zeros, by a symbolic operator, whose result in eager is zeros."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * 0
        return torch.onnx.ops.symbolic(
            "Mul", (y + y, torch.tensor(0.5)), dtype=x.dtype, shape=x.shape,
            metadata_props={"note": "has its own metadata"},
        )  # fmt: skip


def test_a_rule_on_a_node_with_its_own_metadata(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(RULE_OF_A_USER.replace("Neg", "Cos"))
    model = torch.nn.Sequential(_SymbolicHalf())
    options = {"rewrites": ["default", str(file)]}
    result = bisect(model, (torch.randn(4),), export=True, options=options)
    assert _get_fault(result) == ("rule", "half_of_twice", f"{file}:2")
    assert result.fault is not None and result.fault.module == "0"
    assert "torch.onnx.ops.symbolic(" in result.fault.source


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
    with restore_tables("aten::relu"):
        ortable.load_specs(file, override=True)
        result = bisect(torch.relu, (torch.randn(4),))
    assert _get_fault(result) == ("entry", "aten::relu", f"{file}:7")
    assert result.fault is not None
    assert f"Fix it at {file}:7, and then run `ortable specs test {file}`." in result.fault.advice


def _wrong_silu(x: torch.Tensor) -> torch.Tensor:
    return x * torch.sigmoid(x + 1)


def test_an_optimizer_in_an_export() -> None:
    """The advice is for the user's own session, which runs the exported model."""
    model = torch.nn.Module()
    model.forward = _gelu_of_1_4142
    result = bisect(model, (torch.linspace(-2, 2, 40),), export=True, atol=1e-6, rtol=0.0)
    kind, name, _ = _get_fault(result)
    assert kind == "optimizer" and name.startswith("GeluFusion")  # its level varies with the opset
    assert result.fault is not None and result.fault.after == ""
    assert f'SessionOptions.add_session_config_entry("{_KEY}", "{name}")' in result.fault.advice


def test_a_decomposition() -> None:
    table = {torch.ops.aten.silu.default: _wrong_silu}
    options = {"export_options": ortable.ExportOptions(decomposition_table=table)}
    result = bisect(*around(functional.silu)(), options=options)
    assert _get_fault(result) == ("decomposition", "aten::silu", _locate_here("def _wrong_silu"))


def test_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    def replace_tanh(graph: Any) -> int:
        for node in graph.nodes:
            if node.op_type == "Tanh":
                node.op_type = node.key = "Sigmoid"
        return 1

    monkeypatch.setattr(pipeline.common_subexpressions, "merge_equal_nodes", replace_tanh)
    result = bisect(torch.tanh, (torch.randn(5),))
    kind, name, place = _get_fault(result)
    assert (kind, name) == ("pass", "merge_equal_nodes")
    assert place.startswith("runtime/ortable/passes/pipeline.py:")


# -- models without a fault, and calls that bisect rejects


@pytest.mark.parametrize("train", [False, True])
def test_a_model_without_a_fault(train: bool) -> None:
    model, args = around(functional.dropout)()
    model.train(train)
    result = bisect(model, args, train=train)
    assert result and result.fault is None
    assert result.runs == 1
    assert result.compared == (12 if train else 4)
    assert str(result) == f"nothing differs from eager: {result.compared} values compared"
    assert json.loads(result.to_json())["ok"] is True


@pytest.mark.parametrize(
    ("compared", "runs", "text"),
    [(1, 1, "(1 value compared in 1 run)"), (4, 9, "(4 values compared in 9 runs)")],
)
def test_the_report_of_a_fault_counts_values_and_runs(compared: int, runs: int, text: str) -> None:
    result = Bisection(Fault("pass", "fold_constants"), compared, runs)
    assert str(result).splitlines()[-1] == text


def test_an_operator_without_a_converter_is_an_error_of_its_own() -> None:
    with pytest.raises(ortable.FunctionNotFoundError, match="aten::relu"):
        bisect(torch.relu, (torch.randn(3),), options={"raise_on": ["aten::relu"]})


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(ortable.OptionError, match="freez"):
        bisect(torch.relu, (torch.randn(3),), options={"freez": "off"})
