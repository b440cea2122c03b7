"""Lower reductions beyond sums: means, variances and moments, and the derivative of a norm.

`prelude.sums` has the exact sums and products.
"""

from __future__ import annotations

import math

from ortable import dims, dtypes
from ortable.errors import UnsupportedCase
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
    """Return ``grad`` times the derivative of ``dist``, the p-norm of ``away``; 0 at distance 0."""
    op, zero = OpBuilder(graph), const_like(graph, 0, away)
    if p == 0:
        return filled_like(graph, away, 0, graph.get_type(away))
    sign, magnitude = op.Sign(away), op.Abs(away)
    if p == 1:
        return op.Mul(grad, sign)
    if math.isinf(p):
        is_largest = op.Equal(magnitude, dist)
        return op.Where(is_largest, op.Mul(grad, sign), zero)
    if p == 2:
        result = op.Div(op.Mul(grad, away), dist)
    else:
        exponent = const_like(graph, p - 1, away)
        numerator = op.Mul(op.Mul(sign, op.Pow(magnitude, exponent)), grad)
        result = op.Div(numerator, op.Pow(dist, exponent))
    is_undefined = op.Equal(dist, zero)
    if p < 1:
        is_undefined = op.Or(is_undefined, op.Equal(away, zero))
    return op.Where(is_undefined, zero, result)


def mean_over(graph: Graph, x: Result, axes: Ints, keepdim: Bool) -> Result:
    """Return the mean of floats over nonnegative ``axes``; if empty, NaN, unlike ReduceMean."""
    op = OpBuilder(graph)
    dtype = graph.get_type(x)
    if not axes:
        return x
    if dtype in (dtypes.float16, dtypes.bfloat16):
        return cast(graph, mean_over(graph, cast(graph, x, dtypes.float32), axes, keepdim), dtype)
    count = dims.product_of([dim_of(graph, x, axis) for axis in axes])
    if count >= 1 and is_static(count) and not is_long_sum(graph, x, axes):
        axes_input = consts(graph, axes, dtypes.int64)
        return op.ReduceMean(x, axes_input, keepdims=int(keepdim))
    total = float_sum(graph, x, axes, keepdim, False)
    mean = op.Div(total, const(graph, count, graph.get_type(total)))
    return cast(graph, mean, dtype)


def mean_var(
    graph: Graph, x: Result, axes: Ints, correction: Scalar | None, keepdim: Bool
) -> Results:
    """Return [mean, variance] of floats over nonnegative ``axes``, both in float64 as in torch.

    The mean keeps ``axes`` as size 1. The variance is the sum of the squared differences from the
    mean, divided by the count minus ``correction`` (1 for None). It is NaN or infinite for too few
    elements.

    Raises:
        UnsupportedCase: ``x`` has ints, which torch refuses.
    """
    op = OpBuilder(graph)
    if not dtypes.is_float_type(graph.get_type(x)):
        raise UnsupportedCase("a variance of ints, which torch refuses")
    values = cast(graph, x, dtypes.float64)
    mean = mean_over(graph, values, axes, True)
    centered = op.Sub(values, mean)
    total = summed_over(graph, op.Mul(centered, centered), axes, keepdim)
    count = dims.product_of([dim_of(graph, x, axis) for axis in axes])
    ddof = 1 if correction is None else correction
    return [
        mean,
        op.Div(total, degrees_of_freedom(graph, count, ddof, dtypes.float64)),
    ]


def centred_over(graph: Graph, x: Result, axes: Ints) -> Results:
    """Return [x - mean, mean, sum of squared differences] over nonnegative ``axes``.

    The axes are kept as size 1, and the dtype is that of ``x``. The differences from a rounded mean
    do not sum to 0. Their mean is subtracted from them and added to the mean; otherwise, the result
    would lose digits if the mean is large, such as 1e5 deviations.
    """
    op, dtype = OpBuilder(graph), graph.get_type(x)
    count = dims.product_of([dim_of(graph, x, axis) for axis in axes])
    rough_mean = _exact_mean(graph, x, axes, count)
    shifted = op.Sub(x, cast(graph, rough_mean, dtype))
    error = _exact_mean(graph, shifted, axes, count)
    centered = op.Sub(shifted, cast(graph, error, dtype))
    total = float_sum(graph, op.Mul(centered, centered), axes, True, True)
    mean = op.Add(cast(graph, cast(graph, rough_mean, dtype), graph.get_type(error)), error)
    return [centered, cast(graph, mean, dtype), cast(graph, total, dtype)]


def moments_over(graph: Graph, x: Result, axes: Ints) -> Results:
    """Return [mean, sum of squared differences]; one elementwise pass less than `centred_over`."""
    return shifted_moments(graph, x, axes)[2:]


def shifted_moments(graph: Graph, x: Result, axes: Ints) -> Results:
    """Return [x - rounded mean, mean of that, mean, sum of squared differences from the mean].

    ``axes`` are kept as size 1.
    """
    op, dtype = OpBuilder(graph), graph.get_type(x)
    count = dims.product_of([dim_of(graph, x, axis) for axis in axes])
    rough_mean = cast(graph, _exact_mean(graph, x, axes, count), dtype)
    shifted = op.Sub(x, rough_mean)
    error = _exact_mean(graph, shifted, axes, count)
    squares = float_sum(graph, op.Mul(shifted, shifted), axes, True, True)
    compute_dtype = graph.get_type(error)
    excess = op.Mul(op.Mul(error, error), const(graph, count, compute_dtype))
    # if the mean is infinite, the error is NaN and the mean is not corrected
    safe_error = op.Where(op.IsNaN(error), 0, error)
    mean = op.Add(cast(graph, rough_mean, compute_dtype), safe_error)
    total = op.Sub(squares, excess)
    return [shifted, *(cast(graph, moment, dtype) for moment in (error, mean, total))]


def _exact_mean(graph: Graph, x: str, axes: Ints, count: SymInt) -> str:
    """Return the mean with ``axes`` kept as size 1, in the dtype of `float_sum`."""
    total = float_sum(graph, x, axes, True, True)
    return OpBuilder(graph).Div(total, const(graph, count, graph.get_type(total)))


def degrees_of_freedom(graph: Graph, count: SymInt, correction: Scalar, dtype: Dtype) -> Result:
    """Return ``max(count - correction, 0)`` as a 0-d result, the divisor of a variance in torch."""
    op = OpBuilder(graph)
    if isinstance(count, int):
        return const(graph, max(count - correction, 0), dtype)
    total = cast(graph, as_scalar(graph, count), dtype)
    if correction == 0:
        return total
    difference = op.Sub(total, const(graph, correction, dtype))
    return op.Max(difference, 0)
