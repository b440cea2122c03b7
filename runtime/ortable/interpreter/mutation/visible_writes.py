"""Which nodes of a graph write to one of their arguments.
ONNX has no such operators: a graph with one of these is functionalised by torch before it is
converted, or refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.fx import GraphModule, Node

from ortable.compat.torch import OpOverload
from ortable.interpreter.calls import ASSIGNING, alias_of
from ortable.interpreter.modules import find_attribute
from ortable.interpreter.results import UNKNOWN, is_tensor_like, node_value
from ortable.interpreter.tables import ConverterTables
from ortable_generated.aten import traits

from .elidable import ElidableMutation, elidable_mutations, only_reads
from .functionalized_calls import holds_writes

ElidableIn = Callable[[GraphModule], Mapping[Node, ElidableMutation]]


def find_elidable(
    graph_module: GraphModule, tables: ConverterTables, elidable_in: ElidableIn | None
) -> Mapping[Node, ElidableMutation]:
    """The writes of a graph that nobody else sees: asked of ``elidable_in``, if there is one."""
    if elidable_in is not None:
        return elidable_in(graph_module)
    return elidable_mutations(graph_module, tables.converters.__contains__)


def writes(node: Node, mutates: Mapping[str, str]) -> str | None:
    """Why ``node`` writes to an argument (the schema, or the argument that says so); None when it
    does not."""
    target = node.target
    if not isinstance(target, OpOverload):
        return None
    name = target.name()
    if target._schema.is_mutable:
        return None if name in traits.METADATA_ONLY else f"its schema is {target._schema}"
    flag = mutates.get(name)
    if flag is not None and _argument(node, target._schema, flag) is True and _has_running(node):
        return f"{flag}=True makes it update its running statistics in place"
    return None


def _is_unseen(node: Node, tables: ConverterTables) -> bool:
    """Whether ``x += 1`` and the like write to a number, or to a tensor that the graph just made
    and that nobody else reads."""
    known = node_value(node)
    if known is not UNKNOWN and not is_tensor_like(known):
        return True
    written = node.args[0] if node.args else None
    if not isinstance(written, Node) or set(written.users) != {node}:
        return False
    return _is_new(written, tables)


def _is_new(node: Node, tables: ConverterTables) -> bool:
    """Whether a node of a graph of Python functions makes memory of its own."""
    if node.op == "call_method":
        call = tables.methods.get(str(node.target))
    elif node.op != "call_function":
        return False
    elif isinstance(node.target, OpOverload):
        return only_reads(node.target)
    elif node.target in ASSIGNING:
        return _is_unseen(node, tables)
    else:
        call = alias_of(tables, node.target)
    if call is None:
        return False
    namespace, _, name = call.packet.partition("::")
    packet_name, _, overload = name.partition(".")
    packet = getattr(getattr(torch.ops, namespace), packet_name)
    for each in [overload] if overload else packet.overloads():
        schema = getattr(packet, each)._schema
        of_tensors = bool(schema.arguments) and schema.arguments[0].type.kind() == "TensorType"
        if of_tensors and not schema.is_mutable and not only_reads(getattr(packet, each)):
            return False
    return True


def first_write(
    graph_module: GraphModule,
    tables: ConverterTables,
    owner: Any = None,
    elidable_in: ElidableIn | None = None,
) -> tuple[Node, str] | None:
    """The first node of the graph, or of a graph inside it, that writes to an argument that
    somebody else can see, and why.

    ``owner`` holds the attributes that the graph reads, when that is not ``graph_module`` itself;
    ``elidable_in`` answers for the writes of a graph that nobody else sees, where they are known.
    """
    holder = graph_module if owner is None else owner
    elidable: Mapping[Node, ElidableMutation] | None = None
    for node in graph_module.graph.nodes:
        if node.op == "call_function":
            if node.target in ASSIGNING and not _is_unseen(node, tables):
                return node, "it may be an input, or be read by others"
            why = writes(node, tables.mutates)
            if why is None:
                continue
            if elidable is None:
                elidable = find_elidable(graph_module, tables, elidable_in)
            if node not in elidable:
                return node, why
        elif node.op == "get_attr" or node.op == "call_module":
            inner = find_attribute(holder, str(node.target), None)
            if isinstance(inner, GraphModule) and not holds_writes(node):
                found = first_write(inner, tables, elidable_in=elidable_in)
                if found is not None:
                    return found
    return None


def _has_running(node: Node) -> bool:
    """Whether a normalisation was given running statistics that it would update."""
    schema: Any = node.target._schema  # type: ignore[union-attr]
    names = [each.name for each in schema.arguments if each.name.startswith("running_")]
    return not names or any(_argument(node, schema, name) is not None for name in names)


def _argument(node: Node, schema: Any, name: str) -> Any:
    if name in node.kwargs:
        return node.kwargs[name]
    for position, argument in enumerate(schema.arguments):
        if argument.name == name:
            if position < len(node.args):
                return node.args[position]
            return argument.default_value if argument.has_default_value() else None
    return None
