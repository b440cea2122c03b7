# Generated from specs/aten/shape_join.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.dispatch import DataCheck
from ortable.dtypes import int64
from ortable.inference import concat_shape
from ortable.lowerings.complex.parts import each_part
from ortable.lowerings.shapes import cat_list, chunk_count, flipped_along, repeat_indices, rolled_along
from ortable.prelude.facts import axis_of, count_of, dim_of, dtype_of, rank_of, shape_of, static, transpose_perm
from ortable.prelude.metadata import as_list, dtype_or_none, shape_or_none, shapes_or_none
from ortable.prelude.promotion import common_dtype
from ortable.prelude.shapes import as_flat, expanded, other_axes, sliced, zeros_of
from ortable.prelude.values import as_vec, at_least_1d, cast, cast_all, const, reshape_to, unsqueezed

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Int, Ints, Result, Results, Str, SymInt, SymInts


def aten_cat(graph: Graph, res: ResultSpec, tensors: Results, dim: Int = 0) -> Result:
    """aten::cat(Tensor[] tensors, int dim=0) -> Tensor"""
    parts = cat_list(graph, tensors)
    return parts[0] if len(parts) == 1 else graph.make_node('Concat', [*parts], res.outputs, axis=axis_of(graph, parts[0], dim))


def aten_chunk(graph: Graph, res: ResultSpec, self: Result, chunks: Int, dim: Int = 0) -> Any:
    """aten::chunk(Tensor(a -> *) self, int chunks, int dim=0) -> Tensor(a)[]"""
    axis = axis_of(graph, self, dim)
    size = (dim_of(graph, self, axis) + chunks - 1) // chunks
    count = chunk_count(graph, self, axis, size, len(res))
    sizes = [size] * (count - 1) + [dim_of(graph, self, axis) - size * (count - 1)]
    return as_list(graph.make_node('Split', [self, as_vec(graph, sizes)], count, axis=axis))


def aten_column_stack(graph: Graph, res: ResultSpec, tensors: Results) -> Result:
    """aten::column_stack(Tensor[] tensors) -> Tensor"""
    parts = [reshape_to(graph, t, [count_of(graph, t), 1]) if rank_of(graph, t) < 2 else t for t in cast_all(graph, tensors, common_dtype(graph, tensors))]
    return graph.make_node('Concat', [*parts], res.outputs, axis=1)


def aten_concat(graph: Graph, res: ResultSpec, tensors: Results, dim: Int = 0) -> Result:
    """aten::concat(Tensor[] tensors, int dim=0) -> Tensor"""
    return aten_cat(graph, res, tensors=tensors, dim=dim)


def aten_concatenate(graph: Graph, res: ResultSpec, tensors: Results, dim: Int = 0) -> Result:
    """aten::concatenate(Tensor[] tensors, int dim=0) -> Tensor"""
    return aten_cat(graph, res, tensors=tensors, dim=dim)


def aten_dstack(graph: Graph, res: ResultSpec, tensors: Results) -> Result:
    """aten::dstack(Tensor[] tensors) -> Tensor"""
    parts = [unsqueezed(graph, t, [[0, 1, 2], [0, 2], [2], []][min(rank_of(graph, t), 3)]) for t in cast_all(graph, tensors, common_dtype(graph, tensors))]
    return graph.make_node('Concat', [*parts], res.outputs, axis=2)


def aten_flip(graph: Graph, res: ResultSpec, self: Result, dims: Ints) -> Result:
    """aten::flip(Tensor self, int[] dims) -> Tensor"""
    axes = [axis_of(graph, self, d) for d in dims]
    if len(dims) == 0 or rank_of(graph, self) == 0:
        graph.case = 1
        return self
    graph.case = 2
    return flipped_along(graph, self, axes)


