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
from ortable.prelude.pointwise import const_like, log1p_of, polynomial
from ortable.prelude.rational_tables import TEMME
from ortable.prelude.values import cast, consts, unsqueezed

from .gamma import lgamma_of
from .loops import while_any

# enough for the slowest element outside of Temme's region: a = 200, x next to it
_ROUNDS = 400
_EPSILON = 2.0**-53


def igamma(graph: Graph, res: ResultSpec, self: str, other: str) -> str:
    """P(a, x), the lower one."""
    return _incomplete(graph, self, other, True)


def igammac(graph: Graph, res: ResultSpec, self: str, other: str) -> str:
    """Q(a, x), the upper one."""
    return _incomplete(graph, self, other, False)


def _incomplete(graph: Graph, a: str, x: str, lower: bool) -> str:
    """Every region everywhere, with arguments that are harmless outside of it; then a choice."""
    make, dtype = graph.make_node, graph.get_type(a)
    a, x = (cast(graph, each, dtypes.float64) for each in (a, x))
    zero, one = const_like(graph, 0, a), const_like(graph, 1, a)
    # both in the shape that they have together
    both = make("Add", [a, x])
    bad = make("Or", [make("Less", [make("Min", [a, x]), zero]), make("IsNaN", [both])])
    odd = make("Or", [bad, make("IsInf", [both])])
    odd = make("Or", [odd, make("Equal", [make("Min", [a, x]), zero])])
    good_a, good_x = (make("Where", [odd, one, each]) for each in (a, x))
    result = _choice(graph, good_a, good_x, lower)
    nowhere = make("And", [make("Equal", [a, zero]), make("Equal", [x, zero])])
    nowhere = make("Or", [nowhere, make("And", [make("IsInf", [a]), make("IsInf", [x])])])
    full = make("Greater", [x, a]) if lower else make("Less", [x, a])
    edge = cast(graph, full, dtypes.float64)
    result = make("Where", [odd, edge, result])
    nan = make("Or", [bad, nowhere])
    return cast(graph, make("Where", [nan, const_like(graph, math.nan, a), result]), dtype)


def _choice(graph: Graph, a: str, x: str, lower: bool) -> str:
    make, one = graph.make_node, const_like(graph, 1, a)
    gap = make("Div", [make("Abs", [make("Sub", [x, a])]), a])
    near = make("And", [
        make("Greater", [a, const_like(graph, 200, a)]),
        make("Less", [gap, const_like(graph, 0.3, a)]),
    ])  # fmt: skip
    small = make("LessOrEqual", [x, make("Add", [a, one])])
    factor = _factor(graph, a, x)
    far = make("And", [small, make("Not", [near])])
    below = _series(graph, *(make("Where", [far, each, one]) for each in (a, x)))
    below = make("Mul", [make("Div", [factor, a]), below])
    late = make("Not", [make("Or", [small, near])])
    two = const_like(graph, 2, a)
    above = _fraction(graph, make("Where", [late, a, one]), make("Where", [late, x, two]))
    above = make("Mul", [factor, above])
    if lower:
        result = make("Where", [small, below, make("Sub", [one, above])])
    else:
        result = make("Where", [small, make("Sub", [one, below]), above])
    wide = [make("Where", [near, a, const_like(graph, 300, a)])]
    wide.append(make("Where", [near, x, const_like(graph, 300, a)]))
    return make("Where", [near, _temme(graph, wide[0], wide[1], lower), result])


def _factor(graph: Graph, a: str, x: str) -> str:
    """x ** a * exp(-x) / gamma(a)"""
    make = graph.make_node
    power = make("Sub", [make("Mul", [a, make("Log", [x])]), x])
    return make("Exp", [make("Sub", [power, lgamma_of(graph, a)])])


def _series(graph: Graph, a: str, x: str) -> str:
    """The sum of x ** k / ((a + 1) ... (a + k)), k from 0."""
    one = const_like(graph, 1, a)
    blank = graph.make_node("Sub", [a, a])
    first = graph.make_node("Add", [blank, one])

    def step(body: Graph, names: list[str]) -> tuple[list[str], str]:
        make, (place, term, total) = body.make_node, names
        moved = make("Add", [place, one])
        next_ = make("Mul", [term, make("Div", [x, moved])])
        result = make("Add", [total, next_])
        bound = make("Mul", [result, const_like(body, _EPSILON, total)])
        return [moved, next_, result], make("Greater", [next_, bound])

    return while_any(graph, "series", [a, first, first], step, _ROUNDS)[2]


