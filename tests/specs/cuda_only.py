"""CPU kernels in float64 for operators that torch has only for CUDA, to check sample calls."""

from __future__ import annotations

import math
from typing import Any

import torch

_LIBRARY = torch.library.Library("aten", "IMPL")
Tensor = torch.Tensor


def _kernel(function: Any) -> Any:
    """Register a function for the operator in its name and annotation."""
    name = function.__name__.replace("__dtype", ".dtype")
    _LIBRARY.impl(name, function, "CPU")
    return function


@_kernel
def mm__dtype(left: Tensor, right: Tensor, out_dtype: torch.dtype) -> Tensor:
    return (left.double() @ right.double()).to(out_dtype)


@_kernel
def bmm__dtype(left: Tensor, right: Tensor, out_dtype: torch.dtype) -> Tensor:
    return (left.double() @ right.double()).to(out_dtype)


def _addmm(
    bias: Tensor, left: Tensor, right: Tensor, out_dtype: torch.dtype, *, beta: Any = 1,
    alpha: Any = 1,
) -> Tensor:  # fmt: skip
    product = alpha * (left.double() @ right.double())
    return (product if beta == 0 else beta * bias.double() + product).to(out_dtype)


_LIBRARY.impl("addmm.dtype", _addmm, "CPU")
# torch has a CPU kernel for this operator, but cannot trace it
_LIBRARY.impl(
    "_masked_softmax", lambda x, mask, dim=None, mask_type=None: x.new_empty(x.shape), "Meta"
)


