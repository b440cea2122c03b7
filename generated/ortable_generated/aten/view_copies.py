# Generated from specs/aten/view_copies.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable_generated.aten.shape import aten_alias, aten_as_strided, aten_diagonal, aten_expand, aten_narrow, aten_permute, aten_reshape, aten_select_int, aten_slice_Tensor, aten_squeeze, aten_squeeze_dim, aten_squeeze_dims, aten_t, aten_transpose_int, aten_unfold, aten_unsqueeze, aten_view, aten_view_dtype, complex_aten_alias, complex_aten_as_strided, complex_aten_diagonal, complex_aten_expand, complex_aten_narrow, complex_aten_permute, complex_aten_reshape, complex_aten_select_int, complex_aten_slice_Tensor, complex_aten_squeeze, complex_aten_squeeze_dim, complex_aten_squeeze_dims, complex_aten_t, complex_aten_transpose_int, complex_aten_unfold, complex_aten_unsqueeze, complex_aten_view, complex_aten_view_dtype, rule_aten_alias, rule_aten_as_strided, rule_aten_diagonal, rule_aten_expand, rule_aten_narrow, rule_aten_permute, rule_aten_reshape, rule_aten_select_int, rule_aten_slice_Tensor, rule_aten_squeeze, rule_aten_squeeze_dim, rule_aten_squeeze_dims, rule_aten_t, rule_aten_transpose_int, rule_aten_unfold, rule_aten_unsqueeze, rule_aten_view, rule_aten_view_dtype
from ortable_generated.aten.shape_join import aten_split_Tensor, aten_split_with_sizes, aten_unbind_int, complex_aten_split_Tensor, complex_aten_split_with_sizes, complex_aten_unbind_int, rule_aten_split_Tensor, rule_aten_split_with_sizes, rule_aten_unbind_int

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Bool, Dtype, Int, Ints, Result, SymInt, SymInts


def aten__reshape_alias_copy(graph: Graph, res: ResultSpec, self: Result, size: SymInts, stride: SymInts) -> Result:
    """aten::_reshape_alias_copy(Tensor self, SymInt[] size, SymInt[] stride) -> Tensor"""
    return aten_view(graph, res, self=self, size=size)


def aten__reshape_copy(graph: Graph, res: ResultSpec, self: Result, size: SymInts) -> Result:
    """aten::_reshape_copy(Tensor self, SymInt[] size) -> Tensor"""
    return aten_reshape(graph, res, self=self, shape=size)


