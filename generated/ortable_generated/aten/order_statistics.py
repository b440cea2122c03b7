# Generated from specs/aten/order_statistics.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.dispatch import DataCheck
from ortable.dtypes import boolean, int32, int64
from ortable.errors import UnsupportedCase
from ortable.inference import reduce_shape
from ortable.lowerings.quantile import lower_nanquantile, lower_quantile
from ortable.lowerings.sorting import new_runs
from ortable.prelude.facts import axis_of, count_of, dim_of, dtype_min, dtype_of, is_float, may_be_zero, rank_of, shape_of, transpose_perm
from ortable.prelude.indexing import argsort, run_ids, take_along_dim
from ortable.prelude.metadata import dtype_or_none, scalar_shape, shape_or_none
from ortable.prelude.operators import call_operator
from ortable.prelude.pointwise import in_interval
from ortable.prelude.shapes import as_flat, expanded
from ortable.prelude.values import as_vec, at_least_1d, cast, const, permuted, squeezed, with_rank_of
from ortable_generated.aten import dispatch

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Bool, Float, Int, Result, Str


def aten_median(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::median(Tensor self) -> Tensor"""
    if count_of(graph, self) == 0:
        # NaN as C casts it to ints
        graph.case = 1
        cut = dtype_min(dtype_of(graph, self)) if dtype_of(graph, self) in (int32, int64) else dtype_of(graph, self) == boolean
        return const(graph, float('nan') if is_float(graph, self) else cut, dtype_of(graph, self))
    graph.case = 2
    value, _ = call_operator(graph, dispatch, 'aten::median.dim', as_flat(graph, self), 0)
    return value


def aten_median_dim(graph: Graph, res: ResultSpec, self: Result, dim: Int, keepdim: Bool = False) -> Any:
    """aten::median.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"""
    axis = axis_of(graph, self, dim)
    size = dim_of(graph, self, axis)
    kept = [1 if at == axis else dim_of(graph, self, at) for at in range(max(rank_of(graph, self), 1))]
    dropped = [] if keepdim or rank_of(graph, self) == 0 else [axis]
    if size == 0:
        graph.case = 1
        raise UnsupportedCase('aten::median.dim: an axis without elements, of which torch returns no median')
    graph.case = 2
    wide = at_least_1d(graph, self)
    middle = expanded(graph, const(graph, (size - 1) // 2, int64), kept)
    marks = cast(graph, graph.make_node('Not', [graph.make_node('IsNaN', [wide])]), int64) if is_float(graph, self) else None
    known = graph.make_node('ReduceSum', [marks, as_vec(graph, axis)], keepdims=1) if marks is not None else None
    place = graph.make_node('Where', [graph.make_node('Equal', [known, const(graph, size, int64)]), middle, known]) if known is not None else middle
    index = graph.make_node('GatherElements', [argsort(graph, wide, axis), place], axis=axis)
    value = take_along_dim(graph, wide, index, axis)
    return (with_rank_of(graph, squeezed(graph, value, dropped), self), with_rank_of(graph, squeezed(graph, index, dropped), self))


def aten_mode(graph: Graph, res: ResultSpec, self: Result, dim: Int = -1, keepdim: Bool = False) -> Any:
    """aten::mode(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)"""
    axis = axis_of(graph, self, dim)
    turn = transpose_perm(max(rank_of(graph, self), 1), axis, -1)
    dropped = [] if keepdim or rank_of(graph, self) == 0 else [axis]
    if dim_of(graph, self, axis) == 0:
        graph.case = 1
        raise UnsupportedCase('aten::mode: an axis without elements, of which torch returns no mode')
    # the longest run of the sorted elements, of those the first, and of that the last element; each NaN is a run of its own (torch sorts them into no order)
    graph.case = 2
    rows = permuted(graph, at_least_1d(graph, self), turn)
    order = argsort(graph, rows, rank_of(graph, rows) - 1)
    ids = run_ids(graph, new_runs(graph, take_along_dim(graph, rows, order, rank_of(graph, rows) - 1)))
    last = rank_of(graph, rows) - 1
    zeros = expanded(graph, const(graph, 0, int64), shape_of(graph, rows))
    ones = expanded(graph, const(graph, 1, int64), shape_of(graph, rows))
    lengths = graph.make_node('ScatterElements', [zeros, ids, ones], axis=last, reduction='add')
    first = graph.make_node('ArgMax', [graph.make_node('GatherElements', [lengths, ids], axis=last)], axis=last)
    end = graph.make_node('Sub', [graph.make_node('Add', [first, graph.make_node('ReduceMax', [lengths, as_vec(graph, last)])]), const(graph, 1, int64)])
    index = permuted(graph, graph.make_node('GatherElements', [order, end], axis=last), turn)
    value = graph.make_node('GatherElements', [at_least_1d(graph, self), index], axis=axis)
    return (with_rank_of(graph, squeezed(graph, value, dropped), self), with_rank_of(graph, squeezed(graph, index, dropped), self))


def aten_nanmedian(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::nanmedian(Tensor self) -> Tensor"""
    if count_of(graph, self) == 0:
        # NaN as C casts it to ints
        graph.case = 1
        cut = dtype_min(dtype_of(graph, self)) if dtype_of(graph, self) in (int32, int64) else dtype_of(graph, self) == boolean
        return const(graph, float('nan') if is_float(graph, self) else cut, dtype_of(graph, self))
    graph.case = 2
    value, _ = call_operator(graph, dispatch, 'aten::nanmedian.dim', as_flat(graph, self), 0)
    return value


def aten_nanmedian_dim(graph: Graph, res: ResultSpec, self: Result, dim: Int, keepdim: Bool = False) -> Any:
    """aten::nanmedian.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"""
    axis = axis_of(graph, self, dim)
    size = dim_of(graph, self, axis)
    kept = [1 if at == axis else dim_of(graph, self, at) for at in range(max(rank_of(graph, self), 1))]
    dropped = [] if keepdim or rank_of(graph, self) == 0 else [axis]
    if size == 0:
        graph.case = 1
        raise UnsupportedCase('aten::nanmedian.dim: an axis without elements, of which torch returns no median')
    graph.case = 2
    wide = at_least_1d(graph, self)
    middle = expanded(graph, const(graph, (size - 1) // 2, int64), kept)
    marks = cast(graph, graph.make_node('Not', [graph.make_node('IsNaN', [wide])]), int64) if is_float(graph, self) else None
    known = graph.make_node('ReduceSum', [marks, as_vec(graph, axis)], keepdims=1) if marks is not None else None
    place = graph.make_node('Where', [graph.make_node('Equal', [known, const(graph, 0, int64)]), middle, graph.make_node('Div', [graph.make_node('Sub', [known, const(graph, 1, int64)]), const(graph, 2, int64)])]) if known is not None else middle
    index = graph.make_node('GatherElements', [argsort(graph, wide, axis), place], axis=axis)
    value = take_along_dim(graph, wide, index, axis)
    return (with_rank_of(graph, squeezed(graph, value, dropped), self), with_rank_of(graph, squeezed(graph, index, dropped), self))


def aten_nanquantile(graph: Graph, res: ResultSpec, self: Result, q: Result, dim: Int | None = None, keepdim: Bool = False, *, interpolation: Str = 'linear') -> Result:
    '''aten::nanquantile(Tensor self, Tensor q, int? dim=None, bool keepdim=False, *, str interpolation="linear") -> Tensor'''
    return lower_nanquantile(graph, res, self=self, q=q, dim=dim, keepdim=keepdim, interpolation=interpolation)


def aten_nanquantile_scalar(graph: Graph, res: ResultSpec, self: Result, q: Float, dim: Int | None = None, keepdim: Bool = False, *, interpolation: Str = 'linear') -> Result:
    '''aten::nanquantile.scalar(Tensor self, float q, int? dim=None, bool keepdim=False, *, str interpolation="linear") -> Tensor'''
    return lower_nanquantile(graph, res, self=self, q=q, dim=dim, keepdim=keepdim, interpolation=interpolation)


def aten_quantile(graph: Graph, res: ResultSpec, self: Result, q: Result, dim: Int | None = None, keepdim: Bool = False, *, interpolation: Str = 'linear') -> Result:
    '''aten::quantile(Tensor self, Tensor q, int? dim=None, bool keepdim=False, *, str interpolation="linear") -> Tensor'''
    return lower_quantile(graph, res, self=self, q=q, dim=dim, keepdim=keepdim, interpolation=interpolation)


def aten_quantile_scalar(graph: Graph, res: ResultSpec, self: Result, q: Float, dim: Int | None = None, keepdim: Bool = False, *, interpolation: Str = 'linear') -> Result:
    '''aten::quantile.scalar(Tensor self, float q, int? dim=None, bool keepdim=False, *, str interpolation="linear") -> Tensor'''
    return lower_quantile(graph, res, self=self, q=q, dim=dim, keepdim=keepdim, interpolation=interpolation)


def check_aten_median_dim(graph: Graph, self: Result, dim: Int, keepdim: Bool = False) -> list[DataCheck]:
    axis = axis_of(graph, self, dim)
    return [
        *([DataCheck(as_vec(graph, dim_of(graph, self, axis)), 1, None, 'IndexError', 'median(): Expected reduction dim {axis} to have non-zero size.', axis)] if may_be_zero(dim_of(graph, self, axis)) else []),
    ]


def check_aten_mode(graph: Graph, self: Result, dim: Int = -1, keepdim: Bool = False) -> list[DataCheck]:
    axis = axis_of(graph, self, dim)
    return [
        *([DataCheck(as_vec(graph, dim_of(graph, self, axis)), 1, None, 'IndexError', 'mode(): Expected reduction dim {axis} to have non-zero size.', axis)] if may_be_zero(dim_of(graph, self, axis)) else []),
    ]


def check_aten_nanmedian_dim(graph: Graph, self: Result, dim: Int, keepdim: Bool = False) -> list[DataCheck]:
    axis = axis_of(graph, self, dim)
    return [
        *([DataCheck(as_vec(graph, dim_of(graph, self, axis)), 1, None, 'IndexError', 'median(): Expected reduction dim {axis} to have non-zero size.', axis)] if may_be_zero(dim_of(graph, self, axis)) else []),
    ]


def check_aten_nanquantile(graph: Graph, self: Result, q: Result, dim: Int | None = None, keepdim: Bool = False, *, interpolation: Str = 'linear') -> list[DataCheck]:
    return [
        DataCheck(cast(graph, in_interval(graph, q, 0, 1), int32), 1, None, 'RuntimeError', 'quantile() q values must be in the range [0, 1]', None),
    ]


def check_aten_quantile(graph: Graph, self: Result, q: Result, dim: Int | None = None, keepdim: Bool = False, *, interpolation: Str = 'linear') -> list[DataCheck]:
    return [
        DataCheck(cast(graph, in_interval(graph, q, 0, 1), int32), 1, None, 'RuntimeError', 'quantile() q values must be in the range [0, 1]', None),
    ]


def rule_aten_median(graph: Graph, self: Result) -> Rules:
    return ((dtype_or_none(graph, self), scalar_shape()),)


def rule_aten_median_dim(graph: Graph, self: Result, dim: Int, keepdim: Bool = False) -> Rules:
    return ((dtype_or_none(graph, self), reduce_shape(shape_or_none(graph, self), dim, keepdim)), (int64, reduce_shape(shape_or_none(graph, self), dim, keepdim)),)


def rule_aten_mode(graph: Graph, self: Result, dim: Int = -1, keepdim: Bool = False) -> Rules:
    return ((dtype_or_none(graph, self), reduce_shape(shape_or_none(graph, self), dim, keepdim)), (int64, reduce_shape(shape_or_none(graph, self), dim, keepdim)),)


def rule_aten_nanmedian(graph: Graph, self: Result) -> Rules:
    return ((dtype_or_none(graph, self), scalar_shape()),)


def rule_aten_nanmedian_dim(graph: Graph, self: Result, dim: Int, keepdim: Bool = False) -> Rules:
    return ((dtype_or_none(graph, self), reduce_shape(shape_or_none(graph, self), dim, keepdim)), (int64, reduce_shape(shape_or_none(graph, self), dim, keepdim)),)


def rule_aten_nanquantile(graph: Graph, self: Result, q: Result, dim: Int | None = None, keepdim: Bool = False, *, interpolation: Str = 'linear') -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_nanquantile_scalar(graph: Graph, self: Result, q: Float, dim: Int | None = None, keepdim: Bool = False, *, interpolation: Str = 'linear') -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_quantile(graph: Graph, self: Result, q: Result, dim: Int | None = None, keepdim: Bool = False, *, interpolation: Str = 'linear') -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_quantile_scalar(graph: Graph, self: Result, q: Float, dim: Int | None = None, keepdim: Bool = False, *, interpolation: Str = 'linear') -> Rules:
    return ((dtype_or_none(graph, self), None),)
