# Generated from specs/aten/backward_indexing.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.dtypes import int64
from ortable.errors import UnsupportedCase
from ortable.lowerings.complex.parts import each_part
from ortable.lowerings.embedding_bag import bag_indices
from ortable.lowerings.reductions import distance_slope
from ortable.lowerings.segment_gradient import segment_reduce_backward
from ortable.prelude.facts import count_of, differs, dim_of, dtype_of, product, rank_of, shape_of, static
from ortable.prelude.indexing import scatter_elements, scatter_slices
from ortable.prelude.metadata import dtype_or_none, given_shape, shape_or_none
from ortable.prelude.pointwise import const_like, larger_of, triangle_indices
from ortable.prelude.promotion import opmath
from ortable.prelude.shapes import as_flat, expanded, zeros_of
from ortable.prelude.sums import summed_over
from ortable.prelude.values import as_vec, cast, const, consts, reshape_to, unsqueezed
from ortable_generated.aten.create import aten_zeros, complex_aten_zeros, rule_aten_zeros

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Bool, Dtype, Float, Int, Result, Scalar, Str, SymInt, SymInts


def aten__cdist_backward(graph: Graph, res: ResultSpec, grad_output: Result, x1: Result, x2: Result, p: Float, cdist: Result) -> Result:
    """aten::_cdist_backward(Tensor grad_output, Tensor x1, Tensor x2, float p, Tensor cdist) -> Tensor"""
    last = rank_of(graph, cdist)
    if count_of(graph, cdist) == 0:
        # torch then leaves the batches of x2 out of the shape
        graph.case = 1
        return zeros_of(graph, list(shape_of(graph, x1)), dtype_of(graph, x1))
    graph.case = 2
    rows, columns = (unsqueezed(graph, x1, [rank_of(graph, x1) - 1]), unsqueezed(graph, x2, [rank_of(graph, x2) - 2]))
    away = graph.make_node('Sub', [rows, columns])
    slope = distance_slope(graph, away, unsqueezed(graph, cdist, [last]), unsqueezed(graph, grad_output, [last]), p)
    return summed_over(graph, slope, [last - 1], False)


