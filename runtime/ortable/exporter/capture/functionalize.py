"""Steps of torch on an exported program before it is converted, each only when needed:
functionalisation when the graph writes in place, decomposition of operators without a converter
that the tables name, and the table that the user chose. In comes an ExportedProgram, out go
another and what was done. Called by exported.py; custom_operators.py takes its decompositions."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from ortable.compat.torch import (
    HigherOrderOperator,
    OperatorBase,
    OpOverload,
    composite_kernel,
    get_decompositions,
    is_alias_of,
    is_composite,
    overload_name,
    pytree,
)
from ortable.errors import ExportError
from ortable.exporter.dispatchers.dispatcher import direct_converter, own_converter
from ortable.exporter.request.options import ExportOptions
from ortable.interpreter.mutation.visible_writes import first_write
from ortable.interpreter.tables import ConverterTables
from ortable_generated.aten import traits

from .branch_constants import scalars_as_operators
from .flat_calls import decomposed
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
    if table is not None:
        chosen = options.decomposition_table
        name = chosen if isinstance(chosen, str) else "the user's"
        if isinstance(chosen, str):  # an entry of the user's own dict is meant
            for op in [op for op in table if own_converter(dispatcher, op.name()) is not None]:
                table.pop(op)  # the user's converter takes it whole
        return _run(program, table), [f"decomposed with the table '{name}' ({len(table)} entries)"]
    reason = why_rewrite(program.graph_module, tables)
    needed = to_decompose(program.graph_module, tables, dispatcher, opset)
    if reason is None and not needed:
        return program, []
    notes = []
    if reason is not None:
        needed = {**needed, **_hidden_views(program.graph_module, dispatcher)}
        notes.append(f"functionalised: {reason}")
    if needed:
        notes.append(f"decomposed: {', '.join(sorted(op.name() for op in needed))}")
    rewritten = _run(program, needed)
    more = to_decompose(rewritten.graph_module, tables, dispatcher, opset)
    if more:
        notes.append(f"decomposed: {', '.join(sorted(op.name() for op in more))}")
        rewritten = _run(rewritten, more)
    return rewritten, notes


def _hidden_views(
    graph_module: GraphModule, dispatcher: Any
) -> dict[OperatorBase, Callable[..., Any]]:
    """The bodies of composite operators of the graph that return memory of an input, which their
    schemas do not say: ``meshgrid``, ``broadcast_tensors``, ``dropout`` in eval mode. torch's
    functionalisation takes their results for new tensors, and writes into either would be lost.

    Raises ExportError where a converter of the user's own takes such an operator whole.
    """
    found: dict[OperatorBase, Callable[..., Any]] = {}
    for node in _operators(graph_module):
        target: Any = node.target
        schema = target._schema
        if target in found or schema.is_mutable or not is_composite(target):
            continue
        if target.name() in traits.FRESH or any(r.alias_info is not None for r in schema.returns):
            continue
        if target.name() in traits.IDENTITY_IN_EVAL or not _returns_an_input(node):
            continue
        if own_converter(dispatcher, target.name()) is not None:
            raise ExportError(
                f"node '{node.name}' ({target.name()}) returns memory of its input, and the graph "
                "writes in place; torch loses such a write where your converter takes the operator "
                "whole. Remedy: do not write in place, or leave the converter out."
            )
        found[target] = composite_body(target)
    return found


@contextlib.contextmanager
def _without_identities(graph_module: GraphModule) -> Iterator[None]:
    """For as long as the block runs, who reads dropout in eval mode reads its input, which it
    returns: torch's own body of it copies, and a write into either would be lost."""
    changed: list[tuple[Node, Any, Any]] = []
    for node in _operators(graph_module):
        target: Any = node.target
        names = [argument.name for argument in target._schema.arguments]
        given = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
        if target.name() in traits.IDENTITY_IN_EVAL and given.get("train") is False:
            source: Any = node.args[0]
            for user in list(node.users):
                changed.append((user, user.args, user.kwargs))
                user.replace_input_with(node, source)
    try:
        yield
    finally:
        for user, args, kwargs in reversed(changed):
            user.args, user.kwargs = args, kwargs


def _returns_an_input(node: Node) -> bool:
    """Whether a result of a call shares memory with an input, tried on tensors without memory of
    the sizes that were traced (torch's own examples would note what the call asks of sizes); true
    where that fails."""
    target: Any = node.target
    given = map_arg((node.args, node.kwargs), lambda each: each.meta.get("val"))
    args, kwargs = pytree.tree_map(_without_memory, given)
    inputs = [each for each in pytree.tree_leaves((args, kwargs)) if torch.is_tensor(each)]
    if not inputs:
        return False
    try:
        with torch.no_grad():
            results = pytree.tree_leaves(target(*args, **kwargs))
    except Exception:  # what torch raises for such tensors says nothing about memory
        return True
    tensors = [each for each in results if torch.is_tensor(each)]
    return any(is_alias_of(result, each) for result in tensors for each in inputs)


def _without_memory(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        sizes, strides = ([_traced_size(n) for n in each] for each in (value.shape, value.stride()))
        return torch.empty_strided(sizes, strides, dtype=value.dtype, device="meta")
    return _traced_size(value)


def _traced_size(value: Any) -> Any:
    """The number that a symbolic one was traced with; 2 for one that depends on data."""
    if not isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
        return value
    return value.node.hint if value.node.has_hint() else 2


def why_rewrite(graph_module: GraphModule, tables: ConverterTables) -> str | None:
    """Why the graph cannot be converted as it is: an in-place write, or a region that torch must
    write out."""
    found = first_write(graph_module, tables)
    if found is not None:
        node, why = found
        return f"node '{node.name}' writes to its argument, {why}"
    for node in (node for module in _graphs(graph_module) for node in module.graph.nodes):
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
    nodes = _operators(graph_module)
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


def composite_body(target: Any) -> Callable[..., Any]:
    """What a composite operator is made of. (``target.decompose`` would come back here for ever:
    torch registers the table's function as the operator's own composite kernel.)"""
    return composite_kernel(target)


def _operators(graph_module: GraphModule) -> list[Node]:
    return [
        node
        for module in _graphs(graph_module)
        for node in module.graph.nodes
        if isinstance(node.target, OpOverload)
    ]


def _graphs(graph_module: GraphModule) -> list[GraphModule]:
    """The graph and the graphs inside it."""
    return [module for module in graph_module.modules() if isinstance(module, GraphModule)]


def _run(program: ExportedProgram, table: dict[Any, Any]) -> ExportedProgram:
    try:
        graph = program.graph_module
        with _without_identities(graph), marked_regions(graph), scalars_as_operators(graph):
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
