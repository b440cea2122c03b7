# Generated from specs/aten/attention.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.dtypes import float32, float64
from ortable.errors import UnsupportedCase
from ortable.lowerings.attention import flash_attention_backward
from ortable.prelude.facts import differs, dim_of, dtype_of, is_used, rank_of, transpose_perm
from ortable.prelude.metadata import dtype_or_none, shape_or_none
from ortable.prelude.promotion import opmath_dtype
from ortable.prelude.scores import attention_mask, attention_scaled, grouped_product, log_of_sums, shared_heads, zero_where_masked
from ortable.prelude.values import cast, permuted

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Bool, Float, Result


def aten__scaled_dot_product_attention_math(graph: Graph, res: ResultSpec, query: Result, key: Result, value: Result, attn_mask: Result | None = None, dropout_p: Float = 0.0, is_causal: Bool = False, dropout_mask: Result | None = None, *, scale: Float | None = None, enable_gqa: Bool = False) -> Any:
    """aten::_scaled_dot_product_attention_math(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0., bool is_causal=False, Tensor? dropout_mask=None, *, float? scale=None, bool enable_gqa=False) -> (Tensor, Tensor)"""
    compute_dtype = opmath_dtype(dtype_of(graph, query))
    sizes = [dim_of(graph, query, -2), dim_of(graph, key, -2)]
    if dropout_p > 0 or dropout_mask is not None:
        graph.case = 1
        raise UnsupportedCase('aten::_scaled_dot_product_attention_math: dropout inside attention draws random numbers that only torch can draw')
    # this form adds a bool mask, too
    graph.case = 2
    transposed = permuted(graph, cast(graph, key, compute_dtype), transpose_perm(rank_of(graph, key), -2, -1))
    x, values = (cast(graph, query, compute_dtype), cast(graph, value, compute_dtype))
    products = grouped_product(graph, x, transposed) if enable_gqa else graph.make_node('MatMul', [x, transposed])
    scores = attention_scaled(graph, products, scale, dim_of(graph, query, -1))
    mask = cast(graph, attn_mask, compute_dtype) if attn_mask is not None else None
    masked = attention_mask(graph, scores, mask, is_causal, sizes)
    probs = zero_where_masked(graph, graph.make_node('Softmax', [masked], axis=-1), mask)
    result = grouped_product(graph, probs, values) if enable_gqa else graph.make_node('MatMul', [probs, values])
    return (cast(graph, result, dtype_of(graph, query)), cast(graph, probs, dtype_of(graph, query)))


def aten__scaled_dot_product_flash_attention_for_cpu(graph: Graph, res: ResultSpec, query: Result, key: Result, value: Result, dropout_p: Float = 0.0, is_causal: Bool = False, *, attn_mask: Result | None = None, scale: Float | None = None) -> Any:
    """aten::_scaled_dot_product_flash_attention_for_cpu(Tensor query, Tensor key, Tensor value, float dropout_p=0., bool is_causal=False, *, Tensor? attn_mask=None, float? scale=None) -> (Tensor output, Tensor logsumexp)"""
    compute_dtype = opmath_dtype(dtype_of(graph, query))
    sizes = [dim_of(graph, query, -2), dim_of(graph, key, -2)]
    if dropout_p > 0:
        graph.case = 1
        raise UnsupportedCase('aten::_scaled_dot_product_flash_attention_for_cpu: dropout inside attention draws random numbers that only torch can draw')
    if differs(dim_of(graph, key, 1), dim_of(graph, value, 1)):
        graph.case = 2
        raise UnsupportedCase("aten::_scaled_dot_product_flash_attention_for_cpu: keys and values of different numbers of heads, of which torch's kernel reads those of keys only")
    # heads may share keys; with a causal mask these are repeated, which rewrites know
    graph.case = 3
    keys, values = [shared_heads(graph, cast(graph, x, compute_dtype), query, is_causal) for x in [key, value]]
    products = grouped_product(graph, cast(graph, query, compute_dtype), permuted(graph, keys, transpose_perm(4, 2, 3)))
    scores = attention_scaled(graph, products, scale, dim_of(graph, query, -1))
    masked = attention_mask(graph, scores, attn_mask, is_causal, sizes)
    probs = graph.make_node('Softmax', [masked], axis=-1)
    result = zero_where_masked(graph, grouped_product(graph, probs, values), attn_mask)
    total = log_of_sums(graph, masked, probs, attn_mask) if is_used(res[1]) else None
    sums = cast(graph, total, dtype_of(graph, res[1])) if total is not None else None
    return (cast(graph, result, dtype_of(graph, query)), sums)


