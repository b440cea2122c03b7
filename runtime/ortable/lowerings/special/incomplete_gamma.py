"""The regularized incomplete gamma functions, computed in float64.

By region, as in SciPy and torch: the power series up to x = a + 1, the continued fraction above,
and Temme's uniform expansion (DLMF 8.12) where a > 200 is near x. Source: Numerical Recipes 6.2,
DLMF 8.9 and 8.11; absolute error 1e-13.
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

# enough for the slowest element outside of Temme's region: a = 200, x next to it
_ROUNDS = 400
_EPSILON = 2.0**-53


def lower_igamma(graph: Graph, res: ResultSpec, self: str, other: str) -> str:
    """P(a, x), the lower one."""
    return _incomplete_gamma(graph, self, other, True)


def lower_igammac(graph: Graph, res: ResultSpec, self: str, other: str) -> str:
    """Q(a, x), the upper one."""
    return _incomplete_gamma(graph, self, other, False)


def _incomplete_gamma(graph: Graph, a: str, x: str, lower: bool) -> str:
    """Compute every region everywhere, with harmless arguments outside of it, and select."""
    op, dtype = OpBuilder(graph), graph.get_type(a)
    a, x = (cast(graph, value, dtypes.float64) for value in (a, x))
    zero, one = const_like(graph, 0, a), const_like(graph, 1, a)
    # both in the shape that they have together
    both = op.Add(a, x)
    bad = op.Or(op.Less(op.Min(a, x), zero), op.IsNaN(both))
    odd = op.Or(bad, op.IsInf(both))
    odd = op.Or(odd, op.Equal(op.Min(a, x), zero))
    good_a, good_x = (op.Where(odd, one, value) for value in (a, x))
    result = _select_region(graph, good_a, good_x, lower)
    nowhere = op.And(op.Equal(a, zero), op.Equal(x, zero))
    nowhere = op.Or(nowhere, op.And(op.IsInf(a), op.IsInf(x)))
    full = op.Greater(x, a) if lower else op.Less(x, a)
    edge = cast(graph, full, dtypes.float64)
    result = op.Where(odd, edge, result)
    nan = op.Or(bad, nowhere)
    return cast(graph, op.Where(nan, math.nan, result), dtype)


def _select_region(graph: Graph, a: str, x: str, lower: bool) -> str:
    op, one = OpBuilder(graph), const_like(graph, 1, a)
    gap = op.Div(op.Abs(op.Sub(x, a)), a)
    near = op.And(
        op.Greater(a, 200),
        op.Less(gap, 0.3))  # fmt: skip
    small = op.LessOrEqual(x, op.Add(a, one))
    factor = _power_factor(graph, a, x)
    far = op.And(small, op.Not(near))
    below = _power_series(graph, *(op.Where(far, value, one) for value in (a, x)))
    below = op.Mul(op.Div(factor, a), below)
    late = op.Not(op.Or(small, near))
    two = const_like(graph, 2, a)
    above = _continued_fraction(graph, op.Where(late, a, one), op.Where(late, x, two))
    above = op.Mul(factor, above)
    if lower:
        result = op.Where(small, below, op.Sub(one, above))
    else:
        result = op.Where(small, op.Sub(one, below), above)
    wide = [op.Where(near, a, 300)]
    wide.append(op.Where(near, x, 300))
    return op.Where(near, _temme_expansion(graph, wide[0], wide[1], lower), result)


def _power_factor(graph: Graph, a: str, x: str) -> str:
    """x ** a * exp(-x) / gamma(a)"""
    op = OpBuilder(graph)
    power = op.Sub(op.Mul(a, op.Log(x)), x)
    return op.Exp(op.Sub(power, lgamma_of(graph, a)))


def _power_series(graph: Graph, a: str, x: str) -> str:
    """The sum of x ** k / ((a + 1) ... (a + k)), k from 0."""
    one = const_like(graph, 1, a)
    blank = OpBuilder(graph).Sub(a, a)
    first = OpBuilder(graph).Add(blank, one)

    def loop_body(body: Graph, names: list[str]) -> tuple[list[str], str]:
        op, (denominator, term, total) = OpBuilder(body), names
        moved = op.Add(denominator, one)
        next_ = op.Mul(term, op.Div(x, moved))
        result = op.Add(total, next_)
        bound = op.Mul(result, const_like(body, _EPSILON, total))
        return [moved, next_, result], op.Greater(next_, bound)

    return while_any(graph, "series", [a, first, first], loop_body, _ROUNDS)[2]


def _continued_fraction(graph: Graph, a: str, x: str) -> str:
    """The continued fraction of exp(x) x ** -a Gamma(a, x) by Lentz's method, for x > a + 1."""
    make, one = graph.make_node, const_like(graph, 1, a)
    start = make("Add", [make("Sub", [x, a]), one])
    d = make("Reciprocal", [start])
    zero = make("Sub", [a, a])
    c = make("Add", [zero, const_like(graph, 1e300, a)])

    def loop_body(body: Graph, names: list[str]) -> tuple[list[str], str]:
        put, (index, b, c, d, result) = body.make_node, names
        moved = put("Add", [index, one])
        top = put("Mul", [moved, put("Sub", [a, moved])])
        b = put("Add", [b, const_like(body, 2, b)])
        d = put("Reciprocal", [put("Add", [put("Mul", [top, d]), b])])
        c = put("Add", [b, put("Div", [top, c])])
        change = put("Mul", [c, d])
        off = put("Abs", [put("Sub", [change, one])])
        going = put("Greater", [off, const_like(body, 4 * _EPSILON, b)])
        return [moved, b, c, d, put("Mul", [result, change])], going

    return while_any(graph, "fraction", [zero, start, c, d, d], loop_body, _ROUNDS)[4]


