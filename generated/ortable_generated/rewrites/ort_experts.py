# Generated from specs/rewrites/ort_experts.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.dtypes import float32, int64
from ortable.passes.rewrite.helpers.experts import are_nonnegative, counts_of, pays_by_expert, rows_by_expert
from ortable.passes.rewrite.helpers.numbers import for_cpu, is_filled, number_of
from ortable.passes.rewrite.helpers.shapes import has_shape
from ortable.passes.rewrite.matcher import literal_equals
from ortable.passes.rewrite.rule import Match
from ortable.prelude.facts import dim_of, dtype_of, rank_of, static
from ortable.prelude.values import reshape_to

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.ir.node import Node
    from ortable.prelude.facts import Result
    from ortable.passes.rewrite.matcher import Matcher


_CAST = {'round_mode': 'up', 'saturate': 1}
_GATHER = {'axis': 0}
_MOD = {'fmod': 0}
_SCATTER_ELEMENTS = {'axis': 0, 'reduction': 'none'}


def finish_ort_expert_counts_1(m: Matcher, nodes: tuple[Node, ...], r10: Any, values: Any, ids: Any, found: Any, low: Any, lower: Any, base: Any, start: Any, high: Any, upper: Any, width: Any, last: Any, bins: Any, beyond: Any, added: Any, starts: Any, ends: Any, root: Any) -> Match | None:
    graph = m.graph
    if r10 != values:
        return None
    if not for_cpu(graph):
        m.refuse('for_cpu()')
        return None
    if not dtype_of(graph, ids) == int64:
        m.refuse('dtype_of(ids) == int64')
        return None
    if not rank_of(graph, ids) == 1:
        m.refuse('rank_of(ids) == 1')
        return None
    count = static(dim_of(graph, found, 0))
    if not count > 1:
        m.refuse('count > 1')
        return None
    if not count <= 512:
        m.refuse('count <= 512')
        return None
    if not is_filled(graph, low, 0):
        m.refuse('is_filled(low, 0)')
        return None
    if not is_filled(graph, lower, 0):
        m.refuse('is_filled(lower, 0)')
        return None
    if not is_filled(graph, base, 0):
        m.refuse('is_filled(base, 0)')
        return None
    if not is_filled(graph, start, 0):
        m.refuse('is_filled(start, 0)')
        return None
    if not is_filled(graph, high, count - 1):
        m.refuse('is_filled(high, count - 1)')
        return None
    if not is_filled(graph, upper, count - 1):
        m.refuse('is_filled(upper, count - 1)')
        return None
    if not is_filled(graph, width, count - 1):
        m.refuse('is_filled(width, count - 1)')
        return None
    if not is_filled(graph, last, count - 1):
        m.refuse('is_filled(last, count - 1)')
        return None
    if not is_filled(graph, bins, count):
        m.refuse('is_filled(bins, count)')
        return None
    if not is_filled(graph, beyond, count):
        m.refuse('is_filled(beyond, count)')
        return None
    if not is_filled(graph, added, 1):
        m.refuse('is_filled(added, 1)')
        return None
    if not is_filled(graph, starts, 0):
        m.refuse('is_filled(starts, 0)')
        return None
    if not is_filled(graph, ends, count):
        m.refuse('is_filled(ends, count)')
        return None
    return Match(nodes, (root.outputs[0],), (ids, count))


def finish_ort_expert_counts_2(m: Matcher, nodes: tuple[Node, ...], r9: Any, values: Any, ids: Any, found: Any, low: Any, lower: Any, start: Any, high: Any, upper: Any, width: Any, last: Any, bins: Any, beyond: Any, added: Any, starts: Any, ends: Any, root: Any) -> Match | None:
    n12 = m.producer(r9, 'Sub')
    if n12 is None or len(n12.inputs) != 2 or n12.attrs:
        return None
    r10, base = n12.inputs
    return finish_ort_expert_counts_1(m, (*nodes, n12), r10, values, ids, found, low, lower, base, start, high, upper, width, last, bins, beyond, added, starts, ends, root)


