"""Helpers of the rules about convolutions and pools: pads that they can add themselves, and linear
layers that run faster as convolutions. Called by rules of convolution and ort_pointwise.
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

_MEASURED_ROWS = range(32, 1025)  # what was measured
_MAX_WIDTH = 8192  # a wider product, of words, is slower as a convolution
_BLOCK = 16  # channels that the kernels take together


# -- borders


def summed_pads(
    graph: Graph,
    x: Result,
    borders: Result,
    value: Result | None,
    axes: Result | None,
    pads: Ints | None,
) -> Ints:
    """The attribute ``pads`` plus the zeros that a Pad adds on all axes but the first two; [] if
    the Pad does anything else.
    """
    border_sizes = small_constant(graph, borders)
    if border_sizes is None or border_sizes.ndim != 1 or not graph.has_rank(x):
        return []
    if value:
        filled = small_constant(graph, value)
        if filled is None or np.any(filled != 0) or np.signbit(filled).any():
            return []
    rank = graph.get_rank(x)
    which = small_constant(graph, axes) if axes else np.arange(rank)
    if which is None or len(border_sizes) != 2 * which.size:
        return []
    full = np.zeros((rank, 2), int)  # before and after each axis
    np.add.at(full, which.reshape(-1) % rank, border_sizes.reshape(2, -1).T)
    if full.min(initial=0) < 0 or full[:2].any():
        return []
    sides = full[2:].T.reshape(-1).tolist()
    return [a + b for a, b in zip(pads or [0] * len(sides), sides, strict=True)]


def pads_without_end(
    graph: Graph,
    whole: Result,
    part: Result,
    starts: Result,
    pads: Ints | None,
    strides: Ints | None,
) -> Ints:
    """``pads`` of the convolution ``whole`` that give only its first positions, ``part``, which a
    Slice takes.

    Empty where the Slice cuts more than zeros give, cuts elsewhere, or leaves nothing: the kernel
    would not fit.
    """
    first, before, after = small_constant(graph, starts), *_known_shapes(graph, whole, part)
    if first is None or first.any() or not pads or not before or len(before) != len(after):
        return []
    if not all(map(dims.always_equal, before[:2], after[:2])):
        return []
    count = len(pads) // 2
    cropped = list(pads)
    for axis, step in enumerate(strides or [1] * count):
        size, less, zeros = before[2 + axis], after[2 + axis], pads[count + axis]
        cut = [n for n in range(max(zeros, 0) // step + 1) if dims.always_equal(less + n, size)]
        if not cut or not less >= 1:
            return []
        cropped[count + axis] -= cut[0] * step
    return cropped


def _known_shapes(graph: Graph, *results: Result) -> list[Sequence[Any]]:
    """The shape of each result; empty where it is unknown."""
    return [graph.get_shape(result) if graph.has_shape(result) else () for result in results]


def has_explicit_pads(attributes: Any) -> Bool:
    """Whether the attributes of a convolution or a pool give its pads as numbers."""
    return attributes.get("auto_pad", "NOTSET") in ("NOTSET", b"NOTSET") and not attributes.get(
        "ceil_mode"
    )


# -- linear layers as convolutions


def suits_pointwise_convolution(graph: Graph, x: Result, weight: Result, transposed: Bool) -> Bool:
    """Whether the rows of ``x`` go through a constant float32 matrix, [K, N] or (``transposed``)
    [N, K], of sizes for which ONNX Runtime's convolutions are faster than its products.
    """
    if not (is_float32(graph, x) and is_float32(graph, weight) and is_constant(graph, weight)):
        return False
    if known_rank(graph, x) < 2 or known_rank(graph, weight) != 2 or not graph.has_shape(x):
        return False
    sizes = [*shape_of(graph, x), *shape_of(graph, weight)]
    if not is_static(sizes):
        return False
    blocks = all(size % _BLOCK == 0 and 0 < size <= _MAX_WIDTH for size in shape_of(graph, weight))
    return blocks and math.prod(shape_of(graph, x)[:-1]) in _MEASURED_ROWS


def convolved_rows(
    graph: Graph, x: Result, weight: Result, transposed: Bool, bias: Result | None = None
) -> Result:
    """Rows [..., K] times a matrix as a convolution of an image [1, K, M, 1] of M positions,
    transposed back to rows, [1, M, 1, N].
    """
    image = consts(graph, [1, -1, 1, shape_of(graph, x)[-1]], dtypes.int64)
    before = find_producer(graph, x, "Reshape")  # of the same numbers in the same order
    flat = graph.make_node("Reshape", [x if before is None else before.inputs[0], image])
    matrix = weight if transposed else graph.make_node("Transpose", [weight], perm=[1, 0])
    filters = graph.make_node("Unsqueeze", [matrix, consts(graph, [2, 3], dtypes.int64)])
    columns = graph.make_node("Transpose", [flat], perm=[0, 3, 1, 2])
    convolved = graph.make_node("Conv", [columns, filters, bias], kernel_shape=[1, 1])
    return graph.make_node("Transpose", [convolved], perm=[0, 2, 3, 1])
