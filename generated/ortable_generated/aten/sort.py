# Generated from specs/aten/sort.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.dispatch import DataCheck
from ortable.dtypes import int32, int64
from ortable.errors import UnsupportedCase
from ortable.inference import reduce_shape
from ortable.lowerings.sorting import searchsorted
from ortable.prelude.facts import axis_of, dim_of, is_bool, is_int, rank_of
from ortable.prelude.indexing import sort_keys, take_along_dim
from ortable.prelude.metadata import dtype_or_none, scalar_shape, shape_or_none
from ortable.prelude.promotion import common_dtype
from ortable.prelude.values import as_vec, cast, const, squeezed, with_rank_of

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Bool, Int, Result, Scalar, Str, SymInt


def aten_argsort(graph: Graph, res: ResultSpec, self: Result, dim: Int = -1, descending: Bool = False) -> Result:
    """aten::argsort(Tensor self, int dim=-1, bool descending=False) -> Tensor"""
    axis = axis_of(graph, self, dim)
    keys = sort_keys(graph, self)
    _, order = graph.make_node('TopK', [keys, as_vec(graph, dim_of(graph, keys, axis))], 2, axis=axis, largest=descending)
    return with_rank_of(graph, order, self)


def aten_argsort_stable(graph: Graph, res: ResultSpec, self: Result, *, stable: Bool, dim: Int = -1, descending: Bool = False) -> Result:
    """aten::argsort.stable(Tensor self, *, bool stable, int dim=-1, bool descending=False) -> Tensor"""
    axis = axis_of(graph, self, dim)
    keys = sort_keys(graph, self)
    _, order = graph.make_node('TopK', [keys, as_vec(graph, dim_of(graph, keys, axis))], 2, axis=axis, largest=descending)
    return with_rank_of(graph, order, self)


def aten_bucketize_Scalar(graph: Graph, res: ResultSpec, self: Scalar, boundaries: Result, *, out_int32: Bool = False, right: Bool = False) -> Result:
    """aten::bucketize.Scalar(Scalar self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor"""
    dtype = common_dtype(graph, [boundaries, self])
    edges = cast(graph, boundaries, dtype)
    return searchsorted(graph, edges, const(graph, self, dtype), right, int32 if out_int32 else int64)


def aten_bucketize_Tensor(graph: Graph, res: ResultSpec, self: Result, boundaries: Result, *, out_int32: Bool = False, right: Bool = False) -> Result:
    """aten::bucketize.Tensor(Tensor self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor"""
    value = cast(graph, self, common_dtype(graph, [self, boundaries]))
    edges = cast(graph, boundaries, common_dtype(graph, [self, boundaries]))
    return searchsorted(graph, edges, value, right, int32 if out_int32 else int64)


def aten_kthvalue(graph: Graph, res: ResultSpec, self: Result, k: SymInt, dim: Int = -1, keepdim: Bool = False) -> Any:
    """aten::kthvalue(Tensor self, SymInt k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)"""
    axis = axis_of(graph, self, dim)
    if rank_of(graph, self) == 0:
        graph.case = 1
        return (self, const(graph, 0, int64))
    graph.case = 2
    _, order = graph.make_node('TopK', [sort_keys(graph, self), as_vec(graph, k)], 2, axis=axis, largest=0)
    index = graph.make_node('Gather', [order, as_vec(graph, k - 1)], axis=axis)
    value = take_along_dim(graph, self, index, axis)
    dropped = [] if keepdim else [axis]
    return (squeezed(graph, value, dropped), squeezed(graph, index, dropped))


