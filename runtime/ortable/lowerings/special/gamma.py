"""Lower-case words of the spec language for gamma functions and what is computed by a Loop.

They compute in float64 and round once.
"""

from __future__ import annotations

import math
from typing import Any

from ortable import dtypes
from ortable.ir import Graph
from ortable.prelude.facts import Result
from ortable.prelude.pointwise import const_like, polynomial
from ortable.prelude.rational_tables import TABLES, ZETA
from ortable.prelude.values import cast, const

from .loops import while_any

__all__ = ["digamma_of", "gcd_of", "lgamma_of", "trigamma_of", "zeta_of"]


def lgamma_of(graph: Graph, x: Result) -> Result:
    """``log(abs(gamma(x)))``, computed in float64: Stirling's series from 8 on, eight steps of the
    recurrence below, reflection for x < 0; absolute error 1e-14 near the zeros."""
    make, dtype = graph.make_node, graph.get_type(x)
    x = cast(graph, x, dtypes.float64)
    size = make("Abs", [x])
    result = _lgamma_positive(graph, size)
    # sin(pi * x) by the distance to the nearest integer, where it is precise
    off = make("Abs", [make("Sub", [size, make("Round", [size])])])
    sine = make("Sin", [make("Mul", [off, const_like(graph, math.pi, x)])])
    pole = make("Div", [const_like(graph, math.pi, x), make("Mul", [size, sine])])
    left = make("Sub", [make("Log", [pole]), result])
    left = make("Where", [make("IsInf", [x]), const_like(graph, math.inf, x), left])
    negative = make("Less", [x, const_like(graph, 0, x)])
    return cast(graph, make("Where", [negative, left, result]), dtype)


def _lgamma_positive(graph: Graph, x: str) -> str:
    """lgamma of a float64 >= 0; x * (x + 1) * ... * (x + 7) is a product in u = x * (x + 7)."""
    make = graph.make_node
    small = make("Less", [x, const_like(graph, 8, x)])
    low = make("Where", [small, x, const_like(graph, 1, x)])
    u = make("Mul", [low, make("Add", [low, const_like(graph, 7, x)])])
    steps = u
    for value in (6, 10, 12):
        steps = make("Mul", [steps, make("Add", [u, const_like(graph, value, x)])])
    steps = make("Where", [small, make("Log", [steps]), const_like(graph, 0, x)])
    z = make("Where", [small, make("Add", [x, const_like(graph, 8, x)]), x])
    inverse = make("Reciprocal", [z])
    stirling = (1 / 156, -691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12)
    series = polynomial(graph, make("Mul", [inverse, inverse]), stirling)
    half, one = const_like(graph, 0.5, x), const_like(graph, 1, x)
    main = make("Mul", [make("Sub", [z, half]), make("Sub", [make("Log", [z]), one])])
    rest = make("Add", [make("Mul", [series, inverse]), const_like(graph, _STIRLING, x)])
    return make("Sub", [make("Add", [main, rest]), steps])


_STIRLING = 0.5 * math.log(2 * math.pi) - 0.5


def digamma_of(graph: Graph, x: Result) -> Result:
    """The logarithmic derivative of gamma, computed in float64: Cephes psi.c, with its ten steps of
    the recurrence paired in u = x * (x + 9)."""
    make, dtype = graph.make_node, graph.get_type(x)
    x = cast(graph, x, dtypes.float64)
    zero, one, ten = (const_like(graph, value, x) for value in (0, 1, 10))
    negative = make("Less", [x, zero])
    y = make("Where", [negative, make("Sub", [one, x]), x])
    small = make("Less", [y, ten])
    low = make("Where", [small, y, one])
    u = make("Mul", [low, make("Add", [low, const_like(graph, 9, x)])])
    steps = make("Reciprocal", [u])
    for value in (8, 14, 18, 20):
        step = make("Reciprocal", [make("Add", [u, const_like(graph, value, x)])])
        steps = make("Add", [steps, step])
    width = make("Add", [make("Add", [low, low]), const_like(graph, 9, x)])
    steps = make("Where", [small, make("Mul", [steps, width]), zero])
    z = make("Where", [small, make("Add", [y, ten]), y])
    inverse = make("Reciprocal", [z])
    w = make("Mul", [inverse, inverse])
    series = make("Mul", [w, polynomial(graph, w, TABLES["digamma"])])
    half = make("Mul", [inverse, const_like(graph, 0.5, x)])
    result = make("Sub", [make("Sub", [make("Sub", [make("Log", [z]), half]), series]), steps])
    result = _digamma_reflected(graph, x, result, negative)
    # by itself, as ONNX Runtime's Where forgets the sign of a zero
    bare = make("Neg", [make("Reciprocal", [x])])
    return cast(graph, make("Where", [make("Equal", [x, zero]), bare, result]), dtype)


def _digamma_reflected(graph: Graph, x: str, found: str, negative: str) -> str:
    """digamma(1 - x) - pi / tan(pi * x) where x is negative, NaN at the poles."""
    make = graph.make_node
    off = make("Sub", [x, make("Round", [x])])
    angle = make("Mul", [off, const_like(graph, math.pi, x)])
    cotangent = make("Div", [make("Cos", [angle]), make("Sin", [angle])])
    left = make("Sub", [found, make("Mul", [cotangent, const_like(graph, math.pi, x)])])
    pole = make("Equal", [off, const_like(graph, 0, x)])
    left = make("Where", [pole, const_like(graph, math.nan, x), left])
    return make("Where", [negative, left, found])