def aten_alias_copy(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::alias_copy(Tensor self) -> Tensor"""
    return aten_alias(graph, res, self=self)


def aten_as_strided_copy(graph: Graph, res: ResultSpec, self: Result, size: SymInts, stride: SymInts, storage_offset: SymInt | None = None) -> Result:
    """aten::as_strided_copy(Tensor self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor"""
    return aten_as_strided(graph, res, self=self, size=size, stride=stride, storage_offset=storage_offset)


def aten_detach_copy(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::detach_copy(Tensor self) -> Tensor"""
    return aten_alias(graph, res, self=self)


def aten_diagonal_copy(graph: Graph, res: ResultSpec, self: Result, offset: Int = 0, dim1: Int = 0, dim2: Int = 1) -> Result:
    """aten::diagonal_copy(Tensor self, int offset=0, int dim1=0, int dim2=1) -> Tensor"""
    return aten_diagonal(graph, res, self=self, offset=offset, dim1=dim1, dim2=dim2)


def aten_expand_copy(graph: Graph, res: ResultSpec, self: Result, size: SymInts, *, implicit: Bool = False) -> Result:
    """aten::expand_copy(Tensor self, SymInt[] size, *, bool implicit=False) -> Tensor"""
    return aten_expand(graph, res, self=self, size=size, implicit=implicit)


def aten_narrow_copy(graph: Graph, res: ResultSpec, self: Result, dim: Int, start: SymInt, length: SymInt) -> Result:
    """aten::narrow_copy(Tensor self, int dim, SymInt start, SymInt length) -> Tensor"""
    return aten_narrow(graph, res, self=self, dim=dim, start=start, length=length)


def aten_permute_copy(graph: Graph, res: ResultSpec, self: Result, dims: Ints) -> Result:
    """aten::permute_copy(Tensor self, int[] dims) -> Tensor"""
    return aten_permute(graph, res, self=self, dims=dims)


def aten_select_copy_int(graph: Graph, res: ResultSpec, self: Result, dim: Int, index: SymInt) -> Result:
    """aten::select_copy.int(Tensor self, int dim, SymInt index) -> Tensor"""
    return aten_select_int(graph, res, self=self, dim=dim, index=index)


def aten_slice_copy_Tensor(graph: Graph, res: ResultSpec, self: Result, dim: Int = 0, start: SymInt | None = None, end: SymInt | None = None, step: SymInt = 1) -> Result:
    """aten::slice_copy.Tensor(Tensor self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor"""
    return aten_slice_Tensor(graph, res, self=self, dim=dim, start=start, end=end, step=step)


def aten_split_copy_Tensor(graph: Graph, res: ResultSpec, self: Result, split_size: SymInt, dim: Int = 0) -> Any:
    """aten::split_copy.Tensor(Tensor self, SymInt split_size, int dim=0) -> Tensor[]"""
    return aten_split_Tensor(graph, res, self=self, split_size=split_size, dim=dim)


def aten_split_with_sizes_copy(graph: Graph, res: ResultSpec, self: Result, split_sizes: SymInts, dim: Int = 0) -> Any:
    """aten::split_with_sizes_copy(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]"""
    return aten_split_with_sizes(graph, res, self=self, split_sizes=split_sizes, dim=dim)


def aten_squeeze_copy(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::squeeze_copy(Tensor self) -> Tensor"""
    return aten_squeeze(graph, res, self=self)


def aten_squeeze_copy_dim(graph: Graph, res: ResultSpec, self: Result, dim: Int) -> Result:
    """aten::squeeze_copy.dim(Tensor self, int dim) -> Tensor"""
    return aten_squeeze_dim(graph, res, self=self, dim=dim)


def aten_squeeze_copy_dims(graph: Graph, res: ResultSpec, self: Result, dim: Ints) -> Result:
    """aten::squeeze_copy.dims(Tensor self, int[] dim) -> Tensor"""
    return aten_squeeze_dims(graph, res, self=self, dim=dim)


def aten_t_copy(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::t_copy(Tensor self) -> Tensor"""
    return aten_t(graph, res, self=self)


def aten_transpose_copy_int(graph: Graph, res: ResultSpec, self: Result, dim0: Int, dim1: Int) -> Result:
    """aten::transpose_copy.int(Tensor self, int dim0, int dim1) -> Tensor"""
    return aten_transpose_int(graph, res, self=self, dim0=dim0, dim1=dim1)


def aten_unbind_copy_int(graph: Graph, res: ResultSpec, self: Result, dim: Int = 0) -> Any:
    """aten::unbind_copy.int(Tensor self, int dim=0) -> Tensor[]"""
    return aten_unbind_int(graph, res, self=self, dim=dim)


def aten_unfold_copy(graph: Graph, res: ResultSpec, self: Result, dimension: Int, size: Int, step: Int) -> Result:
    """aten::unfold_copy(Tensor self, int dimension, int size, int step) -> Tensor"""
    return aten_unfold(graph, res, self=self, dimension=dimension, size=size, step=step)


def aten_unsqueeze_copy(graph: Graph, res: ResultSpec, self: Result, dim: Int) -> Result:
    """aten::unsqueeze_copy(Tensor self, int dim) -> Tensor"""
    return aten_unsqueeze(graph, res, self=self, dim=dim)


def aten_view_copy(graph: Graph, res: ResultSpec, self: Result, size: SymInts) -> Result:
    """aten::view_copy(Tensor self, SymInt[] size) -> Tensor"""
    return aten_view(graph, res, self=self, size=size)


def aten_view_copy_dtype(graph: Graph, res: ResultSpec, self: Result, dtype: Dtype) -> Result:
    """aten::view_copy.dtype(Tensor self, ScalarType dtype) -> Tensor"""
    return aten_view_dtype(graph, res, self=self, dtype=dtype)


def complex_aten__reshape_alias_copy(graph: Graph, res: ResultSpec, self: Result, size: SymInts, stride: SymInts) -> Result:
    """aten::_reshape_alias_copy(Tensor self, SymInt[] size, SymInt[] stride) -> Tensor"""
    return complex_aten_view(graph, res, self=self, size=size)


def complex_aten__reshape_copy(graph: Graph, res: ResultSpec, self: Result, size: SymInts) -> Result:
    """aten::_reshape_copy(Tensor self, SymInt[] size) -> Tensor"""
    return complex_aten_reshape(graph, res, self=self, shape=size)


def complex_aten_alias_copy(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::alias_copy(Tensor self) -> Tensor"""
    return complex_aten_alias(graph, res, self=self)


def complex_aten_as_strided_copy(graph: Graph, res: ResultSpec, self: Result, size: SymInts, stride: SymInts, storage_offset: SymInt | None = None) -> Result:
    """aten::as_strided_copy(Tensor self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor"""
    return complex_aten_as_strided(graph, res, self=self, size=size, stride=stride, storage_offset=storage_offset)


def complex_aten_detach_copy(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::detach_copy(Tensor self) -> Tensor"""
    return complex_aten_alias(graph, res, self=self)


def complex_aten_diagonal_copy(graph: Graph, res: ResultSpec, self: Result, offset: Int = 0, dim1: Int = 0, dim2: Int = 1) -> Result:
    """aten::diagonal_copy(Tensor self, int offset=0, int dim1=0, int dim2=1) -> Tensor"""
    return complex_aten_diagonal(graph, res, self=self, offset=offset, dim1=dim1, dim2=dim2)


def complex_aten_expand_copy(graph: Graph, res: ResultSpec, self: Result, size: SymInts, *, implicit: Bool = False) -> Result:
    """aten::expand_copy(Tensor self, SymInt[] size, *, bool implicit=False) -> Tensor"""
    return complex_aten_expand(graph, res, self=self, size=size, implicit=implicit)


def complex_aten_narrow_copy(graph: Graph, res: ResultSpec, self: Result, dim: Int, start: SymInt, length: SymInt) -> Result:
    """aten::narrow_copy(Tensor self, int dim, SymInt start, SymInt length) -> Tensor"""
    return complex_aten_narrow(graph, res, self=self, dim=dim, start=start, length=length)


def complex_aten_permute_copy(graph: Graph, res: ResultSpec, self: Result, dims: Ints) -> Result:
    """aten::permute_copy(Tensor self, int[] dims) -> Tensor"""
    return complex_aten_permute(graph, res, self=self, dims=dims)


def complex_aten_select_copy_int(graph: Graph, res: ResultSpec, self: Result, dim: Int, index: SymInt) -> Result:
    """aten::select_copy.int(Tensor self, int dim, SymInt index) -> Tensor"""
    return complex_aten_select_int(graph, res, self=self, dim=dim, index=index)


def complex_aten_slice_copy_Tensor(graph: Graph, res: ResultSpec, self: Result, dim: Int = 0, start: SymInt | None = None, end: SymInt | None = None, step: SymInt = 1) -> Result:
    """aten::slice_copy.Tensor(Tensor self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor"""
    return complex_aten_slice_Tensor(graph, res, self=self, dim=dim, start=start, end=end, step=step)


def complex_aten_split_copy_Tensor(graph: Graph, res: ResultSpec, self: Result, split_size: SymInt, dim: Int = 0) -> Any:
    """aten::split_copy.Tensor(Tensor self, SymInt split_size, int dim=0) -> Tensor[]"""
    return complex_aten_split_Tensor(graph, res, self=self, split_size=split_size, dim=dim)


def complex_aten_split_with_sizes_copy(graph: Graph, res: ResultSpec, self: Result, split_sizes: SymInts, dim: Int = 0) -> Any:
    """aten::split_with_sizes_copy(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]"""
    return complex_aten_split_with_sizes(graph, res, self=self, split_sizes=split_sizes, dim=dim)


def complex_aten_squeeze_copy(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::squeeze_copy(Tensor self) -> Tensor"""
    return complex_aten_squeeze(graph, res, self=self)


def complex_aten_squeeze_copy_dim(graph: Graph, res: ResultSpec, self: Result, dim: Int) -> Result:
    """aten::squeeze_copy.dim(Tensor self, int dim) -> Tensor"""
    return complex_aten_squeeze_dim(graph, res, self=self, dim=dim)


def complex_aten_squeeze_copy_dims(graph: Graph, res: ResultSpec, self: Result, dim: Ints) -> Result:
    """aten::squeeze_copy.dims(Tensor self, int[] dim) -> Tensor"""
    return complex_aten_squeeze_dims(graph, res, self=self, dim=dim)


def complex_aten_t_copy(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::t_copy(Tensor self) -> Tensor"""
    return complex_aten_t(graph, res, self=self)


def complex_aten_transpose_copy_int(graph: Graph, res: ResultSpec, self: Result, dim0: Int, dim1: Int) -> Result:
    """aten::transpose_copy.int(Tensor self, int dim0, int dim1) -> Tensor"""
    return complex_aten_transpose_int(graph, res, self=self, dim0=dim0, dim1=dim1)


def complex_aten_unbind_copy_int(graph: Graph, res: ResultSpec, self: Result, dim: Int = 0) -> Any:
    """aten::unbind_copy.int(Tensor self, int dim=0) -> Tensor[]"""
    return complex_aten_unbind_int(graph, res, self=self, dim=dim)


def complex_aten_unfold_copy(graph: Graph, res: ResultSpec, self: Result, dimension: Int, size: Int, step: Int) -> Result:
    """aten::unfold_copy(Tensor self, int dimension, int size, int step) -> Tensor"""
    return complex_aten_unfold(graph, res, self=self, dimension=dimension, size=size, step=step)


def complex_aten_unsqueeze_copy(graph: Graph, res: ResultSpec, self: Result, dim: Int) -> Result:
    """aten::unsqueeze_copy(Tensor self, int dim) -> Tensor"""
    return complex_aten_unsqueeze(graph, res, self=self, dim=dim)


def complex_aten_view_copy(graph: Graph, res: ResultSpec, self: Result, size: SymInts) -> Result:
    """aten::view_copy(Tensor self, SymInt[] size) -> Tensor"""
    return complex_aten_view(graph, res, self=self, size=size)


def complex_aten_view_copy_dtype(graph: Graph, res: ResultSpec, self: Result, dtype: Dtype) -> Result:
    """aten::view_copy.dtype(Tensor self, ScalarType dtype) -> Tensor"""
    return complex_aten_view_dtype(graph, res, self=self, dtype=dtype)


def rule_aten__reshape_alias_copy(graph: Graph, self: Result, size: SymInts, stride: SymInts) -> Rules:
    return rule_aten_view(graph, self=self, size=size)


def rule_aten__reshape_copy(graph: Graph, self: Result, size: SymInts) -> Rules:
    return rule_aten_reshape(graph, self=self, shape=size)


def rule_aten_alias_copy(graph: Graph, self: Result) -> Rules:
    return rule_aten_alias(graph, self=self)


def rule_aten_as_strided_copy(graph: Graph, self: Result, size: SymInts, stride: SymInts, storage_offset: SymInt | None = None) -> Rules:
    return rule_aten_as_strided(graph, self=self, size=size, stride=stride, storage_offset=storage_offset)


def rule_aten_detach_copy(graph: Graph, self: Result) -> Rules:
    return rule_aten_alias(graph, self=self)


def rule_aten_diagonal_copy(graph: Graph, self: Result, offset: Int = 0, dim1: Int = 0, dim2: Int = 1) -> Rules:
    return rule_aten_diagonal(graph, self=self, offset=offset, dim1=dim1, dim2=dim2)


def rule_aten_expand_copy(graph: Graph, self: Result, size: SymInts, *, implicit: Bool = False) -> Rules:
    return rule_aten_expand(graph, self=self, size=size, implicit=implicit)


def rule_aten_narrow_copy(graph: Graph, self: Result, dim: Int, start: SymInt, length: SymInt) -> Rules:
    return rule_aten_narrow(graph, self=self, dim=dim, start=start, length=length)


def rule_aten_permute_copy(graph: Graph, self: Result, dims: Ints) -> Rules:
    return rule_aten_permute(graph, self=self, dims=dims)


def rule_aten_select_copy_int(graph: Graph, self: Result, dim: Int, index: SymInt) -> Rules:
    return rule_aten_select_int(graph, self=self, dim=dim, index=index)


def rule_aten_slice_copy_Tensor(graph: Graph, self: Result, dim: Int = 0, start: SymInt | None = None, end: SymInt | None = None, step: SymInt = 1) -> Rules:
    return rule_aten_slice_Tensor(graph, self=self, dim=dim, start=start, end=end, step=step)


def rule_aten_split_copy_Tensor(graph: Graph, self: Result, split_size: SymInt, dim: Int = 0) -> Rules:
    return rule_aten_split_Tensor(graph, self=self, split_size=split_size, dim=dim)


def rule_aten_split_with_sizes_copy(graph: Graph, self: Result, split_sizes: SymInts, dim: Int = 0) -> Rules:
    return rule_aten_split_with_sizes(graph, self=self, split_sizes=split_sizes, dim=dim)


def rule_aten_squeeze_copy(graph: Graph, self: Result) -> Rules:
    return rule_aten_squeeze(graph, self=self)


def rule_aten_squeeze_copy_dim(graph: Graph, self: Result, dim: Int) -> Rules:
    return rule_aten_squeeze_dim(graph, self=self, dim=dim)


def rule_aten_squeeze_copy_dims(graph: Graph, self: Result, dim: Ints) -> Rules:
    return rule_aten_squeeze_dims(graph, self=self, dim=dim)


def rule_aten_t_copy(graph: Graph, self: Result) -> Rules:
    return rule_aten_t(graph, self=self)


def rule_aten_transpose_copy_int(graph: Graph, self: Result, dim0: Int, dim1: Int) -> Rules:
    return rule_aten_transpose_int(graph, self=self, dim0=dim0, dim1=dim1)


def rule_aten_unbind_copy_int(graph: Graph, self: Result, dim: Int = 0) -> Rules:
    return rule_aten_unbind_int(graph, self=self, dim=dim)


def rule_aten_unfold_copy(graph: Graph, self: Result, dimension: Int, size: Int, step: Int) -> Rules:
    return rule_aten_unfold(graph, self=self, dimension=dimension, size=size, step=step)


def rule_aten_unsqueeze_copy(graph: Graph, self: Result, dim: Int) -> Rules:
    return rule_aten_unsqueeze(graph, self=self, dim=dim)


def rule_aten_view_copy(graph: Graph, self: Result, size: SymInts) -> Rules:
    return rule_aten_view(graph, self=self, size=size)


def rule_aten_view_copy_dtype(graph: Graph, self: Result, dtype: Dtype) -> Rules:
    return rule_aten_view_dtype(graph, self=self, dtype=dtype)
