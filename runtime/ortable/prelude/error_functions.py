"""Compute the error function, its complement and rational functions to a few ulp.

The coefficients are in `rational_tables`.
"""

from __future__ import annotations

import math

from ortable import dtypes
from ortable.ir import Graph

from .facts import Result, Str
from .op_builder import OpBuilder
from .pointwise import const_like, polynomial
from .rational_tables import TABLES

__all__ = [
    "erf_of",
    "erfc_tail",
    "erfc_wide",
    "ratio_of",
]


def ratio_of(graph: Graph, x: Result, above: Str, below: Str) -> Result:
    """Return the quotient of two polynomials, given by names of coefficient tables."""
    parts = [polynomial(graph, x, TABLES[name]) for name in (above, below)]
    return graph.make_node("Div", parts)


def erf_of(graph: Graph, x: Result) -> Result:
    """Return the error function, for float64 by Cephes ndtr.c, as ONNX Runtime has no kernel."""
    op = OpBuilder(graph)
    if graph.get_type(x) != dtypes.float64:
        return op.Erf(x)
    one = const_like(graph, 1, x)
    magnitude = op.Abs(x)
    tail = op.Mul(op.Exp(op.Neg(op.Mul(x, x))), erfc_tail(graph, magnitude))
    beyond_one = op.Mul(op.Sign(x), op.Sub(one, tail))
    return op.Where(op.Less(magnitude, one), erf_near(graph, x), beyond_one)


def erf_near(graph: Graph, x: str) -> str:
    """Return erf(x) for abs(x) < 1 in float64."""
    op = OpBuilder(graph)
    square = op.Mul(x, x)
    return op.Mul(x, ratio_of(graph, square, "erf_t", "erf_u"))


def erfc_tail(graph: Graph, x: Result) -> Result:
    """Return exp(x * x) * erfc(x) for x >= 1, beyond 50 by terms of the continued fraction."""
    op = OpBuilder(graph)
    middle = ratio_of(graph, x, "erfc_p", "erfc_q")
    beyond_eight = ratio_of(graph, x, "erfc_r", "erfc_s")
    inverse_square = op.Reciprocal(op.Mul(x, x))
    above = polynomial(graph, inverse_square, (2.0, 4.5, 1.0))
    below = op.Mul(x, polynomial(graph, inverse_square, (3.75, 5.0, 1.0)))
    asymptotic = op.Div(op.Mul(above, 1 / math.sqrt(math.pi)), below)
    beyond_eight = op.Where(op.Greater(x, 50), asymptotic, beyond_eight)
    return op.Where(op.Less(x, 8), middle, beyond_eight)


def erfc_wide(graph: Graph, x: Result) -> Result:
    """Return ``1 - erf(x)`` by ``erfc_of`` for float32, by Cephes ndtr.c for float64."""
    if graph.get_type(x) != dtypes.float64:
        return erfc_of(graph, x)
    op, one = OpBuilder(graph), const_like(graph, 1, x)
    magnitude = op.Abs(x)
    tail = op.Mul(op.Exp(op.Neg(op.Mul(x, x))), erfc_tail(graph, magnitude))
    # the formula gives NaN for infinity, where the tail is 0
    tail = op.Where(op.IsInf(x), 0, tail)
    mirrored = op.Sub(2, tail)
    tail = op.Where(op.Less(x, 0), mirrored, tail)
    near_zero = op.Sub(one, erf_near(graph, x))
    return op.Where(op.Less(magnitude, one), near_zero, tail)


def erfc_of(graph: Graph, x: Result) -> Result:
    """Return ``1 - erf(x)`` for float32, with a relative error of 1e-7 where erf(x) is near 1.

    Source: the Chebyshev fit of Numerical Recipes in C, 6.2 (erfcc), used for x > 0.5.
    """
    op, one = OpBuilder(graph), const_like(graph, 1, x)
    half = const_like(graph, 0.5, x)
    t = op.Div(one, op.Add(op.Mul(op.Abs(x), half), one))
    fit = (
        0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807, -0.18628806,
        0.09678418, 0.37409196, 1.00002368, -1.26551223,
    )  # fmt: skip
    exponent = op.Sub(polynomial(graph, t, fit), op.Mul(x, x))
    tail = op.Mul(t, op.Exp(exponent))
    return op.Where(op.Greater(x, half), tail, op.Sub(one, op.Erf(x)))
