"""Attention, rotary embeddings and quantization on tensors of terms, as ONNX defines them.

GroupQueryAttention has no definition here, because only ONNX Runtime's kernel defines it.
`graphs` adds these definitions to those of `operators`.
"""

from __future__ import annotations

import math

import numpy as np

from ortable import dtypes

from .layers import product, softmax
from .operators import (
    Definition,
    Inputs,
    Invalid,
    Node,
    Tensor,
    Unsupported,
    cast,
    const,
    elementwise,
    ints,
    max_term,
    present,
    reduce_axes,
)
from .terms import Table


def _split_heads(x: Tensor, count: int) -> Tensor:
    """Reshape [B, L, heads * size] to [B, heads, L, size]."""
    if count < 1 or len(x.shape) != 3 or x.shape[2] % count:
        raise Invalid("head counts do not match")
    batch, length, width = x.shape
    ids = x.ids.reshape((batch, length, count, width // count)).transpose((0, 2, 1, 3))
    return Tensor(ids, x.dtype)


def _repeat_heads(x: Tensor, count: int) -> Tensor:
    if x.shape[1] == count:
        return x
    if x.shape[1] == 0 or count % x.shape[1]:
        raise Invalid("group counts do not match")
    return Tensor(np.repeat(x.ids, count // x.shape[1], axis=1), x.dtype)


def _attention(table: Table, node: Node, inputs: Inputs) -> Tensor:
    q, k, v, mask, *other_inputs = (*inputs, None, None, None)
    assert q is not None and k is not None and v is not None
    if any(other_inputs) or len([name for name in node.outputs if name]) > 1:
        raise Unsupported("Attention with a past")
    if node.attrs.get("softcap", 0.0) or node.attrs.get("is_causal", 0):
        raise Unsupported("Attention with softcap or is_causal")
    is_flat = len(q.shape) == 3
    if is_flat:
        q = _split_heads(q, int(node.attrs["q_num_heads"]))
        k, v = (_split_heads(tensor, int(node.attrs["kv_num_heads"])) for tensor in (k, v))
    if not len(q.shape) == len(k.shape) == len(v.shape) == 4 or q.shape[0] != k.shape[0]:
        raise Invalid("unexpected ranks")
    k, v = _repeat_heads(k, q.shape[1]), _repeat_heads(v, q.shape[1])
    scale = node.attrs.get("scale")
    factor = 1 / math.sqrt(q.shape[3]) if scale is None and q.shape[3] else float(scale or 1.0)
    scores = product(table, q, Tensor(k.ids.transpose((0, 1, 3, 2)), k.dtype))
    scores = elementwise(table, "Mul", [scores, const(table, factor, q.dtype)], q.dtype)
    if mask is not None:
        shape = scores.shape
        if mask.dtype == dtypes.boolean:
            zero, minus_inf = (const(table, value, q.dtype) for value in (0.0, -math.inf))
            mask = elementwise(table, "Where", [mask, zero, minus_inf], q.dtype)
        scores = elementwise(table, "Add", [scores, mask], q.dtype)
        if scores.shape != shape:
            raise Invalid("the mask broadcasts the scores")
    output = product(table, softmax(table, scores, -1), v)
    if node.target == "onnxruntime" and mask is not None:
        output = _zero_masked_rows(table, output, mask)
    if not is_flat:
        return output
    batch, heads, length, width = output.shape
    return Tensor(
        output.ids.transpose((0, 2, 1, 3)).reshape((batch, length, heads * width)), q.dtype
    )


def _zero_masked_rows(table: Table, x: Tensor, mask: Tensor) -> Tensor:
    """Set rows without a visible key to 0, as ONNX Runtime does; ONNX defines NaN.

    `mask` is the tensor that is added to the scores.
    """
    last = [len(mask.shape) - 1]
    top = reduce_axes(table, mask, last, True, lambda row: max_term(table, row, mask.dtype))
    hidden = elementwise(table, "Equal", [top, const(table, -math.inf, mask.dtype)], dtypes.boolean)
    return elementwise(table, "Where", [hidden, const(table, 0.0, x.dtype), x], x.dtype)


def _apply_rotary(table: Table, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    first, second = (Tensor(part, x.dtype) for part in (x.ids[..., :half], x.ids[..., half:]))

    def apply(op: str, *tensors: Tensor) -> Tensor:
        return elementwise(table, op, tensors, x.dtype)

    real = apply("Sub", apply("Mul", cos, first), apply("Mul", sin, second))
    imaginary = apply("Add", apply("Mul", sin, first), apply("Mul", cos, second))
    return Tensor(np.concatenate([real.ids, imaginary.ids], axis=-1), x.dtype)


def _rotary(table: Table, node: Node, inputs: Inputs) -> Tensor:
    x, cos, sin, positions = (*inputs, None)[:4]
    assert x is not None and cos is not None and sin is not None
    if positions is not None or node.attrs.get("interleaved", 0) or len(x.shape) != 4:
        raise Unsupported("this form of RotaryEmbedding")
    expected_shape = (x.shape[0], x.shape[2], x.shape[3] // 2)
    if cos.shape != expected_shape or sin.shape != expected_shape or x.shape[3] % 2:
        raise Invalid("the tables have the wrong sizes")
    return _apply_rotary(table, x, *(Tensor(angles.ids[:, None], x.dtype) for angles in (cos, sin)))


def _ort_rotary(table: Table, node: Node, inputs: Inputs) -> Tensor:
    x, positions, cos, sin = present(inputs)
    start = ints(table, positions)
    if len(start) != 1 or len(x.shape) != 4 or len(node.attrs) > 0:
        raise Unsupported("this form of RotaryEmbedding")
    length = x.shape[2]
    if cos.shape != sin.shape or cos.shape[0] < start[0] + length or x.shape[3] % 2:
        raise Invalid("the tables have the wrong sizes")
    tables = [Tensor(t.ids[start[0] : start[0] + length], x.dtype) for t in (cos, sin)]
    if tables[0].shape[1] != x.shape[3] // 2:
        raise Invalid("the tables have the wrong sizes")
    return _apply_rotary(table, x, *tables)


def _dequantize(table: Table, node: Node, inputs: Inputs) -> Tensor:
    x, scale, zero = (*inputs, None)[:3]
    assert x is not None and scale is not None
    if scale.shape:
        raise Unsupported("scales of channels")
    result = cast(table, x, dtypes.int32)
    if zero is not None:
        result = elementwise(table, "Sub", [result, cast(table, zero, dtypes.int32)], dtypes.int32)
    return elementwise(table, "Mul", [cast(table, result, scale.dtype), scale], scale.dtype)


def _quantize(table: Table, node: Node, inputs: Inputs) -> Tensor:
    x, scale, zero = (*inputs, None)[:3]
    assert x is not None and scale is not None
    if scale.shape or zero is None:
        raise Unsupported("scales of channels")
    quotient = elementwise(table, "Div", [x, scale], x.dtype)
    rounded = elementwise(table, "Rint", [quotient], x.dtype)
    shifted = elementwise(table, "Add", [rounded, cast(table, zero, x.dtype)], x.dtype)
    bounds = np.iinfo(dtypes.to_numpy(zero.dtype))
    low, high = (const(table, float(bound), x.dtype) for bound in (bounds.min, bounds.max))
    clamped = elementwise(table, "Max", [shifted, low], x.dtype)
    clamped = elementwise(table, "Min", [clamped, high], x.dtype)
    return cast(table, clamped, zero.dtype)


FUSED: dict[str, Definition] = {
    "Attention": _attention, "RotaryEmbedding": _rotary,
    "com.microsoft::RotaryEmbedding": _ort_rotary, "DequantizeLinear": _dequantize,
    "QuantizeLinear": _quantize,
}  # fmt: skip
