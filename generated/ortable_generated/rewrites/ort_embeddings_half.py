# Generated from specs/rewrites/ort_embeddings_half.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.passes.rewrite.helpers.numbers import for_cpu
from ortable.passes.rewrite.helpers.quantized_weights import can_quantize_weight, quantize_weight
from ortable.passes.rewrite.matcher import literal_equals
from ortable.passes.rewrite.rule import Match
from ortable.prelude.facts import dtype_of

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.ir.node import Node
    from ortable.prelude.facts import Result
    from ortable.passes.rewrite.matcher import Matcher


_GATHER = {'axis': 0}


def match_ort_half_weights_of_gather(m: Matcher, root: Node) -> Match | None:
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
    if not can_quantize_weight(graph, w, True, half=True, table=True):
        m.refuse('can_quantize_weight(w, True, half=True, table=True)')
        return None
    return Match((root,), (root.outputs[0],), (w, indices))


def make_ort_half_weights_of_gather(graph: Graph, res: ResultSpec, w: Result, indices: Result) -> Any:
    return graph.make_node('Cast', [graph.make_node('Gather', [quantize_weight(graph, w, True, axis=1), indices], axis=0)], res.outputs, to=dtype_of(graph, w))
