"""Lower-case words of the spec language for special functions: series, error functions, orthogonal
polynomials.

Each is a published approximation; the tables are in ``special_tables.py``. Where torch computes in
float32 with a formula that loses digits, or through a library, these compute in float64 and round
once.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ortable import dtypes
from ortable.loops import while_any
from ortable.prelude import Floats, Result, Str
from ortable.prelude_make import cast
from ortable.prelude_pointwise import atan2_of, const_like, erfc_of, polynomial
from ortable.special_tables import TABLES

if TYPE_CHECKING:
    from ortable.builder import GraphBuilder as Graph


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


def acos_of(graph: Graph, x: Result) -> Result:
    """The arc cosine; for float64, which has no kernel, by the angle of a point."""
    make = graph.make_node
    if graph.get_type(x) != dtypes.float64:
        return make("Acos", [x])
    one = const_like(graph, 1, x)
    side = make("Sqrt", [make("Mul", [make("Sub", [one, x]), make("Add", [one, x])])])
    return make("Where", [make("IsNaN", [side]), side, atan2_of(graph, side, x)])


def whole_order(graph: Graph, n: Result) -> Result:
    """The order of a polynomial: ``n`` truncated to int64 as torch does, in its own dtype."""
    return cast(graph, cast(graph, n, dtypes.int64), graph.get_type(n))


def recurrence(graph: Graph, x: Result, n: Result, second: Result, weights: Floats) -> Result:
    """Orthogonal polynomials of order ``n`` by three terms: P0 = 1, P1 = ``second``, then with the
    weights u, v, w0, w1, y: (1 + y k) P[k+1] = (u k + (1 + v k) x) P[k] - (w0 + w1 k) P[k-1].
    Zero for a negative order."""
    make = graph.make_node
    zero, one = const_like(graph, 0, x), const_like(graph, 1, x)
    blank = make("Mul", [make("Add", [x, n]), zero])
    first = make("Add", [make("Where", [make("IsNaN", [blank]), zero, blank]), one])
    start = make("Where", [make("Equal", [first, one]), second, zero])

    def step(body: Any, names: list[str]) -> tuple[list[str], str]:
        place, before, last = names
        going = body.make_node("Less", [place, n])
        found = _three_terms(body, x, place, before, last, weights)
        moved = body.make_node("Add", [place, const_like(body, 1, place)])
        kept = [body.make_node("Where", [going, a, b]) for a, b in ((last, before), (found, last))]
        return [moved, *kept], body.make_node("Less", [moved, n])

    found = while_any(graph, "order", [one, first, start], step)[2]
    found = make("Where", [make("Equal", [n, zero]), one, found])
    return make("Where", [make("Less", [n, zero]), zero, found])


def _three_terms(body: Graph, x: str, place: str, before: str, last: str, weights: Floats) -> str:
    """One step of ``recurrence``; weights that are 0 make no nodes."""
    make, (u, v, w0, w1, y) = body.make_node, weights

    def times(factor: float, base: float) -> str:
        scaled = make("Mul", [place, const_like(body, factor, place)]) if factor != 1 else place
        return make("Add", [scaled, const_like(body, base, place)]) if base else scaled

    slope = make("Mul", [times(v, 1), x]) if v else x
    slope = make("Add", [times(u, 0), slope]) if u else slope
    old = make("Mul", [times(w1, w0), before]) if w1 else before
    found = make("Sub", [make("Mul", [slope, last]), old])
    return make("Div", [found, times(y, 1)]) if y else found
