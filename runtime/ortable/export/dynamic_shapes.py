"""Dynamic dimensions: the user's names of them, checked against the inputs before torch.export
runs, found again in its graph, and put into the error when torch.export finds that a dimension
cannot vary."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from ..errors import ExportError

Leaf = tuple[str, Any, Any]


def bound_arguments(module: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of ``module.forward`` by name, ``*args`` and ``**kwargs`` under their own names.

    Raises ExportError when the call does not fit the signature.
    """
    signature = inspect.signature(module.forward)
    try:
        return dict(signature.bind(*args, **kwargs).arguments)
    except TypeError as error:
        raise ExportError(
            f"{type(module).__name__}.forward{signature} cannot be called with these arguments: "
            f"{error}"
        ) from error


def normalized(dynamic_shapes: Any, arguments: Mapping[str, Any]) -> Any:
    """``dynamic_shapes`` as torch.export takes it: names become Dims, keys are in the order of the
    signature.

    A string names a dimension: ``{"x": {0: "batch"}}`` is ``{"x": {0: Dim("batch")}}``.
    Raises ExportError for an argument that the model lacks, a structure that does not fit, or a
    dimension out of range.
    """
    if dynamic_shapes is None:
        return None
    if isinstance(dynamic_shapes, Mapping):
        unknown = [key for key in dynamic_shapes if key not in arguments]
        if unknown:
            raise ExportError(
                f"dynamic_shapes names {', '.join(map(repr, unknown))}, but the arguments of the "
                "model are "
                f"{list(arguments)}"
            )
        specs: dict[str, Any] = {key: dynamic_shapes.get(key) for key in arguments}
    else:
        if not isinstance(dynamic_shapes, (list, tuple)) or len(dynamic_shapes) != len(arguments):
            raise ExportError(
                "dynamic_shapes is a dict by argument name or one entry for each of "
                f"{list(arguments)}, "
                f"not {dynamic_shapes!r}"
            )
        specs = dict(zip(arguments, dynamic_shapes, strict=True))
    known: dict[str, Any] = {}
    return {key: _normalized_value(key, arguments[key], spec, known) for key, spec in specs.items()}


def leaves(path: str, value: Any, spec: Any) -> Iterator[Leaf]:
    """(path, leaf, specification) for each leaf of an argument, in the order that torch flattens
    them."""
    if isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from leaves(f"{path}[{index}]", item, spec[index] if spec is not None else None)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(f"{path}[{key!r}]", item, spec.get(key) if spec is not None else None)
    else:
        yield path, value, spec


def dimension_names(
    placeholders: Sequence[Any], arguments: Mapping[str, Any] | None, dynamic_shapes: Any
) -> dict[str, str]:
    """Names of torch's symbols: the user's where a Dim was given, ``s0``, ``s1``... in the order of
    the inputs otherwise.

    ``placeholders`` are the FX nodes of the flattened user inputs.
    """
    named: dict[str, str] = {}
    if dynamic_shapes is not None and arguments is not None:
        flat = [
            leaf
            for key, value in arguments.items()
            for leaf in leaves(key, value, dynamic_shapes.get(key))
        ]
        if len(flat) == len(placeholders):
            for node, (_, _, spec) in zip(placeholders, flat, strict=True):
                _name_sizes(node.meta.get("val"), spec, named)
    ordered: list[str] = []
    for node in placeholders:
        for symbol in _symbols_of(node.meta.get("val"), named):
            if symbol not in ordered:
                ordered.append(symbol)
    taken = set(named.values())
    number = 0
    for symbol in ordered:
        if symbol in named:
            continue
        while f"s{number}" in taken:
            number += 1
        named[symbol] = f"s{number}"
        taken.add(named[symbol])
    return named


def explained(
    error: Exception, arguments: Mapping[str, Any], dynamic_shapes: Any
) -> ExportError | None:
    """Our error for torch's complaint that a dynamic dimension cannot vary; None for any other
    error."""
    text = str(error)
    if "Constraints violated" not in text and "marked" not in text and "specialized" not in text:
        return None
    flat = [
        leaf
        for key, value in arguments.items()
        for leaf in leaves(key, value, (dynamic_shapes or {}).get(key))
    ]
    violated = {
        name.strip()
        for found in re.findall(r"Constraints violated \(([^)]*)\)", text)
        for name in found.split(",")
    }
    sources = set(re.findall(r"L\['(\w+)'\]((?:\[[^\]]+\])*)\.size\(\)\[(\d+)\]", text))
    places = []
    for path, value, spec in flat:
        for axis, dim in _dims_of(spec):
            name = getattr(dim, "__name__", None)
            if name in violated or any(
                f"{base}{rest}" == path and int(at) == axis for base, rest, at in sources
            ):
                size = value.shape[axis] if isinstance(value, torch.Tensor) else "?"
                places.append(
                    f"  input '{path}', dimension {axis} ({name or dim}), size {size} in args"
                )
    reasons = [line.strip() for line in text.splitlines() if line.strip().startswith("- ")]
    fixes = _suggested_fixes(text)
    lines = [
        "the dynamic shapes do not fit the model:",
        *places,
        *(f"  {reason}" for reason in reasons),
    ]
    if fixes:
        lines += ["torch suggests:", *(f"  {fix}" for fix in fixes)]
    lines.append(
        "Take torch's suggestion, make the dimension static (leave it out of dynamic_shapes), "
        "share one Dim between "
        "dimensions that must be equal, "
        "or change the code that fixes it."
    )
    return ExportError("\n".join(lines))


