# Generated from specs/aten/scatter.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING

from ortable.dispatch import DataCheck
from ortable.dtypes import int64
from ortable.errors import UnsupportedCase
from ortable.inference import broadcast
from ortable.lowerings.complex.parts import each_part
from ortable.lowerings.padding import full_pads
from ortable.lowerings.scatter import clamped_bound, put_diagonal, scatter_reduce
from ortable.lowerings.shapes import common_sizes
from ortable.prelude.facts import axes_of, axis_of, count_of, differs, dim_of, dtype_of, is_bool, is_float, is_static, maximum, rank_of, shape_of
from ortable.prelude.indexing import marked_indices, scatter_elements, scatter_slices
from ortable.prelude.metadata import dtype_or_none, given_shape, shape_or_none
from ortable.prelude.pointwise import const_like
from ortable.prelude.shapes import along_axis, as_flat, expanded, iota, moved_axes, sliced, wrapped_index, zeros_of
from ortable.prelude.sums import count_true
from ortable.prelude.values import as_scalar, as_vec, at_least_1d, cast, const, permuted, reshape_to, unsqueezed, with_rank_of

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Bool, Int, Result, Scalar, Str, SymInt, SymInts


def aten_diag_embed(graph: Graph, res: ResultSpec, self: Result, offset: Int = 0, dim1: Int = -2, dim2: Int = -1) -> Result:
    """aten::diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor"""
    rank = rank_of(graph, self)
    size = dim_of(graph, self, -1) + abs(offset)
    ends = moved_axes(rank + 1, [rank - 1, rank], [dim1, dim2])
    pads = full_pads(rank, rank - 1, max(offset, 0), max(-offset, 0))
    zero = const(graph, 0, dtype_of(graph, self))
    values = graph.make_node('Pad', [self, as_vec(graph, pads), zero]) if differs(offset, 0) else self
    rows = graph.make_node('Unsqueeze', [iota(graph, 0, size, 1), as_vec(graph, 1)])
    here = graph.make_node('Equal', [iota(graph, 0, size, 1), graph.make_node('Add', [rows, const(graph, offset, int64)])])
    wide = graph.make_node('Unsqueeze', [values, as_vec(graph, -2)])
    return permuted(graph, graph.make_node('Where', [here, wide, zero]), ends)


def aten_diagonal_backward(graph: Graph, res: ResultSpec, grad_output: Result, input_sizes: SymInts, offset: Int, dim1: Int, dim2: Int) -> Result:
    """aten::diagonal_backward(Tensor grad_output, SymInt[] input_sizes, int offset, int dim1, int dim2) -> Tensor"""
    base = zeros_of(graph, input_sizes, dtype_of(graph, grad_output))
    return put_diagonal(graph, base, grad_output, offset, axis_of(graph, base, dim1), axis_of(graph, base, dim2))


def aten_diagonal_scatter(graph: Graph, res: ResultSpec, self: Result, src: Result, offset: Int = 0, dim1: Int = 0, dim2: Int = 1) -> Result:
    """aten::diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor"""
    values = cast(graph, src, dtype_of(graph, self))
    return put_diagonal(graph, self, values, offset, axis_of(graph, self, dim1), axis_of(graph, self, dim2))


