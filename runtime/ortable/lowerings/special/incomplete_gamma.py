"""Lower the regularized incomplete gamma functions, computed in float64.

As in SciPy and torch, each region has its formula: the power series up to x = a + 1, the continued
fraction above, and Temme's uniform expansion (DLMF 8.12) where a > 200 is near x. Sources:
Numerical Recipes 6.2, DLMF 8.9 and 8.11. The absolute error is 1e-13.
"""

from __future__ import annotations

import math

import numpy as np

from ortable import dtypes
from ortable.ir import Graph, ResultSpec
from ortable.prelude.error_functions import erfc_wide
from ortable.prelude.op_builder import OpBuilder
from ortable.prelude.pointwise import const_like, log1p_of, polynomial
from ortable.prelude.rational_tables import TEMME
from ortable.prelude.values import cast, consts, unsqueezed

from .gamma import lgamma_of
from .loops import while_any

# enough for the slowest element outside of Temme's region: a = 200 and x close to a
_MAX_TRIPS = 400
_EPSILON = 2.0**-53


def lower_igamma(graph: Graph, res: ResultSpec, self: str, other: str) -> str:
    """Lower igamma: the lower function P(a, x)."""
    return _incomplete_gamma(graph, self, other, True)


def lower_igammac(graph: Graph, res: ResultSpec, self: str, other: str) -> str:
    """Lower igammac: the upper function Q(a, x)."""
    return _incomplete_gamma(graph, self, other, False)


def _incomplete_gamma(graph: Graph, a: str, x: str, lower: bool) -> str:
    """Return P(a, x) if ``lower``, else Q(a, x), with torch's values at 0, infinity and NaN."""
    op, dtype = OpBuilder(graph), graph.get_type(a)
    a, x = (cast(graph, operand, dtypes.float64) for operand in (a, x))
    zero, one = const_like(graph, 0, a), const_like(graph, 1, a)
    # a + x has the broadcast shape, and is NaN or infinite if a or x is
    total = op.Add(a, x)
    is_invalid = op.Or(op.Less(op.Min(a, x), zero), op.IsNaN(total))
    is_special = op.Or(is_invalid, op.IsInf(total))
    is_special = op.Or(is_special, op.Equal(op.Min(a, x), zero))
    safe_a, safe_x = (op.Where(is_special, one, operand) for operand in (a, x))
    result = _select_region(graph, safe_a, safe_x, lower)
    is_undefined = op.And(op.Equal(a, zero), op.Equal(x, zero))
    is_undefined = op.Or(is_undefined, op.And(op.IsInf(a), op.IsInf(x)))
    is_one = op.Greater(x, a) if lower else op.Less(x, a)
    special_result = cast(graph, is_one, dtypes.float64)
    result = op.Where(is_special, special_result, result)
    is_nan = op.Or(is_invalid, is_undefined)
    return cast(graph, op.Where(is_nan, math.nan, result), dtype)


def _select_region(graph: Graph, a: str, x: str, lower: bool) -> str:
    """Compute the formula of every region for all elements, with safe arguments, and select."""
    op, one = OpBuilder(graph), const_like(graph, 1, a)
    relative_distance = op.Div(op.Abs(op.Sub(x, a)), a)
    is_temme = op.And(
        op.Greater(a, 200),
        op.Less(relative_distance, 0.3))  # fmt: skip
    is_below = op.LessOrEqual(x, op.Add(a, one))
    factor = _power_factor(graph, a, x)
    uses_series = op.And(is_below, op.Not(is_temme))
    series = _power_series(graph, *(op.Where(uses_series, value, one) for value in (a, x)))
    series = op.Mul(op.Div(factor, a), series)
    uses_fraction = op.Not(op.Or(is_below, is_temme))
    two = const_like(graph, 2, a)
    fraction = _continued_fraction(
        graph, op.Where(uses_fraction, a, one), op.Where(uses_fraction, x, two)
    )
    fraction = op.Mul(factor, fraction)
    if lower:
        result = op.Where(is_below, series, op.Sub(one, fraction))
    else:
        result = op.Where(is_below, op.Sub(one, series), fraction)
    temme_arguments = [op.Where(is_temme, a, 300)]
    temme_arguments.append(op.Where(is_temme, x, 300))
    return op.Where(
        is_temme, _temme_expansion(graph, temme_arguments[0], temme_arguments[1], lower), result
    )


def _power_factor(graph: Graph, a: str, x: str) -> str:
    """Return x ** a * exp(-x) / gamma(a)."""
    op = OpBuilder(graph)
    power = op.Sub(op.Mul(a, op.Log(x)), x)
    return op.Exp(op.Sub(power, lgamma_of(graph, a)))


