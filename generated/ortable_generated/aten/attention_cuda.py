# Generated from specs/aten/attention_cuda.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.dtypes import float32, int32, int64, uint64
from ortable.errors import UnsupportedCase
from ortable.lowerings.attention import cudnn_attention_backward, efficient_attention_backward, fused_attention_backward, padded_sums
from ortable.prelude.facts import differs, dim_of, dtype_of, is_used, shape_of, transpose_perm
from ortable.prelude.metadata import dtype_or_none, scalar_shape, shape_or_none
from ortable.prelude.promotion import opmath_dtype
from ortable.prelude.scores import attention_mask, attention_scaled, grouped_product, log_of_sums, shared_heads, zero_where_masked
from ortable.prelude.shapes import zeros_of
from ortable.prelude.values import as_scalar, cast, permuted, unsqueezed

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Bool, Bools, Float, Result, SymInt


def aten__scaled_dot_product_cudnn_attention(graph: Graph, res: ResultSpec, query: Result, key: Result, value: Result, attn_bias: Result | None, compute_log_sumexp: Bool, dropout_p: Float = 0.0, is_causal: Bool = False, return_debug_mask: Bool = False, *, scale: Float | None = None) -> Any:
    """aten::_scaled_dot_product_cudnn_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_bias, bool compute_log_sumexp, float dropout_p=0., bool is_causal=False, bool return_debug_mask=False, *, float? scale=None) -> (Tensor output, Tensor logsumexp, Tensor cum_seq_q, Tensor cum_seq_k, SymInt max_q, SymInt max_k, Tensor philox_seed, Tensor philox_offset, Tensor debug_attn_mask)"""
    compute_dtype = opmath_dtype(dtype_of(graph, query))
    sizes = [dim_of(graph, query, -2), dim_of(graph, key, -2)]
    if dropout_p > 0:
        graph.case = 1
        raise UnsupportedCase('aten::_scaled_dot_product_cudnn_attention: dropout inside attention draws random numbers that only torch can draw')
    if return_debug_mask:
        graph.case = 2
        raise UnsupportedCase('aten::_scaled_dot_product_cudnn_attention: the mask to look at is of a kernel on CUDA')
    graph.case = 3
    keys, values = [shared_heads(graph, cast(graph, x, compute_dtype), query, is_causal) for x in [key, value]]
    products = grouped_product(graph, cast(graph, query, compute_dtype), permuted(graph, keys, transpose_perm(4, 2, 3)))
    scores = attention_scaled(graph, products, scale, dim_of(graph, query, -1))
    masked = attention_mask(graph, scores, attn_bias, is_causal, sizes)
    probs = graph.make_node('Softmax', [masked], axis=-1)
    result = cast(graph, zero_where_masked(graph, grouped_product(graph, probs, values), attn_bias), dtype_of(graph, query))
    total = log_of_sums(graph, masked, probs, attn_bias) if is_used(res[1]) else None
    sums = unsqueezed(graph, cast(graph, total, float32), [3]) if total is not None else None
    seeds = [zeros_of(graph, shape_of(graph, res[i]), dtype_of(graph, res[i])) for i in [6, 7]]
    return (result, sums, None, None, as_scalar(graph, sizes[0]), as_scalar(graph, sizes[1]), seeds[0], seeds[1], None)


