"""`graph.ctx` is the only object that conversion attaches to a graph."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import pytest
import torch

from ortable.builder import GraphBuilder
from ortable.errors import BuilderError
from ortable.exporter.to_onnx import to_onnx
from ortable.interpreter.interpreter import DynamoInterpreter
from ortable.ir import Graph


def test_children_share_the_context_of_their_graph() -> None:
    graph = Graph(18, target="onnxruntime")
    child = graph.subgraph("then_branch")
    assert child.ctx is graph.ctx
    assert child.target == graph.ctx.target == "onnxruntime"


def test_a_context_is_replaced_as_a_whole() -> None:
    graph = Graph(18)
    with pytest.raises(FrozenInstanceError):
        graph.ctx.target = "onnxruntime"  # type: ignore[misc]
    graph.ctx = replace(graph.ctx, target="onnxruntime")
    assert graph.target == "onnxruntime"


@pytest.mark.parametrize("name", ["convert_subgraph", "convert_into", "find_converter"])
def test_a_graph_that_nobody_converts_has_no_conversion(name: str) -> None:
    with pytest.raises(BuilderError, match="not being converted from a torch graph"):
        getattr(Graph(18).ctx, name)(None, None)


def test_conversion_puts_nothing_but_the_context_on_a_graph() -> None:
    class Branches(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))

    x = torch.rand(2)
    attributes = set(vars(GraphBuilder(18)))
    _, builder = to_onnx(Branches(), (x,), return_builder=True)
    assert set(vars(builder)) == attributes
    assert builder.record is builder.ctx.record is not None

    exported = torch.export.export(Branches(), (x,)).run_decompositions({})
    graph = GraphBuilder(18)
    DynamoInterpreter(graph, module=exported.module()).run(exported.module())
    assert set(vars(graph)) == attributes
    assert graph.ctx.record is None
