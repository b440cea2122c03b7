"""Lower-case words of the spec language for Bessel and Airy functions: the formulas of Cephes,
which torch uses, in the dtype of their argument.
"""

from __future__ import annotations

import math

from ortable.ir import Graph
from ortable.prelude.error_functions import ratio_of
from ortable.prelude.facts import Bool, Float, Floats, Result, ResultSpec, Str
from ortable.prelude.pointwise import const_like, polynomial
from ortable.prelude.rational_tables import TABLES

__all__ = [
    "bessel_j0_of",
    "bessel_j1_of",
    "bessel_k",
    "bessel_series",
    "bessel_tail",
]


def bessel_series(graph: Graph, x: Result, name: Str) -> Result:
    """``exp(-x) I(x)`` of the modified Bessel functions ``i0`` and ``i1 / x`` (below 8), x >= 0:
    Chebyshev series of Cephes' i0.c and i1.c, relative error 5e-16."""
    make = graph.make_node
    low, high = TABLES[f"{name}_low"], TABLES[f"{name}_high"]
    two = const_like(graph, 2, x)
    half = make("Mul", [x, const_like(graph, 0.5, x)])
    near = chebyshev_sum(graph, make("Sub", [half, two]), low)
    if name == "i1":
        near = make("Mul", [near, x])
    far = make("Sub", [make("Div", [const_like(graph, 32, x), x]), two])
    tail = make("Div", [chebyshev_sum(graph, far, high), make("Sqrt", [x])])
    return make("Where", [make("LessOrEqual", [x, const_like(graph, 8, x)]), near, tail])


def bessel_tail(graph: Graph, x: Result, name: Str, shift: Float, second: Bool) -> Result:
    """Hankel's expansion of the Bessel functions of order 0 and 1 for x > 5: Cephes j0.c, j1.c.

    ``shift`` is the phase; functions of the second kind exchange sine and cosine.
    """
    make = graph.make_node
    five = make("Div", [const_like(graph, 5, x), x])
    square = make("Mul", [five, five])
    even = ratio_of(graph, square, f"{name}_pp", f"{name}_pq")
    odd = make("Mul", [five, ratio_of(graph, square, f"{name}_qp", f"{name}_qq")])
    phase = make("Sub", [x, const_like(graph, shift, x)])
    waves = [make("Cos", [phase]), make("Sin", [phase])]
    if second:
        waves.reverse()
    sides = [make("Mul", [even, waves[0]]), make("Mul", [odd, waves[1]])]
    result = make("Add" if second else "Sub", sides)
    scale = const_like(graph, math.sqrt(2 / math.pi), x)
    return make("Div", [make("Mul", [result, scale]), make("Sqrt", [x])])


def bessel_j0_of(graph: Graph, x: Result) -> Result:
    """The Bessel function of the first kind and order 0; Cephes j0.c, absolute error 4e-16."""
    make = graph.make_node
    size = make("Abs", [x])
    square = make("Mul", [x, x])
    zeros = [
        make("Sub", [square, const_like(graph, value, x)])
        for value in (5.78318596294678452118, 30.4712623436620863991)
    ]
    ratio = ratio_of(graph, square, "j0_rp", "j0_rq")
    near = make("Mul", [make("Mul", zeros), ratio])
    tail = bessel_tail(graph, size, "j0", math.pi / 4, False)
    return make("Where", [make("LessOrEqual", [size, const_like(graph, 5, x)]), near, tail])


def bessel_j1_of(graph: Graph, x: Result) -> Result:
    """The Bessel function of the first kind and order 1; Cephes j1.c, absolute error 3e-16."""
    make = graph.make_node
    size = make("Abs", [x])
    square = make("Mul", [x, x])
    zeros = [
        make("Sub", [square, const_like(graph, value, x)])
        for value in (14.6819706421238932572, 49.2184563216946036703)
    ]
    near = make("Mul", [ratio_of(graph, square, "j1_rp", "j1_rq"), x])
    near = make("Mul", [make("Mul", [near, zeros[0]]), zeros[1]])
    tail = bessel_tail(graph, size, "j1", 3 * math.pi / 4, False)
    tail = make("Where", [make("Less", [x, const_like(graph, 0, x)]), make("Neg", [tail]), tail])
    return make("Where", [make("LessOrEqual", [size, const_like(graph, 5, x)]), near, tail])


