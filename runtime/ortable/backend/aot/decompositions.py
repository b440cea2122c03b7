"""The decomposition table for AOTAutograd.

It is torch's core ATen table without the operators that have a converter or that the specs place in
torch: one node is faster than the many nodes of a decomposition. Operators that the specs decompose
(`tables.decompose`, `tables.foreach`) are in the table.
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
        operator: decomposition
        for operator, decomposition in core_aten_decompositions().items()
        if isinstance(operator, OpOverload)
        and (operator.name() in decomposed or operator.name() not in preserved)
    }
    for operator, decomposition in decomposition_table.items():
        if isinstance(operator, OpOverload) and operator.name() in decomposed:
            table[operator] = decomposition
    available_names = all_operator_names()
    foreach = {
        get_aten_overload(name): function
        for name, function in tables.foreach.items()
        if name in available_names
    }
    return {**foreach, **table}


def get_aten_overload(name: str) -> Any:
    """Return the overload with a name such as ``aten::add.Tensor``."""
    packet, _, overload = name.removeprefix("aten::").partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload or "default")


def get_decomposition_table() -> Table:
    """Return the recommended decompositions, `OpOverload -> callable`, as a new dict.

    The table suits `aot_autograd(decompositions=)`, `ExportedProgram.run_decompositions` and
    `make_fx`.
    """
    return dict(_build_default_table())


def filter_decomposition_table(
    existing_table: Mapping[Any, Callable[..., Any]] | None = None,
    filter_fct: Callable[[Any], bool] | None = None,
) -> Table:
    """Return a table without its inefficient entries.

    Args:
        existing_table: the table to filter; by default every decomposition that torch registers.
        filter_fct: takes an OpOverload and returns True to keep its decomposition; by default True
            for operators without a converter.

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

    return {op: function for op, function in existing_table.items() if filter_fct(op)}


def user_decompositions(options: OrtOptions) -> Table | None:
    """Return the decompositions of the user's ExportOptions; None means the backend's table."""
    return None if options.export_options is None else options.export_options.table()


def store_user_decompositions(compilation: Compilation) -> None:
    """Store the user's decompositions in the compilation."""
    compilation.decompositions = user_decompositions(compilation.options)


def select_decompositions(compilation: Compilation) -> Table:
    """Return the decompositions for AOTAutograd: the user's table or the default.

    While a bisection of decompositions runs, it can disable each decomposition.
    """
    table = compilation.decompositions
    table = get_decomposition_table() if table is None else table
    if not is_searching("decompositions"):
        return table

    def make_switchable(op: Any, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if is_disabled("decompositions", lambda: Application(op.name(), subject=function)):
                return NotImplemented  # torch then does not decompose the operator
            return function(*args, **kwargs)

        return call

    return {op: make_switchable(op, function) for op, function in table.items()}


def apply_decompositions(
    graph_module: GraphModule, table: Mapping[Any, Callable[..., Any]]
) -> GraphModule:
    """Apply `table` to a graph that AOTAutograd made without decompositions.

    The graph itself is returned if it calls no operator of `table`. Arguments and results keep
    their positions and AOTAutograd's descriptions (`meta["desc"]`).
    """
    if not any(
        node.op == "call_function" and node.target in table for node in graph_module.graph.nodes
    ):
        return graph_module
    from ortable.compat.torch import make_fx

    values = [node.meta["val"] for node in graph_module.graph.nodes if node.op == "placeholder"]
    traced = make_fx(graph_module, decomposition_table=dict(table), tracing_mode="real")(*values)
    for op in ("placeholder", "output"):
        before = [node for node in graph_module.graph.nodes if node.op == op]
        after = [node for node in traced.graph.nodes if node.op == op]
        for old_node, new_node in zip(before, after, strict=True):
            if "desc" in old_node.meta:
                new_node.meta["desc"] = old_node.meta["desc"]
    return traced
