"""Helpers of the rules about indices: composed Gathers, grids of indices, one-hot comparisons."""

from __future__ import annotations

import numpy as np

from ortable import dims
from ortable.dims import Dim
from ortable.inference.shape import Shape, normalize_axis
from ortable.ir import Graph
from ortable.passes.analysis.constants import large_constant, small_constant
from ortable.passes.analysis.iota import iota_of
from ortable.prelude.facts import Bool, Int, Opaque, Result
from ortable.prelude.metadata import shape_or_none

__all__ = [
    "class_axis",
    "composed_indices",
    "enumerates_elements",
]

_MAX_CLASSES = 1 << 20  # longer constants are not compared with 0, 1, 2, ...


# -- indices of Gathers


def composed_indices(
    graph: Graph, x: Result, axis: Int, first: Result, again: Int, second: Result
) -> Opaque:
    """Return the constant indices of two Gathers along one axis as one array, else None."""
    rank = graph.values[x].rank
    first_indices, second_indices = small_constant(graph, first), small_constant(graph, second)
    if (
        rank is None
        or first_indices is None
        or second_indices is None
        or first_indices.ndim != 1
        or not first_indices.size
    ):
        return None
    if normalize_axis(axis, rank) != normalize_axis(again, rank):
        return None
    if second_indices.size and not (
        -first_indices.size <= second_indices.min() and second_indices.max() < first_indices.size
    ):
        return None
    return first_indices[second_indices]


# -- grids of indices


def enumerates_elements(graph: Graph, x: Result, indices: Result) -> Bool:
    """Whether a GatherND with these indices reads all elements of the leading axes in order."""
    shape, grid_shape = shape_or_none(graph, x), shape_or_none(graph, indices)
    if shape is None or grid_shape is None or not grid_shape or not isinstance(grid_shape[-1], int):
        return False
    if grid_shape[-1] < 1:  # no axis is indexed, which ONNX does not allow
        return False
    array = small_constant(graph, indices)
    if array is not None:
        return _is_grid(array, shape)
    node = graph.values[indices].producer
    if node is None or node.key != "Concat" or len(node.inputs) != grid_shape[-1]:
        return False
    if normalize_axis(node.attrs["axis"], len(grid_shape)) != len(grid_shape) - 1:
        return False
    axes: list[int] = []
    for index, name in enumerate(node.inputs):
        counter = iota_of(graph, name)
        if counter is None or not dims.always_equal(counter[1], shape[index]):
            return False
        axes.append(counter[0])
    other_sizes = [size for axis, size in enumerate(grid_shape[:-1]) if axis not in axes]
    in_order = axes == sorted(set(axes)) and max(axes) < len(grid_shape) - 1
    return in_order and all(isinstance(size, int) and size == 1 for size in other_sizes)


def _is_grid(array: np.ndarray, shape: Shape) -> bool:
    sizes = [size for size in shape[: array.shape[-1]] if isinstance(size, int)]
    if len(sizes) < array.shape[-1]:
        return False
    rows = array.reshape(-1, array.shape[-1])
    if len(rows) != dims.product_of(sizes):
        return False
    expected = np.stack(np.unravel_index(np.arange(len(rows)), sizes), -1) if len(rows) else rows
    return bool((rows == expected).all())


# -- one-hot choices


def class_axis(graph: Graph, classes: Result, indices: Result) -> Int:
    """Return the axis of size 1 of ``indices`` along which ``classes`` is 0, 1, 2, ..., else -1."""
    shape, classes_shape = shape_or_none(graph, indices), shape_or_none(graph, classes)
    if shape is None or classes_shape is None or len(classes_shape) > len(shape):
        return -1
    long_axes = [axis for axis, size in enumerate(classes_shape) if not dims.always_equal(size, 1)]
    if len(long_axes) != 1:
        return -1
    axis = long_axes[0] - len(classes_shape) + len(shape)
    return (
        axis
        if dims.always_equal(shape[axis], 1) and _is_arange(graph, classes, classes_shape)
        else -1
    )


def _is_arange(graph: Graph, x: str, shape: tuple[Dim, ...]) -> bool:
    """Whether a constant is 0, 1, 2, ... in this shape."""
    size = dims.product_of(shape)
    if not isinstance(size, int) or size > _MAX_CLASSES:
        return False
    array = large_constant(graph, x)
    if array is None:
        return False
    values = array.reshape(-1)
    return values.dtype.kind == "i" and bool((values == np.arange(size)).all())
