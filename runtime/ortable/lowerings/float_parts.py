"""Lower frexp-like functions of floats: exponents, scaling, nextafter, the largest finite value."""

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


# dtype: (bits of the significand, exponent of the smallest subnormal number)
_FORMATS = {
    dtypes.float16: (11, -24),
    dtypes.bfloat16: (8, -133),
    dtypes.float32: (24, -149),
    dtypes.float64: (53, -1074),
}


def exponent_of(graph: Graph, x: Result) -> Result:
    """Return the exponent e of a float64, abs(x) = m * 2 ** e with 0.5 <= m < 1, as a float64.

    The exponent of zeros, infinities and NaN is 0.
    """
    op, one = OpBuilder(graph), const_like(graph, 1, x)
    magnitude = op.Abs(x)
    is_regular = op.And(
        op.Greater(magnitude, 0),
        op.Less(magnitude, math.inf))  # fmt: skip
    magnitude = op.Where(is_regular, magnitude, 0.5)
    exponent = op.Floor(op.Div(op.Log(magnitude), math.log(2)))
    exponent = op.Add(exponent, one)
    # the logarithm rounds, so the exponent may be off by 1 next to a power of two
    mantissa = scaled_by_power(graph, magnitude, op.Neg(exponent))
    is_above = cast(graph, op.GreaterOrEqual(mantissa, one), dtypes.float64)
    is_below = cast(graph, op.Less(mantissa, 0.5), dtypes.float64)
    return op.Sub(op.Add(exponent, is_above), is_below)


def scaled_by_power(graph: Graph, x: Result, power: Result) -> Result:
    """Return ``x * 2 ** power`` in two multiplications, because 2 ** power alone may overflow."""
    op, two = OpBuilder(graph), const_like(graph, 2, x)
    half = op.Floor(op.Div(power, two))
    remaining = op.Sub(power, half)
    half_scaled = op.Mul(x, op.Pow(two, half))
    return op.Mul(half_scaled, op.Pow(two, remaining))


def neighbour(graph: Graph, x: Result, goal: Result) -> Result:
    """Return the number next to ``x`` in the direction of ``goal``, both of one float dtype.

    The lowering adds a step of 0.6 to 1.3 units in the last place, and the sum rounds to the
    neighbour. Narrower dtypes are computed in float64. In float64, tiny numbers are scaled up
    first, because the step would round.
    """
    op, dtype = OpBuilder(graph), graph.get_type(x)
    significand_bits, min_exponent = _FORMATS[dtype]
    start, target = (cast(graph, operand, dtypes.float64) for operand in (x, goal))
    magnitude = op.Abs(start)
    step = op.Mul(magnitude, const_like(graph, 1.25 * 2.0**-significand_bits, start))
    up = op.Greater(target, start)
    if dtype != dtypes.float64:
        step = op.Max(step, const_like(graph, 0.75 * 2.0**min_exponent, start))
        result = cast(graph, op.Add(start, _apply_sign(graph, step, up)), dtype)
    else:
        scaled = [op.Mul(operand, 2.0**200) for operand in (start, magnitude)]
        scaled_step = op.Mul(scaled[1], const_like(graph, 1.25 * 2.0**-significand_bits, x))
        scaled_result = op.Add(scaled[0], _apply_sign(graph, scaled_step, up))
        scaled_result = op.Mul(scaled_result, 2.0**-200)
        smallest_step = _apply_sign(graph, const_like(graph, 2.0**min_exponent, x), up)
        is_subnormal = op.Less(magnitude, 2.0**-1021)
        scaled_result = op.Where(is_subnormal, op.Add(start, smallest_step), scaled_result)
        result = op.Add(start, _apply_sign(graph, step, up))
        result = op.Where(op.Less(magnitude, 2.0**-900), scaled_result, result)
    largest = op.Mul(op.Sign(x), const_like(graph, largest_finite(dtype), x))
    result = op.Where(op.IsInf(start), largest, result)
    result = op.Where(op.Equal(start, target), goal, result)
    result = op.Where(op.IsNaN(target), goal, result)
    return op.Where(op.IsNaN(start), x, result)


def _apply_sign(graph: Graph, step: str, is_positive: str) -> str:
    op = OpBuilder(graph)
    return op.Where(is_positive, step, op.Neg(step))


def largest_finite(dtype: Dtype) -> Float:
    """Return the largest finite value of a float dtype."""
    if dtype == dtypes.bfloat16:
        return 3.3895313892515355e38
    return float(np.finfo(dtypes.to_numpy(dtype)).max)
