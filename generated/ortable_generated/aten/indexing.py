# Generated from specs/aten/indexing.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.dispatch import DataCheck
from ortable.dtypes import bfloat16, boolean, float32, int32, int64, uint8
from ortable.lowerings.complex.parts import each_part
from ortable.lowerings.indexing import index_put, index_tensor, index_tensors, indexed_axes
from ortable.lowerings.shapes import broadcast_except, broadcast_to_common
from ortable.prelude.complex_arithmetic import c_truth
from ortable.prelude.facts import axis_of, count_of, differs, dim_of, dtype_of, is_int, rank_of, shape_of
from ortable.prelude.indexing import nonzero_rows
from ortable.prelude.metadata import dtype_or_none, shape_or_none
from ortable.prelude.shapes import as_flat, expanded, iota
from ortable.prelude.values import as_scalar, as_vec, at_least_1d, cast, const, filled, reshape_to, with_rank_of

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Bool, Int, Result, Results, SymInt


def aten__unsafe_index_Tensor(graph: Graph, res: ResultSpec, self: Result, indices: Results) -> Result:
    """aten::_unsafe_index.Tensor(Tensor self, Tensor?[] indices) -> Tensor"""
    return aten_index_Tensor(graph, res, self=self, indices=indices)


def aten__unsafe_index_put(graph: Graph, res: ResultSpec, self: Result, indices: Results, values: Result, accumulate: Bool = False) -> Result:
    """aten::_unsafe_index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor"""
    return aten_index_put(graph, res, self=self, indices=indices, values=values, accumulate=accumulate)


def aten_argwhere(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::argwhere(Tensor self) -> Tensor"""
    graph.case = 1
    return nonzero_rows(graph, self)


def aten_embedding(graph: Graph, res: ResultSpec, weight: Result, indices: Result, padding_idx: SymInt = -1, scale_grad_by_freq: Bool = False, sparse: Bool = False) -> Result:
    """aten::embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, bool sparse=False) -> Tensor"""
    return graph.make_node('Gather', [weight, indices], res.outputs, axis=0)


def aten_gather(graph: Graph, res: ResultSpec, self: Result, dim: Int, index: Result, *, sparse_grad: Bool = False) -> Result:
    """aten::gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor"""
    if differs(max(rank_of(graph, index), 1), max(rank_of(graph, self), 1)):
        # torch takes another rank where the index has no elements
        graph.case = 1
        return filled(graph, shape_of(graph, index), 0, dtype_of(graph, self))
    graph.case = 2
    indices = cast(graph, at_least_1d(graph, index), int32 if dtype_of(graph, index) == int32 else int64)
    result = graph.make_node('GatherElements', [at_least_1d(graph, self), indices], axis=axis_of(graph, self, dim))
    return with_rank_of(graph, result, index)


def aten_index_Tensor(graph: Graph, res: ResultSpec, self: Result, indices: Results) -> Result:
    """aten::index.Tensor(Tensor self, Tensor?[] indices) -> Tensor"""
    places = [at for at, index in enumerate(indices) if index is not None]
    axis = places[0] if len(places) == 1 else -1
    if axis >= 0 and is_int(graph, indices[axis]) and (dtype_of(graph, indices[axis]) != uint8):
        graph.case = 1
        places = indices[axis]
        places = cast(graph, places, int32 if dtype_of(graph, places) == int32 else int64)
        return graph.make_node('Gather', [self, places], res.outputs, axis=axis)
    graph.case = 2
    return index_tensor(graph, res, self=self, indices=indices)


def aten_index_put(graph: Graph, res: ResultSpec, self: Result, indices: Results, values: Result, accumulate: Bool = False) -> Result:
    """aten::index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor"""
    return index_put(graph, res, self=self, indices=indices, values=values, accumulate=accumulate)


def aten_index_select(graph: Graph, res: ResultSpec, self: Result, dim: Int, index: Result) -> Result:
    """aten::index_select(Tensor self, int dim, Tensor index) -> Tensor"""
    if rank_of(graph, self) == 0:
        graph.case = 1
        return self
    graph.case = 2
    return graph.make_node('Gather', [self, at_least_1d(graph, index)], res.outputs, axis=axis_of(graph, self, dim))


def aten_masked_select(graph: Graph, res: ResultSpec, self: Result, mask: Result) -> Result:
    """aten::masked_select(Tensor self, Tensor mask) -> Tensor"""
    dtype = float32 if dtype_of(graph, self) == bfloat16 else dtype_of(graph, self)
    values = at_least_1d(graph, broadcast_to_common(graph, cast(graph, self, dtype), mask))
    return cast(graph, graph.make_node('Compress', [values, reshape_to(graph, broadcast_to_common(graph, mask, self), [-1])]), dtype_of(graph, self))


def aten_nonzero(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::nonzero(Tensor self) -> Tensor"""
    graph.case = 1
    return nonzero_rows(graph, self)


