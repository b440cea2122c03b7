# Generated from specs/rewrites/ort_norm.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.dtypes import float32
from ortable.passes.rewrite.helpers.numbers import for_cpu, is_float32, number_of
from ortable.passes.rewrite.helpers.shapes import has_shape, known_rank, one_axis, same_shape
from ortable.passes.rewrite.matcher import literal_equals
from ortable.passes.rewrite.rule import Match
from ortable.prelude.facts import dim_of
from ortable.prelude.values import const

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.ir.node import Node
    from ortable.prelude.facts import Result
    from ortable.passes.rewrite.matcher import Matcher


_REDUCE_MEAN = {'keepdims': 1, 'noop_with_empty_axes': 0}


def finish_ort_rms_norm_by_division_1(m: Matcher, nodes: tuple[Node, ...], axes: Any, x: Any, small: Any, weight: Any, root: Any) -> Match | None:
    graph = m.graph
    if not for_cpu(graph):
        m.refuse('for_cpu()')
        return None
    if not one_axis(graph, axes, x) == known_rank(graph, x) - 1:
        m.refuse('one_axis(axes, x) == known_rank(x) - 1')
        return None
    epsilon = number_of(graph, small)
    if not epsilon >= 0:
        m.refuse('epsilon >= 0')
        return None
    if not has_shape(graph, weight, [dim_of(graph, x, -1)]):
        m.refuse('has_shape(weight, [dim_of(x, -1)])')
        return None
    if not is_float32(graph, x):
        m.refuse('is_float32(x)')
        return None
    return Match(nodes, (root.outputs[0],), (x, axes, small, weight))


def match_ort_rms_norm_by_division(m: Matcher, root: Node) -> Match | None:
    """mean = ReduceMean(any_of(Mul(x, x), Pow(x, 2)), axes, keepdims=1); normal = Mul(x, Reciprocal(Sqrt(Add(mean, small)))); return Mul(normal, weight)"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    for normal, weight in m.orders(root):
        n1 = m.producer(normal, 'Mul')
        if n1 is None or len(n1.inputs) != 2 or n1.attrs:
            continue
        for x, r1 in m.orders(n1):
            n2 = m.producer(r1, 'Reciprocal')
            if n2 is None or len(n2.inputs) != 1 or n2.attrs:
                continue
            r2 = n2.inputs[0]
            n3 = m.producer(r2, 'Sqrt')
            if n3 is None or len(n3.inputs) != 1 or n3.attrs:
                continue
            r3 = n3.inputs[0]
            n4 = m.producer(r3, 'Add')
            if n4 is None or len(n4.inputs) != 2 or n4.attrs:
                continue
            for mean, small in m.orders(n4):
                n5 = m.producer(mean, 'ReduceMean')
                if n5 is None or len(n5.inputs) != 2 or not m.plain(n5, ('keepdims',), _REDUCE_MEAN):
                    continue
                if not literal_equals(n5.attrs.get('keepdims', 1), 1):
                    continue
                r4, axes = n5.inputs
                if not axes:
                    continue
                n6 = m.producer(r4, 'Mul')
                if n6 is not None and len(n6.inputs) == 2 and (not n6.attrs):
                    for r5, r6 in m.orders(n6):
                        if r5 != x or r6 != x:
                            continue
                        found = finish_ort_rms_norm_by_division_1(m, (root, n1, n2, n3, n4, n5, n6), axes, x, small, weight, root)
                        if found is not None:
                            return found
                n6 = m.producer(r4, 'Pow')
                if n6 is None or len(n6.inputs) != 2 or n6.attrs:
                    continue
                r5, r6 = n6.inputs
                if r5 != x or not m.number(r6, 2):
                    continue
                found = finish_ort_rms_norm_by_division_1(m, (root, n1, n2, n3, n4, n5, n6), axes, x, small, weight, root)
                if found is not None:
                    return found
    return None


def make_ort_rms_norm_by_division(graph: Graph, res: ResultSpec, x: Result, axes: Result, small: Result, weight: Result) -> Any:
    mean = graph.make_node('ReduceMean', [graph.make_node('Pow', [x, const(graph, 2, float32)]), axes], keepdims=1)
    return graph.make_node('Mul', [graph.make_node('Div', [x, graph.make_node('Sqrt', [graph.make_node('Add', [mean, small])])]), weight], res.outputs)


def match_ort_sum_before_layer_norm(m: Matcher, root: Node) -> Match | None:
    """total = Add(a, b); return LayerNormalization(total, weight, maybe(bias), attrs=kept)"""
    graph = m.graph
    if not 2 <= len(root.inputs) <= 3:
        return None
    kept = dict(root.attrs)
    total, weight = root.inputs[:2]
    bias = root.inputs[2] or None if len(root.inputs) > 2 else None
    n1 = m.producer(total, 'Add')
    if n1 is None or len(n1.inputs) != 2 or n1.attrs:
        return None
    for a, b in m.orders(n1):
        if not for_cpu(graph):
            m.refuse('for_cpu()')
            continue
        if not is_float32(graph, a):
            m.refuse('is_float32(a)')
            continue
        if not same_shape(graph, a, b):
            m.refuse('same_shape(a, b)')
            continue
        return Match((root, n1), (root.outputs[0],), (a, b, weight, bias, kept))
    return None


def make_ort_sum_before_layer_norm(graph: Graph, res: ResultSpec, a: Result, b: Result, weight: Result, bias: Result | None, kept: Any) -> Any:
    return graph.make_node('LayerNormalization', [graph.make_node('Sum', [a, b]), weight, bias], res.outputs, **kept)
