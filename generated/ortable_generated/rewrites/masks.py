# Generated from specs/rewrites/masks.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.dtypes import boolean, int64
from ortable.passes.rewrite.helpers.masks import rows_have_true, uniform_of
from ortable.passes.rewrite.helpers.shapes import one_axis, same_shape
from ortable.passes.rewrite.matcher import literal_equals
from ortable.passes.rewrite.rule import Match
from ortable.prelude.facts import dim_of, is_bool, rank_of
from ortable.prelude.values import consts

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.ir.node import Node
    from ortable.prelude.facts import Result
    from ortable.passes.rewrite.matcher import Matcher


_CAST = {'round_mode': 'up', 'saturate': 1}
_REDUCE_MAX = {'keepdims': 1, 'noop_with_empty_axes': 0}


def match_and_decided(m: Matcher, root: Node) -> Match | None:
    """both = And(x, y); return both"""
    graph = m.graph
    if len(root.inputs) != 2 or root.attrs:
        return None
    both = root.outputs[0]
    for x, y in m.orders(root):
        value = uniform_of(graph, y)
        if not (value == 1 and same_shape(graph, x, both) or (value == 0 and same_shape(graph, y, both))):
            m.refuse('(value == 1 and same_shape(x, both)) or (value == 0 and same_shape(y, both))')
            continue
        return Match((root,), (root.outputs[0],), (x, y, value))
    return None


def make_and_decided(graph: Graph, res: ResultSpec, x: Result, y: Result, value: Any) -> Any:
    return x if value == 1 else y


def match_or_decided(m: Matcher, root: Node) -> Match | None:
    """both = Or(x, y); return both"""
    graph = m.graph
    if len(root.inputs) != 2 or root.attrs:
        return None
    both = root.outputs[0]
    for x, y in m.orders(root):
        value = uniform_of(graph, y)
        if not (value == 0 and same_shape(graph, x, both) or (value == 1 and same_shape(graph, y, both))):
            m.refuse('(value == 0 and same_shape(x, both)) or (value == 1 and same_shape(y, both))')
            continue
        return Match((root,), (root.outputs[0],), (x, y, value))
    return None


def make_or_decided(graph: Graph, res: ResultSpec, x: Result, y: Result, value: Any) -> Any:
    return x if value == 0 else y


def match_rows_always_allowed(m: Matcher, root: Node) -> Match | None:
    """numbers = Cast(mask, to=_); row_max = ReduceMax(numbers, axes); allowed = Cast(row_max, to=boolean); out = MatMul(_, _); repaired = Where(allowed, out, 0); return repaired"""
    graph = m.graph
    if len(root.inputs) != 3 or root.attrs:
        return None
    repaired = root.outputs[0]
    allowed, out, r1 = root.inputs
    if not m.number(r1, 0):
        return None
    n1 = m.producer(allowed, 'Cast')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('to',), _CAST):
        return None
    if not literal_equals(n1.attrs.get('to'), boolean):
        return None
    n2 = m.producer(out, 'MatMul')
    if n2 is None or len(n2.inputs) != 2 or n2.attrs:
        return None
    row_max = n1.inputs[0]
    n3 = m.producer(row_max, 'ReduceMax')
    if n3 is None or len(n3.inputs) != 2 or not m.plain(n3, (), _REDUCE_MAX):
        return None
    numbers, axes = n3.inputs
    if not axes:
        return None
    n4 = m.producer(numbers, 'Cast')
    if n4 is None or len(n4.inputs) != 1 or not m.plain(n4, ('to',), _CAST):
        return None
    mask = n4.inputs[0]
    if not is_bool(graph, mask):
        m.refuse('is_bool(mask)')
        return None
    last = one_axis(graph, axes, mask) == rank_of(graph, mask) - 1
    if not last:
        m.refuse('last')
        return None
    if not rows_have_true(graph, mask):
        m.refuse('rows_have_true(mask)')
        return None
    if not same_shape(graph, out, repaired):
        m.refuse('same_shape(out, repaired)')
        return None
    return Match((root, n1, n2, n3, n4), (root.outputs[0],), (out,), (n4, n3, n1))


def make_rows_always_allowed(graph: Graph, res: ResultSpec, out: Result) -> Any:
    return out


def finish_rows_narrow_1(m: Matcher, nodes: tuple[Node, ...], other: Any, c: Any, broadcast: Any, axes: Any, a: Any, chosen: Any, b: Any, root: Any, dtype: Any, n4: Any, n3: Any, n2: Any, n1: Any) -> Match | None:
    graph = m.graph
    free = other is None or uniform_of(graph, other) == 1
    if not free:
        m.refuse('free')
        return None
    same_last_size = rank_of(graph, c) > 0 and dim_of(graph, c, -1) == dim_of(graph, broadcast, -1)
    if not same_last_size:
        m.refuse('same_last_size')
        return None
    if not one_axis(graph, axes, broadcast) == rank_of(graph, broadcast) - 1:
        m.refuse('one_axis(axes, broadcast) == rank_of(broadcast) - 1')
        return None
    if not (same_shape(graph, a, chosen) or same_shape(graph, b, chosen)):
        m.refuse('same_shape(a, chosen) or same_shape(b, chosen)')
        return None
    return Match(nodes, (root.outputs[0],), (c, a, b, dtype), (n4, n3, n2, n1))


