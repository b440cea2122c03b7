"""Lower convolutions: gradients, dtypes without a Conv kernel, and the windows of unfold and fold.

Convolutions in dtypes without a kernel become sums of matrix products.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from ortable import dtypes
from ortable.ir import Graph, ResultSpec
from ortable.prelude.facts import (
    Int,
    Ints,
    Result,
    SymInt,
    SymInts,
    broadcast_ints,
    is_static,
    rank_of,
    shape_of,
    static,
)
from ortable.prelude.matrices import matrix_product
from ortable.prelude.op_builder import OpBuilder
from ortable.prelude.shapes import iota
from ortable.prelude.sums import summed_over
from ortable.prelude.values import (
    as_vec,
    cast,
    consts,
    cropped,
    permuted,
    reshape_to,
    squeezed,
    unsqueezed,
)

from .shapes import flipped_along

# Kernels of at most this many elements become a sum of products, which needs the least memory.
_MAX_TERMS = 64

__all__ = [
    "fold_indices",
    "same_padding",
    "window_count",
]


def convolution_backward(
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
    """Lower aten::convolution_backward: return the gradients of input, weight and bias.

    A gradient is None where ``output_mask`` is False. The gradient of the input is the transposed
    convolution of grad_output (the convolution if the forward was transposed). The gradient of the
    weight is the convolution of the input with grad_output, with channels and batch exchanged
    (Dumoulin and Visin, A guide to convolution arithmetic, 2016).
    """
    n = rank_of(graph, weight) - 2  # number of spatial dims
    dtype = graph.get_type(input)
    if dtype == dtypes.bfloat16:
        # ONNX has no convolution of bfloat16 before opset 22
        grad_output, input, weight = (
            cast(graph, x, dtypes.float32) for x in (grad_output, input, weight)
        )
    window = {
        "strides": broadcast_ints(static(stride), n),
        "pads": broadcast_ints(static(padding), n) * 2,
        "dilations": broadcast_ints(static(dilation), n),
    }
    grad_input = grad_weight = grad_bias = None
    if output_mask[0]:
        grad_input = _input_gradient(
            graph, grad_output, input, weight, window, transposed, static(groups)
        )
    if output_mask[1]:
        large, small = (grad_output, input) if transposed else (input, grad_output)
        grad_weight = _weight_gradient(graph, large, small, weight, window, static(groups))
    if output_mask[2]:
        grad_bias = summed_over(graph, grad_output, [0, *range(2, n + 2)], False)
    grads = (grad_input, grad_weight, grad_bias)
    return tuple(None if grad is None else cast(graph, grad, dtype) for grad in grads)  # type: ignore[return-value]


def _input_gradient(
    graph: Graph,
    grad: str,
    input: str,
    weight: str,
    window: dict[str, Any],
    transposed: bool,
    groups: int,
) -> str:
    op = OpBuilder(graph)
    sizes = shape_of(graph, input)[2:]
    if transposed:
        # the result is too large if output_padding was at least the stride
        return cropped(graph, op.Conv(grad, weight, group=groups, **window), sizes)
    grad_sizes, kernel = shape_of(graph, grad)[2:], shape_of(graph, weight)[2:]
    pads = window["pads"][: len(sizes)]
    extra = find_output_padding(
        sizes, grad_sizes, kernel, window["strides"], pads, window["dilations"]
    )
    uncropped = op.ConvTranspose(grad, weight, group=groups, output_padding=extra, **window)
    return cropped(graph, uncropped, sizes)


def _weight_gradient(
    graph: Graph, large: str, small: str, weight: str, window: dict[str, Any], groups: int
) -> str:
    """Return the gradient of ``weight``, whose convolution with ``large`` gives ``small``.

    ``large`` has the channels of dim 1 of ``weight``, ``small`` those of dim 0.
    """
    rank = rank_of(graph, weight)
    if _are_patches(graph, large, weight, window, groups):
        return _patches_gradient(graph, large, small, weight)
    exchange = [1, 0, *range(2, rank)]
    uncropped = OpBuilder(graph).Conv(
        channels_first(graph, large, groups),
        permuted(graph, small, exchange),
        strides=window["dilations"],
        dilations=window["strides"],
        pads=window["pads"],
        group=groups,
    )
    kernel = cropped(graph, uncropped, shape_of(graph, weight)[2:])
    return permuted(graph, kernel, exchange)


def _are_patches(
    graph: Graph, large: str, weight: str, window: dict[str, Any], groups: int
) -> bool:
    """Whether the kernel cuts ``large`` into patches without overlap and remainder."""
    kernel, sizes = shape_of(graph, weight)[2:], shape_of(graph, large)[2:]
    is_plain = groups == 1 and not any(window["pads"]) and set(window["dilations"]) <= {1}
    if not is_plain or list(kernel) != list(window["strides"]):
        return False
    return all(isinstance(n, int) and n % k == 0 for n, k in zip(sizes, kernel, strict=True))


def _patches_gradient(graph: Graph, large: str, small: str, weight: str) -> str:
    """Return the weight gradient of a patch embedding as one matrix product.

    ``small`` [O, N * counts] is multiplied by the patches of ``large`` [N * counts, C * kernel].
    """
    kernel = static(shape_of(graph, weight)[2:])
    batch, channels, *sizes = shape_of(graph, large)
    n = len(kernel)
    counts = [size // k for size, k in zip(sizes, kernel, strict=True)]
    block_sizes = [
        length
        for count_and_length in zip(counts, kernel, strict=True)
        for length in count_and_length
    ]
    blocks = reshape_to(graph, large, [batch, channels, *block_sizes])
    order = [0, *range(2, 2 * n + 2, 2), 1, *range(3, 2 * n + 3, 2)]
    rows = 1
    for count in (batch, *counts):
        rows = rows * count
    columns = static(channels) * math.prod(kernel)
    patches = reshape_to(graph, permuted(graph, blocks, order), [rows, columns])
    out = shape_of(graph, weight)[0]
    left = reshape_to(graph, permuted(graph, small, [1, 0, *range(2, n + 2)]), [out, rows])
    return reshape_to(graph, matrix_product(graph, left, patches), shape_of(graph, weight))


def direct_convolution(
    graph: Graph,
    res: ResultSpec,
    input: str,
    weight: str,
    bias: str | None,
    stride: Sequence[Any],
    padding: Sequence[Any] | str,
    dilation: Sequence[Any],
    groups: Any,
) -> str:
    """Lower aten::convolution to a sum over the elements of the kernel.

    For float64 and ints, which have matrix products but no Conv, and for a dynamic number of
    groups, which no attribute can have; also handles padding by name.
    Shapes: input [N, C, ...] or [C, ...], weight [O, C/G, ...].
    """
    n = rank_of(graph, weight) - 2  # number of spatial dims
    strides, spacing = broadcast_ints(static(stride), n), broadcast_ints(static(dilation), n)
    if padding == "same":
        pads = list(same_padding(shape_of(graph, weight)[2:], spacing))
    else:
        pads = [0] * 2 * n if isinstance(padding, str) else broadcast_ints(static(padding), n) * 2
    batch_axis = [] if rank_of(graph, input) == n + 2 else [0]
    x = _pad_spatial(graph, unsqueezed(graph, input, batch_axis), pads)
    result = _sum_taps(graph, x, weight, (strides, spacing), _count_groups(graph, groups))
    return squeezed(graph, _add_bias(graph, result, bias, n), batch_axis)


def direct_transposed(
    graph: Graph,
    res: ResultSpec,
    input: str,
    weight: str,
    bias: str | None,
    stride: Sequence[Any],
    padding: Sequence[Any],
    dilation: Sequence[Any],
    output_padding: Sequence[Any],
    groups: Any,
) -> str:
    """Lower a transposed convolution of float64, ints or dynamic groups (Dumoulin and Visin, 2016).

    The lowering inserts zeros between the elements of the input and convolves with the flipped
    kernel.
    """
    n = rank_of(graph, weight) - 2  # number of spatial dims
    groups = _count_groups(graph, groups)
    strides, spacing = broadcast_ints(static(stride), n), broadcast_ints(static(dilation), n)
    kernel = shape_of(graph, weight)[2:]
    spans = [step * (k - 1) for step, k in zip(spacing, kernel, strict=True)]
    begins = [
        span - pad for span, pad in zip(spans, broadcast_ints(static(padding), n), strict=True)
    ]
    extra = broadcast_ints(static(output_padding), n)
    batch_axis = [] if rank_of(graph, input) == n + 2 else [0]
    x = unsqueezed(graph, input, batch_axis)
    for axis, step in enumerate(strides, start=2):
        x = _insert_zeros(graph, x, axis, step)
    x = _pad_spatial(graph, x, [*begins, *(a + b for a, b in zip(begins, extra, strict=True))])
    transposed = flipped_along(graph, weight, list(range(2, n + 2)))
    inner, outer = shape_of(graph, weight)[:2]
    blocks = reshape_to(graph, transposed, [groups, inner // groups, outer, *kernel])
    swapped = permuted(graph, blocks, [0, 2, 1, *range(3, n + 3)])
    kernels = reshape_to(graph, swapped, [groups * outer, inner // groups, *kernel])
    result = _sum_taps(graph, x, kernels, ([1] * n, spacing), groups)
    return squeezed(graph, _add_bias(graph, result, bias, n), batch_axis)


def wide_transposed(
    graph: Graph,
    res: ResultSpec,
    input: str,
    weight: str,
    bias: str | None,
    stride: Sequence[Any],
    padding: Sequence[Any],
    dilation: Sequence[Any],
    output_padding: Sequence[Any],
    groups: Any,
) -> str:
    """Lower a transposed convolution whose output_padding is not below the stride.

    ONNX Runtime rejects such a node. The lowering computes the result without padding, then crops
    it or pads it with zeros.
    """
    n, input_dtype = rank_of(graph, weight) - 2, graph.get_type(input)  # n: number of spatial dims
    batch_axis = [] if rank_of(graph, input) == n + 2 else [0]
    dtype = dtypes.float32 if input_dtype == dtypes.bfloat16 else input_dtype
    x, kernels = (
        cast(graph, tensor, dtype) for tensor in (unsqueezed(graph, input, batch_axis), weight)
    )
    result = OpBuilder(graph).ConvTranspose(
        x,
        kernels,
        strides=broadcast_ints(static(stride), n),
        dilations=broadcast_ints(static(dilation), n),
        group=static(groups),
    )
    pads = broadcast_ints(static(padding), n)
    output_pads = broadcast_ints(static(output_padding), n)
    ends = [output_pad - pad for output_pad, pad in zip(output_pads, pads, strict=True)]
    result = _pad_spatial(graph, result, [*(-pad for pad in pads), *ends])
    result = _add_bias(graph, result, None if bias is None else cast(graph, bias, dtype), n)
    return squeezed(graph, cast(graph, result, input_dtype), batch_axis)


def _count_groups(graph: Graph, groups: SymInt) -> SymInt:
    """Return the number of groups; torch.compile makes a Conv for each number, which is faster."""
    return static(groups) if graph.specializes_sizes else groups


def _insert_zeros(graph: Graph, x: str, axis: int, step: int) -> str:
    """Insert ``step - 1`` zeros between neighbours along an axis."""
    op = OpBuilder(graph)
    if step == 1:
        return x
    shape = list(shape_of(graph, x))
    padded = unsqueezed(graph, x, [axis + 1])
    pads = [0] * 2 * (len(shape) + 1)
    pads[-len(shape) + axis] = step - 1
    padded = op.Pad(padded, consts(graph, pads, dtypes.int64))
    size = shape[axis]
    padded = reshape_to(graph, padded, [*shape[:axis], size * step, *shape[axis + 1 :]])
    bounds = [0, (size - 1) * step + 1, axis]
    result = op.Slice(padded, *(as_vec(graph, bound) for bound in bounds))
    graph.set_shape(result, (*shape[:axis], (size - 1) * step + 1, *shape[axis + 1 :]))
    return result


def _add_bias(graph: Graph, x: str, bias: str | None, n: int) -> str:
    if bias is None:
        return x
    cast_bias = cast(graph, bias, graph.get_type(x))  # torch accepts a bias of another int dtype
    return OpBuilder(graph).Add(x, unsqueezed(graph, cast_bias, list(range(1, n + 1))))


def _sum_taps(
    graph: Graph,
    x: str,
    weight: str,
    window: tuple[Sequence[int], Sequence[int]],
    groups: SymInt,
) -> str:
    """Convolve: sum, over the kernel elements, a strided slice of ``x`` times their weights."""
    strides, spacing = window
    kernel = shape_of(graph, weight)[2:]
    if not is_static([groups, *shape_of(graph, weight)]) or math.prod(static(kernel)) > _MAX_TERMS:
        return _convolve_windows(graph, x, weight, window, groups)
    kernel = static(kernel)
    sizes = list(shape_of(graph, x)[2:])
    lengths = [size - step * (k - 1) for size, step, k in zip(sizes, spacing, kernel, strict=True)]
    total = None
    for offset in product(*(range(size) for size in kernel)):
        starts = [index * step for index, step in zip(offset, spacing, strict=True)]
        ends = [start + size for start, size in zip(starts, lengths, strict=True)]
        term = _multiply_tap(graph, x, weight, offset, (starts, ends, strides), static(groups))
        total = term if total is None else OpBuilder(graph).Add(total, term)
    assert total is not None
    return total


def _convolve_windows(
    graph: Graph,
    x: str,
    weight: str,
    window: tuple[Sequence[int], Sequence[int]],
    groups: SymInt,
) -> str:
    """Gather all windows at once and multiply by the kernels, for large or dynamic kernels."""
    op = OpBuilder(graph)
    n = rank_of(graph, weight) - 2
    counts: list[SymInt] = []
    out, inner, *kernel = shape_of(graph, weight)
    space = shape_of(graph, x)[2:]
    for index, (step, gap) in enumerate(zip(*window, strict=True)):
        axis, sizes = 2 + 2 * index, shape_of(graph, x)
        count = window_count(space[index], kernel[index], step, gap, 0)
        starts = unsqueezed(graph, iota(graph, 0, count, step), [1])
        taps = unsqueezed(graph, iota(graph, 0, kernel[index], gap), [0])
        x = op.Gather(x, op.Add(starts, taps), axis=axis)
        graph.set_shape(x, (*sizes[:axis], count, kernel[index], *sizes[axis + 1 :]))
        counts.append(count)
    # [N, C, windows and taps of each axis] -> [N, C, taps, windows]
    x = permuted(graph, x, [0, 1, *range(3, 2 * n + 2, 2), *range(2, 2 * n + 2, 2)])
    batch = shape_of(graph, x)[0]
    depth: SymInt = inner
    flat: SymInt = 1
    for length, count in zip(kernel, counts, strict=True):
        depth, flat = depth * length, flat * count
    rows = reshape_to(graph, x, [batch, groups, depth, flat])
    factors = reshape_to(graph, weight, [groups, out // groups, depth])
    return reshape_to(graph, matrix_product(graph, factors, rows), [batch, out, *counts])


def _pad_spatial(graph: Graph, x: str, pads: Sequence[Any]) -> str:
    """Pad each spatial axis by ``pads``, all begins and then all ends; negative pads crop."""
    if all(is_static([pad]) and pad == 0 for pad in pads):
        return x
    n = len(pads) // 2
    amounts = as_vec(graph, [0, 0, *pads[:n], 0, 0, *pads[n:]])
    return OpBuilder(graph).Pad(x, amounts)


def _multiply_tap(
    graph: Graph,
    x: str,
    weight: str,
    offset: tuple[int, ...],
    window: tuple[list[Any], list[Any], Sequence[int]],
    groups: int,
) -> str:
    """Multiply a slice of ``x`` by the weights [O, C/G] of one kernel element: [N, O, ...]."""
    op = OpBuilder(graph)
    n = len(offset)
    starts, ends, strides = window
    axes = consts(graph, list(range(2, n + 2)), dtypes.int64)
    piece = op.Slice(
        x, as_vec(graph, starts), as_vec(graph, ends), axes, as_vec(graph, list(strides))
    )
    batch, channels, *space = shape_of(graph, piece)
    out, inner = static(shape_of(graph, weight)[:2])
    flat = 1
    for size in space:
        flat = flat * size
    rows = reshape_to(graph, piece, [batch, groups, static(channels) // groups, flat])
    index = consts(graph, list(offset), dtypes.int64)
    transposed = permuted(graph, weight, [*range(2, n + 2), 0, 1])
    factors = reshape_to(graph, op.GatherND(transposed, index), [groups, out // groups, inner])
    result = matrix_product(graph, factors, rows)
    return reshape_to(graph, result, [batch, out, *space])


# -- padding and layout -------------------------------------------------------------------------


def same_padding(weight_sizes: SymInts, dilations: Ints) -> SymInts:
    """Return the begin and end pads of ``padding='same'``; an odd element is padded at the end."""
    total = [(size - 1) * dilation for size, dilation in zip(weight_sizes, dilations, strict=True)]
    return [size // 2 for size in total] + [size - size // 2 for size in total]


def channels_first(graph: Graph, x: Result, groups: Int) -> Result:
    """Exchange channels and batch inside each group: [N, G*C, ...] -> [C, G*N, ...]."""
    rank = rank_of(graph, x)
    if groups == 1:
        return permuted(graph, x, [1, 0, *range(2, rank)])
    shape = list(shape_of(graph, x))
    batch, channels, space = shape[0], static(shape[1]), shape[2:]
    blocks = reshape_to(graph, x, [batch, groups, channels // groups, *space])
    transposed = permuted(graph, blocks, [2, 1, 0, *range(3, rank + 1)])
    return reshape_to(graph, transposed, [channels // groups, batch * groups, *space])


def find_output_padding(
    out_sizes: SymInts,
    in_sizes: SymInts,
    kernel: SymInts,
    strides: Ints,
    pads: Ints,
    dilations: Ints,
) -> Ints:
    """Return the ``output_padding`` with which ConvTranspose maps ``in_sizes`` to ``out_sizes``.

    For a dynamic size, the ``output_padding`` is the largest possible one, stride - 1, and the
    caller crops the result.
    """
    result = []
    for axis, stride in enumerate(strides):
        missing = out_sizes[axis] - (
            (in_sizes[axis] - 1) * stride
            - 2 * pads[axis]
            + dilations[axis] * (kernel[axis] - 1)
            + 1
        )
        result.append(max(missing, 0) if isinstance(missing, int) else stride - 1)
    return result


# -- windows --------------------------------------------------------------------------------------


def window_count(size: SymInt, window: Int, step: Int, spacing: Int, pad: Int) -> SymInt:
    """Return the number of windows that fit into an axis with ``pad`` elements added at both ends.

    A window has ``window`` elements, ``spacing`` apart; windows begin ``step`` elements apart.
    """
    return (size + 2 * pad - spacing * (window - 1) - 1) // step + 1


def fold_indices(sizes: Ints, kernel: Ints, counts: Ints, steps: Ints, gaps: Ints) -> Ints:
    """Return, for each element of each window, its flat index in an image of ``sizes``.

    The order is kernel rows, kernel columns, window rows, window columns. Windows begin ``steps``
    apart, and the elements of a window are ``gaps`` apart.
    """
    row_indices, column_indices = (
        (np.arange(kernel[axis])[:, None] * gaps[axis] + np.arange(counts[axis]) * steps[axis])
        for axis in (0, 1)
    )
    indices = row_indices[:, None, :, None] * sizes[1] + column_indices[None, :, None, :]
    return [int(index) for index in indices.reshape(-1)]