def aten_embedding_dense_backward(graph: Graph, res: ResultSpec, grad_output: Result, indices: Result, num_weights: SymInt, padding_idx: SymInt, scale_grad_by_freq: Bool) -> Result:
    """aten::embedding_dense_backward(Tensor grad_output, Tensor indices, SymInt num_weights, SymInt padding_idx, bool scale_grad_by_freq) -> Tensor"""
    width = dim_of(graph, grad_output, -1)
    if scale_grad_by_freq and (not is_float(graph, grad_output)):
        graph.case = 1
        raise UnsupportedCase('aten::embedding_dense_backward: whole numbers divided by how often an index occurs')
    if scale_grad_by_freq:
        graph.case = 2
        rows, flat = (reshape_to(graph, grad_output, [count_of(graph, indices), width]), as_flat(graph, indices))
        positions, zero = (cast(graph, flat, int64), const(graph, 0, dtype_of(graph, grad_output)))
        ones = expanded(graph, const(graph, 1, dtype_of(graph, grad_output)), shape_of(graph, positions))
        counts = zeros_of(graph, [num_weights], dtype_of(graph, grad_output))
        counts = scatter_elements(graph, counts, 0, positions, ones, 'add')
        times = unsqueezed(graph, graph.make_node('Gather', [counts, positions], axis=0), [1])
        skipped = unsqueezed(graph, graph.make_node('Equal', [positions, as_scalar(graph, padding_idx)]), [1])
        zeros = zeros_of(graph, [num_weights, width], dtype_of(graph, grad_output))
        return scatter_slices(graph, zeros, 0, positions, graph.make_node('Where', [skipped, zero, graph.make_node('Div', [rows, times])]), 'add')
    if padding_idx < 0:
        graph.case = 3
        rows = reshape_to(graph, grad_output, [count_of(graph, indices), width])
        zeros = zeros_of(graph, [num_weights, width], dtype_of(graph, grad_output))
        return scatter_slices(graph, zeros, 0, as_flat(graph, cast(graph, indices, int64)), rows, 'add')
    # rows that were read at padding_idx give no gradient, NaN included
    graph.case = 4
    skipped = graph.make_node('Unsqueeze', [graph.make_node('Equal', [cast(graph, indices, int64), as_vec(graph, padding_idx)]), as_vec(graph, -1)])
    kept = graph.make_node('Where', [skipped, const(graph, 0, dtype_of(graph, grad_output)), grad_output])
    rows = reshape_to(graph, kept, [count_of(graph, indices), width])
    zeros = zeros_of(graph, [num_weights, width], dtype_of(graph, grad_output))
    return scatter_slices(graph, zeros, 0, as_flat(graph, cast(graph, indices, int64)), rows, 'add')


def aten_index_add(graph: Graph, res: ResultSpec, self: Result, dim: Int, index: Result, source: Result, *, alpha: Scalar = 1) -> Result:
    """aten::index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor"""
    if is_bool(graph, self) and (not bool(alpha)):
        graph.case = 1
        return self
    if alpha == 1 or is_bool(graph, self):
        graph.case = 2
        indices = cast(graph, at_least_1d(graph, index), int64)
        result = scatter_slices(graph, at_least_1d(graph, self), axis_of(graph, self, dim), indices, at_least_1d(graph, source), 'add')
        return with_rank_of(graph, result, self)
    graph.case = 3
    indices = cast(graph, at_least_1d(graph, index), int64)
    added = graph.make_node('Mul', [at_least_1d(graph, source), const(graph, alpha, dtype_of(graph, source))])
    result = scatter_slices(graph, at_least_1d(graph, self), axis_of(graph, self, dim), indices, added, 'add')
    return with_rank_of(graph, result, self)


def aten_index_copy(graph: Graph, res: ResultSpec, self: Result, dim: Int, index: Result, source: Result) -> Result:
    """aten::index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor"""
    indices = cast(graph, at_least_1d(graph, index), int64)
    result = scatter_slices(graph, at_least_1d(graph, self), axis_of(graph, self, dim), indices, at_least_1d(graph, source), 'none')
    return with_rank_of(graph, result, self)


def aten_index_fill_int_Scalar(graph: Graph, res: ResultSpec, self: Result, dim: Int, index: Result, value: Scalar) -> Result:
    """aten::index_fill.int_Scalar(Tensor self, int dim, Tensor index, Scalar value) -> Tensor"""
    here = marked_indices(graph, self, dim, index)
    return graph.make_node('Where', [here, const(graph, value, dtype_of(graph, self)), self], res.outputs)


