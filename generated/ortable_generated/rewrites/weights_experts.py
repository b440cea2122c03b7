# Generated from specs/rewrites/weights_experts.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.passes.rewrite.helpers.experts import can_quantize_expert, quantize_expert
from ortable.passes.rewrite.matcher import literal_equals
from ortable.passes.rewrite.rule import Match

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.ir.node import Node
    from ortable.prelude.facts import Result
    from ortable.passes.rewrite.matcher import Matcher


_GATHER = {'axis': 0}
_GEMM = {'alpha': 1.0, 'beta': 1.0, 'transA': 0, 'transB': 0}


def match_weights_of_expert(m: Matcher, root: Node) -> Match | None:
    """matrix = Gather(w, index, axis=0); return MatMul(x, matrix)"""
    graph = m.graph
    if len(root.inputs) != 2 or root.attrs:
        return None
    x, matrix = root.inputs
    n1 = m.producer(matrix, 'Gather')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1, ('axis',), _GATHER):
        return None
    if not literal_equals(n1.attrs.get('axis', 0), 0):
        return None
    w, index = n1.inputs
    if not can_quantize_expert(graph, w, index, False):
        m.refuse('can_quantize_expert(w, index, False)')
        return None
    return Match((root, n1), (root.outputs[0],), (w, index, x))


def make_weights_of_expert(graph: Graph, res: ResultSpec, w: Result, index: Result, x: Result) -> Any:
    return graph.make_node('MatMul', [x, quantize_expert(graph, w, index, False)], res.outputs)


def match_weights_of_expert_in_gemm(m: Matcher, root: Node) -> Match | None:
    """matrix = Gather(w, index, axis=0); return Gemm(x, matrix, transB=1)"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root, ('transB',), _GEMM):
        return None
    if not literal_equals(root.attrs.get('transB', 0), 1):
        return None
    x, matrix = root.inputs
    n1 = m.producer(matrix, 'Gather')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1, ('axis',), _GATHER):
        return None
    if not literal_equals(n1.attrs.get('axis', 0), 0):
        return None
    w, index = n1.inputs
    if not can_quantize_expert(graph, w, index, True):
        m.refuse('can_quantize_expert(w, index, True)')
        return None
    return Match((root, n1), (root.outputs[0],), (w, index, x))


def make_weights_of_expert_in_gemm(graph: Graph, res: ResultSpec, w: Result, index: Result, x: Result) -> Any:
    return graph.make_node('MatMul', [x, quantize_expert(graph, w, index, True)], res.outputs)


def match_weights_of_transposed_expert(m: Matcher, root: Node) -> Match | None:
    """turned = Transpose(w, perm=[0, 2, 1]); matrix = Gather(turned, index, axis=0); return MatMul(x, matrix)"""
    graph = m.graph
    if len(root.inputs) != 2 or root.attrs:
        return None
    x, matrix = root.inputs
    n1 = m.producer(matrix, 'Gather')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1, ('axis',), _GATHER):
        return None
    if not literal_equals(n1.attrs.get('axis', 0), 0):
        return None
    turned, index = n1.inputs
    n2 = m.producer(turned, 'Transpose')
    if n2 is None or len(n2.inputs) != 1 or not m.plain(n2, ('perm',)):
        return None
    if not literal_equals(n2.attrs.get('perm'), [0, 2, 1]):
        return None
    w = n2.inputs[0]
    if not can_quantize_expert(graph, w, index, True):
        m.refuse('can_quantize_expert(w, index, True)')
        return None
    return Match((root, n1, n2), (root.outputs[0],), (w, index, x), (n2,))


def make_weights_of_transposed_expert(graph: Graph, res: ResultSpec, w: Result, index: Result, x: Result) -> Any:
    return graph.make_node('MatMul', [x, quantize_expert(graph, w, index, True)], res.outputs)
