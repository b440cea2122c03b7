"""Lower gradients of convolutions in float64 and int64 to sums over the kernel elements.

These dtypes have matrix products but no Conv kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

from ortable import dims, dtypes
from ortable.errors import UnsupportedCase
from ortable.ir import Graph, ResultSpec
from ortable.lowerings.convolution import direct_convolution
from ortable.prelude.facts import broadcast_ints, rank_of, shape_of, static
from ortable.prelude.op_builder import OpBuilder
from ortable.prelude.sums import summed_over
from ortable.prelude.values import as_vec, consts, cropped, permuted, reshape_to, unsqueezed

from .shapes import flipped_along


def direct_convolution_backward(
    graph: Graph,
    res: ResultSpec,
    grad_output: str,
    input: str,
    weight: str,
    stride: Sequence[Any],
    padding: Sequence[Any],
    dilation: Sequence[Any],
    transposed: bool,
    groups: Any,
    output_mask: Sequence[bool],
) -> tuple[str | None, str | None, str | None]:
    """Lower aten::convolution_backward; a gradient is None where ``output_mask`` is False."""
    n, n_groups = rank_of(graph, weight) - 2, static(groups)
    steps, pads, gaps = (
        broadcast_ints(static(values), n) for values in (stride, padding, dilation)
    )
    window = (steps, pads, gaps)
    grad_input = grad_weight = grad_bias = None
    if output_mask[0] and transposed:
        uncropped = direct_convolution(
            graph, res, grad_output, weight, None, steps, pads, gaps, n_groups
        )
        grad_input = cropped(graph, uncropped, shape_of(graph, input)[2:])
    elif output_mask[0]:
        grad_input = _input_gradient(graph, res, grad_output, input, weight, window, n_groups)
    if output_mask[1]:
        large, small = (grad_output, input) if transposed else (input, grad_output)
        grad_weight = _weight_gradient(graph, large, small, weight, window, n_groups)
    if output_mask[2]:
        grad_bias = summed_over(graph, grad_output, [0, *range(2, n + 2)], False)
    return grad_input, grad_weight, grad_bias


def _input_gradient(
    graph: Graph,
    res: ResultSpec,
    grad: str,
    input: str,
    weight: str,
    window: tuple[list[int], ...],
    groups: int,
) -> str:
    """Convolve ``grad``, dilated by the strides, with the flipped kernel."""
    strides, pads, spacing = window
    sizes, kernel = shape_of(graph, input)[2:], static(shape_of(graph, weight)[2:])
    n = len(sizes)
    for axis, step in enumerate(strides):
        grad = _insert_zeros_after(graph, grad, axis + 2, step)
    before, after = [], []
    for size, grad_size, taps, pad, gap in zip(
        sizes, shape_of(graph, grad)[2:], kernel, pads, spacing, strict=True
    ):
        if not isinstance(size, int) or not isinstance(grad_size, int):
            raise UnsupportedCase(
                f"the gradient of a convolution in float64 or ints over the size '{size}'"
            )
        before.append(gap * (taps - 1) - pad)
        after.append(size + gap * (taps - 1) - before[-1] - grad_size)
    amounts = consts(graph, [0, 0, *before, 0, 0, *after], dtypes.int64)
    grad = OpBuilder(graph).Pad(grad, amounts)
    out, inner = static(shape_of(graph, weight)[:2])
    parts = reshape_to(graph, weight, [groups, out // groups, inner, *kernel])
    transposed = permuted(graph, parts, [0, 2, 1, *range(3, n + 3)])
    transposed = reshape_to(graph, transposed, [groups * inner, out // groups, *kernel])
    transposed = flipped_along(graph, transposed, list(range(2, n + 2)))
    zeros = [0] * n
    return direct_convolution(graph, res, grad, transposed, None, [1] * n, zeros, spacing, groups)


def _insert_zeros_after(graph: Graph, x: str, axis: int, step: int) -> str:
    """Insert ``step - 1`` zeros after each element along one axis."""
    if step == 1:
        return x
    shape = list(shape_of(graph, x))
    amounts = [0] * (2 * len(shape) + 2)
    amounts[len(shape) + 1 + axis + 1] = step - 1
    padded = OpBuilder(graph).Pad(
        unsqueezed(graph, x, [axis + 1]), consts(graph, amounts, dtypes.int64)
    )
    return reshape_to(graph, padded, [*shape[:axis], shape[axis] * step, *shape[axis + 1 :]])


def _weight_gradient(
    graph: Graph,
    large: str,
    small: str,
    weight: str,
    window: tuple[list[int], ...],
    groups: int,
) -> str:
    """Multiply ``small``, for each kernel element, by the slice of ``large`` under that element."""
    op = OpBuilder(graph)
    strides, pads, spacing = window
    shape = static(shape_of(graph, weight))
    kernel, n = shape[2:], len(shape) - 2
    batch, _, *out_sizes = shape_of(graph, small)
    positions = dims.product_of(out_sizes)
    rows = reshape_to(graph, small, [batch, groups, shape[0] // groups, positions])
    if any(pads):
        amounts = consts(graph, [0, 0, *pads, 0, 0, *pads], dtypes.int64)
        large = op.Pad(large, amounts)
    axes = consts(graph, list(range(2, n + 2)), dtypes.int64)
    terms = []
    for offset in product(*(range(size) for size in kernel)):
        starts = [index * gap for index, gap in zip(offset, spacing, strict=True)]
        ends = [
            start + (count - 1) * step + 1
            for start, count, step in zip(starts, out_sizes, strides, strict=True)
        ]
        bounds = [as_vec(graph, limit) for limit in (starts, ends)]
        piece = op.Slice(large, *bounds, axes, as_vec(graph, list(strides)))
        columns = reshape_to(graph, piece, [batch, groups, shape[1], positions])
        columns = permuted(graph, columns, [0, 1, 3, 2])
        total = summed_over(graph, op.MatMul(rows, columns), [0], False)
        terms.append(unsqueezed(graph, total, [3]))
    result = terms[0] if len(terms) == 1 else op("Concat", terms, axis=3)
    return reshape_to(graph, result, shape)
