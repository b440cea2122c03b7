"""Gradient of scaled dot product attention, from the logarithm of the sums that the forward
kept."""

from __future__ import annotations

from ortable import dtypes
from ortable.ir import Graph, Res
from ortable.prelude.facts import dim_of, dtype_of
from ortable.prelude.values import attention_mask, cast, consts, permuted, unsqueezed

from .nn import attention_scaled, grouped_product, heads_as, wide_dtype

_TURNED = [0, 1, 3, 2]


def flash_attention_backward(
    graph: Graph,
    res: Res,
    grad_out: str,
    query: str,
    key: str,
    value: str,
    out: str,
    logsumexp: str,
    is_causal: bool,
    attn_mask: str | None,
    scale: float | None,
) -> tuple[str, str, str]:
    """aten::_scaled_dot_product_flash_attention_for_cpu_backward: gradients of query [B, H, L, D],
    of key and value [B, G, S, D], where H / G neighbouring heads share one of theirs.

    With P = exp(scores - logsumexp): dV = Pt dO, dP = dO Vt, dS = P (dP - sum(dO out)), dQ = dS K,
    dK = dSt Q (Dao et al., FlashAttention, 2022, appendix B). Heads that share keys are rows of one
    head here, so the products with Pt and dSt are their sums over the group.
    """
    wide = wide_dtype(dtype_of(graph, query))
    width, heads, groups = (dim_of(graph, *at) for at in ((query, -1), (query, 1), (key, 1)))
    grad, q, k, v, o = (cast(graph, x, wide) for x in (grad_out, query, key, value, out))
    sizes = [dim_of(graph, query, -2), dim_of(graph, key, -2)]
    products = grouped_product(graph, q, permuted(graph, k, _TURNED))
    scores = attention_scaled(graph, products, scale, width)
    masked = attention_mask(graph, scores, attn_mask, is_causal, sizes)
    sums = unsqueezed(graph, cast(graph, logsumexp, wide), [3])
    weights = graph.make_node("Exp", [graph.make_node("Sub", [masked, sums])])
    weights, grad, q, o = (heads_as(graph, x, groups) for x in (weights, grad, q, o))
    grad_value = graph.make_node("MatMul", [permuted(graph, weights, _TURNED), grad])
    from_value = graph.make_node("MatMul", [grad, permuted(graph, v, _TURNED)])
    last = consts(graph, [3], dtypes.int64)
    shared = graph.make_node("ReduceSum", [graph.make_node("Mul", [grad, o]), last], keepdims=1)
    grad_scores = graph.make_node("Mul", [weights, graph.make_node("Sub", [from_value, shared])])
    grad_scores = attention_scaled(graph, grad_scores, scale, width)
    grad_query = heads_as(graph, graph.make_node("MatMul", [grad_scores, k]), heads)
    grad_key = graph.make_node("MatMul", [permuted(graph, grad_scores, _TURNED), q])
    return (
        cast(graph, grad_query, res[0].dtype),
        cast(graph, grad_key, res[1].dtype),
        cast(graph, grad_value, res[2].dtype),
    )