def aten_nonzero_numpy(graph: Graph, res: ResultSpec, self: Result) -> Any:
    """aten::nonzero_numpy(Tensor self) -> Tensor[]"""
    graph.case = 1
    places = graph.make_node('NonZero', [cast(graph, at_least_1d(graph, self), boolean)])
    return [graph.make_node('Gather', [places, const(graph, i, int64)], axis=0) for i in range(max(rank_of(graph, self), 1))]


def aten_one_hot(graph: Graph, res: ResultSpec, self: Result, num_classes: Int = -1) -> Result:
    """aten::one_hot(Tensor self, int num_classes=-1) -> Tensor"""
    if num_classes >= 0:
        graph.case = 1
        return graph.make_node('Cast', [graph.make_node('Equal', [graph.make_node('Unsqueeze', [self, as_vec(graph, -1)]), iota(graph, 0, num_classes, 1)])], res.outputs, to=int64)
    # the classes are counted from 0 to the largest one
    graph.case = 2
    count = graph.make_node('Add', [graph.make_node('ReduceMax', [self], keepdims=0), const(graph, 1, int64)])
    classes = graph.make_node('Range', [const(graph, 0, int64), count, const(graph, 1, int64)])
    return graph.make_node('Cast', [graph.make_node('Equal', [graph.make_node('Unsqueeze', [self, as_vec(graph, -1)]), classes])], res.outputs, to=int64)


def aten_take(graph: Graph, res: ResultSpec, self: Result, index: Result) -> Result:
    """aten::take(Tensor self, Tensor index) -> Tensor"""
    return graph.make_node('Gather', [as_flat(graph, self), index], res.outputs)


def aten_take_along_dim(graph: Graph, res: ResultSpec, self: Result, indices: Result, dim: Int | None = None) -> Result:
    """aten::take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor"""
    if dim is None:
        graph.case = 1
        return graph.make_node('GatherElements', [as_flat(graph, self), as_flat(graph, indices)], res.outputs, axis=0)
    graph.case = 2
    axis = axis_of(graph, self, dim)
    size = as_scalar(graph, dim_of(graph, self, axis))
    divisor = size if dim_of(graph, self, axis) >= 1 else graph.make_node('Max', [size, const(graph, 1, int64)])
    inside = graph.make_node('Mod', [cast(graph, indices, int64), divisor])
    source = expanded(graph, self, broadcast_except(graph, self, indices, axis))
    return graph.make_node('GatherElements', [source, expanded(graph, inside, broadcast_except(graph, inside, self, axis))], res.outputs, axis=axis)


def aten_where(graph: Graph, res: ResultSpec, condition: Result) -> Any:
    """aten::where(Tensor condition) -> Tensor[]"""
    graph.case = 1
    places = graph.make_node('NonZero', [cast(graph, at_least_1d(graph, condition), boolean)])
    return [graph.make_node('Gather', [places, const(graph, i, int64)], axis=0) for i in range(max(rank_of(graph, condition), 1))]


def check_aten_embedding(graph: Graph, weight: Result, indices: Result, padding_idx: SymInt = -1, scale_grad_by_freq: Bool = False, sparse: Bool = False) -> list[DataCheck]:
    return [
        DataCheck(indices, 0, dim_of(graph, weight, 0), 'IndexError', 'index out of range in self', None),
    ]


def check_aten_gather(graph: Graph, self: Result, dim: Int, index: Result, *, sparse_grad: Bool = False) -> list[DataCheck]:
    return [
        DataCheck(index, 0, dim_of(graph, self, dim), 'RuntimeError', 'index {value} is out of bounds for dimension {axis} with size {high}', axis_of(graph, self, dim)),
    ]


