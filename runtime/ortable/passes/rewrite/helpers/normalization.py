"""Words of the rules about normalizations: their axes, sizes, scales and channels. In come results
of a match; out go facts and results. Called by rules of normalization and ort_norm."""

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
    size = dims.product_of(own)
    long = [axis for axis, each in enumerate(own) if each != 1]
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
    """Whether a result that meets ``x`` in a broadcast has one element for each index along axis
    1 of ``x``, whose size is known."""
    if not (graph.has_shape(c) and graph.has_shape(x)) or graph.get_rank(x) < 2:
        return False
    own, wanted = list(graph.get_shape(c)), graph.get_shape(x)
    full = [1] * (len(wanted) - len(own)) + own
    others = [full[0], *full[2:]]
    fits = len(full) == len(wanted) and type(wanted[1]) is int and full[1] == wanted[1]
    return fits and all(dims.always_equal(size, 1) for size in others)
