"""Lower Bessel and Airy functions with the formulas of Cephes, like torch.

They compute in the dtype of the argument.
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
    """Return ``exp(-x) I(x)`` of the modified Bessel functions i0 and i1, for x >= 0.

    The Chebyshev series, of I(x) or, for i1 up to 8, of I(x) / x, are those of Cephes' i0.c and
    i1.c. Their relative error is 5e-16.
    """
    op = OpBuilder(graph)
    low, high = TABLES[f"{name}_low"], TABLES[f"{name}_high"]
    two = const_like(graph, 2, x)
    half = op.Mul(x, 0.5)
    near = chebyshev_sum(graph, op.Sub(half, two), low)
    if name == "i1":
        near = op.Mul(near, x)
    inverse_argument = op.Sub(op.Div(32, x), two)
    tail = op.Div(chebyshev_sum(graph, inverse_argument, high), op.Sqrt(x))
    return op.Where(op.LessOrEqual(x, 8), near, tail)


def bessel_tail(graph: Graph, x: Result, name: Str, shift: Float, second: Bool) -> Result:
    """Return Hankel's expansion of the Bessel functions of order 0 and 1 for x > 5.

    Source: Cephes j0.c and j1.c. ``name`` selects the coefficients. The waves are cos(x - shift)
    and sin(x - shift); ``second``, functions of the second kind, exchanges them.
    """
    op = OpBuilder(graph)
    five_over_x = op.Div(5, x)
    square = op.Mul(five_over_x, five_over_x)
    even = ratio_of(graph, square, f"{name}_pp", f"{name}_pq")
    odd = op.Mul(five_over_x, ratio_of(graph, square, f"{name}_qp", f"{name}_qq"))
    phase = op.Sub(x, const_like(graph, shift, x))
    waves = [op.Cos(phase), op.Sin(phase)]
    if second:
        waves.reverse()
    terms = [op.Mul(even, waves[0]), op.Mul(odd, waves[1])]
    result = op("Add" if second else "Sub", terms)
    scale = const_like(graph, math.sqrt(2 / math.pi), x)
    return op.Div(op.Mul(result, scale), op.Sqrt(x))


def bessel_k(graph: Graph, x: Result, name: Str, grown: Bool) -> Result:
    """Return the modified Bessel function of the second kind ``name``, k0 or k1.

    If ``grown``, it is multiplied by ``exp(x)``. Source: Cephes k0.c and k1.c. The result is
    infinite at 0 and NaN below.
    """
    op, zero = OpBuilder(graph), const_like(graph, 0, x)
    shifted_square = op.Sub(op.Mul(x, x), 2)
    log = op.Log(op.Mul(x, 0.5))
    log_term = op.Mul(log, op.Mul(op.Exp(x), bessel_series(graph, x, f"i{name[1]}")))
    near = chebyshev_sum(graph, shifted_square, TABLES[f"{name}_low"])
    near = op.Sub(near, log_term) if name == "k0" else op.Add(log_term, op.Div(near, x))
    inverse_argument = op.Sub(op.Div(8, x), 2)
    tail = op.Div(chebyshev_sum(graph, inverse_argument, TABLES[f"{name}_high"]), op.Sqrt(x))
    if grown:
        near = op.Mul(near, op.Exp(x))
    else:
        tail = op.Mul(op.Exp(op.Neg(x)), tail)
    result = op.Where(op.LessOrEqual(x, 2), near, tail)
    result = op.Where(op.Less(x, zero), math.nan, result)
    return op.Where(op.Equal(x, zero), math.inf, result)


def airy_ai(graph: Graph, res: ResultSpec, x: Result) -> Result:
    """Return the Airy function Ai: its power series near 0, Cephes airy.c beyond."""
    op = OpBuilder(graph)
    near, right, left = (function(graph, x) for function in (_airy_near, _airy_right, _airy_left))
    result = op.Where(op.Less(x, -2.09), left, near)
    is_right = op.GreaterOrEqual(x, 2.09)
    result = op.Where(is_right, right, result)
    is_underflow = op.Greater(x, 103.892)
    result = op.Where(is_underflow, 0, result)
    return op.Where(op.IsInf(x), math.nan, result)


def _airy_near(graph: Graph, x: Result) -> Result:
    """Return the Airy function for abs(x) < 2.1 from its power series, with an error of 1e-16."""
    op = OpBuilder(graph)
    cube = op.Mul(op.Mul(x, x), x)
    # Ai(x) = f(x) - x g(x), from Ai(0) and -Ai'(0)
    f_coefficients, g_coefficients = [0.355028053887817239260], [0.258819403792806798405]
    for k in range(1, 14):
        f_coefficients.append(f_coefficients[-1] / ((3 * k - 1) * (3 * k)))
        g_coefficients.append(g_coefficients[-1] / ((3 * k) * (3 * k + 1)))
    series = [polynomial(graph, cube, values[::-1]) for values in (f_coefficients, g_coefficients)]
    return op.Sub(series[0], op.Mul(x, series[1]))


def _airy_right(graph: Graph, x: Result) -> Result:
    """Return the Airy function for x > 2.09 from Cephes airy.c."""
    op = OpBuilder(graph)
    root = op.Sqrt(x)
    zeta = op.Div(op.Mul(op.Add(x, x), root), 3)
    ratio = ratio_of(graph, op.Reciprocal(zeta), "airy_an", "airy_ad")
    growth = op.Mul(op.Sqrt(root), op.Exp(zeta))
    factor = const_like(graph, 0.5 / math.sqrt(math.pi), x)
    return op.Div(op.Mul(ratio, factor), growth)


def _airy_left(graph: Graph, x: Result) -> Result:
    """Return the Airy function for x < -2.09 from Cephes airy.c."""
    op = OpBuilder(graph)
    magnitude = op.Abs(x)
    root = op.Sqrt(magnitude)
    zeta = op.Div(op.Mul(op.Add(magnitude, magnitude), root), 3)
    inverse_zeta = op.Reciprocal(zeta)
    square = op.Mul(inverse_zeta, inverse_zeta)
    even = op.Mul(square, ratio_of(graph, square, "airy_afn", "airy_afd"))
    odd = op.Mul(inverse_zeta, ratio_of(graph, square, "airy_agn", "airy_agd"))
    angle = op.Add(zeta, math.pi / 4)
    sine = op.Mul(op.Sin(angle), op.Add(even, 1))
    waves = op.Sub(sine, op.Mul(op.Cos(angle), odd))
    scaled = op.Mul(waves, 1 / math.sqrt(math.pi))
    return op.Div(scaled, op.Sqrt(root))


def chebyshev_sum(graph: Graph, x: Result, values: Floats) -> Result:
    """Sum a Chebyshev series at x / 2 (Clenshaw); ``values`` begin with the highest order."""
    op = OpBuilder(graph)
    older: str | None = None
    previous = const_like(graph, 0, x)
    result = const_like(graph, values[0], x)
    for value in values[1:]:
        older, previous = previous, result
        step = op.Sub(op.Mul(x, previous), older)
        result = op.Add(step, const_like(graph, value, x))
    return op.Mul(op.Sub(result, older), 0.5)
