# Generated from specs/aten/prims.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.inference import accumulate_dtype
from ortable.lowerings.shapes import unflat_sizes
from ortable.prelude.facts import axes_of, dim_of, dtype_of
from ortable.prelude.metadata import dtype_or_none, given_shape
from ortable.prelude.pointwise import int_range
from ortable.prelude.shapes import flat_sizes, other_axes
from ortable.prelude.sums import product_over, summed_over
from ortable.prelude.values import as_vec, cast, reshape_to, unsqueezed
from ortable_generated.aten.cast import aten__to_copy, aten_clone, aten_fill_Scalar, complex_aten__to_copy, complex_aten_clone, complex_aten_fill_Scalar, rule_aten__to_copy, rule_aten_clone, rule_aten_fill_Scalar
from ortable_generated.aten.compare import aten_where_self, complex_aten_where_self, rule_aten_where_self
from ortable_generated.aten.complex import aten_conj, aten_real, complex_aten_conj, complex_aten_imag, complex_aten_real, rule_aten_conj, rule_aten_imag, rule_aten_real
from ortable_generated.aten.create import aten_empty_permuted, aten_empty_strided, aten_full, aten_full_like, aten_scalar_tensor, complex_aten_empty_permuted, complex_aten_empty_strided, complex_aten_full, complex_aten_full_like, complex_aten_scalar_tensor, rule_aten_empty_permuted, rule_aten_empty_strided, rule_aten_full, rule_aten_full_like, rule_aten_scalar_tensor
from ortable_generated.aten.linalg_decompositions import aten__linalg_svd, complex_aten__linalg_svd, rule_aten__linalg_svd
from ortable_generated.aten.reduce import aten_amax, aten_amin, rule_aten_amax, rule_aten_amin
from ortable_generated.aten.shape import aten_permute, aten_reshape, aten_squeeze_dims, complex_aten_permute, complex_aten_reshape, complex_aten_squeeze_dims, rule_aten_permute, rule_aten_reshape, rule_aten_squeeze_dims
from ortable_generated.aten.shape_join import aten_cat, aten_flip, complex_aten_cat, complex_aten_flip, rule_aten_cat, rule_aten_flip
from ortable_generated.aten.statistics import aten_var_correction, complex_aten_var_correction, rule_aten_var_correction
from ortable_generated.aten.views import aten_as_strided_scatter, complex_aten_as_strided_scatter, rule_aten_as_strided_scatter

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Bool, Dtype, Float, Int, Ints, Result, Results, Scalar, SymInt, SymInts


def complex_prims_as_strided_scatter(graph: Graph, res: ResultSpec, self: Result, src: Result, size: SymInts, stride: SymInts, storage_offset: SymInt) -> Result:
    """prims::as_strided_scatter(Tensor self, Tensor src, SymInt[] size, SymInt[] stride, SymInt storage_offset) -> Tensor"""
    return complex_aten_as_strided_scatter(graph, res, self=self, src=src, size=size, stride=stride, storage_offset=storage_offset)


def complex_prims_cat(graph: Graph, res: ResultSpec, tensors: Results, dim: Int) -> Result:
    """prims::cat(Tensor[] tensors, int dim) -> Tensor"""
    return complex_aten_cat(graph, res, tensors=tensors, dim=dim)


def complex_prims_clone(graph: Graph, res: ResultSpec, self: Result, *, memory_format: Any = None) -> Result:
    """prims::clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor"""
    return complex_aten_clone(graph, res, self=self, memory_format=memory_format)


def complex_prims_conj(graph: Graph, res: ResultSpec, a: Result) -> Result:
    """prims::conj(Tensor(a) a) -> Tensor(a)"""
    return complex_aten_conj(graph, res, self=a)


def complex_prims_convert_element_type(graph: Graph, res: ResultSpec, a: Result, dtype: Dtype) -> Result:
    """prims::convert_element_type(Tensor a, ScalarType dtype) -> Tensor"""
    return complex_aten__to_copy(graph, res, self=a, dtype=dtype)


def complex_prims_device_put(graph: Graph, res: ResultSpec, a: Result, device: Any, non_blocking: Bool = False) -> Result:
    """prims::device_put(Tensor a, Device device, bool non_blocking=False) -> Tensor"""
    return complex_aten_clone(graph, res, self=a)


