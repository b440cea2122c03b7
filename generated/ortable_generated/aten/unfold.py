# Generated from specs/aten/unfold.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING

from ortable.dtypes import bfloat16, float16, float32, int64
from ortable.lowerings.complex.parts import each_part
from ortable.lowerings.convolution import fold_indices, window_count
from ortable.prelude.facts import broadcast_ints, count_of, dim_of, dtype_of, rank_of, shape_of, static
from ortable.prelude.indexing import scatter_slices, window_indices
from ortable.prelude.metadata import dtype_or_none, given_shape
from ortable.prelude.shapes import as_flat, expanded, sliced, torch_pads, zeros_of
from ortable.prelude.values import as_vec, cast, const, consts, permuted, reshape_to, squeezed, unsqueezed
from ortable_generated.aten.channels import aten_channel_shuffle, complex_aten_channel_shuffle, rule_aten_channel_shuffle

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Int, Ints, Result, SymInt, SymInts


def aten_col2im(graph: Graph, res: ResultSpec, self: Result, output_size: SymInts, kernel_size: Ints, dilation: Ints, padding: Ints, stride: Ints) -> Result:
    """aten::col2im(Tensor self, SymInt[2] output_size, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> Tensor"""
    kernel = broadcast_ints(kernel_size, 2)
    steps = broadcast_ints(stride, 2)
    gaps = broadcast_ints(dilation, 2)
    pads = broadcast_ints(padding, 2)
    lead = list(range(3 - rank_of(graph, self)))
    planes = count_of(graph, self) // (kernel[0] * kernel[1] * dim_of(graph, self, -1))
    size = [output_size[0] + 2 * pads[0], output_size[1] + 2 * pads[1]]
    rows = window_count(size[0], kernel[0], steps[0], gaps[0], 0)
    columns = window_count(size[1], kernel[1], steps[1], gaps[1], 0)
    if dtype_of(graph, self) in (float16, bfloat16, float32):
        graph.case = 1
        batched = unsqueezed(graph, cast(graph, self, float32), lead)
        image = graph.make_node('Col2Im', [batched, as_vec(graph, output_size), consts(graph, kernel, int64)], dilations=gaps, pads=pads * 2, strides=steps)
        return cast(graph, squeezed(graph, image, lead), dtype_of(graph, self))
    # ONNX Runtime has a kernel for float32 only
    graph.case = 2
    indices = fold_indices(static(size), kernel, static([rows, columns]), steps, gaps)
    values = reshape_to(graph, self, [planes, len(indices)])
    zeros = zeros_of(graph, [planes, size[0] * size[1]], dtype_of(graph, self))
    image = scatter_slices(graph, zeros, 1, consts(graph, indices, int64), values, 'add')
    wide = reshape_to(graph, image, [planes, *size])
    ends = as_vec(graph, [pads[0] + output_size[0], pads[1] + output_size[1]])
    return reshape_to(graph, graph.make_node('Slice', [wide, as_vec(graph, pads), ends, as_vec(graph, [1, 2])]), shape_of(graph, res))


def aten_im2col(graph: Graph, res: ResultSpec, self: Result, kernel_size: Ints, dilation: Ints, padding: Ints, stride: Ints) -> Result:
    """aten::im2col(Tensor self, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> Tensor"""
    lead = rank_of(graph, self) - 3
    kernel = broadcast_ints(kernel_size, 2)
    gaps = broadcast_ints(dilation, 2)
    pads = broadcast_ints(padding, 2)
    steps = broadcast_ints(stride, 2)
    rows = window_count(dim_of(graph, self, -2), kernel[0], steps[0], gaps[0], pads[0])
    columns = window_count(dim_of(graph, self, -1), kernel[1], steps[1], gaps[1], pads[1])
    sizes = [*shape_of(graph, self)[:-3], dim_of(graph, self, -3) * kernel[0] * kernel[1], rows * columns]
    length = (columns - 1) * steps[1] + 1
    edges = as_vec(graph, torch_pads(lead + 3, [pads[1], pads[1], pads[0], pads[0]]))
    zero = const(graph, 0, dtype_of(graph, self))
    wide = graph.make_node('Pad', [self, edges, zero]) if pads[0] + pads[1] > 0 else self
    places = permuted(graph, window_indices(graph, rows, kernel[0], steps[0], gaps[0]), [1, 0])
    high = graph.make_node('Gather', [wide, places], axis=lead + 1)
    starts = [place * gaps[1] for place in range(kernel[1])]
    parts = [sliced(graph, high, lead + 3, first, first + length, steps[1]) for first in starts]
    return reshape_to(graph, graph.make_node('Concat', [*parts], axis=lead + 2), sizes)


def aten_native_channel_shuffle(graph: Graph, res: ResultSpec, self: Result, groups: SymInt) -> Result:
    """aten::native_channel_shuffle(Tensor self, SymInt groups) -> Tensor"""
    return aten_channel_shuffle(graph, res, self=self, groups=groups)


