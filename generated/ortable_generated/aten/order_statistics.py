# Generated from specs/aten/order_statistics.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.dtypes import int64
from ortable.inference import reduce_shape
from ortable.lowerings.quantile import nanquantile, quantile
from ortable.lowerings.sorting import median_place, new_runs
from ortable.prelude.facts import axis_of, count_of, dtype_of, is_float, lowest, rank_of, shape_of, swapped
from ortable.prelude.indexing import run_ids, sorted_places, taken_along
from ortable.prelude.metadata import dtype_or_none, scalar_shape, shape_or_none
from ortable.prelude.shapes import as_flat, stretched
from ortable.prelude.values import as_vec, at_least_1d, const, permuted, reshape_to, squeezed, with_rank_of

if TYPE_CHECKING:
    from ortable.ir import Graph, Res
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Bool, Float, Int, Result, Str


def aten_median(graph: Graph, res: Res, self: Result) -> Result:
    """aten::median(Tensor self) -> Tensor"""
    if count_of(graph, self) == 0:
        return const(graph, float('nan') if is_float(graph, self) else lowest(dtype_of(graph, self)), dtype_of(graph, self))
    flat = as_flat(graph, self)
    order = sorted_places(graph, flat, 0)
    place = median_place(graph, flat, 0, False)
    return reshape_to(graph, graph.make_node('Gather', [flat, graph.make_node('Gather', [order, place])]), [])


def aten_median_dim(graph: Graph, res: Res, self: Result, dim: Int, keepdim: Bool = False) -> Any:
    """aten::median.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"""
    axis = axis_of(graph, self, dim)
    gone = [] if keepdim or rank_of(graph, self) == 0 else [axis]
    wide = at_least_1d(graph, self)
    order = sorted_places(graph, wide, axis)
    place = graph.make_node('GatherElements', [order, median_place(graph, wide, axis, False)], axis=axis)
    value = taken_along(graph, wide, place, axis)
    return (with_rank_of(graph, squeezed(graph, value, gone), self), with_rank_of(graph, squeezed(graph, place, gone), self))


def aten_mode(graph: Graph, res: Res, self: Result, dim: Int = -1, keepdim: Bool = False) -> Any:
    """aten::mode(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)"""
    axis = axis_of(graph, self, dim)
    turn = swapped(max(rank_of(graph, self), 1), axis, -1)
    gone = [] if keepdim or rank_of(graph, self) == 0 else [axis]
    # the longest run of the sorted elements, of those the first, and of that the last element; each NaN is a run of its own (torch sorts them into no order)
    rows = permuted(graph, at_least_1d(graph, self), turn)
    order = sorted_places(graph, rows, rank_of(graph, rows) - 1)
    ids = run_ids(graph, new_runs(graph, taken_along(graph, rows, order, rank_of(graph, rows) - 1)))
    last = rank_of(graph, rows) - 1
    zeros = stretched(graph, const(graph, 0, int64), shape_of(graph, rows))
    ones = stretched(graph, const(graph, 1, int64), shape_of(graph, rows))
    lengths = graph.make_node('ScatterElements', [zeros, ids, ones], axis=last, reduction='add')
    first = graph.make_node('ArgMax', [graph.make_node('GatherElements', [lengths, ids], axis=last)], axis=last)
    end = graph.make_node('Sub', [graph.make_node('Add', [first, graph.make_node('ReduceMax', [lengths, as_vec(graph, last)])]), const(graph, 1, int64)])
    place = permuted(graph, graph.make_node('GatherElements', [order, end], axis=last), turn)
    value = graph.make_node('GatherElements', [at_least_1d(graph, self), place], axis=axis)
    return (with_rank_of(graph, squeezed(graph, value, gone), self), with_rank_of(graph, squeezed(graph, place, gone), self))


def aten_nanmedian(graph: Graph, res: Res, self: Result) -> Result:
    """aten::nanmedian(Tensor self) -> Tensor"""
    if count_of(graph, self) == 0:
        return const(graph, float('nan') if is_float(graph, self) else lowest(dtype_of(graph, self)), dtype_of(graph, self))
    flat = as_flat(graph, self)
    order = sorted_places(graph, flat, 0)
    place = median_place(graph, flat, 0, True)
    return reshape_to(graph, graph.make_node('Gather', [flat, graph.make_node('Gather', [order, place])]), [])


def aten_nanmedian_dim(graph: Graph, res: Res, self: Result, dim: Int, keepdim: Bool = False) -> Any:
    """aten::nanmedian.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"""
    axis = axis_of(graph, self, dim)
    gone = [] if keepdim or rank_of(graph, self) == 0 else [axis]
    wide = at_least_1d(graph, self)
    order = sorted_places(graph, wide, axis)
    place = graph.make_node('GatherElements', [order, median_place(graph, wide, axis, True)], axis=axis)
    value = taken_along(graph, wide, place, axis)
    return (with_rank_of(graph, squeezed(graph, value, gone), self), with_rank_of(graph, squeezed(graph, place, gone), self))


def aten_nanquantile(graph: Graph, res: Res, self: Result, q: Result, dim: Int | None = None, keepdim: Bool = False, *, interpolation: Str = 'linear') -> Result:
    '''aten::nanquantile(Tensor self, Tensor q, int? dim=None, bool keepdim=False, *, str interpolation="linear") -> Tensor'''
    return nanquantile(graph, res, self=self, q=q, dim=dim, keepdim=keepdim, interpolation=interpolation)


def aten_nanquantile_scalar(graph: Graph, res: Res, self: Result, q: Float, dim: Int | None = None, keepdim: Bool = False, *, interpolation: Str = 'linear') -> Result:
    '''aten::nanquantile.scalar(Tensor self, float q, int? dim=None, bool keepdim=False, *, str interpolation="linear") -> Tensor'''
    return nanquantile(graph, res, self=self, q=q, dim=dim, keepdim=keepdim, interpolation=interpolation)


def aten_quantile(graph: Graph, res: Res, self: Result, q: Result, dim: Int | None = None, keepdim: Bool = False, *, interpolation: Str = 'linear') -> Result:
    '''aten::quantile(Tensor self, Tensor q, int? dim=None, bool keepdim=False, *, str interpolation="linear") -> Tensor'''
    return quantile(graph, res, self=self, q=q, dim=dim, keepdim=keepdim, interpolation=interpolation)


def aten_quantile_scalar(graph: Graph, res: Res, self: Result, q: Float, dim: Int | None = None, keepdim: Bool = False, *, interpolation: Str = 'linear') -> Result:
    '''aten::quantile.scalar(Tensor self, float q, int? dim=None, bool keepdim=False, *, str interpolation="linear") -> Tensor'''
    return quantile(graph, res, self=self, q=q, dim=dim, keepdim=keepdim, interpolation=interpolation)


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
