"""Lower orthogonal polynomials by recurrences and closed forms."""

from __future__ import annotations

from typing import Any

from ortable.ir import Graph
from ortable.prelude.facts import Bool, Ints, Result
from ortable.prelude.op_builder import OpBuilder
from ortable.prelude.pointwise import const_like

from .loops import while_any

__all__ = ["chebyshev_wave", "recurrence"]


def recurrence(graph: Graph, x: Result, n: Result, second: Result, weights: Ints) -> Result:
    """Return orthogonal polynomials of order ``n`` by a three-term recurrence.

    P0 = 1, P1 = ``second``, and with the weights u, v, w0, w1, y:
    (1 + y k) P[k+1] = (u k + (1 + v k) x) P[k] - (w0 + w1 k) P[k-1]. If w1 is 0, w0 must be 1. A
    negative order gives 0.
    """
    op = OpBuilder(graph)
    zero, one = const_like(graph, 0, x), const_like(graph, 1, x)
    zeros = op.Mul(op.Add(x, n), zero)
    ones = op.Add(op.Where(op.IsNaN(zeros), zero, zeros), one)
    start = op.Where(op.Equal(ones, one), second, zero)

    def loop_body(body: Any, names: list[str]) -> tuple[list[str], str]:
        order, older, previous = names
        continues = OpBuilder(body).Less(order, n)
        result = _three_terms(body, x, order, older, previous, weights)
        next_order = OpBuilder(body).Add(order, 1)
        next_states = [
            OpBuilder(body).Where(continues, a, b)
            for a, b in ((previous, older), (result, previous))
        ]
        return [next_order, *next_states], OpBuilder(body).Less(next_order, n)

    result = while_any(graph, "order", [one, ones, start], loop_body)[2]
    result = op.Where(op.Equal(n, zero), one, result)
    return op.Where(op.Less(n, zero), zero, result)


def _three_terms(body: Graph, x: str, order: str, older: str, previous: str, weights: Ints) -> str:
    """Make one step of `recurrence`; weights that are 0 make no nodes."""
    op, (u, v, w0, w1, y) = OpBuilder(body), weights

    def linear_weight(factor: int, offset: int) -> str:
        scaled = op.Mul(order, const_like(body, factor, order)) if factor != 1 else order
        return op.Add(scaled, const_like(body, offset, order)) if offset else scaled

    slope = op.Mul(linear_weight(v, 1), x) if v else x
    slope = op.Add(linear_weight(u, 0), slope) if u else slope
    older_term = op.Mul(linear_weight(w1, w0), older) if w1 else older
    result = op.Sub(op.Mul(slope, previous), older_term)
    return op.Div(result, linear_weight(y, 1)) if y else result


def chebyshev_wave(graph: Graph, n: Result, angle: Result, third: Bool) -> Result:
    """Return the Chebyshev polynomial of the third (or fourth) kind at cos(angle).

    At an angle of pi (third kind) or 0 (fourth kind), the result is the limit.
    """
    op, (func, cofunc) = OpBuilder(graph), ("Cos", "Sin") if third else ("Sin", "Cos")
    half_angle = op.Mul(angle, 0.5)
    numerator = op(func, [op.Mul(_add_half(graph, n), angle)])
    ratio = op.Div(numerator, op(func, [half_angle]))
    is_limit = op.Equal(op(cofunc, [half_angle]), 1)
    limit = op.Mul(_add_half(graph, n), 2)
    limit = op.Mul(limit, _alternating_sign(graph, n)) if third else limit
    return op.Where(is_limit, limit, ratio)


def _add_half(graph: Graph, n: str) -> str:
    return OpBuilder(graph).Add(n, 0.5)


def _alternating_sign(graph: Graph, n: str) -> str:
    """Return 1 for even ``n`` and -1 for odd ``n``."""
    op = OpBuilder(graph)
    parity = op.Mod(n, 2, fmod=1)
    return op.Sub(1, op.Add(parity, parity))
