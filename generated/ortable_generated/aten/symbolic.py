# Generated from specs/aten/symbolic.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.dtypes import int64
from ortable.known import scalar_shape
from ortable.prelude import dim_of

if TYPE_CHECKING:
    from ortable.builder import GraphBuilder, Res
    from ortable.known import Rules
    from ortable.prelude import Int, Result, SymInt


def aten_sym_size_int(graph: GraphBuilder, res: Res, self: Result, dim: Int) -> Any:
    """aten::sym_size.int(Tensor self, int dim) -> SymInt"""
    return dim_of(graph, self, dim)


def rule_aten_sym_size_int(graph: GraphBuilder, self: Result, dim: Int) -> Rules:
    return ((int64, scalar_shape()),)
