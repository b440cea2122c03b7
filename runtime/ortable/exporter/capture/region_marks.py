"""Regions that torch writes out when it decomposes a graph (no_grad, autocast): their nodes keep
the submodule that they come from, and those of autocast a mark, so that they can be one
function. Without this, torch gives them all the metadata of the region's own node. Called by
functionalize.py, around each rewriting."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Interpreter, Node

from ortable.compat.torch import HigherOrderOperator
from ortable.compat.undone import undone
from ortable.exporter.request.module_calls import AUTOCAST
from ortable.interpreter.control_flow import call_of
from ortable.interpreter.modules import find_attribute
from ortable_generated.aten import traits


class _Region(torch.nn.Module):
    """Runs the graph of a region node by node, which makes torch keep the metadata of each."""

    def __init__(self, graph_module: GraphModule) -> None:
        super().__init__()
        self.graph_module = graph_module

    def forward(self, *operands: Any) -> Any:
        """What the graph returns."""
        return Interpreter(self.graph_module).run(*operands)


@contextmanager
def marked_regions(graph_module: GraphModule) -> Iterator[None]:
    """Replace the graphs of the regions for as long as the block runs; the program is left as it
    was."""
    replaced: dict[str, GraphModule] = {}

    def undo() -> None:
        for path, original in replaced.items():
            setattr(graph_module, path, original)

    with undone(undo):
        _mark(graph_module, replaced)
        yield


def _mark(graph_module: GraphModule, replaced: dict[str, GraphModule]) -> None:
    """Puts marked copies into a graph; ``replaced`` gets what was there."""
    for node in graph_module.graph.nodes:
        name = getattr(node.target, "__name__", "")
        if name not in traits.REGION or not isinstance(node.target, HigherOrderOperator):
            continue
        call = call_of(name)
        assert call is not None
        held: Any = node.args[call.before]
        path = str(held.target)
        inner = find_attribute(graph_module, path, None)
        if not isinstance(inner, GraphModule) or "." in path:
            continue
        copy = _copy(inner, node)
        _mark(copy, {})
        replaced[path] = inner
        setattr(graph_module, path, _Region(copy))


def _copy(inner: GraphModule, node: Node) -> GraphModule:
    """The graph of a region with copies of its nodes, marked when the region casts."""
    graph = Graph()
    found: dict[Node, Node] = {}
    returned = graph.graph_copy(inner.graph, found)
    graph.output(returned)
    flag = traits.CASTS.get(node.target.__name__)  # type: ignore[union-attr]
    if flag is not None and node.args[flag]:
        around = dict(node.meta.get("nn_module_stack") or {})
        path = next(reversed(around.values()))[0] if around else ""
        for made in found.values():
            stack = dict(made.meta.get("nn_module_stack") or {})
            rest = {key: entry for key, entry in stack.items() if key not in around}
            mark = {f"autocast:{node.name}": (path, AUTOCAST)}
            made.meta = {**made.meta, "nn_module_stack": {**around, **mark, **rest}}
    return GraphModule(inner, graph)
