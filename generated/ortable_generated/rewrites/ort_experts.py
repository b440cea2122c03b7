# Generated from specs/rewrites/ort_experts.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.passes.rewrite.matcher import literal_equals
from ortable.passes.rewrite.rule import Match
from ortable.passes.rewrite.words.experts import are_places, are_vectors_of, pays_by_expert, rows_by_expert
from ortable.passes.rewrite.words.numbers import for_cpu
from ortable.prelude.facts import dim_of
from ortable.prelude.values import reshape_to

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.ir.node import Node
    from ortable.prelude.facts import Result
    from ortable.passes.rewrite.matcher import Matcher


_GATHER = {'axis': 0}


def match_ort_experts_of_columns(m: Matcher, root: Node) -> Match | None:
    """matrices = Gather(weight, ids, axis=0); return MatMul(matrices, columns)"""
    graph = m.graph
    if len(root.inputs) != 2 or root.attrs:
        return None
    matrices, columns = root.inputs
    n1 = m.producer(matrices, 'Gather')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1, ('axis',), _GATHER):
        return None
    if not literal_equals(n1.attrs.get('axis', 0), 0):
        return None
    weight, ids = n1.inputs
    if not for_cpu(graph):
        m.refuse('for_cpu()')
        return None
    if not are_places(graph, ids):
        m.refuse('are_places(ids)')
        return None
    if not pays_by_expert(graph, weight, ids):
        m.refuse('pays_by_expert(weight, ids)')
        return None
    if not are_vectors_of(graph, columns, weight, ids, True):
        m.refuse('are_vectors_of(columns, weight, ids, True)')
        return None
    return Match((root, n1), (root.outputs[0],), (weight, ids, columns))


def make_ort_experts_of_columns(graph: Graph, res: ResultSpec, weight: Result, ids: Result, columns: Result) -> Any:
    rows = rows_by_expert(graph, columns, weight, ids, True)
    return reshape_to(graph, rows, [dim_of(graph, ids, 0), dim_of(graph, weight, 1), 1])


def match_ort_experts_of_rows(m: Matcher, root: Node) -> Match | None:
    """matrices = Gather(weight, ids, axis=0); return MatMul(rows, matrices)"""
    graph = m.graph
    if len(root.inputs) != 2 or root.attrs:
        return None
    rows, matrices = root.inputs
    n1 = m.producer(matrices, 'Gather')
    if n1 is None or len(n1.inputs) != 2 or not m.plain(n1, ('axis',), _GATHER):
        return None
    if not literal_equals(n1.attrs.get('axis', 0), 0):
        return None
    weight, ids = n1.inputs
    if not for_cpu(graph):
        m.refuse('for_cpu()')
        return None
    if not are_places(graph, ids):
        m.refuse('are_places(ids)')
        return None
    if not pays_by_expert(graph, weight, ids):
        m.refuse('pays_by_expert(weight, ids)')
        return None
    if not are_vectors_of(graph, rows, weight, ids, False):
        m.refuse('are_vectors_of(rows, weight, ids, False)')
        return None
    return Match((root, n1), (root.outputs[0],), (weight, ids, rows))


def make_ort_experts_of_rows(graph: Graph, res: ResultSpec, weight: Result, ids: Result, rows: Result) -> Any:
    found = rows_by_expert(graph, rows, weight, ids, False)
    return reshape_to(graph, found, [dim_of(graph, ids, 0), 1, dim_of(graph, weight, 2)])
