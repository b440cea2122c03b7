"""Constants inside branches and loop bodies, which torch cannot functionalise: ``y[0] = 5.0`` in
a branch is a 0-d tensor of that branch's graph. While torch rewrites a program they are made by
an operator instead. Called by functionalize.py, around each rewriting."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.fx import Graph, GraphModule, Node

from ortable.compat.undone import undone


@contextmanager
def scalars_as_operators(graph_module: GraphModule) -> Iterator[None]:
    """In the block, the graphs inside ``graph_module`` have no 0-d constants; afterwards it is as
    before."""
    replaced = []
    for owner in list(graph_module.modules()):
        for name, inner in list(owner.named_children()):
            if isinstance(inner, GraphModule) and any(_scalar(inner, n) for n in inner.graph.nodes):
                replaced.append((owner, name, inner))

    def undo() -> None:
        for owner, name, inner in replaced:
            setattr(owner, name, inner)

    with undone(undo):
        for owner, name, inner in reversed(replaced):  # the innermost first: copies hold copies
            setattr(owner, name, _without_scalars(inner))
        yield


def _scalar(graph_module: GraphModule, node: Node) -> torch.Tensor | None:
    if node.op != "get_attr" or "." in str(node.target):
        return None
    found = getattr(graph_module, str(node.target), None)
    return found if isinstance(found, torch.Tensor) and found.dim() == 0 else None


def _without_scalars(graph_module: GraphModule) -> GraphModule:
    graph = Graph()
    known: dict[Node, Node] = {}
    for node in graph_module.graph.nodes:
        value = _scalar(graph_module, node)
        if value is None:
            known[node] = graph.node_copy(node, known.__getitem__)
        else:
            known[node] = graph.call_function(
                torch.ops.aten.scalar_tensor.default, (value.item(),), {"dtype": value.dtype}
            )
            known[node].meta = dict(node.meta)
    return GraphModule(graph_module, graph)
