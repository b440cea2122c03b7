# Generated from specs/rewrites/ort_weights.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.passes.rewrite.helpers.numbers import for_cpu, is_float32
from ortable.passes.rewrite.helpers.quantized_weights import bits_product, packed_weight_of
from ortable.passes.rewrite.helpers.shapes import has_shape
from ortable.passes.rewrite.matcher import literal_equals
from ortable.passes.rewrite.rule import Match
from ortable.prelude.facts import dim_of

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.ir.node import Node
    from ortable.prelude.facts import Result
    from ortable.passes.rewrite.matcher import Matcher


_DEQUANTIZE_LINEAR = {'axis': 1, 'block_size': 0, 'output_dtype': 0}
_GEMM = {'alpha': 1.0, 'beta': 1.0, 'transA': 0, 'transB': 0}


def match_ort_bits_bias(m: Matcher, root: Node) -> Match | None:
    """product = ms.MatMulNBits(x, codes, scales, maybe(zeros), attrs=kept); return Add(product, bias)"""
    graph = m.graph
    if len(root.inputs) != 2 or root.attrs:
        return None
    for product, bias in m.orders(root):
        n1 = m.producer(product, 'com.microsoft::MatMulNBits')
        if n1 is None or not 3 <= len(n1.inputs) <= 4:
            continue
        kept = dict(n1.attrs)
        x, codes, scales = n1.inputs[:3]
        zeros = n1.inputs[3] or None if len(n1.inputs) > 3 else None
        if not for_cpu(graph):
            m.refuse('for_cpu()')
            continue
        bias_fits = is_float32(graph, bias) and has_shape(graph, bias, [dim_of(graph, codes, 0)])
        if not bias_fits:
            m.refuse('bias_fits')
            continue
        return Match((root, n1), (root.outputs[0],), (x, codes, scales, zeros, bias, kept))
    return None


def make_ort_bits_bias(graph: Graph, res: ResultSpec, x: Result, codes: Result, scales: Result, zeros: Result | None, bias: Result, kept: Any) -> Any:
    return graph.make_node('MatMulNBits', [x, codes, scales, zeros, None, bias], res.outputs, domain='com.microsoft', **kept)


def match_ort_bits_gemm(m: Matcher, root: Node) -> Match | None:
    """kernel = DequantizeLinear(codes, scales, maybe(zeros), axis=axis, block_size=size); return Gemm(x, kernel, maybe(bias), transB=transposed)"""
    graph = m.graph
    if not 2 <= len(root.inputs) <= 3 or not m.plain(root, ('transB',), _GEMM):
        return None
    transposed = root.attrs.get('transB', 0)
    x, kernel = root.inputs[:2]
    bias = root.inputs[2] or None if len(root.inputs) > 2 else None
    n1 = m.producer(kernel, 'DequantizeLinear')
    if n1 is None or not 2 <= len(n1.inputs) <= 3 or not m.plain(n1, ('axis', 'block_size'), _DEQUANTIZE_LINEAR):
        return None
    axis = n1.attrs.get('axis', 1)
    size = n1.attrs.get('block_size', 0)
    codes, scales = n1.inputs[:2]
    zeros = n1.inputs[2] or None if len(n1.inputs) > 2 else None
    if not for_cpu(graph):
        m.refuse('for_cpu()')
        return None
    if not is_float32(graph, x):
        m.refuse('is_float32(x)')
        return None
    weight = packed_weight_of(graph, codes, scales, zeros, axis, size, transposed == 1)
    if not weight is not None:
        m.refuse('weight is not None')
        return None
    is_row = bias is not None and has_shape(graph, bias, [dim_of(graph, codes, 0 if transposed == 1 else 1)])
    return Match((root, n1), (root.outputs[0],), (x, bias, weight, is_row), (n1,))


def make_ort_bits_gemm(graph: Graph, res: ResultSpec, x: Result, bias: Result | None, weight: Any, is_row: Any) -> Any:
    rows = bits_product(graph, x, weight, bias if is_row else None)
    return rows if bias is None or is_row else graph.make_node('Add', [rows, bias], res.outputs)


def match_ort_bits_matmul(m: Matcher, root: Node) -> Match | None:
    """kernel = DequantizeLinear(codes, scales, maybe(zeros), axis=axis, block_size=size); return MatMul(x, kernel)"""
    graph = m.graph
    if len(root.inputs) != 2 or root.attrs:
        return None
    x, kernel = root.inputs
    n1 = m.producer(kernel, 'DequantizeLinear')
    if n1 is None or not 2 <= len(n1.inputs) <= 3 or not m.plain(n1, ('axis', 'block_size'), _DEQUANTIZE_LINEAR):
        return None
    axis = n1.attrs.get('axis', 1)
    size = n1.attrs.get('block_size', 0)
    codes, scales = n1.inputs[:2]
    zeros = n1.inputs[2] or None if len(n1.inputs) > 2 else None
    if not for_cpu(graph):
        m.refuse('for_cpu()')
        return None
    if not is_float32(graph, x):
        m.refuse('is_float32(x)')
        return None
    weight = packed_weight_of(graph, codes, scales, zeros, axis, size, False)
    if not weight is not None:
        m.refuse('weight is not None')
        return None
    return Match((root, n1), (root.outputs[0],), (x, weight), (n1,))


def make_ort_bits_matmul(graph: Graph, res: ResultSpec, x: Result, weight: Any) -> Any:
    return bits_product(graph, x, weight)


def match_ort_bits_transposed_matmul(m: Matcher, root: Node) -> Match | None:
    """kernel = DequantizeLinear(codes, scales, maybe(zeros), axis=axis, block_size=size); transposed = Transpose(kernel, perm=[1, 0]); return MatMul(x, transposed)"""
    graph = m.graph
    if len(root.inputs) != 2 or root.attrs:
        return None
    x, transposed = root.inputs
    n1 = m.producer(transposed, 'Transpose')
    if n1 is None or len(n1.inputs) != 1 or not m.plain(n1, ('perm',)):
        return None
    if not literal_equals(n1.attrs.get('perm'), [1, 0]):
        return None
    kernel = n1.inputs[0]
    n2 = m.producer(kernel, 'DequantizeLinear')
    if n2 is None or not 2 <= len(n2.inputs) <= 3 or not m.plain(n2, ('axis', 'block_size'), _DEQUANTIZE_LINEAR):
        return None
    axis = n2.attrs.get('axis', 1)
    size = n2.attrs.get('block_size', 0)
    codes, scales = n2.inputs[:2]
    zeros = n2.inputs[2] or None if len(n2.inputs) > 2 else None
    if not for_cpu(graph):
        m.refuse('for_cpu()')
        return None
    if not is_float32(graph, x):
        m.refuse('is_float32(x)')
        return None
    weight = packed_weight_of(graph, codes, scales, zeros, axis, size, True)
    if not weight is not None:
        m.refuse('weight is not None')
        return None
    return Match((root, n1, n2), (root.outputs[0],), (x, weight), (n2, n1))


def make_ort_bits_transposed_matmul(graph: Graph, res: ResultSpec, x: Result, weight: Any) -> Any:
    return bits_product(graph, x, weight)