def complex_prims_empty_permuted(graph: Graph, res: ResultSpec, shape: SymInts, physical_layout: Ints, *, dtype: Dtype, device: Any, requires_grad: Bool) -> Result:
    """prims::empty_permuted(SymInt[] shape, int[] physical_layout, *, ScalarType dtype, Device device, bool requires_grad) -> Tensor"""
    return complex_aten_empty_permuted(graph, res, size=shape, physical_layout=physical_layout, dtype=dtype, device=device)


def complex_prims_empty_strided(graph: Graph, res: ResultSpec, shape: SymInts, strides: SymInts, *, dtype: Dtype, device: Any, requires_grad: Bool) -> Result:
    """prims::empty_strided(SymInt[] shape, SymInt[] strides, *, ScalarType dtype, Device device, bool requires_grad) -> Tensor"""
    return complex_aten_empty_strided(graph, res, size=shape, stride=strides, dtype=dtype, device=device)


def complex_prims_fill(graph: Graph, res: ResultSpec, self: Result, value: Scalar) -> Result:
    """prims::fill(Tensor self, Scalar value) -> Tensor"""
    return complex_aten_fill_Scalar(graph, res, self=self, value=value)


def complex_prims_full(graph: Graph, res: ResultSpec, shape: SymInts, fill_value: Scalar, *, dtype: Dtype, device: Any, requires_grad: Bool) -> Result:
    """prims::full(SymInt[] shape, Scalar fill_value, *, ScalarType dtype, Device device, bool requires_grad) -> Tensor"""
    return complex_aten_full(graph, res, size=shape, fill_value=fill_value, dtype=dtype, device=device)


def complex_prims_full_like(graph: Graph, res: ResultSpec, a: Result, fill_value: Scalar, *, dtype: Dtype, device: Any, requires_grad: Bool) -> Result:
    """prims::full_like(Tensor a, Scalar fill_value, *, ScalarType dtype, Device device, bool requires_grad) -> Tensor"""
    return complex_aten_full_like(graph, res, self=a, fill_value=fill_value, dtype=dtype, device=device)


