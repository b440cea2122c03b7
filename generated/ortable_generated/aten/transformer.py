# Generated from specs/aten/transformer.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from math import sqrt
from ortable.dtypes import int64
from ortable.lowerings.attention import layer_normalized, packed_attention
from ortable.prelude.error_functions import erf_of
from ortable.prelude.matrices import projected
from ortable.prelude.metadata import dtype_or_none, shape_or_none
from ortable.prelude.pointwise import const_like, relu_of
from ortable.prelude.values import consts

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Bool, Float, Int, Result


def aten__native_multi_head_attention(graph: Graph, res: ResultSpec, query: Result, key: Result, value: Result, embed_dim: Int, num_head: Int, qkv_weight: Result, qkv_bias: Result, proj_weight: Result, proj_bias: Result, mask: Result | None = None, need_weights: Bool = True, average_attn_weights: Bool = True, mask_type: Int | None = None) -> Any:
    """aten::_native_multi_head_attention(Tensor query, Tensor key, Tensor value, int embed_dim, int num_head, Tensor qkv_weight, Tensor qkv_bias, Tensor proj_weight, Tensor proj_bias, Tensor? mask=None, bool need_weights=True, bool average_attn_weights=True, int? mask_type=None) -> (Tensor, Tensor)"""
    result = packed_attention(graph, [query, key, value], num_head, qkv_weight, qkv_bias, mask, mask_type)
    probs = result[1]
    averaged = graph.make_node('ReduceMean', [probs, consts(graph, [1], int64)], keepdims=0)
    weights = averaged if average_attn_weights else probs
    return (projected(graph, result[0], proj_weight, proj_bias), weights if need_weights else None)


def aten__transformer_encoder_layer_fwd(graph: Graph, res: ResultSpec, src: Result, embed_dim: Int, num_heads: Int, qkv_weight: Result, qkv_bias: Result, proj_weight: Result, proj_bias: Result, use_gelu: Bool, norm_first: Bool, eps: Float, norm_weight_1: Result, norm_bias_1: Result, norm_weight_2: Result, norm_bias_2: Result, ffn_weight_1: Result, ffn_bias_1: Result, ffn_weight_2: Result, ffn_bias_2: Result, mask: Result | None = None, mask_type: Int | None = None) -> Result:
    """aten::_transformer_encoder_layer_fwd(Tensor src, int embed_dim, int num_heads, Tensor qkv_weight, Tensor qkv_bias, Tensor proj_weight, Tensor proj_bias, bool use_gelu, bool norm_first, float eps, Tensor norm_weight_1, Tensor norm_bias_1, Tensor norm_weight_2, Tensor norm_bias_2, Tensor ffn_weight_1, Tensor ffn_bias_1, Tensor ffn_weight_2, Tensor ffn_bias_2, Tensor? mask=None, int? mask_type=None) -> Tensor"""
    start = layer_normalized(graph, src, norm_weight_1, norm_bias_1, eps) if norm_first else src
    joined = packed_attention(graph, [start] * 3, num_heads, qkv_weight, qkv_bias, mask, mask_type)[0]
    added = graph.make_node('Add', [src, projected(graph, joined, proj_weight, proj_bias)])
    middle = added if norm_first else layer_normalized(graph, added, norm_weight_1, norm_bias_1, eps)
    enter = layer_normalized(graph, middle, norm_weight_2, norm_bias_2, eps) if norm_first else middle
    wide = projected(graph, enter, ffn_weight_1, ffn_bias_1)
    bent = graph.make_node('Mul', [graph.make_node('Mul', [wide, const_like(graph, 0.5, wide)]), graph.make_node('Add', [erf_of(graph, graph.make_node('Div', [wide, const_like(graph, sqrt(2), wide)])), const_like(graph, 1, wide)])]) if use_gelu else relu_of(graph, wide)
    last = graph.make_node('Add', [middle, projected(graph, bent, ffn_weight_2, ffn_bias_2)])
    return last if norm_first else layer_normalized(graph, last, norm_weight_2, norm_bias_2, eps)


def rule_aten__native_multi_head_attention(graph: Graph, query: Result, key: Result, value: Result, embed_dim: Int, num_head: Int, qkv_weight: Result, qkv_bias: Result, proj_weight: Result, proj_bias: Result, mask: Result | None = None, need_weights: Bool = True, average_attn_weights: Bool = True, mask_type: Int | None = None) -> Rules:
    return ((dtype_or_none(graph, query), None), (dtype_or_none(graph, query), None),)


def rule_aten__transformer_encoder_layer_fwd(graph: Graph, src: Result, embed_dim: Int, num_heads: Int, qkv_weight: Result, qkv_bias: Result, proj_weight: Result, proj_bias: Result, use_gelu: Bool, norm_first: Bool, eps: Float, norm_weight_1: Result, norm_bias_1: Result, norm_weight_2: Result, norm_bias_2: Result, ffn_weight_1: Result, ffn_bias_1: Result, ffn_weight_2: Result, ffn_bias_2: Result, mask: Result | None = None, mask_type: Int | None = None) -> Rules:
    return ((dtype_or_none(graph, src), shape_or_none(graph, src)),)
