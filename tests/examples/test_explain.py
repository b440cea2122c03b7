"""torch._dynamo.explain on a function with one graph break."""

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


def test_counts():
    explained = torch._dynamo.explain(bar)(torch.randn(10), torch.rand(10))
    assert explained.graph_count == 2
    assert explained.graph_break_count == 1
    assert explained.op_count == 5
    assert [len(ops) for ops in explained.ops_per_graph] == [4, 1]
    assert "Graph Break Count: 1" in str(explained)


def test_the_graphs_that_explain_counts_run_with_ortable():
    storage = {}
    compiled = torch.compile(
        bar, backend=lambda gm, args: onnx_custom_backend(gm, args, storage=storage)
    )
    a, b = torch.randn(10), torch.rand(10)
    torch.testing.assert_close(compiled(a, b), bar(a, b))
    assert len(storage["instance"]) == 2


def test_a_linear_layer_does_not_break():
    class MyModule(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = torch.nn.Linear(10, 2)

        def forward(self, x):
            return torch.nn.functional.relu(self.lin(x))

    model = MyModule()
    inp = torch.randn(8, 10)
    got = torch.compile(model, backend=onnx_custom_backend, fullgraph=True)(inp)
    torch.testing.assert_close(got, model(inp))
    assert got.grad_fn is not None
