# Generated from specs/aten/views.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.dtypes import boolean, float64, int64
from ortable.inference import accumulate_dtype, permute_shape
from ortable.lowerings.complex.parts import each_part
from ortable.lowerings.sorting import is_among
from ortable.lowerings.views import as_strided_scatter, lower_resize, resize_as
from ortable.prelude.complex_arithmetic import c_conj, c_truth
from ortable.prelude.facts import axis_of, dim_of, dtype_of, is_complex, is_float, minimum, rank_of, shape_of, transpose_perm
from ortable.prelude.indexing import nonzero_rows
from ortable.prelude.metadata import dtype_or_none, given_shape, scalar_shape, shape_or_none, swap_dims
from ortable.prelude.promotion import promote_values
from ortable.prelude.reductions import any_true
from ortable.prelude.shapes import as_flat, flat_sizes, iota, moved_axes, other_axes, sliced
from ortable.prelude.sums import summed_over
from ortable.prelude.values import as_vec, at_least_1d, cast, filled, permuted, reshape_to, unsqueezed
from ortable_generated.aten.cast import aten_fill_Scalar, complex_aten_fill_Scalar, rule_aten_fill_Scalar
from ortable_generated.aten.shape import aten_transpose_int, complex_aten_transpose_int, rule_aten_transpose_int
from ortable_generated.aten.shape_join import aten_tensor_split_indices, aten_tensor_split_sections, aten_vstack, complex_aten_tensor_split_indices, complex_aten_tensor_split_sections, complex_aten_vstack, rule_aten_tensor_split_indices, rule_aten_tensor_split_sections, rule_aten_vstack

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Bool, Int, Ints, Result, Results, Scalar, SymInt, SymInts