def match_rows_narrow(m: Matcher, root: Node) -> Match | None:
    """broadcast = any_of(Expand(c, _), And(c, other)); numbers = Cast(broadcast, to=dtype); row_max = ReduceMax(numbers, axes); allowed = Cast(row_max, to=boolean); chosen = Where(allowed, a, b); return chosen"""
    if len(root.inputs) != 3 or root.attrs:
        return None
    chosen = root.outputs[0]
    allowed, a, b = root.inputs
    n1 = m.producer(allowed, 'Cast')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('to',), _CAST):
        return None
    if not literal_equals(n1.attrs.get('to'), boolean):
        return None
    row_max = n1.inputs[0]
    n2 = m.producer(row_max, 'ReduceMax')
    if n2 is None or len(n2.inputs) != 2 or not m.plain(n2, (), _REDUCE_MAX):
        return None
    numbers, axes = n2.inputs
    if not axes:
        return None
    n3 = m.producer(numbers, 'Cast')
    if n3 is None or len(n3.inputs) != 1 or not m.plain(n3, ('to',), _CAST):
        return None
    dtype = n3.attrs.get('to')
    broadcast = n3.inputs[0]
    n4 = m.producer(broadcast, 'Expand')
    if n4 is not None and len(n4.inputs) == 2 and (not n4.attrs):
        c, _ = n4.inputs
        found = finish_rows_narrow_1(m, (root, n1, n2, n3, n4), None, c, broadcast, axes, a, chosen, b, root, dtype, n4, n3, n2, n1)
        if found is not None:
            return found
    n4 = m.producer(broadcast, 'And')
    if n4 is None or len(n4.inputs) != 2 or n4.attrs:
        return None
    for c, other in m.orders(n4):
        found = finish_rows_narrow_1(m, (root, n1, n2, n3, n4), other, c, broadcast, axes, a, chosen, b, root, dtype, n4, n3, n2, n1)
        if found is not None:
            return found
    return None


def make_rows_narrow(graph: Graph, res: ResultSpec, c: Result, a: Result, b: Result, dtype: Any) -> Any:
    each = graph.make_node('Cast', [graph.make_node('ReduceMax', [graph.make_node('Cast', [c], to=dtype), consts(graph, [-1], int64)])], to=boolean)
    return graph.make_node('Where', [each, a, b], res.outputs)


def match_where_decided(m: Matcher, root: Node) -> Match | None:
    """chosen = Where(c, a, b); return chosen"""
    graph = m.graph
    if len(root.inputs) != 3 or root.attrs:
        return None
    chosen = root.outputs[0]
    c, a, b = root.inputs
    value = uniform_of(graph, c)
    if not (value == 1 and same_shape(graph, a, chosen) or (value == 0 and same_shape(graph, b, chosen))):
        m.refuse('(value == 1 and same_shape(a, chosen)) or (value == 0 and same_shape(b, chosen))')
        return None
    return Match((root,), (root.outputs[0],), (a, b, value))


def make_where_decided(graph: Graph, res: ResultSpec, a: Result, b: Result, value: Any) -> Any:
    return a if value == 1 else b


def finish_where_narrow_1(m: Matcher, nodes: tuple[Node, ...], other: Any, a: Any, chosen: Any, b: Any, root: Any, c: Any, n1: Any) -> Match | None:
    graph = m.graph
    free = other is None or uniform_of(graph, other) == 1
    if not free:
        m.refuse('free')
        return None
    if not (same_shape(graph, a, chosen) or same_shape(graph, b, chosen)):
        m.refuse('same_shape(a, chosen) or same_shape(b, chosen)')
        return None
    return Match(nodes, (root.outputs[0],), (c, a, b), (n1,))


def match_where_narrow(m: Matcher, root: Node) -> Match | None:
    """broadcast = any_of(Expand(c, _), And(c, other)); chosen = Where(broadcast, a, b); return chosen"""
    if len(root.inputs) != 3 or root.attrs:
        return None
    chosen = root.outputs[0]
    broadcast, a, b = root.inputs
    n1 = m.producer(broadcast, 'Expand')
    if n1 is not None and len(n1.inputs) == 2 and (not n1.attrs):
        c, _ = n1.inputs
        found = finish_where_narrow_1(m, (root, n1), None, a, chosen, b, root, c, n1)
        if found is not None:
            return found
    n1 = m.producer(broadcast, 'And')
    if n1 is None or len(n1.inputs) != 2 or n1.attrs:
        return None
    for c, other in m.orders(n1):
        found = finish_where_narrow_1(m, (root, n1), other, a, chosen, b, root, c, n1)
        if found is not None:
            return found
    return None


def make_where_narrow(graph: Graph, res: ResultSpec, c: Result, a: Result, b: Result) -> Any:
    return graph.make_node('Where', [c, a, b], res.outputs)