def _attention(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, is_causal: bool,
    scale: float | None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return the result, and the logarithm of the sums of exponentials, [B, H, L]."""
    heads_per_key = query.shape[1] // key.shape[1]
    q, k, v = (x.double() for x in (query, key, value))
    k, v = (x.repeat_interleave(heads_per_key, 1) for x in (k, v))
    factor = scale if scale is not None else 1 / math.sqrt(query.shape[-1])
    scores = q @ k.transpose(-1, -2) * factor
    if is_causal:
        scores = scores.masked_fill(torch.ones_like(scores).tril() == 0, -math.inf)
    if bias is not None:
        scores = scores + bias
    return (scores.softmax(-1) @ v).to(query.dtype), scores.logsumexp(-1).float()


@_kernel
def _scaled_dot_product_flash_attention(
    query: Tensor, key: Tensor, value: Tensor, dropout_p: float = 0.0, is_causal: bool = False,
    return_debug_mask: bool = False, *, scale: float | None = None,
) -> Any:  # fmt: skip
    assert dropout_p == 0 and not return_debug_mask
    output, sums = _attention(query, key, value, None, is_causal, scale)
    none = torch.empty(0, dtype=torch.int32)
    seed = torch.zeros(2, dtype=torch.uint64)
    counts = query.shape[2], key.shape[2]
    return output, sums, none, none, *counts, seed, seed[0], query.new_empty(0)


@_kernel
def _scaled_dot_product_cudnn_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_bias: Tensor | None, compute_log_sumexp: bool,
    dropout_p: float = 0.0, is_causal: bool = False, return_debug_mask: bool = False, *,
    scale: float | None = None,
) -> Any:  # fmt: skip
    assert dropout_p == 0 and not return_debug_mask
    output, sums = _attention(query, key, value, attn_bias, is_causal, scale)
    none, seed = torch.empty(0, dtype=torch.int64), torch.tensor(0)
    counts = query.shape[2], key.shape[2]
    return output, sums[..., None], none, none, *counts, seed, seed, query.new_empty(0)


@_kernel
def _scaled_dot_product_efficient_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_bias: Tensor | None, compute_log_sumexp: bool,
    dropout_p: float = 0.0, is_causal: bool = False, *, scale: float | None = None,
) -> Any:  # fmt: skip
    assert dropout_p == 0
    output, sums = _attention(query, key, value, attn_bias, is_causal, scale)
    missing = -query.shape[2] % 32
    padded = torch.nn.functional.pad(sums, (0, missing), value=math.inf)
    seed = torch.tensor(0)
    return output, padded if compute_log_sumexp else padded[..., :0], seed, seed


def _gradients(
    grad: Tensor, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, out: Tensor,
    sums: Tensor, is_causal: bool, scale: float | None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Return the gradients of query, key and value, from the logarithm of the sums [B, H, L]."""
    heads_per_key = query.shape[1] // key.shape[1]
    q, k, v, g, o = (x.double() for x in (query, key, value, grad, out))
    k, v = (x.repeat_interleave(heads_per_key, 1) for x in (k, v))
    factor = scale if scale is not None else 1 / math.sqrt(query.shape[-1])
    scores = q @ k.transpose(-1, -2) * factor + (0 if bias is None else bias)
    if is_causal:
        scores = scores.masked_fill(torch.ones_like(scores).tril() == 0, -math.inf)
    weights = (scores - sums.double()[..., None]).exp()
    inner = weights * (g @ v.transpose(-1, -2) - (g * o).sum(-1, keepdim=True)) * factor
    summed = [
        x.unflatten(1, (-1, heads_per_key)).sum(2)
        for x in (inner.transpose(-1, -2) @ q, weights.transpose(-1, -2) @ g)
    ]
    return (inner @ k).to(query.dtype), summed[0].to(key.dtype), summed[1].to(value.dtype)


@_kernel
def _scaled_dot_product_flash_attention_backward(
    grad_out: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor, logsumexp: Tensor,
    cum_seq_q: Tensor, cum_seq_k: Tensor, max_q: int, max_k: int, dropout_p: float,
    is_causal: bool, philox_seed: Tensor, philox_offset: Tensor, *, scale: float | None = None,
) -> Any:  # fmt: skip
    arguments = grad_out, query, key, value, None, out, logsumexp
    return _gradients(*arguments, is_causal, scale)


@_kernel
def _scaled_dot_product_cudnn_attention_backward(
    grad_out: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor, logsumexp: Tensor,
    philox_seed: Tensor, philox_offset: Tensor, attn_bias: Tensor | None, cum_seq_q: Tensor,
    cum_seq_k: Tensor, max_q: int, max_k: int, dropout_p: float, is_causal: bool, *,
    scale: float | None = None,
) -> Any:  # fmt: skip
    arguments = grad_out, query, key, value, attn_bias, out, logsumexp.reshape(query.shape[:3])
    return _gradients(*arguments, is_causal, scale)


@_kernel
def _scaled_dot_product_efficient_attention_backward(
    grad_out_: Tensor, query: Tensor, key: Tensor, value: Tensor, attn_bias: Tensor | None,
    out: Tensor, logsumexp: Tensor, philox_seed: Tensor, philox_offset: Tensor, dropout_p: float,
    grad_input_mask: list[bool], is_causal: bool = False, *, scale: float | None = None,
) -> Any:  # fmt: skip
    arguments = grad_out_, query, key, value, attn_bias, out, logsumexp[..., : query.shape[2]]
    return (*_gradients(*arguments, is_causal, scale), query.new_empty(0))


def _add_bias(gates: Tensor, bias: Tensor | None) -> Tensor:
    return gates.double() if bias is None else gates.double() + bias.double()


@_kernel
def _thnn_fused_lstm_cell(
    input_gates: Tensor, hidden_gates: Tensor, cx: Tensor, input_bias: Tensor | None = None,
    hidden_bias: Tensor | None = None,
) -> Any:  # fmt: skip
    gates = _add_bias(input_gates, input_bias) + _add_bias(hidden_gates, hidden_bias)
    i, f, g, o = gates.chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    cell = f * cx.double() + i * g
    results = o * cell.tanh(), cell, torch.cat([i, f, g, o], 1)
    return tuple(x.to(cx.dtype) for x in results)


@_kernel
def _thnn_fused_gru_cell(
    input_gates: Tensor, hidden_gates: Tensor, hx: Tensor, input_bias: Tensor | None = None,
    hidden_bias: Tensor | None = None,
) -> Any:  # fmt: skip
    input_parts = _add_bias(input_gates, input_bias).chunk(3, 1)
    hidden_parts = _add_bias(hidden_gates, hidden_bias).chunk(3, 1)
    reset, update = (
        (input_parts[0] + hidden_parts[0]).sigmoid(),
        (input_parts[1] + hidden_parts[1]).sigmoid(),
    )
    new = (input_parts[2] + reset * hidden_parts[2]).tanh()
    result = new + update * (hx.double() - new)
    workspace = torch.cat([reset, update, new, hx.double(), hidden_parts[2]], 1)
    return result.to(hx.dtype), workspace.to(hx.dtype)


_LIBRARY.impl(
    "_thnn_fused_gru_cell",
    lambda gates, hidden_gates, hx, *biases: (
        hx.new_empty(hx.shape),
        hx.new_empty(hx.shape[0], 5 * hx.shape[1]),
    ),
    "Meta",
)
