"""The parts and neighbours of floating-point numbers: exponents, nextafter, the largest number."""

from __future__ import annotations

import math

import numpy as np

from ortable import dtypes
from ortable.ir import Graph
from ortable.prelude.facts import Dtype, Float, Result
from ortable.prelude.op_builder import OpBuilder
from ortable.prelude.pointwise import const_like
from ortable.prelude.values import cast

__all__ = [
    "exponent_of",
    "largest_finite",
    "neighbour",
    "scaled_by_power",
]


# bits of the significand, exponent of the smallest subnormal number
_PARTS = {
    dtypes.float16: (11, -24),
    dtypes.bfloat16: (8, -133),
    dtypes.float32: (24, -149),
    dtypes.float64: (53, -1074),
}


def exponent_of(graph: Graph, x: Result) -> Result:
    """The exponent e with abs(x) = m * 2 ** e and 0.5 <= m < 1, of a float64, as a float64; 0 for
    zeros, infinities and NaN."""
    op, one = OpBuilder(graph), const_like(graph, 1, x)
    size = op.Abs(x)
    plain = op.And(
        op.Greater(size, 0),
        op.Less(size, math.inf))  # fmt: skip
    size = op.Where(plain, size, 0.5)
    result = op.Floor(op.Div(op.Log(size), math.log(2)))
    result = op.Add(result, one)
    # the logarithm rounds: it may be off by one next to a power of two
    part = scaled_by_power(graph, size, op.Neg(result))
    over = cast(graph, op.GreaterOrEqual(part, one), dtypes.float64)
    under = cast(graph, op.Less(part, 0.5), dtypes.float64)
    return op.Sub(op.Add(result, over), under)


def scaled_by_power(graph: Graph, x: Result, power: Result) -> Result:
    """``x * 2 ** power`` in two steps, as 2 ** power alone may leave the range."""
    op, two = OpBuilder(graph), const_like(graph, 2, x)
    half = op.Floor(op.Div(power, two))
    rest = op.Sub(power, half)
    once = op.Mul(x, op.Pow(two, half))
    return op.Mul(once, op.Pow(two, rest))


def neighbour(graph: Graph, x: Result, goal: Result) -> Result:
    """The number next to ``x`` in the direction of ``goal``, both of one float dtype.

    A step of 0.6 to 1.3 units in the last place is added and the sum rounds to the neighbour: in
    float64 for narrower dtypes; for float64 with tiny numbers scaled up, as the step would round.
    """
    op, dtype = OpBuilder(graph), graph.get_type(x)
    digits, least = _PARTS[dtype]
    base, end = (cast(graph, operand, dtypes.float64) for operand in (x, goal))
    size = op.Abs(base)
    step = op.Mul(size, const_like(graph, 1.25 * 2.0**-digits, base))
    up = op.Greater(end, base)
    if dtype != dtypes.float64:
        step = op.Max(step, const_like(graph, 0.75 * 2.0**least, base))
        moved = cast(graph, op.Add(base, _apply_sign(graph, step, up)), dtype)
    else:
        scaled = [op.Mul(operand, 2.0**200) for operand in (base, size)]
        small = op.Mul(scaled[1], const_like(graph, 1.25 * 2.0**-digits, x))
        near = op.Add(scaled[0], _apply_sign(graph, small, up))
        near = op.Mul(near, 2.0**-200)
        lowest = _apply_sign(graph, const_like(graph, 2.0**least, x), up)
        flat = op.Less(size, 2.0**-1021)
        near = op.Where(flat, op.Add(base, lowest), near)
        moved = op.Add(base, _apply_sign(graph, step, up))
        moved = op.Where(op.Less(size, 2.0**-900), near, moved)
    top = op.Mul(op.Sign(x), const_like(graph, largest_finite(dtype), x))
    moved = op.Where(op.IsInf(base), top, moved)
    moved = op.Where(op.Equal(base, end), goal, moved)
    moved = op.Where(op.IsNaN(end), goal, moved)
    return op.Where(op.IsNaN(base), x, moved)


def _apply_sign(graph: Graph, step: str, up: str) -> str:
    op = OpBuilder(graph)
    return op.Where(up, step, op.Neg(step))


def largest_finite(dtype: Dtype) -> Float:
    """The largest finite value of a float dtype."""
    if dtype == dtypes.bfloat16:
        return 3.3895313892515355e38
    return float(np.finfo(dtypes.to_numpy(dtype)).max)
