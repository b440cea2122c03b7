"""Gradient of average pooling: each gradient spread over its window, by a transposed convolution
with ones."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ortable import dtypes
from ortable.dims import Dim
from ortable.ir import Graph, Res
from ortable.prelude.facts import shape_of, spread
from ortable.prelude.values import cast, const, cropped, reshape_to, unsqueezed

from .gradients import window_ends
from .nn import reach_padding, scaled


def avg_pool2d_backward(
    graph: Graph,
    res: Res,
    grad_output: str,
    self: str,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> str:
    """aten::avg_pool2d_backward for [N, C, H, W] or [C, H, W]."""
    window = (spread(kernel_size, 2), spread(stride, 2) if stride else [], spread(padding, 2))
    counted = (ceil_mode, count_include_pad, divisor_override)
    return _mean_gradient(graph, grad_output, self, window, counted)


def avg_pool3d_backward(
    graph: Graph,
    res: Res,
    grad_output: str,
    self: str,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> str:
    """aten::avg_pool3d_backward for [N, C, D, H, W] or [C, D, H, W]."""
    window = (spread(kernel_size, 3), spread(stride, 3) if stride else [], spread(padding, 3))
    counted = (ceil_mode, count_include_pad, divisor_override)
    return _mean_gradient(graph, grad_output, self, window, counted)


def _mean_gradient(
    graph: Graph,
    grad_output: str,
    self: str,
    shape_of_window: tuple[list[int], list[int], list[int]],
    counted: tuple[bool, bool, int | None],
) -> str:
    """grad_output / count, added up over the windows."""
    window, strides, pads = shape_of_window
    strides = strides or window
    ceil_mode, count_include_pad, divisor_override = counted
    own, n = graph.get_type(self), len(window)
    shape = list(shape_of(graph, self))
    small = list(shape_of(graph, grad_output))
    grad = cast(graph, grad_output, dtypes.float32)
    uniform = divisor_override is not None or (
        not ceil_mode and (count_include_pad or not any(pads))
    )
    if uniform:
        grad = scaled(graph, grad, 1 / (divisor_override or math.prod(window)))
    else:
        counts = _counts(graph, shape[-n:], small[-n:], (window, strides, pads), count_include_pad)
        grad = graph.make_node("Div", [grad, counts])
    planes: Dim = 1
    for size in shape[:-n]:
        planes = planes * size
    flat = reshape_to(graph, grad, [planes, 1, *small[-n:]])
    ones = graph.make_initializer("", np.ones([1, 1, *window], np.float32))
    more = reach_padding(shape[-n:], small[-n:], window, strides, pads, [1] * n)
    wide = graph.make_node(
        "ConvTranspose", [flat, ones], strides=strides, pads=pads * 2, output_padding=more
    )
    return cast(graph, reshape_to(graph, cropped(graph, wide, shape[-n:]), shape), own)


def _counts(
    graph: Graph,
    sizes: Sequence[Dim],
    places: Sequence[Dim],
    window: tuple[list[int], list[int], list[int]],
    padded: bool,
) -> str:
    """How many elements each window averages, float32 in the shape of the windows' places."""
    total = const(graph, 1, dtypes.float32)
    for axis, (size, count, k, step, pad) in enumerate(zip(sizes, places, *window, strict=True)):
        counts = window_ends(graph, size, count, k, step, pad, padded)[2]
        along = unsqueezed(graph, counts, list(range(1, len(sizes) - axis)))
        total = graph.make_node("Mul", [total, cast(graph, along, dtypes.float32)])
    return total
