# Generated from specs/aten/reduce.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.dtypes import int64
from ortable.known import known_dtype, known_shape
from ortable.prelude import axes_of, dtype_of
from ortable.prelude_make import cast, consts
from ortable.rules import accumulate, reduce_shape

if TYPE_CHECKING:
    from ortable.builder import GraphBuilder, Res
    from ortable.known import Rules
    from ortable.prelude import Bool, Dtype, Int, Ints, Result


def aten_sum_dim_IntList(graph: GraphBuilder, res: Res, self: Result, dim: Ints | None, keepdim: Bool = False, *, dtype: Dtype | None = None) -> Result:
    """aten::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"""
    axes = consts(graph, axes_of(graph, self, dim), int64)
    return graph.make_node('ReduceSum', [cast(graph, self, dtype_of(graph, res)), axes], res.outputs, keepdims=keepdim)


def rule_aten_sum_dim_IntList(graph: GraphBuilder, self: Result, dim: Ints | None, keepdim: Bool = False, *, dtype: Dtype | None = None) -> Rules:
    return ((accumulate(known_dtype(graph, self)) if dtype is None else dtype, reduce_shape(known_shape(graph, self), dim, keepdim)),)