def check_aten_index_Tensor(graph: Graph, self: Result, indices: Results) -> list[DataCheck]:
    return [
        DataCheck(index_tensors(graph, indices), [-dim_of(graph, self, at) for at in indexed_axes(graph, indices)], [dim_of(graph, self, at) for at in indexed_axes(graph, indices)], 'IndexError', 'index {value} is out of bounds for dimension {axis} with size {high}', indexed_axes(graph, indices)),
    ]


def check_aten_index_put(graph: Graph, self: Result, indices: Results, values: Result, accumulate: Bool = False) -> list[DataCheck]:
    return [
        DataCheck(index_tensors(graph, indices), [-dim_of(graph, self, at) for at in indexed_axes(graph, indices)], [dim_of(graph, self, at) for at in indexed_axes(graph, indices)], 'IndexError', 'index {value} is out of bounds for dimension {axis} with size {high}', indexed_axes(graph, indices)),
    ]


def check_aten_index_select(graph: Graph, self: Result, dim: Int, index: Result) -> list[DataCheck]:
    return [
        *([DataCheck(index, 0, dim_of(graph, self, dim), 'IndexError', 'index out of range in self', None)] if rank_of(graph, self) < 2 or differs(axis_of(graph, self, dim), 1) else []),
        *([DataCheck(index, 0, dim_of(graph, self, dim), 'RuntimeError', 'INDICES element is out of DATA bounds, id={value} axis_dim={high}', None)] if rank_of(graph, self) > 1 and axis_of(graph, self, dim) == 1 else []),
    ]


def check_aten_one_hot(graph: Graph, self: Result, num_classes: Int = -1) -> list[DataCheck]:
    return [
        DataCheck(self, 0, None, 'RuntimeError', 'Class values must be non-negative.', None),
        *([DataCheck(self, None, num_classes, 'RuntimeError', 'Class values must be smaller than num_classes.', None)] if num_classes > 0 else []),
    ]


def check_aten_take(graph: Graph, self: Result, index: Result) -> list[DataCheck]:
    return [
        DataCheck(index, -count_of(graph, self), count_of(graph, self), 'IndexError', 'out of range: tried to access index {value} on a tensor of {high} elements.', None),
    ]


def complex_aten__unsafe_index_Tensor(graph: Graph, res: ResultSpec, self: Result, indices: Results) -> Result:
    """aten::_unsafe_index.Tensor(Tensor self, Tensor?[] indices) -> Tensor"""
    return complex_aten_index_Tensor(graph, res, self=self, indices=indices)


def complex_aten__unsafe_index_put(graph: Graph, res: ResultSpec, self: Result, indices: Results, values: Result, accumulate: Bool = False) -> Result:
    """aten::_unsafe_index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor"""
    return complex_aten_index_put(graph, res, self=self, indices=indices, values=values, accumulate=accumulate)


def complex_aten_argwhere(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::argwhere(Tensor self) -> Tensor"""
    graph.case = 2
    return nonzero_rows(graph, c_truth(graph, self))


def complex_aten_embedding(graph: Graph, res: ResultSpec, weight: Result, indices: Result, padding_idx: SymInt = -1, scale_grad_by_freq: Bool = False, sparse: Bool = False) -> Result:
    """aten::embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, bool sparse=False) -> Tensor"""
    return each_part(graph, res, aten_embedding, {'weight': weight}, indices=indices, padding_idx=padding_idx, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)


def complex_aten_gather(graph: Graph, res: ResultSpec, self: Result, dim: Int, index: Result, *, sparse_grad: Bool = False) -> Result:
    """aten::gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor"""
    return each_part(graph, res, aten_gather, {'self': self}, dim=dim, index=index, sparse_grad=sparse_grad)


def complex_aten_index_Tensor(graph: Graph, res: ResultSpec, self: Result, indices: Results) -> Result:
    """aten::index.Tensor(Tensor self, Tensor?[] indices) -> Tensor"""
    return each_part(graph, res, aten_index_Tensor, {'self': self}, indices=indices)


def complex_aten_index_put(graph: Graph, res: ResultSpec, self: Result, indices: Results, values: Result, accumulate: Bool = False) -> Result:
    """aten::index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor"""
    return each_part(graph, res, aten_index_put, {'self': self, 'values': values}, indices=indices, accumulate=accumulate)


def complex_aten_index_select(graph: Graph, res: ResultSpec, self: Result, dim: Int, index: Result) -> Result:
    """aten::index_select(Tensor self, int dim, Tensor index) -> Tensor"""
    return each_part(graph, res, aten_index_select, {'self': self}, dim=dim, index=index)


def complex_aten_masked_select(graph: Graph, res: ResultSpec, self: Result, mask: Result) -> Result:
    """aten::masked_select(Tensor self, Tensor mask) -> Tensor"""
    return each_part(graph, res, aten_masked_select, {'self': self}, mask=mask)


def complex_aten_nonzero(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::nonzero(Tensor self) -> Tensor"""
    graph.case = 2
    return nonzero_rows(graph, c_truth(graph, self))