def complex_prims_imag(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::imag(Tensor(a) self) -> Tensor(a)"""
    return complex_aten_imag(graph, res, self=self)


def complex_prims_real(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::real(Tensor(a) self) -> Tensor(a)"""
    return complex_aten_real(graph, res, self=self)


def complex_prims_reshape(graph: Graph, res: ResultSpec, a: Result, shape: SymInts) -> Result:
    """prims::reshape(Tensor a, SymInt[] shape) -> Tensor"""
    return complex_aten_reshape(graph, res, self=a, shape=shape)


def complex_prims_rev(graph: Graph, res: ResultSpec, a: Result, dims: Ints) -> Result:
    """prims::rev(Tensor a, int[] dims) -> Tensor"""
    return complex_aten_flip(graph, res, self=a, dims=dims)


def complex_prims_scalar_tensor(graph: Graph, res: ResultSpec, s: Scalar, *, dtype: Dtype | None = None, device: Any = None) -> Result:
    """prims::scalar_tensor(Scalar s, *, ScalarType? dtype=None, Device? device=None) -> Tensor"""
    return complex_aten_scalar_tensor(graph, res, s=s, dtype=dtype, device=device)


def complex_prims_squeeze(graph: Graph, res: ResultSpec, a: Result, dimensions: Ints) -> Result:
    """prims::squeeze(Tensor(a) a, int[] dimensions) -> Tensor(a)"""
    return complex_aten_squeeze_dims(graph, res, self=a, dim=dimensions)


def complex_prims_svd(graph: Graph, res: ResultSpec, A: Result, *, full_matrices: Bool) -> Any:
    """prims::svd(Tensor A, *, bool full_matrices) -> (Tensor U, Tensor S, Tensor Vh)"""
    return complex_aten__linalg_svd(graph, res, A=A, full_matrices=full_matrices, compute_uv=True, driver=None)


def complex_prims_transpose(graph: Graph, res: ResultSpec, a: Result, permutation: Ints) -> Result:
    """prims::transpose(Tensor(a) a, int[] permutation) -> Tensor(a)"""
    return complex_aten_permute(graph, res, self=a, dims=permutation)


def complex_prims_var(graph: Graph, res: ResultSpec, inp: Result, dims: Ints | None, correction: Float | None = 1, *, output_dtype: Dtype | None = None) -> Result:
    """prims::var(Tensor inp, int[]? dims, float? correction=1, *, ScalarType? output_dtype=None) -> Tensor"""
    return complex_aten_var_correction(graph, res, self=inp, dim=dims, correction=correction)


def complex_prims_view_of(graph: Graph, res: ResultSpec, a: Result) -> Result:
    """prims::view_of(Tensor(a) a) -> Tensor(a)"""
    return complex_aten_clone(graph, res, self=a)


def complex_prims_where(graph: Graph, res: ResultSpec, pred: Result, a: Result, b: Result) -> Result:
    """prims::where(Tensor pred, Tensor a, Tensor b) -> Tensor"""
    return complex_aten_where_self(graph, res, condition=pred, self=a, other=b)


def prims_amax(graph: Graph, res: ResultSpec, inp: Result, dims: Ints | None, *, output_dtype: Dtype | None = None) -> Result:
    """prims::amax(Tensor inp, int[]? dims, *, ScalarType? output_dtype=None) -> Tensor"""
    return aten_amax(graph, res, self=inp, dim=[] if dims is None else dims)


def prims_amin(graph: Graph, res: ResultSpec, inp: Result, dims: Ints | None, *, output_dtype: Dtype | None = None) -> Result:
    """prims::amin(Tensor inp, int[]? dims, *, ScalarType? output_dtype=None) -> Tensor"""
    return aten_amin(graph, res, self=inp, dim=[] if dims is None else dims)


def prims_as_strided_scatter(graph: Graph, res: ResultSpec, self: Result, src: Result, size: SymInts, stride: SymInts, storage_offset: SymInt) -> Result:
    """prims::as_strided_scatter(Tensor self, Tensor src, SymInt[] size, SymInt[] stride, SymInt storage_offset) -> Tensor"""
    return aten_as_strided_scatter(graph, res, self=self, src=src, size=size, stride=stride, storage_offset=storage_offset)


def prims_broadcast_in_dim(graph: Graph, res: ResultSpec, a: Result, shape: SymInts, broadcast_dimensions: Ints) -> Result:
    """prims::broadcast_in_dim(Tensor(a) a, SymInt[] shape, int[] broadcast_dimensions) -> Tensor(a)"""
    added = other_axes(len(shape), broadcast_dimensions)
    return graph.make_node('Expand', [unsqueezed(graph, a, added), as_vec(graph, shape)], res.outputs)


def prims_cat(graph: Graph, res: ResultSpec, tensors: Results, dim: Int) -> Result:
    """prims::cat(Tensor[] tensors, int dim) -> Tensor"""
    return aten_cat(graph, res, tensors=tensors, dim=dim)


def prims_clone(graph: Graph, res: ResultSpec, self: Result, *, memory_format: Any = None) -> Result:
    """prims::clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor"""
    return aten_clone(graph, res, self=self, memory_format=memory_format)


def prims_collapse(graph: Graph, res: ResultSpec, a: Result, start: Int, end: Int) -> Result:
    """prims::collapse(Tensor a, int start, int end) -> Tensor"""
    return reshape_to(graph, a, flat_sizes(graph, a, start, end))


def prims_collapse_view(graph: Graph, res: ResultSpec, a: Result, start: Int, end: Int) -> Result:
    """prims::collapse_view(Tensor(a) a, int start, int end) -> Tensor(a)"""
    return reshape_to(graph, a, flat_sizes(graph, a, start, end))


def prims_conj(graph: Graph, res: ResultSpec, a: Result) -> Result:
    """prims::conj(Tensor(a) a) -> Tensor(a)"""
    return aten_conj(graph, res, self=a)


def prims_convert_element_type(graph: Graph, res: ResultSpec, a: Result, dtype: Dtype) -> Result:
    """prims::convert_element_type(Tensor a, ScalarType dtype) -> Tensor"""
    return aten__to_copy(graph, res, self=a, dtype=dtype)


def prims_device_put(graph: Graph, res: ResultSpec, a: Result, device: Any, non_blocking: Bool = False) -> Result:
    """prims::device_put(Tensor a, Device device, bool non_blocking=False) -> Tensor"""
    return aten_clone(graph, res, self=a)


def prims_empty_permuted(graph: Graph, res: ResultSpec, shape: SymInts, physical_layout: Ints, *, dtype: Dtype, device: Any, requires_grad: Bool) -> Result:
    """prims::empty_permuted(SymInt[] shape, int[] physical_layout, *, ScalarType dtype, Device device, bool requires_grad) -> Tensor"""
    return aten_empty_permuted(graph, res, size=shape, physical_layout=physical_layout, dtype=dtype, device=device)


def prims_empty_strided(graph: Graph, res: ResultSpec, shape: SymInts, strides: SymInts, *, dtype: Dtype, device: Any, requires_grad: Bool) -> Result:
    """prims::empty_strided(SymInt[] shape, SymInt[] strides, *, ScalarType dtype, Device device, bool requires_grad) -> Tensor"""
    return aten_empty_strided(graph, res, size=shape, stride=strides, dtype=dtype, device=device)


def prims_fill(graph: Graph, res: ResultSpec, self: Result, value: Scalar) -> Result:
    """prims::fill(Tensor self, Scalar value) -> Tensor"""
    return aten_fill_Scalar(graph, res, self=self, value=value)


def prims_full(graph: Graph, res: ResultSpec, shape: SymInts, fill_value: Scalar, *, dtype: Dtype, device: Any, requires_grad: Bool) -> Result:
    """prims::full(SymInt[] shape, Scalar fill_value, *, ScalarType dtype, Device device, bool requires_grad) -> Tensor"""
    return aten_full(graph, res, size=shape, fill_value=fill_value, dtype=dtype, device=device)


def prims_full_like(graph: Graph, res: ResultSpec, a: Result, fill_value: Scalar, *, dtype: Dtype, device: Any, requires_grad: Bool) -> Result:
    """prims::full_like(Tensor a, Scalar fill_value, *, ScalarType dtype, Device device, bool requires_grad) -> Tensor"""
    return aten_full_like(graph, res, self=a, fill_value=fill_value, dtype=dtype, device=device)


def prims_iota(graph: Graph, res: ResultSpec, length: SymInt, *, start: SymInt, step: SymInt, dtype: Dtype, device: Any, requires_grad: Bool) -> Result:
    """prims::iota(SymInt length, *, SymInt start, SymInt step, ScalarType dtype, Device device, bool requires_grad) -> Tensor"""
    return cast(graph, int_range(graph, start, length, step), dtype_of(graph, res))


def prims_prod(graph: Graph, res: ResultSpec, inp: Result, dims: Ints | None, *, output_dtype: Dtype | None = None) -> Result:
    """prims::prod(Tensor inp, int[]? dims, *, ScalarType? output_dtype=None) -> Tensor"""
    return product_over(graph, cast(graph, inp, dtype_of(graph, res)), axes_of(graph, inp, dims), False)


def prims_real(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::real(Tensor(a) self) -> Tensor(a)"""
    return aten_real(graph, res, self=self)


def prims_reshape(graph: Graph, res: ResultSpec, a: Result, shape: SymInts) -> Result:
    """prims::reshape(Tensor a, SymInt[] shape) -> Tensor"""
    return aten_reshape(graph, res, self=a, shape=shape)


def prims_rev(graph: Graph, res: ResultSpec, a: Result, dims: Ints) -> Result:
    """prims::rev(Tensor a, int[] dims) -> Tensor"""
    return aten_flip(graph, res, self=a, dims=dims)


def prims_scalar_tensor(graph: Graph, res: ResultSpec, s: Scalar, *, dtype: Dtype | None = None, device: Any = None) -> Result:
    """prims::scalar_tensor(Scalar s, *, ScalarType? dtype=None, Device? device=None) -> Tensor"""
    return aten_scalar_tensor(graph, res, s=s, dtype=dtype, device=device)


def prims_split_dim(graph: Graph, res: ResultSpec, a: Result, dim: Int, outer_length: SymInt) -> Result:
    """prims::split_dim(Tensor(a) a, int dim, SymInt outer_length) -> Tensor(a)"""
    return reshape_to(graph, a, unflat_sizes(graph, a, dim, [outer_length, dim_of(graph, a, dim) // outer_length]))


def prims_squeeze(graph: Graph, res: ResultSpec, a: Result, dimensions: Ints) -> Result:
    """prims::squeeze(Tensor(a) a, int[] dimensions) -> Tensor(a)"""
    return aten_squeeze_dims(graph, res, self=a, dim=dimensions)


def prims_sum(graph: Graph, res: ResultSpec, inp: Result, dims: Ints | None, *, output_dtype: Dtype | None = None) -> Result:
    """prims::sum(Tensor inp, int[]? dims, *, ScalarType? output_dtype=None) -> Tensor"""
    return summed_over(graph, cast(graph, inp, dtype_of(graph, res)), axes_of(graph, inp, dims), False)


def prims_svd(graph: Graph, res: ResultSpec, A: Result, *, full_matrices: Bool) -> Any:
    """prims::svd(Tensor A, *, bool full_matrices) -> (Tensor U, Tensor S, Tensor Vh)"""
    return aten__linalg_svd(graph, res, A=A, full_matrices=full_matrices, compute_uv=True, driver=None)


def prims_transpose(graph: Graph, res: ResultSpec, a: Result, permutation: Ints) -> Result:
    """prims::transpose(Tensor(a) a, int[] permutation) -> Tensor(a)"""
    return aten_permute(graph, res, self=a, dims=permutation)


def prims_var(graph: Graph, res: ResultSpec, inp: Result, dims: Ints | None, correction: Float | None = 1, *, output_dtype: Dtype | None = None) -> Result:
    """prims::var(Tensor inp, int[]? dims, float? correction=1, *, ScalarType? output_dtype=None) -> Tensor"""
    return aten_var_correction(graph, res, self=inp, dim=dims, correction=correction)


def prims_view_of(graph: Graph, res: ResultSpec, a: Result) -> Result:
    """prims::view_of(Tensor(a) a) -> Tensor(a)"""
    return aten_clone(graph, res, self=a)


def prims_where(graph: Graph, res: ResultSpec, pred: Result, a: Result, b: Result) -> Result:
    """prims::where(Tensor pred, Tensor a, Tensor b) -> Tensor"""
    return aten_where_self(graph, res, condition=pred, self=a, other=b)


def rule_prims_amax(graph: Graph, inp: Result, dims: Ints | None, *, output_dtype: Dtype | None = None) -> Rules:
    return rule_aten_amax(graph, self=inp, dim=[] if dims is None else dims)


def rule_prims_amin(graph: Graph, inp: Result, dims: Ints | None, *, output_dtype: Dtype | None = None) -> Rules:
    return rule_aten_amin(graph, self=inp, dim=[] if dims is None else dims)


def rule_prims_as_strided_scatter(graph: Graph, self: Result, src: Result, size: SymInts, stride: SymInts, storage_offset: SymInt) -> Rules:
    return rule_aten_as_strided_scatter(graph, self=self, src=src, size=size, stride=stride, storage_offset=storage_offset)


def rule_prims_broadcast_in_dim(graph: Graph, a: Result, shape: SymInts, broadcast_dimensions: Ints) -> Rules:
    return ((dtype_or_none(graph, a), given_shape(shape)),)


def rule_prims_cat(graph: Graph, tensors: Results, dim: Int) -> Rules:
    return rule_aten_cat(graph, tensors=tensors, dim=dim)


def rule_prims_clone(graph: Graph, self: Result, *, memory_format: Any = None) -> Rules:
    return rule_aten_clone(graph, self=self, memory_format=memory_format)


def rule_prims_collapse(graph: Graph, a: Result, start: Int, end: Int) -> Rules:
    return ((dtype_or_none(graph, a), None),)


def rule_prims_collapse_view(graph: Graph, a: Result, start: Int, end: Int) -> Rules:
    return ((dtype_or_none(graph, a), None),)


def rule_prims_conj(graph: Graph, a: Result) -> Rules:
    return rule_aten_conj(graph, self=a)


def rule_prims_convert_element_type(graph: Graph, a: Result, dtype: Dtype) -> Rules:
    return rule_aten__to_copy(graph, self=a, dtype=dtype)


def rule_prims_device_put(graph: Graph, a: Result, device: Any, non_blocking: Bool = False) -> Rules:
    return rule_aten_clone(graph, self=a)


def rule_prims_empty_permuted(graph: Graph, shape: SymInts, physical_layout: Ints, *, dtype: Dtype, device: Any, requires_grad: Bool) -> Rules:
    return rule_aten_empty_permuted(graph, size=shape, physical_layout=physical_layout, dtype=dtype, device=device)


def rule_prims_empty_strided(graph: Graph, shape: SymInts, strides: SymInts, *, dtype: Dtype, device: Any, requires_grad: Bool) -> Rules:
    return rule_aten_empty_strided(graph, size=shape, stride=strides, dtype=dtype, device=device)


def rule_prims_fill(graph: Graph, self: Result, value: Scalar) -> Rules:
    return rule_aten_fill_Scalar(graph, self=self, value=value)


def rule_prims_full(graph: Graph, shape: SymInts, fill_value: Scalar, *, dtype: Dtype, device: Any, requires_grad: Bool) -> Rules:
    return rule_aten_full(graph, size=shape, fill_value=fill_value, dtype=dtype, device=device)


def rule_prims_full_like(graph: Graph, a: Result, fill_value: Scalar, *, dtype: Dtype, device: Any, requires_grad: Bool) -> Rules:
    return rule_aten_full_like(graph, self=a, fill_value=fill_value, dtype=dtype, device=device)


def rule_prims_imag(graph: Graph, self: Result) -> Rules:
    return rule_aten_imag(graph, self=self)


def rule_prims_iota(graph: Graph, length: SymInt, *, start: SymInt, step: SymInt, dtype: Dtype, device: Any, requires_grad: Bool) -> Rules:
    return ((dtype, given_shape(length)),)


def rule_prims_prod(graph: Graph, inp: Result, dims: Ints | None, *, output_dtype: Dtype | None = None) -> Rules:
    return ((accumulate_dtype(dtype_or_none(graph, inp)) if output_dtype is None else output_dtype, None),)


def rule_prims_real(graph: Graph, self: Result) -> Rules:
    return rule_aten_real(graph, self=self)


def rule_prims_reshape(graph: Graph, a: Result, shape: SymInts) -> Rules:
    return rule_aten_reshape(graph, self=a, shape=shape)


def rule_prims_rev(graph: Graph, a: Result, dims: Ints) -> Rules:
    return rule_aten_flip(graph, self=a, dims=dims)


def rule_prims_scalar_tensor(graph: Graph, s: Scalar, *, dtype: Dtype | None = None, device: Any = None) -> Rules:
    return rule_aten_scalar_tensor(graph, s=s, dtype=dtype, device=device)


def rule_prims_split_dim(graph: Graph, a: Result, dim: Int, outer_length: SymInt) -> Rules:
    return ((dtype_or_none(graph, a), None),)


def rule_prims_squeeze(graph: Graph, a: Result, dimensions: Ints) -> Rules:
    return rule_aten_squeeze_dims(graph, self=a, dim=dimensions)


def rule_prims_sum(graph: Graph, inp: Result, dims: Ints | None, *, output_dtype: Dtype | None = None) -> Rules:
    return ((accumulate_dtype(dtype_or_none(graph, inp)) if output_dtype is None else output_dtype, None),)


def rule_prims_svd(graph: Graph, A: Result, *, full_matrices: Bool) -> Rules:
    return rule_aten__linalg_svd(graph, A=A, full_matrices=full_matrices, compute_uv=True, driver=None)


def rule_prims_transpose(graph: Graph, a: Result, permutation: Ints) -> Rules:
    return rule_aten_permute(graph, self=a, dims=permutation)


def rule_prims_var(graph: Graph, inp: Result, dims: Ints | None, correction: Float | None = 1, *, output_dtype: Dtype | None = None) -> Rules:
    return rule_aten_var_correction(graph, self=inp, dim=dims, correction=correction)


def rule_prims_view_of(graph: Graph, a: Result) -> Rules:
    return rule_aten_clone(graph, self=a)


def rule_prims_where(graph: Graph, pred: Result, a: Result, b: Result) -> Rules:
    return rule_aten_where_self(graph, condition=pred, self=a, other=b)