def finish_ort_expert_counts_3(m: Matcher, nodes: tuple[Node, ...], n11: Any, values: Any, ids: Any, found: Any, low: Any, lower: Any, start: Any, high: Any, upper: Any, width: Any, last: Any, beyond: Any, added: Any, starts: Any, ends: Any, root: Any, base: Any) -> Match | None:
    for r9, bins in m.orders(n11):
        found_ = finish_ort_expert_counts_2(m, nodes, r9, values, ids, found, low, lower, start, high, upper, width, last, bins, beyond, added, starts, ends, root)
        if found_ is not None:
            return found_
        found_ = finish_ort_expert_counts_1(m, nodes, r9, values, ids, found, low, lower, base, start, high, upper, width, last, bins, beyond, added, starts, ends, root)
        if found_ is not None:
            return found_
    return None


def match_ort_expert_counts(m: Matcher, root: Node) -> Match | None:
    """values = Cast(ids, to=float32); inside = And(GreaterOrEqual(values, low), LessOrEqual(values, high)); scaled = Div(Mul(optional(Sub(values, base)), bins), width); bin = Min(Cast(Where(inside, scaled, _), to=int64), last); again = any_of(inside, And(GreaterOrEqual(values, lower), LessOrEqual(values, upper))); place = Where(again, bin, beyond); counted = ScatterElements(start, place, added, axis=0, reduction='add'); found = Slice(counted, starts, ends, axes_); return found"""
    if len(root.inputs) != 4 or root.attrs:
        return None
    found = root.outputs[0]
    counted, starts, ends, r1 = root.inputs
    if not r1:
        return None
    n1 = m.producer(counted, 'ScatterElements')
    if n1 is None or len(n1.inputs) != 3 or not m.plain(n1, ('axis', 'reduction'), _SCATTER_ELEMENTS):
        return None
    if not literal_equals(n1.attrs.get('axis', 0), 0):
        return None
    if not literal_equals(n1.attrs.get('reduction', 'none'), 'add'):
        return None
    start, place, added = n1.inputs
    n2 = m.producer(place, 'Where')
    if n2 is None or len(n2.inputs) != 3 or n2.attrs:
        return None
    inside, bin, beyond = n2.inputs
    n3 = m.producer(inside, 'And')
    if n3 is not None and len(n3.inputs) == 2 and (not n3.attrs):
        n4 = m.producer(bin, 'Min')
        if n4 is not None and len(n4.inputs) == 2 and (not n4.attrs):
            for r2, r3 in m.orders(n3):
                n5 = m.producer(r2, 'GreaterOrEqual')
                if n5 is None or len(n5.inputs) != 2 or n5.attrs:
                    continue
                n6 = m.producer(r3, 'LessOrEqual')
                if n6 is None or len(n6.inputs) != 2 or n6.attrs:
                    continue
                values, low = n5.inputs
                n7 = m.producer(values, 'Cast')
                if n7 is None or len(n7.inputs) != 1 or not m.plain(n7, ('to',), _CAST):
                    continue
                if not literal_equals(n7.attrs.get('to'), float32):
                    continue
                ids = n7.inputs[0]
                r4, high = n6.inputs
                if r4 != values:
                    continue
                for r5, last in m.orders(n4):
                    n8 = m.producer(r5, 'Cast')
                    if n8 is None or len(n8.inputs) != 1 or not m.plain(n8, ('to',), _CAST):
                        continue
                    if not literal_equals(n8.attrs.get('to'), int64):
                        continue
                    r6 = n8.inputs[0]
                    n9 = m.producer(r6, 'Where')
                    if n9 is None or len(n9.inputs) != 3 or n9.attrs:
                        continue
                    r7, scaled, _ = n9.inputs
                    if r7 != inside:
                        continue
                    n10 = m.producer(scaled, 'Div')
                    if n10 is None or len(n10.inputs) != 2 or n10.attrs:
                        continue
                    r8, width = n10.inputs
                    n11 = m.producer(r8, 'Mul')
                    if n11 is None or len(n11.inputs) != 2 or n11.attrs:
                        continue
                    found_ = finish_ort_expert_counts_3(m, (root, n1, n2, n3, n4, n5, n6, n7, n8, n9, n10, n11), n11, values, ids, found, low, None, start, high, None, width, last, beyond, added, starts, ends, root, None)
                    if found_ is not None:
                        return found_
    again, bin, beyond = n2.inputs
    n3 = m.producer(again, 'And')
    if n3 is None or len(n3.inputs) != 2 or n3.attrs:
        return None
    n4 = m.producer(bin, 'Min')
    if n4 is None or len(n4.inputs) != 2 or n4.attrs:
        return None
    for r2, r3 in m.orders(n3):
        n5 = m.producer(r2, 'GreaterOrEqual')
        if n5 is None or len(n5.inputs) != 2 or n5.attrs:
            continue
        n6 = m.producer(r3, 'LessOrEqual')
        if n6 is None or len(n6.inputs) != 2 or n6.attrs:
            continue
        values, lower = n5.inputs
        n7 = m.producer(values, 'Cast')
        if n7 is None or len(n7.inputs) != 1 or not m.plain(n7, ('to',), _CAST):
            continue
        if not literal_equals(n7.attrs.get('to'), float32):
            continue
        ids = n7.inputs[0]
        r4, upper = n6.inputs
        if r4 != values:
            continue
        for r5, last in m.orders(n4):
            n8 = m.producer(r5, 'Cast')
            if n8 is None or len(n8.inputs) != 1 or not m.plain(n8, ('to',), _CAST):
                continue
            if not literal_equals(n8.attrs.get('to'), int64):
                continue
            r6 = n8.inputs[0]
            n9 = m.producer(r6, 'Where')
            if n9 is None or len(n9.inputs) != 3 or n9.attrs:
                continue
            inside, scaled, _ = n9.inputs
            n10 = m.producer(inside, 'And')
            if n10 is None or len(n10.inputs) != 2 or n10.attrs:
                continue
            n11 = m.producer(scaled, 'Div')
            if n11 is None or len(n11.inputs) != 2 or n11.attrs:
                continue
            r7, width = n11.inputs
            n12 = m.producer(r7, 'Mul')
            if n12 is None or len(n12.inputs) != 2 or n12.attrs:
                continue
            for r8, r9 in m.orders(n10):
                n13 = m.producer(r8, 'GreaterOrEqual')
                if n13 is None or len(n13.inputs) != 2 or n13.attrs:
                    continue
                n14 = m.producer(r9, 'LessOrEqual')
                if n14 is None or len(n14.inputs) != 2 or n14.attrs:
                    continue
                r10, low = n13.inputs
                if r10 != values:
                    continue
                r11, high = n14.inputs
                if r11 != values:
                    continue
                found_ = finish_ort_expert_counts_3(m, (root, n1, n2, n3, n4, n5, n6, n7, n8, n9, n10, n11, n12, n13, n14), n12, values, ids, found, low, lower, start, high, upper, width, last, beyond, added, starts, ends, root, None)
                if found_ is not None:
                    return found_
    return None


