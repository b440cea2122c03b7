# Generated from specs/aten/embedding_bag.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.dispatch import DataCheck
from ortable.dtypes import int64
from ortable.lowerings.embedding_bag import embedding_bag
from ortable.prelude.facts import count_of, dim_of, dtype_of, static
from ortable.prelude.indexing import marked_indices
from ortable.prelude.metadata import dtype_or_none, shape_or_none
from ortable.prelude.promotion import opmath_dtype
from ortable.prelude.reductions import power_norm
from ortable.prelude.shapes import as_flat
from ortable.prelude.values import cast, const

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Bool, Float, Int, Result


def aten__embedding_bag(graph: Graph, res: ResultSpec, weight: Result, indices: Result, offsets: Result, scale_grad_by_freq: Bool = False, mode: Int = 0, sparse: Bool = False, per_sample_weights: Result | None = None, include_last_offset: Bool = False, padding_idx: Int = -1) -> Any:
    """aten::_embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False, int padding_idx=-1) -> (Tensor, Tensor, Tensor, Tensor)"""
    return embedding_bag(graph, res, weight=weight, indices=indices, offsets=offsets, mode=mode, per_sample_weights=per_sample_weights, include_last_offset=include_last_offset, padding_idx=padding_idx)


def aten__embedding_bag_forward_only(graph: Graph, res: ResultSpec, weight: Result, indices: Result, offsets: Result, scale_grad_by_freq: Bool = False, mode: Int = 0, sparse: Bool = False, per_sample_weights: Result | None = None, include_last_offset: Bool = False, padding_idx: Int = -1) -> Any:
    """aten::_embedding_bag_forward_only(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False, int padding_idx=-1) -> (Tensor, Tensor, Tensor, Tensor)"""
    return embedding_bag(graph, res, weight=weight, indices=indices, offsets=offsets, mode=mode, per_sample_weights=per_sample_weights, include_last_offset=include_last_offset, padding_idx=padding_idx)


def aten_embedding_bag(graph: Graph, res: ResultSpec, weight: Result, indices: Result, offsets: Result, scale_grad_by_freq: Bool = False, mode: Int = 0, sparse: Bool = False, per_sample_weights: Result | None = None, include_last_offset: Bool = False) -> Any:
    """aten::embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False) -> (Tensor, Tensor, Tensor, Tensor)"""
    return aten__embedding_bag(graph, res, weight=weight, indices=indices, offsets=offsets, scale_grad_by_freq=scale_grad_by_freq, mode=mode, sparse=sparse, per_sample_weights=per_sample_weights, include_last_offset=include_last_offset, padding_idx=-1)


def aten_embedding_bag_padding_idx(graph: Graph, res: ResultSpec, weight: Result, indices: Result, offsets: Result, scale_grad_by_freq: Bool, mode: Int, sparse: Bool, per_sample_weights: Result | None, include_last_offset: Bool, padding_idx: Int | None) -> Any:
    """aten::embedding_bag.padding_idx(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq, int mode, bool sparse, Tensor? per_sample_weights, bool include_last_offset, int? padding_idx) -> (Tensor, Tensor, Tensor, Tensor)"""
    return aten__embedding_bag(graph, res, weight=weight, indices=indices, offsets=offsets, scale_grad_by_freq=scale_grad_by_freq, mode=mode, sparse=sparse, per_sample_weights=per_sample_weights, include_last_offset=include_last_offset, padding_idx=-1 if padding_idx is None else padding_idx % static(dim_of(graph, weight, 0)))


def aten_embedding_renorm(graph: Graph, res: ResultSpec, self: Result, indices: Result, max_norm: Float, norm_type: Float) -> Result:
    """aten::embedding_renorm(Tensor self, Tensor indices, float max_norm, float norm_type) -> Tensor"""
    compute_dtype = opmath_dtype(dtype_of(graph, self))
    rows = cast(graph, self, compute_dtype)
    norms = power_norm(graph, rows, norm_type, [1], True)
    factor = graph.make_node('Div', [const(graph, max_norm, compute_dtype), graph.make_node('Add', [norms, const(graph, 1e-07, compute_dtype)])])
    named = marked_indices(graph, self, 0, as_flat(graph, cast(graph, indices, int64)))
    long_ = graph.make_node('And', [named, graph.make_node('Greater', [norms, const(graph, max_norm, compute_dtype)])])
    return cast(graph, graph.make_node('Where', [long_, graph.make_node('Mul', [rows, factor]), rows]), dtype_of(graph, self))


def check_aten__embedding_bag(graph: Graph, weight: Result, indices: Result, offsets: Result, scale_grad_by_freq: Bool = False, mode: Int = 0, sparse: Bool = False, per_sample_weights: Result | None = None, include_last_offset: Bool = False, padding_idx: Int = -1) -> list[DataCheck]:
    return [
        DataCheck(indices, 0, dim_of(graph, weight, 0), 'RuntimeError', 'Index of input takes value {value} which is not in the valid range [0, {high})', None),
        DataCheck(graph.make_node('Gather', [offsets, const(graph, 0, int64)], axis=0), 0, 1, 'RuntimeError', 'offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. However, got {value}', None),
        DataCheck(graph.make_node('Gather', [offsets, const(graph, -1, int64)], axis=0), None, count_of(graph, indices) + 1, 'RuntimeError', "offsets[-1] can not be greater than input's length but got offsets[-1] of {value}", None),
    ]


