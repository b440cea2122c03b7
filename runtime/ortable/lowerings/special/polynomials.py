"""Orthogonal polynomials: recurrence and closed forms."""

from __future__ import annotations

from typing import Any

from ortable.ir import Graph
from ortable.prelude.facts import Bool, Ints, Result
from ortable.prelude.op_builder import OpBuilder
from ortable.prelude.pointwise import const_like

from .loops import while_any

__all__ = ["chebyshev_wave", "recurrence"]


def recurrence(graph: Graph, x: Result, n: Result, second: Result, weights: Ints) -> Result:
    """Orthogonal polynomials of order ``n`` by three terms: P0 = 1, P1 = ``second``, then with the
    weights u, v, w0, w1, y: (1 + y k) P[k+1] = (u k + (1 + v k) x) P[k] - (w0 + w1 k) P[k-1].
    Zero for a negative order."""
    op = OpBuilder(graph)
    zero, one = const_like(graph, 0, x), const_like(graph, 1, x)
    blank = op.Mul(op.Add(x, n), zero)
    first = op.Add(op.Where(op.IsNaN(blank), zero, blank), one)
    start = op.Where(op.Equal(first, one), second, zero)

    def loop_body(body: Any, names: list[str]) -> tuple[list[str], str]:
        order, before, last = names
        going = OpBuilder(body).Less(order, n)
        result = _three_terms(body, x, order, before, last, weights)
        moved = OpBuilder(body).Add(order, 1)
        next_states = [
            OpBuilder(body).Where(going, a, b) for a, b in ((last, before), (result, last))
        ]
        return [moved, *next_states], OpBuilder(body).Less(moved, n)

    result = while_any(graph, "order", [one, first, start], loop_body)[2]
    result = op.Where(op.Equal(n, zero), one, result)
    return op.Where(op.Less(n, zero), zero, result)


def _three_terms(body: Graph, x: str, order: str, before: str, last: str, weights: Ints) -> str:
    """One step of ``recurrence``; weights that are 0 make no nodes."""
    op, (u, v, w0, w1, y) = OpBuilder(body), weights

    def linear_weight(factor: int, offset: int) -> str:
        scaled = op.Mul(order, const_like(body, factor, order)) if factor != 1 else order
        return op.Add(scaled, const_like(body, offset, order)) if offset else scaled

    slope = op.Mul(linear_weight(v, 1), x) if v else x
    slope = op.Add(linear_weight(u, 0), slope) if u else slope
    old = op.Mul(linear_weight(w1, w0), before) if w1 else before
    result = op.Sub(op.Mul(slope, last), old)
    return op.Div(result, linear_weight(y, 1)) if y else result


def chebyshev_wave(graph: Graph, n: Result, angle: Result, third: Bool) -> Result:
    """The Chebyshev polynomial of the third kind at cos(angle), or of the fourth; its limit at an
    angle of pi, or of 0."""
    op, (wave, other) = OpBuilder(graph), ("Cos", "Sin") if third else ("Sin", "Cos")
    middle = op.Mul(angle, 0.5)
    above = op(wave, [op.Mul(_add_half(graph, n), angle)])
    ratio = op.Div(above, op(wave, [middle]))
    ends = op.Equal(op(other, [middle]), 1)
    size = op.Mul(_add_half(graph, n), 2)
    size = op.Mul(size, _alternating_sign(graph, n)) if third else size
    return op.Where(ends, size, ratio)


def _add_half(graph: Graph, n: str) -> str:
    return OpBuilder(graph).Add(n, 0.5)


def _alternating_sign(graph: Graph, n: str) -> str:
    """1 for even ``n``, -1 for odd."""
    op = OpBuilder(graph)
    odd = op.Mod(n, 2, fmod=1)
    return op.Sub(1, op.Add(odd, odd))