def make_ort_expert_counts(graph: Graph, res: ResultSpec, ids: Result, count: Any) -> Any:
    return graph.make_node('Cast', [counts_of(graph, ids, count)], res.outputs, to=float32)


def match_ort_expert_rows(m: Matcher, root: Node) -> Match | None:
    """quotient = Div(place, count); rest = Sub(place, Mul(quotient, count)); below = Not(Equal(Mod(place, count), rest)); return Sub(quotient, Cast(below, to=int64))"""
    graph = m.graph
    if len(root.inputs) != 2 or root.attrs:
        return None
    quotient, r1 = root.inputs
    n1 = m.producer(quotient, 'Div')
    if n1 is None or len(n1.inputs) != 2 or n1.attrs:
        return None
    n2 = m.producer(r1, 'Cast')
    if n2 is None or len(n2.inputs) != 1 or not m.plain(n2, ('to',), _CAST):
        return None
    if not literal_equals(n2.attrs.get('to'), int64):
        return None
    place, count = n1.inputs
    below = n2.inputs[0]
    n3 = m.producer(below, 'Not')
    if n3 is None or len(n3.inputs) != 1 or n3.attrs:
        return None
    r2 = n3.inputs[0]
    n4 = m.producer(r2, 'Equal')
    if n4 is None or len(n4.inputs) != 2 or n4.attrs:
        return None
    for r3, rest in m.orders(n4):
        n5 = m.producer(r3, 'Mod')
        if n5 is None or len(n5.inputs) != 2 or not m.plain(n5, (), _MOD):
            continue
        n6 = m.producer(rest, 'Sub')
        if n6 is None or len(n6.inputs) != 2 or n6.attrs:
            continue
        r4, r5 = n5.inputs
        if r4 != place or r5 != count:
            continue
        r6, r7 = n6.inputs
        if r6 != place:
            continue
        n7 = m.producer(r7, 'Mul')
        if n7 is None or len(n7.inputs) != 2 or n7.attrs:
            continue
        for r8, r9 in m.orders(n7):
            if r8 != quotient or r9 != count:
                continue
            if not are_nonnegative(graph, place):
                m.refuse('are_nonnegative(place)')
                continue
            if not number_of(graph, count) > 0:
                m.refuse('number_of(count) > 0')
                continue
            return Match((root, n1, n2, n3, n4, n5, n6, n7), (root.outputs[0],), (quotient,), (n1,))
    return None


