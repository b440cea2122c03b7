"""Split random operators into a torch node that draws the numbers, and a converted remainder.

The torch node calls torch's generator, so `torch.manual_seed` gives the same numbers as in eager.
"""

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
_ORIGIN_KEYS = ("stack_trace", "nn_module_stack")


class SymbolNodes:
    """Map symbols to nodes: an int argument, or a `sym_size` that is added on first use.

    Args:
        graph: the new graph, to which nodes are added.
        inputs: the arguments of the original graph.
        copies: maps these arguments to their copies in `graph`.
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


def emit_rng_calls(
    graph: AotGraph, in_torch: Mapping[Node, str]
) -> tuple[AotGraph, dict[Node, str], dict[Node, Node]]:
    """Emit torch nodes that draw the random numbers of a graph's operators.

    A node that only draws is replaced; any other node gets the drawn tensor as its argument
    `drawn`, which its converter reads.

    Args:
        graph: the graph; returned unchanged if it draws nothing.
        in_torch: nodes of `graph` that torch runs entirely, with reasons.

    Returns:
        The new graph; its nodes that torch runs, with reasons; the original node of each node.
    """
    nodes = graph.module.graph.nodes
    draws = {
        node: draw
        for node in nodes
        if node not in in_torch and (draw := _find_rng_call(node)) is not None
    }
    if not draws:
        return graph, dict(in_torch), {node: node for node in nodes}
    writer = _RngWriter(graph)
    for node in nodes:
        if node in draws:
            writer.write_rng_call(node, draws[node])
        else:
            writer.copy_node(node)
    in_torch = writer.in_torch | {writer.copies[node]: reason for node, reason in in_torch.items()}
    original_nodes = {copy: node for node, copy in writer.copies.items()}
    return AotGraph(GraphModule(graph.module, writer.graph)), in_torch, original_nodes


def _find_rng_call(node: Node) -> RngCall | None:
    """Return the RNG call of a node; None without one, or with an explicit generator."""
    if not isinstance(node.target, OpOverload) or node.kwargs.get("generator"):
        return None
    function = generated_tables().draws.get(operator_key(node))
    if function is None:
        return None
    draw = function(node, *node.args, **node.kwargs)
    return draw if draw is None or isinstance(draw.like, Node) else None


class _RngWriter:
    """The running state of `emit_rng_calls`: the new graph and its copies of nodes."""

    def __init__(self, original: AotGraph) -> None:
        self.graph = Graph()
        self.inputs = original.inputs
        self.copies: dict[Node, Node] = {}
        self.in_torch: dict[Node, str] = {}
        self.symbols = SymbolNodes(self.graph, original.inputs, self.copies)

    def copy_node(self, node: Node) -> Node:
        self.copies[node] = self.graph.node_copy(node, self.copies.__getitem__)
        return self.copies[node]

    def write_rng_call(self, node: Node, draw: RngCall) -> None:
        """Write the RNG call of a node, followed by the remainder of the node."""
        value = node.meta["val"]
        result = value[0] if isinstance(value, list | tuple) else value
        like = result if draw.like is node else draw.like.meta["val"]
        shape = like.shape
        is_same_shape = shape_of(like) == shape_of(result)
        strides = result.stride() if is_same_shape else result.new_empty(shape).stride()
        if not all(self.inputs.is_computable(dims.from_torch(item)) for item in (*shape, *strides)):
            self.in_torch[self.copy_node(node)] = (
                "the number of values that it draws depends on data"
            )
            return
        dtype = result.dtype if draw.dtype is None else dtypes.to_torch(draw.dtype)
        sizes = (
            [self._make_int(item) for item in shape],
            [self._make_int(item) for item in strides],
        )
        options = {"dtype": dtype, "device": result.device}
        empty = self.graph.call_function(aten.empty_strided.default, sizes, options)
        name, _, overload = draw.fill.partition(".")
        fill = getattr(aten, name)
        if not keyword.iskeyword(overload):  # `random_.from` is not valid Python
            fill = getattr(fill, overload or "default")
        args = [self.copies[item] if isinstance(item, Node) else item for item in draw.args]
        drawn = self.graph.call_function(fill, (empty, *args))
        for new_node in (empty, drawn):
            new_node.meta = {key: node.meta[key] for key in _ORIGIN_KEYS if key in node.meta}
            new_node.meta["val"] = result.new_empty_strided(shape, strides, dtype=dtype)
            self.in_torch[new_node] = f"torch's generator draws the numbers of {operator_key(node)}"
        if draw.is_result:
            self.copies[node] = drawn
        else:
            remainder = self.copy_node(node)
            remainder.kwargs = {**remainder.kwargs, "drawn": drawn}

    def _make_int(self, value: Any) -> Any:
        """Return a size as an int, or as a node that computes it from the arguments."""
        if not isinstance(value, torch.SymInt):
            return int(value)
        last_node = next(reversed(self.graph.nodes))
        tracer = GraphAppendingTracer(self.graph)
        result = sympy_interp(
            PythonReferenceAnalysis,
            {},
            value.node.expr,
            missing_handler=lambda symbol: Proxy(self.symbols[str(symbol)], tracer),
        )
        if not isinstance(result, Proxy):
            return int(result)  # specialized by a guard
        # set `val` of the new nodes; the graph's linked list ends with its root
        node = last_node.next
        while node.op != "root":
            if "val" not in node.meta:
                values = map_arg((node.args, node.kwargs), lambda source: source.meta["val"])
                node.meta["val"] = node.target(*values[0], **values[1])  # type: ignore[operator]
            node = node.next
        return result.node
