"""Which nodes of a graph write to one of their arguments.
ONNX has no such operators: a graph with one of these is functionalised by torch before it is
converted, or refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch.fx import GraphModule, Node

from ortable.compat.torch import OpOverload
from ortable.interpreter.modules import find_attribute
from ortable.interpreter.tables import ConverterTables
from ortable_generated.aten import traits

from .elidable import ElidableMutation, elidable_mutations
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