def aten_pixel_shuffle(graph: Graph, res: ResultSpec, self: Result, upscale_factor: Int) -> Result:
    """aten::pixel_shuffle(Tensor self, int upscale_factor) -> Tensor"""
    r = upscale_factor
    lead = rank_of(graph, self) - 3
    sizes = shape_of(graph, self)[lead:]
    parts = [*shape_of(graph, self)[:lead], sizes[0] // (r * r), r, r, sizes[1], sizes[2]]
    whole = [*shape_of(graph, self)[:lead], sizes[0] // (r * r), sizes[1] * r, sizes[2] * r]
    turn = [*range(lead + 1), lead + 3, lead + 1, lead + 4, lead + 2]
    if lead == 1 and dtype_of(graph, self) == float32:
        graph.case = 1
        return graph.make_node('DepthToSpace', [self], res.outputs, blocksize=r, mode='CRD')
    graph.case = 2
    return reshape_to(graph, graph.make_node('Transpose', [reshape_to(graph, self, parts)], perm=turn), whole)


def aten_pixel_unshuffle(graph: Graph, res: ResultSpec, self: Result, downscale_factor: Int) -> Result:
    """aten::pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor"""
    r = downscale_factor
    lead = rank_of(graph, self) - 3
    sizes = shape_of(graph, self)[lead:]
    parts = [*shape_of(graph, self)[:lead], sizes[0], sizes[1] // r, r, sizes[2] // r, r]
    whole = [*shape_of(graph, self)[:lead], sizes[0] * r * r, sizes[1] // r, sizes[2] // r]
    turn = [*range(lead + 1), lead + 2, lead + 4, lead + 1, lead + 3]
    return reshape_to(graph, graph.make_node('Transpose', [reshape_to(graph, self, parts)], perm=turn), whole)


def aten_unfold_backward(graph: Graph, res: ResultSpec, grad_in: Result, input_sizes: SymInts, dim: Int, size: Int, step: Int) -> Result:
    """aten::unfold_backward(Tensor grad_in, SymInt[] input_sizes, int dim, int size, int step) -> Tensor"""
    rank = len(input_sizes)
    axis = dim if dim >= 0 else dim + rank
    if rank == 0:
        graph.case = 1
        return reshape_to(graph, grad_in, [])
    graph.case = 2
    count = dim_of(graph, grad_in, axis)
    transposed = permuted(graph, grad_in, [*range(axis + 1), rank, *range(axis + 1, rank)])
    grown = expanded(graph, transposed, [*input_sizes[:axis], count, size, *input_sizes[axis + 1:]])
    rows = reshape_to(graph, grown, [*input_sizes[:axis], count * size, *input_sizes[axis + 1:]])
    indices = as_flat(graph, window_indices(graph, count, size, step, 1))
    return scatter_slices(graph, zeros_of(graph, input_sizes, dtype_of(graph, grad_in)), axis, indices, rows, 'add')


def complex_aten_im2col(graph: Graph, res: ResultSpec, self: Result, kernel_size: Ints, dilation: Ints, padding: Ints, stride: Ints) -> Result:
    """aten::im2col(Tensor self, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> Tensor"""
    return each_part(graph, res, aten_im2col, {'self': self}, kernel_size=kernel_size, dilation=dilation, padding=padding, stride=stride)


def complex_aten_native_channel_shuffle(graph: Graph, res: ResultSpec, self: Result, groups: SymInt) -> Result:
    """aten::native_channel_shuffle(Tensor self, SymInt groups) -> Tensor"""
    return complex_aten_channel_shuffle(graph, res, self=self, groups=groups)


def complex_aten_pixel_shuffle(graph: Graph, res: ResultSpec, self: Result, upscale_factor: Int) -> Result:
    """aten::pixel_shuffle(Tensor self, int upscale_factor) -> Tensor"""
    return each_part(graph, res, aten_pixel_shuffle, {'self': self}, upscale_factor=upscale_factor)


def complex_aten_pixel_unshuffle(graph: Graph, res: ResultSpec, self: Result, downscale_factor: Int) -> Result:
    """aten::pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor"""
    return each_part(graph, res, aten_pixel_unshuffle, {'self': self}, downscale_factor=downscale_factor)


def complex_aten_unfold_backward(graph: Graph, res: ResultSpec, grad_in: Result, input_sizes: SymInts, dim: Int, size: Int, step: Int) -> Result:
    """aten::unfold_backward(Tensor grad_in, SymInt[] input_sizes, int dim, int size, int step) -> Tensor"""
    return each_part(graph, res, aten_unfold_backward, {'grad_in': grad_in}, input_sizes=input_sizes, dim=dim, size=size, step=step)


def rule_aten_col2im(graph: Graph, self: Result, output_size: SymInts, kernel_size: Ints, dilation: Ints, padding: Ints, stride: Ints) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_im2col(graph: Graph, self: Result, kernel_size: Ints, dilation: Ints, padding: Ints, stride: Ints) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_native_channel_shuffle(graph: Graph, self: Result, groups: SymInt) -> Rules:
    return rule_aten_channel_shuffle(graph, self=self, groups=groups)


def rule_aten_pixel_shuffle(graph: Graph, self: Result, upscale_factor: Int) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_pixel_unshuffle(graph: Graph, self: Result, downscale_factor: Int) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_unfold_backward(graph: Graph, grad_in: Result, input_sizes: SymInts, dim: Int, size: Int, step: Int) -> Rules:
    return ((dtype_or_none(graph, grad_in), given_shape(input_sizes)),)
