# Generated from specs/aten/shape.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.errors import UnsupportedCase
from ortable.inference import permute_shape, reduce_shape
from ortable.lowerings.bits import bits_as, casts_keep_bits, is_float8
from ortable.lowerings.complex.parts import each_part
from ortable.lowerings.shapes import common_sizes, unflat_sizes
from ortable.lowerings.views import as_strided
from ortable.prelude.complex_arithmetic import part_dtype
from ortable.prelude.facts import axes_of, axis_of, dim_of, dtype_of, is_complex, maximum, minimum, rank_of, shape_of, transpose_perm
from ortable.prelude.indexing import window_indices
from ortable.prelude.metadata import dtype_or_none, given_shape, shape_or_none, swap_dims
from ortable.prelude.operators import call_operator
from ortable.prelude.shapes import expanded, expanded_sizes, flat_sizes, other_axes, sliced, wrapped_index
from ortable.prelude.values import as_scalar, as_vec, permuted, reshape_to, squeezed
from ortable_generated.aten import dispatch

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Bool, Dtype, Int, Ints, Result, Results, SymInt, SymInts


def aten__reshape_alias(graph: Graph, res: ResultSpec, self: Result, size: SymInts, stride: SymInts) -> Result:
    """aten::_reshape_alias(Tensor(a) self, SymInt[] size, SymInt[] stride) -> Tensor(a)"""
    return aten_view(graph, res, self=self, size=size)


def aten__unsafe_view(graph: Graph, res: ResultSpec, self: Result, size: SymInts) -> Result:
    """aten::_unsafe_view(Tensor self, SymInt[] size) -> Tensor"""
    return aten_view(graph, res, self=self, size=size)


