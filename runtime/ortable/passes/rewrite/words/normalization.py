"""Words of the rules about normalizations: their axes, sizes, scales and channels. In come results
of a match; out go facts and results. Called by rules of normalization and ort_norm."""

from __future__ import annotations

import math

import numpy as np

from ortable import dims, dtypes
from ortable.ir import Graph
from ortable.passes.analysis.constants import small_constant
from ortable.prelude.facts import Bool, Float, Int, Ints, Result, dim_of
from ortable.prelude.values import consts

from .numbers import is_float32, number_of
from .shapes import known_rank

__all__ = [
    "as_channels",
    "is_channels",
    "is_groups",
    "is_last_axis",
    "is_sizes_from",
    "one_row_axis",
    "scales_rows",
    "sizes_from",
    "small_epsilon",
    "spatial_axes",
    "trailing_axes",
]


# -- axes


def trailing_axes(graph: Graph, axes: Result, x: Result) -> Int:
    """The first of the axes that a constant names, counted from the end, if they are all axes of
    ``x`` from there on with known sizes; 0 otherwise."""
    named = small_constant(graph, axes)
    if named is None or named.ndim > 1 or not graph.has_shape(x):
        return 0
    shape = graph.get_shape(x)
    found = sorted(int(axis) % len(shape) for axis in named.reshape(-1)) if shape else []
    if not found or found != list(range(found[0], len(shape))):
        return 0
    known = all(type(size) is int and size > 0 for size in shape[found[0] :])
    return found[0] - len(shape) if known else 0


def one_row_axis(graph: Graph, x: Result, mean: Result, count: Result) -> Int:
    """The first axis of ``x`` that is longer than 1, counted from the end, where ``mean`` is one
    number, of ``count`` elements, which are all of ``x``; 0 otherwise."""
    shapes = [graph.get_shape(each) if graph.has_shape(each) else None for each in (x, mean)]
    own, one = shapes
    if own is None or one is None or not all(type(size) is int for size in (*own, *one)):
        return 0
    size = dims.prod(own)
    long = [axis for axis, each in enumerate(own) if each != 1]
    if not long or len(one) > len(own) or dims.prod(one) != 1 or number_of(graph, count) != size:
        return 0
    return long[0] - len(own)


def spatial_axes(graph: Graph, axes: Result, x: Result) -> Bool:
    """Whether a constant names all axes of ``x`` but the first two."""
    return graph.has_rank(x) and trailing_axes(graph, axes, x) == 2 - graph.get_rank(x)


def is_last_axis(graph: Graph, x: Result, axes: Result) -> Bool:
    """Whether the axes of a reduction are the last one of ``x`` alone."""
    given, rank = small_constant(graph, axes), known_rank(graph, x)
    return given is not None and rank > 0 and given.reshape(-1).tolist() in ([-1], [rank - 1])


def sizes_from(graph: Graph, x: Result, axis: Int) -> Ints:
    """The sizes of the last axes, from ``axis`` (negative) on."""
    return list(graph.get_shape(x)[axis:]) if axis < 0 and graph.has_shape(x) else []


def is_sizes_from(graph: Graph, c: Result, x: Result, axis: Int) -> Bool:
    """Whether a result has exactly the sizes of ``x`` from an axis on."""
    if not (graph.has_shape(c) and graph.has_shape(x)):
        return False
    own, wanted = graph.get_shape(c), graph.get_shape(x)
    behind = wanted[axis % len(wanted) :] if wanted else ()
    return len(own) == len(behind) and all(map(dims.same, own, behind))


# -- scales


def small_epsilon(value: Float) -> Bool:
    """Whether a number is a positive one that a float32 attribute holds."""
    return value > 0 and math.isfinite(value) and bool(np.float32(value) > 0)


def scales_rows(graph: Graph, weight: Result, x: Result) -> Bool:
    """Whether a float32 vector has one number for each index of the last axis of ``x``."""
    if not is_float32(graph, x) or not is_float32(graph, weight) or known_rank(graph, x) < 1:
        return False
    if not graph.has_shape(x) or not graph.has_shape(weight) or known_rank(graph, weight) != 1:
        return False
    return dims.same(dim_of(graph, weight, 0), dim_of(graph, x, -1))


def is_channels(graph: Graph, c: Result, x: Result) -> Bool:
    """Whether a result that meets ``x`` in a broadcast has one element for each index along axis
    1 of ``x``, whose size is known."""
    if not (graph.has_shape(c) and graph.has_shape(x)) or graph.get_rank(x) < 2:
        return False
    own, wanted = list(graph.get_shape(c)), graph.get_shape(x)
    full = [1] * (len(wanted) - len(own)) + own
    others = [full[0], *full[2:]]
    fits = len(full) == len(wanted) and type(wanted[1]) is int and full[1] == wanted[1]
    return fits and all(dims.same(size, 1) for size in others)


def is_groups(graph: Graph, x: Result, rows: Result) -> Bool:
    """Whether ``rows`` has the first axis of ``x``, the channels in groups, and all the rest."""
    if not (graph.has_shape(x) and graph.has_shape(rows)):
        return False
    own, shape = graph.get_shape(rows), graph.get_shape(x)
    if len(own) != 3 or len(shape) < 3 or not dims.same(own[0], shape[0]):
        return False
    if type(own[1]) is not int or type(shape[1]) is not int:
        return False
    return own[1] > 0 and shape[1] % own[1] == 0


def as_channels(graph: Graph, c: Result, count: Int) -> Result:
    """A result with ``count`` elements as one of rank 1."""
    if graph.get_rank(c) == 1:
        return c
    return graph.make_node("Reshape", [c, consts(graph, [count], dtypes.int64)])
