"""Random operators: torch draws, in a node of its own that reads sizes only, and what is left of
the operator is converted. `torch.manual_seed` then gives the numbers of eager."""

from __future__ import annotations

import keyword
from collections.abc import Mapping
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node, Proxy
from torch.fx.node import map_arg
from torch.fx.proxy import GraphAppendingTracer

from ortable import dims, dtypes
from ortable.backend.lower.aot_graph import AotGraph
from ortable.backend.lower.inputs import InputPlan, shape_of
from ortable.compat.torch import OpOverload, PythonReferenceAnalysis, sympy_interp
from ortable.dispatch import RngCall
from ortable.interpreter.calls import operator_key
from ortable.interpreter.tables import generated_tables

aten = torch.ops.aten
_ORIGIN = ("stack_trace", "nn_module_stack")


class SymbolNodes:
    """One node a symbol, added to `graph` when it is first asked for.

    :param inputs: the arguments of the original graph
    :param copies: their copies in `graph`
    """

    def __init__(self, graph: Graph, inputs: InputPlan, copies: Mapping[Node, Node]) -> None:
        self._graph = graph
        self._inputs = inputs
        self._copies = copies
        self._sizes: dict[str, Node] = {}

    def __contains__(self, symbol: str) -> bool:
        return symbol in self._inputs.sources

    def __getitem__(self, symbol: str) -> Node:
        source = self._inputs.sources[symbol]
        argument = self._copies[self._inputs.nodes[source.index]]
        if source.axis is None:
            return argument
        if symbol not in self._sizes:
            size = torch.ops.aten.sym_size.int
            node = self._graph.call_function(size, (argument, source.axis))
            node.meta["val"] = argument.meta["val"].shape[source.axis]
            self._sizes[symbol] = node
        return self._sizes[symbol]


def write_draws(
    graph: AotGraph, in_torch: Mapping[Node, str]
) -> tuple[AotGraph, dict[Node, str], dict[Node, Node]]:
    """`graph` with the draws of its random operators as torch nodes; the nodes that torch runs
    there, with the reasons; and which node each one of the new graph was in `graph`.

    A node that is only a draw is replaced; any other one gets the drawn tensor as its argument
    `drawn`, which its converter reads.  The graph itself is returned when there is nothing to do.

    :param in_torch: nodes of `graph` that torch runs whole, with reasons
    """
    nodes = graph.module.graph.nodes
    draws = {
        node: draw
        for node in nodes
        if node not in in_torch and (draw := _draw_of(node)) is not None
    }
    if not draws:
        return graph, dict(in_torch), {node: node for node in nodes}
    writer = _DrawWriter(graph)
    for node in nodes:
        if node in draws:
            writer.draw(node, draws[node])
        else:
            writer.copy(node)
    in_torch = writer.in_torch | {writer.made[node]: why for node, why in in_torch.items()}
    before = {copy: node for node, copy in writer.made.items()}
    return AotGraph(GraphModule(graph.module, writer.graph)), in_torch, before


def _draw_of(node: Node) -> RngCall | None:
    """What torch draws for a node; None where it draws nothing, or from a generator of its own."""
    if not isinstance(node.target, OpOverload) or node.kwargs.get("generator"):
        return None
    function = generated_tables().draws.get(operator_key(node))
    if function is None:
        return None
    draw = function(node, *node.args, **node.kwargs)
    return draw if draw is None or isinstance(draw.like, Node) else None


class _DrawWriter:
    """The running state of `write_draws`: the new graph, and the copies of the nodes in it."""

    def __init__(self, original: AotGraph) -> None:
        self.graph = Graph()
        self.inputs = original.inputs
        self.made: dict[Node, Node] = {}
        self.in_torch: dict[Node, str] = {}
        self.symbols = SymbolNodes(self.graph, original.inputs, self.made)

    def copy(self, node: Node) -> Node:
        self.made[node] = self.graph.node_copy(node, self.made.__getitem__)
        return self.made[node]

    def draw(self, node: Node, draw: RngCall) -> None:
        """Writes the draw of a node in front of what is left of it."""
        value = node.meta["val"]
        result = value[0] if isinstance(value, list | tuple) else value
        like = result if draw.like is node else draw.like.meta["val"]
        shape = like.shape
        same = shape_of(like) == shape_of(result)
        strides = result.stride() if same else result.new_empty(shape).stride()
        if not all(self.inputs.is_computable(dims.from_torch(each)) for each in (*shape, *strides)):
            self.in_torch[self.copy(node)] = "the size of what it draws depends on data"
            return
        dtype = result.dtype if draw.dtype is None else dtypes.to_torch(draw.dtype)
        sizes = ([self._int(each) for each in shape], [self._int(each) for each in strides])
        kind = {"dtype": dtype, "device": result.device}
        empty = self.graph.call_function(aten.empty_strided.default, sizes, kind)
        name, _, overload = draw.fill.partition(".")
        fill = getattr(aten, name)
        if not keyword.iskeyword(overload):  # random_.from cannot be written as Python
            fill = getattr(fill, overload or "default")
        args = [self.made[each] if isinstance(each, Node) else each for each in draw.args]
        drawn = self.graph.call_function(fill, (empty, *args))
        for new in (empty, drawn):
            new.meta = {key: node.meta[key] for key in _ORIGIN if key in node.meta}
            new.meta["val"] = result.new_empty_strided(shape, strides, dtype=dtype)
            self.in_torch[new] = f"torch's generator draws the numbers of {operator_key(node)}"
        if draw.is_result:
            self.made[node] = drawn
        else:
            rest = self.copy(node)
            rest.kwargs = {**rest.kwargs, "drawn": drawn}

    def _int(self, value: Any) -> Any:
        """An int as it is; a symbolic one as the node that computes it from sizes of arguments."""
        if not isinstance(value, torch.SymInt):
            return int(value)
        last = next(reversed(self.graph.nodes))
        tracer = GraphAppendingTracer(self.graph)
        found = sympy_interp(
            PythonReferenceAnalysis,
            {},
            value.node.expr,
            missing_handler=lambda symbol: Proxy(self.symbols[str(symbol)], tracer),
        )
        if not isinstance(found, Proxy):
            return int(found)  # a guard has made it a number
        node = last.next
        while node.op != "root":
            if "val" not in node.meta:
                known = map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
                node.meta["val"] = node.target(*known[0], **known[1])  # type: ignore[operator]
            node = node.next
        return found.node