def aten__scaled_dot_product_cudnn_attention_backward(graph: Graph, res: ResultSpec, grad_out: Result, query: Result, key: Result, value: Result, out: Result, logsumexp: Result, philox_seed: Result, philox_offset: Result, attn_bias: Result, cum_seq_q: Result, cum_seq_k: Result, max_q: SymInt, max_k: SymInt, dropout_p: Float, is_causal: Bool, *, scale: Float | None = None) -> Any:
    """aten::_scaled_dot_product_cudnn_attention_backward(Tensor grad_out, Tensor query, Tensor key, Tensor value, Tensor out, Tensor logsumexp, Tensor philox_seed, Tensor philox_offset, Tensor attn_bias, Tensor cum_seq_q, Tensor cum_seq_k, SymInt max_q, SymInt max_k, float dropout_p, bool is_causal, *, float? scale=None) -> (Tensor, Tensor, Tensor)"""
    if dropout_p > 0:
        graph.case = 1
        raise UnsupportedCase('aten::_scaled_dot_product_cudnn_attention_backward: dropout inside attention draws random numbers that only torch can draw')
    graph.case = 2
    return cudnn_attention_backward(graph, res, grad_out=grad_out, query=query, key=key, value=value, out=out, logsumexp=logsumexp, attn_bias=attn_bias, is_causal=is_causal, scale=scale)


def aten__scaled_dot_product_efficient_attention(graph: Graph, res: ResultSpec, query: Result, key: Result, value: Result, attn_bias: Result | None, compute_log_sumexp: Bool, dropout_p: Float = 0.0, is_causal: Bool = False, *, scale: Float | None = None) -> Any:
    """aten::_scaled_dot_product_efficient_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_bias, bool compute_log_sumexp, float dropout_p=0., bool is_causal=False, *, float? scale=None) -> (Tensor output, Tensor log_sumexp, Tensor philox_seed, Tensor philox_offset)"""
    compute_dtype = opmath_dtype(dtype_of(graph, query))
    sizes = [dim_of(graph, query, -2), dim_of(graph, key, -2)]
    if dropout_p > 0:
        graph.case = 1
        raise UnsupportedCase('aten::_scaled_dot_product_efficient_attention: dropout inside attention draws random numbers that only torch can draw')
    # the sums are padded with infinity to a multiple of 32, or none at all
    graph.case = 2
    keys, values = [shared_heads(graph, cast(graph, x, compute_dtype), query, is_causal) for x in [key, value]]
    products = grouped_product(graph, cast(graph, query, compute_dtype), permuted(graph, keys, transpose_perm(4, 2, 3)))
    scores = attention_scaled(graph, products, scale, dim_of(graph, query, -1))
    masked = attention_mask(graph, scores, attn_bias, is_causal, sizes)
    probs = graph.make_node('Softmax', [masked], axis=-1)
    result = cast(graph, zero_where_masked(graph, grouped_product(graph, probs, values), attn_bias), dtype_of(graph, query))
    total = log_of_sums(graph, masked, probs, attn_bias) if is_used(res[1]) else None
    seeds = [zeros_of(graph, [], dtype_of(graph, res[2])), zeros_of(graph, [], dtype_of(graph, res[3]))]
    return (result, padded_sums(graph, total, sizes[0], compute_log_sumexp), seeds[0], seeds[1])


def aten__scaled_dot_product_efficient_attention_backward(graph: Graph, res: ResultSpec, grad_out_: Result, query: Result, key: Result, value: Result, attn_bias: Result, out: Result, logsumexp: Result, philox_seed: Result, philox_offset: Result, dropout_p: Float, grad_input_mask: Bools, is_causal: Bool = False, *, scale: Float | None = None) -> Any:
    """aten::_scaled_dot_product_efficient_attention_backward(Tensor grad_out_, Tensor query, Tensor key, Tensor value, Tensor attn_bias, Tensor out, Tensor logsumexp, Tensor philox_seed, Tensor philox_offset, float dropout_p, bool[4] grad_input_mask, bool is_causal=False, *, float? scale=None) -> (Tensor, Tensor, Tensor, Tensor)"""
    if dropout_p > 0:
        graph.case = 1
        raise UnsupportedCase('aten::_scaled_dot_product_efficient_attention_backward: dropout inside attention draws random numbers that only torch can draw')
    if grad_input_mask[3]:
        graph.case = 2
        raise UnsupportedCase("aten::_scaled_dot_product_efficient_attention_backward: the gradient of the bias of attention, which torch's kernel sums up itself")
    graph.case = 3
    return efficient_attention_backward(graph, res, grad_out_=grad_out_, query=query, key=key, value=value, attn_bias=attn_bias, out=out, logsumexp=logsumexp, is_causal=is_causal, scale=scale)


