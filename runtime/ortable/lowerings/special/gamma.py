"""Gamma functions and iterative functions computed by a Loop.

They compute in float64 and round once.
"""

from __future__ import annotations

import math
from typing import Any

from ortable import dtypes
from ortable.ir import Graph
from ortable.prelude.facts import Result
from ortable.prelude.op_builder import OpBuilder
from ortable.prelude.pointwise import const_like, polynomial
from ortable.prelude.rational_tables import TABLES, ZETA
from ortable.prelude.values import cast, const

from .loops import while_any

__all__ = ["digamma_of", "gcd_of", "lgamma_of", "trigamma_of", "zeta_of"]


def lgamma_of(graph: Graph, x: Result) -> Result:
    """``log(abs(gamma(x)))``, computed in float64: Stirling's series from 8 on, eight steps of the
    recurrence below, reflection for x < 0; absolute error 1e-14 near the zeros."""
    op, dtype = OpBuilder(graph), graph.get_type(x)
    x = cast(graph, x, dtypes.float64)
    size = op.Abs(x)
    result = _lgamma_positive(graph, size)
    # sin(pi * x) by the distance to the nearest integer, where it is precise
    off = op.Abs(op.Sub(size, op.Round(size)))
    sine = op.Sin(op.Mul(off, math.pi))
    pole = op.Div(math.pi, op.Mul(size, sine))
    left = op.Sub(op.Log(pole), result)
    left = op.Where(op.IsInf(x), math.inf, left)
    negative = op.Less(x, 0)
    return cast(graph, op.Where(negative, left, result), dtype)


def _lgamma_positive(graph: Graph, x: str) -> str:
    """lgamma of a float64 >= 0; x * (x + 1) * ... * (x + 7) is a product in u = x * (x + 7)."""
    op = OpBuilder(graph)
    small = op.Less(x, 8)
    low = op.Where(small, x, 1)
    u = op.Mul(low, op.Add(low, 7))
    steps = u
    for value in (6, 10, 12):
        steps = op.Mul(steps, op.Add(u, const_like(graph, value, x)))
    steps = op.Where(small, op.Log(steps), 0)
    z = op.Where(small, op.Add(x, 8), x)
    inverse = op.Reciprocal(z)
    stirling = (1 / 156, -691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12)
    series = polynomial(graph, op.Mul(inverse, inverse), stirling)
    half, one = const_like(graph, 0.5, x), const_like(graph, 1, x)
    main = op.Mul(op.Sub(z, half), op.Sub(op.Log(z), one))
    rest = op.Add(op.Mul(series, inverse), const_like(graph, _STIRLING, x))
    return op.Sub(op.Add(main, rest), steps)


_STIRLING = 0.5 * math.log(2 * math.pi) - 0.5


def digamma_of(graph: Graph, x: Result) -> Result:
    """The logarithmic derivative of gamma, computed in float64: Cephes psi.c, with its ten steps of
    the recurrence paired in u = x * (x + 9)."""
    op, dtype = OpBuilder(graph), graph.get_type(x)
    x = cast(graph, x, dtypes.float64)
    zero, one, ten = (const_like(graph, value, x) for value in (0, 1, 10))
    negative = op.Less(x, zero)
    y = op.Where(negative, op.Sub(one, x), x)
    small = op.Less(y, ten)
    low = op.Where(small, y, one)
    u = op.Mul(low, op.Add(low, 9))
    steps = op.Reciprocal(u)
    for value in (8, 14, 18, 20):
        step = op.Reciprocal(op.Add(u, const_like(graph, value, x)))
        steps = op.Add(steps, step)
    width = op.Add(op.Add(low, low), 9)
    steps = op.Where(small, op.Mul(steps, width), zero)
    z = op.Where(small, op.Add(y, ten), y)
    inverse = op.Reciprocal(z)
    w = op.Mul(inverse, inverse)
    series = op.Mul(w, polynomial(graph, w, TABLES["digamma"]))
    half = op.Mul(inverse, 0.5)
    result = op.Sub(op.Sub(op.Sub(op.Log(z), half), series), steps)
    result = _digamma_reflected(graph, x, result, negative)
    # by itself, as ONNX Runtime's Where forgets the sign of a zero
    bare = op.Neg(op.Reciprocal(x))
    return cast(graph, op.Where(op.Equal(x, zero), bare, result), dtype)


def _digamma_reflected(graph: Graph, x: str, positive: str, negative: str) -> str:
    """digamma(1 - x) - pi / tan(pi * x) where x is negative, NaN at the poles."""
    op = OpBuilder(graph)
    off = op.Sub(x, op.Round(x))
    angle = op.Mul(off, math.pi)
    cotangent = op.Div(op.Cos(angle), op.Sin(angle))
    left = op.Sub(positive, op.Mul(cotangent, math.pi))
    pole = op.Equal(off, 0)
    left = op.Where(pole, math.nan, left)
    return op.Where(negative, left, positive)


