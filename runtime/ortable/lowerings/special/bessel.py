"""Bessel and Airy functions: the formulas of Cephes, which torch uses, in the dtype of the
argument.
"""

from __future__ import annotations

import math

from ortable.ir import Graph
from ortable.prelude.error_functions import ratio_of
from ortable.prelude.facts import Bool, Float, Floats, Result, ResultSpec, Str
from ortable.prelude.op_builder import OpBuilder
from ortable.prelude.pointwise import const_like, polynomial
from ortable.prelude.rational_tables import TABLES

__all__ = [
    "bessel_k",
    "bessel_series",
    "bessel_tail",
]


def bessel_series(graph: Graph, x: Result, name: Str) -> Result:
    """``exp(-x) I(x)`` of the modified Bessel functions ``i0`` and ``i1 / x`` (below 8), x >= 0:
    Chebyshev series of Cephes' i0.c and i1.c, relative error 5e-16."""
    op = OpBuilder(graph)
    low, high = TABLES[f"{name}_low"], TABLES[f"{name}_high"]
    two = const_like(graph, 2, x)
    half = op.Mul(x, 0.5)
    near = chebyshev_sum(graph, op.Sub(half, two), low)
    if name == "i1":
        near = op.Mul(near, x)
    far = op.Sub(op.Div(32, x), two)
    tail = op.Div(chebyshev_sum(graph, far, high), op.Sqrt(x))
    return op.Where(op.LessOrEqual(x, 8), near, tail)


def bessel_tail(graph: Graph, x: Result, name: Str, shift: Float, second: Bool) -> Result:
    """Hankel's expansion of the Bessel functions of order 0 and 1 for x > 5: Cephes j0.c, j1.c.

    ``shift`` is the phase; functions of the second kind exchange sine and cosine.
    """
    op = OpBuilder(graph)
    five = op.Div(5, x)
    square = op.Mul(five, five)
    even = ratio_of(graph, square, f"{name}_pp", f"{name}_pq")
    odd = op.Mul(five, ratio_of(graph, square, f"{name}_qp", f"{name}_qq"))
    phase = op.Sub(x, const_like(graph, shift, x))
    waves = [op.Cos(phase), op.Sin(phase)]
    if second:
        waves.reverse()
    sides = [op.Mul(even, waves[0]), op.Mul(odd, waves[1])]
    result = op("Add" if second else "Sub", sides)
    scale = const_like(graph, math.sqrt(2 / math.pi), x)
    return op.Div(op.Mul(result, scale), op.Sqrt(x))


def bessel_k(graph: Graph, x: Result, name: Str, grown: Bool) -> Result:
    """The modified Bessel functions of the second kind ``k0`` and ``k1``, or ``exp(x)`` times them:
    Cephes k0.c and k1.c. Infinite at 0, NaN below."""
    op, zero = OpBuilder(graph), const_like(graph, 0, x)
    square = op.Sub(op.Mul(x, x), 2)
    log = op.Log(op.Mul(x, 0.5))
    wave = op.Mul(log, op.Mul(op.Exp(x), bessel_series(graph, x, f"i{name[1]}")))
    near = chebyshev_sum(graph, square, TABLES[f"{name}_low"])
    near = op.Sub(near, wave) if name == "k0" else op.Add(wave, op.Div(near, x))
    mapped = op.Sub(op.Div(8, x), 2)
    tail = op.Div(chebyshev_sum(graph, mapped, TABLES[f"{name}_high"]), op.Sqrt(x))
    if grown:
        near = op.Mul(near, op.Exp(x))
    else:
        tail = op.Mul(op.Exp(op.Neg(x)), tail)
    result = op.Where(op.LessOrEqual(x, 2), near, tail)
    result = op.Where(op.Less(x, zero), math.nan, result)
    return op.Where(op.Equal(x, zero), math.inf, result)


def airy_ai(graph: Graph, res: ResultSpec, x: Result) -> Result:
    """The Airy function: its power series near 0, Cephes airy.c beyond."""
    op = OpBuilder(graph)
    near, right, left = (f(graph, x) for f in (_airy_near, _airy_right, _airy_left))
    result = op.Where(op.Less(x, -2.09), left, near)
    inside = op.GreaterOrEqual(x, 2.09)
    result = op.Where(inside, right, result)
    far = op.Greater(x, 103.892)
    result = op.Where(far, 0, result)
    return op.Where(op.IsInf(x), math.nan, result)


def _airy_near(graph: Graph, x: Result) -> Result:
    """The Airy function for abs(x) < 2.1 by its power series: error 1e-16."""
    op = OpBuilder(graph)
    cube = op.Mul(op.Mul(x, x), x)
    even, odd = [0.355028053887817239260], [0.258819403792806798405]
    for k in range(1, 14):
        even.append(even[-1] / ((3 * k - 1) * (3 * k)))
        odd.append(odd[-1] / ((3 * k) * (3 * k + 1)))
    sides = [polynomial(graph, cube, values[::-1]) for values in (even, odd)]
    return op.Sub(sides[0], op.Mul(x, sides[1]))


def _airy_right(graph: Graph, x: Result) -> Result:
    """The Airy function for x > 2.09: Cephes airy.c."""
    op = OpBuilder(graph)
    root = op.Sqrt(x)
    zeta = op.Div(op.Mul(op.Add(x, x), root), 3)
    ratio = ratio_of(graph, op.Reciprocal(zeta), "airy_an", "airy_ad")
    fall = op.Mul(op.Sqrt(root), op.Exp(zeta))
    factor = const_like(graph, 0.5 / math.sqrt(math.pi), x)
    return op.Div(op.Mul(ratio, factor), fall)


def _airy_left(graph: Graph, x: Result) -> Result:
    """The Airy function for x < -2.09: Cephes airy.c."""
    op = OpBuilder(graph)
    size = op.Abs(x)
    root = op.Sqrt(size)
    zeta = op.Div(op.Mul(op.Add(size, size), root), 3)
    z = op.Reciprocal(zeta)
    square = op.Mul(z, z)
    even = op.Mul(square, ratio_of(graph, square, "airy_afn", "airy_afd"))
    odd = op.Mul(z, ratio_of(graph, square, "airy_agn", "airy_agd"))
    angle = op.Add(zeta, math.pi / 4)
    sine = op.Mul(op.Sin(angle), op.Add(even, 1))
    waves = op.Sub(sine, op.Mul(op.Cos(angle), odd))
    scaled = op.Mul(waves, 1 / math.sqrt(math.pi))
    return op.Div(scaled, op.Sqrt(root))


def chebyshev_sum(graph: Graph, x: Result, values: Floats) -> Result:
    """A Chebyshev series by Clenshaw's recurrence, as Cephes' chbevl: ``x`` is twice the variable,
    the coefficient of the highest order comes first."""
    op = OpBuilder(graph)
    before: str | None = None
    last = const_like(graph, 0, x)
    result = const_like(graph, values[0], x)
    for value in values[1:]:
        before, last = last, result
        step = op.Sub(op.Mul(x, last), before)
        result = op.Add(step, const_like(graph, value, x))
    return op.Mul(op.Sub(result, before), 0.5)
