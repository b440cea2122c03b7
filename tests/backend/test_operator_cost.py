"""Calls that cost more than torch's kernel run in torch, from the size that the table gives."""

from __future__ import annotations

import operator

import pytest
import torch

import ortable
from ortable.compat.torch import all_operator_names
from ortable.interpreter.operator_cost import find_cost_ratio
from ortable_generated import operator_cost


@pytest.fixture
def costs(monkeypatch):
    """Give the table one row: hardsigmoid of float32, from 100 elements on."""
    monkeypatch.setattr(operator_cost, "COSTS", {})
    monkeypatch.setitem(operator_cost.COSTS, "aten::hardsigmoid", {"float32": (100, 12)})
    monkeypatch.setattr("ortable.interpreter.operator_cost.COSTS", operator_cost.COSTS)


def compute(x):
    return torch.nn.functional.hardsigmoid(x @ x.t())


def placements(x, function=compute, **options):
    """The side of each operator, and the reasons of those in torch; results equal eager's."""
    storage = {}
    compiled = torch.compile(function, backend="ortable", options={"storage": storage}, **options)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), function(x))
    records = storage["instance"][0]["placement"]
    return {p.operator: p.where for p in records}, [p.why for p in records if p.where == "torch"]


def test_a_call_of_many_elements_runs_in_torch(costs):
    where, reasons = placements(torch.randn(10, 4))
    assert where == {"aten::t": "onnx", "aten::mm": "onnx", "aten::hardsigmoid": "torch"}
    assert reasons == ["its nodes take 12 times as long as torch's kernel at large sizes"]


def test_a_small_call_runs_in_onnx_runtime(costs):
    where, _ = placements(torch.randn(9, 4))
    assert set(where.values()) == {"onnx"}


@pytest.mark.parametrize(("dtype", "side"), [(torch.float64, "torch"), (torch.float32, "torch")])
def test_a_dtype_without_a_row_costs_what_its_neighbor_costs(costs, dtype, side):
    where, _ = placements(torch.randn(10, 4, dtype=dtype))
    assert where["aten::hardsigmoid"] == side


def test_cheap_neighbors_join_the_call_in_torch(costs):
    where, reasons = placements(
        torch.randn(10, 20), lambda x: (torch.nn.functional.hardsigmoid(x * 2) + 1).sin()
    )
    assert set(where.values()) == {"torch"}
    assert any("worth a session" in why for why in reasons)


def test_operators_without_a_row_take_the_general_one_of_their_dtype(costs, monkeypatch):
    monkeypatch.setitem(operator_cost.COSTS, "*", {"complex64": (100, 4)})
    x = torch.randn(10, 20, dtype=torch.complex64)
    where, reasons = placements(x, lambda x: x.t() * 2)
    assert where["aten::mul.Tensor"] == "torch"
    assert "its nodes take 4 times as long as torch's kernel at large sizes" in reasons
    where, _ = placements(x[:4], lambda x: x.t() * 2)
    assert set(where.values()) == {"onnx"}


def test_taking_one_of_several_results_is_no_operator(costs, monkeypatch):
    monkeypatch.setitem(operator_cost.COSTS, "*", {"complex64": (100, 4)})
    graph = torch.fx.Graph()
    pair = graph.placeholder("pair")
    pair.meta["val"] = [torch.zeros(200, dtype=torch.complex64)] * 2
    item = graph.call_function(operator.getitem, (pair, 0))
    item.meta["val"] = pair.meta["val"][0]
    assert find_cost_ratio(item) is None
    assert find_cost_ratio(graph.call_function(torch.ops.aten.sin.default, (item,))) == 4


def test_dynamic_sizes_count_as_they_were_traced(costs):
    where, _ = placements(torch.randn(10, 4), dynamic=True)
    assert where["aten::hardsigmoid"] == "torch"
    torch._dynamo.reset()
    where, _ = placements(torch.randn(5, 4), dynamic=True)
    assert where["aten::hardsigmoid"] == "onnx"


def test_the_report_of_an_export_names_slow_calls(costs):
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
    present = all_operator_names()  # newer torch lacks aten::qr
    for name, row in operator_cost.COSTS.items():
        assert name in dispatch.CONVERTERS or name not in present, name
        assert name not in traits.VIEW, f"{name} is a view: torch moves no data"
        assert all(start > 0 and ratio >= 1 for start, ratio in row.values()), operator