def trigamma_of(graph: Graph, x: Result) -> Result:
    """The second logarithmic derivative of gamma as torch computes it: relative error 1e-8."""
    op, one = OpBuilder(graph), const_like(graph, 1, x)
    negative = op.Less(x, 0.5)
    sine = op.Sin(op.Mul(x, math.pi))
    pole = op.Div(math.pi**2, op.Mul(sine, sine))
    y = op.Where(negative, op.Sub(one, x), x)
    result = op.Where(negative, op.Neg(pole), 0)
    for _ in range(6):
        result = op.Add(result, op.Reciprocal(op.Mul(y, y)))
        y = op.Add(y, one)
    w = op.Reciprocal(op.Mul(y, y))
    series = op.Mul(w, polynomial(graph, w, (1 / 42, -1 / 30, 1 / 6)))
    half = op.Div(0.5, y)
    rest = op.Div(op.Add(op.Add(one, half), series), y)
    result = op.Add(result, rest)
    return op.Where(negative, op.Neg(result), result)


def zeta_of(graph: Graph, x: Result, q: Result) -> Result:
    """The Hurwitz zeta function, computed in float64: Cephes zeta.c, the sum of q ** -x up to 9 and
    twelve terms of Euler and Maclaurin; torch's infinities and NaN at the bounds."""
    op, dtype = OpBuilder(graph), graph.get_type(x)
    x, q = (cast(graph, tensor, dtypes.float64) for tensor in (x, q))
    one, endless, nan = (const_like(graph, value, x) for value in (1, math.inf, math.nan))
    low = op.LessOrEqual(q, 0)
    pole = op.And(low, op.Equal(q, op.Floor(q)))
    last, total = _zeta_head(graph, op.Where(pole, one, q), x)
    term = op.Pow(last, op.Neg(x))
    result = op.Add(total, _zeta_tail(graph, x, last, term, total))
    whole = op.Equal(x, op.Floor(x))
    result = op.Where(op.And(low, op.Not(whole)), nan, result)
    result = op.Where(pole, endless, result)
    result = op.Where(op.Less(x, one), nan, result)
    return cast(graph, op.Where(op.Equal(x, one), endless, result), dtype)


def _zeta_head(graph: Graph, q: str, power: str) -> tuple[str, str]:
    """``(w, sum of (q + i) ** -x for q + i <= w)`` with w > 9 and at least nine terms."""
    op = OpBuilder(graph)
    # in the shape that both have together, which the states of a Loop keep
    q = op.Where(op.IsNaN(power), power, q)
    total = op.Pow(q, op.Neg(power))
    ahead = op.Add(q, 9)
    goal = op.Max(ahead, 9)

    def loop_body(body: Any, names: list[str]) -> tuple[list[str], str]:
        base, result = names
        moved = OpBuilder(body).Add(base, 1)
        going = OpBuilder(body).Less(base, goal)
        term = OpBuilder(body).Pow(moved, OpBuilder(body).Neg(power))
        next_total = OpBuilder(body).Where(going, OpBuilder(body).Add(result, term), result)
        next_base = OpBuilder(body).Where(going, moved, base)
        return [next_base, next_total], OpBuilder(body).Less(next_base, goal)

    result = while_any(graph, "zeta", [q, total], loop_body)
    return result[0], result[1]


def _zeta_tail(graph: Graph, power: str, last: str, term: str, total: str) -> str:
    """The remainder of the sum after the term ``last ** -power``."""
    op, one = OpBuilder(graph), const_like(graph, 1, power)
    inverse = op.Reciprocal(last)
    square = op.Mul(inverse, inverse)
    result = const_like(graph, 1 / ZETA[-1], power)
    for index in range(len(ZETA) - 2, -1, -1):
        sides = [op.Add(power, const(graph, 2 * index + k, dtypes.float64)) for k in (1, 2)]
        factor = op.Mul(op("Mul", sides), square)
        rest = op.Mul(factor, result)
        result = op.Add(rest, const_like(graph, 1 / ZETA[index], power))
    series = op.Mul(op.Mul(power, inverse), result)
    main = op.Div(last, op.Sub(power, one))
    whole = op.Add(op.Sub(main, 0.5), series)
    # a term that underflowed has no rest, though its factors may be infinite; torch gives NaN where
    # the sum underflowed, too
    zero = const_like(graph, 0, power)
    nothing = op.And(op.Equal(term, zero), op.Greater(total, zero))
    return op.Where(nothing, zero, op.Mul(term, whole))


def gcd_of(graph: Graph, a: Result, b: Result) -> Result:
    """The greatest common divisor of ints, Euclid's in a Loop; as in C the least int stays negative
    in ``abs``."""
    op, dtype = OpBuilder(graph), graph.get_type(a)
    zero, one = const(graph, 0, dtype), const(graph, 1, dtype)
    blank = op.Mul(op.Add(a, b), zero)
    sides = [op.Add(op.Abs(operand), blank) for operand in (a, b)]

    def loop_body(body: Any, names: list[str]) -> tuple[list[str], str]:
        left, right = names
        ended = OpBuilder(body).Equal(right, zero)
        divisor = OpBuilder(body).Where(ended, one, right)
        whole = OpBuilder(body).Mul(OpBuilder(body).Div(left, divisor), divisor)
        rest = OpBuilder(body).Where(ended, zero, OpBuilder(body).Sub(left, whole))
        moved = OpBuilder(body).Where(ended, left, right)
        return [moved, rest], OpBuilder(body).Not(OpBuilder(body).Equal(rest, zero))

    return while_any(graph, "divisor", sides, loop_body)[0]
