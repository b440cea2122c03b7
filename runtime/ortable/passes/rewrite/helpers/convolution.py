"""Helpers of the rules about convolutions and pools.

They merge pads into the operator, and run linear layers as convolutions where that is faster.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ortable import dims, dtypes
from ortable.ir import Graph
from ortable.passes.analysis.constants import find_producer, small_constant
from ortable.passes.rewrite.helpers.numbers import is_float32
from ortable.passes.rewrite.helpers.shapes import known_rank
from ortable.prelude.facts import (
    Bool,
    Ints,
    Result,
    is_constant,
    is_static,
    shape_of,
)
from ortable.prelude.values import consts

__all__ = [
    "convolved_rows",
    "has_explicit_pads",
    "pads_without_end",
    "suits_pointwise_convolution",
    "summed_pads",
]

_MEASURED_ROWS = range(32, 1025)  # row counts for which convolutions measured faster
_MAX_WIDTH = 8192  # wider products, such as those over a vocabulary, are slower as convolutions
_BLOCK = 16  # channels in a block of the kernels


# -- borders


def summed_pads(
    graph: Graph,
    x: Result,
    borders: Result,
    value: Result | None,
    axes: Result | None,
    pads: Ints | None,
) -> Ints:
    """Return ``pads`` plus those of a Pad; [] unless the Pad only adds zeros to spatial axes."""
    border_sizes = small_constant(graph, borders)
    if border_sizes is None or border_sizes.ndim != 1 or not graph.has_rank(x):
        return []
    if value:
        filled = small_constant(graph, value)
        if filled is None or np.any(filled != 0) or np.signbit(filled).any():
            return []
    rank = graph.get_rank(x)
    padded_axes = small_constant(graph, axes) if axes else np.arange(rank)
    if padded_axes is None or len(border_sizes) != 2 * padded_axes.size:
        return []
    pads_by_axis = np.zeros((rank, 2), int)  # before and after
    np.add.at(pads_by_axis, padded_axes.reshape(-1) % rank, border_sizes.reshape(2, -1).T)
    if pads_by_axis.min(initial=0) < 0 or pads_by_axis[:2].any():
        return []
    sides = pads_by_axis[2:].T.reshape(-1).tolist()
    return [a + b for a, b in zip(pads or [0] * len(sides), sides, strict=True)]


def pads_without_end(
    graph: Graph,
    whole: Result,
    part: Result,
    starts: Result,
    pads: Ints | None,
    strides: Ints | None,
) -> Ints:
    """Return ``pads`` with which the convolution ``whole`` computes only ``part``, a Slice of it.

    The Slice has to start at index 0. Returns [] if the Slice removes more positions than the end
    pads add, removes positions of other axes, or removes every position.
    """
    start_values, whole_shape, part_shape = (
        small_constant(graph, starts),
        *_known_shapes(graph, whole, part),
    )
    if (
        start_values is None
        or start_values.any()
        or not pads
        or not whole_shape
        or len(whole_shape) != len(part_shape)
    ):
        return []
    if not all(map(dims.always_equal, whole_shape[:2], part_shape[:2])):
        return []
    count = len(pads) // 2
    cropped = list(pads)
    for axis, step in enumerate(strides or [1] * count):
        size, part_size, end_pad = whole_shape[2 + axis], part_shape[2 + axis], pads[count + axis]
        removed_counts = [
            n for n in range(max(end_pad, 0) // step + 1) if dims.always_equal(part_size + n, size)
        ]
        if not removed_counts or not part_size >= 1:
            return []
        cropped[count + axis] -= removed_counts[0] * step
    return cropped


def _known_shapes(graph: Graph, *results: Result) -> list[Sequence[Any]]:
    """Return the shape of each result; () if it is unknown."""
    return [graph.get_shape(result) if graph.has_shape(result) else () for result in results]


def has_explicit_pads(attributes: Any) -> Bool:
    """Whether a convolution or a pool has its pads as numbers, and sizes are not rounded up."""
    return attributes.get("auto_pad", "NOTSET") in ("NOTSET", b"NOTSET") and not attributes.get(
        "ceil_mode"
    )


# -- linear layers as convolutions


def suits_pointwise_convolution(graph: Graph, x: Result, weight: Result, transposed: Bool) -> Bool:
    """Whether a linear layer has sizes for which ONNX Runtime's convolutions are faster."""
    if not (is_float32(graph, x) and is_float32(graph, weight) and is_constant(graph, weight)):
        return False
    if known_rank(graph, x) < 2 or known_rank(graph, weight) != 2 or not graph.has_shape(x):
        return False
    sizes = [*shape_of(graph, x), *shape_of(graph, weight)]
    if not is_static(sizes):
        return False
    is_blocked = all(
        size % _BLOCK == 0 and 0 < size <= _MAX_WIDTH for size in shape_of(graph, weight)
    )
    return is_blocked and math.prod(shape_of(graph, x)[:-1]) in _MEASURED_ROWS


def convolved_rows(
    graph: Graph, x: Result, weight: Result, transposed: Bool, bias: Result | None = None
) -> Result:
    """Return rows times a matrix, computed as a convolution of an image [1, K, M, 1]."""
    image = consts(graph, [1, -1, 1, shape_of(graph, x)[-1]], dtypes.int64)
    reshape = find_producer(graph, x, "Reshape")  # a Reshape of a Reshape is a single Reshape
    flat = graph.make_node("Reshape", [x if reshape is None else reshape.inputs[0], image])
    matrix = weight if transposed else graph.make_node("Transpose", [weight], perm=[1, 0])
    filters = graph.make_node("Unsqueeze", [matrix, consts(graph, [2, 3], dtypes.int64)])
    columns = graph.make_node("Transpose", [flat], perm=[0, 3, 1, 2])
    convolved = graph.make_node("Conv", [columns, filters, bias], kernel_shape=[1, 1])
    return graph.make_node("Transpose", [convolved], perm=[0, 2, 3, 1])
