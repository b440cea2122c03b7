"""Decompositions handed to AOTAutograd: torch's core ATen table without what ortable converts
whole. An operator with a converter stays whole: one node for it beats the many of its
decomposition. Out comes a table of functions; called by `entry`, and by users."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch

from ortable.compat.bisector import Application, disabled, searches
from ortable.interpreter.tables import generated_tables

__all__ = [
    "filter_decomposition_table",
    "get_decomposition_table",
    "overload_of",
    "resolve_table",
    "switchable",
]

Table = dict[Any, Callable[..., Any]]


@functools.cache
def _default_table() -> Table:
    from ortable.compat.torch import (
        OpOverload,
        all_operator_names,
        core_aten_decompositions,
        decomposition_table,
    )

    tables = generated_tables()
    wanted = set(tables.decompose)
    whole = {*tables.converters, *tables.place}
    table = {
        op: fct
        for op, fct in core_aten_decompositions().items()
        if isinstance(op, OpOverload) and (op.name() in wanted or op.name() not in whole)
    }
    for op, fct in decomposition_table.items():
        if isinstance(op, OpOverload) and op.name() in wanted:
            table[op] = fct
    present = all_operator_names()
    foreach = {
        overload_of(name): function for name, function in tables.foreach.items() if name in present
    }
    return {**foreach, **table}


def overload_of(name: str) -> Any:
    """The overload that is called ``aten::add.Tensor``."""
    packet, _, overload = name.removeprefix("aten::").partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload or "default")


def get_decomposition_table() -> Table:
    """The recommended decompositions, `OpOverload -> callable`, for
    `aot_autograd(decompositions=)`,
    `ExportedProgram.run_decompositions` or `make_fx`.  A new dict at every call.
    """
    return dict(_default_table())


def filter_decomposition_table(
    existing_table: Mapping[Any, Callable[..., Any]] | None = None,
    filter_fct: Callable[[Any], bool] | None = None,
) -> Table:
    """A table without its inefficient entries.

    Args:
        existing_table: the table to filter; every decomposition that torch registers unless
            given.
        filter_fct: takes an OpOverload, returns True to keep its decomposition; those of
            operators that ortable cannot convert are kept unless given.
    """
    if existing_table is None:
        from ortable.compat.torch import decomposition_table

        existing_table = decomposition_table
    if filter_fct is None:
        converters = generated_tables().converters

        def filter_fct(op: Any) -> bool:
            return getattr(op, "name", lambda: None)() not in converters

    return {op: fct for op, fct in existing_table.items() if filter_fct(op)}


def resolve_table(export_options: Any) -> Table | None:
    """The decompositions that ExportOptions ask for; None where they leave whole what ortable
    converts, which is the backend's own choice."""
    return None if export_options is None else export_options.table()


def switchable(table: Table) -> Table:
    """The table, with functions that do nothing where a search for a fault has switched them off;
    the same one when none runs."""
    if not searches("decompositions"):
        return table

    def wrapped(op: Any, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if disabled("decompositions", lambda: Application(op.name(), subject=function)):
                return NotImplemented  # torch leaves the operator whole then
            return function(*args, **kwargs)

        return call

    return {op: wrapped(op, function) for op, function in table.items()}
