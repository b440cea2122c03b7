"""Calls that cost more than torch's kernel run in torch, from a size in the table upwards."""

from __future__ import annotations

import operator

import pytest
import torch

import ortable
from ortable.compat.torch import all_operator_names
from ortable.interpreter.operator_cost import find_cost_ratio
from ortable_generated import operator_cost


@pytest.fixture
def cost_table(monkeypatch):
    """Give the table one row: hardsigmoid of float32, from 100 elements on."""
    monkeypatch.setattr(operator_cost, "COSTS", {})
    monkeypatch.setitem(operator_cost.COSTS, "aten::hardsigmoid", {"float32": (100, 12)})
    monkeypatch.setattr("ortable.interpreter.operator_cost.COSTS", operator_cost.COSTS)


def compute(x):
    return torch.nn.functional.hardsigmoid(x @ x.t())


def run_and_place(x, function=compute, **options):
    """Compare results with eager; return the side of each operator and the reasons for torch."""
    storage = {}
    compiled = torch.compile(function, backend="ortable", options={"storage": storage}, **options)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), function(x))
    placements = storage["instance"][0]["placement"]
    return {p.operator: p.where for p in placements}, [
        p.why for p in placements if p.where == "torch"
    ]


def test_a_call_of_many_elements_runs_in_torch(cost_table):
    sides, reasons = run_and_place(torch.randn(10, 4))
    assert sides == {"aten::t": "onnx", "aten::mm": "onnx", "aten::hardsigmoid": "torch"}
    assert reasons == ["its nodes take 12 times as long as torch's kernel at large sizes"]


def test_a_small_call_runs_in_onnx_runtime(cost_table):
    sides, _ = run_and_place(torch.randn(9, 4))
    assert set(sides.values()) == {"onnx"}


@pytest.mark.parametrize(("dtype", "side"), [(torch.float64, "torch"), (torch.float32, "torch")])
def test_a_dtype_without_a_row_costs_what_its_neighbor_costs(cost_table, dtype, side):
    sides, _ = run_and_place(torch.randn(10, 4, dtype=dtype))
    assert sides["aten::hardsigmoid"] == side


def test_cheap_neighbors_join_the_call_in_torch(cost_table):
    sides, reasons = run_and_place(
        torch.randn(10, 20), lambda x: (torch.nn.functional.hardsigmoid(x * 2) + 1).sin()
    )
    assert set(sides.values()) == {"torch"}
    assert any("worth a session" in reason for reason in reasons)


def test_operators_without_a_row_take_the_general_one_of_their_dtype(cost_table, monkeypatch):
    monkeypatch.setitem(operator_cost.COSTS, "*", {"complex64": (100, 4)})
    x = torch.randn(10, 20, dtype=torch.complex64)
    sides, reasons = run_and_place(x, lambda x: x.t() * 2)
    assert sides["aten::mul.Tensor"] == "torch"
    assert "its nodes take 4 times as long as torch's kernel at large sizes" in reasons
    sides, _ = run_and_place(x[:4], lambda x: x.t() * 2)
    assert set(sides.values()) == {"onnx"}


def test_taking_one_of_several_results_is_no_operator(cost_table, monkeypatch):
    monkeypatch.setitem(operator_cost.COSTS, "*", {"complex64": (100, 4)})
    graph = torch.fx.Graph()
    pair = graph.placeholder("pair")
    pair.meta["val"] = [torch.zeros(200, dtype=torch.complex64)] * 2
    item = graph.call_function(operator.getitem, (pair, 0))
    item.meta["val"] = pair.meta["val"][0]
    assert find_cost_ratio(item) is None
    assert find_cost_ratio(graph.call_function(torch.ops.aten.sin.default, (item,))) == 4


def test_dynamic_sizes_count_as_they_were_traced(cost_table):
    sides, _ = run_and_place(torch.randn(10, 4), dynamic=True)
    assert sides["aten::hardsigmoid"] == "torch"
    torch._dynamo.reset()
    sides, _ = run_and_place(torch.randn(5, 4), dynamic=True)
    assert sides["aten::hardsigmoid"] == "onnx"


def test_the_report_of_an_export_names_slow_calls(cost_table):
    class Model(torch.nn.Module):
        def forward(self, x):
            return compute(x)

    report = str(ortable.export(Model(), (torch.randn(10, 4),)).report)
    assert "## Slow operators" in report
    assert "| aten::hardsigmoid | 12 | test_operator_cost.py" in report
    assert "## Slow operators" not in str(ortable.export(Model(), (torch.randn(3, 4),)).report)


def test_the_table_holds_operators_that_ortable_converts():
    from ortable_generated.aten import dispatch, traits

    assert operator_cost.COSTS
    torch_operators = all_operator_names()  # newer torch lacks aten::qr
    for name, row in operator_cost.COSTS.items():
        assert name in dispatch.CONVERTERS or name not in torch_operators, name
        assert name not in traits.VIEW, f"{name} is a view: torch moves no data"
        assert all(size > 0 and ratio >= 1 for size, ratio in row.values()), operator
