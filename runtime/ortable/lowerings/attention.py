"""Lower scaled dot product attention, fused transformer operators, and flex_attention.

The gradients use the logarithms of the softmax sums that the forward pass saved. The score and mask
functions of flex_attention take a single score, but are traced once, over the tensor of all scores.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ortable import dtypes
from ortable.errors import UnsupportedCase
from ortable.ir import Graph, ResultSpec
from ortable.prelude.facts import (
    Bool,
    Float,
    Int,
    Result,
    Results,
    SymInt,
    SymInts,
    dim_of,
    dtype_of,
    rank_of,
    shape_of,
    static,
)
from ortable.prelude.op_builder import OpBuilder
from ortable.prelude.promotion import opmath_dtype
from ortable.prelude.scores import (
    above_lowest,
    attention_mask,
    attention_scaled,
    grouped_product,
    regroup_heads,
)
from ortable.prelude.shapes import expanded
from ortable.prelude.values import (
    as_vec,
    cast,
    const,
    consts,
    filled,
    permuted,
    reshape_to,
    unsqueezed,
)

from .reductions import mean_over

if TYPE_CHECKING:
    from torch.fx import GraphModule, Node

__all__ = [
    "layer_normalized",
    "mask_of_onnx",
    "packed_attention",
    "padded_sums",
]


_TRANSPOSED = [0, 1, 3, 2]


def flash_attention_backward(
    graph: Graph,
    res: ResultSpec,
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
    """Lower aten::_scaled_dot_product_flash_attention_for_cpu_backward.

    Returns the gradients of query [B, H, L, D], key and value [B, G, S, D], where H / G
    neighbouring query heads share one key and value head. With P = exp(scores - logsumexp):
    dV = Pt dO, dP = dO Vt, dS = P (dP - sum(dO out)), dQ = dS K, dK = dSt Q (Dao et al.,
    FlashAttention, 2022, appendix B). Query heads that share a key head become rows of one head, so
    the products with Pt and dSt also sum over the group.
    """
    op = OpBuilder(graph)
    compute_dtype = opmath_dtype(dtype_of(graph, query))
    width, heads, groups = (
        dim_of(graph, *tensor_and_axis) for tensor_and_axis in ((query, -1), (query, 1), (key, 1))
    )
    grad, q, k, v, o = (cast(graph, x, compute_dtype) for x in (grad_out, query, key, value, out))
    sizes = [dim_of(graph, query, -2), dim_of(graph, key, -2)]
    products = grouped_product(graph, q, permuted(graph, k, _TRANSPOSED))
    scores = attention_scaled(graph, products, scale, width)
    masked = attention_mask(graph, scores, attn_mask, is_causal, sizes)
    log_sums = unsqueezed(graph, cast(graph, logsumexp, compute_dtype), [3])
    weights = op.Exp(op.Sub(masked, log_sums))
    weights, grad, q, o = (regroup_heads(graph, x, groups) for x in (weights, grad, q, o))
    grad_value = op.MatMul(permuted(graph, weights, _TRANSPOSED), grad)
    grad_weights = op.MatMul(grad, permuted(graph, v, _TRANSPOSED))
    last_axis = consts(graph, [3], dtypes.int64)
    row_sums = op.ReduceSum(op.Mul(grad, o), last_axis, keepdims=1)
    grad_scores = op.Mul(weights, op.Sub(grad_weights, row_sums))
    grad_scores = attention_scaled(graph, grad_scores, scale, width)
    grad_query = regroup_heads(graph, op.MatMul(grad_scores, k), heads, sizes[0])
    grad_key = op.MatMul(permuted(graph, grad_scores, _TRANSPOSED), q)
    return (
        cast(graph, grad_query, res[0].dtype),
        cast(graph, grad_key, res[1].dtype),
        cast(graph, grad_value, res[2].dtype),
    )


def fused_attention_backward(
    graph: Graph,
    res: ResultSpec,
    grad_out: str,
    query: str,
    key: str,
    value: str,
    out: str,
    logsumexp: str,
    is_causal: bool,
    scale: float | None,
) -> tuple[str, str, str]:
    """Lower aten::_scaled_dot_product_flash_attention_backward, which has no mask."""
    tensors = grad_out, query, key, value, out, logsumexp
    return flash_attention_backward(graph, res, *tensors, is_causal, None, scale)


def cudnn_attention_backward(
    graph: Graph,
    res: ResultSpec,
    grad_out: str,
    query: str,
    key: str,
    value: str,
    out: str,
    logsumexp: str,
    attn_bias: str | None,
    is_causal: bool,
    scale: float | None,
) -> tuple[str, str, str]:
    """Lower aten::_scaled_dot_product_cudnn_attention_backward, where logsumexp is [B, H, L, 1]."""
    log_sums = logsumexp
    if rank_of(graph, log_sums) == 4:
        log_sums = OpBuilder(graph).Squeeze(log_sums, consts(graph, [3], dtypes.int64))
    tensors = grad_out, query, key, value, out, log_sums
    return flash_attention_backward(graph, res, *tensors, is_causal, attn_bias, scale)


def efficient_attention_backward(
    graph: Graph,
    res: ResultSpec,
    grad_out_: str,
    query: str,
    key: str,
    value: str,
    attn_bias: str | None,
    out: str,
    logsumexp: str,
    is_causal: bool,
    scale: float | None,
) -> tuple[str, str, str, None]:
    """Lower aten::_scaled_dot_product_efficient_attention_backward without the bias gradient."""
    start, axis = (consts(graph, [index], dtypes.int64) for index in (0, 2))
    count = as_vec(graph, [dim_of(graph, query, 2)])
    log_sums = OpBuilder(graph).Slice(logsumexp, start, count, axis)  # drop torch's padding
    log_sums = reshape_to(graph, log_sums, shape_of(graph, query)[:3])
    tensors = grad_out_, query, key, value, out, log_sums
    return (*flash_attention_backward(graph, res, *tensors, is_causal, attn_bias, scale), None)


def packed_attention(
    graph: Graph,
    inputs: Results,
    heads: Int,
    weight: Result,
    bias: Result,
    mask: Result | None,
    mask_type: Int | None,
) -> Results:
    """Compute attention with one packed weight [3 E, E] and bias [3 E] for query, key and value.

    ``inputs`` are query, key and value, each [N, L, E]. ``mask`` is True, or any nonzero number, at
    masked positions; ``mask_type`` gives its shape: 0 for [L, S], 1 for [N, S], 2 for [N, H, L, S].
    Returns the joined heads [N, L, E] and the attention weights [N, H, L, S]. A row whose positions
    are all masked is NaN, as in torch.
    """
    projected = [
        _project_heads(graph, x, index, heads, weight, bias) for index, x in enumerate(inputs)
    ]
    query, key, value = projected
    op, dtype = OpBuilder(graph), graph.get_type(inputs[0])
    size = int(static(dim_of(graph, weight, 1))) // heads
    scores = op.MatMul(query, permuted(graph, key, [0, 1, 3, 2]))
    scores = op.Mul(scores, const(graph, size**-0.5, dtype))
    if mask is not None:
        if mask_type not in (0, 1, 2):
            raise UnsupportedCase("a mask without a type")
        mask = cast(graph, mask, dtypes.boolean)
        full_mask = unsqueezed(graph, mask, [1, 2]) if mask_type == 1 else mask
        scores = op.Where(full_mask, -float("inf"), scores)
    probs = op.Softmax(scores, axis=-1)
    joined = permuted(graph, op.MatMul(probs, value), [0, 2, 1, 3])
    shape = [dim_of(graph, inputs[0], 0), dim_of(graph, inputs[0], 1), size * heads]
    return [reshape_to(graph, joined, shape), probs]


def layer_normalized(graph: Graph, x: Result, weight: Result, bias: Result, eps: Float) -> Result:
    """Normalize over the last axis; float16 and bfloat16 are computed in float32."""
    dtype = graph.get_type(x)
    if dtype == dtypes.float64:  # the epsilon of LayerNormalization is a float32
        op, last = OpBuilder(graph), [rank_of(graph, x) - 1]
        centered = op.Sub(x, mean_over(graph, x, last, True))
        variance = mean_over(graph, op.Mul(centered, centered), last, True)
        std = op.Sqrt(op.Add(variance, const(graph, eps, dtype)))
        return op.Add(op.Mul(op.Div(centered, std), weight), bias)
    compute_dtype = opmath_dtype(dtype)
    operands = [cast(graph, tensor, compute_dtype) for tensor in (x, weight, bias)]
    return cast(graph, graph.make_node("LayerNormalization", operands, epsilon=eps), dtype)


def _project_heads(graph: Graph, x: str, index: int, heads: int, weight: str, bias: str) -> str:
    """Project [N, L, E] by part ``index`` (0 to 2) of the packed weight to [N, H, L, E / H]."""
    op = OpBuilder(graph)
    embedding = int(static(dim_of(graph, weight, 1)))
    bounds = [consts(graph, [(index + offset) * embedding], dtypes.int64) for offset in (0, 1)]
    axis = consts(graph, [0], dtypes.int64)
    matrix = op.Slice(weight, *bounds, axis)
    part_bias = op.Slice(bias, *bounds, axis)
    product = op.MatMul(x, permuted(graph, matrix, [1, 0]))
    result = op.Add(product, part_bias)
    shape = [dim_of(graph, x, 0), dim_of(graph, x, 1), heads, embedding // heads]
    return permuted(graph, reshape_to(graph, result, shape), [0, 2, 1, 3])


def flex_attention(
    graph: Graph,
    res: ResultSpec,
    query: Any,
    key: Any,
    value: Any,
    score_mod: GraphModule,
    block_mask: Sequence[Any],
    scale: float,
    kernel_options: Any,
    score_mod_other_buffers: Sequence[Any] = (),
    mask_mod_other_buffers: Sequence[Any] = (),
) -> list[Any]:
    """Return the attention, its base-2 logsumexp and the maximum scores; None for unused ones."""
    node: Any = graph.origin
    # block_mask[-1] is the mask function; the blocks before it only save time
    traced = _trace_scores(node, score_mod, block_mask[-1], scale)
    operands = [query, key, value, *score_mod_other_buffers, *mask_mod_other_buffers]
    result = iter(graph.ctx.convert_into(graph, traced, operands))
    used = _used_results(node)
    return [next(result) if index in used else None for index in range(3)]


def _used_results(node: Node) -> set[int]:
    """Return the indices of a node's results that have users."""
    return {int(user.args[1]) for user in node.users if user.users}  # type: ignore[arg-type]


