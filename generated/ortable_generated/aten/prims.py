# Generated from specs/aten/prims.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING

from ortable_generated.aten.cast import aten__to_copy, complex_aten__to_copy, rule_aten__to_copy

if TYPE_CHECKING:
    from ortable.builder import GraphBuilder, Res
    from ortable.known import Rules
    from ortable.prelude import Dtype, Result


def complex_prims_convert_element_type(graph: GraphBuilder, res: Res, a: Result, dtype: Dtype) -> Result:
    """prims::convert_element_type(Tensor a, ScalarType dtype) -> Tensor"""
    return complex_aten__to_copy(graph, res, self=a, dtype=dtype)


def prims_convert_element_type(graph: GraphBuilder, res: Res, a: Result, dtype: Dtype) -> Result:
    """prims::convert_element_type(Tensor a, ScalarType dtype) -> Tensor"""
    return aten__to_copy(graph, res, self=a, dtype=dtype)


def rule_prims_convert_element_type(graph: GraphBuilder, a: Result, dtype: Dtype) -> Rules:
    return rule_aten__to_copy(graph, self=a, dtype=dtype)
