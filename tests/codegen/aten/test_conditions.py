"""A case of `lower` is selected if its target, opset and `when` condition all hold."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from ortable import dtypes
from ortable.ir.versions import OLDEST_TARGET_OPSET, ORT_MAX_OPSET
from ortablegen.aten.check import check_specs
from ortablegen.aten.emit import family_text
from ortablegen.aten.read import read_text
from ortablegen.source.diagnostics import Diagnostics

_ENTRY = """\
- op: aten::tril(Tensor self, SymInt diagonal=0) -> Tensor
  types: {T: float32 int64}
  out: {shape: same(self), dtype: same(self)}
  lower:
    - %sdo: return Neg(self)
    - when: diagonal == 1
      do: return Abs(self)
    - do: return Identity(self)
  samples: [{self: "f32[2,3]"}]
"""
# each condition as a function of `diagonal` and of whether `self` is float
CONDITIONS: dict[str, Callable[[int, bool], bool]] = {
    "diagonal == 0": lambda d, f: d == 0,
    "diagonal == 0 or diagonal == 2": lambda d, f: d in (0, 2),
    "diagonal == 0 or diagonal == 2 and is_float(self)": lambda d, f: d == 0 or (d == 2 and f),
    "(diagonal == 0 or diagonal == 2) and is_float(self)": lambda d, f: d in (0, 2) and f,
    "diagonal == 0 if is_float(self) else diagonal == 2": lambda d, f: d == (0 if f else 2),
    "not is_float(self) and diagonal == 2": lambda d, f: d == 2 and not f,
    "not is_float(self) or diagonal == 2": lambda d, f: d == 2 or not f,
}
OPSET = 20


class _Graph:
    """A graph whose nodes are just their operator names."""

    def __init__(self, target: str | None, opset: int, dtype: int) -> None:
        self.target, self.opset, self.dtype, self.case = target, opset, dtype, 0

    def make_node(self, op: str, inputs: list[str], outputs: Any) -> str:
        return op

    def get_type(self, name: str) -> int:
        return self.dtype


def _compile_converter(case_keys: str) -> Any:
    diagnostics = Diagnostics()
    specs = read_text(_ENTRY % case_keys, "conditions.yaml", diagnostics)
    check_specs(specs, diagnostics)
    diagnostics.raise_if_any()
    namespace: dict[str, Any] = {}
    exec(family_text(specs, "conditions.yaml"), namespace)
    return namespace["aten_tril"]


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("target", [None, "onnxruntime"])
@pytest.mark.parametrize("opset", [None, f">={OPSET}", f"<{OPSET}"])
def test_a_case_is_taken_when_all_of_it_holds(
    opset: str | None, target: str | None, condition: str
) -> None:
    case_keys = f"when: {condition}\n      "
    case_keys += f"target: {target}\n      " if target else ""
    case_keys += f'opset: "{opset}"\n      ' if opset else ""
    convert = _compile_converter(case_keys)
    versions = (OLDEST_TARGET_OPSET, OPSET - 1, OPSET, ORT_MAX_OPSET)
    for graph_target, version, dtype, diagonal in itertools.product(
        (None, "onnxruntime"), versions, (dtypes.float32, dtypes.int64), (0, 1, 2, 3)
    ):
        graph = _Graph(graph_target, version, dtype)
        op = convert(graph, SimpleNamespace(outputs=["y"]), "x", diagonal)
        holds = CONDITIONS[condition](diagonal, dtype == dtypes.float32)
        holds = holds and (target is None or graph_target == target)
        if opset is not None:
            holds = holds and (version >= OPSET) == opset.startswith(">=")
        expected = "Neg" if holds else "Abs" if diagonal == 1 else "Identity"
        assert op == expected, (graph_target, version, dtype, diagonal)
        assert graph.case == {"Neg": 1, "Abs": 2, "Identity": 3}[op]