def _power_series(graph: Graph, a: str, x: str) -> str:
    """Return the sum of x ** k / ((a + 1) ... (a + k)) over k from 0, for x <= a + 1."""
    one = const_like(graph, 1, a)
    zeros = OpBuilder(graph).Sub(a, a)
    ones = OpBuilder(graph).Add(zeros, one)

    def loop_body(body: Graph, names: list[str]) -> tuple[list[str], str]:
        op, (denominator, term, total) = OpBuilder(body), names
        next_denominator = op.Add(denominator, one)
        next_term = op.Mul(term, op.Div(x, next_denominator))
        next_total = op.Add(total, next_term)
        bound = op.Mul(next_total, const_like(body, _EPSILON, total))
        return [next_denominator, next_term, next_total], op.Greater(next_term, bound)

    return while_any(graph, "series", [a, ones, ones], loop_body, _MAX_TRIPS)[2]


def _continued_fraction(graph: Graph, a: str, x: str) -> str:
    """Return exp(x) x ** -a Gamma(a, x) for x > a + 1, by Lentz's method of continued fractions."""
    make, one = graph.make_node, const_like(graph, 1, a)
    start = make("Add", [make("Sub", [x, a]), one])
    d = make("Reciprocal", [start])
    zero = make("Sub", [a, a])
    c = make("Add", [zero, const_like(graph, 1e300, a)])

    def loop_body(body: Graph, names: list[str]) -> tuple[list[str], str]:
        add_node, (index, b, c, d, result) = body.make_node, names
        next_index = add_node("Add", [index, one])
        numerator = add_node("Mul", [next_index, add_node("Sub", [a, next_index])])
        b = add_node("Add", [b, const_like(body, 2, b)])
        d = add_node("Reciprocal", [add_node("Add", [add_node("Mul", [numerator, d]), b])])
        c = add_node("Add", [b, add_node("Div", [numerator, c])])
        change = add_node("Mul", [c, d])
        deviation = add_node("Abs", [add_node("Sub", [change, one])])
        continues = add_node("Greater", [deviation, const_like(body, 4 * _EPSILON, b)])
        return [next_index, b, c, d, add_node("Mul", [result, change])], continues

    return while_any(graph, "fraction", [zero, start, c, d, d], loop_body, _MAX_TRIPS)[4]


def _temme_expansion(graph: Graph, a: str, x: str, lower: bool) -> str:
    """Return erfc / 2 +- a double series in eta and 1 / a (DLMF 8.12.3 and 8.12.4), by a MatMul."""
    op, sign = OpBuilder(graph), -1.0 if lower else 1.0
    deviation = op.Div(op.Sub(x, a), a)
    # log1p(deviation) - deviation loses digits near 0, so eta is computed by a series there
    difference = op.Sub(deviation, log1p_of(graph, deviation))
    square = op.Mul(difference, 2)
    small_eta = _small_eta(graph, deviation)
    eta = op.Mul(op.Sign(deviation), op.Sqrt(square))
    is_small = op.Less(op.Abs(deviation), 0.02)
    eta = op.Where(is_small, small_eta, eta)
    half_a = op.Mul(a, 0.5)
    signed_eta = op.Mul(eta, const_like(graph, sign, a))
    erfc_term = erfc_wide(graph, op.Mul(signed_eta, op.Sqrt(half_a)))
    rows = np.array(TEMME)
    new_axis = [graph.get_rank(a)]
    etas = op.Pow(unsqueezed(graph, eta, new_axis), _exponent_range(graph, rows.shape[1]))
    table = graph.make_initializer("", rows.T.copy())
    parts = op.MatMul(etas, table)
    scales = op.Pow(unsqueezed(graph, a, new_axis), _exponent_range(graph, -rows.shape[0]))
    axis = consts(graph, new_axis, dtypes.int64)
    total = op.ReduceSum(op.Mul(parts, scales), axis, keepdims=0)
    exponential = op.Exp(op.Neg(op.Mul(half_a, op.Mul(eta, eta))))
    root = op.Sqrt(op.Mul(a, 2 * math.pi))
    correction = op.Div(op.Mul(exponential, total), root)
    halved = op.Mul(erfc_term, 0.5)
    return op("Add" if sign > 0 else "Sub", [halved, correction])


def _exponent_range(graph: Graph, count: int) -> str:
    """Return 0, 1, 2, ... or 0, -1, -2, ... as float64."""
    values = np.arange(abs(count), dtype=np.float64)
    return graph.make_initializer("", values if count > 0 else -values)


def _small_eta(graph: Graph, deviation: str) -> str:
    """Return eta = sign(d) * sqrt(2 (d - log1p(d))) for abs(d) < 0.02; the error is 1e-17."""
    op = OpBuilder(graph)
    terms = [2.0 * (-1) ** k / (k + 2) for k in range(10)]
    inner = polynomial(graph, deviation, terms[::-1])
    return op.Mul(deviation, op.Sqrt(inner))