def aten_adjoint(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::adjoint(Tensor(a) self) -> Tensor(a)"""
    graph.case = 1
    return permuted(graph, self, transpose_perm(rank_of(graph, self), -2, -1))


def aten_as_strided_scatter(graph: Graph, res: ResultSpec, self: Result, src: Result, size: SymInts, stride: SymInts, storage_offset: SymInt | None = None) -> Result:
    """aten::as_strided_scatter(Tensor self, Tensor src, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor"""
    return as_strided_scatter(graph, res, self=self, src=src, size=size, stride=stride, storage_offset=storage_offset)


def aten_atleast_1d(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::atleast_1d(Tensor self) -> Tensor"""
    return at_least_1d(graph, self)


def aten_atleast_1d_Sequence(graph: Graph, res: ResultSpec, tensors: Results) -> Any:
    """aten::atleast_1d.Sequence(Tensor[] tensors) -> Tensor[]"""
    return [at_least_1d(graph, t) for t in tensors]


def aten_atleast_2d(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::atleast_2d(Tensor self) -> Tensor"""
    return unsqueezed(graph, self, list(range(2 - min(rank_of(graph, self), 2))))


def aten_atleast_2d_Sequence(graph: Graph, res: ResultSpec, tensors: Results) -> Any:
    """aten::atleast_2d.Sequence(Tensor[] tensors) -> Tensor[]"""
    return [unsqueezed(graph, t, list(range(2 - min(rank_of(graph, t), 2)))) for t in tensors]


def aten_atleast_3d(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::atleast_3d(Tensor self) -> Tensor"""
    return unsqueezed(graph, self, [[0, 1, 2], [0, 2], [2], []][min(rank_of(graph, self), 3)])


def aten_atleast_3d_Sequence(graph: Graph, res: ResultSpec, tensors: Results) -> Any:
    """aten::atleast_3d.Sequence(Tensor[] tensors) -> Tensor[]"""
    return [unsqueezed(graph, t, [[0, 1, 2], [0, 2], [2], []][min(rank_of(graph, t), 3)]) for t in tensors]


def aten_dsplit_array(graph: Graph, res: ResultSpec, self: Result, indices: Ints) -> Any:
    """aten::dsplit.array(Tensor(a -> *) self, int[] indices) -> Tensor(a)[]"""
    return aten_tensor_split_indices(graph, res, self=self, indices=indices, dim=2)


def aten_dsplit_int(graph: Graph, res: ResultSpec, self: Result, sections: Int) -> Any:
    """aten::dsplit.int(Tensor(a -> *) self, int sections) -> Tensor(a)[]"""
    return aten_tensor_split_sections(graph, res, self=self, sections=sections, dim=2)


def aten_hsplit_array(graph: Graph, res: ResultSpec, self: Result, indices: Ints) -> Any:
    """aten::hsplit.array(Tensor(a -> *) self, int[] indices) -> Tensor(a)[]"""
    return aten_tensor_split_indices(graph, res, self=self, indices=indices, dim=0 if rank_of(graph, self) == 1 else 1)


def aten_hsplit_int(graph: Graph, res: ResultSpec, self: Result, sections: Int) -> Any:
    """aten::hsplit.int(Tensor(a -> *) self, int sections) -> Tensor(a)[]"""
    return aten_tensor_split_sections(graph, res, self=self, sections=sections, dim=0 if rank_of(graph, self) == 1 else 1)


def aten_isin_Scalar_Tensor(graph: Graph, res: ResultSpec, element: Scalar, test_elements: Result, *, assume_unique: Bool = False, invert: Bool = False) -> Result:
    """aten::isin.Scalar_Tensor(Scalar element, Tensor test_elements, *, bool assume_unique=False, bool invert=False) -> Tensor"""
    element, test_elements = promote_values(graph, 'default', [element, test_elements])
    result = any_true(graph, graph.make_node('Equal', [as_flat(graph, test_elements), element]), [0], False)
    return graph.make_node('Not', [result], res.outputs) if invert else result


def aten_isin_Tensor_Scalar(graph: Graph, res: ResultSpec, elements: Result, test_element: Scalar, *, assume_unique: Bool = False, invert: Bool = False) -> Result:
    """aten::isin.Tensor_Scalar(Tensor elements, Scalar test_element, *, bool assume_unique=False, bool invert=False) -> Tensor"""
    elements, test_element = promote_values(graph, 'default', [elements, test_element])
    result = graph.make_node('Equal', [elements, test_element])
    return graph.make_node('Not', [result], res.outputs) if invert else result


def aten_isin_Tensor_Tensor(graph: Graph, res: ResultSpec, elements: Result, test_elements: Result, *, assume_unique: Bool = False, invert: Bool = False) -> Result:
    """aten::isin.Tensor_Tensor(Tensor elements, Tensor test_elements, *, bool assume_unique=False, bool invert=False) -> Tensor"""
    elements, test_elements = promote_values(graph, 'default', [elements, test_elements])
    result = is_among(graph, elements, as_flat(graph, test_elements))
    return graph.make_node('Not', [result], res.outputs) if invert else result


def aten_mH(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::mH(Tensor(a) self) -> Tensor(a)"""
    return aten_adjoint(graph, res, self=self)


def aten_mH_a(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::mH.a(Tensor(a) self) -> Tensor(a)"""
    return aten_adjoint(graph, res, self=self)


def aten_mT(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::mT(Tensor(a) self) -> Tensor(a)"""
    return aten_transpose_int(graph, res, self=self, dim0=-2, dim1=-1)


def aten_mT_a(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::mT.a(Tensor(a) self) -> Tensor(a)"""
    return aten_transpose_int(graph, res, self=self, dim0=-2, dim1=-1)


def aten_matrix_H(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::matrix_H(Tensor(a) self) -> Tensor(a)"""
    return aten_adjoint(graph, res, self=self)


def aten_matrix_H_a(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::matrix_H.a(Tensor(a) self) -> Tensor(a)"""
    return aten_adjoint(graph, res, self=self)


def aten_moveaxis_int(graph: Graph, res: ResultSpec, self: Result, source: Int, destination: Int) -> Result:
    """aten::moveaxis.int(Tensor(a) self, int source, int destination) -> Tensor(a)"""
    return aten_movedim_int(graph, res, self=self, source=source, destination=destination)


def aten_moveaxis_intlist(graph: Graph, res: ResultSpec, self: Result, source: Ints, destination: Ints) -> Result:
    """aten::moveaxis.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)"""
    return aten_movedim_intlist(graph, res, self=self, source=source, destination=destination)


def aten_movedim_int(graph: Graph, res: ResultSpec, self: Result, source: Int, destination: Int) -> Result:
    """aten::movedim.int(Tensor(a) self, int source, int destination) -> Tensor(a)"""
    return permuted(graph, self, moved_axes(rank_of(graph, self), source, destination))


def aten_movedim_intlist(graph: Graph, res: ResultSpec, self: Result, source: Ints, destination: Ints) -> Result:
    """aten::movedim.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)"""
    return permuted(graph, self, moved_axes(rank_of(graph, self), source, destination))


def aten_narrow_Tensor(graph: Graph, res: ResultSpec, self: Result, dim: Int, start: Result, length: SymInt) -> Result:
    """aten::narrow.Tensor(Tensor(a) self, int dim, Tensor start, SymInt length) -> Tensor(a)"""
    axis = axis_of(graph, self, dim)
    first = reshape_to(graph, cast(graph, start, int64), [1])
    wrapped = graph.make_node('Where', [graph.make_node('Less', [first, as_vec(graph, 0)]), graph.make_node('Add', [first, as_vec(graph, dim_of(graph, self, axis))]), first])
    return graph.make_node('Slice', [self, wrapped, graph.make_node('Add', [wrapped, as_vec(graph, length)]), as_vec(graph, axis)], res.outputs)


def aten_nonzero_static(graph: Graph, res: ResultSpec, self: Result, *, size: SymInt, fill_value: Int = -1) -> Result:
    """aten::nonzero_static(Tensor self, *, SymInt size, int fill_value=-1) -> Tensor"""
    rank = rank_of(graph, self)
    graph.case = 1
    filling = filled(graph, [size, rank], fill_value, int64)
    return sliced(graph, graph.make_node('Concat', [nonzero_rows(graph, self), filling], axis=0), 0, 0, size)


def aten_numpy_T(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::numpy_T(Tensor(a) self) -> Tensor(a)"""
    return permuted(graph, self, list(reversed(range(rank_of(graph, self)))))


def aten_numpy_T_a(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::numpy_T.a(Tensor(a) self) -> Tensor(a)"""
    return aten_numpy_T(graph, res, self=self)


def aten_ravel(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::ravel(Tensor(a) self) -> Tensor(a)"""
    return reshape_to(graph, self, flat_sizes(graph, self, 0, -1))


def aten_resize(graph: Graph, res: ResultSpec, self: Result, size: SymInts, *, memory_format: Any = None) -> Result:
    """aten::resize(Tensor self, SymInt[] size, *, MemoryFormat? memory_format=None) -> Tensor"""
    return lower_resize(graph, res, self=self, size=size, memory_format=memory_format)


def aten_resize_as(graph: Graph, res: ResultSpec, self: Result, the_template: Result, *, memory_format: Any = None) -> Result:
    """aten::resize_as(Tensor self, Tensor the_template, *, MemoryFormat? memory_format=None) -> Tensor"""
    return resize_as(graph, res, self=self, the_template=the_template, memory_format=memory_format)


def aten_row_stack(graph: Graph, res: ResultSpec, tensors: Results) -> Result:
    """aten::row_stack(Tensor[] tensors) -> Tensor"""
    return aten_vstack(graph, res, tensors=tensors)


def aten_sum_to_size(graph: Graph, res: ResultSpec, self: Result, size: SymInts) -> Result:
    """aten::sum_to_size(Tensor self, SymInt[] size) -> Tensor"""
    lead = rank_of(graph, self) - len(size)
    kept = [lead + i for i, s in enumerate(size) if dim_of(graph, self, lead + i) == s]
    # torch adds up in the dtype of sum, where it adds up at all
    added = other_axes(rank_of(graph, self), kept)
    return reshape_to(graph, summed_over(graph, cast(graph, self, dtype_of(graph, res)), added, True), size)


def aten_trace(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::trace(Tensor self) -> Tensor"""
    row_major = reshape_to(graph, self, [dim_of(graph, self, 0) * dim_of(graph, self, 1)])
    places = iota(graph, 0, minimum(*shape_of(graph, self)), dim_of(graph, self, 1) + 1)
    values = graph.make_node('Gather', [row_major, places], axis=0)
    total = summed_over(graph, cast(graph, values, float64 if is_float(graph, self) else dtype_of(graph, res)), [0], False)
    return cast(graph, total, dtype_of(graph, res))


def aten_vsplit_array(graph: Graph, res: ResultSpec, self: Result, indices: Ints) -> Any:
    """aten::vsplit.array(Tensor(a -> *) self, int[] indices) -> Tensor(a)[]"""
    return aten_tensor_split_indices(graph, res, self=self, indices=indices)


def aten_vsplit_int(graph: Graph, res: ResultSpec, self: Result, sections: Int) -> Any:
    """aten::vsplit.int(Tensor(a -> *) self, int sections) -> Tensor(a)[]"""
    return aten_tensor_split_sections(graph, res, self=self, sections=sections)


def aten_zero(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::zero(Tensor self) -> Tensor"""
    return aten_fill_Scalar(graph, res, self=self, value=0)


def complex_aten_adjoint(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::adjoint(Tensor(a) self) -> Tensor(a)"""
    graph.case = 2
    return c_conj(graph, permuted(graph, self, transpose_perm(rank_of(graph, self), -2, -1)))


def complex_aten_as_strided_scatter(graph: Graph, res: ResultSpec, self: Result, src: Result, size: SymInts, stride: SymInts, storage_offset: SymInt | None = None) -> Result:
    """aten::as_strided_scatter(Tensor self, Tensor src, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor"""
    return each_part(graph, res, aten_as_strided_scatter, {'self': self, 'src': src}, size=size, stride=stride, storage_offset=storage_offset)


def complex_aten_atleast_1d(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::atleast_1d(Tensor self) -> Tensor"""
    return each_part(graph, res, aten_atleast_1d, {'self': self})


def complex_aten_atleast_1d_Sequence(graph: Graph, res: ResultSpec, tensors: Results) -> Any:
    """aten::atleast_1d.Sequence(Tensor[] tensors) -> Tensor[]"""
    return each_part(graph, res, aten_atleast_1d_Sequence, {'tensors': tensors})


def complex_aten_atleast_2d(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::atleast_2d(Tensor self) -> Tensor"""
    return each_part(graph, res, aten_atleast_2d, {'self': self})


def complex_aten_atleast_2d_Sequence(graph: Graph, res: ResultSpec, tensors: Results) -> Any:
    """aten::atleast_2d.Sequence(Tensor[] tensors) -> Tensor[]"""
    return each_part(graph, res, aten_atleast_2d_Sequence, {'tensors': tensors})


def complex_aten_atleast_3d(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::atleast_3d(Tensor self) -> Tensor"""
    return each_part(graph, res, aten_atleast_3d, {'self': self})


def complex_aten_atleast_3d_Sequence(graph: Graph, res: ResultSpec, tensors: Results) -> Any:
    """aten::atleast_3d.Sequence(Tensor[] tensors) -> Tensor[]"""
    return each_part(graph, res, aten_atleast_3d_Sequence, {'tensors': tensors})


def complex_aten_dsplit_array(graph: Graph, res: ResultSpec, self: Result, indices: Ints) -> Any:
    """aten::dsplit.array(Tensor(a -> *) self, int[] indices) -> Tensor(a)[]"""
    return complex_aten_tensor_split_indices(graph, res, self=self, indices=indices, dim=2)


def complex_aten_dsplit_int(graph: Graph, res: ResultSpec, self: Result, sections: Int) -> Any:
    """aten::dsplit.int(Tensor(a -> *) self, int sections) -> Tensor(a)[]"""
    return complex_aten_tensor_split_sections(graph, res, self=self, sections=sections, dim=2)


def complex_aten_hsplit_array(graph: Graph, res: ResultSpec, self: Result, indices: Ints) -> Any:
    """aten::hsplit.array(Tensor(a -> *) self, int[] indices) -> Tensor(a)[]"""
    return complex_aten_tensor_split_indices(graph, res, self=self, indices=indices, dim=0 if rank_of(graph, self) == 1 else 1)


def complex_aten_hsplit_int(graph: Graph, res: ResultSpec, self: Result, sections: Int) -> Any:
    """aten::hsplit.int(Tensor(a -> *) self, int sections) -> Tensor(a)[]"""
    return complex_aten_tensor_split_sections(graph, res, self=self, sections=sections, dim=0 if rank_of(graph, self) == 1 else 1)


def complex_aten_mH(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::mH(Tensor(a) self) -> Tensor(a)"""
    return complex_aten_adjoint(graph, res, self=self)


def complex_aten_mH_a(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::mH.a(Tensor(a) self) -> Tensor(a)"""
    return complex_aten_adjoint(graph, res, self=self)


def complex_aten_mT(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::mT(Tensor(a) self) -> Tensor(a)"""
    return complex_aten_transpose_int(graph, res, self=self, dim0=-2, dim1=-1)


def complex_aten_mT_a(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::mT.a(Tensor(a) self) -> Tensor(a)"""
    return complex_aten_transpose_int(graph, res, self=self, dim0=-2, dim1=-1)


def complex_aten_matrix_H(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::matrix_H(Tensor(a) self) -> Tensor(a)"""
    return complex_aten_adjoint(graph, res, self=self)


def complex_aten_matrix_H_a(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::matrix_H.a(Tensor(a) self) -> Tensor(a)"""
    return complex_aten_adjoint(graph, res, self=self)


def complex_aten_moveaxis_int(graph: Graph, res: ResultSpec, self: Result, source: Int, destination: Int) -> Result:
    """aten::moveaxis.int(Tensor(a) self, int source, int destination) -> Tensor(a)"""
    return complex_aten_movedim_int(graph, res, self=self, source=source, destination=destination)


def complex_aten_moveaxis_intlist(graph: Graph, res: ResultSpec, self: Result, source: Ints, destination: Ints) -> Result:
    """aten::moveaxis.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)"""
    return complex_aten_movedim_intlist(graph, res, self=self, source=source, destination=destination)


def complex_aten_movedim_int(graph: Graph, res: ResultSpec, self: Result, source: Int, destination: Int) -> Result:
    """aten::movedim.int(Tensor(a) self, int source, int destination) -> Tensor(a)"""
    return each_part(graph, res, aten_movedim_int, {'self': self}, source=source, destination=destination)


def complex_aten_movedim_intlist(graph: Graph, res: ResultSpec, self: Result, source: Ints, destination: Ints) -> Result:
    """aten::movedim.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)"""
    return each_part(graph, res, aten_movedim_intlist, {'self': self}, source=source, destination=destination)


def complex_aten_nonzero_static(graph: Graph, res: ResultSpec, self: Result, *, size: SymInt, fill_value: Int = -1) -> Result:
    """aten::nonzero_static(Tensor self, *, SymInt size, int fill_value=-1) -> Tensor"""
    rank = rank_of(graph, self)
    graph.case = 2
    filling = filled(graph, [size, rank], fill_value, int64)
    return sliced(graph, graph.make_node('Concat', [nonzero_rows(graph, c_truth(graph, self)), filling], axis=0), 0, 0, size)


def complex_aten_numpy_T(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::numpy_T(Tensor(a) self) -> Tensor(a)"""
    return each_part(graph, res, aten_numpy_T, {'self': self})


def complex_aten_numpy_T_a(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::numpy_T.a(Tensor(a) self) -> Tensor(a)"""
    return complex_aten_numpy_T(graph, res, self=self)


def complex_aten_ravel(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::ravel(Tensor(a) self) -> Tensor(a)"""
    return each_part(graph, res, aten_ravel, {'self': self})


def complex_aten_resize(graph: Graph, res: ResultSpec, self: Result, size: SymInts, *, memory_format: Any = None) -> Result:
    """aten::resize(Tensor self, SymInt[] size, *, MemoryFormat? memory_format=None) -> Tensor"""
    return each_part(graph, res, aten_resize, {'self': self}, size=size, memory_format=memory_format)


def complex_aten_resize_as(graph: Graph, res: ResultSpec, self: Result, the_template: Result, *, memory_format: Any = None) -> Result:
    """aten::resize_as(Tensor self, Tensor the_template, *, MemoryFormat? memory_format=None) -> Tensor"""
    return each_part(graph, res, aten_resize_as, {'self': self, 'the_template': the_template}, memory_format=memory_format)


def complex_aten_row_stack(graph: Graph, res: ResultSpec, tensors: Results) -> Result:
    """aten::row_stack(Tensor[] tensors) -> Tensor"""
    return complex_aten_vstack(graph, res, tensors=tensors)


def complex_aten_sum_to_size(graph: Graph, res: ResultSpec, self: Result, size: SymInts) -> Result:
    """aten::sum_to_size(Tensor self, SymInt[] size) -> Tensor"""
    return each_part(graph, res, aten_sum_to_size, {'self': self}, size=size)


def complex_aten_trace(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::trace(Tensor self) -> Tensor"""
    return each_part(graph, res, aten_trace, {'self': self})


def complex_aten_vsplit_array(graph: Graph, res: ResultSpec, self: Result, indices: Ints) -> Any:
    """aten::vsplit.array(Tensor(a -> *) self, int[] indices) -> Tensor(a)[]"""
    return complex_aten_tensor_split_indices(graph, res, self=self, indices=indices)


def complex_aten_vsplit_int(graph: Graph, res: ResultSpec, self: Result, sections: Int) -> Any:
    """aten::vsplit.int(Tensor(a -> *) self, int sections) -> Tensor(a)[]"""
    return complex_aten_tensor_split_sections(graph, res, self=self, sections=sections)


def complex_aten_zero(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::zero(Tensor self) -> Tensor"""
    return complex_aten_fill_Scalar(graph, res, self=self, value=0)


def rule_aten_adjoint(graph: Graph, self: Result) -> Rules:
    return ((dtype_or_none(graph, self), swap_dims(shape_or_none(graph, self), -2, -1)),)


def rule_aten_as_strided_scatter(graph: Graph, self: Result, src: Result, size: SymInts, stride: SymInts, storage_offset: SymInt | None = None) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_atleast_1d(graph: Graph, self: Result) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_atleast_1d_Sequence(graph: Graph, tensors: Results) -> Rules:
    return ((dtype_or_none(graph, tensors), None),)


def rule_aten_atleast_2d(graph: Graph, self: Result) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_atleast_2d_Sequence(graph: Graph, tensors: Results) -> Rules:
    return ((dtype_or_none(graph, tensors), None),)


def rule_aten_atleast_3d(graph: Graph, self: Result) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_atleast_3d_Sequence(graph: Graph, tensors: Results) -> Rules:
    return ((dtype_or_none(graph, tensors), None),)


def rule_aten_dsplit_array(graph: Graph, self: Result, indices: Ints) -> Rules:
    return rule_aten_tensor_split_indices(graph, self=self, indices=indices, dim=2)


def rule_aten_dsplit_int(graph: Graph, self: Result, sections: Int) -> Rules:
    return rule_aten_tensor_split_sections(graph, self=self, sections=sections, dim=2)


def rule_aten_hsplit_array(graph: Graph, self: Result, indices: Ints) -> Rules:
    return rule_aten_tensor_split_indices(graph, self=self, indices=indices, dim=0 if rank_of(graph, self) == 1 else 1)


def rule_aten_hsplit_int(graph: Graph, self: Result, sections: Int) -> Rules:
    return rule_aten_tensor_split_sections(graph, self=self, sections=sections, dim=0 if rank_of(graph, self) == 1 else 1)


def rule_aten_isin_Scalar_Tensor(graph: Graph, element: Scalar, test_elements: Result, *, assume_unique: Bool = False, invert: Bool = False) -> Rules:
    return ((boolean, scalar_shape()),)


def rule_aten_isin_Tensor_Scalar(graph: Graph, elements: Result, test_element: Scalar, *, assume_unique: Bool = False, invert: Bool = False) -> Rules:
    return ((boolean, shape_or_none(graph, elements)),)


def rule_aten_isin_Tensor_Tensor(graph: Graph, elements: Result, test_elements: Result, *, assume_unique: Bool = False, invert: Bool = False) -> Rules:
    return ((boolean, shape_or_none(graph, elements)),)


def rule_aten_mH(graph: Graph, self: Result) -> Rules:
    return rule_aten_adjoint(graph, self=self)


def rule_aten_mH_a(graph: Graph, self: Result) -> Rules:
    return rule_aten_adjoint(graph, self=self)


def rule_aten_mT(graph: Graph, self: Result) -> Rules:
    return rule_aten_transpose_int(graph, self=self, dim0=-2, dim1=-1)


def rule_aten_mT_a(graph: Graph, self: Result) -> Rules:
    return rule_aten_transpose_int(graph, self=self, dim0=-2, dim1=-1)


def rule_aten_matrix_H(graph: Graph, self: Result) -> Rules:
    return rule_aten_adjoint(graph, self=self)


def rule_aten_matrix_H_a(graph: Graph, self: Result) -> Rules:
    return rule_aten_adjoint(graph, self=self)


def rule_aten_moveaxis_int(graph: Graph, self: Result, source: Int, destination: Int) -> Rules:
    return rule_aten_movedim_int(graph, self=self, source=source, destination=destination)


def rule_aten_moveaxis_intlist(graph: Graph, self: Result, source: Ints, destination: Ints) -> Rules:
    return rule_aten_movedim_intlist(graph, self=self, source=source, destination=destination)


def rule_aten_movedim_int(graph: Graph, self: Result, source: Int, destination: Int) -> Rules:
    return ((dtype_or_none(graph, self), permute_shape(shape_or_none(graph, self), moved_axes(rank_of(graph, self), source, destination))),)


def rule_aten_movedim_intlist(graph: Graph, self: Result, source: Ints, destination: Ints) -> Rules:
    return ((dtype_or_none(graph, self), permute_shape(shape_or_none(graph, self), moved_axes(rank_of(graph, self), source, destination))),)


def rule_aten_narrow_Tensor(graph: Graph, self: Result, dim: Int, start: Result, length: SymInt) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_nonzero_static(graph: Graph, self: Result, *, size: SymInt, fill_value: Int = -1) -> Rules:
    return ((int64, given_shape([size, rank_of(graph, self)])),)


def rule_aten_numpy_T(graph: Graph, self: Result) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_numpy_T_a(graph: Graph, self: Result) -> Rules:
    return rule_aten_numpy_T(graph, self=self)


def rule_aten_ravel(graph: Graph, self: Result) -> Rules:
    return ((dtype_or_none(graph, self), given_shape(flat_sizes(graph, self, 0, -1))),)


def rule_aten_resize(graph: Graph, self: Result, size: SymInts, *, memory_format: Any = None) -> Rules:
    return ((dtype_or_none(graph, self), given_shape(size)),)


def rule_aten_resize_as(graph: Graph, self: Result, the_template: Result, *, memory_format: Any = None) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, the_template)),)


def rule_aten_row_stack(graph: Graph, tensors: Results) -> Rules:
    return rule_aten_vstack(graph, tensors=tensors)


def rule_aten_sum_to_size(graph: Graph, self: Result, size: SymInts) -> Rules:
    return ((dtype_or_none(graph, self) if is_float(graph, self) or is_complex(graph, self) or (len(size) > 0 and list(size) == list(shape_of(graph, self))) else int64, given_shape(size)),)


def rule_aten_trace(graph: Graph, self: Result) -> Rules:
    return ((accumulate_dtype(dtype_or_none(graph, self)), scalar_shape()),)


def rule_aten_vsplit_array(graph: Graph, self: Result, indices: Ints) -> Rules:
    return rule_aten_tensor_split_indices(graph, self=self, indices=indices)


def rule_aten_vsplit_int(graph: Graph, self: Result, sections: Int) -> Rules:
    return rule_aten_tensor_split_sections(graph, self=self, sections=sections)


def rule_aten_zero(graph: Graph, self: Result) -> Rules:
    return rule_aten_fill_Scalar(graph, self=self, value=0)
