# Generated from specs/rewrites/ort_half.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.passes.rewrite.helpers.half_weights import float32_weight, is_half_weight, is_stored_half_matrix
from ortable.passes.rewrite.helpers.numbers import for_cpu
from ortable.passes.rewrite.matcher import literal_equals
from ortable.passes.rewrite.rule import Match

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.ir.node import Node
    from ortable.prelude.facts import Result
    from ortable.passes.rewrite.matcher import Matcher


_CAST = {'round_mode': 'up', 'saturate': 1}


def match_half_weight_as_float32(m: Matcher, root: Node) -> Match | None:
    """return Cast(w, to=1)"""
    graph = m.graph
    if len(root.inputs) != 1 or not m.plain(root, ('to',), _CAST):
        return None
    if not literal_equals(root.attrs.get('to'), 1):
        return None
    w = root.inputs[0]
    if not is_half_weight(graph, w):
        m.refuse('is_half_weight(w)')
        return None
    return Match((root,), (root.outputs[0],), (w,))


def make_half_weight_as_float32(graph: Graph, res: ResultSpec, w: Result) -> Any:
    return float32_weight(graph, w)


def match_ort_half_cast_first(m: Matcher, root: Node) -> Match | None:
    """transposed = Transpose(w, perm=[1, 0]); return Cast(transposed, to=1)"""
    graph = m.graph
    if len(root.inputs) != 1 or not m.plain(root, ('to',), _CAST):
        return None
    if not literal_equals(root.attrs.get('to'), 1):
        return None
    transposed = root.inputs[0]
    n1 = m.producer(transposed, 'Transpose')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('perm',)):
        return None
    if not literal_equals(n1.attrs.get('perm'), [1, 0]):
        return None
    w = n1.inputs[0]
    if not for_cpu(graph):
        m.refuse('for_cpu()')
        return None
    if not is_stored_half_matrix(graph, w):
        m.refuse('is_stored_half_matrix(w)')
        return None
    return Match((root, n1), (root.outputs[0],), (w,), (n1,))


def make_ort_half_cast_first(graph: Graph, res: ResultSpec, w: Result) -> Any:
    return graph.make_node('Transpose', [graph.make_node('Cast', [w], to=1)], res.outputs, perm=[1, 0])