def aten_alias(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::alias(Tensor(a) self) -> Tensor(a)"""
    return self


def aten_as_strided(graph: Graph, res: ResultSpec, self: Result, size: SymInts, stride: SymInts, storage_offset: SymInt | None = None) -> Result:
    """aten::as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor(a)"""
    return as_strided(graph, res, self=self, size=size, stride=stride, storage_offset=storage_offset)


def aten_broadcast_tensors(graph: Graph, res: ResultSpec, tensors: Results) -> Any:
    """aten::broadcast_tensors(Tensor[] tensors) -> Tensor[]"""
    return [expanded(graph, t, common_sizes(graph, tensors)) for t in tensors]


def aten_broadcast_to(graph: Graph, res: ResultSpec, self: Result, size: SymInts) -> Result:
    """aten::broadcast_to(Tensor(a) self, SymInt[] size) -> Tensor(a)"""
    return aten_expand(graph, res, self=self, size=size, implicit=False)


def aten_diagonal(graph: Graph, res: ResultSpec, self: Result, offset: Int = 0, dim1: Int = 0, dim2: Int = 1) -> Result:
    """aten::diagonal(Tensor(a) self, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)"""
    row = axis_of(graph, self, dim1)
    column = axis_of(graph, self, dim2)
    width = dim_of(graph, self, dim2)
    size = maximum(minimum(dim_of(graph, self, row) + min(offset, 0), width - max(offset, 0)), 0)
    transposed = permuted(graph, self, [*other_axes(rank_of(graph, self), [row, column]), row, column])
    others = [dim_of(graph, self, axis) for axis in other_axes(rank_of(graph, self), [row, column])]
    row_major = reshape_to(graph, transposed, [*others, dim_of(graph, self, row) * width])
    start = offset if offset >= 0 else -offset * width
    end = as_vec(graph, start + size * (width + 1))
    return graph.make_node('Slice', [row_major, as_vec(graph, start), end, as_vec(graph, -1), as_vec(graph, width + 1)], res.outputs)


def aten_expand(graph: Graph, res: ResultSpec, self: Result, size: SymInts, *, implicit: Bool = False) -> Result:
    """aten::expand(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)"""
    return expanded(graph, self, expanded_sizes(graph, self, size))


def aten_expand_as(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::expand_as(Tensor(a) self, Tensor other) -> Tensor(a)"""
    return expanded(graph, self, shape_of(graph, other))


def aten_flatten_using_ints(graph: Graph, res: ResultSpec, self: Result, start_dim: Int = 0, end_dim: Int = -1) -> Result:
    """aten::flatten.using_ints(Tensor(a) self, int start_dim=0, int end_dim=-1) -> Tensor(a)"""
    return reshape_to(graph, self, flat_sizes(graph, self, start_dim, end_dim))


def aten_lift_fresh_copy(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::lift_fresh_copy(Tensor self) -> Tensor"""
    return aten_alias(graph, res, self=self)


def aten_narrow(graph: Graph, res: ResultSpec, self: Result, dim: Int, start: SymInt, length: SymInt) -> Result:
    """aten::narrow(Tensor(a) self, int dim, SymInt start, SymInt length) -> Tensor(a)"""
    first = wrapped_index(start, dim_of(graph, self, dim))
    return sliced(graph, self, axis_of(graph, self, dim), first, first + length)


def aten_permute(graph: Graph, res: ResultSpec, self: Result, dims: Ints) -> Result:
    """aten::permute(Tensor(a) self, int[] dims) -> Tensor(a)"""
    return permuted(graph, self, [axis_of(graph, self, d) for d in dims])


def aten_reshape(graph: Graph, res: ResultSpec, self: Result, shape: SymInts) -> Result:
    """aten::reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)"""
    return reshape_to(graph, self, shape)


def aten_reshape_as(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::reshape_as(Tensor(a) self, Tensor other) -> Tensor(a)"""
    return reshape_to(graph, self, shape_of(graph, other))


def aten_select_int(graph: Graph, res: ResultSpec, self: Result, dim: Int, index: SymInt) -> Result:
    """aten::select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)"""
    return graph.make_node('Gather', [self, as_scalar(graph, index)], res.outputs, axis=axis_of(graph, self, dim))


def aten_slice_Tensor(graph: Graph, res: ResultSpec, self: Result, dim: Int = 0, start: SymInt | None = None, end: SymInt | None = None, step: SymInt = 1) -> Result:
    """aten::slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor(a)"""
    axis = axis_of(graph, self, dim)
    first = 0 if start is None else start
    if end is None:
        graph.case = 1
        return sliced(graph, self, axis, first, 9223372036854775807, step)
    graph.case = 2
    return sliced(graph, self, axis, first, end, step)


def aten_squeeze(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::squeeze(Tensor(a) self) -> Tensor(a)"""
    return squeezed(graph, self, [a for a in range(rank_of(graph, self)) if dim_of(graph, self, a) == 1])


def aten_squeeze_dim(graph: Graph, res: ResultSpec, self: Result, dim: Int) -> Result:
    """aten::squeeze.dim(Tensor(a) self, int dim) -> Tensor(a)"""
    return squeezed(graph, self, [a for a in axes_of(graph, self, dim) if dim_of(graph, self, a) == 1])


def aten_squeeze_dims(graph: Graph, res: ResultSpec, self: Result, dim: Ints) -> Result:
    """aten::squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a)"""
    if len(dim) == 0:
        graph.case = 1
        return self
    graph.case = 2
    return squeezed(graph, self, [a for a in axes_of(graph, self, dim) if dim_of(graph, self, a) == 1])


def aten_swapaxes(graph: Graph, res: ResultSpec, self: Result, axis0: Int, axis1: Int) -> Result:
    """aten::swapaxes(Tensor(a) self, int axis0, int axis1) -> Tensor(a)"""
    return aten_transpose_int(graph, res, self=self, dim0=axis0, dim1=axis1)


def aten_swapdims(graph: Graph, res: ResultSpec, self: Result, dim0: Int, dim1: Int) -> Result:
    """aten::swapdims(Tensor(a) self, int dim0, int dim1) -> Tensor(a)"""
    return aten_transpose_int(graph, res, self=self, dim0=dim0, dim1=dim1)


def aten_t(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::t(Tensor(a) self) -> Tensor(a)"""
    return permuted(graph, self, list(reversed(range(rank_of(graph, self)))))


def aten_transpose_int(graph: Graph, res: ResultSpec, self: Result, dim0: Int, dim1: Int) -> Result:
    """aten::transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)"""
    return permuted(graph, self, transpose_perm(rank_of(graph, self), dim0, dim1))


def aten_unflatten_int(graph: Graph, res: ResultSpec, self: Result, dim: Int, sizes: SymInts) -> Result:
    """aten::unflatten.int(Tensor(a) self, int dim, SymInt[] sizes) -> Tensor(a)"""
    return reshape_to(graph, self, unflat_sizes(graph, self, dim, sizes))


def aten_unfold(graph: Graph, res: ResultSpec, self: Result, dimension: Int, size: Int, step: Int) -> Result:
    """aten::unfold(Tensor(a) self, int dimension, int size, int step) -> Tensor(a)"""
    axis = axis_of(graph, self, dimension)
    rank = rank_of(graph, self)
    if rank == 0:
        graph.case = 1
        return reshape_to(graph, self, [size])
    graph.case = 2
    count = (dim_of(graph, self, axis) - size) // step + 1
    windows = graph.make_node('Gather', [self, window_indices(graph, count, size, step, 1)], axis=axis)
    return permuted(graph, windows, [*other_axes(rank + 1, [axis + 1]), axis + 1])


def aten_unsqueeze(graph: Graph, res: ResultSpec, self: Result, dim: Int) -> Result:
    """aten::unsqueeze(Tensor(a) self, int dim) -> Tensor(a)"""
    return graph.make_node('Unsqueeze', [self, as_vec(graph, dim)], res.outputs)


def aten_view(graph: Graph, res: ResultSpec, self: Result, size: SymInts) -> Result:
    """aten::view(Tensor(a) self, SymInt[] size) -> Tensor(a)"""
    return reshape_to(graph, self, size)


def aten_view_as(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::view_as(Tensor(a) self, Tensor other) -> Tensor(a)"""
    return aten_reshape_as(graph, res, self=self, other=other)


def aten_view_dtype(graph: Graph, res: ResultSpec, self: Result, dtype: Dtype) -> Result:
    """aten::view.dtype(Tensor(a) self, ScalarType dtype) -> Tensor(a)"""
    if dtype_of(graph, self) == dtype:
        graph.case = 1
        return self
    if is_float8(dtype_of(graph, self)) or is_float8(dtype):
        graph.case = 2
        raise UnsupportedCase('aten::view.dtype: the bits of 8-bit floats, which no operator of ONNX Runtime reads')
    if casts_keep_bits(graph, self, dtype):
        graph.case = 3
        return bits_as(graph, self, dtype)
    if graph.opset >= 26:
        graph.case = 4
        return bits_as(graph, self, dtype)
    graph.case = 5
    raise UnsupportedCase('aten::view.dtype: the bits of floats read as another dtype, which ONNX has from opset 26 only (BitCast)')


def complex_aten__reshape_alias(graph: Graph, res: ResultSpec, self: Result, size: SymInts, stride: SymInts) -> Result:
    """aten::_reshape_alias(Tensor(a) self, SymInt[] size, SymInt[] stride) -> Tensor(a)"""
    return complex_aten_view(graph, res, self=self, size=size)


def complex_aten__unsafe_view(graph: Graph, res: ResultSpec, self: Result, size: SymInts) -> Result:
    """aten::_unsafe_view(Tensor self, SymInt[] size) -> Tensor"""
    return complex_aten_view(graph, res, self=self, size=size)


def complex_aten_alias(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::alias(Tensor(a) self) -> Tensor(a)"""
    return each_part(graph, res, aten_alias, {'self': self})


def complex_aten_as_strided(graph: Graph, res: ResultSpec, self: Result, size: SymInts, stride: SymInts, storage_offset: SymInt | None = None) -> Result:
    """aten::as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor(a)"""
    return each_part(graph, res, aten_as_strided, {'self': self}, size=size, stride=stride, storage_offset=storage_offset)


def complex_aten_broadcast_tensors(graph: Graph, res: ResultSpec, tensors: Results) -> Any:
    """aten::broadcast_tensors(Tensor[] tensors) -> Tensor[]"""
    return each_part(graph, res, aten_broadcast_tensors, {'tensors': tensors})


def complex_aten_broadcast_to(graph: Graph, res: ResultSpec, self: Result, size: SymInts) -> Result:
    """aten::broadcast_to(Tensor(a) self, SymInt[] size) -> Tensor(a)"""
    return complex_aten_expand(graph, res, self=self, size=size, implicit=False)


def complex_aten_diagonal(graph: Graph, res: ResultSpec, self: Result, offset: Int = 0, dim1: Int = 0, dim2: Int = 1) -> Result:
    """aten::diagonal(Tensor(a) self, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)"""
    return each_part(graph, res, aten_diagonal, {'self': self}, offset=offset, dim1=dim1, dim2=dim2)


def complex_aten_expand(graph: Graph, res: ResultSpec, self: Result, size: SymInts, *, implicit: Bool = False) -> Result:
    """aten::expand(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)"""
    return each_part(graph, res, aten_expand, {'self': self}, size=size, implicit=implicit)


def complex_aten_expand_as(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::expand_as(Tensor(a) self, Tensor other) -> Tensor(a)"""
    return each_part(graph, res, aten_expand_as, {'self': self}, other=other)


def complex_aten_flatten_using_ints(graph: Graph, res: ResultSpec, self: Result, start_dim: Int = 0, end_dim: Int = -1) -> Result:
    """aten::flatten.using_ints(Tensor(a) self, int start_dim=0, int end_dim=-1) -> Tensor(a)"""
    return each_part(graph, res, aten_flatten_using_ints, {'self': self}, start_dim=start_dim, end_dim=end_dim)


def complex_aten_lift_fresh_copy(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::lift_fresh_copy(Tensor self) -> Tensor"""
    return complex_aten_alias(graph, res, self=self)


def complex_aten_narrow(graph: Graph, res: ResultSpec, self: Result, dim: Int, start: SymInt, length: SymInt) -> Result:
    """aten::narrow(Tensor(a) self, int dim, SymInt start, SymInt length) -> Tensor(a)"""
    return each_part(graph, res, aten_narrow, {'self': self}, dim=dim, start=start, length=length)


def complex_aten_permute(graph: Graph, res: ResultSpec, self: Result, dims: Ints) -> Result:
    """aten::permute(Tensor(a) self, int[] dims) -> Tensor(a)"""
    return each_part(graph, res, aten_permute, {'self': self}, dims=dims)


def complex_aten_reshape(graph: Graph, res: ResultSpec, self: Result, shape: SymInts) -> Result:
    """aten::reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)"""
    return each_part(graph, res, aten_reshape, {'self': self}, shape=shape)


def complex_aten_reshape_as(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::reshape_as(Tensor(a) self, Tensor other) -> Tensor(a)"""
    return each_part(graph, res, aten_reshape_as, {'self': self}, other=other)


def complex_aten_select_int(graph: Graph, res: ResultSpec, self: Result, dim: Int, index: SymInt) -> Result:
    """aten::select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)"""
    return each_part(graph, res, aten_select_int, {'self': self}, dim=dim, index=index)


def complex_aten_slice_Tensor(graph: Graph, res: ResultSpec, self: Result, dim: Int = 0, start: SymInt | None = None, end: SymInt | None = None, step: SymInt = 1) -> Result:
    """aten::slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor(a)"""
    return each_part(graph, res, aten_slice_Tensor, {'self': self}, dim=dim, start=start, end=end, step=step)


def complex_aten_squeeze(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::squeeze(Tensor(a) self) -> Tensor(a)"""
    return each_part(graph, res, aten_squeeze, {'self': self})


def complex_aten_squeeze_dim(graph: Graph, res: ResultSpec, self: Result, dim: Int) -> Result:
    """aten::squeeze.dim(Tensor(a) self, int dim) -> Tensor(a)"""
    return each_part(graph, res, aten_squeeze_dim, {'self': self}, dim=dim)


def complex_aten_squeeze_dims(graph: Graph, res: ResultSpec, self: Result, dim: Ints) -> Result:
    """aten::squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a)"""
    return each_part(graph, res, aten_squeeze_dims, {'self': self}, dim=dim)


def complex_aten_swapaxes(graph: Graph, res: ResultSpec, self: Result, axis0: Int, axis1: Int) -> Result:
    """aten::swapaxes(Tensor(a) self, int axis0, int axis1) -> Tensor(a)"""
    return complex_aten_transpose_int(graph, res, self=self, dim0=axis0, dim1=axis1)


def complex_aten_swapdims(graph: Graph, res: ResultSpec, self: Result, dim0: Int, dim1: Int) -> Result:
    """aten::swapdims(Tensor(a) self, int dim0, int dim1) -> Tensor(a)"""
    return complex_aten_transpose_int(graph, res, self=self, dim0=dim0, dim1=dim1)


def complex_aten_t(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::t(Tensor(a) self) -> Tensor(a)"""
    return each_part(graph, res, aten_t, {'self': self})


def complex_aten_transpose_int(graph: Graph, res: ResultSpec, self: Result, dim0: Int, dim1: Int) -> Result:
    """aten::transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)"""
    return each_part(graph, res, aten_transpose_int, {'self': self}, dim0=dim0, dim1=dim1)


def complex_aten_unflatten_int(graph: Graph, res: ResultSpec, self: Result, dim: Int, sizes: SymInts) -> Result:
    """aten::unflatten.int(Tensor(a) self, int dim, SymInt[] sizes) -> Tensor(a)"""
    return each_part(graph, res, aten_unflatten_int, {'self': self}, dim=dim, sizes=sizes)


def complex_aten_unfold(graph: Graph, res: ResultSpec, self: Result, dimension: Int, size: Int, step: Int) -> Result:
    """aten::unfold(Tensor(a) self, int dimension, int size, int step) -> Tensor(a)"""
    return each_part(graph, res, aten_unfold, {'self': self}, dimension=dimension, size=size, step=step)


def complex_aten_unsqueeze(graph: Graph, res: ResultSpec, self: Result, dim: Int) -> Result:
    """aten::unsqueeze(Tensor(a) self, int dim) -> Tensor(a)"""
    return each_part(graph, res, aten_unsqueeze, {'self': self}, dim=dim)


def complex_aten_view(graph: Graph, res: ResultSpec, self: Result, size: SymInts) -> Result:
    """aten::view(Tensor(a) self, SymInt[] size) -> Tensor(a)"""
    return each_part(graph, res, aten_view, {'self': self}, size=size)


def complex_aten_view_as(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::view_as(Tensor(a) self, Tensor other) -> Tensor(a)"""
    return complex_aten_reshape_as(graph, res, self=self, other=other)


def complex_aten_view_dtype(graph: Graph, res: ResultSpec, self: Result, dtype: Dtype) -> Result:
    """aten::view.dtype(Tensor(a) self, ScalarType dtype) -> Tensor(a)"""
    if dtype_of(graph, self) == dtype:
        graph.case = 6
        return self
    if dtype == part_dtype(dtype_of(graph, self)) and is_complex(graph, self):
        graph.case = 7
        return reshape_to(graph, call_operator(graph, dispatch, 'aten::view_as_real', self), [*shape_of(graph, self)[:-1], dim_of(graph, self, -1) * 2])
    graph.case = 8
    raise UnsupportedCase('aten::view.dtype: the bits of other dtypes')


def rule_aten__reshape_alias(graph: Graph, self: Result, size: SymInts, stride: SymInts) -> Rules:
    return rule_aten_view(graph, self=self, size=size)


def rule_aten__unsafe_view(graph: Graph, self: Result, size: SymInts) -> Rules:
    return rule_aten_view(graph, self=self, size=size)


def rule_aten_alias(graph: Graph, self: Result) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_as_strided(graph: Graph, self: Result, size: SymInts, stride: SymInts, storage_offset: SymInt | None = None) -> Rules:
    return ((dtype_or_none(graph, self), given_shape(size)),)


def rule_aten_broadcast_tensors(graph: Graph, tensors: Results) -> Rules:
    return ((dtype_or_none(graph, tensors), None),)


def rule_aten_broadcast_to(graph: Graph, self: Result, size: SymInts) -> Rules:
    return rule_aten_expand(graph, self=self, size=size, implicit=False)


def rule_aten_diagonal(graph: Graph, self: Result, offset: Int = 0, dim1: Int = 0, dim2: Int = 1) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_expand(graph: Graph, self: Result, size: SymInts, *, implicit: Bool = False) -> Rules:
    return ((dtype_or_none(graph, self), given_shape(expanded_sizes(graph, self, size))),)


def rule_aten_expand_as(graph: Graph, self: Result, other: Result) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, other)),)


