# Generated from specs/aten/cast.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.known import known_dtype, known_shape
from ortable.prelude_make import cast

if TYPE_CHECKING:
    from ortable.builder import GraphBuilder, Res
    from ortable.known import Rules
    from ortable.prelude import Bool, Dtype, Result


def aten__to_copy(graph: GraphBuilder, res: Res, self: Result, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None, non_blocking: Bool = False, memory_format: Any = None) -> Result:
    """aten::_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, bool non_blocking=False, MemoryFormat? memory_format=None) -> Tensor"""
    return cast(graph, self, dtype)


def rule_aten__to_copy(graph: GraphBuilder, self: Result, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None, non_blocking: Bool = False, memory_format: Any = None) -> Rules:
    return ((known_dtype(graph, self) if dtype is None else dtype, known_shape(graph, self)),)
