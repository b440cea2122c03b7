# Generated from specs/rewrites/ort_codes.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.passes.rewrite.helpers.numbers import for_cpu, is_float32
from ortable.passes.rewrite.helpers.prequantized import make_dequantize, quantized_weight_of, scaled_codes, with_shifts
from ortable.passes.rewrite.matcher import literal_equals
from ortable.passes.rewrite.rule import Match
from ortable.prelude.facts import rank_of

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.ir.node import Node
    from ortable.prelude.facts import Result
    from ortable.passes.rewrite.matcher import Matcher


_GATHER = {'axis': 0}
_GEMM = {'alpha': 1.0, 'beta': 1.0, 'transA': 0, 'transB': 0}
_RESHAPE = {'allowzero': 0}


def match_ort_codes_of_gather(m: Matcher, root: Node) -> Match | None:
    """return Gather(w, indices, axis=0)"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root, ('axis',), _GATHER):
        return None
    if not literal_equals(root.attrs.get('axis', 0), 0):
        return None
    w, indices = root.inputs
    if not for_cpu(graph):
        m.refuse('for_cpu()')
        return None
    weight = quantized_weight_of(graph, w, True, table=True)
    if not weight is not None:
        m.refuse('weight is not None')
        return None
    return Match((root,), (root.outputs[0],), (indices, weight))


def make_ort_codes_of_gather(graph: Graph, res: ResultSpec, indices: Result, weight: Any) -> Any:
    return graph.make_node('Gather', [make_dequantize(graph, weight), indices], res.outputs, axis=0)


def match_ort_codes_of_gemm(m: Matcher, root: Node) -> Match | None:
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
    if not is_float32(graph, x):
        m.refuse('is_float32(x)')
        return None
    weight = quantized_weight_of(graph, w, transposed == 1)
    if not weight is not None:
        m.refuse('weight is not None')
        return None
    return Match((root,), (root.outputs[0],), (x, bias, weight))


def make_ort_codes_of_gemm(graph: Graph, res: ResultSpec, x: Result, bias: Result | None, weight: Any) -> Any:
    return with_shifts(graph, graph.make_node('Gemm', [x, make_dequantize(graph, weight), bias], transB=1), x, weight)


def match_ort_codes_of_matmul(m: Matcher, root: Node) -> Match | None:
    """return MatMul(x, w)"""
    graph = m.graph
    if len(root.inputs) != 2 or root.attrs:
        return None
    x, w = root.inputs
    if not for_cpu(graph):
        m.refuse('for_cpu()')
        return None
    if not is_float32(graph, x):
        m.refuse('is_float32(x)')
        return None
    if not rank_of(graph, x) >= 2:
        m.refuse('rank_of(x) >= 2')
        return None
    weight = quantized_weight_of(graph, w, False)
    if not weight is not None:
        m.refuse('weight is not None')
        return None
    return Match((root,), (root.outputs[0],), (x, weight))


def make_ort_codes_of_matmul(graph: Graph, res: ResultSpec, x: Result, weight: Any) -> Any:
    return with_shifts(graph, graph.make_node('MatMul', [x, graph.make_node('Transpose', [make_dequantize(graph, weight)], perm=[1, 0])]), x, weight)


def finish_ort_codes_scaled_1(m: Matcher, nodes: tuple[Node, ...], product: Any, scales: Any, rows: Any, root: Any, shape: Any) -> Match | None:
    graph = m.graph
    n2 = m.producer(product, 'MatMul')
    if n2 is None or len(n2.inputs) != 2 or n2.attrs:
        return None
    x, w = n2.inputs
    if not for_cpu(graph):
        m.refuse('for_cpu()')
        return None
    if not is_float32(graph, x):
        m.refuse('is_float32(x)')
        return None
    if not rank_of(graph, x) >= 2:
        m.refuse('rank_of(x) >= 2')
        return None
    weight = scaled_codes(graph, w, scales, rows)
    if not weight is not None:
        m.refuse('weight is not None')
        return None
    return Match((*nodes, n2), (root.outputs[0],), (x, shape, weight))


def match_ort_codes_scaled(m: Matcher, root: Node) -> Match | None:
    """product = MatMul(x, w); rows = optional(Reshape(product, shape)); return Mul(rows, scales)"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    for rows, scales in m.orders(root):
        n1 = m.producer(rows, 'Reshape')
        if n1 is None or len(n1.inputs) != 2 or not m.plain(n1, (), _RESHAPE):
            continue
        product, shape = n1.inputs
        found = finish_ort_codes_scaled_1(m, (root, n1), product, scales, rows, root, shape)
        if found is not None:
            return found
    for product, scales in m.orders(root):
        rows = product
        found = finish_ort_codes_scaled_1(m, (root,), product, scales, rows, root, None)
        if found is not None:
            return found
    return None


def make_ort_codes_scaled(graph: Graph, res: ResultSpec, x: Result, shape: Result | None, weight: Any) -> Any:
    whole = graph.make_node('MatMul', [x, graph.make_node('Transpose', [make_dequantize(graph, weight)], perm=[1, 0])])
    return whole if shape is None else graph.make_node('Reshape', [whole, shape], res.outputs)
