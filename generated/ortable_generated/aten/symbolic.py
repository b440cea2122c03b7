# Generated from specs/aten/symbolic.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.dtypes import int64
from ortable.known import as_list, known_dtype, scalar_shape
from ortable.prelude import count_of, dim_of, shape_of
from ortable.prelude_make import reshape_to

if TYPE_CHECKING:
    from ortable.builder import GraphBuilder, Res
    from ortable.known import Rules
    from ortable.prelude import Int, Result


def aten__local_scalar_dense(graph: GraphBuilder, res: Res, self: Result) -> Any:
    """aten::_local_scalar_dense(Tensor self) -> Scalar"""
    return reshape_to(graph, self, [])


def aten_item(graph: GraphBuilder, res: Res, self: Result) -> Any:
    """aten::item(Tensor self) -> Scalar"""
    return aten__local_scalar_dense(graph, res, self=self)


def aten_numel(graph: GraphBuilder, res: Res, self: Result) -> Any:
    """aten::numel(Tensor self) -> int"""
    return aten_sym_numel(graph, res, self=self)


def aten_size(graph: GraphBuilder, res: Res, self: Result) -> Any:
    """aten::size(Tensor self) -> int[]"""
    return aten_sym_size(graph, res, self=self)


def aten_size_int(graph: GraphBuilder, res: Res, self: Result, dim: Int) -> Any:
    """aten::size.int(Tensor self, int dim) -> int"""
    return aten_sym_size_int(graph, res, self=self, dim=dim)


def aten_sym_numel(graph: GraphBuilder, res: Res, self: Result) -> Any:
    """aten::sym_numel(Tensor self) -> SymInt"""
    return count_of(graph, self)


def aten_sym_size(graph: GraphBuilder, res: Res, self: Result) -> Any:
    """aten::sym_size(Tensor self) -> SymInt[]"""
    return as_list(list(shape_of(graph, self)))


def aten_sym_size_int(graph: GraphBuilder, res: Res, self: Result, dim: Int) -> Any:
    """aten::sym_size.int(Tensor self, int dim) -> SymInt"""
    return dim_of(graph, self, dim)


def rule_aten__local_scalar_dense(graph: GraphBuilder, self: Result) -> Rules:
    return ((known_dtype(graph, self), scalar_shape()),)


def rule_aten_item(graph: GraphBuilder, self: Result) -> Rules:
    return rule_aten__local_scalar_dense(graph, self=self)


def rule_aten_numel(graph: GraphBuilder, self: Result) -> Rules:
    return rule_aten_sym_numel(graph, self=self)


def rule_aten_size(graph: GraphBuilder, self: Result) -> Rules:
    return rule_aten_sym_size(graph, self=self)


def rule_aten_size_int(graph: GraphBuilder, self: Result, dim: Int) -> Rules:
    return rule_aten_sym_size_int(graph, self=self, dim=dim)


def rule_aten_sym_numel(graph: GraphBuilder, self: Result) -> Rules:
    return ((int64, scalar_shape()),)


def rule_aten_sym_size(graph: GraphBuilder, self: Result) -> Rules:
    return ((int64, None),)


def rule_aten_sym_size_int(graph: GraphBuilder, self: Result, dim: Int) -> Rules:
    return ((int64, scalar_shape()),)
