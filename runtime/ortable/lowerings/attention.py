"""Attention: scaled dot product attention and torch's fused transformer operators, the gradient
(from the logarithm of the sums that the forward kept), and flex_attention, whose functions of
single scores are traced over all of them.
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
    """aten::_scaled_dot_product_flash_attention_for_cpu_backward: gradients of query [B, H, L, D],
    of key and value [B, G, S, D], where H / G neighbouring heads share one of theirs.

    With P = exp(scores - logsumexp): dV = Pt dO, dP = dO Vt, dS = P (dP - sum(dO out)), dQ = dS K,
    dK = dSt Q (Dao et al., FlashAttention, 2022, appendix B). Heads that share keys are rows of one
    head here, so the products with Pt and dSt are their sums over the group.
    """
    op = OpBuilder(graph)
    compute_dtype = opmath_dtype(dtype_of(graph, query))
    width, heads, groups = (dim_of(graph, *at) for at in ((query, -1), (query, 1), (key, 1)))
    grad, q, k, v, o = (cast(graph, x, compute_dtype) for x in (grad_out, query, key, value, out))
    sizes = [dim_of(graph, query, -2), dim_of(graph, key, -2)]
    products = grouped_product(graph, q, permuted(graph, k, _TRANSPOSED))
    scores = attention_scaled(graph, products, scale, width)
    masked = attention_mask(graph, scores, attn_mask, is_causal, sizes)
    sums = unsqueezed(graph, cast(graph, logsumexp, compute_dtype), [3])
    weights = op.Exp(op.Sub(masked, sums))
    weights, grad, q, o = (regroup_heads(graph, x, groups) for x in (weights, grad, q, o))
    grad_value = op.MatMul(permuted(graph, weights, _TRANSPOSED), grad)
    from_value = op.MatMul(grad, permuted(graph, v, _TRANSPOSED))
    last = consts(graph, [3], dtypes.int64)
    shared = op.ReduceSum(op.Mul(grad, o), last, keepdims=1)
    grad_scores = op.Mul(weights, op.Sub(from_value, shared))
    grad_scores = attention_scaled(graph, grad_scores, scale, width)
    grad_query = regroup_heads(graph, op.MatMul(grad_scores, k), heads)
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
    """aten::_scaled_dot_product_flash_attention_backward: as on the CPU, without a mask."""
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
    """aten::_scaled_dot_product_cudnn_attention_backward: the sums are [B, H, L, 1] there."""
    sums = logsumexp
    if rank_of(graph, sums) == 4:
        sums = OpBuilder(graph).Squeeze(sums, consts(graph, [3], dtypes.int64))
    tensors = grad_out, query, key, value, out, sums
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
    """aten::_scaled_dot_product_efficient_attention_backward, without the gradient of the bias: the
    sums are padded there, see `padded_sums`."""
    first, axis = (consts(graph, [index], dtypes.int64) for index in (0, 2))
    count = as_vec(graph, [dim_of(graph, query, 2)])
    sums = OpBuilder(graph).Slice(logsumexp, first, count, axis)
    sums = reshape_to(graph, sums, shape_of(graph, query)[:3])
    tensors = grad_out_, query, key, value, out, sums
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
    """Attention of query, key, value [N, L, E] through one weight [3 E, E] and bias [3 E].

    ``mask`` is True, or any number but 0, for masked positions: [L, S] for type 0, [N, S] for 1,
    [N, H, L, S] for 2. Returns the joined heads [N, L, E] and the weights [N, H, L, S]; a row whose
    positions are all masked is NaN, as in torch.

    Raises:
        UnsupportedCase: the mask has no type.
    """
    parts = [_project_heads(graph, x, index, heads, weight, bias) for index, x in enumerate(inputs)]
    query, key, value = parts
    op, dtype = OpBuilder(graph), graph.get_type(inputs[0])
    size = int(static(dim_of(graph, weight, 1))) // heads
    scores = op.MatMul(query, permuted(graph, key, [0, 1, 3, 2]))
    scores = op.Mul(scores, const(graph, size**-0.5, dtype))
    if mask is not None:
        if mask_type not in (0, 1, 2):
            raise UnsupportedCase("a mask without a type")
        mask = cast(graph, mask, dtypes.boolean)
        wide = unsqueezed(graph, mask, [1, 2]) if mask_type == 1 else mask
        scores = op.Where(wide, -float("inf"), scores)
    probs = op.Softmax(scores, axis=-1)
    joined = permuted(graph, op.MatMul(probs, value), [0, 2, 1, 3])
    shape = [dim_of(graph, inputs[0], 0), dim_of(graph, inputs[0], 1), size * heads]
    return [reshape_to(graph, joined, shape), probs]


def layer_normalized(graph: Graph, x: Result, weight: Result, bias: Result, eps: Float) -> Result:
    """Layer normalization over the last axis, for float16 and bfloat16 through float32. For float64
    it is decomposed: the epsilon of LayerNormalization is a float32.
    """
    dtype = graph.get_type(x)
    if dtype == dtypes.float64:
        op, last = OpBuilder(graph), [rank_of(graph, x) - 1]
        away = op.Sub(x, mean_over(graph, x, last, True))
        variance = mean_over(graph, op.Mul(away, away), last, True)
        spread = op.Sqrt(op.Add(variance, const(graph, eps, dtype)))
        return op.Add(op.Mul(op.Div(away, spread), weight), bias)
    compute_dtype = opmath_dtype(dtype)
    parts = [cast(graph, tensor, compute_dtype) for tensor in (x, weight, bias)]
    return cast(graph, graph.make_node("LayerNormalization", parts, epsilon=eps), dtype)


def _project_heads(graph: Graph, x: str, index: int, heads: int, weight: str, bias: str) -> str:
    """Project [N, L, E] through the ``index``-th third of the packed weight: [N, H, L, E / H]."""
    op = OpBuilder(graph)
    embedding = int(static(dim_of(graph, weight, 1)))
    ends = [consts(graph, [(index + offset) * embedding], dtypes.int64) for offset in (0, 1)]
    axis = consts(graph, [0], dtypes.int64)
    matrix = op.Slice(weight, *ends, axis)
    shift = op.Slice(bias, *ends, axis)
    product = op.MatMul(x, permuted(graph, matrix, [1, 0]))
    result = op.Add(product, shift)
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
    """The attention, the logarithm of the sums (base 2) and the largest scores; None for unused
    results.

    The blocks of the mask only save time: its function says what is masked.

    Raises:
        UnsupportedCase: torch cannot trace the functions.
    """
    node: Any = graph.origin
    traced = _trace_scores(node, score_mod, block_mask[-1], scale)
    operands = [query, key, value, *score_mod_other_buffers, *mask_mod_other_buffers]
    result = iter(graph.ctx.convert_into(graph, traced, operands))
    used = _used_results(node)
    return [next(result) if index in used else None for index in range(3)]


def _used_results(node: Node) -> set[int]:
    """The indices of a node's results that have users."""
    return {int(user.args[1]) for user in node.users if user.users}  # type: ignore[arg-type]


