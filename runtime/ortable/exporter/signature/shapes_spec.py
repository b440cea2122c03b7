"""Convert torch's objects that state dynamic shapes to ``dynamic_shapes`` and assumptions.

They are ShapesCollection, AdditionalInputs and ShapesSpec. A ShapesSpec gives each dynamic
dimension a variable (``ShapeVar("batch", min=2)``) or an expression of variables, and lists
assumptions such as ``batch % 2 == 0``. A variable becomes a name. As in torch, an object is one
dimension wherever it occurs, and two objects of one name are two dimensions.
"""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from ortable import dims
from ortable.compat.torch import attached_shapes_spec, shapes_spec_parts, spec_children
from ortable.errors import ExportError
from ortable.exporter.frontend.export_request import Assumption
from ortable.exporter.signature import dynamic_shapes as shapes
from ortable.exporter.signature import pytrees
from ortable.exporter.signature.dimension_names import format_condition

_MODULE = "torch.fx.experimental.dynamic_spec"
_VARIABLE = re.compile(r"(.*)#\d+")  # torch's symbol of a variable: its name and a unique number
_CONTAINERS = ("DictSpec", "ObjectSpec", "SeqSpec", "TensorSpec")


def resolve_dynamic_shapes(
    dynamic_shapes: Any, module: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Any, tuple[Assumption, ...]]:
    """Convert torch's objects to a structure for the arguments, and their assumptions.

    Other values are returned as given. Without ``dynamic_shapes``, those that the decorator
    ``@dynamic_spec`` attached to ``module.forward`` are used.

    Raises:
        ExportError: the object does not fit the arguments, both ways to state shapes are used, or
            an assumption names no dimension or does not hold for the arguments.
    """
    attached = attached_shapes_spec(module)
    if attached is not None and dynamic_shapes is not None:
        raise ExportError(
            "forward has @dynamic_spec, and dynamic_shapes is given, too: leave one of them out"
        )
    spec = dynamic_shapes if attached is None else attached
    if _spec_kind(spec) in ("ParamsSpec", "ShapesSpec") or (
        isinstance(spec, dict) and _contains_spec(spec)
    ):
        return _convert_shapes_spec(spec, module, args, kwargs)
    if not isinstance(spec, (shapes.ShapesCollection, shapes.AdditionalInputs)):
        return spec, ()
    try:
        return spec.dynamic_shapes(module, tuple(args), dict(kwargs)), ()
    except (ValueError, TypeError) as error:
        class_name = type(spec).__name__
        raise ExportError(f"dynamic_shapes, a {class_name}, does not fit args: {error}") from error


def _spec_kind(value: Any) -> str:
    """Return the name of a class of torch's module for specifications; empty for other values."""
    is_variable = isinstance(value, torch.SymInt)  # IntVar, ShapeVar, and expressions of them
    is_spec = type(value).__module__ == _MODULE
    return type(value).__name__ if is_variable or is_spec else ""


def _contains_spec(entry: Any) -> bool:
    """Whether a nest of dicts and lists contains a specification of torch's."""
    if _spec_kind(entry):
        return True
    children = _list_children(entry)
    parts = children.values() if isinstance(children, dict) else children or ()
    return any(map(_contains_spec, parts))


