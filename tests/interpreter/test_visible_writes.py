"""A write is found where an operator has an argument to write into, in subgraphs too."""

from __future__ import annotations

import pytest
import torch
from torch.fx import Graph, GraphModule

import ortable
from ortable.errors import ExportError
from ortable.interpreter.mutation import write_reason

FLAGS = {"aten::batch_norm": "training"}


@pytest.mark.parametrize(
    ("running", "training", "writes"),
    [(True, True, True), (True, False, False), (False, True, False)],
)
def test_a_normalisation_writes_the_statistics_that_it_has(
    running: bool, training: bool, writes: bool
) -> None:
    graph = Graph()
    x, mean, var = (graph.placeholder(name) for name in ("x", "mean", "var"))
    statistics = (mean, var) if running else (None, None)
    arguments = (x, None, None, *statistics, training, 0.1, 1e-5, False)
    node = graph.call_function(torch.ops.aten.batch_norm.default, arguments)
    reason = write_reason(node, FLAGS)
    assert (reason is not None) == writes
    if writes:
        assert reason == "training=True makes it update its running statistics in place"


def test_an_operator_whose_schema_writes_writes() -> None:
    graph = Graph()
    x = graph.placeholder("x")
    assert write_reason(graph.call_function(torch.ops.aten.relu_.default, (x,)), FLAGS)
    assert write_reason(graph.call_function(torch.ops.aten.relu.default, (x,)), FLAGS) is None


@pytest.mark.parametrize("kind", ["branch", "called module"])
def test_a_subgraph_that_writes_into_its_input_is_refused(kind: str) -> None:
    outer, inner = Graph(), Graph()
    written = inner.call_function(torch.ops.aten.relu_.default, (inner.placeholder("x"),))
    inner.output((written,))
    x = outer.placeholder("x")
    if kind == "branch":
        condition = outer.call_function(torch.ops.aten.any.default, (x,))
        operands = (condition, outer.get_attr("inner"), outer.get_attr("inner"), (x,))
        result = outer.call_function(torch.ops.higher_order.cond, operands)
    else:
        result = outer.call_module("inner", (x,))
    outer.output(result)
    module = GraphModule({"inner": GraphModule({}, inner)}, outer)
    with pytest.raises(ExportError, match=r"cannot be converted as it is.*Give example inputs"):
        ortable.to_onnx(module)
