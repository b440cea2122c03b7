"""Helpers of the rules about normalizations: their axes, sizes, scales and channels."""

from __future__ import annotations

from ortable import dims
from ortable.ir import Graph
from ortable.passes.analysis.constants import small_constant
from ortable.prelude.facts import Bool, Int, Result

from .numbers import number_of

__all__ = [
    "is_channels",
    "one_row_axis",
    "trailing_axes",
]


# -- axes


def trailing_axes(graph: Graph, axes: Result, x: Result) -> Int:
    """Return the first of the axes (negative) if they are the last axes, of known size, else 0."""
    axis_values = small_constant(graph, axes)
    if axis_values is None or axis_values.ndim > 1 or not graph.has_shape(x):
        return 0
    shape = graph.get_shape(x)
    trailing = sorted(int(axis) % len(shape) for axis in axis_values.reshape(-1)) if shape else []
    if not trailing or trailing != list(range(trailing[0], len(shape))):
        return 0
    is_known = all(type(size) is int and size > 0 for size in shape[trailing[0] :])
    return trailing[0] - len(shape) if is_known else 0


def one_row_axis(graph: Graph, x: Result, mean: Result, count: Result) -> Int:
    """Return the first axis (negative) of ``x`` longer than 1 if all axes are reduced, else 0.

    All axes are reduced if ``mean`` has one element and ``count`` is the number of elements.
    """
    shapes = [graph.get_shape(item) if graph.has_shape(item) else None for item in (x, mean)]
    shape, mean_shape = shapes
    if (
        shape is None
        or mean_shape is None
        or not all(type(size) is int for size in (*shape, *mean_shape))
    ):
        return 0
    size = dims.product_of(shape)
    long_axes = [axis for axis, item in enumerate(shape) if item != 1]
    if (
        not long_axes
        or len(mean_shape) > len(shape)
        or dims.product_of(mean_shape) != 1
        or number_of(graph, count) != size
    ):
        return 0
    return long_axes[0] - len(shape)


# -- scales


def is_channels(graph: Graph, c: Result, x: Result) -> Bool:
    """Whether ``c`` broadcasts with ``x`` and has an element for each index of axis 1 of ``x``."""
    if not (graph.has_shape(c) and graph.has_shape(x)) or graph.get_rank(x) < 2:
        return False
    shape, target_shape = list(graph.get_shape(c)), graph.get_shape(x)
    padded_shape = [1] * (len(target_shape) - len(shape)) + shape
    other_sizes = [padded_shape[0], *padded_shape[2:]]
    has_channel_axis = (
        len(padded_shape) == len(target_shape)
        and type(target_shape[1]) is int
        and padded_shape[1] == target_shape[1]
    )
    return has_channel_axis and all(dims.always_equal(size, 1) for size in other_sizes)