def check_aten__embedding_bag_forward_only(graph: Graph, weight: Result, indices: Result, offsets: Result, scale_grad_by_freq: Bool = False, mode: Int = 0, sparse: Bool = False, per_sample_weights: Result | None = None, include_last_offset: Bool = False, padding_idx: Int = -1) -> list[DataCheck]:
    return [
        DataCheck(indices, 0, dim_of(graph, weight, 0), 'RuntimeError', 'Index of input takes value {value} which is not in the valid range [0, {high})', None),
        DataCheck(graph.make_node('Gather', [offsets, const(graph, 0, int64)], axis=0), 0, 1, 'RuntimeError', 'offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. However, got {value}', None),
        DataCheck(graph.make_node('Gather', [offsets, const(graph, -1, int64)], axis=0), None, count_of(graph, indices) + 1, 'RuntimeError', "offsets[-1] can not be greater than input's length but got offsets[-1] of {value}", None),
    ]


def check_aten_embedding_bag(graph: Graph, weight: Result, indices: Result, offsets: Result, scale_grad_by_freq: Bool = False, mode: Int = 0, sparse: Bool = False, per_sample_weights: Result | None = None, include_last_offset: Bool = False) -> list[DataCheck]:
    return check_aten__embedding_bag(graph, weight=weight, indices=indices, offsets=offsets, scale_grad_by_freq=scale_grad_by_freq, mode=mode, sparse=sparse, per_sample_weights=per_sample_weights, include_last_offset=include_last_offset, padding_idx=-1)


def check_aten_embedding_bag_padding_idx(graph: Graph, weight: Result, indices: Result, offsets: Result, scale_grad_by_freq: Bool, mode: Int, sparse: Bool, per_sample_weights: Result | None, include_last_offset: Bool, padding_idx: Int | None) -> list[DataCheck]:
    return check_aten__embedding_bag(graph, weight=weight, indices=indices, offsets=offsets, scale_grad_by_freq=scale_grad_by_freq, mode=mode, sparse=sparse, per_sample_weights=per_sample_weights, include_last_offset=include_last_offset, padding_idx=-1 if padding_idx is None else padding_idx % static(dim_of(graph, weight, 0)))


def rule_aten__embedding_bag(graph: Graph, weight: Result, indices: Result, offsets: Result, scale_grad_by_freq: Bool = False, mode: Int = 0, sparse: Bool = False, per_sample_weights: Result | None = None, include_last_offset: Bool = False, padding_idx: Int = -1) -> Rules:
    return ((dtype_or_none(graph, weight), None), (dtype_or_none(graph, indices), None), (dtype_or_none(graph, indices), None), (dtype_or_none(graph, indices), None),)


def rule_aten__embedding_bag_forward_only(graph: Graph, weight: Result, indices: Result, offsets: Result, scale_grad_by_freq: Bool = False, mode: Int = 0, sparse: Bool = False, per_sample_weights: Result | None = None, include_last_offset: Bool = False, padding_idx: Int = -1) -> Rules:
    return ((dtype_or_none(graph, weight), None), (dtype_or_none(graph, indices), None), (dtype_or_none(graph, indices), None), (dtype_or_none(graph, indices), None),)


def rule_aten_embedding_bag(graph: Graph, weight: Result, indices: Result, offsets: Result, scale_grad_by_freq: Bool = False, mode: Int = 0, sparse: Bool = False, per_sample_weights: Result | None = None, include_last_offset: Bool = False) -> Rules:
    return rule_aten__embedding_bag(graph, weight=weight, indices=indices, offsets=offsets, scale_grad_by_freq=scale_grad_by_freq, mode=mode, sparse=sparse, per_sample_weights=per_sample_weights, include_last_offset=include_last_offset, padding_idx=-1)


def rule_aten_embedding_bag_padding_idx(graph: Graph, weight: Result, indices: Result, offsets: Result, scale_grad_by_freq: Bool, mode: Int, sparse: Bool, per_sample_weights: Result | None, include_last_offset: Bool, padding_idx: Int | None) -> Rules:
    return rule_aten__embedding_bag(graph, weight=weight, indices=indices, offsets=offsets, scale_grad_by_freq=scale_grad_by_freq, mode=mode, sparse=sparse, per_sample_weights=per_sample_weights, include_last_offset=include_last_offset, padding_idx=-1 if padding_idx is None else padding_idx % static(dim_of(graph, weight, 0)))


def rule_aten_embedding_renorm(graph: Graph, self: Result, indices: Result, max_norm: Float, norm_type: Float) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)
