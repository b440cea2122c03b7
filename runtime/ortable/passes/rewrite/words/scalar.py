"""Lower-case words of rewrites about numbers and types."""

from __future__ import annotations

import math

import numpy as np

from ortable import dtypes
from ortable.ir import Graph
from ortable.passes.rewrite.matcher import small_constant
from ortable.prelude.facts import Bool, Dtype, Float, Result

from .common import number_of

__all__ = [
    "do_meet",
    "holds_all",
    "is_above_zero",
    "is_at_least",
    "is_interval",
    "is_known_number",
    "is_plus_zero",
    "is_scalar",
    "same_class",
]

# Bits of the numbers that a type holds exactly, and for floats of the exponent.
_FLOATS = {
    dtypes.bfloat16: (8, 8),
    dtypes.float16: (11, 5),
    dtypes.float32: (24, 8),
    dtypes.float64: (53, 11),
}
_SIGNED = {dtypes.int8: 8, dtypes.int16: 16, dtypes.int32: 32, dtypes.int64: 64}
_UNSIGNED = {
    dtypes.boolean: 1,
    dtypes.uint8: 8,
    dtypes.uint16: 16,
    dtypes.uint32: 32,
    dtypes.uint64: 64,
}


def holds_all(kind: Dtype, wide: Dtype) -> Bool:
    """Whether every value of one type is a value of the other."""
    if kind in _FLOATS and wide in _FLOATS:
        return all(a <= b for a, b in zip(_FLOATS[kind], _FLOATS[wide], strict=True))
    if kind in _SIGNED and wide in _SIGNED:
        return _SIGNED[kind] <= _SIGNED[wide]
    if kind in _UNSIGNED:
        bits = _UNSIGNED[kind]
        return bits <= _UNSIGNED.get(wide, 0) or bits < _SIGNED.get(wide, 0)
    return False


def same_class(first: Dtype, second: Dtype, third: Dtype) -> Bool:
    """Whether three types are all floating point, or all integers or bool: between those, kernels
    round and saturate in their own ways."""
    kinds = (first, second, third)
    return all(kind in _FLOATS for kind in kinds) or not any(
        kind not in _SIGNED and kind not in _UNSIGNED for kind in kinds
    )


def is_scalar(graph: Graph, x: Result) -> Bool:
    """Whether a result has rank 0."""
    return graph.has_rank(x) and graph.get_rank(x) == 0


def is_known_number(graph: Graph, x: Result) -> Bool:
    """Whether a result is a constant of one element that is not NaN."""
    return not math.isnan(number_of(graph, x))


def is_plus_zero(graph: Graph, x: Result) -> Bool:
    """Whether a result is a constant of one element that is 0, and not -0.0."""
    array = small_constant(graph, x)
    if array is None or array.size != 1 or array.dtype.kind not in "fiu":
        return False
    value = array.reshape(-1)[0]
    return bool(value == 0) and not bool(np.signbit(value))


def is_at_least(graph: Graph, x: Result | None, bound: Float) -> Bool:
    """Whether a bound that may be left out is, or is a constant that is not below a number."""
    return x is None or bool(number_of(graph, x) >= bound)


def is_above_zero(graph: Graph, x: Result | None) -> Bool:
    """Whether a bound that may be left out is, or is a constant above 0."""
    return x is None or bool(number_of(graph, x) > 0)


def is_interval(graph: Graph, low: Result, high: Result) -> Bool:
    """Whether two results are constants of rank 0, the first one not above the second."""
    known = is_scalar(graph, low) and is_scalar(graph, high)
    return known and number_of(graph, low) <= number_of(graph, high)


def do_meet(graph: Graph, low: Result, high: Result, floor: Result, ceiling: Result) -> Bool:
    """Whether two intervals of constants have a number in common."""
    bottom = max(number_of(graph, low), number_of(graph, floor))
    return bool(bottom <= min(number_of(graph, high), number_of(graph, ceiling)))
