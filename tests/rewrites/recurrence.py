"""ONNX Runtime's linear attention and causal convolution on tensors of terms.

The definitions follow its documentation; `graphs` adds them to those of `operators`.
"""

from __future__ import annotations

import numpy as np

from .layers import product
from .operators import (
    Definition,
    Inputs,
    Invalid,
    Node,
    Tensor,
    Unsupported,
    const,
    elementwise,
    sum_terms,
)
from .terms import Table


def _linear_attention(table: Table, node: Node, inputs: Inputs) -> list[Tensor]:
    """Return the output [B, L, H * V] and the final state [B, H, K, V]."""
    q, k, v, state, decay, rate = (*inputs, None, None, None)[:6]
    assert q is not None and k is not None and v is not None
    heads, rule = int(node.attrs["kv_num_heads"]), node.attrs["update_rule"]
    rule = rule.decode() if isinstance(rule, bytes) else rule
    if node.attrs["q_num_heads"] != heads or node.attrs.get("scale") != 1.0 or state is None:
        raise Unsupported("grouped queries, a scale, or no initial state")
    if ("gated" in rule) != (decay is not None) or ("delta" in rule) != (rate is not None):
        raise Invalid("decay or rate do not match the update rule")
    rows = [None if t is None else _split_heads(t, heads) for t in (q, k, v, decay, rate)]
    out = []
    for index in range(q.shape[1]):
        parts = [None if x is None else Tensor(x.ids[:, :, index], x.dtype) for x in rows]
        state = _update_state(table, state, *parts[1:])
        assert parts[0] is not None
        out.append(product(table, Tensor(parts[0].ids[:, :, None], q.dtype), state).ids[:, :, 0])
    shape = (v.shape[0], q.shape[1], v.shape[2])
    ids = np.stack(out, axis=1).reshape(shape) if out else np.zeros(shape, dtype=np.int64)
    return [Tensor(ids, q.dtype), state]


def _update_state(
    table: Table,
    state: Tensor,
    key: Tensor | None,
    value: Tensor | None,
    decay: Tensor | None,
    rate: Tensor | None,
) -> Tensor:
    """Return the state after a step; the other tensors are [B, H, size] of that step."""
    assert key is not None and value is not None

    def apply(op: str, *tensors: Tensor) -> Tensor:
        return elementwise(table, op, tensors, state.dtype)

    if decay is not None:
        state = apply("Mul", state, apply("Exp", Tensor(decay.ids[..., None], decay.dtype)))
    value = Tensor(value.ids[:, :, None], value.dtype)
    if rate is not None:
        memory = product(table, Tensor(key.ids[:, :, None], key.dtype), state)
        value = apply("Mul", apply("Sub", value, memory), Tensor(rate.ids[:, :, None], rate.dtype))
    return apply("Add", state, apply("Mul", Tensor(key.ids[..., None], key.dtype), value))


def _split_heads(x: Tensor, count: int) -> Tensor:
    """Reshape [B, L, heads * size] to [B, heads, L, size]."""
    if len(x.shape) != 3 or x.shape[2] % count:
        raise Invalid("head counts do not match")
    batch, length, width = x.shape
    ids = x.ids.reshape((batch, length, count, width // count)).transpose((0, 2, 1, 3))
    return Tensor(ids, x.dtype)


def _causal_conv(table: Table, node: Node, inputs: Inputs) -> list[Tensor]:
    """Return the output [B, C, L] and the state of the next call, [B, C, K - 1]."""
    x, weight, bias, past = (*inputs, None, None)[:4]
    assert x is not None and weight is not None
    batch, channels, length = x.shape
    if set(node.attrs) or weight.shape[:2] != (channels, 1):
        raise Unsupported("this form of CausalConvWithState")
    width = weight.shape[2]
    state_shape = (batch, channels, width - 1)
    state = const(table, np.zeros(state_shape), x.dtype) if past is None else past
    if state.shape != state_shape:
        raise Invalid("the state has the wrong size")
    padded = np.concatenate([state.ids, x.ids], axis=2)
    ids = np.zeros(x.shape, dtype=np.int64)
    for b, c, index in np.ndindex(ids.shape):
        pairs = zip(padded[b, c, index : index + width].tolist(), weight.ids[c, 0], strict=True)
        products = [table.make("Mul", pair, x.dtype) for pair in pairs]
        if bias is not None:  # the kernel adds the bias first
            products.insert(0, int(bias.ids[c]))
        ids[b, c, index] = sum_terms(table, products, x.dtype)
    return [Tensor(ids, x.dtype), Tensor(padded[:, :, length:], x.dtype)]


RECURRENT: dict[str, Definition] = {
    "com.microsoft::CausalConvWithState": _causal_conv,
    "com.microsoft::LinearAttention": _linear_attention,
}