def _convert_shapes_spec(
    spec: Any, module: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[dict[str, Any], tuple[Assumption, ...]]:
    from ortable.compat.torch import dynamic_spec

    if not isinstance(spec, dynamic_spec.ShapesSpec):
        spec = dynamic_spec.ShapesSpec(spec if _spec_kind(spec) else dict(spec))
    entries, positional, keywords, stated = shapes_spec_parts(spec)
    if positional:
        entries[_positional_rest(module)] = tuple(positional)
    entries.update(keywords)
    arguments = shapes.bind_arguments(module, args, kwargs)
    values = {**arguments, **(arguments[arguments.rest] if arguments.rest else {})}
    names = _name_variables([*_variable_leaves(entries), *stated])
    converted = {
        key: _convert_entry(entry, values.get(key), names) for key, entry in entries.items()
    }
    return converted, _convert_assumptions(stated, names, converted, arguments, kwargs)


def _positional_rest(module: Any) -> str:
    """Return the name of the parameter ``*args`` of forward."""
    for name, parameter in inspect.signature(module.forward).parameters.items():
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            return name
    return "*args"  # an unknown argument, which is an error


def _list_children(entry: Any) -> dict[Any, Any] | list[Any] | None:
    """Return the entries of a specification of a container or tensor; None for a size."""
    if isinstance(entry, dict):
        return entry
    if isinstance(entry, (list, tuple)):
        return list(entry)
    return spec_children(entry) if _spec_kind(entry) in _CONTAINERS else None


def _variable_leaves(entry: Any) -> Iterator[Any]:
    """Yield the variables and expressions of a specification."""
    if isinstance(entry, torch.SymInt):
        yield entry
    children = _list_children(entry)
    if children is not None:
        for child in children.values() if isinstance(children, dict) else children:
            yield from _variable_leaves(child)


def _name_variables(leaves: Sequence[Any]) -> dict[str, str]:
    """Return a name for each of torch's symbols (``batch#0``), in the order of their occurrence."""
    names: dict[str, str] = {}
    for leaf in leaves:
        for symbol in sorted(map(str, leaf.node.expr.free_symbols)):
            match = _VARIABLE.fullmatch(symbol)
            base = re.sub(r"\W", "_", match[1] if match else symbol)
            base = base if base.isidentifier() else f"dim_{base}"
            candidate, number = base, 1
            while candidate in names.values():
                number += 1
                candidate = f"{base}_{number}"
            names.setdefault(symbol, candidate)
    return names


def _convert_entry(entry: Any, value: Any, names: Mapping[str, str]) -> Any:
    children = _list_children(entry)
    if isinstance(children, dict):
        values = dict(pytrees.container_children(value) or ())
        return {k: _convert_entry(child, values.get(k), names) for k, child in children.items()}
    if children is None:
        return _convert_size(entry, names)
    # entries that are left out of a list are static
    items = value if isinstance(value, (list, tuple)) and _spec_kind(entry) != "TensorSpec" else ()
    pairs = itertools.zip_longest(children, items)
    return [_convert_entry(child, item, names) for child, item in pairs]


def _convert_size(size: Any, names: Mapping[str, str]) -> Any:
    """Return the hint for a variable, the text of an expression, or an int or None as given."""
    if not isinstance(size, torch.SymInt):
        return size
    expression = size.node.expr
    if not expression.is_Symbol:
        return str(dims.from_torch(expression, names))
    name, least = names[str(expression)], getattr(size, "min", None)
    if least is not None and least < 0:
        raise ExportError(
            f"'{name}' is {least} or more in dynamic_shapes, but torch.export takes integers from "
            "0 on: give it a min of 0, or pass the number as a 0-d tensor"
        )
    # 0 is the default of ShapeVar: the smallest size is then the one that the model accepts
    return shapes.NamedHint(name, least or None, getattr(size, "max", None))


def _convert_assumptions(
    stated: Sequence[Any],
    names: Mapping[str, str],
    converted: Mapping[str, Any],
    arguments: Mapping[str, Any],
    kwargs: Mapping[str, Any],
) -> tuple[Assumption, ...]:
    """Return the assumptions; raise ExportError if one does not hold for the arguments."""
    if not stated:
        return ()
    import sympy

    leaves = shapes.collect_leaf_specs(converted, arguments, kwargs)
    sizes = {
        dim.name: leaf.value.shape[axis] if isinstance(leaf.value, torch.Tensor) else leaf.value
        for leaf in leaves
        for axis, dim in leaf.dims().items()
        if isinstance(dim, shapes.NamedHint)
    }
    assumptions = []
    for condition in stated:
        symbols = condition.node.expr.free_symbols
        renamed = {s: sympy.Symbol(names[str(s)], integer=True) for s in symbols}
        expression = condition.node.expr.xreplace(renamed)
        assumption = Assumption(format_condition(expression, {}), expression)
        missing = sorted(assumption.names - sizes.keys())
        if missing:
            raise ExportError(
                f"the assumption '{assumption.text}' names '{missing[0]}', and no dimension is "
                f"named '{missing[0]}'"
            )
        if not assumption.holds(sizes):
            texts = ", ".join(f"{name}={sizes[name]}" for name in sorted(assumption.names))
            raise ExportError(f"the assumption '{assumption.text}' does not hold in args: {texts}")
        assumptions.append(assumption)
    return tuple(assumptions)


def make_shapes_spec(dynamic_shapes: Mapping[str, Any], module: Any, arguments: Any) -> Any:
    """Make torch's ShapesSpec of normalized dynamic shapes with names.

    Args:
        dynamic_shapes: a result of `dynamic_shapes.normalize_shapes`.
        module: the module, whose forward has the signature.
        arguments: the arguments of a call, a result of `dynamic_shapes.bind_arguments`.
    """
    from ortable.compat.torch import dynamic_spec

    rest = arguments.rest or ""
    values = {key: value for key, value in arguments.items() if key != rest}
    values |= arguments.get(rest, {})
    leaves = shapes.collect_leaf_specs(dynamic_shapes, values, {})
    variables: dict[str, Any] = {}
    for leaf in sorted(leaves, key=lambda leaf: not isinstance(leaf.value, torch.Tensor)):
        is_tensor = isinstance(leaf.value, torch.Tensor)
        make_variable = dynamic_spec.ShapeVar if is_tensor else dynamic_spec.IntVar
        for hint in leaf.dims().values():
            if hint.name.isidentifier() and hint.name not in variables:
                bounds = {"min": hint.min, "max": hint.max}
                bounds = {key: bound for key, bound in bounds.items() if bound is not None}
                variables[hint.name] = make_variable(hint.name, **bounds)
    params: dict[str, Any] = {}
    for key, spec in dynamic_shapes.items():
        entry = _make_entry(spec, values[key], variables)
        if key in arguments and key == _positional_rest(module):
            params["*args"] = spec_children(entry)
        elif key in arguments:
            params[key] = entry
        else:
            params.setdefault("**kwargs", {})[key] = entry
    return dynamic_spec.ShapesSpec(params)


def _make_entry(spec: Any, value: Any, variables: Mapping[str, Any]) -> Any:
    from ortable.compat.torch import dynamic_spec

    if spec is None:
        return None
    children = pytrees.container_children(value)
    if children is not None:
        specs = dict(pytrees.container_children(spec) or ())
        entries = {k: _make_entry(specs.get(k), child, variables) for k, child in children}
        if pytrees.is_mapping(value):
            return dynamic_spec.DictSpec(entries)
        if isinstance(value, (list, tuple)):
            return dynamic_spec.SeqSpec(list(entries.values()))
        return dynamic_spec.ObjectSpec(entries)
    if not isinstance(value, torch.Tensor):
        return shapes.combine_values(spec.name, variables) or variables[spec.name]
    sizes = [spec.get(axis) for axis in range(value.dim())]
    return dynamic_spec.TensorSpec(
        [
            shapes.combine_values(size.name, variables) or variables[size.name]
            if isinstance(size, shapes.NamedHint)
            else size
            for size in sizes
        ]
    )