def aten_index_fill_int_Tensor(graph: Graph, res: ResultSpec, self: Result, dim: Int, index: Result, value: Result) -> Result:
    """aten::index_fill.int_Tensor(Tensor self, int dim, Tensor index, Tensor value) -> Tensor"""
    here = marked_indices(graph, self, dim, index)
    return graph.make_node('Where', [here, cast(graph, value, dtype_of(graph, self)), self], res.outputs)


def aten_index_reduce(graph: Graph, res: ResultSpec, self: Result, dim: Int, index: Result, source: Result, reduce: Str, *, include_self: Bool = True) -> Result:
    """aten::index_reduce(Tensor self, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True) -> Tensor"""
    axis, places = (axis_of(graph, source, dim), cast(graph, at_least_1d(graph, index), int64))
    column = along_axis(graph, places, axis, max(rank_of(graph, source), 1))
    indices = expanded(graph, column, shape_of(graph, at_least_1d(graph, source)))
    return scatter_reduce(graph, self, dim, indices, source, reduce, include_self)


def aten_masked_scatter(graph: Graph, res: ResultSpec, self: Result, mask: Result, source: Result) -> Result:
    """aten::masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor"""
    if count_of(graph, source) == 0:
        graph.case = 1
        return expanded(graph, self, common_sizes(graph, [self, mask]))
    # the k-th place where the mask is True takes the k-th element of source; one of unknown size may have none, and what is gathered for places that keep theirs has to be there
    graph.case = 2
    flat = as_flat(graph, source)
    one_more = graph.make_node('Concat', [flat, at_least_1d(graph, const_like(graph, 0, source))], axis=0)
    some = flat if is_static(count_of(graph, source)) else one_more
    sizes = common_sizes(graph, [self, mask])
    here = as_flat(graph, expanded(graph, mask, sizes))
    count = graph.make_node('CumSum', [graph.make_node('Cast', [here], to=int64), const(graph, 0, int64)])
    index = graph.make_node('Where', [here, graph.make_node('Sub', [count, const(graph, 1, int64)]), const(graph, 0, int64)])
    kept = as_flat(graph, expanded(graph, self, sizes))
    return reshape_to(graph, graph.make_node('Where', [here, graph.make_node('Gather', [some, index]), kept]), sizes)


def aten_put(graph: Graph, res: ResultSpec, self: Result, index: Result, source: Result, accumulate: Bool = False) -> Result:
    """aten::put(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor"""
    how = 'add' if accumulate else 'none'
    indices = cast(graph, as_flat(graph, index), int64)
    return reshape_to(graph, scatter_slices(graph, as_flat(graph, self), 0, indices, as_flat(graph, source), how), shape_of(graph, self))


def aten_scatter_add(graph: Graph, res: ResultSpec, self: Result, dim: Int, index: Result, src: Result) -> Result:
    """aten::scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor"""
    return scatter_elements(graph, self, dim, index, src, 'add')


def aten_scatter_reduce(graph: Graph, res: ResultSpec, self: Result, dim: Int, index: Result, src: Result, *, reduce: Str) -> Result:
    """aten::scatter.reduce(Tensor self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor"""
    how = 'mul' if reduce == 'multiply' else 'add'
    return scatter_elements(graph, self, dim, index, src, how)


def aten_scatter_reduce_two(graph: Graph, res: ResultSpec, self: Result, dim: Int, index: Result, src: Result, reduce: Str, *, include_self: Bool = True) -> Result:
    """aten::scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True) -> Tensor"""
    return scatter_reduce(graph, self, dim, index, src, reduce, include_self)


def aten_scatter_src(graph: Graph, res: ResultSpec, self: Result, dim: Int, index: Result, src: Result) -> Result:
    """aten::scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor"""
    return scatter_elements(graph, self, dim, index, src, 'none')


