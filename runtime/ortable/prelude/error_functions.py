"""Words for the error function, its complement and quotients of polynomials, to a few ulp.

In comes a float result, out goes the name of a new one. Called by generated converters of
activations, unary and special functions, and by `lowerings.special`. The coefficients are in
`rational_tables`."""

from __future__ import annotations

import math

from ortable import dtypes
from ortable.ir import Graph

from .facts import Result, Str
from .pointwise import const_like, polynomial
from .rational_tables import TABLES

__all__ = [
    "erf_of",
    "erfc_tail",
    "erfc_wide",
    "ratio_of",
]


def ratio_of(graph: Graph, x: Result, above: Str, below: Str) -> Result:
    """The quotient of two polynomials whose coefficients are tables."""
    parts = [polynomial(graph, x, TABLES[name]) for name in (above, below)]
    return graph.make_node("Div", parts)


def erf_of(graph: Graph, x: Result) -> Result:
    """The error function; for float64, which has no kernel, Cephes ndtr.c (error 4e-16)."""
    if graph.get_type(x) != dtypes.float64:
        return graph.make_node("Erf", [x])
    make, one = graph.make_node, const_like(graph, 1, x)
    size = make("Abs", [x])
    tail = make("Mul", [make("Exp", [make("Neg", [make("Mul", [x, x])])]), erfc_tail(graph, size)])
    far = make("Mul", [make("Sign", [x]), make("Sub", [one, tail])])
    return make("Where", [make("Less", [size, one]), erf_near(graph, x), far])


def erf_near(graph: Graph, x: str) -> str:
    """erf for abs(x) < 1."""
    square = graph.make_node("Mul", [x, x])
    return graph.make_node("Mul", [x, ratio_of(graph, square, "erf_t", "erf_u")])


def erfc_tail(graph: Graph, x: Result) -> Result:
    """exp(x * x) * erfc(x) for x >= 1; beyond 50 five terms of the continued fraction."""
    make = graph.make_node
    middle = ratio_of(graph, x, "erfc_p", "erfc_q")
    late = ratio_of(graph, x, "erfc_r", "erfc_s")
    w = make("Reciprocal", [make("Mul", [x, x])])
    above = polynomial(graph, w, (2.0, 4.5, 1.0))
    below = make("Mul", [x, polynomial(graph, w, (3.75, 5.0, 1.0))])
    far = make("Div", [make("Mul", [above, const_like(graph, 1 / math.sqrt(math.pi), x)]), below])
    late = make("Where", [make("Greater", [x, const_like(graph, 50, x)]), far, late])
    return make("Where", [make("Less", [x, const_like(graph, 8, x)]), middle, late])


def erfc_wide(graph: Graph, x: Result) -> Result:
    """``1 - erf(x)``: ``erfc_of`` for float32, Cephes ndtr.c for float64."""
    if graph.get_type(x) != dtypes.float64:
        return erfc_of(graph, x)
    make, one = graph.make_node, const_like(graph, 1, x)
    size = make("Abs", [x])
    tail = make("Mul", [make("Exp", [make("Neg", [make("Mul", [x, x])])]), erfc_tail(graph, size)])
    # the square of infinity over itself is no number; the tail there is 0
    tail = make("Where", [make("IsInf", [x]), const_like(graph, 0, x), tail])
    left = make("Sub", [const_like(graph, 2, x), tail])
    tail = make("Where", [make("Less", [x, const_like(graph, 0, x)]), left, tail])
    near = make("Sub", [one, erf_near(graph, x)])
    return make("Where", [make("Less", [size, one]), near, tail])


def erfc_of(graph: Graph, x: Result) -> Result:
    """``1 - erf(x)`` for float32, with a relative error of 1e-7 where erf(x) is near 1.

    Source: the Chebyshev fit of Numerical Recipes in C, 6.2 (erfcc), used for x > 0.5.
    """
    make, one = graph.make_node, const_like(graph, 1, x)
    half = const_like(graph, 0.5, x)
    t = make("Div", [one, make("Add", [make("Mul", [make("Abs", [x]), half]), one])])
    fit = (
        0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807, -0.18628806,
        0.09678418, 0.37409196, 1.00002368, -1.26551223,
    )  # fmt: skip
    exponent = make("Sub", [polynomial(graph, t, fit), make("Mul", [x, x])])
    tail = make("Mul", [t, make("Exp", [exponent])])
    return make("Where", [make("Greater", [x, half]), tail, make("Sub", [one, make("Erf", [x])])])
