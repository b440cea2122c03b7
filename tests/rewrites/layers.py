"""Products, convolutions, pools and normalizations on tensors of terms, by their definitions: sums
of products, means and square roots. Added to the operators that `graphs` knows."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np

from .operators import (
    LARGEST,
    Definition,
    Given,
    Invalid,
    Node,
    Tensor,
    Unsupported,
    _given,
    axis_of,
    elementwise,
    largest,
    made,
    mean,
    padded,
    reduced,
    total,
)
from .terms import Table

# -- products


def product(table: Table, a: Tensor, b: Tensor) -> Tensor:
    """The matrix product, with broadcasting."""
    if not a.shape or not b.shape:
        raise Invalid("a product of scalars")
    left = a.ids[None, :] if len(a.shape) == 1 else a.ids
    right = b.ids[:, None] if len(b.shape) == 1 else b.ids
    if left.shape[-1] != right.shape[-2]:
        raise Invalid("sizes of a product")
    try:
        batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    except ValueError as error:
        raise Invalid(str(error)) from None
    left = np.broadcast_to(left, (*batch, *left.shape[-2:]))
    right = np.broadcast_to(right, (*batch, *right.shape[-2:]))
    found = np.zeros((*batch, left.shape[-2], right.shape[-1]), dtype=np.int64)
    if found.size > LARGEST:
        raise Unsupported("too many elements")
    for place in np.ndindex(found.shape):
        row = left[(*place[:-2], place[-2])].tolist()
        column = right[(*place[:-2], slice(None), place[-1])].tolist()
        parts = [table.make("Mul", pair, a.dtype) for pair in zip(row, column, strict=True)]
        found[place] = total(table, parts, a.dtype)
    if len(a.shape) == 1:
        found = found[..., 0, :]
    if len(b.shape) == 1:
        found = found[..., 0]
    return Tensor(found, a.dtype)


def _matmul(table: Table, node: Node, inputs: Given) -> Tensor:
    a, b = _given(inputs)
    return product(table, a, b)


def _number(table: Table, value: float, like: Tensor) -> Tensor:
    return made(table, float(value), like.dtype)


def _gemm(table: Table, node: Node, inputs: Given) -> Tensor:
    a, b, c = (*inputs, None)[:3]
    assert a is not None and b is not None
    if len(a.shape) != 2 or len(b.shape) != 2:
        raise Invalid("Gemm of other ranks")
    a = Tensor(a.ids.T, a.dtype) if node.attrs.get("transA", 0) else a
    b = Tensor(b.ids.T, b.dtype) if node.attrs.get("transB", 0) else b
    found = product(table, a, b)
    alpha, beta = float(node.attrs.get("alpha", 1.0)), float(node.attrs.get("beta", 1.0))
    if alpha != 1.0:
        found = elementwise(table, "Mul", [found, _number(table, alpha, a)], a.dtype)
    if c is None or beta == 0.0:
        return found
    if beta != 1.0:
        c = elementwise(table, "Mul", [c, _number(table, beta, a)], a.dtype)
    try:
        wide = np.broadcast_to(c.ids, found.shape)
    except ValueError as error:
        raise Invalid(str(error)) from None
    return elementwise(table, "Add", [found, Tensor(wide, c.dtype)], a.dtype)


# -- windows


def _spread(node: Node, name: str, count: int, default: int) -> list[int]:
    given = node.attrs.get(name)
    return [default] * count if given is None else [int(each) for each in given]


def _explicit(node: Node) -> None:
    auto = node.attrs.get("auto_pad", "NOTSET")
    if auto not in ("NOTSET", b"NOTSET"):
        raise Unsupported("auto_pad")


def _conv(table: Table, node: Node, inputs: Given) -> Tensor:
    x, w, b = (*inputs, None)[:3]
    assert x is not None and w is not None
    _explicit(node)
    n, group = len(x.shape) - 2, int(node.attrs.get("group", 1))
    channels, outs = w.shape[1], w.shape[0]
    strides, dilations = _spread(node, "strides", n, 1), _spread(node, "dilations", n, 1)
    pads = _spread(node, "pads", 2 * n, 0)
    if n < 1 or x.shape[1] != channels * group or outs % group or outs == 0:
        raise Invalid("channels")
    if 0 in w.shape or min(pads) < 0:
        raise Invalid("an empty Conv")
    zero = table.constant(0, x.dtype)
    wide = padded(table, x, [0, 0, *pads[:n]], [0, 0, *pads[n:]], zero)
    spatial = [
        (size - dilation * (kernel - 1) - 1) // stride + 1
        for size, kernel, stride, dilation in zip(
            wide.shape[2:], w.shape[2:], strides, dilations, strict=True
        )
    ]
    if min(spatial) < 1:
        raise Invalid("a kernel that is too large")
    found = np.zeros((x.shape[0], outs, *spatial), dtype=np.int64)
    if found.size > LARGEST:
        raise Unsupported("too many elements")
    for place in np.ndindex(found.shape):
        first = place[1] // (outs // group) * channels
        parts = []
        for channel, *offset in itertools.product(*(range(size) for size in w.shape[1:])):
            at = [p * s + o * d for p, s, o, d in zip(
                place[2:], strides, offset, dilations, strict=True
            )]  # fmt: skip
            pair = [int(wide[(place[0], first + channel, *at)]),
                    int(w.ids[(place[1], channel, *offset)])]  # fmt: skip
            parts.append(table.make("Mul", pair, x.dtype))
        found[place] = total(table, parts, x.dtype)
    return _biased(table, Tensor(found, x.dtype), b)


def _biased(table: Table, x: Tensor, b: Tensor | None) -> Tensor:
    if b is None:
        return x
    if b.shape != (x.shape[1],):
        raise Invalid("a bias of another size")
    line = Tensor(b.ids.reshape((-1, *[1] * (len(x.shape) - 2))), b.dtype)
    return elementwise(table, "Add", [x, line], x.dtype)


def _conv_transpose(table: Table, node: Node, inputs: Given) -> Tensor:
    x, w, b = (*inputs, None)[:3]
    assert x is not None and w is not None
    _explicit(node)
    n, group = len(x.shape) - 2, int(node.attrs.get("group", 1))
    strides, dilations = _spread(node, "strides", n, 1), _spread(node, "dilations", n, 1)
    pads, more = _spread(node, "pads", 2 * n, 0), _spread(node, "output_padding", n, 0)
    if n < 1 or 0 in w.shape or 0 in x.shape[1:] or x.shape[1] != w.shape[0]:
        raise Invalid("channels")
    if w.shape[0] % group or node.attrs.get("output_shape") is not None:
        raise Invalid("groups")
    sizes = [
        stride * (size - 1) + extra + dilation * (kernel - 1) + 1 - low - high
        for size, kernel, stride, dilation, extra, low, high in zip(
            x.shape[2:], w.shape[2:], strides, dilations, more, pads[:n], pads[n:], strict=True
        )
    ]
    if min(sizes) < 1:
        raise Invalid("an empty result")
    outs, each = w.shape[1] * group, w.shape[0] // group
    parts: dict[tuple[int, ...], list[int]] = {}
    for place in np.ndindex(x.shape):
        part = place[1] // each
        for out, *offset in itertools.product(*(range(size) for size in w.shape[1:])):
            at = tuple(
                p * s + o * d - low
                for p, s, o, d, low in zip(
                    place[2:], strides, offset, dilations, pads[:n], strict=True
                )
            )
            if all(0 <= a < size for a, size in zip(at, sizes, strict=True)):
                pair = [int(x.ids[place]), int(w.ids[(place[1], out, *offset)])]
                key = (place[0], part * w.shape[1] + out, *at)
                parts.setdefault(key, []).append(table.make("Mul", pair, x.dtype))
    found = np.zeros((x.shape[0], outs, *sizes), dtype=np.int64)
    for place in np.ndindex(found.shape):
        found[place] = total(table, parts.get(place, []), x.dtype)
    return _biased(table, Tensor(found, x.dtype), b)


def _windows(node: Node, x: Tensor, join: Callable[[list[int], int], int], fill: int) -> Tensor:
    _explicit(node)
    kernel = [int(each) for each in node.attrs["kernel_shape"]]
    n = len(kernel)
    strides, dilations = _spread(node, "strides", n, 1), _spread(node, "dilations", n, 1)
    pads = _spread(node, "pads", 2 * n, 0)
    if len(x.shape) != n + 2 or node.attrs.get("ceil_mode", 0):
        raise Unsupported("a pool that rounds up")
    if any(p < 0 for p in pads) or 0 in kernel:
        raise Invalid("an empty pool")
    if any(low >= k or high >= k for low, high, k in zip(pads[:n], pads[n:], kernel, strict=True)):
        raise Invalid("more around than the window")
    widths = [(0, 0), (0, 0), *zip(pads[:n], pads[n:], strict=True)]
    wide = np.pad(x.ids, widths, constant_values=fill)
    sizes = [
        (size - d * (k - 1) - 1) // s + 1
        for size, k, s, d in zip(wide.shape[2:], kernel, strides, dilations, strict=True)
    ]
    if min(sizes) < 1:
        raise Invalid("a window that is too large")
    found = np.zeros((*x.shape[:2], *sizes), dtype=np.int64)
    for place in np.ndindex(found.shape):
        terms = []
        for offset in itertools.product(*(range(k) for k in kernel)):
            at = [p * s + o * d for p, s, o, d in zip(
                place[2:], strides, offset, dilations, strict=True
            )]  # fmt: skip
            terms.append(int(wide[(*place[:2], *at)]))
        found[place] = join(terms, len(terms))
    return Tensor(found, x.dtype)


def _average_pool(table: Table, node: Node, inputs: Given) -> Tensor:
    (x,) = _given(inputs)
    counts = node.attrs.get("count_include_pad", 0)
    zero = table.constant(0, x.dtype)

    def join(terms: list[int], size: int) -> int:
        inside = [each for each in terms if each != -1]
        if not counts:
            return mean(table, inside, x.dtype)
        return mean(table, [zero if each == -1 else each for each in terms], x.dtype)

    return _windows(node, x, join, -1)


def _max_pool(table: Table, node: Node, inputs: Given) -> Tensor:
    (x,) = _given(inputs)
    if len(node.outputs) > 1:
        raise Unsupported("MaxPool with indices")
    return _windows(
        node, x, lambda terms, _: largest(table, [t for t in terms if t != -1], x.dtype), -1
    )


# -- normalizations


def softmax(table: Table, x: Tensor, axis: int, logarithm: bool = False) -> Tensor:
    """Exponentials over their sum, the largest one taken away before."""

    def ids(op: str, *tensors: Tensor) -> Tensor:
        return elementwise(table, op, tensors, x.dtype)

    along = [axis_of(axis, len(x.shape))]
    top = reduced(table, x, along, True, lambda row: largest(table, row, x.dtype))
    shifted = ids("Sub", x, top)
    power = ids("Exp", shifted)
    sums = reduced(table, power, along, True, lambda row: total(table, row, x.dtype))
    return ids("Sub", shifted, ids("Log", sums)) if logarithm else ids("Div", power, sums)


def _softmax(table: Table, node: Node, inputs: Given) -> Tensor:
    (x,) = _given(inputs)
    if not x.shape:
        raise Invalid("Softmax of a scalar")
    return softmax(table, x, int(node.attrs.get("axis", -1)), node.op == "LogSoftmax")


def _normal(
    table: Table, x: Tensor, axes: Sequence[int], epsilon: float, centered: bool = True
) -> Tensor:
    def ids(op: str, *tensors: Tensor) -> Tensor:
        return elementwise(table, op, tensors, x.dtype)

    def average(y: Tensor) -> Tensor:
        return reduced(table, y, axes, True, lambda row: mean(table, row, x.dtype))

    middle = ids("Sub", x, average(x)) if centered else x
    spread = ids("Add", average(ids("Mul", middle, middle)), _number(table, epsilon, x))
    return ids("Div", middle, ids("Sqrt", spread))


def _affine(
    table: Table, x: Tensor, scale: Tensor | None, shift: Tensor | None, channels: bool
) -> Tensor:
    for op, each in (("Mul", scale), ("Add", shift)):
        if each is not None:
            if channels:
                if each.shape != (x.shape[1],):
                    raise Invalid("a scale of another size")
                each = Tensor(each.ids.reshape((-1, *[1] * (len(x.shape) - 2))), each.dtype)
            shape = x.shape
            x = elementwise(table, op, [x, each], x.dtype)
            if x.shape != shape:
                raise Invalid("a scale that is larger")
    return x


def _layer_norm(table: Table, node: Node, inputs: Given) -> Tensor:
    x, scale, shift = (*inputs, None)[:3]
    assert x is not None
    axis = axis_of(int(node.attrs.get("axis", -1)), len(x.shape))
    along = list(range(axis, len(x.shape)))
    epsilon = float(node.attrs.get("epsilon", 1e-5))
    normal = _normal(table, x, along, epsilon, node.op == "LayerNormalization")
    return _affine(table, normal, scale, shift, False)


def _instance_norm(table: Table, node: Node, inputs: Given) -> Tensor:
    x, scale, shift = _given(inputs)
    if len(x.shape) < 3:
        raise Invalid("rank")
    along = list(range(2, len(x.shape)))
    normal = _normal(table, x, along, float(node.attrs.get("epsilon", 1e-5)))
    return _affine(table, normal, scale, shift, True)


def _group_norm(table: Table, node: Node, inputs: Given) -> Tensor:
    x, scale, shift = _given(inputs)
    groups = int(node.attrs["num_groups"])
    if groups < 1 or x.shape[1] % groups or 0 in x.shape:
        raise Invalid("groups")
    rows = Tensor(x.ids.reshape((x.shape[0], groups, -1)), x.dtype)
    normal = _normal(table, rows, [2], float(node.attrs.get("epsilon", 1e-5)))
    return _affine(table, Tensor(normal.ids.reshape(x.shape), x.dtype), scale, shift, True)


def _batch_norm(table: Table, node: Node, inputs: Given) -> Tensor:
    x, scale, shift, middle, spread = _given(inputs)
    if node.attrs.get("training_mode", 0):
        raise Unsupported("training")
    if len(x.shape) < 2:
        raise Invalid("rank")

    def ids(op: str, *tensors: Tensor) -> Tensor:
        return elementwise(table, op, tensors, x.dtype)

    def line(each: Tensor) -> Tensor:
        if each.shape != (x.shape[1],):
            raise Invalid("a statistic of another size")
        return Tensor(each.ids.reshape((-1, *[1] * (len(x.shape) - 2))), each.dtype)

    epsilon = _number(table, float(node.attrs.get("epsilon", 1e-5)), x)
    root = ids("Sqrt", ids("Add", line(spread), epsilon))
    normal = ids("Div", ids("Sub", x, line(middle)), root)
    return _affine(table, normal, scale, shift, True)


LAYERS: dict[str, Definition] = {
    "MatMul": _matmul, "Gemm": _gemm, "Conv": _conv, "ConvTranspose": _conv_transpose,
    "AveragePool": _average_pool, "MaxPool": _max_pool, "Softmax": _softmax,
    "LogSoftmax": _softmax, "LayerNormalization": _layer_norm, "RMSNormalization": _layer_norm,
    "InstanceNormalization": _instance_norm, "GroupNormalization": _group_norm,
    "BatchNormalization": _batch_norm,
}  # fmt: skip