def aten__scaled_dot_product_flash_attention(graph: Graph, res: ResultSpec, query: Result, key: Result, value: Result, dropout_p: Float = 0.0, is_causal: Bool = False, return_debug_mask: Bool = False, *, scale: Float | None = None) -> Any:
    """aten::_scaled_dot_product_flash_attention(Tensor query, Tensor key, Tensor value, float dropout_p=0., bool is_causal=False, bool return_debug_mask=False, *, float? scale=None) -> (Tensor output, Tensor logsumexp, Tensor cum_seq_q, Tensor cum_seq_k, SymInt max_q, SymInt max_k, Tensor rng_state, Tensor unused, Tensor debug_attn_mask)"""
    compute_dtype = opmath_dtype(dtype_of(graph, query))
    sizes = [dim_of(graph, query, -2), dim_of(graph, key, -2)]
    if dropout_p > 0:
        graph.case = 1
        raise UnsupportedCase('aten::_scaled_dot_product_flash_attention: dropout inside attention draws random numbers that only torch can draw')
    if return_debug_mask:
        graph.case = 2
        raise UnsupportedCase('aten::_scaled_dot_product_flash_attention: the mask to look at is of a kernel on CUDA')
    if is_causal and differs(dim_of(graph, query, -2), dim_of(graph, key, -2)):
        graph.case = 3
        raise UnsupportedCase('aten::_scaled_dot_product_flash_attention: a causal mask of another number of queries than keys, which torch leaves to other kernels')
    graph.case = 4
    keys, values = [shared_heads(graph, cast(graph, x, compute_dtype), query, is_causal) for x in [key, value]]
    products = grouped_product(graph, cast(graph, query, compute_dtype), permuted(graph, keys, transpose_perm(4, 2, 3)))
    scores = attention_scaled(graph, products, scale, dim_of(graph, query, -1))
    masked = attention_mask(graph, scores, None, is_causal, sizes)
    probs = graph.make_node('Softmax', [masked], axis=-1)
    result = cast(graph, grouped_product(graph, probs, values), dtype_of(graph, query))
    sums = cast(graph, log_of_sums(graph, masked, probs, None), float32) if is_used(res[1]) else None
    seeds = [zeros_of(graph, shape_of(graph, res[i]), dtype_of(graph, res[i])) for i in [6, 7]]
    return (result, sums, None, None, as_scalar(graph, sizes[0]), as_scalar(graph, sizes[1]), seeds[0], seeds[1], None)


def aten__scaled_dot_product_flash_attention_backward(graph: Graph, res: ResultSpec, grad_out: Result, query: Result, key: Result, value: Result, out: Result, logsumexp: Result, cum_seq_q: Result, cum_seq_k: Result, max_q: SymInt, max_k: SymInt, dropout_p: Float, is_causal: Bool, philox_seed: Result, philox_offset: Result, *, scale: Float | None = None) -> Any:
    """aten::_scaled_dot_product_flash_attention_backward(Tensor grad_out, Tensor query, Tensor key, Tensor value, Tensor out, Tensor logsumexp, Tensor cum_seq_q, Tensor cum_seq_k, SymInt max_q, SymInt max_k, float dropout_p, bool is_causal, Tensor philox_seed, Tensor philox_offset, *, float? scale=None) -> (Tensor grad_query, Tensor grad_key, Tensor grad_value)"""
    if dropout_p > 0:
        graph.case = 1
        raise UnsupportedCase('aten::_scaled_dot_product_flash_attention_backward: dropout inside attention draws random numbers that only torch can draw')
    if is_causal and differs(dim_of(graph, query, -2), dim_of(graph, key, -2)):
        graph.case = 2
        raise UnsupportedCase('aten::_scaled_dot_product_flash_attention_backward: a causal mask of another number of queries than keys, which torch leaves to other kernels')
    graph.case = 3
    return fused_attention_backward(graph, res, grad_out=grad_out, query=query, key=key, value=value, out=out, logsumexp=logsumexp, is_causal=is_causal, scale=scale)


