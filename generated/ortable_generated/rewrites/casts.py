# Generated from specs/rewrites/casts.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.passes.rewrite.helpers.numbers import is_cast_once, is_plus_zero, number_of
from ortable.passes.rewrite.helpers.shapes import known_rank
from ortable.passes.rewrite.rule import Match
from ortable.prelude.facts import dtype_of

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.ir.node import Node
    from ortable.prelude.facts import Result
    from ortable.passes.rewrite.matcher import Matcher


_CAST = {'round_mode': 'up', 'saturate': 1}


def match_cast_cast(m: Matcher, root: Node) -> Match | None:
    """widened = Cast(x, to=between); return Cast(widened, to=dtype)"""
    graph = m.graph
    if len(root.inputs) != 1 or not m.plain(root, ('to',), _CAST):
        return None
    dtype = root.attrs.get('to')
    widened = root.inputs[0]
    n1 = m.producer(widened, 'Cast')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('to',), _CAST):
        return None
    between = n1.attrs.get('to')
    x = n1.inputs[0]
    if not is_cast_once(dtype_of(graph, x), between, dtype):
        m.refuse('is_cast_once(dtype_of(x), between, dtype)')
        return None
    return Match((root, n1), (root.outputs[0],), (x, dtype), (n1,))


def make_cast_cast(graph: Graph, res: ResultSpec, x: Result, dtype: Any) -> Any:
    return graph.make_node('Cast', [x], res.outputs, to=dtype)


def match_cast_same(m: Matcher, root: Node) -> Match | None:
    """return Cast(x, to=dtype)"""
    graph = m.graph
    if len(root.inputs) != 1 or not m.plain(root, ('to',), _CAST):
        return None
    dtype = root.attrs.get('to')
    x = root.inputs[0]
    if not dtype == dtype_of(graph, x):
        m.refuse('dtype == dtype_of(x)')
        return None
    return Match((root,), (root.outputs[0],), (x,))


def make_cast_same(graph: Graph, res: ResultSpec, x: Result) -> Any:
    return x


def match_where_one_zero_to_cast(m: Matcher, root: Node) -> Match | None:
    """return Where(condition, one, zero)"""
    graph = m.graph
    if len(root.inputs) != 3 or root.attrs:
        return None
    condition, one, zero = root.inputs
    if not number_of(graph, one) == 1:
        m.refuse('number_of(one) == 1')
        return None
    if not is_plus_zero(graph, zero):
        m.refuse('is_plus_zero(zero)')
        return None
    if not known_rank(graph, one) == 0:
        m.refuse('known_rank(one) == 0')
        return None
    if not known_rank(graph, zero) == 0:
        m.refuse('known_rank(zero) == 0')
        return None
    return Match((root,), (root.outputs[0],), (condition, one))


def make_where_one_zero_to_cast(graph: Graph, res: ResultSpec, condition: Result, one: Result) -> Any:
    return graph.make_node('Cast', [condition], res.outputs, to=dtype_of(graph, one))
