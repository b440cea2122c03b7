"""Name torch's symbols: the user's names, names after operators that make a size, and numbers."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.export import Dim
from torch.fx import GraphModule

from ortable import dims
from ortable.errors import ExportError
from ortable.exporter.frontend.export_request import Program

from .dynamic_shapes import Leaf, NamedHint


def name_dimensions(program: Program, requested: Sequence[Leaf] | None) -> None:
    """Name torch's symbols in ``program.symbol_names``.

    The user's name or Dim comes first; other inputs get ``s0``, ``s1``... in order; sizes that
    depend on data are named after their node. ``requested`` has the user's specs of each input.
    Raises ExportError when a named dimension is fixed in the graph.
    """
    named = program.symbol_names
    if requested is not None and len(requested) == len(program.user_inputs):
        _name_requested(program, requested)
    ordered: list[str] = []
    for node in program.user_inputs:
        for symbol in _symbols_of(node.meta.get("val"), named):
            if symbol not in ordered:
                ordered.append(symbol)
    used = set(named.values())
    program.user_dims = frozenset(used)
    number = 0
    for symbol in ordered:
        if symbol in named:
            continue
        while f"s{number}" in used:
            number += 1
        named[symbol] = f"s{number}"
        used.add(named[symbol])
    _name_unbacked(program.graph_module, named, used)


def _name_requested(program: Program, requested: Sequence[Leaf]) -> None:
    named = program.symbol_names
    lost: list[tuple[str, str, Any]] = []
    for node, leaf in zip(program.user_inputs, requested, strict=True):
        value = node.meta.get("val")
        for axis, dim in leaf.dims().items():
            name = name_of(dim)
            if name is None:
                continue
            size = value.shape[axis] if isinstance(value, torch.Tensor) else value
            where = f"dimension {axis} of '{leaf.path}'" if value is not size else f"'{leaf.path}'"
            free = free_symbols(size)
            if not free:
                raise ExportError(
                    f"{where} is named '{name}', but the program fixes it to {size}: export it "
                    "with that dimension dynamic"
                )
            plain = str(size.node.expr) == free[0]  # type: ignore[union-attr]
            if len(free) == 1 and (plain or hasattr(dim, "root")):
                if named.setdefault(free[0], name) != name:
                    lost.append((where, name, size))
                if isinstance(dim, NamedHint) and dim.min is None:
                    program.open_dims.add(free[0])
                if isinstance(dim, NamedHint) and dim.max is None:
                    program.open_maximums.add(free[0])
            elif not hasattr(dim, "root"):
                lost.append((where, name, size))
    lost = [
        (where, name, size)
        for where, name, size in lost
        if str(dims.from_torch(size, named)) != name
    ]
    if lost:
        lines = [
            f"  {where} ('{name}') is always {dims.from_torch(size, named)}"
            for where, name, size in lost
        ]
        warnings.warn(
            "names of dynamic_shapes that the model does not use:\n" + "\n".join(lines),
            UserWarning,
            stacklevel=caller_stack_level(),
        )


def caller_stack_level() -> int:
    """Return how far up the stack the caller of ortable is, for a warning.

    Functions of contextlib call those that a context manager decorates.
    """
    frame, level = inspect.currentframe(), 0
    while frame is not None and _is_inside(frame.f_globals.get("__name__", "")):
        frame, level = frame.f_back, level + 1
    return level


def _is_inside(module: str) -> bool:
    return module == "contextlib" or module.startswith("ortable.")


def name_of(dim: Any) -> str | None:
    """Return the user's name of a dimension: that of the root for a derived one (``2*half``)."""
    if isinstance(dim, NamedHint):
        return str(dim.name)
    if isinstance(dim, Dim):
        return str(getattr(dim, "root", dim).__name__)
    return None


def _symbols_of(value: Any, named: dict[str, str]) -> Iterator[str]:
    sizes = value.shape if isinstance(value, torch.Tensor) else (value,)
    for size in sizes:
        for symbol in free_symbols(size):
            if symbol not in named:
                _name_from_source(size, symbol, named)
            yield symbol


def free_symbols(size: Any) -> list[str]:
    """Return the names of torch's symbols in a size; none for an int."""
    node = getattr(size, "node", None)
    free = getattr(getattr(node, "expr", None), "free_symbols", ())
    return sorted(str(symbol) for symbol in free)


def _name_from_source(size: Any, symbol: str, named: dict[str, str]) -> None:
    """Use the name of a Dim that the shape environment of an ExportedProgram still has."""
    environment = getattr(size.node, "shape_env", None)
    names = getattr(environment, "source_name_to_debug_name", None)
    sources = getattr(environment, "var_to_sources", None)
    if not names or not sources:
        return
    for key, symbol_sources in sources.items():
        if str(key) == symbol:
            for source in symbol_sources:
                spelled = getattr(source, "name", None)
                name = names.get(spelled() if callable(spelled) else spelled)
                if name and name.isidentifier() and name not in named.values():
                    named[symbol] = name
                    return


def _name_unbacked(graph_module: GraphModule, named: dict[str, str], used: set[str]) -> None:
    """Name a symbol after its node: ``nonzero_size``, ``item``; numbered where a node makes
    several.
    """
    for node in graph_module.graph.nodes:
        bindings = node.meta.get("unbacked_bindings")
        if not bindings:
            continue
        value = node.meta.get("val")
        base = node.name.lstrip("_") + ("" if isinstance(value, torch.SymInt) else "_size")
        for symbol in bindings:
            name, number = base, 0
            while name in used:
                number += 1
                name = f"{base}_{number}"
            named[str(symbol)] = name
            used.add(name)