def aten_scatter_value(graph: Graph, res: ResultSpec, self: Result, dim: Int, index: Result, value: Scalar) -> Result:
    """aten::scatter.value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor"""
    return scatter_elements(graph, self, dim, index, const(graph, value, dtype_of(graph, self)), 'none')


def aten_scatter_value_reduce(graph: Graph, res: ResultSpec, self: Result, dim: Int, index: Result, value: Scalar, *, reduce: Str) -> Result:
    """aten::scatter.value_reduce(Tensor self, int dim, Tensor index, Scalar value, *, str reduce) -> Tensor"""
    how = 'mul' if reduce == 'multiply' else 'add'
    return scatter_elements(graph, self, dim, index, const(graph, value, dtype_of(graph, self)), how)


def aten_select_backward(graph: Graph, res: ResultSpec, grad_output: Result, input_sizes: SymInts, dim: Int, index: SymInt) -> Result:
    """aten::select_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt index) -> Tensor"""
    rank = len(input_sizes)
    axis = dim if dim >= 0 else dim + rank
    position = wrapped_index(index, input_sizes[axis])
    pads = as_vec(graph, full_pads(rank, axis, position, input_sizes[axis] - position - 1))
    return graph.make_node('Pad', [graph.make_node('Unsqueeze', [grad_output, as_vec(graph, axis)]), pads, const(graph, 0, dtype_of(graph, grad_output))], res.outputs)


def aten_select_scatter(graph: Graph, res: ResultSpec, self: Result, src: Result, dim: Int, index: SymInt) -> Result:
    """aten::select_scatter(Tensor self, Tensor src, int dim, SymInt index) -> Tensor"""
    axis = axis_of(graph, self, dim)
    position = wrapped_index(index, dim_of(graph, self, dim))
    here = graph.make_node('Equal', [iota(graph, 0, dim_of(graph, self, dim), 1), as_vec(graph, position)])
    row = graph.make_node('Unsqueeze', [cast(graph, src, dtype_of(graph, self)), as_vec(graph, axis)])
    return graph.make_node('Where', [along_axis(graph, here, axis, rank_of(graph, self)), row, self], res.outputs)


def aten_slice_backward(graph: Graph, res: ResultSpec, grad_output: Result, input_sizes: SymInts, dim: Int, start: SymInt, end: SymInt, step: SymInt) -> Result:
    """aten::slice_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt start, SymInt end, SymInt step) -> Tensor"""
    axis = dim if dim >= 0 else dim + len(input_sizes)
    size = input_sizes[axis]
    first = clamped_bound(start, size, 0)
    last = maximum(first, clamped_bound(end, size, size))
    if step == 1:
        graph.case = 1
        pads = as_vec(graph, full_pads(len(input_sizes), axis, first, size - last))
        return graph.make_node('Pad', [grad_output, pads, const(graph, 0, dtype_of(graph, grad_output))], res.outputs)
    graph.case = 2
    base = zeros_of(graph, input_sizes, dtype_of(graph, grad_output))
    indices = iota(graph, first, dim_of(graph, grad_output, axis), step)
    return scatter_slices(graph, base, axis, indices, grad_output, 'none')