def _suggested_fixes(text: str) -> list[str]:
    _, found, rest = text.partition("Suggested fixes:")
    if not found:
        return []
    return [line.strip() for line in rest.partition("\n\n")[0].splitlines() if line.strip()]


def _normalized_value(path: str, value: Any, spec: Any, known: dict[str, Any]) -> Any:
    if spec is None:
        return None
    if isinstance(value, torch.Tensor):
        return _normalized_tensor(path, value, spec, known)
    if isinstance(value, (list, tuple)):
        if not isinstance(spec, (list, tuple)) or len(spec) != len(value):
            raise ExportError(
                f"dynamic_shapes of '{path}' needs one entry for each of its {len(value)} items, "
                f"not {spec!r}"
            )
        items = [
            _normalized_value(f"{path}[{i}]", item, spec[i], known) for i, item in enumerate(value)
        ]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, dict):
        if not isinstance(spec, Mapping) or any(key not in value for key in spec):
            raise ExportError(
                f"dynamic_shapes of '{path}' is a dict with keys among {list(value)}, not {spec!r}"
            )
        return {
            key: _normalized_value(f"{path}[{key!r}]", item, spec.get(key), known)
            for key, item in value.items()
        }
    return spec


def _normalized_tensor(
    path: str, value: torch.Tensor, spec: Any, known: dict[str, Any]
) -> dict[int, Any]:
    rank = value.dim()
    if isinstance(spec, Mapping):
        wrong = [axis for axis in spec if not isinstance(axis, int) or not -rank <= axis < rank]
        if wrong:
            raise ExportError(
                f"dynamic_shapes of '{path}' names dimension {wrong[0]!r}, but it has rank {rank} "
                f"(shape {tuple(value.shape)})"
            )
        items = {(axis + rank if axis < 0 else axis): dim for axis, dim in spec.items()}
    elif isinstance(spec, (list, tuple)) and len(spec) == rank:
        items = dict(enumerate(spec))
    else:
        raise ExportError(
            f"dynamic_shapes of '{path}' is a dict by dimension or one entry for each of its "
            f"{rank} dimensions, not {spec!r}"
        )
    return {axis: _dim(path, axis, dim, known) for axis, dim in items.items() if dim is not None}


def _dim(path: str, axis: int, dim: Any, known: dict[str, Any]) -> Any:
    if isinstance(dim, str):
        if not dim.isidentifier():
            raise ExportError(
                f"dimension {axis} of '{path}' is named {dim!r}, which is not an identifier"
            )
        return known.setdefault(dim, torch.export.Dim(dim))
    return dim


def _dims_of(spec: Any) -> list[tuple[int, Any]]:
    if isinstance(spec, Mapping):
        return [
            (axis, dim) for axis, dim in spec.items() if isinstance(axis, int) and dim is not None
        ]
    if isinstance(spec, (list, tuple)):
        return [(axis, dim) for axis, dim in enumerate(spec) if dim is not None]
    return []


def _name_sizes(value: Any, spec: Any, named: dict[str, str]) -> None:
    if not isinstance(value, torch.Tensor):
        return
    for axis, dim in _dims_of(spec):
        size = value.shape[axis]
        root = getattr(
            dim, "root", dim
        )  # 2*Dim("half") is derived from half, and so is torch's expression
        name = root if isinstance(root, str) else getattr(root, "__name__", None)
        free = _free_symbols(size)
        if name is not None and len(free) == 1:
            named.setdefault(free[0], name)


def _symbols_of(value: Any, named: dict[str, str]) -> Iterator[str]:
    sizes = value.shape if isinstance(value, torch.Tensor) else (value,)
    for size in sizes:
        for symbol in _free_symbols(size):
            if symbol not in named:
                _name_from_source(size, symbol, named)
            yield symbol


def _free_symbols(size: Any) -> list[str]:
    node = getattr(size, "node", None)
    free = getattr(getattr(node, "expr", None), "free_symbols", ())
    return sorted(str(symbol) for symbol in free)


def _name_from_source(size: Any, symbol: str, named: dict[str, str]) -> None:
    """An ExportedProgram made in this process still knows the names of its Dims, through its shape
    environment."""
    environment = getattr(size.node, "shape_env", None)
    names = getattr(environment, "source_name_to_debug_name", None)
    sources = getattr(environment, "var_to_sources", None)
    if not names or not sources:
        return
    for key, places in sources.items():
        if str(key) == symbol:
            for place in places:
                spelled = getattr(place, "name", None)
                name = names.get(spelled() if callable(spelled) else spelled)
                if name and name.isidentifier() and name not in named.values():
                    named[symbol] = name
                    return