def rule_aten_flatten_using_ints(graph: Graph, self: Result, start_dim: Int = 0, end_dim: Int = -1) -> Rules:
    return ((dtype_or_none(graph, self), given_shape(flat_sizes(graph, self, start_dim, end_dim))),)


def rule_aten_lift_fresh_copy(graph: Graph, self: Result) -> Rules:
    return rule_aten_alias(graph, self=self)


def rule_aten_narrow(graph: Graph, self: Result, dim: Int, start: SymInt, length: SymInt) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_permute(graph: Graph, self: Result, dims: Ints) -> Rules:
    return ((dtype_or_none(graph, self), permute_shape(shape_or_none(graph, self), dims)),)


def rule_aten_reshape(graph: Graph, self: Result, shape: SymInts) -> Rules:
    return ((dtype_or_none(graph, self), given_shape(shape)),)


def rule_aten_reshape_as(graph: Graph, self: Result, other: Result) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, other)),)


def rule_aten_select_int(graph: Graph, self: Result, dim: Int, index: SymInt) -> Rules:
    return ((dtype_or_none(graph, self), reduce_shape(shape_or_none(graph, self), dim, False)),)


def rule_aten_slice_Tensor(graph: Graph, self: Result, dim: Int = 0, start: SymInt | None = None, end: SymInt | None = None, step: SymInt = 1) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_squeeze(graph: Graph, self: Result) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_squeeze_dim(graph: Graph, self: Result, dim: Int) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_squeeze_dims(graph: Graph, self: Result, dim: Ints) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_swapaxes(graph: Graph, self: Result, axis0: Int, axis1: Int) -> Rules:
    return rule_aten_transpose_int(graph, self=self, dim0=axis0, dim1=axis1)


