"""Which nodes of a graph write to one of their arguments.
ONNX has no such operators: a graph with one of these is functionalised by torch before it is
converted, or refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.fx import GraphModule, Node

from ortable.interpreter.tables import Tables
from ortable_generated.aten import traits

from .in_place import HarmlessWrite, harmless_writes
from .written import holds_writes


def writes(node: Node, mutates: Mapping[str, str]) -> str | None:
    """Why ``node`` writes to an argument (the schema, or the argument that says so); None when it
    does not."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return None
    name = target.name()
    if target._schema.is_mutable:
        return None if name in traits.METADATA_ONLY else f"its schema is {target._schema}"
    flag = mutates.get(name)
    if flag is not None and _argument(node, target._schema, flag) is True and _has_running(node):
        return f"{flag}=True makes it update its running statistics in place"
    return None


def first_write(
    graph_module: GraphModule, tables: Tables, owner: Any = None
) -> tuple[Node, str] | None:
    """The first node of the graph, or of a graph inside it, that writes to an argument that
    somebody else can see, and why.

    ``owner`` holds the attributes that the graph reads, when that is not ``graph_module`` itself.
    """
    holder = graph_module if owner is None else owner
    harmless: dict[Node, HarmlessWrite] | None = None
    for node in graph_module.graph.nodes:
        if node.op == "call_function":
            why = writes(node, tables.mutates)
            if why is None:
                continue
            if harmless is None:
                harmless = harmless_writes(graph_module, tables.converters.__contains__)
            if node not in harmless:
                return node, why
        elif node.op == "get_attr" or node.op == "call_module":
            inner = find_attribute(holder, str(node.target), None)
            if isinstance(inner, GraphModule) and not holds_writes(node):
                found = first_write(inner, tables)
                if found is not None:
                    return found
    return None


def find_attribute(module: Any, path: str, default: Any = ...) -> Any:
    """The attribute at a dotted path of ``module``; ``default`` when there is none, if one is
    given."""
    found = module
    for part in path.split("."):
        if not hasattr(found, part):
            if default is ...:
                raise AttributeError(f"{type(module).__name__} has no attribute '{path}'")
            return default
        found = getattr(found, part)
    return found


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