def aten_fliplr(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::fliplr(Tensor self) -> Tensor"""
    return aten_flip(graph, res, self=self, dims=[1])


def aten_flipud(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::flipud(Tensor self) -> Tensor"""
    return aten_flip(graph, res, self=self, dims=[0])


def aten_hstack(graph: Graph, res: ResultSpec, tensors: Results) -> Result:
    """aten::hstack(Tensor[] tensors) -> Tensor"""
    parts = [at_least_1d(graph, t) for t in cast_all(graph, tensors, common_dtype(graph, tensors))]
    return graph.make_node('Concat', [*parts], res.outputs, axis=min(rank_of(graph, parts[0]) - 1, 1))


def aten_meshgrid(graph: Graph, res: ResultSpec, tensors: Results) -> Any:
    """aten::meshgrid(Tensor[] tensors) -> Tensor[]"""
    return aten_meshgrid_indexing(graph, res, tensors=tensors, indexing='ij')


def aten_meshgrid_indexing(graph: Graph, res: ResultSpec, tensors: Results, *, indexing: Str) -> Any:
    """aten::meshgrid.indexing(Tensor[] tensors, *, str indexing) -> Tensor[]"""
    n = len(tensors)
    axes = [1, 0, *range(2, n)] if indexing == 'xy' and n > 1 else list(range(n))
    sizes = [count_of(graph, tensors[axis]) for axis in axes]
    wide = [unsqueezed(graph, at_least_1d(graph, t), other_axes(n, [axis])) for t, axis in zip(tensors, axes)]
    return [expanded(graph, t, sizes) for t in wide]


def aten_repeat(graph: Graph, res: ResultSpec, self: Result, repeats: SymInts) -> Result:
    """aten::repeat(Tensor self, SymInt[] repeats) -> Tensor"""
    lead = len(repeats) - rank_of(graph, self)
    if len(repeats) == 0:
        graph.case = 1
        return self
    graph.case = 2
    return graph.make_node('Tile', [unsqueezed(graph, self, list(range(lead))), as_vec(graph, repeats)], res.outputs)


def aten_repeat_interleave_Tensor(graph: Graph, res: ResultSpec, repeats: Result, *, output_size: SymInt | None = None) -> Result:
    """aten::repeat_interleave.Tensor(Tensor repeats, *, SymInt? output_size=None) -> Tensor"""
    return cast(graph, repeat_indices(graph, repeats), dtype_of(graph, repeats))


def aten_repeat_interleave_self_Tensor(graph: Graph, res: ResultSpec, self: Result, repeats: Result, dim: Int | None = None, *, output_size: SymInt | None = None) -> Result:
    """aten::repeat_interleave.self_Tensor(Tensor self, Tensor repeats, int? dim=None, *, SymInt? output_size=None) -> Tensor"""
    if dim is None:
        graph.case = 1
        counts = expanded(graph, at_least_1d(graph, repeats), [count_of(graph, self)])
        return graph.make_node('Gather', [as_flat(graph, self), repeat_indices(graph, counts)], res.outputs, axis=0)
    graph.case = 2
    counts = expanded(graph, at_least_1d(graph, repeats), [dim_of(graph, self, dim)])
    return graph.make_node('Gather', [self, repeat_indices(graph, counts)], res.outputs, axis=axis_of(graph, self, dim))


def aten_repeat_interleave_self_int(graph: Graph, res: ResultSpec, self: Result, repeats: SymInt, dim: Int | None = None, *, output_size: SymInt | None = None) -> Result:
    """aten::repeat_interleave.self_int(Tensor self, SymInt repeats, int? dim=None, *, SymInt? output_size=None) -> Tensor"""
    if dim is None:
        graph.case = 1
        rows = reshape_to(graph, self, [count_of(graph, self), 1])
        return reshape_to(graph, expanded(graph, rows, [count_of(graph, self), repeats]), [count_of(graph, self) * repeats])
    if repeats == 0:
        graph.case = 2
        axis, sizes = (axis_of(graph, self, dim), shape_of(graph, self))
        return zeros_of(graph, [*sizes[:axis], 0, *sizes[axis + 1:]], dtype_of(graph, self))
    graph.case = 3
    axis, sizes = (axis_of(graph, self, dim), shape_of(graph, self))
    before, after = (list(sizes[:axis]), list(sizes[axis + 1:]))
    long = [*before, dim_of(graph, self, axis), repeats, *after]
    wide = expanded(graph, graph.make_node('Unsqueeze', [self, as_vec(graph, axis + 1)]), long)
    return reshape_to(graph, wide, [*before, dim_of(graph, self, axis) * repeats, *after])


def aten_roll(graph: Graph, res: ResultSpec, self: Result, shifts: SymInts, dims: Ints = ()) -> Result:
    """aten::roll(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor"""
    if len(dims) == 0:
        graph.case = 1
        return reshape_to(graph, rolled_along(graph, as_flat(graph, self), shifts, [0]), shape_of(graph, self))
    graph.case = 2
    return rolled_along(graph, self, shifts, dims)


def aten_rot90(graph: Graph, res: ResultSpec, self: Result, k: Int = 1, dims: Ints = (0, 1)) -> Result:
    """aten::rot90(Tensor self, int k=1, int[] dims=[0, 1]) -> Tensor"""
    first = axis_of(graph, self, dims[0])
    second = axis_of(graph, self, dims[1])
    turns = k % 4
    turn = transpose_perm(rank_of(graph, self), first, second)
    if turns == 0:
        graph.case = 1
        return self
    if turns == 1:
        graph.case = 2
        return graph.make_node('Transpose', [flipped_along(graph, self, [second])], res.outputs, perm=turn)
    if turns == 2:
        graph.case = 3
        return flipped_along(graph, self, [first, second])
    graph.case = 4
    return graph.make_node('Transpose', [flipped_along(graph, self, [first])], res.outputs, perm=turn)


def aten_split_Tensor(graph: Graph, res: ResultSpec, self: Result, split_size: SymInt, dim: Int = 0) -> Any:
    """aten::split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]"""
    axis = axis_of(graph, self, dim)
    count = chunk_count(graph, self, axis, split_size, len(res))
    rest = dim_of(graph, self, axis) - split_size * (count - 1)
    sizes = as_vec(graph, [split_size] * (count - 1) + [rest])
    return as_list(graph.make_node('Split', [self, sizes], count, axis=axis))


def aten_split_sizes(graph: Graph, res: ResultSpec, self: Result, split_size: SymInts, dim: Int = 0) -> Any:
    """aten::split.sizes(Tensor(a -> *) self, SymInt[] split_size, int dim=0) -> Tensor(a)[]"""
    return aten_split_with_sizes(graph, res, self=self, split_sizes=split_size, dim=dim)


def aten_split_with_sizes(graph: Graph, res: ResultSpec, self: Result, split_sizes: SymInts, dim: Int = 0) -> Any:
    """aten::split_with_sizes(Tensor(a -> *) self, SymInt[] split_sizes, int dim=0) -> Tensor(a)[]"""
    count = len(split_sizes)
    return as_list(graph.make_node('Split', [self, as_vec(graph, split_sizes)], count, axis=axis_of(graph, self, dim)))


def aten_stack(graph: Graph, res: ResultSpec, tensors: Results, dim: Int = 0) -> Result:
    """aten::stack(Tensor[] tensors, int dim=0) -> Tensor"""
    axis = dim if dim >= 0 else dim + rank_of(graph, tensors[0]) + 1
    rows = [unsqueezed(graph, t, [axis]) for t in cast_all(graph, tensors, common_dtype(graph, tensors))]
    return graph.make_node('Concat', [*rows], res.outputs, axis=axis)


def aten_tensor_split_indices(graph: Graph, res: ResultSpec, self: Result, indices: SymInts, dim: Int = 0) -> Any:
    """aten::tensor_split.indices(Tensor(a -> *) self, SymInt[] indices, int dim=0) -> Tensor(a)[]"""
    axis = axis_of(graph, self, dim)
    bounds = [0, *indices, dim_of(graph, self, dim)]
    return [sliced(graph, self, axis, s, e) for s, e in zip(bounds, bounds[1:])]


def aten_tensor_split_sections(graph: Graph, res: ResultSpec, self: Result, sections: SymInt, dim: Int = 0) -> Any:
    """aten::tensor_split.sections(Tensor(a -> *) self, SymInt sections, int dim=0) -> Tensor(a)[]"""
    axis = axis_of(graph, self, dim)
    count = static(sections)
    size = dim_of(graph, self, dim)
    sizes = as_vec(graph, [(size + count - 1 - place) // count for place in range(count)])
    return as_list(graph.make_node('Split', [self, sizes], count, axis=axis))


def aten_tile(graph: Graph, res: ResultSpec, self: Result, dims: SymInts) -> Result:
    """aten::tile(Tensor self, SymInt[] dims) -> Tensor"""
    rank = rank_of(graph, self)
    times = [1] * (rank - len(dims)) + [d for d in dims]
    if len(times) == 0:
        graph.case = 1
        return self
    graph.case = 2
    return graph.make_node('Tile', [unsqueezed(graph, self, list(range(len(times) - rank))), as_vec(graph, times)], res.outputs)


def aten_unbind_int(graph: Graph, res: ResultSpec, self: Result, dim: Int = 0) -> Any:
    """aten::unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]"""
    axis = axis_of(graph, self, dim)
    count = static(dim_of(graph, self, dim))
    return [graph.make_node('Gather', [self, const(graph, i, int64)], axis=axis) for i in range(count)]


def aten_unsafe_chunk(graph: Graph, res: ResultSpec, self: Result, chunks: Int, dim: Int = 0) -> Any:
    """aten::unsafe_chunk(Tensor self, int chunks, int dim=0) -> Tensor[]"""
    return aten_chunk(graph, res, self=self, chunks=chunks, dim=dim)


def aten_unsafe_split_Tensor(graph: Graph, res: ResultSpec, self: Result, split_size: SymInt, dim: Int = 0) -> Any:
    """aten::unsafe_split.Tensor(Tensor self, SymInt split_size, int dim=0) -> Tensor[]"""
    return aten_split_Tensor(graph, res, self=self, split_size=split_size, dim=dim)


def aten_unsafe_split_with_sizes(graph: Graph, res: ResultSpec, self: Result, split_sizes: SymInts, dim: Int = 0) -> Any:
    """aten::unsafe_split_with_sizes(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]"""
    return aten_split_with_sizes(graph, res, self=self, split_sizes=split_sizes, dim=dim)


def aten_vstack(graph: Graph, res: ResultSpec, tensors: Results) -> Result:
    """aten::vstack(Tensor[] tensors) -> Tensor"""
    parts = [unsqueezed(graph, t, list(range(2 - min(rank_of(graph, t), 2)))) for t in cast_all(graph, tensors, common_dtype(graph, tensors))]
    return graph.make_node('Concat', [*parts], res.outputs, axis=0)


def check_aten_repeat_interleave_Tensor(graph: Graph, repeats: Result, *, output_size: SymInt | None = None) -> list[DataCheck]:
    return [
        DataCheck(repeats, 0, None, 'RuntimeError', 'repeats can not be negative', None),
    ]


def check_aten_repeat_interleave_self_Tensor(graph: Graph, self: Result, repeats: Result, dim: Int | None = None, *, output_size: SymInt | None = None) -> list[DataCheck]:
    return [
        DataCheck(repeats, 0, None, 'RuntimeError', 'repeats can not be negative', None),
    ]


def complex_aten_cat(graph: Graph, res: ResultSpec, tensors: Results, dim: Int = 0) -> Result:
    """aten::cat(Tensor[] tensors, int dim=0) -> Tensor"""
    return each_part(graph, res, aten_cat, {'tensors': tensors}, dim=dim)


def complex_aten_chunk(graph: Graph, res: ResultSpec, self: Result, chunks: Int, dim: Int = 0) -> Any:
    """aten::chunk(Tensor(a -> *) self, int chunks, int dim=0) -> Tensor(a)[]"""
    return each_part(graph, res, aten_chunk, {'self': self}, chunks=chunks, dim=dim)


def complex_aten_column_stack(graph: Graph, res: ResultSpec, tensors: Results) -> Result:
    """aten::column_stack(Tensor[] tensors) -> Tensor"""
    return each_part(graph, res, aten_column_stack, {'tensors': tensors})


def complex_aten_concat(graph: Graph, res: ResultSpec, tensors: Results, dim: Int = 0) -> Result:
    """aten::concat(Tensor[] tensors, int dim=0) -> Tensor"""
    return complex_aten_cat(graph, res, tensors=tensors, dim=dim)


def complex_aten_concatenate(graph: Graph, res: ResultSpec, tensors: Results, dim: Int = 0) -> Result:
    """aten::concatenate(Tensor[] tensors, int dim=0) -> Tensor"""
    return complex_aten_cat(graph, res, tensors=tensors, dim=dim)


def complex_aten_dstack(graph: Graph, res: ResultSpec, tensors: Results) -> Result:
    """aten::dstack(Tensor[] tensors) -> Tensor"""
    return each_part(graph, res, aten_dstack, {'tensors': tensors})


def complex_aten_flip(graph: Graph, res: ResultSpec, self: Result, dims: Ints) -> Result:
    """aten::flip(Tensor self, int[] dims) -> Tensor"""
    return each_part(graph, res, aten_flip, {'self': self}, dims=dims)


def complex_aten_fliplr(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::fliplr(Tensor self) -> Tensor"""
    return complex_aten_flip(graph, res, self=self, dims=[1])


def complex_aten_flipud(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::flipud(Tensor self) -> Tensor"""
    return complex_aten_flip(graph, res, self=self, dims=[0])


def complex_aten_hstack(graph: Graph, res: ResultSpec, tensors: Results) -> Result:
    """aten::hstack(Tensor[] tensors) -> Tensor"""
    return each_part(graph, res, aten_hstack, {'tensors': tensors})


def complex_aten_meshgrid(graph: Graph, res: ResultSpec, tensors: Results) -> Any:
    """aten::meshgrid(Tensor[] tensors) -> Tensor[]"""
    return complex_aten_meshgrid_indexing(graph, res, tensors=tensors, indexing='ij')


def complex_aten_meshgrid_indexing(graph: Graph, res: ResultSpec, tensors: Results, *, indexing: Str) -> Any:
    """aten::meshgrid.indexing(Tensor[] tensors, *, str indexing) -> Tensor[]"""
    return each_part(graph, res, aten_meshgrid_indexing, {'tensors': tensors}, indexing=indexing)


def complex_aten_repeat(graph: Graph, res: ResultSpec, self: Result, repeats: SymInts) -> Result:
    """aten::repeat(Tensor self, SymInt[] repeats) -> Tensor"""
    return each_part(graph, res, aten_repeat, {'self': self}, repeats=repeats)


def complex_aten_repeat_interleave_self_Tensor(graph: Graph, res: ResultSpec, self: Result, repeats: Result, dim: Int | None = None, *, output_size: SymInt | None = None) -> Result:
    """aten::repeat_interleave.self_Tensor(Tensor self, Tensor repeats, int? dim=None, *, SymInt? output_size=None) -> Tensor"""
    return each_part(graph, res, aten_repeat_interleave_self_Tensor, {'self': self}, repeats=repeats, dim=dim, output_size=output_size)


def complex_aten_repeat_interleave_self_int(graph: Graph, res: ResultSpec, self: Result, repeats: SymInt, dim: Int | None = None, *, output_size: SymInt | None = None) -> Result:
    """aten::repeat_interleave.self_int(Tensor self, SymInt repeats, int? dim=None, *, SymInt? output_size=None) -> Tensor"""
    return each_part(graph, res, aten_repeat_interleave_self_int, {'self': self}, repeats=repeats, dim=dim, output_size=output_size)


def complex_aten_roll(graph: Graph, res: ResultSpec, self: Result, shifts: SymInts, dims: Ints = ()) -> Result:
    """aten::roll(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor"""
    return each_part(graph, res, aten_roll, {'self': self}, shifts=shifts, dims=dims)


def complex_aten_rot90(graph: Graph, res: ResultSpec, self: Result, k: Int = 1, dims: Ints = (0, 1)) -> Result:
    """aten::rot90(Tensor self, int k=1, int[] dims=[0, 1]) -> Tensor"""
    return each_part(graph, res, aten_rot90, {'self': self}, k=k, dims=dims)


def complex_aten_split_Tensor(graph: Graph, res: ResultSpec, self: Result, split_size: SymInt, dim: Int = 0) -> Any:
    """aten::split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]"""
    return each_part(graph, res, aten_split_Tensor, {'self': self}, split_size=split_size, dim=dim)


def complex_aten_split_sizes(graph: Graph, res: ResultSpec, self: Result, split_size: SymInts, dim: Int = 0) -> Any:
    """aten::split.sizes(Tensor(a -> *) self, SymInt[] split_size, int dim=0) -> Tensor(a)[]"""
    return complex_aten_split_with_sizes(graph, res, self=self, split_sizes=split_size, dim=dim)


def complex_aten_split_with_sizes(graph: Graph, res: ResultSpec, self: Result, split_sizes: SymInts, dim: Int = 0) -> Any:
    """aten::split_with_sizes(Tensor(a -> *) self, SymInt[] split_sizes, int dim=0) -> Tensor(a)[]"""
    return each_part(graph, res, aten_split_with_sizes, {'self': self}, split_sizes=split_sizes, dim=dim)


def complex_aten_stack(graph: Graph, res: ResultSpec, tensors: Results, dim: Int = 0) -> Result:
    """aten::stack(Tensor[] tensors, int dim=0) -> Tensor"""
    return each_part(graph, res, aten_stack, {'tensors': tensors}, dim=dim)


def complex_aten_tensor_split_indices(graph: Graph, res: ResultSpec, self: Result, indices: SymInts, dim: Int = 0) -> Any:
    """aten::tensor_split.indices(Tensor(a -> *) self, SymInt[] indices, int dim=0) -> Tensor(a)[]"""
    return each_part(graph, res, aten_tensor_split_indices, {'self': self}, indices=indices, dim=dim)


def complex_aten_tensor_split_sections(graph: Graph, res: ResultSpec, self: Result, sections: SymInt, dim: Int = 0) -> Any:
    """aten::tensor_split.sections(Tensor(a -> *) self, SymInt sections, int dim=0) -> Tensor(a)[]"""
    return each_part(graph, res, aten_tensor_split_sections, {'self': self}, sections=sections, dim=dim)


def complex_aten_tile(graph: Graph, res: ResultSpec, self: Result, dims: SymInts) -> Result:
    """aten::tile(Tensor self, SymInt[] dims) -> Tensor"""
    return each_part(graph, res, aten_tile, {'self': self}, dims=dims)


def complex_aten_unbind_int(graph: Graph, res: ResultSpec, self: Result, dim: Int = 0) -> Any:
    """aten::unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]"""
    return each_part(graph, res, aten_unbind_int, {'self': self}, dim=dim)


def complex_aten_unsafe_chunk(graph: Graph, res: ResultSpec, self: Result, chunks: Int, dim: Int = 0) -> Any:
    """aten::unsafe_chunk(Tensor self, int chunks, int dim=0) -> Tensor[]"""
    return complex_aten_chunk(graph, res, self=self, chunks=chunks, dim=dim)


def complex_aten_unsafe_split_Tensor(graph: Graph, res: ResultSpec, self: Result, split_size: SymInt, dim: Int = 0) -> Any:
    """aten::unsafe_split.Tensor(Tensor self, SymInt split_size, int dim=0) -> Tensor[]"""
    return complex_aten_split_Tensor(graph, res, self=self, split_size=split_size, dim=dim)


def complex_aten_unsafe_split_with_sizes(graph: Graph, res: ResultSpec, self: Result, split_sizes: SymInts, dim: Int = 0) -> Any:
    """aten::unsafe_split_with_sizes(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]"""
    return complex_aten_split_with_sizes(graph, res, self=self, split_sizes=split_sizes, dim=dim)


def complex_aten_vstack(graph: Graph, res: ResultSpec, tensors: Results) -> Result:
    """aten::vstack(Tensor[] tensors) -> Tensor"""
    return each_part(graph, res, aten_vstack, {'tensors': tensors})


def rule_aten_cat(graph: Graph, tensors: Results, dim: Int = 0) -> Rules:
    return ((dtype_or_none(graph, tensors) if common_dtype(graph, tensors) is None else common_dtype(graph, tensors), concat_shape(shapes_or_none(graph, tensors), dim)),)


def rule_aten_chunk(graph: Graph, self: Result, chunks: Int, dim: Int = 0) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_column_stack(graph: Graph, tensors: Results) -> Rules:
    return ((dtype_or_none(graph, tensors) if common_dtype(graph, tensors) is None else common_dtype(graph, tensors), None),)


def rule_aten_concat(graph: Graph, tensors: Results, dim: Int = 0) -> Rules:
    return rule_aten_cat(graph, tensors=tensors, dim=dim)


def rule_aten_concatenate(graph: Graph, tensors: Results, dim: Int = 0) -> Rules:
    return rule_aten_cat(graph, tensors=tensors, dim=dim)


def rule_aten_dstack(graph: Graph, tensors: Results) -> Rules:
    return ((dtype_or_none(graph, tensors) if common_dtype(graph, tensors) is None else common_dtype(graph, tensors), None),)


def rule_aten_flip(graph: Graph, self: Result, dims: Ints) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_fliplr(graph: Graph, self: Result) -> Rules:
    return rule_aten_flip(graph, self=self, dims=[1])


def rule_aten_flipud(graph: Graph, self: Result) -> Rules:
    return rule_aten_flip(graph, self=self, dims=[0])


def rule_aten_hstack(graph: Graph, tensors: Results) -> Rules:
    return ((dtype_or_none(graph, tensors) if common_dtype(graph, tensors) is None else common_dtype(graph, tensors), None),)


def rule_aten_meshgrid(graph: Graph, tensors: Results) -> Rules:
    return rule_aten_meshgrid_indexing(graph, tensors=tensors, indexing='ij')


def rule_aten_meshgrid_indexing(graph: Graph, tensors: Results, *, indexing: Str) -> Rules:
    return ((dtype_or_none(graph, tensors), None),)


def rule_aten_repeat(graph: Graph, self: Result, repeats: SymInts) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_repeat_interleave_Tensor(graph: Graph, repeats: Result, *, output_size: SymInt | None = None) -> Rules:
    return ((dtype_or_none(graph, repeats), None),)


def rule_aten_repeat_interleave_self_Tensor(graph: Graph, self: Result, repeats: Result, dim: Int | None = None, *, output_size: SymInt | None = None) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_repeat_interleave_self_int(graph: Graph, self: Result, repeats: SymInt, dim: Int | None = None, *, output_size: SymInt | None = None) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_roll(graph: Graph, self: Result, shifts: SymInts, dims: Ints = ()) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_rot90(graph: Graph, self: Result, k: Int = 1, dims: Ints = (0, 1)) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_split_Tensor(graph: Graph, self: Result, split_size: SymInt, dim: Int = 0) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_split_sizes(graph: Graph, self: Result, split_size: SymInts, dim: Int = 0) -> Rules:
    return rule_aten_split_with_sizes(graph, self=self, split_sizes=split_size, dim=dim)


def rule_aten_split_with_sizes(graph: Graph, self: Result, split_sizes: SymInts, dim: Int = 0) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_stack(graph: Graph, tensors: Results, dim: Int = 0) -> Rules:
    return ((dtype_or_none(graph, tensors) if common_dtype(graph, tensors) is None else common_dtype(graph, tensors), None),)


def rule_aten_tensor_split_indices(graph: Graph, self: Result, indices: SymInts, dim: Int = 0) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_tensor_split_sections(graph: Graph, self: Result, sections: SymInt, dim: Int = 0) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_tile(graph: Graph, self: Result, dims: SymInts) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_unbind_int(graph: Graph, self: Result, dim: Int = 0) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_unsafe_chunk(graph: Graph, self: Result, chunks: Int, dim: Int = 0) -> Rules:
    return rule_aten_chunk(graph, self=self, chunks=chunks, dim=dim)


def rule_aten_unsafe_split_Tensor(graph: Graph, self: Result, split_size: SymInt, dim: Int = 0) -> Rules:
    return rule_aten_split_Tensor(graph, self=self, split_size=split_size, dim=dim)


def rule_aten_unsafe_split_with_sizes(graph: Graph, self: Result, split_sizes: SymInts, dim: Int = 0) -> Rules:
    return rule_aten_split_with_sizes(graph, self=self, split_sizes=split_sizes, dim=dim)


def rule_aten_vstack(graph: Graph, tensors: Results) -> Rules:
    return ((dtype_or_none(graph, tensors) if common_dtype(graph, tensors) is None else common_dtype(graph, tensors), None),)