def _fraction(graph: Graph, a: str, x: str) -> str:
    """The continued fraction of exp(x) x ** -a Gamma(a, x) by Lentz's method, for x > a + 1."""
    make, one = graph.make_node, const_like(graph, 1, a)
    start = make("Add", [make("Sub", [x, a]), one])
    d = make("Reciprocal", [start])
    zero = make("Sub", [a, a])
    c = make("Add", [zero, const_like(graph, 1e300, a)])

    def step(body: Graph, names: list[str]) -> tuple[list[str], str]:
        put, (place, b, c, d, result) = body.make_node, names
        moved = put("Add", [place, one])
        top = put("Mul", [moved, put("Sub", [a, moved])])
        b = put("Add", [b, const_like(body, 2, b)])
        d = put("Reciprocal", [put("Add", [put("Mul", [top, d]), b])])
        c = put("Add", [b, put("Div", [top, c])])
        change = put("Mul", [c, d])
        off = put("Abs", [put("Sub", [change, one])])
        going = put("Greater", [off, const_like(body, 4 * _EPSILON, b)])
        return [moved, b, c, d, put("Mul", [result, change])], going

    return while_any(graph, "fraction", [zero, start, c, d, d], step, _ROUNDS)[4]


def _temme(graph: Graph, a: str, x: str, lower: bool) -> str:
    """DLMF 8.12.3, 8.12.4: an erfc and a double series in eta and 1 / a, summed by MatMul."""
    make, sign = graph.make_node, -1.0 if lower else 1.0
    off = make("Div", [make("Sub", [x, a]), a])
    # log1p(off) - off loses its digits near 0, where eta is off * (1 - off / 3 + ...)
    bend = make("Sub", [off, log1p_of(graph, off)])
    square = make("Mul", [bend, const_like(graph, 2, a)])
    near = _small_eta(graph, off)
    eta = make("Mul", [make("Sign", [off]), make("Sqrt", [square])])
    small = make("Less", [make("Abs", [off]), const_like(graph, 0.02, a)])
    eta = make("Where", [small, near, eta])
    half = make("Mul", [a, const_like(graph, 0.5, a)])
    transposed = make("Mul", [eta, const_like(graph, sign, a)])
    main = erfc_wide(graph, make("Mul", [transposed, make("Sqrt", [half])]))
    rows = np.array(TEMME)
    last = [graph.get_rank(a)]
    etas = make("Pow", [unsqueezed(graph, eta, last), _counting(graph, rows.shape[1])])
    table = graph.make_initializer("", rows.T.copy())
    parts = make("MatMul", [etas, table])
    scales = make("Pow", [unsqueezed(graph, a, last), _counting(graph, -rows.shape[0])])
    axis = consts(graph, last, dtypes.int64)
    total = make("ReduceSum", [make("Mul", [parts, scales]), axis], keepdims=0)
    drop = make("Exp", [make("Neg", [make("Mul", [half, make("Mul", [eta, eta])])])])
    width = make("Sqrt", [make("Mul", [a, const_like(graph, 2 * math.pi, a)])])
    rest = make("Div", [make("Mul", [drop, total]), width])
    halved = make("Mul", [main, const_like(graph, 0.5, a)])
    return make("Add" if sign > 0 else "Sub", [halved, rest])


def _counting(graph: Graph, count: int) -> str:
    """0, 1, 2, ... or 0, -1, -2, ... as float64."""
    values = np.arange(abs(count), dtype=np.float64)
    return graph.make_initializer("", values if count > 0 else -values)


def _small_eta(graph: Graph, off: str) -> str:
    """sign(off) * sqrt(2 (off - log1p(off))) by its series for abs(off) < 0.02: error 1e-17."""
    terms = [2.0 * (-1) ** k / (k + 2) for k in range(10)]
    inner = polynomial(graph, off, terms[::-1])
    return graph.make_node("Mul", [off, graph.make_node("Sqrt", [inner])])
