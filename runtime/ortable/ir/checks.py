"""Checks of a node against its ONNX schema: arity, attribute names, element types.
Each returns the text of what is wrong, or None; the builder adds where and what was there."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ortable import dtypes

from .schemas import Schema

# what stands before the dtypes that an operator has
ONLY_THESE = "ONNX allows"


def check_arity(schema: Schema, n_inputs: int, n_outputs: int) -> str | None:
    """Number of inputs (trailing omitted ones not counted) and outputs."""
    if n_inputs > schema.max_inputs or n_inputs < schema.min_inputs:
        wanted = (
            f"{schema.min_inputs}"
            if schema.min_inputs == schema.max_inputs
            else f"{schema.min_inputs} to {schema.max_inputs}"
        )
        return f"it takes {wanted} inputs, {n_inputs} are given"
    if n_outputs > schema.max_outputs:
        return f"it has at most {schema.max_outputs} outputs, {n_outputs} are asked for"
    return None


def check_attributes(schema: Schema, attributes: Collection[str]) -> str | None:
    """Attribute names, and the presence of required ones."""
    known = schema.attributes
    for name in attributes:
        if name not in known:
            listed = ", ".join(sorted(known)) or "none"
            return f"it has no attribute {name!r}; its attributes are: {listed}"
    for name in schema.required:
        if name not in attributes:
            return f"attribute {name!r} is required"
    return None


def check_types(
    schema: Schema, names: Sequence[str], types: Sequence[int | None], also: Collection[int] = ()
) -> str | None:
    """Element types: allowed by the schema or in ``also``, and equal where one type parameter binds
    them."""
    bound: dict[str, tuple[str, int]] = {}
    for index, dtype in enumerate(types):
        if not dtype or not schema.inputs:
            continue
        formal = schema.input(index)
        if formal.param is None:
            if formal.dtype is not None and formal.dtype != dtype:
                return (
                    f"input {formal.name} ({names[index]!r}) must be {dtypes.name(formal.dtype)}, "
                    f"it is {dtypes.name(dtype)}"
                )
            continue
        legal = schema.legal[formal.param]
        if dtype not in legal and dtype not in also:
            listed = ", ".join(dtypes.name(t) for t in sorted(legal))
            return (
                f"input {formal.name} ({names[index]!r}) is {dtypes.name(dtype)}, "
                f"{ONLY_THESE} {listed}"
            )
        first = bound.setdefault(formal.param, (names[index], dtype))
        if first[1] != dtype:
            return (
                f"inputs {first[0]!r} ({dtypes.name(first[1])}) and {names[index]!r} "
                f"({dtypes.name(dtype)}) must have the same type; add a Cast"
            )
    return None


def output_type(schema: Schema, index: int, types: Sequence[int | None]) -> int | None:
    """Element type of an output where the schema ties it to an input, else None."""
    if not schema.outputs:
        return None
    formal = schema.output(index)
    if formal.param is None:
        return formal.dtype
    for position, dtype in enumerate(types):
        if dtype and schema.inputs and schema.input(position).param == formal.param:
            return dtype
    return None