def aten_slice_scatter(graph: Graph, res: ResultSpec, self: Result, src: Result, dim: Int = 0, start: SymInt | None = None, end: SymInt | None = None, step: SymInt = 1) -> Result:
    """aten::slice_scatter(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor"""
    axis = axis_of(graph, self, dim)
    size = dim_of(graph, self, dim)
    first = clamped_bound(start, size, 0)
    last = maximum(first, clamped_bound(end, size, size))
    if step == 1 and first == 0 and (last == size):
        graph.case = 1
        return cast(graph, src, dtype_of(graph, self))
    if step == 1 and first == 0:
        graph.case = 2
        after = sliced(graph, self, axis, last, 9223372036854775807)
        return graph.make_node('Concat', [cast(graph, src, dtype_of(graph, self)), after], res.outputs, axis=axis)
    if step == 1 and last == size:
        graph.case = 3
        return graph.make_node('Concat', [sliced(graph, self, axis, 0, first), cast(graph, src, dtype_of(graph, self))], res.outputs, axis=axis)
    if step == 1:
        graph.case = 4
        before = sliced(graph, self, axis, 0, first)
        after = sliced(graph, self, axis, last, 9223372036854775807)
        return graph.make_node('Concat', [before, cast(graph, src, dtype_of(graph, self)), after], res.outputs, axis=axis)
    graph.case = 5
    indices = iota(graph, first, dim_of(graph, src, axis), step)
    return scatter_slices(graph, self, axis, indices, cast(graph, src, dtype_of(graph, self)), 'none')


def aten_value_selecting_reduction_backward(graph: Graph, res: ResultSpec, grad: Result, dim: Int, indices: Result, sizes: SymInts, keepdim: Bool) -> Result:
    """aten::value_selecting_reduction_backward(Tensor grad, int dim, Tensor indices, SymInt[] sizes, bool keepdim) -> Tensor"""
    if len(sizes) == 0:
        graph.case = 1
        return grad
    graph.case = 2
    axis = dim if dim >= 0 else dim + len(sizes)
    base = zeros_of(graph, sizes, dtype_of(graph, grad))
    index = indices if keepdim else graph.make_node('Unsqueeze', [indices, as_vec(graph, axis)])
    rows = grad if keepdim else graph.make_node('Unsqueeze', [grad, as_vec(graph, axis)])
    return graph.make_node('ScatterElements', [base, index, rows], res.outputs, axis=axis)


def check_aten_index_add(graph: Graph, self: Result, dim: Int, index: Result, source: Result, *, alpha: Scalar = 1) -> list[DataCheck]:
    return [
        *([DataCheck(index, 0, dim_of(graph, self, dim), 'IndexError', 'index out of range in self', None)] if rank_of(graph, self) < 2 else []),
        *([DataCheck(index, 0, dim_of(graph, self, dim), 'RuntimeError', 'index {value} is out of bounds for dimension {axis} with size {high}', axis_of(graph, self, dim))] if rank_of(graph, self) > 1 else []),
    ]


def check_aten_index_copy(graph: Graph, self: Result, dim: Int, index: Result, source: Result) -> list[DataCheck]:
    return [
        DataCheck(index, 0, dim_of(graph, self, dim), 'IndexError', 'index_copy_(): index {value} is out of bounds for dimension {axis} with size {high}', axis_of(graph, self, dim)),
    ]


def check_aten_index_fill_int_Scalar(graph: Graph, self: Result, dim: Int, index: Result, value: Scalar) -> list[DataCheck]:
    return [
        DataCheck(index, -dim_of(graph, self, dim), dim_of(graph, self, dim), 'IndexError', 'index {value} is out of bounds for dimension {axis} with size {high}', axis_of(graph, self, dim)),
    ]


def check_aten_index_fill_int_Tensor(graph: Graph, self: Result, dim: Int, index: Result, value: Result) -> list[DataCheck]:
    return [
        DataCheck(index, -dim_of(graph, self, dim), dim_of(graph, self, dim), 'IndexError', 'index {value} is out of bounds for dimension {axis} with size {high}', axis_of(graph, self, dim)),
    ]


def check_aten_index_reduce(graph: Graph, self: Result, dim: Int, index: Result, source: Result, reduce: Str, *, include_self: Bool = True) -> list[DataCheck]:
    return [
        DataCheck(index, 0, dim_of(graph, self, dim), 'IndexError', 'index out of range in self', None),
    ]


def check_aten_masked_scatter(graph: Graph, self: Result, mask: Result, source: Result) -> list[DataCheck]:
    return [
        DataCheck(count_true(graph, expanded(graph, mask, shape_of(graph, self)), axes_of(graph, self, []), False), None, count_of(graph, source) + 1, 'RuntimeError', 'Number of elements of source < number of ones in mask', None),
    ]


