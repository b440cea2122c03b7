# Generated from specs/rewrites/ort_half_products.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.passes.rewrite.helpers.half_weights import is_stored_half_matrix
from ortable.passes.rewrite.helpers.numbers import for_cpu
from ortable.passes.rewrite.matcher import literal_equals
from ortable.passes.rewrite.rule import Match
from ortable.prelude.facts import dtype_of

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.ir.node import Node
    from ortable.prelude.facts import Result
    from ortable.passes.rewrite.matcher import Matcher


_GEMM = {'alpha': 1.0, 'beta': 1.0, 'transA': 0, 'transB': 0}


def match_ort_half_gemm(m: Matcher, root: Node) -> Match | None:
    """return Gemm(x, w, maybe(bias), transB=transposed)"""
    graph = m.graph
    if not 2 <= len(root.inputs) <= 3 or not m.plain(root, ('transB',), _GEMM):
        return None
    transposed = root.attrs.get('transB', 0)
    x, w = root.inputs[:2]
    bias = root.inputs[2] or None if len(root.inputs) > 2 else None
    if not for_cpu(graph):
        m.refuse('for_cpu()')
        return None
    if not is_stored_half_matrix(graph, w):
        m.refuse('is_stored_half_matrix(w)')
        return None
    return Match((root,), (root.outputs[0],), (x, w, bias, transposed))


def make_ort_half_gemm(graph: Graph, res: ResultSpec, x: Result, w: Result, bias: Result | None, transposed: Any) -> Any:
    kernel = graph.make_node('Cast', [w], to=1)
    wide = graph.make_node('Cast', [x], to=1)
    whole = graph.make_node('Gemm', [wide, kernel], transB=transposed) if bias is None else graph.make_node('Gemm', [wide, kernel, graph.make_node('Cast', [bias], to=1)], transB=transposed)
    return graph.make_node('Cast', [whole], res.outputs, to=dtype_of(graph, x))


def match_ort_half_matmul(m: Matcher, root: Node) -> Match | None:
    """return MatMul(x, w)"""
    graph = m.graph
    if len(root.inputs) != 2 or root.attrs:
        return None
    x, w = root.inputs
    if not for_cpu(graph):
        m.refuse('for_cpu()')
        return None
    if not is_stored_half_matrix(graph, w):
        m.refuse('is_stored_half_matrix(w)')
        return None
    return Match((root,), (root.outputs[0],), (x, w))


def make_ort_half_matmul(graph: Graph, res: ResultSpec, x: Result, w: Result) -> Any:
    return graph.make_node('Cast', [graph.make_node('MatMul', [graph.make_node('Cast', [x], to=1), graph.make_node('Cast', [w], to=1)])], res.outputs, to=dtype_of(graph, x))


def match_ort_half_transposed_matmul(m: Matcher, root: Node) -> Match | None:
    """kernel = Transpose(w, perm=[1, 0]); return MatMul(x, kernel)"""
    graph = m.graph
    if len(root.inputs) != 2 or root.attrs:
        return None
    x, kernel = root.inputs
    n1 = m.producer(kernel, 'Transpose')
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
    return Match((root, n1), (root.outputs[0],), (w, x), (n1,))


def make_ort_half_transposed_matmul(graph: Graph, res: ResultSpec, w: Result, x: Result) -> Any:
    wide = graph.make_node('Transpose', [graph.make_node('Cast', [w], to=1)], perm=[1, 0])
    return graph.make_node('Cast', [graph.make_node('MatMul', [graph.make_node('Cast', [x], to=1), wide])], res.outputs, to=dtype_of(graph, x))
