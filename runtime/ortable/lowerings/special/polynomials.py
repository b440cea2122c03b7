"""Lower-case words of the spec language for orthogonal polynomials: recurrence and closed forms."""

from __future__ import annotations

from typing import Any

from ortable.ir import Graph
from ortable.prelude.facts import Bool, Ints, Result
from ortable.prelude.pointwise import const_like

from .loops import while_any

__all__ = ["chebyshev_wave", "recurrence"]


def recurrence(graph: Graph, x: Result, n: Result, second: Result, weights: Ints) -> Result:
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
        result = _three_terms(body, x, place, before, last, weights)
        moved = body.make_node("Add", [place, const_like(body, 1, place)])
        kept = [body.make_node("Where", [going, a, b]) for a, b in ((last, before), (result, last))]
        return [moved, *kept], body.make_node("Less", [moved, n])

    result = while_any(graph, "order", [one, first, start], step)[2]
    result = make("Where", [make("Equal", [n, zero]), one, result])
    return make("Where", [make("Less", [n, zero]), zero, result])


def _three_terms(body: Graph, x: str, place: str, before: str, last: str, weights: Ints) -> str:
    """One step of ``recurrence``; weights that are 0 make no nodes."""
    make, (u, v, w0, w1, y) = body.make_node, weights

    def times(factor: int, base: int) -> str:
        scaled = make("Mul", [place, const_like(body, factor, place)]) if factor != 1 else place
        return make("Add", [scaled, const_like(body, base, place)]) if base else scaled

    slope = make("Mul", [times(v, 1), x]) if v else x
    slope = make("Add", [times(u, 0), slope]) if u else slope
    old = make("Mul", [times(w1, w0), before]) if w1 else before
    result = make("Sub", [make("Mul", [slope, last]), old])
    return make("Div", [result, times(y, 1)]) if y else result


def chebyshev_wave(graph: Graph, n: Result, angle: Result, third: Bool) -> Result:
    """The Chebyshev polynomial of the third kind at cos(angle), or of the fourth; its limit at an
    angle of pi, or of 0."""
    make, (wave, other) = graph.make_node, ("Cos", "Sin") if third else ("Sin", "Cos")
    middle = make("Mul", [angle, const_like(graph, 0.5, n)])
    above = make(wave, [make("Mul", [_halfway(graph, n), angle])])
    ratio = make("Div", [above, make(wave, [middle])])
    ends = make("Equal", [make(other, [middle]), const_like(graph, 1, n)])
    size = make("Mul", [_halfway(graph, n), const_like(graph, 2, n)])
    size = make("Mul", [size, _alternating(graph, n)]) if third else size
    return make("Where", [ends, size, ratio])


def _halfway(graph: Graph, n: str) -> str:
    return graph.make_node("Add", [n, const_like(graph, 0.5, n)])


def _alternating(graph: Graph, n: str) -> str:
    """1 for even ``n``, -1 for odd."""
    odd = graph.make_node("Mod", [n, const_like(graph, 2, n)], fmod=1)
    return graph.make_node("Sub", [const_like(graph, 1, n), graph.make_node("Add", [odd, odd])])
