"""Lower-case words of the spec language for special functions: series, quotients of polynomials,
error functions.

Each is a published approximation; the tables are in ``special_tables.py``.
"""

from __future__ import annotations

import math

from ortable.ir import Graph
from ortable.prelude.error_functions import erf_of, ratio_of
from ortable.prelude.facts import Floats, Result
from ortable.prelude.pointwise import const_like

__all__ = [
    "erfinv_newton",
]


def chebyshev_sum(graph: Graph, x: Result, values: Floats) -> Result:
    """A Chebyshev series by Clenshaw's recurrence, as Cephes' chbevl: ``x`` is twice the variable,
    the coefficient of the highest order comes first."""
    make = graph.make_node
    before: str | None = None
    last = const_like(graph, 0, x)
    result = const_like(graph, values[0], x)
    for value in values[1:]:
        before, last = last, result
        step = make("Sub", [make("Mul", [x, last]), before])
        result = make("Add", [step, const_like(graph, value, x)])
    return make("Mul", [make("Sub", [result, before]), const_like(graph, 0.5, x)])


def erfinv_newton(graph: Graph, y: Result) -> Result:
    """The inverse error function inside of -1..1, as torch's: a guess and two steps of Newton's."""
    return _erfinv_step(graph, y, _erfinv_step(graph, y, _erfinv_start(graph, y)))


def _erfinv_start(graph: Graph, y: Result) -> Result:
    """A first guess of the inverse error function, as torch's: three digits."""
    make = graph.make_node
    near = make("Mul", [y, ratio_of(graph, make("Mul", [y, y]), "erfinv_a", "erfinv_b")])
    size = make("Abs", [y])
    half = const_like(graph, 0.5, y)
    rest = make("Mul", [make("Sub", [const_like(graph, 1, y), size]), half])
    z = make("Sqrt", [make("Neg", [make("Log", [rest])])])
    far = make("Mul", [make("Sign", [y]), ratio_of(graph, z, "erfinv_c", "erfinv_d")])
    return make("Where", [make("LessOrEqual", [size, const_like(graph, 0.7, y)]), near, far])


def _erfinv_step(graph: Graph, y: Result, x: Result) -> Result:
    """One step of Newton's method towards the x whose error function is ``y``."""
    make = graph.make_node
    off = make("Sub", [erf_of(graph, x), y])
    slope = make("Exp", [make("Neg", [make("Mul", [x, x])])])
    slope = make("Mul", [slope, const_like(graph, 2 / math.sqrt(math.pi), y)])
    return make("Sub", [x, make("Div", [off, slope])])
