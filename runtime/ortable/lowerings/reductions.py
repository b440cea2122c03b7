"""Reductions beyond sums: means, variances and moments, and the derivative of a norm. The exact
sums and products are in `prelude.sums`.
"""

from __future__ import annotations

import math

from ortable import dims, dtypes
from ortable.ir import Graph
from ortable.prelude.facts import (
    Bool,
    Dtype,
    Float,
    Ints,
    Result,
    Results,
    Scalar,
    SymInt,
    dim_of,
    is_static,
)
from ortable.prelude.op_builder import OpBuilder
from ortable.prelude.pointwise import const_like, filled_like
from ortable.prelude.sums import float_sum, is_long_sum, summed_over
from ortable.prelude.values import as_scalar, cast, const, consts

__all__ = [
    "distance_slope",
    "mean_over",
    "mean_var",
]


def distance_slope(graph: Graph, away: Result, dist: Result, grad: Result, p: Float) -> Result:
    """``grad`` times the derivative of a p-norm ``dist`` by the differences ``away``; 0 where
    torch defines it so (no distance)."""
    op, zero = OpBuilder(graph), const_like(graph, 0, away)
    if p == 0:
        return filled_like(graph, away, 0, graph.get_type(away))
    sign, size = op.Sign(away), op.Abs(away)
    if p == 1:
        return op.Mul(grad, sign)
    if math.isinf(p):
        most = op.Equal(size, dist)
        return op.Where(most, op.Mul(grad, sign), zero)
    if p == 2:
        result = op.Div(op.Mul(grad, away), dist)
    else:
        steep = const_like(graph, p - 1, away)
        part = op.Mul(op.Mul(sign, op.Pow(size, steep)), grad)
        result = op.Div(part, op.Pow(dist, steep))
    lost = op.Equal(dist, zero)
    if p < 1:
        lost = op.Or(lost, op.Equal(away, zero))
    return op.Where(lost, zero, result)


def mean_over(graph: Graph, x: Result, axes: Ints, keepdim: Bool) -> Result:
    """The mean of floats over non-negative ``axes``; NaN for no elements, where ONNX Runtime's
    ReduceMean gives 0."""
    op = OpBuilder(graph)
    dtype = graph.get_type(x)
    if not axes:
        return x
    if dtype in (dtypes.float16, dtypes.bfloat16):
        return cast(graph, mean_over(graph, cast(graph, x, dtypes.float32), axes, keepdim), dtype)
    count = dims.product_of([dim_of(graph, x, axis) for axis in axes])
    if count >= 1 and is_static(count) and not is_long_sum(graph, x, axes):
        over = consts(graph, axes, dtypes.int64)
        return op.ReduceMean(x, over, keepdims=int(keepdim))
    total = float_sum(graph, x, axes, keepdim, False)
    mean = op.Div(total, const(graph, count, graph.get_type(total)))
    return cast(graph, mean, dtype)


def mean_var(
    graph: Graph, x: Result, axes: Ints, correction: Scalar | None, keepdim: Bool
) -> Results:
    """[mean, variance] of floats over non-negative ``axes``, both in float64, in which torch
    computes them; the mean keeps its axes. The variance is the sum of the squared differences from
    the mean over the count less ``correction`` (1 for None), and NaN or infinite for too few."""
    op = OpBuilder(graph)
    wide = cast(graph, x, dtypes.float64)
    mean = mean_over(graph, wide, axes, True)
    away = op.Sub(wide, mean)
    total = summed_over(graph, op.Mul(away, away), axes, keepdim)
    count = dims.product_of([dim_of(graph, x, axis) for axis in axes])
    less = 1 if correction is None else correction
    return [
        mean,
        op.Div(total, degrees_of_freedom(graph, count, less, dtypes.float64)),
    ]


def centred_over(graph: Graph, x: Result, axes: Ints) -> Results:
    """[x less its mean, mean, sum of the squared differences] over non-negative ``axes``, which are
    kept as 1, in the dtype of ``x``.

    The differences sum to 0 except for the rounding of the mean; their sum corrects the mean, which
    would lose digits where it is 1e5 deviations.
    """
    op, dtype = OpBuilder(graph), graph.get_type(x)
    count = dims.product_of([dim_of(graph, x, axis) for axis in axes])
    first = _exact_mean(graph, x, axes, count)
    rough = op.Sub(x, cast(graph, first, dtype))
    slip = _exact_mean(graph, rough, axes, count)
    away = op.Sub(rough, cast(graph, slip, dtype))
    total = float_sum(graph, op.Mul(away, away), axes, True, True)
    mean = op.Add(cast(graph, cast(graph, first, dtype), graph.get_type(slip)), slip)
    return [away, cast(graph, mean, dtype), cast(graph, total, dtype)]


def moments_over(graph: Graph, x: Result, axes: Ints) -> Results:
    """[mean, sum of the squared differences from it] of ``centred_over``, without a pass over all
    elements to correct each of them."""
    return shifted_moments(graph, x, axes)[2:]


def shifted_moments(graph: Graph, x: Result, axes: Ints) -> Results:
    """[x less its rounded mean, mean of that, mean, sum of the squared differences from the mean]
    over non-negative ``axes``, which are kept as 1, in the dtype of ``x``."""
    op, dtype = OpBuilder(graph), graph.get_type(x)
    count = dims.product_of([dim_of(graph, x, axis) for axis in axes])
    first = cast(graph, _exact_mean(graph, x, axes, count), dtype)
    rough = op.Sub(x, first)
    slip = _exact_mean(graph, rough, axes, count)
    squares = float_sum(graph, op.Mul(rough, rough), axes, True, True)
    compute_dtype = graph.get_type(slip)
    excess = op.Mul(op.Mul(slip, slip), const(graph, count, compute_dtype))
    # an infinite mean stays: what differs from it by infinity is NaN
    rest = op.Where(op.IsNaN(slip), 0, slip)
    mean = op.Add(cast(graph, first, compute_dtype), rest)
    total = op.Sub(squares, excess)
    return [rough, *(cast(graph, moment, dtype) for moment in (slip, mean, total))]


def _exact_mean(graph: Graph, x: str, axes: Ints, count: SymInt) -> str:
    """The mean with ``axes`` kept as 1, in float64 for float32."""
    total = float_sum(graph, x, axes, True, True)
    return OpBuilder(graph).Div(total, const(graph, count, graph.get_type(total)))


def degrees_of_freedom(graph: Graph, count: SymInt, correction: Scalar, dtype: Dtype) -> Result:
    """``max(count - correction, 0)`` as a 0-d result: the divisor of a variance (torch's
    ``correction``)."""
    op = OpBuilder(graph)
    if isinstance(count, int):
        return const(graph, max(count - correction, 0), dtype)
    total = cast(graph, as_scalar(graph, count), dtype)
    if correction == 0:
        return total
    left = op.Sub(total, const(graph, correction, dtype))
    return op.Max(left, 0)
