"""Lower gamma functions, and functions that a Loop iterates, such as zeta and gcd.

The float functions compute in float64 and round once, except for trigamma.
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
    """Return ``log(abs(gamma(x)))``, computed in float64.

    The formulas are Stirling's series from 8, eight steps of the recurrence below 8, and the
    reflection formula for x < 0. The absolute error near the zeros 1 and 2 is 1e-14.
    """
    op, dtype = OpBuilder(graph), graph.get_type(x)
    x = cast(graph, x, dtypes.float64)
    magnitude = op.Abs(x)
    result = _lgamma_positive(graph, magnitude)
    # sin(pi * x) is precise if computed from the distance to the nearest integer
    distance = op.Abs(op.Sub(magnitude, op.Round(magnitude)))
    sine = op.Sin(op.Mul(distance, math.pi))
    reflection = op.Div(math.pi, op.Mul(magnitude, sine))
    reflected = op.Sub(op.Log(reflection), result)
    reflected = op.Where(op.IsInf(x), math.inf, reflected)
    result = op.Where(op.Or(op.Equal(x, 1), op.Equal(x, 2)), 0, result)
    is_negative = op.Less(x, 0)
    return cast(graph, op.Where(is_negative, reflected, result), dtype)


def _lgamma_positive(graph: Graph, x: str) -> str:
    """Return lgamma of a float64 >= 0.

    The product of the eight steps of the recurrence is paired in u = x (x + 7):
    x (x + 1) ... (x + 7) = u (u + 6) (u + 10) (u + 12).
    """
    op = OpBuilder(graph)
    is_small = op.Less(x, 8)
    safe_x = op.Where(is_small, x, 1)
    u = op.Mul(safe_x, op.Add(safe_x, 7))
    steps = u
    for value in (6, 10, 12):
        steps = op.Mul(steps, op.Add(u, const_like(graph, value, x)))
    steps = op.Where(is_small, op.Log(steps), 0)
    shifted = op.Where(is_small, op.Add(x, 8), x)
    inverse = op.Reciprocal(shifted)
    stirling = (1 / 156, -691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12)
    series = polynomial(graph, op.Mul(inverse, inverse), stirling)
    half, one = const_like(graph, 0.5, x), const_like(graph, 1, x)
    leading = op.Mul(op.Sub(shifted, half), op.Sub(op.Log(shifted), one))
    correction = op.Add(op.Mul(series, inverse), const_like(graph, _STIRLING, x))
    return op.Sub(op.Add(leading, correction), steps)


# lgamma(x) = (x - 1/2) (log(x) - 1) + _STIRLING + series
_STIRLING = 0.5 * math.log(2 * math.pi) - 0.5


def digamma_of(graph: Graph, x: Result) -> Result:
    """Return digamma, computed in float64 as in Cephes psi.c.

    Below 10, the ten steps of the recurrence are paired in u = x (x + 9):
    1 / x + 1 / (x + 9) = (2 x + 9) / u, 1 / (x + 1) + 1 / (x + 8) = (2 x + 9) / (u + 8), and so on.
    """
    op, dtype = OpBuilder(graph), graph.get_type(x)
    x = cast(graph, x, dtypes.float64)
    zero, one, ten = (const_like(graph, value, x) for value in (0, 1, 10))
    is_negative = op.Less(x, zero)
    y = op.Where(is_negative, op.Sub(one, x), x)
    is_small = op.Less(y, ten)
    safe_y = op.Where(is_small, y, one)
    u = op.Mul(safe_y, op.Add(safe_y, 9))
    steps = op.Reciprocal(u)
    for value in (8, 14, 18, 20):
        step = op.Reciprocal(op.Add(u, const_like(graph, value, x)))
        steps = op.Add(steps, step)
    width = op.Add(op.Add(safe_y, safe_y), 9)
    steps = op.Where(is_small, op.Mul(steps, width), zero)
    shifted = op.Where(is_small, op.Add(y, ten), y)
    inverse = op.Reciprocal(shifted)
    inverse_square = op.Mul(inverse, inverse)
    series = op.Mul(inverse_square, polynomial(graph, inverse_square, TABLES["digamma"]))
    half = op.Mul(inverse, 0.5)
    result = op.Sub(op.Sub(op.Sub(op.Log(shifted), half), series), steps)
    result = _digamma_reflected(graph, x, result, is_negative)
    # computed from x alone, because ONNX Runtime's Where loses the sign of a zero
    pole = op.Neg(op.Reciprocal(x))
    return cast(graph, op.Where(op.Equal(x, zero), pole, result), dtype)


def _digamma_reflected(graph: Graph, x: str, positive: str, is_negative: str) -> str:
    """Return ``positive``, or where x < 0 ``positive`` - pi / tan(pi x), which is NaN at poles.

    ``positive`` is digamma(1 - x) where x is negative, else digamma(x).
    """
    op = OpBuilder(graph)
    distance = op.Sub(x, op.Round(x))
    angle = op.Mul(distance, math.pi)
    cotangent = op.Div(op.Cos(angle), op.Sin(angle))
    reflected = op.Sub(positive, op.Mul(cotangent, math.pi))
    is_pole = op.Equal(distance, 0)
    reflected = op.Where(is_pole, math.nan, reflected)
    return op.Where(is_negative, reflected, positive)


def trigamma_of(graph: Graph, x: Result) -> Result:
    """Return the second logarithmic derivative of gamma, like torch with a relative error of 1e-8.

    It computes in the dtype of ``x``.
    """
    op, one = OpBuilder(graph), const_like(graph, 1, x)
    is_reflected = op.Less(x, 0.5)
    sine = op.Sin(op.Mul(x, math.pi))
    reflection = op.Div(math.pi**2, op.Mul(sine, sine))
    y = op.Where(is_reflected, op.Sub(one, x), x)
    result = op.Where(is_reflected, op.Neg(reflection), 0)
    for _ in range(6):
        result = op.Add(result, op.Reciprocal(op.Mul(y, y)))
        y = op.Add(y, one)
    inverse_square = op.Reciprocal(op.Mul(y, y))
    series = op.Mul(inverse_square, polynomial(graph, inverse_square, (1 / 42, -1 / 30, 1 / 6)))
    half = op.Div(0.5, y)
    tail = op.Div(op.Add(op.Add(one, half), series), y)
    result = op.Add(result, tail)
    return op.Where(is_reflected, op.Neg(result), result)


def zeta_of(graph: Graph, x: Result, q: Result) -> Result:
    """Return the Hurwitz zeta function, computed in float64.

    Source: Cephes zeta.c, the sum of (q + i) ** -x until q + i exceeds 9, at least nine steps, and
    twelve Euler-Maclaurin terms. Infinities and NaN at the bounds are those of torch.
    """
    op, dtype = OpBuilder(graph), graph.get_type(x)
    x, q = (cast(graph, tensor, dtypes.float64) for tensor in (x, q))
    one, infinity, nan = (const_like(graph, value, x) for value in (1, math.inf, math.nan))
    is_nonpositive = op.LessOrEqual(q, 0)
    is_pole = op.And(is_nonpositive, op.Equal(q, op.Floor(q)))
    last, total = _zeta_head(graph, op.Where(is_pole, one, q), x)
    term = op.Pow(last, op.Neg(x))
    result = op.Add(total, _zeta_tail(graph, x, last, term, total))
    is_integer = op.Equal(x, op.Floor(x))
    result = op.Where(op.And(is_nonpositive, op.Not(is_integer)), nan, result)
    result = op.Where(is_pole, infinity, result)
    result = op.Where(op.Less(x, one), nan, result)
    return cast(graph, op.Where(op.Equal(x, one), infinity, result), dtype)


def _zeta_head(graph: Graph, q: str, power: str) -> tuple[str, str]:
    """Return (w, sum of (q + i) ** -power for q + i <= w), where w > 9 and w >= q + 9."""
    op = OpBuilder(graph)
    # broadcast to the common shape, which the states of a Loop keep
    q = op.Where(op.IsNaN(power), power, q)
    total = op.Pow(q, op.Neg(power))
    ninth_base = op.Add(q, 9)
    last_base = op.Max(ninth_base, 9)

    def loop_body(body: Any, names: list[str]) -> tuple[list[str], str]:
        base, result = names
        following = OpBuilder(body).Add(base, 1)
        continues = OpBuilder(body).Less(base, last_base)
        term = OpBuilder(body).Pow(following, OpBuilder(body).Neg(power))
        next_total = OpBuilder(body).Where(continues, OpBuilder(body).Add(result, term), result)
        next_base = OpBuilder(body).Where(continues, following, base)
        return [next_base, next_total], OpBuilder(body).Less(next_base, last_base)

    result = while_any(graph, "zeta", [q, total], loop_body)
    return result[0], result[1]


def _zeta_tail(graph: Graph, power: str, last: str, term: str, total: str) -> str:
    """Return the remainder of the sum after ``term``, which is ``last ** -power``."""
    op, one = OpBuilder(graph), const_like(graph, 1, power)
    inverse = op.Reciprocal(last)
    square = op.Mul(inverse, inverse)
    result = const_like(graph, 1 / ZETA[-1], power)
    for index in range(len(ZETA) - 2, -1, -1):
        factors = [op.Add(power, const(graph, 2 * index + k, dtypes.float64)) for k in (1, 2)]
        factor = op.Mul(op("Mul", factors), square)
        product = op.Mul(factor, result)
        result = op.Add(product, const_like(graph, 1 / ZETA[index], power))
    series = op.Mul(op.Mul(power, inverse), result)
    integral = op.Div(last, op.Sub(power, one))
    remainder = op.Add(op.Sub(integral, 0.5), series)
    # after a term that underflowed, the remainder is 0, though its factors may be infinite; if the
    # sum underflowed too, torch gives NaN
    zero = const_like(graph, 0, power)
    is_underflow = op.And(op.Equal(term, zero), op.Greater(total, zero))
    return op.Where(is_underflow, zero, op.Mul(term, remainder))


def gcd_of(graph: Graph, a: Result, b: Result) -> Result:
    """Return the greatest common divisor of ints; abs of the lowest int stays negative, as in C."""
    op, dtype = OpBuilder(graph), graph.get_type(a)
    zero, one = const(graph, 0, dtype), const(graph, 1, dtype)
    zeros = op.Mul(op.Add(a, b), zero)
    operands = [op.Add(op.Abs(operand), zeros) for operand in (a, b)]

    def loop_body(body: Any, names: list[str]) -> tuple[list[str], str]:
        left, right = names
        is_done = OpBuilder(body).Equal(right, zero)
        divisor = OpBuilder(body).Where(is_done, one, right)
        multiple = OpBuilder(body).Mul(OpBuilder(body).Div(left, divisor), divisor)
        next_right = OpBuilder(body).Where(is_done, zero, OpBuilder(body).Sub(left, multiple))
        next_left = OpBuilder(body).Where(is_done, left, right)
        return [next_left, next_right], OpBuilder(body).Not(OpBuilder(body).Equal(next_right, zero))

    return while_any(graph, "divisor", operands, loop_body)[0]
