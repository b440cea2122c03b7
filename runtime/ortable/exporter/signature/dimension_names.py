"""Name torch's symbols: the caller's names, names after nodes, and numbered names."""

from __future__ import annotations

import ast
import inspect
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.export import Dim
from torch.fx import GraphModule

from ortable import dims
from ortable.errors import ExportError
from ortable.exporter.frontend.export_request import Program

from .dynamic_shapes import Leaf, NamedHint


def name_dimensions(program: Program, requested: Sequence[Leaf] | None) -> None:
    """Name torch's symbols in ``program.symbol_names``, and set ``program.user_dims``.

    The caller's name or Dim has priority; other symbols of inputs get ``s0``, ``s1``... in order.
    Symbols of strides and storage offsets come last: they need names too, since torch's own names
    have the same form and could equal the new name of a size. Data-dependent sizes are named after
    their node. ``requested`` has the caller's specs of each input. Raises ExportError if a named
    dimension is static in the graph.
    """
    symbol_names = program.symbol_names
    if requested is not None and len(requested) == len(program.user_inputs):
        _name_requested(program, requested)
    values = [node.meta.get("val") for node in program.user_inputs]
    ordered: dict[str, None] = {}
    for value in values:
        ordered.update(dict.fromkeys(_symbols_of(value, symbol_names)))
    for value in values:
        if isinstance(value, torch.Tensor) and value.layout is torch.strided:
            for stride_or_offset in (*value.stride(), value.storage_offset()):
                ordered.update(dict.fromkeys(free_symbols(stride_or_offset)))
    used = set(symbol_names.values())
    program.user_dims = frozenset(used)
    number = 0
    for symbol in ordered:
        if symbol in symbol_names:
            continue
        while f"s{number}" in used:
            number += 1
        symbol_names[symbol] = f"s{number}"
        used.add(symbol_names[symbol])
    _name_unbacked(program.graph_module, symbol_names, used)


def _name_requested(program: Program, requested: Sequence[Leaf]) -> None:
    """Apply the caller's names; warn about names of dimensions that always equal another size.

    Also fills ``program.open_dims`` and ``program.open_maximums``.
    """
    symbol_names = program.symbol_names
    unused: list[tuple[str, str, Any]] = []
    for node, leaf in zip(program.user_inputs, requested, strict=True):
        value = node.meta.get("val")
        for axis, dim in leaf.dims().items():
            name = user_dim_name(dim)
            if name is None:
                continue
            size = value.shape[axis] if isinstance(value, torch.Tensor) else value
            location = (
                f"dimension {axis} of '{leaf.path}'" if value is not size else f"'{leaf.path}'"
            )
            symbols = free_symbols(size)
            if not symbols:
                raise ExportError(
                    f"{location} is named '{name}', but the program fixes it to {size}: export it "
                    "with that dimension dynamic"
                )
            is_symbol = str(size.node.expr) == symbols[0]  # type: ignore[union-attr]
            if len(symbols) == 1 and (is_symbol or hasattr(dim, "root")):
                if symbol_names.setdefault(symbols[0], name) != name:
                    unused.append((location, name, size))
                if isinstance(dim, NamedHint) and dim.min is None:
                    program.open_dims.add(symbols[0])
                if isinstance(dim, NamedHint) and dim.max is None:
                    program.open_maximums.add(symbols[0])
            elif not hasattr(dim, "root"):
                unused.append((location, name, size))
    unused = [
        (location, name, size)
        for location, name, size in unused
        if str(dims.from_torch(size, symbol_names)) != name
    ]
    if unused:
        lines = [
            f"  {location} ('{name}') is always {dims.from_torch(size, symbol_names)}"
            for location, name, size in unused
        ]
        warnings.warn(
            "names of dynamic_shapes that the model does not use:\n" + "\n".join(lines),
            UserWarning,
            stacklevel=caller_stack_level(),
        )


def caller_stack_level() -> int:
    """Return the stack level of the code that called ortable, for a warning.

    Frames of contextlib are skipped, because contextlib calls functions that a context manager
    decorates.
    """
    frame, level = inspect.currentframe(), 0
    while frame is not None and _is_inside(frame.f_globals.get("__name__", "")):
        frame, level = frame.f_back, level + 1
    return level


def _is_inside(module: str) -> bool:
    return module == "contextlib" or module.startswith("ortable.")


def user_dim_name(dim: Any) -> str | None:
    """Return the caller's name of a dimension; for a derived one (``2*half``) that of its root."""
    if isinstance(dim, NamedHint):
        return str(dim.name)
    if isinstance(dim, Dim):
        return str(getattr(dim, "root", dim).__name__)
    return None


def _symbols_of(value: Any, symbol_names: dict[str, str]) -> Iterator[str]:
    """Yield the symbols in the sizes of an input; name those that have a Dim."""
    sizes = value.shape if isinstance(value, torch.Tensor) else (value,)
    for size in sizes:
        for symbol in free_symbols(size):
            if symbol not in symbol_names:
                _name_from_source(size, symbol, symbol_names)
            yield symbol


def free_symbols(size: Any) -> list[str]:
    """Return the names of torch's symbols in a size; none for an int."""
    node = getattr(size, "node", None)
    symbols = getattr(getattr(node, "expr", None), "free_symbols", ())
    return sorted(str(symbol) for symbol in symbols)


def _name_from_source(size: Any, symbol: str, symbol_names: dict[str, str]) -> None:
    """Name a symbol after its Dim, if the shape environment of ``size`` records one for it."""
    environment = getattr(size.node, "shape_env", None)
    names = getattr(environment, "source_name_to_debug_name", None)
    sources = getattr(environment, "var_to_sources", None)
    if not names or not sources:
        return
    for key, symbol_sources in sources.items():
        if str(key) == symbol:
            for source in symbol_sources:
                source_name = getattr(source, "name", None)
                name = names.get(source_name() if callable(source_name) else source_name)
                if name and name.isidentifier() and name not in symbol_names.values():
                    symbol_names[symbol] = name
                    return


def _name_unbacked(graph_module: GraphModule, symbol_names: dict[str, str], used: set[str]) -> None:
    """Name data-dependent symbols after their node: ``nonzero_size``, ``item``, ``item_1``."""
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
            symbol_names[str(symbol)] = name
            used.add(name)


def format_condition(expression: Any, names: Mapping[str, str]) -> str:
    """Format a relation of sympy as Python; ``names`` maps its symbols to the caller's names."""
    from ortable.compat.torch import PythonPrinter

    class Printer(PythonPrinter):  # type: ignore[misc]
        def _print_Symbol(self, symbol: Any) -> str:
            return names.get(str(symbol), str(symbol))

        def _print_ToFloat(self, size: Any) -> str:
            operand = str(self._print(size.args[0]))
            return operand if operand.isidentifier() else f"({operand})"

    try:
        text = str(Printer().doprint(expression))
        return simplify_python(text)
    except Exception:  # sympy's printers raise for roots and fractions
        return str(expression)


def simplify_python(text: str) -> str:
    """Return Python text without needless brackets: ``n - m`` for ``(n) + -1 * m``."""
    return ast.unparse(ast.parse(text, mode="eval")).replace(" + -1 * ", " - ")
