"""Lower-case words of the spec language for special functions: series, quotients of polynomials,
error functions.

Each is a published approximation; the tables are in ``special_tables.py``.
"""

from __future__ import annotations

import math

from ortable import dtypes
from ortable.ir import Graph
from ortable.prelude.facts import Floats, Result, Str
from ortable.prelude.pointwise import const_like, erfc_of, polynomial

from .tables import TABLES

__all__ = [
    "chebyshev_sum",
    "erf_of",
    "erfc_wide",
    "erfcx_of",
    "erfinv_start",
    "erfinv_step",
    "ndtri_tail",
    "published",
    "ratio_of",
]


def published(name: Str) -> Floats:
    """A table of ``special_tables.py``, highest power first."""
    return TABLES[name]


def ratio_of(graph: Graph, x: Result, above: Str, below: Str) -> Result:
    """The quotient of two polynomials whose coefficients are tables."""
    parts = [polynomial(graph, x, TABLES[name]) for name in (above, below)]
    return graph.make_node("Div", parts)


def chebyshev_sum(graph: Graph, x: Result, values: Floats) -> Result:
    """A Chebyshev series by Clenshaw's recurrence, as Cephes' chbevl: ``x`` is twice the variable,
    the coefficient of the highest order comes first."""
    make = graph.make_node
    before: str | None = None
    last = const_like(graph, 0, x)
    found = const_like(graph, values[0], x)
    for value in values[1:]:
        before, last = last, found
        step = make("Sub", [make("Mul", [x, last]), before])
        found = make("Add", [step, const_like(graph, value, x)])
    return make("Mul", [make("Sub", [found, before]), const_like(graph, 0.5, x)])


def erf_of(graph: Graph, x: Result) -> Result:
    """The error function; for float64, which has no kernel, Cephes ndtr.c (error 4e-16)."""
    if graph.get_type(x) != dtypes.float64:
        return graph.make_node("Erf", [x])
    make, one = graph.make_node, const_like(graph, 1, x)
    size = make("Abs", [x])
    tail = make("Mul", [make("Exp", [make("Neg", [make("Mul", [x, x])])]), _erfc_tail(graph, size)])
    far = make("Mul", [make("Sign", [x]), make("Sub", [one, tail])])
    return make("Where", [make("Less", [size, one]), _erf_near(graph, x), far])


def _erf_near(graph: Graph, x: str) -> str:
    """erf for abs(x) < 1."""
    square = graph.make_node("Mul", [x, x])
    return graph.make_node("Mul", [x, ratio_of(graph, square, "erf_t", "erf_u")])


def _erfc_tail(graph: Graph, x: str) -> str:
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
    tail = make("Mul", [make("Exp", [make("Neg", [make("Mul", [x, x])])]), _erfc_tail(graph, size)])
    # the square of infinity over itself is no number; the tail there is 0
    tail = make("Where", [make("IsInf", [x]), const_like(graph, 0, x), tail])
    left = make("Sub", [const_like(graph, 2, x), tail])
    tail = make("Where", [make("Less", [x, const_like(graph, 0, x)]), left, tail])
    near = make("Sub", [one, _erf_near(graph, x)])
    return make("Where", [make("Less", [size, one]), near, tail])


def erfcx_of(graph: Graph, x: Result) -> Result:
    """``exp(x * x) * erfc(x)``, with the tables of Cephes' erfc: relative error 4e-16."""
    make, one = graph.make_node, const_like(graph, 1, x)
    size = make("Abs", [x])
    grown = make("Exp", [make("Mul", [x, x])])
    near = make("Mul", [grown, make("Sub", [one, _erf_near(graph, size)])])
    found = make("Where", [make("Less", [size, one]), near, _erfc_tail(graph, size)])
    left = make("Sub", [make("Mul", [grown, const_like(graph, 2, x)]), found])
    return make("Where", [make("Less", [x, const_like(graph, 0, x)]), left, found])


def ndtri_tail(graph: Graph, y: Result) -> Result:
    """How far below the mean a normal variable is with probability ``y`` < 0.14: Cephes ndtri.c.

    Infinite at 0, NaN below.
    """
    make = graph.make_node
    log = make("Log", [y])
    x = make("Sqrt", [make("Mul", [log, const_like(graph, -2, y)])])
    z = make("Reciprocal", [x])
    near, far = (ratio_of(graph, z, f"ndtri_p{k}", f"ndtri_q{k}") for k in (1, 2))
    late = make("Less", [x, const_like(graph, 8, y)])
    curve = make("Mul", [z, make("Where", [late, near, far])])
    found = make("Sub", [make("Sub", [x, make("Mul", [make("Log", [x]), z])]), curve])
    return make("Where", [make("Equal", [y, const_like(graph, 0, y)]), x, found])


def erfinv_start(graph: Graph, y: Result) -> Result:
    """A first guess of the inverse error function, as torch's: three digits."""
    make = graph.make_node
    near = make("Mul", [y, ratio_of(graph, make("Mul", [y, y]), "erfinv_a", "erfinv_b")])
    size = make("Abs", [y])
    half = const_like(graph, 0.5, y)
    rest = make("Mul", [make("Sub", [const_like(graph, 1, y), size]), half])
    z = make("Sqrt", [make("Neg", [make("Log", [rest])])])
    far = make("Mul", [make("Sign", [y]), ratio_of(graph, z, "erfinv_c", "erfinv_d")])
    return make("Where", [make("LessOrEqual", [size, const_like(graph, 0.7, y)]), near, far])


def erfinv_step(graph: Graph, y: Result, x: Result) -> Result:
    """One step of Newton's method towards the x whose error function is ``y``."""
    make = graph.make_node
    off = make("Sub", [erf_of(graph, x), y])
    slope = make("Exp", [make("Neg", [make("Mul", [x, x])])])
    slope = make("Mul", [slope, const_like(graph, 2 / math.sqrt(math.pi), y)])
    return make("Sub", [x, make("Div", [off, slope])])
