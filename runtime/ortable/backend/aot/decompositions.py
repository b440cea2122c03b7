"""The table of decompositions for AOTAutograd: torch's core ATen table without operators that
have a converter. One node is faster than the many of its decomposition.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.fx import GraphModule

from ortable.backend.options import OrtOptions
from ortable.compat.bisector import Application, is_disabled, is_searching
from ortable.interpreter.tables import generated_tables

from .compilation import Compilation

Table = dict[Any, Callable[..., Any]]


@functools.cache
def _build_default_table() -> Table:
    from ortable.compat.torch import (
        OpOverload,
        all_operator_names,
        core_aten_decompositions,
        decomposition_table,
    )

    tables = generated_tables()
    decomposed = set(tables.decompose)
    preserved = {*tables.converters, *tables.place}
    table = {
        op: fct
        for op, fct in core_aten_decompositions().items()
        if isinstance(op, OpOverload) and (op.name() in decomposed or op.name() not in preserved)
    }
    for op, fct in decomposition_table.items():
        if isinstance(op, OpOverload) and op.name() in decomposed:
            table[op] = fct
    present = all_operator_names()
    foreach = {
        overload_of(name): function for name, function in tables.foreach.items() if name in present
    }
    return {**foreach, **table}


def overload_of(name: str) -> Any:
    """Return the overload with the name ``aten::add.Tensor``."""
    packet, _, overload = name.removeprefix("aten::").partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload or "default")


def get_decomposition_table() -> Table:
    """Return the recommended decompositions, `OpOverload -> callable`, as a new dict.

    They suit `aot_autograd(decompositions=)`, `ExportedProgram.run_decompositions` and `make_fx`.
    """
    return dict(_build_default_table())


def filter_decomposition_table(
    existing_table: Mapping[Any, Callable[..., Any]] | None = None,
    filter_fct: Callable[[Any], bool] | None = None,
) -> Table:
    """Return a table without its inefficient entries.

    Args:
        existing_table: the table to filter; every decomposition that torch registers unless
            given.
        filter_fct: takes an OpOverload, returns True to keep its decomposition; those of
            operators that ortable cannot convert are kept unless given.

    Returns:
        A new dict.
    """
    if existing_table is None:
        from ortable.compat.torch import decomposition_table

        existing_table = decomposition_table
    if filter_fct is None:
        converters = generated_tables().converters

        def filter_fct(op: Any) -> bool:
            return getattr(op, "name", lambda: None)() not in converters

    return {op: fct for op, fct in existing_table.items() if filter_fct(op)}


def user_table(options: OrtOptions) -> Table | None:
    """Return the decompositions of the user's ExportOptions; None for the backend's own choice."""
    return None if options.export_options is None else options.export_options.table()


def note_user_table(compilation: Compilation) -> None:
    """Store the user's decompositions in the compilation."""
    compilation.decompositions = user_table(compilation.options)


def select_table(compilation: Compilation) -> Table:
    """Return the decompositions for AOTAutograd: the user's, or those of operators without
    converter.

    While a bisection runs, each can be disabled.
    """
    table = compilation.decompositions
    table = get_decomposition_table() if table is None else table
    if not is_searching("decompositions"):
        return table

    def make_switchable(op: Any, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if is_disabled("decompositions", lambda: Application(op.name(), subject=function)):
                return NotImplemented  # torch does not decompose the operator then
            return function(*args, **kwargs)

        return call

    return {op: make_switchable(op, function) for op, function in table.items()}


def apply_decompositions(
    graph_module: GraphModule, table: Mapping[Any, Callable[..., Any]]
) -> GraphModule:
    """Apply `table` to a graph that AOTAutograd made without decompositions.

    Returns the graph itself where it calls none of the operators. Arguments and results keep their
    positions and AOTAutograd's descriptions (`meta["desc"]`).
    """
    if not any(n.op == "call_function" and n.target in table for n in graph_module.graph.nodes):
        return graph_module
    from ortable.compat.torch import make_fx

    values = [n.meta["val"] for n in graph_module.graph.nodes if n.op == "placeholder"]
    traced = make_fx(graph_module, decomposition_table=dict(table), tracing_mode="real")(*values)
    for kind in ("placeholder", "output"):
        before = [n for n in graph_module.graph.nodes if n.op == kind]
        after = [n for n in traced.graph.nodes if n.op == kind]
        for old, new in zip(before, after, strict=True):
            if "desc" in old.meta:
                new.meta["desc"] = old.meta["desc"]
    return traced