def rule_aten__scaled_dot_product_cudnn_attention(graph: Graph, query: Result, key: Result, value: Result, attn_bias: Result | None, compute_log_sumexp: Bool, dropout_p: Float = 0.0, is_causal: Bool = False, return_debug_mask: Bool = False, *, scale: Float | None = None) -> Rules:
    return ((dtype_or_none(graph, query), None), (float32, None), (int64, None), (int64, None), (int64, scalar_shape()), (int64, scalar_shape()), (int64, None), (int64, None), (dtype_or_none(graph, query), None),)


def rule_aten__scaled_dot_product_cudnn_attention_backward(graph: Graph, grad_out: Result, query: Result, key: Result, value: Result, out: Result, logsumexp: Result, philox_seed: Result, philox_offset: Result, attn_bias: Result, cum_seq_q: Result, cum_seq_k: Result, max_q: SymInt, max_k: SymInt, dropout_p: Float, is_causal: Bool, *, scale: Float | None = None) -> Rules:
    return ((dtype_or_none(graph, query), shape_or_none(graph, query)), (dtype_or_none(graph, key), shape_or_none(graph, key)), (dtype_or_none(graph, value), shape_or_none(graph, value)),)


def rule_aten__scaled_dot_product_efficient_attention(graph: Graph, query: Result, key: Result, value: Result, attn_bias: Result | None, compute_log_sumexp: Bool, dropout_p: Float = 0.0, is_causal: Bool = False, *, scale: Float | None = None) -> Rules:
    return ((dtype_or_none(graph, query), None), (float32, None), (int64, scalar_shape()), (int64, scalar_shape()),)


def rule_aten__scaled_dot_product_efficient_attention_backward(graph: Graph, grad_out_: Result, query: Result, key: Result, value: Result, attn_bias: Result, out: Result, logsumexp: Result, philox_seed: Result, philox_offset: Result, dropout_p: Float, grad_input_mask: Bools, is_causal: Bool = False, *, scale: Float | None = None) -> Rules:
    return ((dtype_or_none(graph, query), shape_or_none(graph, query)), (dtype_or_none(graph, key), shape_or_none(graph, key)), (dtype_or_none(graph, value), shape_or_none(graph, value)), (dtype_or_none(graph, query), None),)


def rule_aten__scaled_dot_product_flash_attention(graph: Graph, query: Result, key: Result, value: Result, dropout_p: Float = 0.0, is_causal: Bool = False, return_debug_mask: Bool = False, *, scale: Float | None = None) -> Rules:
    return ((dtype_or_none(graph, query), shape_or_none(graph, query)), (float32, None), (int32, None), (int32, None), (int64, scalar_shape()), (int64, scalar_shape()), (uint64, None), (uint64, None), (dtype_or_none(graph, query), None),)


def rule_aten__scaled_dot_product_flash_attention_backward(graph: Graph, grad_out: Result, query: Result, key: Result, value: Result, out: Result, logsumexp: Result, cum_seq_q: Result, cum_seq_k: Result, max_q: SymInt, max_k: SymInt, dropout_p: Float, is_causal: Bool, philox_seed: Result, philox_offset: Result, *, scale: Float | None = None) -> Rules:
    return ((dtype_or_none(graph, query), shape_or_none(graph, query)), (dtype_or_none(graph, key), shape_or_none(graph, key)), (dtype_or_none(graph, value), shape_or_none(graph, value)),)
