# Generated from specs/aten/create.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.known import given_shape
from ortable.prelude import dtype_of
from ortable.prelude_make import filled
from ortable.promotion import scalar_dtype

if TYPE_CHECKING:
    from ortable.builder import GraphBuilder, Res
    from ortable.known import Rules
    from ortable.prelude import Bool, Dtype, Result, Scalar, SymInts


def aten_full(graph: GraphBuilder, res: Res, size: SymInts, fill_value: Scalar, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::full(SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return filled(graph, size, fill_value, dtype_of(graph, res))


def rule_aten_full(graph: GraphBuilder, size: SymInts, fill_value: Scalar, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return ((scalar_dtype(fill_value) if dtype is None else dtype, given_shape(size)),)
