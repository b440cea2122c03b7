"""Gradient of average pooling: each gradient spread over its window, by a transposed convolution
with ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ortable import dtypes
from ortable.dims import Dim
from ortable.errors import UnsupportedCase
from ortable.prelude import shape_of, spread
from ortable.prelude_make import cast, cropped, reshape_to
from ortable.prelude_nn import reach_padding, scaled

if TYPE_CHECKING:
    from ortable.builder import GraphBuilder, Res


def avg_pool2d_backward(
    graph: GraphBuilder,
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
    """aten::avg_pool2d_backward for [N, C, H, W] or [C, H, W]: grad_output / count, added up over
    the windows.

    Raises:
        UnsupportedCase: windows have different counts and a spatial size is dynamic; float64, which
        has no kernel.
    """
    own = graph.get_type(self)
    if own == dtypes.float64:
        raise UnsupportedCase(
            "the gradient of average pooling in float64: ONNX Runtime has no such convolution"
        )
    window, pads = spread(kernel_size, 2), spread(padding, 2)
    strides = spread(stride, 2) if stride else window
    shape = list(shape_of(graph, self))
    small = list(shape_of(graph, grad_output))
    grad = cast(graph, grad_output, dtypes.float32)
    uniform = divisor_override is not None or (
        not ceil_mode and (count_include_pad or not any(pads))
    )
    if uniform:
        grad = scaled(graph, grad, 1 / (divisor_override or math.prod(window)))
    else:
        counts = _counts(shape[-2:], small[-2:], (window, strides, pads), count_include_pad)
        grad = graph.make_node("Div", [grad, graph.make_initializer("", counts)])
    planes: Dim = 1
    for size in shape[:-2]:
        planes = planes * size
    flat = reshape_to(graph, grad, [planes, 1, *small[-2:]])
    ones = graph.make_initializer("", np.ones([1, 1, *window], np.float32))
    more = reach_padding(shape[-2:], small[-2:], window, strides, pads, [1, 1])
    wide = graph.make_node(
        "ConvTranspose", [flat, ones], strides=strides, pads=pads * 2, output_padding=more
    )
    return cast(graph, reshape_to(graph, cropped(graph, wide, shape[-2:]), shape), own)


def _counts(
    sizes: Sequence[Dim],
    places: Sequence[Dim],
    window: tuple[list[int], list[int], list[int]],
    padded: bool,
) -> np.ndarray:
    """How many elements each window averages, as [H_out, W_out]."""
    factors = []
    for size, count, k, step, pad in zip(sizes, places, *window, strict=True):
        if not isinstance(size, int) or not isinstance(count, int):
            raise UnsupportedCase(
                f"the gradient of average pooling with uneven windows over the dynamic '{size}'"
            )
        start = np.arange(count) * step - pad
        low, high = (-pad, size + pad) if padded else (0, size)
        factors.append(np.minimum(start + k, high) - np.maximum(start, low))
    return np.outer(*factors).astype(np.float32)
