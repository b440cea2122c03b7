"""The bits of ints and floats: shifts, and one dtype read as another, little-endian as in the
memory of the processors that torch and ONNX Runtime run on. `interpreter` uses the shifts for
numbers.
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


_BITS_OF_INTS = dtypes.INT_TYPES | {dtypes.boolean}


def casts_keep_bits(graph: Graph, x: Result, dtype: Dtype) -> Bool:
    """Whether bits can be read as a dtype by casts alone: integers and bools, two's complement."""
    return graph.get_type(x) in _BITS_OF_INTS and dtype in _BITS_OF_INTS


def is_float8(dtype: Dtype) -> Bool:
    """Whether a dtype is one of 8-bit floats, whose bits no operator of ONNX gives."""
    return dtype in dtypes.FLOAT8_TYPES


def bits_as(graph: Graph, x: Result, dtype: Dtype) -> Result:
    """Read the bits of ``x`` as ``dtype``. Several elements of the last dimension become one where
    ``dtype`` is wider, and one becomes several where it is narrower.
    """
    own, target = dtypes.itemsize(graph.get_type(x)), dtypes.itemsize(dtype)
    if own > target:
        x = _split_elements(graph, x, own, target)
    elif own < target:
        x = _join_elements(graph, x, own, target)
    return _read_as(graph, x, dtype)


def _read_as(graph: Graph, x: str, dtype: int) -> str:
    """`bits_as` for a dtype of the same size."""
    own = graph.get_type(x)
    if own == dtype:
        return x
    if own in _BITS_OF_INTS and dtype in _BITS_OF_INTS:
        return cast(graph, x, dtype)
    if dtypes.boolean in (own, dtype):  # through an 8-bit integer
        return cast(graph, _read_as(graph, cast(graph, x, dtypes.uint8), dtypes.uint8), dtype)
    return OpBuilder(graph).BitCast(x, to=dtype)


def _split_elements(graph: Graph, x: str, own: int, target: int) -> str:
    """Each element as unsigned integers of ``target`` bytes, side by side."""
    bits = _read_as(graph, x, _UNSIGNED[own])
    bits = cast(graph, bits, _UNSIGNED[max(own, 4)])  # the shift has no kernel for uint16
    shifts = consts(graph, list(range(0, 8 * own, 8 * target)), graph.get_type(bits))
    column = unsqueezed(graph, bits, [-1])
    shifted = OpBuilder(graph).BitShift(column, shifts, direction="RIGHT")
    shape = list(shape_of(graph, x))
    parts = cast(graph, shifted, _UNSIGNED[target])  # which drops the bits above
    return reshape_to(graph, parts, [*shape[:-1], shape[-1] * (own // target)])


def _join_elements(graph: Graph, x: str, own: int, target: int) -> str:
    """Neighbours as one unsigned integer of ``target`` bytes: the product with powers of two, which
    for unsigned integers is exact."""
    count, shape = target // own, list(shape_of(graph, x))
    shape[-1] = shape[-1] // count
    wide = _UNSIGNED[max(target, 4)]
    bits = reshape_to(graph, _read_as(graph, x, _UNSIGNED[own]), [*shape, count])
    powers = consts(graph, [1 << (8 * own * index) for index in range(count)], wide)
    column = reshape_to(graph, powers, [count, 1])
    result = OpBuilder(graph).MatMul(cast(graph, bits, wide), column)
    return cast(graph, reshape_to(graph, result, shape), _UNSIGNED[target])


def shifted_left(graph: Graph, x: Result, places: Result) -> Result:
    """``x << places`` of ints: a wrapping product; 0 for places outside of the dtype, as in torch.

    ONNX's BitShift takes unsigned ints only.
    """
    bits = 8 * dtypes.itemsize(graph.get_type(x))
    powers = np.array([1 << bit for bit in range(bits)] + [0], np.uint64)
    return OpBuilder(graph).Mul(x, _power_of_two(graph, places, powers, bits, graph.get_type(x)))


def shifted_right(graph: Graph, x: Result, places: Result) -> Result:
    """``x >> places`` of ints: the floor of a quotient; outside of the dtype the sign."""
    dtype = graph.get_type(x)
    signed = 0 if dtype == dtypes.uint8 else 1
    top = 8 * dtypes.itemsize(dtype) - 1 - signed
    powers = np.array([1 << bit for bit in range(top + 1)] + [1], np.uint64)
    power = _power_of_two(graph, places, powers, top + 1, dtype)
    result = floor_quotient(graph, x, power, positive=True)
    zero, op = const(graph, 0, dtype), OpBuilder(graph)
    sign = op.Where(op.Less(x, zero), -1, zero) if signed else zero
    inside = op.LessOrEqual(places, const(graph, top, dtype))
    if signed:
        inside = op.And(inside, op.GreaterOrEqual(places, zero))
    return op.Where(inside, result, sign)


def _power_of_two(graph: Graph, places: str, powers: Any, outside: int, dtype: int) -> str:
    """Powers of two from a table; exponents that are negative or too large select its last
    entry.
    """
    op = OpBuilder(graph)
    table = graph.make_initializer("", powers.astype(dtypes.to_numpy(dtype)))
    wide = cast(graph, places, dtypes.float64)
    ends = [const(graph, end, dtypes.float64) for end in (-1, outside)]
    index = cast(graph, op.Clip(wide, *ends), dtypes.int32)
    # ONNX Runtime's Gather of single elements takes 7 times as long
    selected = op.GatherElements(table, as_flat(graph, index), axis=0)
    return reshape_to(graph, selected, shape_of(graph, index))
