"""Promote types as torch does (ELEMENTWISE_TYPE_PROMOTION_KIND), and choose computation dtypes.

Tensors, 0-d tensors and numbers have different priorities. Generated converters promote before
their first statement (``promote:``).

Source: torch/_prims_common (``elementwise_dtypes``) and c10's ``TypeAndSize``/``result_type``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import ml_dtypes

from ortable import dtypes
from ortable.errors import UnsupportedCase
from ortable.inference import promote_types
from ortable.ir import Graph

from .complex_value import ComplexValue
from .facts import Dtype, Float, Result, Results, Scalar, static
from .metadata import default_float, number_dtype
from .values import cast, const

__all__ = [
    "as_float",
    "common_dtype",
    "in_dtype",
    "machine_epsilon",
    "opmath",
    "opmath_beside",
    "opmath_dtype",
]


_HELD_BY_HALVES = (dtypes.boolean, dtypes.uint8, dtypes.int8)


def promote_values(graph: Graph, kind: str, values: Sequence[Any], opmath: Any = None) -> list[Any]:
    """Cast each value to the common computation dtype.

    Numbers become 0-d constants; None stays None. ``opmath`` is an item of ``values``: if it is a
    number or 0-d, and the other values are half floats that cannot represent it, torch's kernel
    computes in float32 (`opmath_beside`), so all values are cast to float32.

    Raises:
        UnsupportedCase: a bool for the kind ``no_bool``: torch refuses to subtract them.
    """
    if kind == "no_bool" and any(result_type(graph, [value]) == dtypes.boolean for value in values):
        raise UnsupportedCase("a difference with a bool, which torch refuses")
    common = computation_dtype(graph, kind, values)
    if opmath is not None:
        common = opmath_beside(graph, opmath, common)
    result: list[Any] = []
    for value in values:
        if value is None:
            result.append(None)
        elif type(value) is str:
            result.append(cast(graph, value, common))
        else:
            result.append(const(graph, value, common))
    return result


def result_type(graph: Graph, values: Iterable[Any]) -> int:
    """Return ``torch.result_type``; tensors have priority over 0-d tensors, then numbers."""
    dimensioned: int | None = None
    zero_dim: int | None = None
    number: int | None = None
    for value in values:
        if value is None:
            continue
        if type(value) is ComplexValue:
            if graph.get_rank(value.real) == 0:
                zero_dim = _promote_pair(zero_dim, value.dtype)
            else:
                dimensioned = _promote_pair(dimensioned, value.dtype)
        elif type(value) is not str:
            number = _promote_pair(number, number_dtype(value))
        elif value in graph.numbers:
            number = _promote_pair(number, graph.numbers[value])
        elif graph.get_rank(value) == 0:
            zero_dim = _promote_pair(zero_dim, graph.get_type(value))
        else:
            dimensioned = _promote_pair(dimensioned, graph.get_type(value))
    result = _combine_categories(_combine_categories(dimensioned, zero_dim), number)
    if result is None:
        raise UnsupportedCase("no value to take a dtype from")
    return result


def computation_dtype(graph: Graph, kind: str, values: Iterable[Any]) -> int:
    """Return the dtype in which an operator of this promotion kind computes."""
    common = result_type(graph, values)
    if kind == "int_to_float" and not (
        dtypes.is_float_type(common) or dtypes.is_complex_type(common)
    ):
        return default_float()
    if kind in ("bool_to_long", "pow") and common == dtypes.boolean:
        return dtypes.int64
    return common


def promoted_dtype(graph: Graph, kind: str, *values: Any) -> int | None:
    """Return the result dtype of an operator of this promotion kind; None if a dtype is unknown."""
    if any(
        type(value) is str and not (graph.has_type(value) and graph.has_rank(value))
        for value in values
    ):
        return None
    if kind == "always_bool":
        return dtypes.boolean
    result = computation_dtype(graph, kind, values)
    if kind == "complex_to_float" and dtypes.is_complex_type(result):
        return dtypes.float32 if result == dtypes.complex64 else dtypes.float64
    return result


def scalar_dtype(value: Any) -> int:
    """Return the dtype that torch.full gives a fill value."""
    return number_dtype(value)


def _promote_pair(left: int | None, right: int) -> int:
    return right if left is None else int(promote_types(left, right) or right)


def _combine_categories(higher: int | None, lower: int | None) -> int | None:
    """Combine dtypes as c10's combine_categories.

    ``lower`` is the dtype of lower priority, which counts only if its category is higher.
    """
    if higher is None or lower is None:
        return lower if higher is None else higher
    if dtypes.is_complex_type(higher):
        return higher
    if dtypes.is_float_type(higher):
        return _complex_of(higher) if dtypes.is_complex_type(lower) else higher
    if higher == dtypes.boolean or not (dtypes.is_int_type(lower) or lower == dtypes.boolean):
        return _promote_pair(higher, lower)
    return higher


def _complex_of(real: int) -> int:
    if real == dtypes.float16:
        raise UnsupportedCase("float16 with a complex number is complex32, which ONNX cannot hold")
    return dtypes.complex128 if real == dtypes.float64 else dtypes.complex64


def opmath_dtype(dtype: Dtype) -> Dtype:
    """Return the dtype in which torch accumulates, float32 for 16-bit floats, else ``dtype``."""
    return dtypes.float32 if dtype in (dtypes.float16, dtypes.bfloat16) else dtype


def opmath_beside(graph: Graph, other: Any, dtype: Dtype) -> Dtype:
    """Return the dtype in which torch's kernels compute a product or quotient with ``other``.

    ``dtype`` is the dtype of the result. If it is a 16-bit float and cannot represent ``other``, a
    number or 0-d tensor, the kernels compute in float32, so that ``x.half() / 1e6`` is not ``x /
    inf``; else they compute in ``dtype``. Numbers that are merely rounded stay in ``dtype``, which
    fused kernels and rewrites match.

    Source: ATen/native/cpu/BinaryOpsKernel.cpp (``original_scalar_value<opmath_t>``).
    """
    if dtype not in (dtypes.float16, dtypes.bfloat16):
        return dtype
    if type(other) in (bool, int, float):
        return dtype if _is_held(other, dtype) else dtypes.float32
    if type(other) is not str:  # a size of a dynamic dimension
        return dtypes.float32
    if other not in graph.numbers and graph.get_rank(other) != 0:
        return dtype
    other_dtype = graph.numbers.get(other, graph.get_type(other))
    if other_dtype not in (dtype, *_HELD_BY_HALVES) and graph.is_constant(other):
        return opmath_beside(graph, graph.get_constant(other).item(), dtype)
    return dtype if other_dtype in (dtype, *_HELD_BY_HALVES) else dtypes.float32


def _is_held(number: float, dtype: Dtype) -> bool:
    """Whether a float dtype rounds a number to a normal one, not to infinity or a denormal."""
    limits = ml_dtypes.finfo(dtypes.to_numpy(dtype))
    rounded = abs(float(dtypes.as_array(number, dtype)))
    return (
        not math.isfinite(number)
        or number == 0
        or (float(limits.smallest_normal) <= rounded <= float(limits.max))
    )


def as_float(value: Scalar) -> Float:
    """Return a Scalar that must be known during conversion as a Python float.

    Raises:
        UnsupportedCase: the number is known only at run time.
    """
    if isinstance(value, str):
        raise UnsupportedCase("a number in an attribute that is known only at run time")
    return float(static(value))


def machine_epsilon(dtype: Dtype) -> Float:
    """Return the distance from 1 to the next number of a float dtype, torch's default ``eps``."""
    return {dtypes.float16: 2.0**-10, dtypes.bfloat16: 2.0**-7, dtypes.float32: 2.0**-23}.get(
        dtype, 2.0**-52
    )


def opmath(graph: Graph, x: Result) -> Result:
    """Cast ``x`` to the dtype in which torch computes: half floats to float32."""
    half = graph.get_type(x) in (dtypes.float16, dtypes.bfloat16)
    return cast(graph, x, dtypes.float32) if half else x


def in_dtype(graph: Graph, value: Any, dtype: Dtype) -> Result:
    """Convert a tensor, number or symbolic int to a result of ``dtype``."""
    return cast(graph, value, dtype) if type(value) is str else const(graph, value, dtype)


def common_dtype(graph: Graph, values: Results) -> Dtype:
    """Return ``torch.result_type`` of a list of results and numbers."""
    return result_type(graph, values)
