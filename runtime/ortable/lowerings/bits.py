"""Bit operations on ints and floats: shifts, and reinterpretation of bits as another dtype.

Multi-byte values are little-endian, as in the memory of the processors that torch and ONNX Runtime
run on. The interpreter also uses the shifts, for scalars.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ortable import dtypes
from ortable.ir import Graph
from ortable.prelude.facts import Bool, Dtype, Result, shape_of
from ortable.prelude.op_builder import OpBuilder
from ortable.prelude.pointwise import floor_quotient
from ortable.prelude.shapes import as_flat
from ortable.prelude.values import cast, const, consts, reshape_to, unsqueezed

__all__ = [
    "bits_as",
    "casts_keep_bits",
    "is_float8",
    "shifted_left",
    "shifted_right",
]


_UNSIGNED = {1: dtypes.uint8, 2: dtypes.uint16, 4: dtypes.uint32, 8: dtypes.uint64}


_INT_AND_BOOL_TYPES = dtypes.INT_TYPES | {dtypes.boolean}


def casts_keep_bits(graph: Graph, x: Result, dtype: Dtype) -> Bool:
    """Whether both dtypes are ints or bools, so that a cast to the same size keeps the bits."""
    return graph.get_type(x) in _INT_AND_BOOL_TYPES and dtype in _INT_AND_BOOL_TYPES


def is_float8(dtype: Dtype) -> Bool:
    """Whether ``dtype`` is an 8-bit float, whose bits no ONNX operator returns."""
    return dtype in dtypes.FLOAT8_TYPES


def bits_as(graph: Graph, x: Result, dtype: Dtype) -> Result:
    """Reinterpret the bits of ``x`` as ``dtype``; the last dimension grows or shrinks."""
    source_size, target_size = dtypes.itemsize(graph.get_type(x)), dtypes.itemsize(dtype)
    if source_size > target_size:
        x = _split_elements(graph, x, source_size, target_size)
    elif source_size < target_size:
        x = _join_elements(graph, x, source_size, target_size)
    return _reinterpret(graph, x, dtype)


def _reinterpret(graph: Graph, x: str, dtype: int) -> str:
    """Reinterpret the bits of ``x`` as a dtype of the same size."""
    source = graph.get_type(x)
    if source == dtype:
        return x
    if source in _INT_AND_BOOL_TYPES and dtype in _INT_AND_BOOL_TYPES:
        return cast(graph, x, dtype)
    if dtypes.boolean in (source, dtype):  # through an 8-bit integer
        return cast(graph, _reinterpret(graph, cast(graph, x, dtypes.uint8), dtypes.uint8), dtype)
    return OpBuilder(graph).BitCast(x, to=dtype)


def _split_elements(graph: Graph, x: str, source_size: int, target_size: int) -> str:
    """Split each element into unsigned integers of ``target_size`` bytes, side by side."""
    bits = _reinterpret(graph, x, _UNSIGNED[source_size])
    bits = cast(graph, bits, _UNSIGNED[max(source_size, 4)])  # the shift has no kernel for uint16
    shifts = consts(graph, list(range(0, 8 * source_size, 8 * target_size)), graph.get_type(bits))
    column = unsqueezed(graph, bits, [-1])
    shifted = OpBuilder(graph).BitShift(column, shifts, direction="RIGHT")
    shape = list(shape_of(graph, x))
    parts = cast(graph, shifted, _UNSIGNED[target_size])  # the cast drops the higher bits
    return reshape_to(graph, parts, [*shape[:-1], shape[-1] * (source_size // target_size)])


def _join_elements(graph: Graph, x: str, source_size: int, target_size: int) -> str:
    """Join neighbours into unsigned integers by an exact product with powers of two."""
    count, shape = target_size // source_size, list(shape_of(graph, x))
    shape[-1] = shape[-1] // count
    dtype = _UNSIGNED[max(target_size, 4)]
    bits = reshape_to(graph, _reinterpret(graph, x, _UNSIGNED[source_size]), [*shape, count])
    powers = consts(graph, [1 << (8 * source_size * index) for index in range(count)], dtype)
    column = reshape_to(graph, powers, [count, 1])
    result = OpBuilder(graph).MatMul(cast(graph, bits, dtype), column)
    return cast(graph, reshape_to(graph, result, shape), _UNSIGNED[target_size])


def shifted_left(graph: Graph, x: Result, places: Result) -> Result:
    """Compute ``x << places`` of ints as a wrapping product, 0 for out-of-range places."""
    bits = 8 * dtypes.itemsize(graph.get_type(x))
    powers = np.array([1 << bit for bit in range(bits)] + [0], np.uint64)
    return OpBuilder(graph).Mul(x, _power_of_two(graph, places, powers, bits, graph.get_type(x)))


def shifted_right(graph: Graph, x: Result, places: Result) -> Result:
    """Compute ``x >> places`` of ints as a floor division, 0 or -1 for out-of-range places."""
    dtype = graph.get_type(x)
    sign_bits = 0 if dtype == dtypes.uint8 else 1
    max_places = 8 * dtypes.itemsize(dtype) - 1 - sign_bits
    powers = np.array([1 << bit for bit in range(max_places + 1)] + [1], np.uint64)
    power = _power_of_two(graph, places, powers, max_places + 1, dtype)
    result = floor_quotient(graph, x, power, positive=True)
    zero, op = const(graph, 0, dtype), OpBuilder(graph)
    sign = op.Where(op.Less(x, zero), -1, zero) if sign_bits else zero
    in_range = op.LessOrEqual(places, const(graph, max_places, dtype))
    if sign_bits:
        in_range = op.And(in_range, op.GreaterOrEqual(places, zero))
    return op.Where(in_range, result, sign)


def _power_of_two(graph: Graph, places: str, powers: Any, last_index: int, dtype: int) -> str:
    """Look up powers of two; exponents below 0 or above ``last_index`` select the last power."""
    op = OpBuilder(graph)
    table = graph.make_initializer("", powers.astype(dtypes.to_numpy(dtype)))
    exponents = cast(graph, places, dtypes.float64)
    limits = [const(graph, limit, dtypes.float64) for limit in (-1, last_index)]
    index = cast(graph, op.Clip(exponents, *limits), dtypes.int32)
    # ONNX Runtime's Gather of single elements takes 7 times as long as GatherElements
    selected = op.GatherElements(table, as_flat(graph, index), axis=0)
    return reshape_to(graph, selected, shape_of(graph, index))
