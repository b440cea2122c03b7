"""A function with data-dependent control flow runs as three graphs in ONNX Runtime."""

from __future__ import annotations

import pytest
import torch

from ortable import onnx_custom_backend

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


def bar(a, b):
    x = a / (torch.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b


@pytest.mark.parametrize("dynamic", [None, False, True])
def test_three_graphs(dynamic):
    storage = {}
    compiled = torch.compile(
        bar,
        backend=lambda gm, args: onnx_custom_backend(gm, args, storage=storage),
        dynamic=dynamic,
    )
    a, b = torch.randn(10), torch.rand(10)
    for sign, graphs in ((1, 2), (-1, 3), (1, 3), (-1, 3)):
        torch.testing.assert_close(compiled(a, sign * b), bar(a, sign * b))
        assert len(storage["instance"]) == graphs
    types = [node.op_type for node in storage["instance"][0]["onnx"].graph.node]
    assert {"Abs", "Div", "ReduceSum"} <= set(types)


def test_what_explain_counts():
    explanation = torch._dynamo.explain(bar)(torch.randn(10), torch.rand(10))
    assert explanation.graph_count == 2
    assert explanation.graph_break_count == 1
    assert explanation.op_count == 5
    assert [len(ops) for ops in explanation.ops_per_graph] == [4, 1]
    assert "Graph Break Count: 1" in str(explanation)


def test_one_graph_is_refused_and_the_message_names_the_remedy():
    compiled = torch.compile(bar, backend=onnx_custom_backend, fullgraph=True)
    with pytest.raises(torch._dynamo.exc.Unsupported, match="Data-dependent branching") as error:
        compiled(torch.randn(10), torch.randn(10))
    assert "if b.sum() < 0" in str(error.value) and "cond" in str(error.value)
