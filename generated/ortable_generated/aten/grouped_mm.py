# Generated from specs/aten/grouped_mm.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING

from ortable.inference import unify
from ortable.lowerings.grouped_mm import grouped_rows
from ortable.prelude.metadata import dtype_or_none, shape_or_none

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Result


def rule_transformers_grouped_mm_fallback(graph: Graph, input: Result, weight: Result, offs: Result) -> Rules:
    return ((dtype_or_none(graph, input), unify((('s', 'k'), ('e', 'k', 'n'), ('e',)), (('s', 'n'),), [shape_or_none(graph, input), shape_or_none(graph, weight), shape_or_none(graph, offs)])[0]),)


def transformers_grouped_mm_fallback(graph: Graph, res: ResultSpec, input: Result, weight: Result, offs: Result) -> Result:
    """transformers::grouped_mm_fallback(Tensor input, Tensor weight, Tensor offs) -> Tensor"""
    return grouped_rows(graph, res, input=input, weight=weight, offs=offs)
