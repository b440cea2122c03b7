"""Attention, rotary embeddings and quantization on tensors of terms, by ONNX's definitions. A
kernel of ONNX Runtime that no text defines (GroupQueryAttention) has none. Added to the operators
that `graphs` knows."""

from __future__ import annotations

import math

import numpy as np

from ortable import dtypes

from .layers import product, softmax
from .operators import (
    Definition,
    Given,
    Invalid,
    Node,
    Tensor,
    Unsupported,
    _given,
    cast,
    elementwise,
    ints,
    largest,
    made,
    reduced,
)
from .terms import Table


def _heads(x: Tensor, count: int) -> Tensor:
    """Rows of all heads as heads of rows."""
    if count < 1 or len(x.shape) != 3 or x.shape[2] % count:
        raise Invalid("heads")
    batch, length, width = x.shape
    ids = x.ids.reshape((batch, length, count, width // count)).transpose((0, 2, 1, 3))
    return Tensor(ids, x.dtype)


def _repeated(x: Tensor, count: int) -> Tensor:
    if x.shape[1] == count:
        return x
    if x.shape[1] == 0 or count % x.shape[1]:
        raise Invalid("groups")
    return Tensor(np.repeat(x.ids, count // x.shape[1], axis=1), x.dtype)


def _attention(table: Table, node: Node, inputs: Given) -> Tensor:
    q, k, v, mask, *more = (*inputs, None, None, None)
    assert q is not None and k is not None and v is not None
    if any(more) or len([each for each in node.outputs if each]) > 1:
        raise Unsupported("Attention with a past")
    if node.attrs.get("softcap", 0.0) or node.attrs.get("is_causal", 0):
        raise Unsupported("Attention with a cap, or causal")
    rows = len(q.shape) == 3
    if rows:
        q = _heads(q, int(node.attrs["q_num_heads"]))
        k, v = (_heads(each, int(node.attrs["kv_num_heads"])) for each in (k, v))
    if not len(q.shape) == len(k.shape) == len(v.shape) == 4 or q.shape[0] != k.shape[0]:
        raise Invalid("ranks")
    k, v = _repeated(k, q.shape[1]), _repeated(v, q.shape[1])
    scale = node.attrs.get("scale")
    factor = 1 / math.sqrt(q.shape[3]) if scale is None and q.shape[3] else float(scale or 1.0)
    scores = product(table, q, Tensor(k.ids.transpose((0, 1, 3, 2)), k.dtype))
    scores = elementwise(table, "Mul", [scores, made(table, factor, q.dtype)], q.dtype)
    if mask is not None:
        shape = scores.shape
        if mask.dtype == dtypes.boolean:
            none, hidden = (made(table, each, q.dtype) for each in (0.0, -math.inf))
            mask = elementwise(table, "Where", [mask, none, hidden], q.dtype)
        scores = elementwise(table, "Add", [scores, mask], q.dtype)
        if scores.shape != shape:
            raise Invalid("a mask that is larger")
    found = product(table, softmax(table, scores, -1), v)
    if node.target == "onnxruntime" and mask is not None:
        found = _without_empty_rows(table, found, mask)
    if not rows:
        return found
    batch, heads, length, width = found.shape
    return Tensor(
        found.ids.transpose((0, 2, 1, 3)).reshape((batch, length, heads * width)), q.dtype
    )


def _without_empty_rows(table: Table, x: Tensor, mask: Tensor) -> Tensor:
    """ONNX Runtime's kernel gives 0 where no key is seen; by ONNX's definition it is NaN. ``mask``
    is what is added to the scores."""
    last = [len(mask.shape) - 1]
    top = reduced(table, mask, last, True, lambda row: largest(table, row, mask.dtype))
    hidden = elementwise(table, "Equal", [top, made(table, -math.inf, mask.dtype)], dtypes.boolean)
    return elementwise(table, "Where", [hidden, made(table, 0.0, x.dtype), x], x.dtype)


def _turned(table: Table, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    first, second = (Tensor(each, x.dtype) for each in (x.ids[..., :half], x.ids[..., half:]))

    def ids(op: str, *tensors: Tensor) -> Tensor:
        return elementwise(table, op, tensors, x.dtype)

    real = ids("Sub", ids("Mul", cos, first), ids("Mul", sin, second))
    imaginary = ids("Add", ids("Mul", sin, first), ids("Mul", cos, second))
    return Tensor(np.concatenate([real.ids, imaginary.ids], axis=-1), x.dtype)


def _rotary(table: Table, node: Node, inputs: Given) -> Tensor:
    x, cos, sin, places = (*inputs, None)[:4]
    assert x is not None and cos is not None and sin is not None
    if places is not None or node.attrs.get("interleaved", 0) or len(x.shape) != 4:
        raise Unsupported("RotaryEmbedding of another form")
    wanted = (x.shape[0], x.shape[2], x.shape[3] // 2)
    if cos.shape != wanted or sin.shape != wanted or x.shape[3] % 2:
        raise Invalid("tables of other sizes")
    return _turned(table, x, *(Tensor(each.ids[:, None], x.dtype) for each in (cos, sin)))


def _rotary_of_runtime(table: Table, node: Node, inputs: Given) -> Tensor:
    x, places, cos, sin = _given(inputs)
    first = ints(table, places)
    if len(first) != 1 or len(x.shape) != 4 or len(node.attrs) > 0:
        raise Unsupported("RotaryEmbedding of another form")
    length = x.shape[2]
    if cos.shape != sin.shape or cos.shape[0] < first[0] + length or x.shape[3] % 2:
        raise Invalid("tables of other sizes")
    taken = [Tensor(each.ids[first[0] : first[0] + length], x.dtype) for each in (cos, sin)]
    if taken[0].shape[1] != x.shape[3] // 2:
        raise Invalid("tables of other sizes")
    return _turned(table, x, *taken)


def _dequantize(table: Table, node: Node, inputs: Given) -> Tensor:
    x, scale, zero = (*inputs, None)[:3]
    assert x is not None and scale is not None
    if scale.shape:
        raise Unsupported("scales of channels")
    found = cast(table, x, dtypes.int32)
    if zero is not None:
        found = elementwise(table, "Sub", [found, cast(table, zero, dtypes.int32)], dtypes.int32)
    return elementwise(table, "Mul", [cast(table, found, scale.dtype), scale], scale.dtype)


def _quantize(table: Table, node: Node, inputs: Given) -> Tensor:
    x, scale, zero = (*inputs, None)[:3]
    assert x is not None and scale is not None
    if scale.shape or zero is None:
        raise Unsupported("scales of channels")
    quotient = elementwise(table, "Div", [x, scale], x.dtype)
    whole = elementwise(table, "Rint", [quotient], x.dtype)
    moved = elementwise(table, "Add", [whole, cast(table, zero, x.dtype)], x.dtype)
    bounds = np.iinfo(dtypes.to_numpy(zero.dtype))
    low, high = (made(table, float(each), x.dtype) for each in (bounds.min, bounds.max))
    inside = elementwise(table, "Max", [moved, low], x.dtype)
    inside = elementwise(table, "Min", [inside, high], x.dtype)
    return cast(table, inside, zero.dtype)


FUSED: dict[str, Definition] = {
    "Attention": _attention, "RotaryEmbedding": _rotary,
    "com.microsoft::RotaryEmbedding": _rotary_of_runtime, "DequantizeLinear": _dequantize,
    "QuantizeLinear": _quantize,
}  # fmt: skip