def make_ort_expert_rows(graph: Graph, res: ResultSpec, quotient: Result) -> Any:
    return quotient


def match_ort_experts_of_columns(m: Matcher, root: Node) -> Match | None:
    """matrices = Gather(weight, ids, axis=0); return MatMul(matrices, columns)"""
    graph = m.graph
    if len(root.inputs) != 2 or root.attrs:
        return None
    matrices, columns = root.inputs
    n1 = m.producer(matrices, 'Gather')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1, ('axis',), _GATHER):
        return None
    if not literal_equals(n1.attrs.get('axis', 0), 0):
        return None
    weight, ids = n1.inputs
    if not for_cpu(graph):
        m.refuse('for_cpu()')
        return None
    if not are_nonnegative(graph, ids):
        m.refuse('are_nonnegative(ids)')
        return None
    if not pays_by_expert(graph, weight, ids):
        m.refuse('pays_by_expert(weight, ids)')
        return None
    if not has_shape(graph, columns, [dim_of(graph, ids, 0), dim_of(graph, weight, 2), 1]):
        m.refuse('has_shape(columns, [dim_of(ids, 0), dim_of(weight, 2), 1])')
        return None
    return Match((root, n1), (root.outputs[0],), (weight, ids, columns))


def make_ort_experts_of_columns(graph: Graph, res: ResultSpec, weight: Result, ids: Result, columns: Result) -> Any:
    rows = rows_by_expert(graph, columns, weight, ids, True)
    return reshape_to(graph, rows, [dim_of(graph, ids, 0), dim_of(graph, weight, 1), 1])


def match_ort_experts_of_rows(m: Matcher, root: Node) -> Match | None:
    """matrices = Gather(weight, ids, axis=0); return MatMul(rows, matrices)"""
    graph = m.graph
    if len(root.inputs) != 2 or root.attrs:
        return None
    rows, matrices = root.inputs
    n1 = m.producer(matrices, 'Gather')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1, ('axis',), _GATHER):
        return None
    if not literal_equals(n1.attrs.get('axis', 0), 0):
        return None
    weight, ids = n1.inputs
    if not for_cpu(graph):
        m.refuse('for_cpu()')
        return None
    if not are_nonnegative(graph, ids):
        m.refuse('are_nonnegative(ids)')
        return None
    if not pays_by_expert(graph, weight, ids):
        m.refuse('pays_by_expert(weight, ids)')
        return None
    if not has_shape(graph, rows, [dim_of(graph, ids, 0), 1, dim_of(graph, weight, 1)]):
        m.refuse('has_shape(rows, [dim_of(ids, 0), 1, dim_of(weight, 1)])')
        return None
    return Match((root, n1), (root.outputs[0],), (weight, ids, rows))


def make_ort_experts_of_rows(graph: Graph, res: ResultSpec, weight: Result, ids: Result, rows: Result) -> Any:
    found = rows_by_expert(graph, rows, weight, ids, False)
    return reshape_to(graph, found, [dim_of(graph, ids, 0), 1, dim_of(graph, weight, 2)])