def trigamma_of(graph: Graph, x: Result) -> Result:
    """The second logarithmic derivative of gamma as torch computes it: relative error 1e-8."""
    make, one = graph.make_node, const_like(graph, 1, x)
    negative = make("Less", [x, const_like(graph, 0.5, x)])
    sine = make("Sin", [make("Mul", [x, const_like(graph, math.pi, x)])])
    pole = make("Div", [const_like(graph, math.pi**2, x), make("Mul", [sine, sine])])
    y = make("Where", [negative, make("Sub", [one, x]), x])
    result = make("Where", [negative, make("Neg", [pole]), const_like(graph, 0, x)])
    for _ in range(6):
        result = make("Add", [result, make("Reciprocal", [make("Mul", [y, y])])])
        y = make("Add", [y, one])
    w = make("Reciprocal", [make("Mul", [y, y])])
    series = make("Mul", [w, polynomial(graph, w, (1 / 42, -1 / 30, 1 / 6))])
    half = make("Div", [const_like(graph, 0.5, x), y])
    rest = make("Div", [make("Add", [make("Add", [one, half]), series]), y])
    result = make("Add", [result, rest])
    return make("Where", [negative, make("Neg", [result]), result])


def zeta_of(graph: Graph, x: Result, q: Result) -> Result:
    """The Hurwitz zeta function, computed in float64: Cephes zeta.c, the sum of q ** -x up to 9 and
    twelve terms of Euler and Maclaurin; torch's infinities and NaN at the bounds."""
    make, dtype = graph.make_node, graph.get_type(x)
    x, q = (cast(graph, each, dtypes.float64) for each in (x, q))
    one, endless, nan = (const_like(graph, value, x) for value in (1, math.inf, math.nan))
    low = make("LessOrEqual", [q, const_like(graph, 0, x)])
    pole = make("And", [low, make("Equal", [q, make("Floor", [q])])])
    last, total = _zeta_head(graph, make("Where", [pole, one, q]), x)
    term = make("Pow", [last, make("Neg", [x])])
    result = make("Add", [total, _zeta_tail(graph, x, last, term, total)])
    whole = make("Equal", [x, make("Floor", [x])])
    result = make("Where", [make("And", [low, make("Not", [whole])]), nan, result])
    result = make("Where", [pole, endless, result])
    result = make("Where", [make("Less", [x, one]), nan, result])
    return cast(graph, make("Where", [make("Equal", [x, one]), endless, result]), dtype)


def _zeta_head(graph: Graph, q: str, power: str) -> tuple[str, str]:
    """``(w, sum of (q + i) ** -x for q + i <= w)`` with w > 9 and at least nine terms."""
    make = graph.make_node
    # in the shape that both have together, which the states of a Loop keep
    q = make("Where", [make("IsNaN", [power]), power, q])
    total = make("Pow", [q, make("Neg", [power])])
    ahead = make("Add", [q, const_like(graph, 9, q)])
    goal = make("Max", [ahead, const_like(graph, 9, q)])

    def step(body: Any, names: list[str]) -> tuple[list[str], str]:
        base, result = names
        moved = body.make_node("Add", [base, const(body, 1, dtypes.float64)])
        going = body.make_node("Less", [base, goal])
        term = body.make_node("Pow", [moved, body.make_node("Neg", [power])])
        found_ = body.make_node("Where", [going, body.make_node("Add", [result, term]), result])
        base_ = body.make_node("Where", [going, moved, base])
        return [base_, found_], body.make_node("Less", [base_, goal])

    result = while_any(graph, "zeta", [q, total], step)
    return result[0], result[1]


def _zeta_tail(graph: Graph, power: str, last: str, term: str, total: str) -> str:
    """What the sum lacks after the term ``last ** -power``."""
    make, one = graph.make_node, const_like(graph, 1, power)
    inverse = make("Reciprocal", [last])
    square = make("Mul", [inverse, inverse])
    result = const_like(graph, 1 / ZETA[-1], power)
    for place in range(len(ZETA) - 2, -1, -1):
        sides = [make("Add", [power, const(graph, 2 * place + k, dtypes.float64)]) for k in (1, 2)]
        factor = make("Mul", [make("Mul", sides), square])
        rest = make("Mul", [factor, result])
        result = make("Add", [rest, const_like(graph, 1 / ZETA[place], power)])
    series = make("Mul", [make("Mul", [power, inverse]), result])
    main = make("Div", [last, make("Sub", [power, one])])
    whole = make("Add", [make("Sub", [main, const_like(graph, 0.5, power)]), series])
    # a term that underflowed has no rest, though its factors may be infinite; torch gives NaN where
    # the sum underflowed, too
    zero = const_like(graph, 0, power)
    nothing = make("And", [make("Equal", [term, zero]), make("Greater", [total, zero])])
    return make("Where", [nothing, zero, make("Mul", [term, whole])])


def gcd_of(graph: Graph, a: Result, b: Result) -> Result:
    """The greatest common divisor of ints, Euclid's in a Loop; as in C the least int stays negative
    in ``abs``."""
    make, dtype = graph.make_node, graph.get_type(a)
    zero, one = const(graph, 0, dtype), const(graph, 1, dtype)
    blank = make("Mul", [make("Add", [a, b]), zero])
    sides = [make("Add", [make("Abs", [each]), blank]) for each in (a, b)]

    def step(body: Any, names: list[str]) -> tuple[list[str], str]:
        left, right = names
        ended = body.make_node("Equal", [right, zero])
        divisor = body.make_node("Where", [ended, one, right])
        whole = body.make_node("Mul", [body.make_node("Div", [left, divisor]), divisor])
        rest = body.make_node("Where", [ended, zero, body.make_node("Sub", [left, whole])])
        moved = body.make_node("Where", [ended, left, right])
        return [moved, rest], body.make_node("Not", [body.make_node("Equal", [rest, zero])])

    return while_any(graph, "divisor", sides, step)[0]