def _trace_scores(node: Node, score_mod: Any, mask_mod: Any, scale: float) -> GraphModule:
    import torch

    from ortable.compat.torch import make_fx, math_attention

    buffers = [tuple(buffer) for buffer in (*node.args[7:], (), ())[:2]]  # type: ignore[arg-type]
    split = len(buffers[0])
    used = sorted(_used_results(node))

    def written_out(query: Any, key: Any, value: Any, *others: Any) -> list[Any]:
        results = math_attention(
            query, key, value, score_mod, (mask_mod,), scale, {}, others[:split], others[split:]
        )
        return [results[index] for index in used]

    fakes = [argument.meta["val"] for argument in (*node.args[:3], *buffers[0], *buffers[1])]  # type: ignore[union-attr]
    environment = getattr(fakes[0].fake_mode, "shape_env", None)
    quiet = environment.suppress_guards() if environment is not None else contextlib.nullcontext()
    try:
        with torch.no_grad(), fakes[0].fake_mode, quiet:
            return make_fx(written_out)(*fakes)
    except Exception as error:  # the functions are the user's
        raise UnsupportedCase(
            "the score or mask function of flex_attention cannot be traced over all scores: "
            f"{type(error).__name__}: {error}"
        ) from error


def mask_of_onnx(graph: Graph, mask: Result | None, sizes: SymInts) -> Result | None:
    """The mask of ONNX's Attention at ``sizes``, the numbers of queries and keys: ONNX Runtime's
    kernel does not broadcast it, and treats a row of the lowest number like one of -inf, so that
    becomes the next number.
    """
    if mask is None:
        return None
    leading = list(shape_of(graph, mask))[:-2]
    return expanded(graph, above_lowest(graph, mask), [*leading, *sizes])


def padded_sums(graph: Graph, sums: Result | None, count: SymInt, wanted: Bool) -> Result | None:
    """The logarithms of sums [B, H, L] as torch's memory-efficient kernel stores them: float32,
    infinite after the ``count`` queries up to a multiple of 32; empty unless ``wanted``.
    """
    if sums is None:
        return None
    sums = cast(graph, sums, dtypes.float32)
    sizes = shape_of(graph, sums)
    if not wanted:
        return filled(graph, [*sizes[:-1], 0], 0, dtypes.float32)
    missing = -count % 32
    infinite = filled(graph, [*sizes[:-1], missing], np.inf, dtypes.float32)
    return OpBuilder(graph).Concat(sums, infinite, axis=-1)
