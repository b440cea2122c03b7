# Generated from specs/rewrites/weights_half.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.passes.rewrite.helpers.quantized_weights import can_quantize_weight, quantize_weight
from ortable.passes.rewrite.matcher import literal_equals
from ortable.passes.rewrite.rule import Match
from ortable.prelude.facts import dtype_of

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.ir.node import Node
    from ortable.prelude.facts import Result
    from ortable.passes.rewrite.matcher import Matcher


_CAST = {'round_mode': 'up', 'saturate': 1}
_GEMM = {'alpha': 1.0, 'beta': 1.0, 'transA': 0, 'transB': 0}


def match_half_weights_of_gemm(m: Matcher, root: Node) -> Match | None:
    """kernel = Cast(w, to=1); return Gemm(x, kernel, maybe(bias), transB=transposed)"""
    graph = m.graph
    if not 2 <= len(root.inputs) <= 3 or not m.plain(root, ('transB',), _GEMM):
        return None
    transposed = root.attrs.get('transB', 0)
    x, kernel = root.inputs[:2]
    bias = root.inputs[2] or None if len(root.inputs) > 2 else None
    n1 = m.producer(kernel, 'Cast')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('to',), _CAST):
        return None
    if not literal_equals(n1.attrs.get('to'), 1):
        return None
    w = n1.inputs[0]
    if not can_quantize_weight(graph, w, transposed == 1, half=True):
        m.refuse('can_quantize_weight(w, transposed == 1, half=True)')
        return None
    return Match((root, n1), (root.outputs[0],), (w, x, bias, transposed), (n1,))


def make_half_weights_of_gemm(graph: Graph, res: ResultSpec, w: Result, x: Result, bias: Result | None, transposed: Any) -> Any:
    rows = graph.make_node('MatMul', [x, quantize_weight(graph, w, transposed == 1)])
    return rows if bias is None else graph.make_node('Add', [rows, bias], res.outputs)


def match_half_weights_of_gemm_in_half(m: Matcher, root: Node) -> Match | None:
    """return Gemm(x, w, maybe(bias), transB=transposed)"""
    graph = m.graph
    if not 2 <= len(root.inputs) <= 3 or not m.plain(root, ('transB',), _GEMM):
        return None
    transposed = root.attrs.get('transB', 0)
    x, w = root.inputs[:2]
    bias = root.inputs[2] or None if len(root.inputs) > 2 else None
    if not can_quantize_weight(graph, w, transposed == 1, half=True):
        m.refuse('can_quantize_weight(w, transposed == 1, half=True)')
        return None
    return Match((root,), (root.outputs[0],), (x, w, bias, transposed))


def make_half_weights_of_gemm_in_half(graph: Graph, res: ResultSpec, x: Result, w: Result, bias: Result | None, transposed: Any) -> Any:
    rows = graph.make_node('MatMul', [graph.make_node('Cast', [x], to=1), quantize_weight(graph, w, transposed == 1)])
    whole = rows if bias is None else graph.make_node('Add', [rows, graph.make_node('Cast', [bias], to=1)])
    return graph.make_node('Cast', [whole], res.outputs, to=dtype_of(graph, x))


def match_half_weights_of_matmul(m: Matcher, root: Node) -> Match | None:
    """kernel = Cast(w, to=1); return MatMul(x, kernel)"""
    graph = m.graph
    if len(root.inputs) != 2 or root.attrs:
        return None
    x, kernel = root.inputs
    n1 = m.producer(kernel, 'Cast')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('to',), _CAST):
        return None
    if not literal_equals(n1.attrs.get('to'), 1):
        return None
    w = n1.inputs[0]
    if not can_quantize_weight(graph, w, False, half=True):
        m.refuse('can_quantize_weight(w, False, half=True)')
        return None
    return Match((root, n1), (root.outputs[0],), (w, x), (n1,))


def make_half_weights_of_matmul(graph: Graph, res: ResultSpec, w: Result, x: Result) -> Any:
    return graph.make_node('MatMul', [x, quantize_weight(graph, w, False)], res.outputs)


def match_half_weights_of_matmul_in_half(m: Matcher, root: Node) -> Match | None:
    """return MatMul(x, w)"""
    graph = m.graph
    if len(root.inputs) != 2 or root.attrs:
        return None
    x, w = root.inputs
    if not can_quantize_weight(graph, w, False, half=True):
        m.refuse('can_quantize_weight(w, False, half=True)')
        return None
    return Match((root,), (root.outputs[0],), (x, w))


def make_half_weights_of_matmul_in_half(graph: Graph, res: ResultSpec, x: Result, w: Result) -> Any:
    return graph.make_node('Cast', [graph.make_node('MatMul', [graph.make_node('Cast', [x], to=1), quantize_weight(graph, w, False)])], res.outputs, to=dtype_of(graph, x))


def finish_half_weights_of_transposed_matmul_1(m: Matcher, nodes: tuple[Node, ...], n2: Any, root: Any, x: Any, n1: Any) -> Match | None:
    graph = m.graph
    w = n2.inputs[0]
    if not can_quantize_weight(graph, w, True, half=True):
        m.refuse('can_quantize_weight(w, True, half=True)')
        return None
    return Match(nodes, (root.outputs[0],), (w, x), (n1,))


def match_half_weights_of_transposed_matmul(m: Matcher, root: Node) -> Match | None:
    """kernel = any_of(Cast(Transpose(w, perm=[1, 0]), to=1), Transpose(Cast(w, to=1), perm=[1, 0])); return MatMul(x, kernel)"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    x, kernel = root.inputs
    n1 = m.producer(kernel, 'Cast')
    if n1 is not None and len(n1.inputs) == 1 and m.plain(n1, ('to',), _CAST):
        if literal_equals(n1.attrs.get('to'), 1):
            r1 = n1.inputs[0]
            n2 = m.producer(r1, 'Transpose')
            if n2 is not None and len(n2.inputs) == 1 and m.plain(n2, ('perm',)):
                if literal_equals(n2.attrs.get('perm'), [1, 0]):
                    found = finish_half_weights_of_transposed_matmul_1(m, (root, n1, n2), n2, root, x, n1)
                    if found is not None:
                        return found
    n1 = m.producer(kernel, 'Transpose')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('perm',)):
        return None
    if not literal_equals(n1.attrs.get('perm'), [1, 0]):
        return None
    r1 = n1.inputs[0]
    n2 = m.producer(r1, 'Cast')
    if n2 is None or len(n2.inputs) != 1 or not m.plain(n2, ('to',), _CAST):
        return None
    if not literal_equals(n2.attrs.get('to'), 1):
        return None
    return finish_half_weights_of_transposed_matmul_1(m, (root, n1, n2), n2, root, x, n1)


def make_half_weights_of_transposed_matmul(graph: Graph, res: ResultSpec, w: Result, x: Result) -> Any:
    return graph.make_node('MatMul', [x, quantize_weight(graph, w, True)], res.outputs)


def match_half_weights_of_transposed_matmul_in_half(m: Matcher, root: Node) -> Match | None:
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
    if not can_quantize_weight(graph, w, True, half=True):
        m.refuse('can_quantize_weight(w, True, half=True)')
        return None
    return Match((root, n1), (root.outputs[0],), (w, x), (n1,))


def make_half_weights_of_transposed_matmul_in_half(graph: Graph, res: ResultSpec, w: Result, x: Result) -> Any:
    return graph.make_node('Cast', [graph.make_node('MatMul', [graph.make_node('Cast', [x], to=1), quantize_weight(graph, w, True)])], res.outputs, to=dtype_of(graph, x))
