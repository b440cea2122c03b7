"""The host graph of a partitioned graph: code around its partitions, as a callable and as JSON.

Operators are stored by name. Reading executes and imports nothing: names are looked up among
torch's operators and in a table of Python functions.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_aggregate, map_arg

from ortable.backend.cache.codec import NodeRef, Unserializable, decode_value, encode_value
from ortable.backend.lower.strides import with_strides
from ortable.backend.roles import Placement
from ortable.compat.torch import BoxedCodeGen, OpOverload, OpOverloadPacket

NAMESPACES = ("aten", "prim", "prims")  # operators that torch's version describes
_OPERATORS = (
    "getitem", "add", "sub", "mul", "floordiv", "truediv", "mod", "neg", "pow", "abs",
    "eq", "ne", "lt", "le", "gt", "ge", "and_", "or_", "not_",
)  # fmt: skip
_SYMBOLIC = ("sym_int", "sym_float", "sym_max", "sym_min", "sym_not", "sym_ite", "sym_sum")
_PYTHON: dict[str, Callable[..., Any]] = {
    **{f"operator.{name}": getattr(operator, name) for name in _OPERATORS},
    **{f"torch.{name}": getattr(torch, name) for name in _SYMBOLIC},
    "ortable.with_strides": with_strides,
}
_NAMES = {function: name for name, function in _PYTHON.items()}


@dataclass(frozen=True)
class HostGraph:
    """The code that calls the partitions of a graph, the graph's kind, and what runs where."""

    graph: Graph
    kind: str
    placement: list[Placement]


class PartitionedGraph:
    """One compiled graph of sessions and torch operators.

    Called with a list of arguments, which it clears; returns a list of results.

    `partitions` are the callables of its partitions; a call is thread-safe if theirs are. `text` is
    what other processes rebuild the code from, None if they cannot.
    """

    def __init__(
        self,
        forward: Callable[[list[Any]], list[Any]],
        partitions: tuple[Any, ...],
        text: str | None = None,
    ) -> None:
        self._boxed_call = True  # on the object: dynamo wraps backward graphs, copying `__dict__`
        self._forward = forward
        self.partitions = partitions
        self.text = text

    def __repr__(self) -> str:
        return f"PartitionedGraph({len(self.partitions)} partitions)"

    def __call__(self, args: list[Any]) -> list[Any]:
        return self._forward(args)


def join_partitions(
    host: Graph,
    callables: Mapping[str, Any],
    constants: torch.nn.Module | None = None,
    text: str | None = None,
) -> PartitionedGraph:
    """Make the callable of a graph whose partitions run as `callables`.

    Args:
        host: the host graph.
        callables: the partitions by name.
        constants: the module with what the host graph reads besides its arguments.
        text: what other processes rebuild the host graph from.
    """
    root = torch.nn.Module()
    for node in host.nodes:
        if node.op == "get_attr":
            name = str(node.target).partition(".")[0]
            if not hasattr(root, name):
                setattr(root, name, getattr(constants, name))
    for name, function in callables.items():
        object.__setattr__(root, name, function)
    host.set_codegen(BoxedCodeGen())
    code: Any = type(GraphModule(root, host, "HostGraph")).forward
    # bound to the constants and partitions only, so that the graph and its fake tensors are freed
    return PartitionedGraph(functools.partial(code, root), tuple(callables.values()), text)


def partition_name(index: int) -> str:
    """The attribute by which a rebuilt graph calls its partition `index`."""
    return f"partition_{index}"


def encode_host_graph(host: HostGraph, partitions: Sequence[str]) -> str:
    """Encode a host graph as the text that `decode_host_graph` reads.

    Args:
        host: the host graph.
        partitions: names of the partitions in the graph, in their order.

    Raises:
        Unserializable: a constant, operator or argument that cannot be stored.
    """
    numbers: dict[Node, int] = {}
    rows = []

    def make_reference(node: Node) -> Any:
        return NodeRef(numbers[node])

    for node in host.graph.nodes:
        kind, target = _encode_target(node, partitions)
        operands = () if kind == "in" else map_arg((node.args, dict(node.kwargs)), make_reference)
        rows.append([kind, target, encode_value(operands)])
        numbers[node] = len(numbers)
    content = {
        "kind": host.kind,
        "partitions": len(partitions),
        "placement": [dataclasses.astuple(record) for record in host.placement],
        "nodes": rows,
    }
    return json.dumps(content, separators=(",", ":"))


def decode_host_graph(text: str, partitions: int) -> HostGraph:
    """Rebuild what `encode_host_graph` encoded; partitions are named by `partition_name`.

    Nodes have no `meta`.

    Args:
        text: the encoded graph.
        partitions: how many there are.

    Raises:
        Exception: any, if `encode_host_graph` did not make the text for so many partitions.
    """
    content = json.loads(text)
    if content["partitions"] != partitions:
        expected = content["partitions"]
        raise ValueError(f"code for {expected} partitions, of which {partitions} are there")
    graph = Graph()
    nodes: list[Node] = []

    def resolve_reference(value: Any) -> Any:
        return nodes[value.number] if isinstance(value, NodeRef) else value

    for kind, target, encoded in content["nodes"]:
        values = map_aggregate(decode_value(encoded), resolve_reference)
        nodes.append(_add_node(graph, kind, target, values, len(nodes), partitions))
    if not nodes or nodes[-1].op != "output":
        raise ValueError("a graph without results")
    placement = [Placement(*map(str, fields)) for fields in content["placement"]]
    return HostGraph(graph, str(content["kind"]), placement)


def _add_node(
    graph: Graph, kind: str, target: Any, values: Any, number: int, partitions: int
) -> Node:
    """Add a node; names are chosen here, since they become source text."""
    if kind == "in":
        return graph.placeholder(f"arg{number}")
    args, kwargs = values
    if kind == "out":
        return graph.output(args[0])
    if kind == "call":
        return graph.call_function(_find_function(target), args, kwargs)
    if kind != "partition" or target not in range(partitions):
        raise ValueError(f"{kind!r} {target!r} is no node")
    return graph.call_module(partition_name(int(target)), args)


def _encode_target(node: Node, partitions: Sequence[str]) -> tuple[str, Any]:
    if node.op == "placeholder":
        return "in", None
    if node.op == "output":
        return "out", None
    if node.op == "call_module" and node.target in partitions:
        return "partition", partitions.index(str(node.target))
    if node.op == "call_function":
        return "call", _function_name(node.target)
    raise Unserializable(f"{node.name}, a {node.op}")


def _function_name(target: Any) -> str:
    if isinstance(target, OpOverload | OpOverloadPacket):
        name = str(target)
        if name.partition(".")[0] in NAMESPACES:
            return name
    elif target in _NAMES:
        return _NAMES[target]
    raise Unserializable(f"{target!r}, a {type(target).__name__}")


def _find_function(name: str) -> Callable[..., Any]:
    if name in _PYTHON:
        return _PYTHON[name]
    namespace, *path = name.split(".")
    if namespace in NAMESPACES and len(path) in (1, 2):
        function: Any = getattr(torch.ops, namespace)
        for part in path:
            function = getattr(function, part, None)
        # an attribute of another kind, or an alias, has another name
        kinds = OpOverload | OpOverloadPacket
        if isinstance(function, kinds) and str(function) == name:
            return function
    raise ValueError(f"{name!r} is no operator of torch")