def _temme_expansion(graph: Graph, a: str, x: str, lower: bool) -> str:
    """DLMF 8.12.3, 8.12.4: an erfc and a double series in eta and 1 / a, summed by MatMul."""
    op, sign = OpBuilder(graph), -1.0 if lower else 1.0
    off = op.Div(op.Sub(x, a), a)
    # log1p(off) - off loses its digits near 0, where eta is off * (1 - off / 3 + ...)
    bend = op.Sub(off, log1p_of(graph, off))
    square = op.Mul(bend, 2)
    near = _small_eta(graph, off)
    eta = op.Mul(op.Sign(off), op.Sqrt(square))
    small = op.Less(op.Abs(off), 0.02)
    eta = op.Where(small, near, eta)
    half = op.Mul(a, 0.5)
    transposed = op.Mul(eta, const_like(graph, sign, a))
    main = erfc_wide(graph, op.Mul(transposed, op.Sqrt(half)))
    rows = np.array(TEMME)
    last = [graph.get_rank(a)]
    etas = op.Pow(unsqueezed(graph, eta, last), _exponent_range(graph, rows.shape[1]))
    table = graph.make_initializer("", rows.T.copy())
    parts = op.MatMul(etas, table)
    scales = op.Pow(unsqueezed(graph, a, last), _exponent_range(graph, -rows.shape[0]))
    axis = consts(graph, last, dtypes.int64)
    total = op.ReduceSum(op.Mul(parts, scales), axis, keepdims=0)
    drop = op.Exp(op.Neg(op.Mul(half, op.Mul(eta, eta))))
    width = op.Sqrt(op.Mul(a, 2 * math.pi))
    rest = op.Div(op.Mul(drop, total), width)
    halved = op.Mul(main, 0.5)
    return op("Add" if sign > 0 else "Sub", [halved, rest])


def _exponent_range(graph: Graph, count: int) -> str:
    """0, 1, 2, ... or 0, -1, -2, ... as float64."""
    values = np.arange(abs(count), dtype=np.float64)
    return graph.make_initializer("", values if count > 0 else -values)


def _small_eta(graph: Graph, off: str) -> str:
    """sign(off) * sqrt(2 (off - log1p(off))) by its series for abs(off) < 0.02: error 1e-17."""
    op = OpBuilder(graph)
    terms = [2.0 * (-1) ** k / (k + 2) for k in range(10)]
    inner = polynomial(graph, off, terms[::-1])
    return op.Mul(off, op.Sqrt(inner))
