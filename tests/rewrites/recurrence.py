"""ONNX Runtime's linear attention and causal convolution on tensors of terms, as its documentation
defines them: one state for each head, changed place by place; channels by themselves, each place of
those before it. Added to the operators that `graphs` knows."""

from __future__ import annotations

import numpy as np

from .layers import product
from .operators import (
    Definition,
    Given,
    Invalid,
    Node,
    Tensor,
    Unsupported,
    elementwise,
    made,
    total,
)
from .terms import Table


def _linear_attention(table: Table, node: Node, inputs: Given) -> list[Tensor]:
    """[B, L, H * V] of rows [B, L, H * K], [B, L, H * V], and the last state [B, H, K, V]."""
    q, k, v, state, decay, rate = (*inputs, None, None, None)[:6]
    assert q is not None and k is not None and v is not None
    heads, rule = int(node.attrs["kv_num_heads"]), node.attrs["update_rule"]
    rule = rule.decode() if isinstance(rule, bytes) else rule
    if node.attrs["q_num_heads"] != heads or node.attrs.get("scale") != 1.0 or state is None:
        raise Unsupported("groups of queries, a scale, or no state")
    if ("gated" in rule) != (decay is not None) or ("delta" in rule) != (rate is not None):
        raise Invalid("decay or rate of another rule")
    rows = [None if each is None else _heads(each, heads) for each in (q, k, v, decay, rate)]
    read = []
    for place in range(q.shape[1]):
        parts = [None if x is None else Tensor(x.ids[:, :, place], x.dtype) for x in rows]
        state = _next(table, state, *parts[1:])
        assert parts[0] is not None
        read.append(product(table, Tensor(parts[0].ids[:, :, None], q.dtype), state).ids[:, :, 0])
    shape = (v.shape[0], q.shape[1], v.shape[2])
    ids = np.stack(read, axis=1).reshape(shape) if read else np.zeros(shape, dtype=np.int64)
    return [Tensor(ids, q.dtype), state]


def _next(
    table: Table,
    state: Tensor,
    key: Tensor | None,
    value: Tensor | None,
    decay: Tensor | None,
    rate: Tensor | None,
) -> Tensor:
    """The state after a place; the others are [B, H, size] of that place."""
    assert key is not None and value is not None

    def ids(op: str, *tensors: Tensor) -> Tensor:
        return elementwise(table, op, tensors, state.dtype)

    if decay is not None:
        state = ids("Mul", state, ids("Exp", Tensor(decay.ids[..., None], decay.dtype)))
    value = Tensor(value.ids[:, :, None], value.dtype)
    if rate is not None:
        memory = product(table, Tensor(key.ids[:, :, None], key.dtype), state)
        value = ids("Mul", ids("Sub", value, memory), Tensor(rate.ids[:, :, None], rate.dtype))
    return ids("Add", state, ids("Mul", Tensor(key.ids[..., None], key.dtype), value))


def _heads(x: Tensor, count: int) -> Tensor:
    """Rows of all heads as heads of rows, [B, H, L, size]."""
    if len(x.shape) != 3 or x.shape[2] % count:
        raise Invalid("heads")
    batch, length, width = x.shape
    ids = x.ids.reshape((batch, length, count, width // count)).transpose((0, 2, 1, 3))
    return Tensor(ids, x.dtype)


def _causal_conv(table: Table, node: Node, inputs: Given) -> list[Tensor]:
    """[B, C, L] of [B, C, L], and the places that the next call needs, [B, C, K - 1]."""
    x, weight, bias, past = (*inputs, None, None)[:4]
    assert x is not None and weight is not None
    batch, channels, length = x.shape
    if set(node.attrs) or weight.shape[:2] != (channels, 1):
        raise Unsupported("a convolution of another form")
    width = weight.shape[2]
    before = (batch, channels, width - 1)
    start = made(table, np.zeros(before), x.dtype) if past is None else past
    if start.shape != before:
        raise Invalid("a state of another size")
    places = np.concatenate([start.ids, x.ids], axis=2)
    ids = np.zeros(x.shape, dtype=np.int64)
    for b, c, place in np.ndindex(ids.shape):
        pairs = zip(places[b, c, place : place + width].tolist(), weight.ids[c, 0], strict=True)
        terms = [table.make("Mul", pair, x.dtype) for pair in pairs]
        if bias is not None:  # the kernel begins with it
            terms.insert(0, int(bias.ids[c]))
        ids[b, c, place] = total(table, terms, x.dtype)
    return [Tensor(ids, x.dtype), Tensor(places[:, :, length:], x.dtype)]


RECURRENT: dict[str, Definition] = {
    "com.microsoft::CausalConvWithState": _causal_conv,
    "com.microsoft::LinearAttention": _linear_attention,
}
