"""Steps of torch on an exported program before it is converted, each only when needed:
functionalisation when the graph writes in place, decomposition of operators without a converter
that the tables name, and the table that the user chose. In comes an ExportedProgram, out go
another and what was done. Called by exported.py; custom_operators.py takes its decompositions."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from ortable.compat.torch import (
    HigherOrderOperator,
    OperatorBase,
    OpOverload,
    get_decompositions,
    is_composite,
    overload_name,
)
from ortable.errors import ExportError
from ortable.exporter.dispatchers.dispatcher import direct_converter, own_converter
from ortable.exporter.request.options import ExportOptions
from ortable.interpreter.mutation import first_write
from ortable.interpreter.tables import ConverterTables
from ortable_generated.aten import traits

from .branch_constants import scalars_as_operators
from .flat_calls import decomposed
from .hidden_views import composite_body, graphs_of, hidden_views, operators_of, shown_views
from .region_marks import marked_regions

# vmap in a graph of torch.export is a pair of calls around operators on one element.
_VMAP = "torch._functorch.predispatch"


class RewriteError(ExportError):
    """torch cannot rewrite a program that it made itself."""


def prepared(
    program: ExportedProgram,
    tables: ConverterTables,
    dispatcher: Any,
    options: ExportOptions,
    opset: int | None = None,
) -> tuple[ExportedProgram, list[str]]:
    """A program that writes nothing in place, and what was done to get it, in words.

    ``opset``: that of the model; operators of ONNX that are newer are written out.
    Composite operators stay whole unless ``options`` has a table.
    Raises RewriteError when torch fails to rewrite the graph, ExportError for a write that it
    would lose.
    """
    table = options.table()
    reason = why_rewrite(program.graph_module, tables)
    hidden = (
        {} if reason is None else hidden_views(program.graph_module, dispatcher, tables.mutates)
    )
    if table is not None:
        chosen = options.decomposition_table
        name = chosen if isinstance(chosen, str) else "the user's"
        if isinstance(chosen, str):  # an entry of the user's own dict is meant
            for op in [op for op in table if own_converter(dispatcher, op.name()) is not None]:
                table.pop(op)  # the user's converter takes it whole
        rewritten = _run(program, {**hidden, **table}, writes=reason is not None)
        return rewritten, [f"decomposed with the table '{name}' ({len(table)} entries)"]
    needed = to_decompose(program.graph_module, tables, dispatcher, opset)
    if reason is None and not needed:
        return program, []
    notes = []
    if reason is not None:
        needed = {**needed, **hidden}
        notes.append(f"functionalised: {reason}")
    if needed:
        notes.append(f"decomposed: {', '.join(sorted(op.name() for op in needed))}")
    rewritten = _run(program, needed, writes=reason is not None)
    more = to_decompose(rewritten.graph_module, tables, dispatcher, opset)
    if more:
        notes.append(f"decomposed: {', '.join(sorted(op.name() for op in more))}")
        rewritten = _run(rewritten, more)
    return rewritten, notes


def why_rewrite(graph_module: GraphModule, tables: ConverterTables) -> str | None:
    """Why the graph cannot be converted as it is: an in-place write, or a region that torch must
    write out."""
    found = first_write(graph_module, tables)
    if found is not None:
        node, why = found
        return f"node '{node.name}' writes to its argument, {why}"
    for node in (node for module in graphs_of(graph_module) for node in module.graph.nodes):
        target = node.target
        if isinstance(target, HigherOrderOperator) and target.name() in traits.CASTS:
            return f"node '{node.name}' is a region of {target.name()}"
        if isinstance(target, OpOverload) and target.name() in traits.SUBCLASS_PART:
            return f"node '{node.name}' reads a part of a tensor subclass"
        if getattr(target, "__module__", None) == _VMAP:
            return f"node '{node.name}' is a part of vmap"
    return None


def to_decompose(
    graph_module: GraphModule, tables: ConverterTables, dispatcher: Any, opset: int | None = None
) -> dict[OperatorBase, Callable[..., Any]]:
    """Decompositions of the graph's operators that have no converter and are named in the table of
    decompositions, and of those of torch.onnx.ops that ONNX has in later opsets only."""
    nodes = operators_of(graph_module)
    wanted = _too_new(nodes, dispatcher, opset) if opset is not None else {}
    if not tables.decompose and not tables.foreach:
        return wanted
    names = frozenset((*tables.decompose, *tables.foreach))
    for node in nodes:
        target: Any = node.target
        name = target.name()
        if target in wanted or (name not in names and name.partition(".")[0] not in names):
            continue
        native = tables.converters.get(name)
        if direct_converter(dispatcher, name, target, native) is None:
            function = tables.foreach.get(name) or _decomposition(target)
            if function is not None:
                wanted[target] = function
    return wanted


def _too_new(
    nodes: list[Node], dispatcher: Any, opset: int
) -> dict[OperatorBase, Callable[..., Any]]:
    """torch's own bodies of the operators ``onnx::Name.opset23`` that are newer than ``opset``."""
    wanted: dict[OperatorBase, Callable[..., Any]] = {}
    targets: set[Any] = {node.target for node in nodes}
    for target in sorted((t for t in targets if t.namespace == "onnx"), key=str):
        since = overload_name(target).removeprefix("opset")
        body = torch.onnx.ops.aten_decompositions().get(target)
        own = own_converter(dispatcher, target.name())
        if since.isdigit() and int(since) > opset and body is not None and own is None:
            wanted[target] = body
    return wanted


def _decomposition(target: Any) -> Callable[..., Any] | None:
    found = get_decompositions([target]).get(target)
    if found is None and is_composite(target):
        return composite_body(target)
    return found


def _run(
    program: ExportedProgram, table: dict[Any, Any], *, writes: bool = False
) -> ExportedProgram:
    graph = program.graph_module
    shown = shown_views(graph) if writes else contextlib.nullcontext()
    try:
        with shown, marked_regions(graph), scalars_as_operators(graph):
            return decomposed(program, table)
    except Exception as error:  # torch raises what it likes from inside a decomposition
        first = str(error).strip().splitlines()[0] if str(error).strip() else ""
        remedy = (
            ". A branch or a loop body writes into a tensor from outside: return the new value"
            if "copy_.default' is not functional" in first
            else ""
        )
        raise RewriteError(
            "torch could not rewrite the graph without in-place writes and unsupported "
            f"operators: {type(error).__name__}: {first}{remedy}"
        ) from error
