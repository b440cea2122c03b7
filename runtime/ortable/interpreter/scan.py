"""The first look at a graph, before anything is converted: in-place writes, and every operator
without a converter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.fx import GraphModule, Node

from ortable.compat.torch import HigherOrderOperator, OpOverload
from ortable_generated.aten import traits

from ..errors import ConversionError
from . import calls, functionalized_calls, mutation, numbers, outputs, results
from .diagnostics import failures
from .modules import find_attribute, is_guard
from .mutation import ElidableIn
from .tables import ConverterTables

FindConverter = Callable[[Any], Any]
AsGraph = Callable[[Any], GraphModule | None]


def check_writes(
    graph_module: GraphModule,
    tables: ConverterTables,
    owner: Any = None,
    elidable_in: ElidableIn | None = None,
) -> None:
    """Raise ConversionError for the first node that writes to one of its arguments."""
    found = mutation.first_write(graph_module, tables, owner, elidable_in)
    if found is None:
        return
    node, why = found
    lines = [
        f"{calls.operator_key(node)} writes to its argument: {why}. ONNX has no such operator.",
        *failures.describe_node(node, tables.spec_files),
        "  Functionalise the graph first: to_onnx does it for modules and exported programs, "
        "`exported_program.run_decompositions({})` does it in torch.",
    ]
    raise ConversionError("\n".join(lines))


def missing_nodes(
    graph_module: GraphModule,
    tables: ConverterTables,
    find_converter: FindConverter,
    as_graph: AsGraph,
    owner: Any = None,
    elidable_in: ElidableIn | None = None,
) -> list[Node]:
    """Nodes of the graph, and of the graphs inside it, that have no converter.

    ``find_converter(overload)`` answers for ATen overloads, ``as_graph(module)`` opens submodules
    (None: it cannot); ``owner`` holds the attributes that the graph reads, when that is not
    ``graph_module`` itself; ``elidable_in`` is that of ``first_write``.
    """
    missing: list[Node] = []
    elidable = mutation.find_elidable(graph_module, tables, elidable_in)
    holder = graph_module if owner is None else owner
    for node in graph_module.graph.nodes:
        if node.op == "call_function":
            if node not in elidable and not is_known(node, tables, find_converter):
                missing.append(node)
        elif node.op == "call_method":
            if node.target not in tables.methods and node.target not in calls.SIZE_METHODS:
                missing.append(node)
        elif node.op in ("get_attr", "call_module"):
            module = find_attribute(holder, str(node.target), None)
            if is_guard(module) or (node.op == "get_attr" and not isinstance(module, GraphModule)):
                continue
            inner = as_graph(module)
            missing += (
                [node]
                if inner is None
                else missing_nodes(inner, tables, find_converter, as_graph, elidable_in=elidable_in)
            )
    return missing


def is_known(node: Node, tables: ConverterTables, find_converter: FindConverter) -> bool:
    """Whether a function that a node calls has a converter, or needs none."""
    target = node.target
    if isinstance(target, OpOverload):
        name = target.name()
        if name in traits.ASSERTION or name in traits.METADATA_ONLY or not node.users:
            return True
        if find_converter(target) is not None:
            return True
        return numbers.is_size_target(target) and outputs.is_number(results.node_value(node))
    overload = functionalized_calls.written_overload(node)
    if overload is not None and find_converter(overload) is not None:
        return True
    if overload is not None:
        given = find_converter(target)  # the user's, which is none of the tables
        return given is not None and given not in tables.hops.values()
    if isinstance(target, HigherOrderOperator):
        ours = (tables.hops, traits.TRANSPARENT, traits.RETURNS)
        return any(target.name() in known for known in ours) or find_converter(target) is not None
    if outputs.is_number(results.node_value(node)):
        return True
    name = calls.qualified_name(target)
    return (
        calls.alias_of(tables, target) is not None
        or name in traits.ASSERTION
        or name.startswith(calls.PYTHON)
    )