def aten_msort(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::msort(Tensor self) -> Tensor"""
    keys = sort_keys(graph, self)
    _, order = graph.make_node('TopK', [keys, as_vec(graph, dim_of(graph, keys, 0))], 2, axis=0, largest=0)
    return with_rank_of(graph, take_along_dim(graph, self, order, 0), self)


def aten_searchsorted_Scalar(graph: Graph, res: ResultSpec, sorted_sequence: Result, self: Scalar, *, out_int32: Bool = False, right: Bool = False, side: Str | None = None, sorter: Result | None = None) -> Result:
    """aten::searchsorted.Scalar(Tensor sorted_sequence, Scalar self, *, bool out_int32=False, bool right=False, str? side=None, Tensor? sorter=None) -> Tensor"""
    after = right or side == 'right'
    dtype = common_dtype(graph, [sorted_sequence, self])
    last, x = (rank_of(graph, sorted_sequence) - 1, sorted_sequence)
    edges = cast(graph, x if sorter is None else graph.make_node('GatherElements', [x, sorter], axis=last), dtype)
    return searchsorted(graph, edges, const(graph, self, dtype), after, int32 if out_int32 else int64)


def aten_searchsorted_Tensor(graph: Graph, res: ResultSpec, sorted_sequence: Result, self: Result, *, out_int32: Bool = False, right: Bool = False, side: Str | None = None, sorter: Result | None = None) -> Result:
    """aten::searchsorted.Tensor(Tensor sorted_sequence, Tensor self, *, bool out_int32=False, bool right=False, str? side=None, Tensor? sorter=None) -> Tensor"""
    after = right or side == 'right'
    dtype = common_dtype(graph, [sorted_sequence, self])
    last, x = (rank_of(graph, sorted_sequence) - 1, sorted_sequence)
    edges = cast(graph, x if sorter is None else graph.make_node('GatherElements', [x, sorter], axis=last), dtype)
    return searchsorted(graph, edges, cast(graph, self, dtype), after, int32 if out_int32 else int64)


def aten_sort(graph: Graph, res: ResultSpec, self: Result, dim: Int = -1, descending: Bool = False) -> Any:
    """aten::sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)"""
    axis = axis_of(graph, self, dim)
    keys = sort_keys(graph, self)
    sorted_keys, order = graph.make_node('TopK', [keys, as_vec(graph, dim_of(graph, keys, axis))], 2, axis=axis, largest=descending)
    values = sorted_keys if is_int(graph, self) else take_along_dim(graph, self, order, axis)
    return (with_rank_of(graph, values, self), with_rank_of(graph, order, self))


def aten_sort_stable(graph: Graph, res: ResultSpec, self: Result, *, stable: Bool | None, dim: Int = -1, descending: Bool = False) -> Any:
    """aten::sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)"""
    axis = axis_of(graph, self, dim)
    keys = sort_keys(graph, self)
    sorted_keys, order = graph.make_node('TopK', [keys, as_vec(graph, dim_of(graph, keys, axis))], 2, axis=axis, largest=descending)
    values = sorted_keys if is_int(graph, self) else take_along_dim(graph, self, order, axis)
    return (with_rank_of(graph, values, self), with_rank_of(graph, order, self))


def aten_topk(graph: Graph, res: ResultSpec, self: Result, k: SymInt, dim: Int = -1, largest: Bool = True, sorted: Bool = True) -> Any:
    """aten::topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor indices)"""
    axis = axis_of(graph, self, dim)
    if is_bool(graph, self):
        graph.case = 1
        raise UnsupportedCase('aten::topk: the largest bools, which torch refuses')
    if rank_of(graph, self) == 0 and k == 0:
        graph.case = 2
        raise UnsupportedCase('aten::topk: torch leaves the result of a 0-d tensor unset')
    graph.case = 3
    keys, order = graph.make_node('TopK', [sort_keys(graph, self), as_vec(graph, k)], 2, axis=axis, largest=largest)
    values = keys if is_int(graph, self) else take_along_dim(graph, self, order, axis)
    return (with_rank_of(graph, values, self), with_rank_of(graph, order, self))


def check_aten_searchsorted_Tensor(graph: Graph, sorted_sequence: Result, self: Result, *, out_int32: Bool = False, right: Bool = False, side: Str | None = None, sorter: Result | None = None) -> list[DataCheck]:
    return [
        *([DataCheck(sorter, 0, dim_of(graph, sorted_sequence, -1), 'RuntimeError', 'torch.searchsorted(): sorter index out of range', None)] if sorter is not None else []),
    ]


def rule_aten_argsort(graph: Graph, self: Result, dim: Int = -1, descending: Bool = False) -> Rules:
    return ((int64, shape_or_none(graph, self)),)


def rule_aten_argsort_stable(graph: Graph, self: Result, *, stable: Bool, dim: Int = -1, descending: Bool = False) -> Rules:
    return ((int64, shape_or_none(graph, self)),)


def rule_aten_bucketize_Scalar(graph: Graph, self: Scalar, boundaries: Result, *, out_int32: Bool = False, right: Bool = False) -> Rules:
    return ((int32 if out_int32 else int64, scalar_shape()),)


def rule_aten_bucketize_Tensor(graph: Graph, self: Result, boundaries: Result, *, out_int32: Bool = False, right: Bool = False) -> Rules:
    return ((int32 if out_int32 else int64, shape_or_none(graph, self)),)


def rule_aten_kthvalue(graph: Graph, self: Result, k: SymInt, dim: Int = -1, keepdim: Bool = False) -> Rules:
    return ((dtype_or_none(graph, self), reduce_shape(shape_or_none(graph, self), dim, keepdim)), (int64, reduce_shape(shape_or_none(graph, self), dim, keepdim)),)


def rule_aten_msort(graph: Graph, self: Result) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_searchsorted_Scalar(graph: Graph, sorted_sequence: Result, self: Scalar, *, out_int32: Bool = False, right: Bool = False, side: Str | None = None, sorter: Result | None = None) -> Rules:
    return ((int32 if out_int32 else int64, scalar_shape()),)


def rule_aten_searchsorted_Tensor(graph: Graph, sorted_sequence: Result, self: Result, *, out_int32: Bool = False, right: Bool = False, side: Str | None = None, sorter: Result | None = None) -> Rules:
    return ((int32 if out_int32 else int64, shape_or_none(graph, self)),)


def rule_aten_sort(graph: Graph, self: Result, dim: Int = -1, descending: Bool = False) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)), (int64, shape_or_none(graph, self)),)


def rule_aten_sort_stable(graph: Graph, self: Result, *, stable: Bool | None, dim: Int = -1, descending: Bool = False) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)), (int64, shape_or_none(graph, self)),)


def rule_aten_topk(graph: Graph, self: Result, k: SymInt, dim: Int = -1, largest: Bool = True, sorted: Bool = True) -> Rules:
    return ((dtype_or_none(graph, self), None), (int64, None),)
