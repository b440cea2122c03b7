# Generated from specs/aten/shape.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.known import as_list, given_shape, known_dtype
from ortable.prelude import axis_of
from ortable.prelude_make import as_vec, reshape_to
from ortable.prelude_types import chunk_sizes

if TYPE_CHECKING:
    from ortable.builder import GraphBuilder, Res
    from ortable.known import Rules
    from ortable.prelude import Int, Result, SymInt, SymInts


def aten_split_Tensor(graph: GraphBuilder, res: Res, self: Result, split_size: SymInt, dim: Int = 0) -> Any:
    """aten::split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]"""
    axis = axis_of(graph, self, dim)
    return as_list(graph.make_node('Split', [self, as_vec(graph, chunk_sizes(graph, self, axis, split_size, len(res)))], res.outputs, axis=axis))


def aten_view(graph: GraphBuilder, res: Res, self: Result, size: SymInts) -> Result:
    """aten::view(Tensor(a) self, SymInt[] size) -> Tensor(a)"""
    return reshape_to(graph, self, size)


def rule_aten_split_Tensor(graph: GraphBuilder, self: Result, split_size: SymInt, dim: Int = 0) -> Rules:
    return ((known_dtype(graph, self), None),)


def rule_aten_view(graph: GraphBuilder, self: Result, size: SymInts) -> Rules:
    return ((known_dtype(graph, self), given_shape(size)),)