def complex_aten_nonzero_numpy(graph: Graph, res: ResultSpec, self: Result) -> Any:
    """aten::nonzero_numpy(Tensor self) -> Tensor[]"""
    graph.case = 2
    places = graph.make_node('NonZero', [at_least_1d(graph, c_truth(graph, self))])
    return [graph.make_node('Gather', [places, const(graph, i, int64)], axis=0) for i in range(max(rank_of(graph, self), 1))]


def complex_aten_take(graph: Graph, res: ResultSpec, self: Result, index: Result) -> Result:
    """aten::take(Tensor self, Tensor index) -> Tensor"""
    return each_part(graph, res, aten_take, {'self': self}, index=index)


def complex_aten_take_along_dim(graph: Graph, res: ResultSpec, self: Result, indices: Result, dim: Int | None = None) -> Result:
    """aten::take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor"""
    return each_part(graph, res, aten_take_along_dim, {'self': self}, indices=indices, dim=dim)


def complex_aten_where(graph: Graph, res: ResultSpec, condition: Result) -> Any:
    """aten::where(Tensor condition) -> Tensor[]"""
    graph.case = 2
    places = graph.make_node('NonZero', [at_least_1d(graph, c_truth(graph, condition))])
    return [graph.make_node('Gather', [places, const(graph, i, int64)], axis=0) for i in range(max(rank_of(graph, condition), 1))]


def rule_aten__unsafe_index_Tensor(graph: Graph, self: Result, indices: Results) -> Rules:
    return rule_aten_index_Tensor(graph, self=self, indices=indices)


def rule_aten__unsafe_index_put(graph: Graph, self: Result, indices: Results, values: Result, accumulate: Bool = False) -> Rules:
    return rule_aten_index_put(graph, self=self, indices=indices, values=values, accumulate=accumulate)


def rule_aten_argwhere(graph: Graph, self: Result) -> Rules:
    return ((int64, None),)


def rule_aten_embedding(graph: Graph, weight: Result, indices: Result, padding_idx: SymInt = -1, scale_grad_by_freq: Bool = False, sparse: Bool = False) -> Rules:
    return ((dtype_or_none(graph, weight), None),)


def rule_aten_gather(graph: Graph, self: Result, dim: Int, index: Result, *, sparse_grad: Bool = False) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, index)),)


def rule_aten_index_Tensor(graph: Graph, self: Result, indices: Results) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_index_put(graph: Graph, self: Result, indices: Results, values: Result, accumulate: Bool = False) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_index_select(graph: Graph, self: Result, dim: Int, index: Result) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_masked_select(graph: Graph, self: Result, mask: Result) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_nonzero(graph: Graph, self: Result) -> Rules:
    return ((int64, None),)


def rule_aten_nonzero_numpy(graph: Graph, self: Result) -> Rules:
    return ((int64, None),)


def rule_aten_one_hot(graph: Graph, self: Result, num_classes: Int = -1) -> Rules:
    return ((int64, None),)


def rule_aten_take(graph: Graph, self: Result, index: Result) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, index)),)


def rule_aten_take_along_dim(graph: Graph, self: Result, indices: Result, dim: Int | None = None) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_where(graph: Graph, condition: Result) -> Rules:
    return ((int64, None),)