def aten__scaled_dot_product_flash_attention_for_cpu_backward(graph: Graph, res: ResultSpec, grad_out: Result, query: Result, key: Result, value: Result, out: Result, logsumexp: Result, dropout_p: Float, is_causal: Bool, *, attn_mask: Result | None = None, scale: Float | None = None) -> Any:
    """aten::_scaled_dot_product_flash_attention_for_cpu_backward(Tensor grad_out, Tensor query, Tensor key, Tensor value, Tensor out, Tensor logsumexp, float dropout_p, bool is_causal, *, Tensor? attn_mask=None, float? scale=None) -> (Tensor grad_query, Tensor grad_key, Tensor grad_value)"""
    if dropout_p > 0:
        graph.case = 1
        raise UnsupportedCase('aten::_scaled_dot_product_flash_attention_for_cpu_backward: dropout inside attention draws random numbers that only torch can draw')
    graph.case = 2
    return flash_attention_backward(graph, res, grad_out=grad_out, query=query, key=key, value=value, out=out, logsumexp=logsumexp, is_causal=is_causal, attn_mask=attn_mask, scale=scale)


def aten_scaled_dot_product_attention(graph: Graph, res: ResultSpec, query: Result, key: Result, value: Result, attn_mask: Result | None = None, dropout_p: Float = 0.0, is_causal: Bool = False, *, scale: Float | None = None, enable_gqa: Bool = False) -> Result:
    """aten::scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0., bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor"""
    compute_dtype = opmath_dtype(dtype_of(graph, query))
    sizes = [dim_of(graph, query, -2), dim_of(graph, key, -2)]
    if dropout_p > 0:
        graph.case = 1
        raise UnsupportedCase('aten::scaled_dot_product_attention: dropout inside attention draws random numbers that only torch can draw')
    graph.case = 2
    repeat = is_causal and enable_gqa
    keys, values = [shared_heads(graph, cast(graph, x, compute_dtype), query, repeat) for x in [key, value]]
    x, transposed = (cast(graph, query, compute_dtype), permuted(graph, keys, transpose_perm(rank_of(graph, key), -2, -1)))
    products = grouped_product(graph, x, transposed) if enable_gqa else graph.make_node('MatMul', [x, transposed])
    scores = attention_scaled(graph, products, scale, dim_of(graph, query, -1))
    masked = attention_mask(graph, scores, attn_mask, is_causal, sizes)
    probs = graph.make_node('Softmax', [masked], axis=-1)
    output = grouped_product(graph, probs, values) if enable_gqa else graph.make_node('MatMul', [probs, values])
    return cast(graph, zero_where_masked(graph, output, attn_mask), dtype_of(graph, query))


def rule_aten__scaled_dot_product_attention_math(graph: Graph, query: Result, key: Result, value: Result, attn_mask: Result | None = None, dropout_p: Float = 0.0, is_causal: Bool = False, dropout_mask: Result | None = None, *, scale: Float | None = None, enable_gqa: Bool = False) -> Rules:
    return ((dtype_or_none(graph, query), None), (dtype_or_none(graph, query), None),)


def rule_aten__scaled_dot_product_flash_attention_for_cpu(graph: Graph, query: Result, key: Result, value: Result, dropout_p: Float = 0.0, is_causal: Bool = False, *, attn_mask: Result | None = None, scale: Float | None = None) -> Rules:
    return ((dtype_or_none(graph, query), shape_or_none(graph, query)), (float64 if dtype_of(graph, query) == float64 else float32, None),)


def rule_aten__scaled_dot_product_flash_attention_for_cpu_backward(graph: Graph, grad_out: Result, query: Result, key: Result, value: Result, out: Result, logsumexp: Result, dropout_p: Float, is_causal: Bool, *, attn_mask: Result | None = None, scale: Float | None = None) -> Rules:
    return ((dtype_or_none(graph, query), shape_or_none(graph, query)), (dtype_or_none(graph, key), shape_or_none(graph, key)), (dtype_or_none(graph, value), shape_or_none(graph, value)),)


def rule_aten_scaled_dot_product_attention(graph: Graph, query: Result, key: Result, value: Result, attn_mask: Result | None = None, dropout_p: Float = 0.0, is_causal: Bool = False, *, scale: Float | None = None, enable_gqa: Bool = False) -> Rules:
    return ((dtype_or_none(graph, query), None),)
