# Generated from specs/aten/cumulative.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.dtypes import float32, float64, int16, int32, int64, int8, uint8
from ortable.inference import accumulate_dtype
from ortable.lowerings.complex.arithmetic import c_cumprod
from ortable.lowerings.complex.parts import each_part
from ortable.lowerings.cumulative import c_logcumsumexp, lower_cummax, lower_cummin, lower_cumprod, lower_diff, lower_logcumsumexp
from ortable.prelude.complex_arithmetic import c_cast
from ortable.prelude.facts import axis_of, dtype_of, is_float, rank_of
from ortable.prelude.metadata import dtype_or_none, shape_or_none
from ortable.prelude.pointwise import const_like
from ortable.prelude.promotion import promoted_dtype
from ortable.prelude.values import cast, const

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Dtype, Int, Result


def aten_cummax(graph: Graph, res: ResultSpec, self: Result, dim: Int) -> Any:
    """aten::cummax(Tensor self, int dim) -> (Tensor values, Tensor indices)"""
    return lower_cummax(graph, res, self=self, dim=dim)


def aten_cummin(graph: Graph, res: ResultSpec, self: Result, dim: Int) -> Any:
    """aten::cummin(Tensor self, int dim) -> (Tensor values, Tensor indices)"""
    return lower_cummin(graph, res, self=self, dim=dim)


def aten_cumprod(graph: Graph, res: ResultSpec, self: Result, dim: Int, *, dtype: Dtype | None = None) -> Result:
    """aten::cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor"""
    if rank_of(graph, self) == 0:
        graph.case = 1
        return cast(graph, self, dtype_of(graph, res))
    graph.case = 2
    return lower_cumprod(graph, res, self=self, dim=dim)


def aten_cumsum(graph: Graph, res: ResultSpec, self: Result, dim: Int, *, dtype: Dtype | None = None) -> Result:
    """aten::cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor"""
    if rank_of(graph, self) == 0:
        graph.case = 1
        return cast(graph, self, dtype_of(graph, res))
    if dtype_of(graph, res) == int8 or dtype_of(graph, res) == int16 or dtype_of(graph, res) == uint8:
        # ONNX has no such CumSum; the low bits of a wider sum are the same
        graph.case = 2
        return cast(graph, graph.make_node('CumSum', [cast(graph, self, int32), const(graph, axis_of(graph, self, dim), int64)]), dtype_of(graph, res))
    if is_float(graph, res):
        # torch adds up float32 in float64, the 16 bit floats in float32, and begins at 0.0, which -0.0 leaves
        graph.case = 3
        sum_dtype = float64 if dtype_of(graph, res) in (float32, float64) else float32
        wide = cast(graph, cast(graph, self, dtype_of(graph, res)), sum_dtype)
        total = cast(graph, graph.make_node('CumSum', [wide, const(graph, axis_of(graph, self, dim), int64)]), dtype_of(graph, res))
        zero = const_like(graph, 0, total)
        return graph.make_node('Where', [graph.make_node('Equal', [total, zero]), zero, total], res.outputs)
    graph.case = 4
    return graph.make_node('CumSum', [cast(graph, self, dtype_of(graph, res)), const(graph, axis_of(graph, self, dim), int64)], res.outputs)


def aten_diff(graph: Graph, res: ResultSpec, self: Result, n: Int = 1, dim: Int = -1, prepend: Result | None = None, append: Result | None = None) -> Result:
    """aten::diff(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor"""
    return lower_diff(graph, res, self=self, n=n, dim=dim, prepend=prepend, append=append)


def aten_logcumsumexp(graph: Graph, res: ResultSpec, self: Result, dim: Int) -> Result:
    """aten::logcumsumexp(Tensor self, int dim) -> Tensor"""
    if rank_of(graph, self) == 0:
        graph.case = 1
        return self
    graph.case = 2
    return lower_logcumsumexp(graph, res, self=self, dim=dim)


def complex_aten_cumprod(graph: Graph, res: ResultSpec, self: Result, dim: Int, *, dtype: Dtype | None = None) -> Result:
    """aten::cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor"""
    graph.case = 3
    return c_cumprod(graph, c_cast(graph, self, dtype_of(graph, res)), axis_of(graph, self, dim))


def complex_aten_cumsum(graph: Graph, res: ResultSpec, self: Result, dim: Int, *, dtype: Dtype | None = None) -> Result:
    """aten::cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor"""
    return each_part(graph, res, aten_cumsum, {'self': self}, dim=dim, dtype=dtype)


def complex_aten_diff(graph: Graph, res: ResultSpec, self: Result, n: Int = 1, dim: Int = -1, prepend: Result | None = None, append: Result | None = None) -> Result:
    """aten::diff(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor"""
    return each_part(graph, res, aten_diff, {'self': self, 'prepend': prepend, 'append': append}, n=n, dim=dim)


def complex_aten_logcumsumexp(graph: Graph, res: ResultSpec, self: Result, dim: Int) -> Result:
    """aten::logcumsumexp(Tensor self, int dim) -> Tensor"""
    if rank_of(graph, self) == 0:
        graph.case = 3
        return self
    graph.case = 4
    return c_logcumsumexp(graph, self, axis_of(graph, self, dim))


def rule_aten_cummax(graph: Graph, self: Result, dim: Int) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)), (int64, shape_or_none(graph, self)),)


def rule_aten_cummin(graph: Graph, self: Result, dim: Int) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)), (int64, shape_or_none(graph, self)),)


def rule_aten_cumprod(graph: Graph, self: Result, dim: Int, *, dtype: Dtype | None = None) -> Rules:
    return ((accumulate_dtype(dtype_or_none(graph, self)) if dtype is None else dtype, shape_or_none(graph, self)),)


def rule_aten_cumsum(graph: Graph, self: Result, dim: Int, *, dtype: Dtype | None = None) -> Rules:
    return ((accumulate_dtype(dtype_or_none(graph, self)) if dtype is None else dtype, shape_or_none(graph, self)),)


def rule_aten_diff(graph: Graph, self: Result, n: Int = 1, dim: Int = -1, prepend: Result | None = None, append: Result | None = None) -> Rules:
    return ((promoted_dtype(graph, 'default', self, prepend, append), None),)


def rule_aten_logcumsumexp(graph: Graph, self: Result, dim: Int) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)
