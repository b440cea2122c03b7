# Generated from specs/rewrites/weights.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.passes.rewrite.helpers.quantized_weights import can_quantize_weight, quantize_weight
from ortable.passes.rewrite.matcher import literal_equals
from ortable.passes.rewrite.rule import Match

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.ir.node import Node
    from ortable.prelude.facts import Result
    from ortable.passes.rewrite.matcher import Matcher


_GEMM = {'alpha': 1.0, 'beta': 1.0, 'transA': 0, 'transB': 0}


def match_weights_of_gemm(m: Matcher, root: Node) -> Match | None:
    """return Gemm(x, w, maybe(bias), transB=transposed)"""
    graph = m.graph
    if not 2 <= len(root.inputs) <= 3 or not m.plain(root, ('transB',), _GEMM):
        return None
    transposed = root.attrs.get('transB', 0)
    x, w = root.inputs[:2]
    bias = root.inputs[2] or None if len(root.inputs) > 2 else None
    if not can_quantize_weight(graph, w, transposed == 1):
        m.refuse('can_quantize_weight(w, transposed == 1)')
        return None
    return Match((root,), (root.outputs[0],), (x, w, bias, transposed))


def make_weights_of_gemm(graph: Graph, res: ResultSpec, x: Result, w: Result, bias: Result | None, transposed: Any) -> Any:
    rows = graph.make_node('MatMul', [x, quantize_weight(graph, w, transposed == 1)])
    return rows if bias is None else graph.make_node('Add', [rows, bias], res.outputs)


def match_weights_of_matmul(m: Matcher, root: Node) -> Match | None:
    """return MatMul(x, w)"""
    graph = m.graph
    if len(root.inputs) != 2 or root.attrs:
        return None
    x, w = root.inputs
    if not can_quantize_weight(graph, w, False):
        m.refuse('can_quantize_weight(w, False)')
        return None
    return Match((root,), (root.outputs[0],), (x, w))


def make_weights_of_matmul(graph: Graph, res: ResultSpec, x: Result, w: Result) -> Any:
    return graph.make_node('MatMul', [x, quantize_weight(graph, w, False)], res.outputs)


def match_weights_of_transposed_matmul(m: Matcher, root: Node) -> Match | None:
    """transposed = Transpose(w, perm=[1, 0]); return MatMul(x, transposed)"""
    graph = m.graph
    if len(root.inputs) != 2 or root.attrs:
        return None
    x, transposed = root.inputs
    n1 = m.producer(transposed, 'Transpose')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('perm',)):
        return None
    if not literal_equals(n1.attrs.get('perm'), [1, 0]):
        return None
    w = n1.inputs[0]
    if not can_quantize_weight(graph, w, True):
        m.refuse('can_quantize_weight(w, True)')
        return None
    return Match((root, n1), (root.outputs[0],), (w, x), (n1,))


def make_weights_of_transposed_matmul(graph: Graph, res: ResultSpec, w: Result, x: Result) -> Any:
    return graph.make_node('MatMul', [x, quantize_weight(graph, w, True)], res.outputs)