def aten__efficientzerotensor(graph: Graph, res: ResultSpec, size: SymInts, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::_efficientzerotensor(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return aten_zeros(graph, res, size=size, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def aten__embedding_bag_backward(graph: Graph, res: ResultSpec, grad: Result, indices: Result, offsets: Result, offset2bag: Result, bag_size: Result, maximum_indices: Result, num_weights: SymInt, scale_grad_by_freq: Bool, mode: Int, sparse: Bool, per_sample_weights: Result | None, padding_idx: Int = -1) -> Result:
    """aten::_embedding_bag_backward(Tensor grad, Tensor indices, Tensor offsets, Tensor offset2bag, Tensor bag_size, Tensor maximum_indices, SymInt num_weights, bool scale_grad_by_freq, int mode, bool sparse, Tensor? per_sample_weights, int padding_idx=-1) -> Tensor"""
    shape = [num_weights, dim_of(graph, grad, 1)]
    dtype = dtype_of(graph, grad)
    if sparse:
        graph.case = 1
        raise UnsupportedCase('aten::_embedding_bag_backward: a sparse gradient, which ONNX cannot hold')
    if scale_grad_by_freq and differs(mode, 2):
        # it counts another index than the one that it scales (compute_counts_uniq)
        graph.case = 2
        raise UnsupportedCase("aten::_embedding_bag_backward: gradients scaled by how often an index occurs, which torch's own kernel gets wrong")
    if mode == 2:
        graph.case = 3
        some = unsqueezed(graph, graph.make_node('Greater', [bag_size, const(graph, 0, dtype_of(graph, bag_size))]), [1])
        positions = larger_of(graph, cast(graph, maximum_indices, int64), const(graph, 0, int64))
        grads = graph.make_node('Where', [some, grad, const(graph, 0, dtype)])
        return scatter_elements(graph, zeros_of(graph, shape, dtype), 0, positions, grads, 'add')
    graph.case = 4
    result = cast(graph, indices, int64)
    bags = bag_indices(graph, offsets, graph.make_node('Shape', [indices]))
    rows = graph.make_node('Gather', [grad, bags], axis=0)
    mean = graph.make_node('Div', [rows, cast(graph, unsqueezed(graph, graph.make_node('Gather', [bag_size, bags], axis=0), [1]), dtype)]) if mode == 1 else rows
    own = graph.make_node('Mul', [mean, unsqueezed(graph, per_sample_weights, [1])]) if per_sample_weights is not None else mean
    padded = unsqueezed(graph, graph.make_node('Equal', [result, const(graph, padding_idx, int64)]), [1])
    kept = graph.make_node('Where', [padded, const(graph, 0, dtype), own])
    return scatter_slices(graph, zeros_of(graph, shape, dtype), 0, result, kept, 'add')


def aten__embedding_bag_per_sample_weights_backward(graph: Graph, res: ResultSpec, grad: Result, weight: Result, indices: Result, offsets: Result, offset2bag: Result, mode: Int, padding_idx: Int = -1) -> Result:
    """aten::_embedding_bag_per_sample_weights_backward(Tensor grad, Tensor weight, Tensor indices, Tensor offsets, Tensor offset2bag, int mode, int padding_idx=-1) -> Tensor"""
    rows = graph.make_node('Gather', [grad, bag_indices(graph, offsets, graph.make_node('Shape', [indices]))], axis=0)
    products = graph.make_node('Mul', [opmath(graph, rows), opmath(graph, graph.make_node('Gather', [weight, indices], axis=0))])
    total = cast(graph, summed_over(graph, products, [1], False), dtype_of(graph, grad))
    padded = graph.make_node('Equal', [indices, const(graph, padding_idx, dtype_of(graph, indices))])
    return graph.make_node('Where', [padded, const(graph, 0, dtype_of(graph, grad)), total], res.outputs)


def aten__pdist_backward(graph: Graph, res: ResultSpec, grad_output: Result, self: Result, p: Float, pdist: Result) -> Result:
    """aten::_pdist_backward(Tensor grad_output, Tensor self, float p, Tensor pdist) -> Tensor"""
    count = static(dim_of(graph, self, 0))
    pairs = triangle_indices(graph, count, count, 1, True, int64)
    one, other = (graph.make_node('Gather', [pairs, const(graph, 0, int64)], axis=0), graph.make_node('Gather', [pairs, const(graph, 1, int64)], axis=0))
    away = graph.make_node('Sub', [graph.make_node('Gather', [self, one], axis=0), graph.make_node('Gather', [self, other], axis=0)])
    slope = distance_slope(graph, away, unsqueezed(graph, pdist, [1]), unsqueezed(graph, grad_output, [1]), p)
    zeros = zeros_of(graph, list(shape_of(graph, self)), dtype_of(graph, self))
    return scatter_slices(graph, scatter_slices(graph, zeros, 0, one, slope, 'add'), 0, other, graph.make_node('Neg', [slope]), 'add')


def aten__segment_reduce_backward(graph: Graph, res: ResultSpec, grad: Result, output: Result, data: Result, reduce: Str, *, lengths: Result | None = None, offsets: Result | None = None, axis: Int = 0, initial: Scalar | None = None) -> Result:
    """aten::_segment_reduce_backward(Tensor grad, Tensor output, Tensor data, str reduce, *, Tensor? lengths=None, Tensor? offsets=None, int axis=0, Scalar? initial=None) -> Tensor"""
    return segment_reduce_backward(graph, res, grad=grad, output=output, data=data, reduce=reduce, lengths=lengths, offsets=offsets, axis=axis, initial=initial)


def aten_masked_scatter_backward(graph: Graph, res: ResultSpec, grad_output: Result, mask: Result, sizes: SymInts) -> Result:
    """aten::masked_scatter_backward(Tensor grad_output, Tensor mask, SymInt[] sizes) -> Tensor"""
    marks = as_flat(graph, expanded(graph, mask, list(shape_of(graph, grad_output))))
    total = as_vec(graph, product(sizes))
    zeros = graph.make_node('Expand', [consts(graph, [0], dtype_of(graph, grad_output)), total])
    long = graph.make_node('Concat', [graph.make_node('Compress', [as_flat(graph, grad_output), marks], axis=0), zeros], axis=0)
    return reshape_to(graph, graph.make_node('Slice', [long, consts(graph, [0], int64), total]), sizes)


def aten_rrelu_with_noise_backward(graph: Graph, res: ResultSpec, grad_output: Result, self: Result, noise: Result, lower: Scalar, upper: Scalar, training: Bool, self_is_result: Bool) -> Result:
    """aten::rrelu_with_noise_backward(Tensor grad_output, Tensor self, Tensor noise, Scalar lower, Scalar upper, bool training, bool self_is_result) -> Tensor"""
    if training:
        graph.case = 1
        return graph.make_node('Mul', [grad_output, noise], res.outputs)
    graph.case = 2
    steep = graph.make_node('Mul', [grad_output, const_like(graph, (lower + upper) / 2, grad_output)])
    return graph.make_node('Where', [graph.make_node('Greater', [self, const_like(graph, 0, self)]), grad_output, steep], res.outputs)


def complex_aten__efficientzerotensor(graph: Graph, res: ResultSpec, size: SymInts, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::_efficientzerotensor(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return complex_aten_zeros(graph, res, size=size, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def complex_aten_masked_scatter_backward(graph: Graph, res: ResultSpec, grad_output: Result, mask: Result, sizes: SymInts) -> Result:
    """aten::masked_scatter_backward(Tensor grad_output, Tensor mask, SymInt[] sizes) -> Tensor"""
    return each_part(graph, res, aten_masked_scatter_backward, {'grad_output': grad_output}, mask=mask, sizes=sizes)


def rule_aten__cdist_backward(graph: Graph, grad_output: Result, x1: Result, x2: Result, p: Float, cdist: Result) -> Rules:
    return ((dtype_or_none(graph, x1), None),)


def rule_aten__efficientzerotensor(graph: Graph, size: SymInts, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return rule_aten_zeros(graph, size=size, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def rule_aten__embedding_bag_backward(graph: Graph, grad: Result, indices: Result, offsets: Result, offset2bag: Result, bag_size: Result, maximum_indices: Result, num_weights: SymInt, scale_grad_by_freq: Bool, mode: Int, sparse: Bool, per_sample_weights: Result | None, padding_idx: Int = -1) -> Rules:
    return ((dtype_or_none(graph, grad), given_shape([num_weights, dim_of(graph, grad, 1)])),)


def rule_aten__embedding_bag_per_sample_weights_backward(graph: Graph, grad: Result, weight: Result, indices: Result, offsets: Result, offset2bag: Result, mode: Int, padding_idx: Int = -1) -> Rules:
    return ((dtype_or_none(graph, grad), shape_or_none(graph, indices)),)


def rule_aten__pdist_backward(graph: Graph, grad_output: Result, self: Result, p: Float, pdist: Result) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten__segment_reduce_backward(graph: Graph, grad: Result, output: Result, data: Result, reduce: Str, *, lengths: Result | None = None, offsets: Result | None = None, axis: Int = 0, initial: Scalar | None = None) -> Rules:
    return ((dtype_or_none(graph, data), shape_or_none(graph, data)),)


def rule_aten_masked_scatter_backward(graph: Graph, grad_output: Result, mask: Result, sizes: SymInts) -> Rules:
    return ((dtype_or_none(graph, grad_output), given_shape(sizes)),)


def rule_aten_rrelu_with_noise_backward(graph: Graph, grad_output: Result, self: Result, noise: Result, lower: Scalar, upper: Scalar, training: Bool, self_is_result: Bool) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)
