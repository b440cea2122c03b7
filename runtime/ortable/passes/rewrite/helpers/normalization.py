"""Helpers of the rules about normalizations: their axes, sizes, scales and channels. Called by
rules of normalization and ort_norm.
"""

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
    """The first of the constant axes, counted from the end, if they are all trailing axes of ``x``
    and have known sizes; 0 otherwise.
    """
    named = small_constant(graph, axes)
    if named is None or named.ndim > 1 or not graph.has_shape(x):
        return 0
    shape = graph.get_shape(x)
    trailing = sorted(int(axis) % len(shape) for axis in named.reshape(-1)) if shape else []
    if not trailing or trailing != list(range(trailing[0], len(shape))):
        return 0
    is_known = all(type(size) is int and size > 0 for size in shape[trailing[0] :])
    return trailing[0] - len(shape) if is_known else 0


def one_row_axis(graph: Graph, x: Result, mean: Result, count: Result) -> Int:
    """The first axis of ``x`` longer than 1, counted from the end, if ``mean`` is one number, the
    mean of all ``count`` elements of ``x``; 0 otherwise.
    """
    shapes = [graph.get_shape(item) if graph.has_shape(item) else None for item in (x, mean)]
    own, one = shapes
    if own is None or one is None or not all(type(size) is int for size in (*own, *one)):
        return 0
    size = dims.product_of(own)
    long = [axis for axis, item in enumerate(own) if item != 1]
    if (
        not long
        or len(one) > len(own)
        or dims.product_of(one) != 1
        or number_of(graph, count) != size
    ):
        return 0
    return long[0] - len(own)


# -- scales


def is_channels(graph: Graph, c: Result, x: Result) -> Bool:
    """Whether a result that broadcasts with ``x`` has one element for each index along axis 1 of
    ``x``, whose size is known.
    """
    if not (graph.has_shape(c) and graph.has_shape(x)) or graph.get_rank(x) < 2:
        return False
    own, target = list(graph.get_shape(c)), graph.get_shape(x)
    full = [1] * (len(target) - len(own)) + own
    others = [full[0], *full[2:]]
    fits = len(full) == len(target) and type(target[1]) is int and full[1] == target[1]
    return fits and all(dims.always_equal(size, 1) for size in others)
