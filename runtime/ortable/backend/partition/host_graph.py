"""A graph that runs partly in torch: the straight-line code around its partitions, as a callable,
and as JSON and back with operators by name. Nothing that is read is executed or imported: names are
looked up among torch's own operators and in a table of Python's."""

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
    """What a graph is besides its partitions: the code that calls them, which kind of graph it is,
    and what runs where in it."""

    graph: Graph
    kind: str
    placement: list[Placement]


class PartitionedGraph:
    """One compiled graph, of sessions and torch operators.  Called with a list of arguments, which
    it clears; returns a list of results.

    `partitions` are the callables of its partitions; a call is safe from several threads if theirs
    are. `text` is what other processes rebuild the code from, None where they cannot.
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
    """The callable of a graph whose partitions run as `callables`, by their names.

    :param constants: the module that has what the host graph reads besides its arguments
    :param text: what other processes rebuild the host graph from
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
    # bound to the constants and the partitions alone: the graph and its fake tensors may go
    return PartitionedGraph(functools.partial(code, root), tuple(callables.values()), text)


def partition_name(index: int) -> str:
    """The attribute that a rebuilt graph calls for its partition `index`."""
    return f"partition_{index}"


def encode_host_graph(host: HostGraph, partitions: Sequence[str]) -> str:
    """The text that `decode_host_graph` reads.

    :param partitions: names of the partitions in the graph, in their order
    :raises Unserializable: a constant, or an operator or argument that has no form in a file
    """
    numbers: dict[Node, int] = {}
    rows = []

    def reference(node: Node) -> Any:
        return NodeRef(numbers[node])

    for node in host.graph.nodes:
        kind, target = _target(node, partitions)
        given = () if kind == "in" else map_arg((node.args, dict(node.kwargs)), reference)
        rows.append([kind, target, encode_value(given)])
        numbers[node] = len(numbers)
    content = {
        "kind": host.kind,
        "partitions": len(partitions),
        "placement": [dataclasses.astuple(each) for each in host.placement],
        "nodes": rows,
    }
    return json.dumps(content, separators=(",", ":"))


def decode_host_graph(text: str, partitions: int) -> HostGraph:
    """What `encode_host_graph` was given, with partitions named by `partition_name`; nodes have no
    `meta`.

    :param partitions: how many there are
    :raises Exception: any, when the text was not made by `encode_host_graph` for a graph of so many
        partitions
    """
    content = json.loads(text)
    if content["partitions"] != partitions:
        wanted = content["partitions"]
        raise ValueError(f"code for {wanted} partitions, of which {partitions} are there")
    graph = Graph()
    nodes: list[Node] = []

    def resolve(value: Any) -> Any:
        return nodes[value.number] if isinstance(value, NodeRef) else value

    for kind, target, given in content["nodes"]:
        values = map_aggregate(decode_value(given), resolve)
        nodes.append(_add(graph, kind, target, values, len(nodes), partitions))
    if not nodes or nodes[-1].op != "output":
        raise ValueError("a graph without results")
    placement = [Placement(*map(str, each)) for each in content["placement"]]
    return HostGraph(graph, str(content["kind"]), placement)


def _add(graph: Graph, kind: str, target: Any, values: Any, number: int, partitions: int) -> Node:
    """Adds a node to a graph; names are ours, since they become source text."""
    if kind == "in":
        return graph.placeholder(f"arg{number}")
    args, kwargs = values
    if kind == "out":
        return graph.output(args[0])
    if kind == "call":
        return graph.call_function(_function(target), args, kwargs)
    if kind != "partition" or target not in range(partitions):
        raise ValueError(f"{kind!r} {target!r} is no node")
    return graph.call_module(partition_name(int(target)), args)


def _target(node: Node, partitions: Sequence[str]) -> tuple[str, Any]:
    """The kind of a node, and what it calls."""
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


def _function(name: str) -> Callable[..., Any]:
    """What `_function_name` named."""
    if name in _PYTHON:
        return _PYTHON[name]
    namespace, *path = name.split(".")
    if namespace in NAMESPACES and len(path) in (1, 2):
        found: Any = getattr(torch.ops, namespace)
        for part in path:
            found = getattr(found, part, None)
        # an attribute of another kind, or an alias, has another name
        kinds = OpOverload | OpOverloadPacket
        if isinstance(found, kinds) and str(found) == name:
            return found
    raise ValueError(f"{name!r} is no operator of torch")
