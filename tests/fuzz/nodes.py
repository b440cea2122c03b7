"""Make a graph from a function of operator calls without torch's tracing.

Overloads that torch.export decomposes or replaces reach their converters, too.
"""

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
    """The function does more than call operators, or an operator writes in place."""


class _Value:
    """A result: a node whose items are nodes."""

    def __init__(self, node: Node) -> None:
        self.node = node

    def __getitem__(self, index: int) -> _Value:
        if not isinstance(self.node.meta["val"], (list, tuple)):
            raise NotNodes("the function indexes a tensor")
        item = self.node.graph.call_function(operator.getitem, (self.node, index))
        item.meta["val"] = self.node.meta["val"][index]
        return _Value(item)

    def __getattr__(self, name: str) -> Any:
        raise NotNodes(f"the function calls the method {name} of a tensor")


class _Torch:
    """Stands for ``torch`` in the function; operators of ``torch.ops`` make nodes."""

    def __init__(self, graph: Graph) -> None:
        self.ops = _Path(graph, torch.ops)

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)


class _Path:
    """``torch.ops``, a namespace or a packet; an overload makes a node."""

    def __init__(self, graph: Graph, target: Any) -> None:
        self._graph, self._target = graph, target

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._target, name)
        if isinstance(attribute, OpOverload):
            return lambda *args, **kwargs: _make_node(self._graph, attribute, args, kwargs)
        return _Path(self._graph, attribute)


def _make_node(graph: Graph, target: OpOverload, args: Any, kwargs: Any) -> _Value:
    if target._schema.is_mutable:
        raise NotNodes(f"{target.name()} writes in place")
    args, kwargs = pytree.tree_map_only(_Value, lambda value: value.node, (args, kwargs))
    node = graph.call_function(target, args, kwargs)
    args, kwargs = pytree.tree_map_only(Node, lambda n: n.meta["val"], (args, kwargs))
    node.meta["val"] = target(*args, **kwargs)
    return _Value(node)


def graph_of(forward: Callable[..., Any], inputs: Sequence[torch.Tensor]) -> GraphModule:
    """Return the graph; raise NotNodes for a function that does more than call operators."""
    graph, mode = Graph(), FakeTensorMode(shape_env=ShapeEnv(), static_shapes=True)
    arguments = []
    for index, tensor in enumerate(inputs):
        node = graph.placeholder(f"x{index}")
        node.meta["val"] = mode.from_tensor(tensor)
        arguments.append(_Value(node))
    assert isinstance(forward, FunctionType)
    namespace = {**forward.__globals__, "torch": _Torch(graph)}
    with mode, torch.no_grad():
        results = FunctionType(forward.__code__, namespace)(*arguments)
    graph.output(tuple(result.node for result in results))
    return GraphModule(torch.nn.Module(), graph)
