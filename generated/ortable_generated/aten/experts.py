# Generated from specs/aten/experts.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING

from ortable.inference import unify
from ortable.lowerings.experts import grouped_rows
from ortable.prelude.metadata import known_dtype, known_shape

if TYPE_CHECKING:
    from ortable.ir import Graph, Res
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Result


def rule_transformers_grouped_mm_fallback(graph: Graph, input: Result, weight: Result, offs: Result) -> Rules:
    return ((known_dtype(graph, input), unify((('s', 'k'), ('e', 'k', 'n'), ('e',)), (('s', 'n'),), [known_shape(graph, input), known_shape(graph, weight), known_shape(graph, offs)])[0]),)


def transformers_grouped_mm_fallback(graph: Graph, res: Res, input: Result, weight: Result, offs: Result) -> Result:
    """transformers::grouped_mm_fallback(Tensor input, Tensor weight, Tensor offs) -> Tensor"""
    return grouped_rows(graph, res, input=input, weight=weight, offs=offs)
