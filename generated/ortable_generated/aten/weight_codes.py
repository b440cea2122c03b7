# Generated from specs/aten/weight_codes.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING

from ortable.lowerings.coded_linear import multiply_codes
from ortable.prelude.metadata import dtype_or_none

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Int, Result


def ortable_codes_linear(graph: Graph, res: ResultSpec, x: Result, codes: Result, scales: Result, zeros: Result | None, bits: Int) -> Result:
    """ortable_codes::linear(Tensor x, Tensor codes, Tensor scales, Tensor? zeros, int bits) -> Tensor"""
    return multiply_codes(graph, res, x=x, codes=codes, scales=scales, zeros=zeros, bits=bits)


def rule_ortable_codes_linear(graph: Graph, x: Result, codes: Result, scales: Result, zeros: Result | None, bits: Int) -> Rules:
    return ((dtype_or_none(graph, x), None),)
