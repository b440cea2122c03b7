# Generated from specs/rewrites/ort_norm.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.rewrite.rule import Match, Rule
from ortable.rewrite.words import for_cpu, is_float32, same_shape

if TYPE_CHECKING:
    from ortable.builder import GraphBuilder, Res
    from ortable.builder.node import Node
    from ortable.prelude import Result
    from ortable.rewrite.matcher import Matcher


def match_sum_before_layer_norm(m: Matcher, root: Node) -> Match | None:
    """total = Add(a, b); return LayerNormalization(total, weight, maybe(bias), attrs=kept)"""
    graph = m.graph
    if not 2 <= len(root.inputs) <= 3:
        return None
    kept = dict(root.attrs)
    total, weight = root.inputs[:2]
    bias = root.inputs[2] or None if len(root.inputs) > 2 else None
    n1 = m.producer(total, 'Add')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1):
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


def make_sum_before_layer_norm(graph: GraphBuilder, res: Res, a: Result, b: Result, weight: Result, bias: Result | None, kept: Any) -> Any:
    return graph.make_node('LayerNormalization', [graph.make_node('Sum', [a, b]), weight, bias], res.outputs, **kept)


RULES: tuple[Rule, ...] = (
    Rule(
        name='sum_before_layer_norm',
        file='specs/rewrites/ort_norm.yaml',
        stage='runtime',
        root='LayerNormalization',
        child='Add',
        size=2,
        match=match_sum_before_layer_norm,
        make=make_sum_before_layer_norm,
        target='onnxruntime',
        why='ONNX Runtime makes SkipLayerNormalization of Add and LayerNormalization, six times as slow on the CPU; Sum of two adds the same way, and it leaves that alone',
    ),
)