def _trace_scores(node: Node, score_mod: Any, mask_mod: Any, scale: float) -> GraphModule:
    import torch

    from ortable.compat.torch import make_fx, math_attention

    buffers = [tuple(buffer) for buffer in (*node.args[7:], (), ())[:2]]  # type: ignore[arg-type]
    score_buffer_count = len(buffers[0])
    used = sorted(_used_results(node))

    def compute_used_results(query: Any, key: Any, value: Any, *others: Any) -> list[Any]:
        results = math_attention(
            query,
            key,
            value,
            score_mod,
            (mask_mod,),
            scale,
            {},
            others[:score_buffer_count],
            others[score_buffer_count:],
        )
        return [results[index] for index in used]

    fake_tensors = [argument.meta["val"] for argument in (*node.args[:3], *buffers[0], *buffers[1])]  # type: ignore[union-attr]
    shape_env = getattr(fake_tensors[0].fake_mode, "shape_env", None)
    no_guards = shape_env.suppress_guards() if shape_env is not None else contextlib.nullcontext()
    try:
        with torch.no_grad(), fake_tensors[0].fake_mode, no_guards:
            return make_fx(compute_used_results)(*fake_tensors)
    except Exception as error:  # user functions may raise anything
        raise UnsupportedCase(
            "the score or mask function of flex_attention cannot be traced over all scores: "
            f"{type(error).__name__}: {error}"
        ) from error


