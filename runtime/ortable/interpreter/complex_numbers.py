"""Convert complex tensors: select converters, split inputs, and join outputs."""

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
    """Return the converter of a call with complex arguments or results; None for real calls.

    ``key`` is the operator. A ``converter`` that is not the one of the tables, because a dispatcher
    chose it, is returned unchanged, as is `complex_getitem`. Raises UnsupportedCase if the spec of
    the operator has no complex form.
    """
    has_complex_result = not dtypes.COMPLEX_TYPES.isdisjoint(res.dtypes)
    if not (has_complex_result or contains_complex(args) or contains_complex(kwargs.values())):
        return None
    table_converter = tables.converters.get(key) or tables.hops.get(key)
    if converter is complex_getitem or converter is not table_converter:
        return converter
    complex_converter = tables.complex_converters.get(key)
    if complex_converter is None:
        raise UnsupportedCase(
            f"{key} has no form for complex tensors. Add one to its entry:\n"
            "      complex: parts(self)    # if the real lowering applies to both parts\n"
            "  or  complex: |              # re(x) and im(x) are the parts of an argument\n"
            "        a = ...\n"
            "        b = ...\n"
            "        return complex_of(a, b)"
        )
    return complex_converter


def declare_input(graph: Graph, name: str, dtype: int, shape: tuple[Any, ...]) -> Any:
    """Declare an ONNX input and return its name, or a ComplexValue for a complex dtype.

    A complex input is declared as a real input with a last dimension of 2.
    """
    if not dtypes.is_complex_type(dtype):
        graph.make_tensor_input(name, dtype, shape, is_dimension=False)
        return name
    graph.make_tensor_input(name, part_type(dtype), (*shape, 2), is_dimension=False)
    return split_pair(graph, name)


def transpose_parts(graph: Graph, value: Any, perm: Sequence[int]) -> Any:
    """Transpose a result, or both parts of a ComplexValue."""
    if value.__class__ is ComplexValue:
        parts = [
            graph.make_node("Transpose", [part], perm=list(perm))
            for part in (value.real, value.imag)
        ]
        return ComplexValue(parts[0], parts[1], value.dtype)
    return graph.make_node("Transpose", [value], perm=list(perm))


def real_tensor(tensor: Any) -> Any:
    """Convert a complex tensor with torch.view_as_real; return other values unchanged."""
    if isinstance(tensor, torch.Tensor) and tensor.is_complex():
        return torch.view_as_real(tensor.detach().resolve_conj().resolve_neg())
    return tensor


def join_outputs(graph: Graph, values: list[Any]) -> list[Any]:
    """Replace each ComplexValue among the outputs by a real result with a last dimension of 2."""
    joined_values: dict[ComplexValue, str] = {}
    for value in values:
        if value.__class__ is ComplexValue and value not in joined_values:
            joined_values[value] = join_pair(graph, value)
    return [joined_values[value] if value.__class__ is ComplexValue else value for value in values]


def complex_getitem(graph: Graph, res: ResultSpec, self: Any, index: Any) -> Any:
    """Convert ``x[...]`` of a complex tensor by converting it for both parts."""
    return each_part(graph, res, lower_getitem, {"self": self}, index=index)


def compare_parts(graph: Graph, res: ResultSpec, values: Sequence[Any]) -> list[Any]:
    """Compare complex results with torch's; return the values with None for the compared ones.

    Raises BuilderError if a type or shape differs, also if a result is complex for the converter
    and real for torch or vice versa.
    """
    remaining = list(values)
    for index, (value, dtype) in enumerate(zip(values, res.dtypes, strict=False)):
        is_pair = value.__class__ is ComplexValue
        if dtype is None or not (is_pair or dtypes.is_complex_type(dtype)) or not value:
            continue  # dtype first: without one, value may be a size, which has no truth value
        if is_pair != dtypes.is_complex_type(dtype):
            computed_text = dtypes.name(value.dtype) if is_pair else "one real result"
            raise BuilderError(
                f"the ONNX graph computes {computed_text}, torch {dtypes.name(dtype)}"
            )
        for name in (value.real, value.imag):
            difference = check_and_complete(graph, name, part_type(dtype), res.shapes[index])
            if difference is not None:
                raise BuilderError(difference)
        remaining[index] = None
    return remaining
