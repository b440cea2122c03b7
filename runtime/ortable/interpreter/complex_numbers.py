"""Complex tensors in a graph: which converter takes them, how they cross the boundary of the graph,
and the refusal of an operator that has no complex form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ortable.ir import Graph
from ortable.ir.result import ResultSpec
from ortable.lowerings.complex.parts import each_part
from ortable.prelude.complex_value import (
    ComplexValue,
    contains_complex,
    join_pair,
    part_type,
    split_pair,
)

from .. import dtypes
from ..errors import BuilderError, UnsupportedCase
from ..lowerings.indexing import lower_getitem
from .results import check_and_complete
from .tables import Converter, ConverterTables


def select_converter(
    tables: ConverterTables,
    key: str,
    converter: Converter,
    res: ResultSpec,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> Converter | None:
    """The converter for complex tensors when an argument or a result is one, else None.

    A converter that a dispatcher put in the place of the tables' own is kept.
    Raises UnsupportedCase, with the lines to add, when the entry has no complex form.
    """
    result = not dtypes.COMPLEX_TYPES.isdisjoint(res.dtypes)
    if not (result or contains_complex(args) or contains_complex(kwargs.values())):
        return None
    native = tables.converters.get(key) or tables.hops.get(key)
    if converter is complex_getitem or converter is not native:
        return converter
    complex_converter = tables.complex_converters.get(key)
    if complex_converter is None:
        raise UnsupportedCase(
            f"{key} has no form for complex tensors. Give its entry one:\n"
            "      complex: parts(self)    # when the real lowering serves both parts\n"
            "  or  complex: |              # re(x) and im(x) are the parts of an argument\n"
            "        a = ...\n"
            "        b = ...\n"
            "        return complex_of(a, b)"
        )
    return complex_converter


def declare_input(graph: Graph, name: str, dtype: int, shape: tuple[Any, ...]) -> Any:
    """An ONNX input of the graph: its name, or a pair that is read from a real input with a last
    dimension of 2."""
    if not dtypes.is_complex_type(dtype):
        graph.make_tensor_input(name, dtype, shape, is_dimension=False)
        return name
    graph.make_tensor_input(name, part_type(dtype), (*shape, 2), is_dimension=False)
    return split_pair(graph, name)


def transpose_parts(graph: Graph, value: Any, perm: Sequence[int]) -> Any:
    """A result, or both parts of a pair, with permuted axes."""
    if value.__class__ is ComplexValue:
        parts = [
            graph.make_node("Transpose", [p], perm=list(perm)) for p in (value.real, value.imag)
        ]
        return ComplexValue(parts[0], parts[1], value.dtype)
    return graph.make_node("Transpose", [value], perm=list(perm))


def real_tensor(tensor: Any) -> Any:
    """A tensor as ONNX holds it: complex ones as torch.view_as_real shows them."""
    if isinstance(tensor, torch.Tensor) and tensor.is_complex():
        return torch.view_as_real(tensor.detach().resolve_conj().resolve_neg())
    return tensor


def join_outputs(graph: Graph, values: list[Any]) -> list[Any]:
    """The values of outputs with every complex one joined; the same one twice is one result."""
    joined_values: dict[ComplexValue, str] = {}
    for value in values:
        if value.__class__ is ComplexValue and value not in joined_values:
            joined_values[value] = join_pair(graph, value)
    return [joined_values[value] if value.__class__ is ComplexValue else value for value in values]


def complex_getitem(graph: Graph, res: ResultSpec, self: Any, index: Any) -> Any:
    """``x[...]`` of a complex tensor in a graph of Python functions, part by part."""
    return each_part(graph, res, lower_getitem, {"self": self}, index=index)


def compare_parts(graph: Graph, res: ResultSpec, values: Sequence[Any]) -> list[Any]:
    """Compare the parts of complex results with torch; the list that is left has None in their
    places.

    Raises BuilderError when a type or shape differs, or when a converter returns a pair where torch
    has a real tensor, or the other way round.
    """
    remaining = list(values)
    for index, (value, dtype) in enumerate(zip(values, res.dtypes, strict=False)):
        is_pair = value.__class__ is ComplexValue
        if dtype is None or not (is_pair or dtypes.is_complex_type(dtype)) or not value:
            continue  # without a dtype it may be a size, whose truth is not known
        if is_pair != dtypes.is_complex_type(dtype):
            computed = dtypes.name(value.dtype) if is_pair else "one real result"
            raise BuilderError(f"the ONNX graph computes {computed}, torch {dtypes.name(dtype)}")
        for name in (value.real, value.imag):
            difference = check_and_complete(graph, name, part_type(dtype), res.shapes[index])
            if difference is not None:
                raise BuilderError(difference)
        remaining[index] = None
    return remaining