def check_aten_put(graph: Graph, self: Result, index: Result, source: Result, accumulate: Bool = False) -> list[DataCheck]:
    return [
        DataCheck(index, -count_of(graph, self), count_of(graph, self), 'IndexError', 'out of range: tried to access index {value} on a tensor of {high} elements.', None),
    ]


def check_aten_scatter_add(graph: Graph, self: Result, dim: Int, index: Result, src: Result) -> list[DataCheck]:
    return [
        DataCheck(index, 0, dim_of(graph, self, dim), 'RuntimeError', 'index {value} is out of bounds for dimension {axis} with size {high}', axis_of(graph, self, dim)),
    ]


def check_aten_scatter_reduce(graph: Graph, self: Result, dim: Int, index: Result, src: Result, *, reduce: Str) -> list[DataCheck]:
    return [
        DataCheck(index, 0, dim_of(graph, self, dim), 'RuntimeError', 'index {value} is out of bounds for dimension {axis} with size {high}', axis_of(graph, self, dim)),
    ]


def check_aten_scatter_reduce_two(graph: Graph, self: Result, dim: Int, index: Result, src: Result, reduce: Str, *, include_self: Bool = True) -> list[DataCheck]:
    return [
        DataCheck(index, 0, dim_of(graph, self, dim), 'RuntimeError', 'index {value} is out of bounds for dimension {axis} with size {high}', axis_of(graph, self, dim)),
    ]


def check_aten_scatter_src(graph: Graph, self: Result, dim: Int, index: Result, src: Result) -> list[DataCheck]:
    return [
        DataCheck(index, 0, dim_of(graph, self, dim), 'RuntimeError', 'index {value} is out of bounds for dimension {axis} with size {high}', axis_of(graph, self, dim)),
    ]


def check_aten_scatter_value(graph: Graph, self: Result, dim: Int, index: Result, value: Scalar) -> list[DataCheck]:
    return [
        DataCheck(index, 0, dim_of(graph, self, dim), 'RuntimeError', 'index {value} is out of bounds for dimension {axis} with size {high}', axis_of(graph, self, dim)),
    ]


def check_aten_scatter_value_reduce(graph: Graph, self: Result, dim: Int, index: Result, value: Scalar, *, reduce: Str) -> list[DataCheck]:
    return [
        DataCheck(index, 0, dim_of(graph, self, dim), 'RuntimeError', 'index {value} is out of bounds for dimension {axis} with size {high}', axis_of(graph, self, dim)),
    ]


def complex_aten_diag_embed(graph: Graph, res: ResultSpec, self: Result, offset: Int = 0, dim1: Int = -2, dim2: Int = -1) -> Result:
    """aten::diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor"""
    return each_part(graph, res, aten_diag_embed, {'self': self}, offset=offset, dim1=dim1, dim2=dim2)


def complex_aten_diagonal_backward(graph: Graph, res: ResultSpec, grad_output: Result, input_sizes: SymInts, offset: Int, dim1: Int, dim2: Int) -> Result:
    """aten::diagonal_backward(Tensor grad_output, SymInt[] input_sizes, int offset, int dim1, int dim2) -> Tensor"""
    return each_part(graph, res, aten_diagonal_backward, {'grad_output': grad_output}, input_sizes=input_sizes, offset=offset, dim1=dim1, dim2=dim2)


def complex_aten_diagonal_scatter(graph: Graph, res: ResultSpec, self: Result, src: Result, offset: Int = 0, dim1: Int = 0, dim2: Int = 1) -> Result:
    """aten::diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor"""
    return each_part(graph, res, aten_diagonal_scatter, {'self': self, 'src': src}, offset=offset, dim1=dim1, dim2=dim2)