def rule_aten_swapdims(graph: Graph, self: Result, dim0: Int, dim1: Int) -> Rules:
    return rule_aten_transpose_int(graph, self=self, dim0=dim0, dim1=dim1)


def rule_aten_t(graph: Graph, self: Result) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_transpose_int(graph: Graph, self: Result, dim0: Int, dim1: Int) -> Rules:
    return ((dtype_or_none(graph, self), swap_dims(shape_or_none(graph, self), dim0, dim1)),)


def rule_aten_unflatten_int(graph: Graph, self: Result, dim: Int, sizes: SymInts) -> Rules:
    return ((dtype_or_none(graph, self), given_shape(unflat_sizes(graph, self, dim, sizes))),)


def rule_aten_unfold(graph: Graph, self: Result, dimension: Int, size: Int, step: Int) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_unsqueeze(graph: Graph, self: Result, dim: Int) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_view(graph: Graph, self: Result, size: SymInts) -> Rules:
    return ((dtype_or_none(graph, self), given_shape(size)),)


def rule_aten_view_as(graph: Graph, self: Result, other: Result) -> Rules:
    return rule_aten_reshape_as(graph, self=self, other=other)


def rule_aten_view_dtype(graph: Graph, self: Result, dtype: Dtype) -> Rules:
    return ((dtype_or_none(graph, self) if dtype is None else dtype, None),)
