"""A function of operator calls as a graph of these calls, without torch's tracing: each call is a
node whose target is the overload that the text names, so overloads that torch.export decomposes or
replaces meet their converters, too. In come a function and its inputs, out goes a GraphModule.
Called by `oracle`, and by scripts of finds."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from ortable.compat.torch import FakeTensorMode, OpOverload, pytree


class NotNodes(Exception):
    """The function does more than call operators, or one of them writes."""


class _Value:
    """A result on its way: its node, and its items as nodes."""

    def __init__(self, node: Node) -> None:
        self.node = node

    def __getitem__(self, place: int) -> _Value:
        if not isinstance(self.node.meta["val"], (list, tuple)):
            raise NotNodes("a part of a tensor is read")
        item = self.node.graph.call_function(operator.getitem, (self.node, place))
        item.meta["val"] = self.node.meta["val"][place]
        return _Value(item)

    def __getattr__(self, name: str) -> Any:
        raise NotNodes(f"the method {name} of a tensor is called")


class _Torch:
    """What ``torch`` means in the function: ``torch.ops`` makes nodes."""

    def __init__(self, graph: Graph) -> None:
        self.ops = _Path(graph, torch.ops)

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)


class _Path:
    """``torch.ops``, a namespace of it, or a packet: the overload at its end makes a node."""

    def __init__(self, graph: Graph, found: Any) -> None:
        self._graph, self._found = graph, found

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._found, name)
        if isinstance(found, OpOverload):
            return lambda *args, **kwargs: _called(self._graph, found, args, kwargs)
        return _Path(self._graph, found)


def _called(graph: Graph, target: OpOverload, args: Any, kwargs: Any) -> _Value:
    if target._schema.is_mutable:
        raise NotNodes(f"{target.name()} writes")
    args, kwargs = pytree.tree_map_only(_Value, lambda each: each.node, (args, kwargs))
    node = graph.call_function(target, args, kwargs)
    args, kwargs = pytree.tree_map_only(Node, lambda each: each.meta["val"], (args, kwargs))
    node.meta["val"] = target(*args, **kwargs)
    return _Value(node)


def graph_of(forward: Callable[..., Any], inputs: Sequence[torch.Tensor]) -> GraphModule:
    """The graph; raises NotNodes for a function of more than calls of operators."""
    graph, mode = Graph(), FakeTensorMode(shape_env=ShapeEnv(), static_shapes=True)
    given = []
    for place, tensor in enumerate(inputs):
        node = graph.placeholder(f"x{place}")
        node.meta["val"] = mode.from_tensor(tensor)
        given.append(_Value(node))
    assert isinstance(forward, FunctionType)
    words = {**forward.__globals__, "torch": _Torch(graph)}
    with mode, torch.no_grad():
        found = FunctionType(forward.__code__, words)(*given)
    graph.output(tuple(each.node for each in found))
    return GraphModule(torch.nn.Module(), graph)