def complex_aten_index_add(graph: Graph, res: ResultSpec, self: Result, dim: Int, index: Result, source: Result, *, alpha: Scalar = 1) -> Result:
    """aten::index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor"""
    return each_part(graph, res, aten_index_add, {'self': self, 'source': source}, dim=dim, index=index, alpha=alpha)


def complex_aten_index_copy(graph: Graph, res: ResultSpec, self: Result, dim: Int, index: Result, source: Result) -> Result:
    """aten::index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor"""
    return each_part(graph, res, aten_index_copy, {'self': self, 'source': source}, dim=dim, index=index)


def complex_aten_index_fill_int_Scalar(graph: Graph, res: ResultSpec, self: Result, dim: Int, index: Result, value: Scalar) -> Result:
    """aten::index_fill.int_Scalar(Tensor self, int dim, Tensor index, Scalar value) -> Tensor"""
    return each_part(graph, res, aten_index_fill_int_Scalar, {'self': self, 'value': value}, dim=dim, index=index)


def complex_aten_index_fill_int_Tensor(graph: Graph, res: ResultSpec, self: Result, dim: Int, index: Result, value: Result) -> Result:
    """aten::index_fill.int_Tensor(Tensor self, int dim, Tensor index, Tensor value) -> Tensor"""
    return each_part(graph, res, aten_index_fill_int_Tensor, {'self': self, 'value': value}, dim=dim, index=index)


def complex_aten_masked_scatter(graph: Graph, res: ResultSpec, self: Result, mask: Result, source: Result) -> Result:
    """aten::masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor"""
    return each_part(graph, res, aten_masked_scatter, {'self': self, 'source': source}, mask=mask)


def complex_aten_put(graph: Graph, res: ResultSpec, self: Result, index: Result, source: Result, accumulate: Bool = False) -> Result:
    """aten::put(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor"""
    return each_part(graph, res, aten_put, {'self': self, 'source': source}, index=index, accumulate=accumulate)


def complex_aten_scatter_add(graph: Graph, res: ResultSpec, self: Result, dim: Int, index: Result, src: Result) -> Result:
    """aten::scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor"""
    return each_part(graph, res, aten_scatter_add, {'self': self, 'src': src}, dim=dim, index=index)


def complex_aten_scatter_src(graph: Graph, res: ResultSpec, self: Result, dim: Int, index: Result, src: Result) -> Result:
    """aten::scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor"""
    return each_part(graph, res, aten_scatter_src, {'self': self, 'src': src}, dim=dim, index=index)


def complex_aten_scatter_value(graph: Graph, res: ResultSpec, self: Result, dim: Int, index: Result, value: Scalar) -> Result:
    """aten::scatter.value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor"""
    return each_part(graph, res, aten_scatter_value, {'self': self, 'value': value}, dim=dim, index=index)


def complex_aten_select_backward(graph: Graph, res: ResultSpec, grad_output: Result, input_sizes: SymInts, dim: Int, index: SymInt) -> Result:
    """aten::select_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt index) -> Tensor"""
    return each_part(graph, res, aten_select_backward, {'grad_output': grad_output}, input_sizes=input_sizes, dim=dim, index=index)


def complex_aten_select_scatter(graph: Graph, res: ResultSpec, self: Result, src: Result, dim: Int, index: SymInt) -> Result:
    """aten::select_scatter(Tensor self, Tensor src, int dim, SymInt index) -> Tensor"""
    return each_part(graph, res, aten_select_scatter, {'self': self, 'src': src}, dim=dim, index=index)


def complex_aten_slice_backward(graph: Graph, res: ResultSpec, grad_output: Result, input_sizes: SymInts, dim: Int, start: SymInt, end: SymInt, step: SymInt) -> Result:
    """aten::slice_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt start, SymInt end, SymInt step) -> Tensor"""
    return each_part(graph, res, aten_slice_backward, {'grad_output': grad_output}, input_sizes=input_sizes, dim=dim, start=start, end=end, step=step)


