# Generated from specs/aten/attention.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.dtypes import float32, int64
from ortable.errors import UnsupportedCase
from ortable.known import known_dtype, known_shape
from ortable.prelude import dim_of, dtype_of, is_used, square_root, static
from ortable.prelude_make import attention_mask, cast, const, consts

if TYPE_CHECKING:
    from ortable.builder import GraphBuilder, Res
    from ortable.known import Rules
    from ortable.prelude import Bool, Float, Result


def aten__scaled_dot_product_flash_attention_for_cpu(graph: GraphBuilder, res: Res, query: Result, key: Result, value: Result, dropout_p: Float = 0.0, is_causal: Bool = False, *, attn_mask: Result | None = None, scale: Float | None = None) -> Any:
    """aten::_scaled_dot_product_flash_attention_for_cpu(Tensor query, Tensor key, Tensor value, float dropout_p=0., bool is_causal=False, *, Tensor? attn_mask=None, float? scale=None) -> (Tensor output, Tensor logsumexp)"""
    factor = scale if scale is not None else 1.0 / square_root(float(static(dim_of(graph, query, -1))))
    sizes = [dim_of(graph, query, -2), dim_of(graph, key, -2)]
    if dropout_p > 0:
        raise UnsupportedCase('aten::_scaled_dot_product_flash_attention_for_cpu: dropout inside attention draws random numbers that only torch can draw')
    turned = graph.make_node('Transpose', [key], perm=[0, 1, 3, 2])
    scores = graph.make_node('Mul', [graph.make_node('MatMul', [query, turned]), const(graph, factor, dtype_of(graph, query))])
    masked = attention_mask(graph, scores, attn_mask, is_causal, sizes)
    output = graph.make_node('MatMul', [graph.make_node('Softmax', [masked], axis=-1), value])
    last = consts(graph, [-1], int64)
    total = graph.make_node('ReduceLogSumExp', [masked, last], keepdims=0) if is_used(res[1]) else None
    return (output, cast(graph, total, float32) if total is not None else None)


def rule_aten__scaled_dot_product_flash_attention_for_cpu(graph: GraphBuilder, query: Result, key: Result, value: Result, dropout_p: Float = 0.0, is_causal: Bool = False, *, attn_mask: Result | None = None, scale: Float | None = None) -> Rules:
    return ((known_dtype(graph, query), known_shape(graph, query)), (float32, None),)
