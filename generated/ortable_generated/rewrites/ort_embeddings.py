# Generated from specs/rewrites/ort_embeddings.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.passes.rewrite.helpers.numbers import for_cpu
from ortable.passes.rewrite.helpers.quantized_weights import bits_rows, can_quantize_weight, packed_weight_of, quantize_weight
from ortable.passes.rewrite.matcher import literal_equals
from ortable.passes.rewrite.rule import Match

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.ir.node import Node
    from ortable.prelude.facts import Result
    from ortable.passes.rewrite.matcher import Matcher


_DEQUANTIZE_LINEAR = {'axis': 1, 'block_size': 0, 'output_dtype': 0}
_GATHER = {'axis': 0}


def match_ort_bits_embedding(m: Matcher, root: Node) -> Match | None:
    """table = DequantizeLinear(codes, scales, maybe(zeros), axis=axis, block_size=size); return Gather(table, indices, axis=0)"""
    graph = m.graph
    if len(root.inputs) != 2 or not m.plain(root, ('axis',), _GATHER):
        return None
    if not literal_equals(root.attrs.get('axis', 0), 0):
        return None
    table, indices = root.inputs
    n1 = m.producer(table, 'DequantizeLinear')
    if n1 is None or not 2 <= len(n1.inputs) <= 3 or not m.plain(n1, ('axis', 'block_size'), _DEQUANTIZE_LINEAR):
        return None
    axis = n1.attrs.get('axis', 1)
    size = n1.attrs.get('block_size', 0)
    codes, scales = n1.inputs[:2]
    zeros = n1.inputs[2] or None if len(n1.inputs) > 2 else None
    if not for_cpu(graph):
        m.refuse('for_cpu()')
        return None
    weight = packed_weight_of(graph, codes, scales, zeros, axis, size, True, whole=True)
    if not weight is not None:
        m.refuse('weight is not None')
        return None
    return Match((root, n1), (root.outputs[0],), (indices, weight), (n1,))


def make_ort_bits_embedding(graph: Graph, res: ResultSpec, indices: Result, weight: Any) -> Any:
    return bits_rows(graph, weight, indices)


def match_ort_weights_of_gather(m: Matcher, root: Node) -> Match | None:
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
    if not can_quantize_weight(graph, w, True, table=True):
        m.refuse('can_quantize_weight(w, True, table=True)')
        return None
    return Match((root,), (root.outputs[0],), (w, indices))


def make_ort_weights_of_gather(graph: Graph, res: ResultSpec, w: Result, indices: Result) -> Any:
    return graph.make_node('Gather', [quantize_weight(graph, w, True, axis=1), indices], res.outputs, axis=0)