def complex_aten_slice_scatter(graph: Graph, res: ResultSpec, self: Result, src: Result, dim: Int = 0, start: SymInt | None = None, end: SymInt | None = None, step: SymInt = 1) -> Result:
    """aten::slice_scatter(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor"""
    return each_part(graph, res, aten_slice_scatter, {'self': self, 'src': src}, dim=dim, start=start, end=end, step=step)


def rule_aten_diag_embed(graph: Graph, self: Result, offset: Int = 0, dim1: Int = -2, dim2: Int = -1) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_diagonal_backward(graph: Graph, grad_output: Result, input_sizes: SymInts, offset: Int, dim1: Int, dim2: Int) -> Rules:
    return ((dtype_or_none(graph, grad_output), given_shape(input_sizes)),)


def rule_aten_diagonal_scatter(graph: Graph, self: Result, src: Result, offset: Int = 0, dim1: Int = 0, dim2: Int = 1) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_embedding_dense_backward(graph: Graph, grad_output: Result, indices: Result, num_weights: SymInt, padding_idx: SymInt, scale_grad_by_freq: Bool) -> Rules:
    return ((dtype_or_none(graph, grad_output), None),)


def rule_aten_index_add(graph: Graph, self: Result, dim: Int, index: Result, source: Result, *, alpha: Scalar = 1) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_index_copy(graph: Graph, self: Result, dim: Int, index: Result, source: Result) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_index_fill_int_Scalar(graph: Graph, self: Result, dim: Int, index: Result, value: Scalar) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_index_fill_int_Tensor(graph: Graph, self: Result, dim: Int, index: Result, value: Result) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_index_reduce(graph: Graph, self: Result, dim: Int, index: Result, source: Result, reduce: Str, *, include_self: Bool = True) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_masked_scatter(graph: Graph, self: Result, mask: Result, source: Result) -> Rules:
    return ((dtype_or_none(graph, self), broadcast(shape_or_none(graph, self), shape_or_none(graph, mask))),)


def rule_aten_put(graph: Graph, self: Result, index: Result, source: Result, accumulate: Bool = False) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_scatter_add(graph: Graph, self: Result, dim: Int, index: Result, src: Result) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_scatter_reduce(graph: Graph, self: Result, dim: Int, index: Result, src: Result, *, reduce: Str) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_scatter_reduce_two(graph: Graph, self: Result, dim: Int, index: Result, src: Result, reduce: Str, *, include_self: Bool = True) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_scatter_src(graph: Graph, self: Result, dim: Int, index: Result, src: Result) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_scatter_value(graph: Graph, self: Result, dim: Int, index: Result, value: Scalar) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_scatter_value_reduce(graph: Graph, self: Result, dim: Int, index: Result, value: Scalar, *, reduce: Str) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_select_backward(graph: Graph, grad_output: Result, input_sizes: SymInts, dim: Int, index: SymInt) -> Rules:
    return ((dtype_or_none(graph, grad_output), given_shape(input_sizes)),)


def rule_aten_select_scatter(graph: Graph, self: Result, src: Result, dim: Int, index: SymInt) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_slice_backward(graph: Graph, grad_output: Result, input_sizes: SymInts, dim: Int, start: SymInt, end: SymInt, step: SymInt) -> Rules:
    return ((dtype_or_none(graph, grad_output), given_shape(input_sizes)),)


def rule_aten_slice_scatter(graph: Graph, self: Result, src: Result, dim: Int = 0, start: SymInt | None = None, end: SymInt | None = None, step: SymInt = 1) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_value_selecting_reduction_backward(graph: Graph, grad: Result, dim: Int, indices: Result, sizes: SymInts, keepdim: Bool) -> Rules:
    return ((dtype_or_none(graph, grad), given_shape(sizes)),)
