"""A spec file alone adds an operator with a trait, and a Python function on numbers of a graph."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import ortable
from ortable.builder import GraphBuilder
from ortable.errors import OrtableError, SpecError
from ortable.interpreter import tables
from ortable.interpreter.assertions import run_time_checks
from ortable.interpreter.interpreter import DynamoInterpreter
from ortable.testing import entries as harness
from ortable_generated.aten import dispatch, traits
from tests.onnx_runs import run

LIBRARY = torch.library.Library("ortable_test_traits", "DEF")
LIBRARY.define("rows_of(Tensor x) -> SymInt")
LIBRARY.impl("rows_of", lambda x: x.shape[0], "CompositeExplicitAutograd")
LIBRARY.define("must_hold(Tensor condition, str message) -> Tensor")
LIBRARY.impl("must_hold", lambda c, message: c.clone(), "CompositeExplicitAutograd")


@pytest.fixture(autouse=True)
def _restore_tables():
    all_tables = [getattr(traits, name) for name in vars(traits) if name.isupper()]
    all_tables += [dispatch.NUMBERS, dispatch.CONDITIONS, dispatch.PARAMETERS]
    saved = [set(table) if isinstance(table, set) else dict(table) for table in all_tables]
    loaded = len(tables.LOADED_SPECS)
    yield
    for table, entries in zip(all_tables, saved, strict=True):
        table.clear()
        table.update(entries)
    del tables.LOADED_SPECS[loaded:]


def _load(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    ortable.load_specs(path)


def _check(module: torch.nn.Module, edit: Callable[[Any], None] = lambda program: None) -> None:
    """Compare the exported model of ``module`` with eager at two sizes."""
    program = torch.export.export(
        module, (torch.ones(4, 3),), dynamic_shapes=({0: torch.export.Dim("n", min=2, max=64)},)
    )
    edit(program)
    converted = ortable.to_onnx(program)
    for rows in (4, 7):
        x = torch.arange(3.0 * rows).reshape(rows, 3)
        torch.testing.assert_close(run(converted, x), [module(x)], rtol=1e-6, atol=0)


class AddsSize(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + x.shape[0]


def _use_rows_of(program: torch.export.ExportedProgram) -> None:
    """Replace torch's sym_size by the library's operator."""
    for node in program.graph.nodes:
        if node.target is torch.ops.aten.sym_size.int:
            node.target = torch.ops.ortable_test_traits.rows_of.default
            node.args = node.args[:1]


def test_an_operator_that_reads_a_size_needs_its_trait_only(tmp_path: Path) -> None:
    with pytest.raises(OrtableError, match="ortable_test_traits::rows_of"):
        _check(AddsSize(), _use_rows_of)
    _load(
        tmp_path,
        """
- op: ortable_test_traits::rows_of(Tensor x) -> SymInt
  traits: [size]
""",
    )
    _check(AddsSize(), _use_rows_of)
    assert "ortable_test_traits::rows_of" not in dispatch.CONVERTERS


def test_an_assertion_of_a_library_needs_its_traits_only(tmp_path: Path) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        torch.ops.ortable_test_traits.must_hold(x.sum() > 0, "a positive sum")
        return x + 1

    graph = make_fx(function, tracing_mode="fake")(torch.ones(2)).graph
    assert run_time_checks(graph) == []
    _load(
        tmp_path,
        """
- op: ortable_test_traits::must_hold(Tensor condition, str message) -> Tensor
  traits: [assertion, condition]
""",
    )
    assert [check.message for check in run_time_checks(graph)] == ["a positive sum"]


def _scale_by_log2(x: torch.Tensor) -> torch.Tensor:
    return x * torch._sym_log2(x.shape[0])


def _check_scaled() -> None:
    """Compare the graph of ``_scale_by_log2``, traced with symbolic sizes, with eager."""
    graph = GraphBuilder(18)
    interpreter = DynamoInterpreter(graph)
    interpreter.run(make_fx(_scale_by_log2, tracing_mode="symbolic")(torch.ones(4, 3)))
    (record,) = interpreter.inputs
    for rows in (4, 7):
        x = torch.arange(3.0 * rows).reshape(rows, 3)
        (result,) = harness.run_onnx(graph.to_onnx(), {record.name: x})
        torch.testing.assert_close(result, _scale_by_log2(x), rtol=1e-6, atol=0)


LOG2 = """
- number: math.log2(float x)
  lower: return Div(Log(x), const(0.6931471805599453, float64))
"""


def test_a_function_on_numbers_needs_its_row_only(tmp_path: Path) -> None:
    with pytest.raises(OrtableError, match="no ONNX form"):
        _check_scaled()
    _load(tmp_path, LOG2)
    _check_scaled()


def test_a_row_takes_the_place_of_another_when_asked(tmp_path: Path) -> None:
    _load(tmp_path, LOG2)
    with pytest.raises(SpecError, match=r"math\.log2; pass override=True"):
        _load(tmp_path, LOG2)