def bessel_k(graph: Graph, x: Result, name: Str, grown: Bool) -> Result:
    """The modified Bessel functions of the second kind ``k0`` and ``k1``, or ``exp(x)`` times them:
    Cephes k0.c and k1.c. Infinite at 0, NaN below."""
    make, zero = graph.make_node, const_like(graph, 0, x)
    square = make("Sub", [make("Mul", [x, x]), const_like(graph, 2, x)])
    log = make("Log", [make("Mul", [x, const_like(graph, 0.5, x)])])
    wave = make(
        "Mul", [log, make("Mul", [make("Exp", [x]), bessel_series(graph, x, f"i{name[1]}")])]
    )
    near = chebyshev_sum(graph, square, TABLES[f"{name}_low"])
    near = (
        make("Sub", [near, wave]) if name == "k0" else make("Add", [wave, make("Div", [near, x])])
    )
    place = make("Sub", [make("Div", [const_like(graph, 8, x), x]), const_like(graph, 2, x)])
    tail = make("Div", [chebyshev_sum(graph, place, TABLES[f"{name}_high"]), make("Sqrt", [x])])
    if grown:
        near = make("Mul", [near, make("Exp", [x])])
    else:
        tail = make("Mul", [make("Exp", [make("Neg", [x])]), tail])
    result = make("Where", [make("LessOrEqual", [x, const_like(graph, 2, x)]), near, tail])
    result = make("Where", [make("Less", [x, zero]), const_like(graph, math.nan, x), result])
    return make("Where", [make("Equal", [x, zero]), const_like(graph, math.inf, x), result])


def airy_ai(graph: Graph, res: ResultSpec, x: Result) -> Result:
    """The Airy function: its power series near 0, Cephes airy.c beyond."""
    make = graph.make_node
    near, right, left = (f(graph, x) for f in (_airy_near, _airy_right, _airy_left))
    result = make("Where", [make("Less", [x, const_like(graph, -2.09, x)]), left, near])
    inside = make("GreaterOrEqual", [x, const_like(graph, 2.09, x)])
    result = make("Where", [inside, right, result])
    far = make("Greater", [x, const_like(graph, 103.892, x)])
    result = make("Where", [far, const_like(graph, 0, x), result])
    return make("Where", [make("IsInf", [x]), const_like(graph, math.nan, x), result])


def _airy_near(graph: Graph, x: Result) -> Result:
    """The Airy function for abs(x) < 2.1 by its power series: error 1e-16."""
    cube = graph.make_node("Mul", [graph.make_node("Mul", [x, x]), x])
    even, odd = [0.355028053887817239260], [0.258819403792806798405]
    for k in range(1, 14):
        even.append(even[-1] / ((3 * k - 1) * (3 * k)))
        odd.append(odd[-1] / ((3 * k) * (3 * k + 1)))
    sides = [polynomial(graph, cube, values[::-1]) for values in (even, odd)]
    return graph.make_node("Sub", [sides[0], graph.make_node("Mul", [x, sides[1]])])


def _airy_right(graph: Graph, x: Result) -> Result:
    """The Airy function for x > 2.09: Cephes airy.c."""
    make = graph.make_node
    root = make("Sqrt", [x])
    zeta = make("Div", [make("Mul", [make("Add", [x, x]), root]), const_like(graph, 3, x)])
    ratio = ratio_of(graph, make("Reciprocal", [zeta]), "airy_an", "airy_ad")
    fall = make("Mul", [make("Sqrt", [root]), make("Exp", [zeta])])
    factor = const_like(graph, 0.5 / math.sqrt(math.pi), x)
    return make("Div", [make("Mul", [ratio, factor]), fall])


def _airy_left(graph: Graph, x: Result) -> Result:
    """The Airy function for x < -2.09: Cephes airy.c."""
    make = graph.make_node
    size = make("Abs", [x])
    root = make("Sqrt", [size])
    zeta = make("Div", [make("Mul", [make("Add", [size, size]), root]), const_like(graph, 3, x)])
    z = make("Reciprocal", [zeta])
    square = make("Mul", [z, z])
    even = make("Mul", [square, ratio_of(graph, square, "airy_afn", "airy_afd")])
    odd = make("Mul", [z, ratio_of(graph, square, "airy_agn", "airy_agd")])
    angle = make("Add", [zeta, const_like(graph, math.pi / 4, x)])
    sine = make("Mul", [make("Sin", [angle]), make("Add", [even, const_like(graph, 1, x)])])
    waves = make("Sub", [sine, make("Mul", [make("Cos", [angle]), odd])])
    scaled = make("Mul", [waves, const_like(graph, 1 / math.sqrt(math.pi), x)])
    return make("Div", [scaled, make("Sqrt", [root])])


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