def mask_of_onnx(graph: Graph, mask: Result | None, sizes: SymInts) -> Result | None:
    """Return ``mask`` in the form that ONNX's Attention needs, or None without a mask.

    ``sizes`` are the numbers of queries and keys. ONNX Runtime's kernel does not broadcast the
    mask, so it is expanded. The kernel treats a row of the lowest finite number like a row of -inf,
    so the lowest number is replaced by the next larger one.
    """
    if mask is None:
        return None
    leading = list(shape_of(graph, mask))[:-2]
    return expanded(graph, above_lowest(graph, mask), [*leading, *sizes])


def padded_sums(graph: Graph, sums: Result | None, count: SymInt, wanted: Bool) -> Result | None:
    """Return the logsumexp [B, H, L] in the layout of torch's memory-efficient attention kernel.

    The layout is float32, padded with infinity from ``count`` queries to a multiple of 32. The
    result is empty unless ``wanted``.
    """
    if sums is None:
        return None
    sums = cast(graph, sums, dtypes.float32)
    sizes = shape_of(graph, sums)
    if not wanted:
        return filled(graph, [*sizes[:-1], 0], 0, dtypes.float32)
    padding = -count % 32
    infinities = filled(graph, [*sizes[:-1], padding], np.inf, dtypes.float32)
    return OpBuilder(graph).Concat(sums, infinities, axis=-1)
