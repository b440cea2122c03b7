"""Matrix products, convolutions, pools and normalizations on tensors of terms.

`graphs` adds these definitions to those of `operators`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np

from .operators import (
    MAX_ELEMENTS,
    Definition,
    Inputs,
    Invalid,
    Node,
    Tensor,
    Unsupported,
    axis_index,
    const,
    elementwise,
    max_term,
    mean_term,
    pad,
    present,
    reduce_axes,
    sum_terms,
)
from .terms import Table


def product(table: Table, a: Tensor, b: Tensor) -> Tensor:
    """Return the matrix product, with broadcasting."""
    if not a.shape or not b.shape:
        raise Invalid("MatMul of a scalar")
    left = a.ids[None, :] if len(a.shape) == 1 else a.ids
    right = b.ids[:, None] if len(b.shape) == 1 else b.ids
    if left.shape[-1] != right.shape[-2]:
        raise Invalid("inner sizes of a product differ")
    try:
        batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    except ValueError as error:
        raise Invalid(str(error)) from None
    left = np.broadcast_to(left, (*batch, *left.shape[-2:]))
    right = np.broadcast_to(right, (*batch, *right.shape[-2:]))
    result = np.zeros((*batch, left.shape[-2], right.shape[-1]), dtype=np.int64)
    if result.size > MAX_ELEMENTS:
        raise Unsupported("too many elements")
    for index in np.ndindex(result.shape):
        row = left[(*index[:-2], index[-2])].tolist()
        column = right[(*index[:-2], slice(None), index[-1])].tolist()
        products = [table.make("Mul", pair, a.dtype) for pair in zip(row, column, strict=True)]
        result[index] = sum_terms(table, products, a.dtype)
    if len(a.shape) == 1:
        result = result[..., 0, :]
    if len(b.shape) == 1:
        result = result[..., 0]
    return Tensor(result, a.dtype)


def _matmul(table: Table, node: Node, inputs: Inputs) -> Tensor:
    a, b = present(inputs)
    return product(table, a, b)


def _scalar(table: Table, value: float, like: Tensor) -> Tensor:
    return const(table, float(value), like.dtype)


def _gemm(table: Table, node: Node, inputs: Inputs) -> Tensor:
    a, b, c = (*inputs, None)[:3]
    assert a is not None and b is not None
    if len(a.shape) != 2 or len(b.shape) != 2:
        raise Invalid("Gemm inputs must have rank 2")
    a = Tensor(a.ids.T, a.dtype) if node.attrs.get("transA", 0) else a
    b = Tensor(b.ids.T, b.dtype) if node.attrs.get("transB", 0) else b
    result = product(table, a, b)
    alpha, beta = float(node.attrs.get("alpha", 1.0)), float(node.attrs.get("beta", 1.0))
    if alpha != 1.0:
        result = elementwise(table, "Mul", [result, _scalar(table, alpha, a)], a.dtype)
    if c is None or beta == 0.0:
        return result
    if beta != 1.0:
        c = elementwise(table, "Mul", [c, _scalar(table, beta, a)], a.dtype)
    try:
        broadcast = np.broadcast_to(c.ids, result.shape)
    except ValueError as error:
        raise Invalid(str(error)) from None
    return elementwise(table, "Add", [result, Tensor(broadcast, c.dtype)], a.dtype)


def _ints(node: Node, name: str, count: int, default: int) -> list[int]:
    values = node.attrs.get(name)
    return [default] * count if values is None else [int(value) for value in values]


def _check_explicit_padding(node: Node) -> None:
    auto = node.attrs.get("auto_pad", "NOTSET")
    if auto not in ("NOTSET", b"NOTSET"):
        raise Unsupported("auto_pad")


def _conv(table: Table, node: Node, inputs: Inputs) -> Tensor:
    x, w, b = (*inputs, None)[:3]
    assert x is not None and w is not None
    _check_explicit_padding(node)
    n, group = len(x.shape) - 2, int(node.attrs.get("group", 1))
    channels, out_channels = w.shape[1], w.shape[0]
    strides, dilations = _ints(node, "strides", n, 1), _ints(node, "dilations", n, 1)
    pads = _ints(node, "pads", 2 * n, 0)
    if n < 1 or x.shape[1] != channels * group or out_channels % group or out_channels == 0:
        raise Invalid("channel counts do not match")
    if 0 in w.shape or min(pads) < 0:
        raise Invalid("Conv with an empty kernel or negative pads")
    zero = table.constant(0, x.dtype)
    padded = pad(table, x, [0, 0, *pads[:n]], [0, 0, *pads[n:]], zero)
    spatial = [
        (size - dilation * (kernel - 1) - 1) // stride + 1
        for size, kernel, stride, dilation in zip(
            padded.shape[2:], w.shape[2:], strides, dilations, strict=True
        )
    ]
    if min(spatial) < 1:
        raise Invalid("the kernel exceeds the input")
    result = np.zeros((x.shape[0], out_channels, *spatial), dtype=np.int64)
    if result.size > MAX_ELEMENTS:
        raise Unsupported("too many elements")
    for index in np.ndindex(result.shape):
        first_channel = index[1] // (out_channels // group) * channels
        products = []
        for channel, *offset in itertools.product(*(range(size) for size in w.shape[1:])):
            position = [p * s + o * d for p, s, o, d in zip(
                index[2:], strides, offset, dilations, strict=True
            )]  # fmt: skip
            pair = [int(padded[(index[0], first_channel + channel, *position)]),
                    int(w.ids[(index[1], channel, *offset)])]  # fmt: skip
            products.append(table.make("Mul", pair, x.dtype))
        result[index] = sum_terms(table, products, x.dtype)
    return _add_bias(table, Tensor(result, x.dtype), b)


def _add_bias(table: Table, x: Tensor, b: Tensor | None) -> Tensor:
    if b is None:
        return x
    if b.shape != (x.shape[1],):
        raise Invalid("the bias has the wrong size")
    per_channel = Tensor(b.ids.reshape((-1, *[1] * (len(x.shape) - 2))), b.dtype)
    return elementwise(table, "Add", [x, per_channel], x.dtype)


def _conv_transpose(table: Table, node: Node, inputs: Inputs) -> Tensor:
    x, w, b = (*inputs, None)[:3]
    assert x is not None and w is not None
    _check_explicit_padding(node)
    n, group = len(x.shape) - 2, int(node.attrs.get("group", 1))
    strides, dilations = _ints(node, "strides", n, 1), _ints(node, "dilations", n, 1)
    pads, extra = _ints(node, "pads", 2 * n, 0), _ints(node, "output_padding", n, 0)
    if n < 1 or 0 in w.shape or 0 in x.shape[1:] or x.shape[1] != w.shape[0]:
        raise Invalid("channel counts do not match")
    if w.shape[0] % group or node.attrs.get("output_shape") is not None:
        raise Invalid("group counts do not match")
    sizes = [
        stride * (size - 1) + padding + dilation * (kernel - 1) + 1 - low - high
        for size, kernel, stride, dilation, padding, low, high in zip(
            x.shape[2:], w.shape[2:], strides, dilations, extra, pads[:n], pads[n:], strict=True
        )
    ]
    if min(sizes) < 1:
        raise Invalid("the result is empty")
    out_channels, group_size = w.shape[1] * group, w.shape[0] // group
    products: dict[tuple[int, ...], list[int]] = {}
    for index in np.ndindex(x.shape):
        group_index = index[1] // group_size
        for out_channel, *offset in itertools.product(*(range(size) for size in w.shape[1:])):
            position = tuple(
                p * s + o * d - low
                for p, s, o, d, low in zip(
                    index[2:], strides, offset, dilations, pads[:n], strict=True
                )
            )
            if all(0 <= a < size for a, size in zip(position, sizes, strict=True)):
                pair = [int(x.ids[index]), int(w.ids[(index[1], out_channel, *offset)])]
                key = (index[0], group_index * w.shape[1] + out_channel, *position)
                products.setdefault(key, []).append(table.make("Mul", pair, x.dtype))
    result = np.zeros((x.shape[0], out_channels, *sizes), dtype=np.int64)
    for index in np.ndindex(result.shape):
        result[index] = sum_terms(table, products.get(index, []), x.dtype)
    return _add_bias(table, Tensor(result, x.dtype), b)


def _pool(node: Node, x: Tensor, join: Callable[[list[int], int], int], fill: int) -> Tensor:
    _check_explicit_padding(node)
    kernel = [int(length) for length in node.attrs["kernel_shape"]]
    n = len(kernel)
    strides, dilations = _ints(node, "strides", n, 1), _ints(node, "dilations", n, 1)
    pads = _ints(node, "pads", 2 * n, 0)
    if len(x.shape) != n + 2 or node.attrs.get("ceil_mode", 0):
        raise Unsupported("pools with ceil_mode")
    if any(p < 0 for p in pads) or 0 in kernel:
        raise Invalid("pool with an empty kernel or negative pads")
    if any(low >= k or high >= k for low, high, k in zip(pads[:n], pads[n:], kernel, strict=True)):
        raise Invalid("pads exceed the window")
    widths = [(0, 0), (0, 0), *zip(pads[:n], pads[n:], strict=True)]
    padded = np.pad(x.ids, widths, constant_values=fill)
    sizes = [
        (size - d * (k - 1) - 1) // s + 1
        for size, k, s, d in zip(padded.shape[2:], kernel, strides, dilations, strict=True)
    ]
    if min(sizes) < 1:
        raise Invalid("the window exceeds the input")
    result = np.zeros((*x.shape[:2], *sizes), dtype=np.int64)
    for index in np.ndindex(result.shape):
        terms = []
        for offset in itertools.product(*(range(k) for k in kernel)):
            position = [p * s + o * d for p, s, o, d in zip(
                index[2:], strides, offset, dilations, strict=True
            )]  # fmt: skip
            terms.append(int(padded[(*index[:2], *position)]))
        result[index] = join(terms, len(terms))
    return Tensor(result, x.dtype)


def _average_pool(table: Table, node: Node, inputs: Inputs) -> Tensor:
    (x,) = present(inputs)
    includes_padding = node.attrs.get("count_include_pad", 0)
    zero = table.constant(0, x.dtype)

    def join(terms: list[int], size: int) -> int:
        inside = [term for term in terms if term != -1]
        if not includes_padding:
            return mean_term(table, inside, x.dtype)
        return mean_term(table, [zero if term == -1 else term for term in terms], x.dtype)

    return _pool(node, x, join, -1)


def _max_pool(table: Table, node: Node, inputs: Inputs) -> Tensor:
    (x,) = present(inputs)
    if len(node.outputs) > 1:
        raise Unsupported("MaxPool with indices")
    return _pool(
        node, x, lambda terms, _: max_term(table, [t for t in terms if t != -1], x.dtype), -1
    )


def softmax(table: Table, x: Tensor, axis: int, logarithm: bool = False) -> Tensor:
    """Return the softmax, with the maximum subtracted before the exponentials."""

    def apply(op: str, *tensors: Tensor) -> Tensor:
        return elementwise(table, op, tensors, x.dtype)

    axes = [axis_index(axis, len(x.shape))]
    maximum = reduce_axes(table, x, axes, True, lambda row: max_term(table, row, x.dtype))
    shifted = apply("Sub", x, maximum)
    power = apply("Exp", shifted)
    total = reduce_axes(table, power, axes, True, lambda row: sum_terms(table, row, x.dtype))
    return apply("Sub", shifted, apply("Log", total)) if logarithm else apply("Div", power, total)


def _softmax(table: Table, node: Node, inputs: Inputs) -> Tensor:
    (x,) = present(inputs)
    if not x.shape:
        raise Invalid("Softmax of a scalar")
    return softmax(table, x, int(node.attrs.get("axis", -1)), node.op == "LogSoftmax")


def _normalize(
    table: Table, x: Tensor, axes: Sequence[int], epsilon: float, centered: bool = True
) -> Tensor:
    def apply(op: str, *tensors: Tensor) -> Tensor:
        return elementwise(table, op, tensors, x.dtype)

    def average(y: Tensor) -> Tensor:
        return reduce_axes(table, y, axes, True, lambda row: mean_term(table, row, x.dtype))

    diff = apply("Sub", x, average(x)) if centered else x
    variance = apply("Add", average(apply("Mul", diff, diff)), _scalar(table, epsilon, x))
    return apply("Div", diff, apply("Sqrt", variance))


def _scale_and_shift(
    table: Table, x: Tensor, scale: Tensor | None, shift: Tensor | None, channels: bool
) -> Tensor:
    for op, factor in (("Mul", scale), ("Add", shift)):
        if factor is not None:
            if channels:
                if factor.shape != (x.shape[1],):
                    raise Invalid("the scale has the wrong size")
                factor = Tensor(factor.ids.reshape((-1, *[1] * (len(x.shape) - 2))), factor.dtype)
            shape = x.shape
            x = elementwise(table, op, [x, factor], x.dtype)
            if x.shape != shape:
                raise Invalid("the scale broadcasts the input")
    return x


def _layer_norm(table: Table, node: Node, inputs: Inputs) -> Tensor:
    x, scale, shift = (*inputs, None)[:3]
    assert x is not None
    axis = axis_index(int(node.attrs.get("axis", -1)), len(x.shape))
    axes = list(range(axis, len(x.shape)))
    epsilon = float(node.attrs.get("epsilon", 1e-5))
    normalized = _normalize(table, x, axes, epsilon, node.op == "LayerNormalization")
    return _scale_and_shift(table, normalized, scale, shift, False)


def _instance_norm(table: Table, node: Node, inputs: Inputs) -> Tensor:
    x, scale, shift = present(inputs)
    if len(x.shape) < 3:
        raise Invalid("unexpected rank")
    axes = list(range(2, len(x.shape)))
    normalized = _normalize(table, x, axes, float(node.attrs.get("epsilon", 1e-5)))
    return _scale_and_shift(table, normalized, scale, shift, True)


def _group_norm(table: Table, node: Node, inputs: Inputs) -> Tensor:
    x, scale, shift = present(inputs)
    groups = int(node.attrs["num_groups"])
    if groups < 1 or x.shape[1] % groups or 0 in x.shape:
        raise Invalid("group counts do not match")
    rows = Tensor(x.ids.reshape((x.shape[0], groups, -1)), x.dtype)
    normal = _normalize(table, rows, [2], float(node.attrs.get("epsilon", 1e-5)))
    return _scale_and_shift(table, Tensor(normal.ids.reshape(x.shape), x.dtype), scale, shift, True)


def _batch_norm(table: Table, node: Node, inputs: Inputs) -> Tensor:
    x, scale, shift, batch_mean, variance = present(inputs)
    if node.attrs.get("training_mode", 0):
        raise Unsupported("training mode")
    if len(x.shape) < 2:
        raise Invalid("unexpected rank")

    def apply(op: str, *tensors: Tensor) -> Tensor:
        return elementwise(table, op, tensors, x.dtype)

    def per_channel(statistic: Tensor) -> Tensor:
        if statistic.shape != (x.shape[1],):
            raise Invalid("a statistic has the wrong size")
        return Tensor(statistic.ids.reshape((-1, *[1] * (len(x.shape) - 2))), statistic.dtype)

    epsilon = _scalar(table, float(node.attrs.get("epsilon", 1e-5)), x)
    root = apply("Sqrt", apply("Add", per_channel(variance), epsilon))
    normalized = apply("Div", apply("Sub", x, per_channel(batch_mean)), root)
    return _scale_and_shift(table, normalized, scale, shift, True)


LAYERS: dict[str, Definition] = {
    "MatMul": _matmul, "Gemm": _gemm, "Conv": _conv, "ConvTranspose": _conv_transpose,
    "AveragePool": _average_pool, "MaxPool": _max_pool, "Softmax": _softmax,
    "LogSoftmax": _softmax, "LayerNormalization": _layer_norm, "RMSNormalization": _layer_norm,
    "InstanceNormalization": _instance_norm, "GroupNormalization": _group_norm,
    "BatchNormalization": _batch_norm,
}  # fmt: skip
