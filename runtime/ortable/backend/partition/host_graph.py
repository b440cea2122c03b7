"""The host graph of a partitioned graph: the code around its partitions, as callable or JSON.

Operators are stored by name. Decoding executes and imports nothing: names are looked up among
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

NAMESPACES = ("aten", "prim", "prims")  # torch's own, which any process with torch has
_OPERATORS = (
    "getitem", "add", "sub", "mul", "floordiv", "truediv", "mod", "neg", "pow", "abs",
    "eq", "ne", "lt", "le", "gt", "ge", "and_", "or_", "not_",
)  # fmt: skip
_SYM_FUNCTIONS = ("sym_int", "sym_float", "sym_max", "sym_min", "sym_not", "sym_ite", "sym_sum")
_PYTHON_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{f"operator.{name}": getattr(operator, name) for name in _OPERATORS},
    **{f"torch.{name}": getattr(torch, name) for name in _SYM_FUNCTIONS},
    "ortable.with_strides": with_strides,
}
_PYTHON_NAMES = {function: name for name, function in _PYTHON_FUNCTIONS.items()}


@dataclass(frozen=True)
class HostGraph:
    """The graph that calls the partitions, the kind of the original graph, and its placement."""

    graph: Graph
    kind: str
    placement: list[Placement]


class PartitionedGraph:
    """One compiled graph of sessions and torch operators.

    A call takes a list of arguments, clears it and returns a list of results.

    `partitions` are the callables of its partitions; a call is thread-safe if theirs are. `text` is
    the encoded host graph for other processes, or None. `placement` tells where its operators run.
    """

    def __init__(
        self,
        forward: Callable[[list[Any]], list[Any]],
        partitions: tuple[Any, ...],
        text: str | None = None,
        placement: Sequence[Placement] = (),
    ) -> None:
        self._boxed_call = True  # an instance attribute, because dynamo copies `__dict__`
        self._forward = forward
        self.partitions = partitions
        self.text = text
        self.placement = placement

    def __repr__(self) -> str:
        return f"PartitionedGraph({len(self.partitions)} partitions)"

    def __call__(self, args: list[Any]) -> list[Any]:
        """Run the graph and clear the list of arguments."""
        return self._forward(args)


def join_partitions(
    host: Graph,
    callables: Mapping[str, Any],
    constants: torch.nn.Module | None = None,
    text: str | None = None,
    placement: Sequence[Placement] = (),
) -> PartitionedGraph:
    """Make the callable of a graph whose partitions run as `callables`.

    Args:
        host: the host graph.
        callables: the partitions by name.
        constants: the module with the attributes that the host graph reads.
        text: the encoded host graph, or None.
        placement: where the operators of the original graph run.
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
    # `root` holds only constants and partitions, so the graph and its fake tensors are freed
    forward = functools.partial(code, root)
    return PartitionedGraph(forward, tuple(callables.values()), text, placement)


def partition_name(index: int) -> str:
    """Return the attribute by which a decoded graph calls its partition `index`."""
    return f"partition_{index}"


def encode_host_graph(host: HostGraph, partitions: Sequence[str]) -> str:
    """Encode a host graph as the text that `decode_host_graph` reads.

    Args:
        host: the host graph.
        partitions: names of the partitions in the graph, in their order.

    Raises:
        Unserializable: if a constant, operator or argument cannot be stored.
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
    """Return the graph that `encode_host_graph` encoded; partitions are named by `partition_name`.

    Nodes have no `meta`.

    Args:
        text: the encoded graph.
        partitions: the number of partitions.

    Raises:
        Exception: any type, if the text is not an encoded graph with this number of partitions.
    """
    content = json.loads(text)
    if content["partitions"] != partitions:
        expected = content["partitions"]
        raise ValueError(f"the code calls {expected} partitions, not {partitions}")
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
    """Add a node. No name comes from the encoded text, because names become source code."""
    if kind == "in":
        return graph.placeholder(f"arg{number}")
    args, kwargs = values
    if kind == "out":
        return graph.output(args[0])
    if kind == "call":
        return graph.call_function(_find_function(target), args, kwargs)
    if kind != "partition" or target not in range(partitions):
        raise ValueError(f"{kind!r} {target!r} is not a node")
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
    elif target in _PYTHON_NAMES:
        return _PYTHON_NAMES[target]
    raise Unserializable(f"{target!r}, a {type(target).__name__}")


def _find_function(name: str) -> Callable[..., Any]:
    if name in _PYTHON_FUNCTIONS:
        return _PYTHON_FUNCTIONS[name]
    namespace, *path = name.split(".")
    if namespace in NAMESPACES and len(path) in (1, 2):
        function: Any = getattr(torch.ops, namespace)
        for part in path:
            function = getattr(function, part, None)
        # an alias, or an attribute that is not an operator, has another name
        operator_types = OpOverload | OpOverloadPacket
        if isinstance(function, operator_types) and str(function) == name:
            return function
    raise ValueError(f"{name!r} is not an operator of torch")
