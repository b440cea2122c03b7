# Generated from specs/rewrites/selection.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.passes.rewrite.helpers.numbers import number_of
from ortable.passes.rewrite.rule import Match
from ortable.prelude.facts import dtype_of
from ortable.prelude.values import const

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.ir.node import Node
    from ortable.prelude.facts import Result
    from ortable.passes.rewrite.matcher import Matcher


def match_clip_clip(m: Matcher, root: Node) -> Match | None:
    """return Clip(Clip(x, low, high), floor, ceiling)"""
    graph = m.graph
    if len(root.inputs) != 3 or root.attrs:
        return None
    r1, floor, ceiling = root.inputs
    if not floor or not ceiling:
        return None
    n1 = m.producer(r1, 'Clip')
    if n1 is None or len(n1.inputs) != 3 or n1.attrs:
        return None
    x, low, high = n1.inputs
    if not low or not high:
        return None
    if not number_of(graph, low) <= number_of(graph, high):
        m.refuse('number_of(low) <= number_of(high)')
        return None
    if not number_of(graph, floor) <= number_of(graph, ceiling):
        m.refuse('number_of(floor) <= number_of(ceiling)')
        return None
    bottom = max(number_of(graph, low), number_of(graph, floor))
    top = min(number_of(graph, high), number_of(graph, ceiling))
    if not bottom <= top:
        m.refuse('bottom <= top')
        return None
    return Match((root, n1), (root.outputs[0],), (x, bottom, top))


def make_clip_clip(graph: Graph, res: ResultSpec, x: Result, bottom: Any, top: Any) -> Any:
    return graph.make_node('Clip', [x, const(graph, bottom, dtype_of(graph, x)), const(graph, top, dtype_of(graph, x))], res.outputs)


def match_not_not(m: Matcher, root: Node) -> Match | None:
    """other = Not(x); return Not(other)"""
    if len(root.inputs) != 1 or root.attrs:
        return None
    other = root.inputs[0]
    n1 = m.producer(other, 'Not')
    if n1 is None or len(n1.inputs) != 1 or n1.attrs:
        return None
    x = n1.inputs[0]
    return Match((root, n1), (root.outputs[0],), (x,), (n1,))


def make_not_not(graph: Graph, res: ResultSpec, x: Result) -> Any:
    return x


def match_where_not(m: Matcher, root: Node) -> Match | None:
    """other = Not(condition); return Where(other, a, b)"""
    if len(root.inputs) != 3 or root.attrs:
        return None
    other, a, b = root.inputs
    n1 = m.producer(other, 'Not')
    if n1 is None or len(n1.inputs) != 1 or n1.attrs:
        return None
    condition = n1.inputs[0]
    return Match((root, n1), (root.outputs[0],), (condition, a, b), (n1,))


def make_where_not(graph: Graph, res: ResultSpec, condition: Result, a: Result, b: Result) -> Any:
    return graph.make_node('Where', [condition, b, a], res.outputs)


def match_where_same(m: Matcher, root: Node) -> Match | None:
    """return Where(condition_, x, x)"""
    if len(root.inputs) != 3 or root.attrs:
        return None
    _, x, r1 = root.inputs
    if r1 != x:
        return None
    return Match((root,), (root.outputs[0],), (x,))


def make_where_same(graph: Graph, res: ResultSpec, x: Result) -> Any:
    return x
