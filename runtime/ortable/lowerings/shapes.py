"""Shape helpers for operators that view, join, split, repeat and flip tensors.

Helpers that return sizes or counts add no node. `prelude.shapes` has the shape helpers that other
operators use too.
"""

from __future__ import annotations

from ortable import dims, dtypes
from ortable.errors import UnsupportedCase
from ortable.inference import broadcast, normalize_axis
from ortable.ir import Graph
from ortable.prelude.facts import (
    Int,
    Ints,
    Result,
    Results,
    SymInt,
    SymInts,
    dim_of,
    rank_of,
    shape_of,
)
from ortable.prelude.metadata import shape_or_none
from ortable.prelude.op_builder import OpBuilder
from ortable.prelude.promotion import result_type
from ortable.prelude.shapes import expanded, is_inferred, sliced
from ortable.prelude.values import cast, const, consts, unsqueezed

__all__ = [
    "broadcast_except",
    "broadcast_to_common",
    "cat_list",
    "chunk_count",
    "common_sizes",
    "flipped_along",
    "repeat_indices",
    "rolled_along",
    "unflat_sizes",
]


def broadcast_to_common(graph: Graph, x: Result, other: Result) -> Result:
    """Expand ``x`` to the common shape of ``x`` and ``other``; at run time, if sizes may be 1."""
    op = OpBuilder(graph)
    sizes = broadcast(tuple(shape_of(graph, x)), tuple(shape_of(graph, other)))
    if sizes is not None:
        return expanded(graph, x, list(sizes))
    result = op.Expand(x, op.Shape(other))
    if not graph.has_rank(result):
        graph.set_rank(result, max(rank_of(graph, x), rank_of(graph, other)))
    return result


def repeat_indices(graph: Graph, counts: Result) -> Result:
    """Repeat each index i of the 1-d ``counts`` counts[i] times: [2, 0, 1] gives [0, 0, 2]."""
    op = OpBuilder(graph)
    if shape_or_none(graph, counts) == (0,):
        return consts(graph, [], dtypes.int64)
    max_count = op.ReduceMax(cast(graph, counts, dtypes.int64), keepdims=0)
    repetition = op.Range(const(graph, 0, dtypes.int64), max_count, const(graph, 1, dtypes.int64))
    count_column = unsqueezed(graph, cast(graph, counts, dtypes.int64), [1])
    coordinates = op.NonZero(op.Less(repetition, count_column))
    return op.Gather(coordinates, const(graph, 0, dtypes.int64), axis=0)


def unflat_sizes(graph: Graph, x: Result, axis: Int, sizes: SymInts) -> SymInts:
    """Return the shape of ``x`` with dimension ``axis`` split into ``sizes``; one may be -1."""
    shape = list(shape_of(graph, x))
    index = normalize_axis(axis, len(shape))
    known_product = dims.product_of([size for size in sizes if not is_inferred(size)])
    resolved = [shape[index] // known_product if is_inferred(size) else size for size in sizes]
    return [*shape[:index], *resolved, *shape[index + 1 :]]


def all_but(values: SymInts, axes: Ints) -> SymInts:
    """Return the values whose index is not in the nonnegative ``axes``."""
    return [value for axis, value in enumerate(values) if axis not in axes]


def insert_at(values: SymInts, index: Int, value: SymInt) -> SymInts:
    """Return ``values`` with ``value`` inserted before position ``index``."""
    return [*values[:index], value, *values[index:]]


def chunk_count(graph: Graph, x: Result, axis: Int, size: SymInt, traced_count: Int) -> Int:
    """Return the number of chunks of ``size`` along an axis.

    Return ``traced_count``, the number of chunks that torch traced, if a size is dynamic or
    ``size`` is 0: torch splits an empty axis into as many chunks as requested.
    """
    axis_size = dim_of(graph, x, axis)
    if not (isinstance(axis_size, int) and isinstance(size, int)) or not size:
        return traced_count
    return max(-(-axis_size // size), 1)


def cat_list(graph: Graph, xs: Results) -> Results:
    """Return what torch.cat joins, in the common dtype: all but 1-d empty tensors, at least one."""
    dtype = result_type(graph, xs)
    nonempty = [x for x in xs if shape_or_none(graph, x) != (0,)]
    return [cast(graph, x, dtype) for x in nonempty or xs[:1]]


def broadcast_except(graph: Graph, x: Result, y: Result, axis: Int) -> SymInts:
    """Broadcast the shapes of ``x`` and ``y`` except along ``axis``, which keeps ``x``'s size."""
    x_sizes = list(shape_of(graph, x))
    y_sizes = shape_of(graph, y)
    common = broadcast(tuple(all_but(x_sizes, [axis])), tuple(all_but(y_sizes, [axis])))
    if common is None:
        raise UnsupportedCase("shapes whose common shape depends on which dynamic size is 1")
    return insert_at(list(common), axis, x_sizes[axis])


def common_sizes(graph: Graph, xs: Results) -> SymInts:
    """Return the shape to which all of ``xs`` broadcast."""
    common = broadcast(*(tuple(shape_of(graph, x)) for x in xs))
    if common is None:
        raise UnsupportedCase("shapes whose common shape depends on which dynamic size is 1")
    return list(common)


def flipped_along(graph: Graph, x: Result, axes: Ints) -> Result:
    """Reverse ``x`` along the nonnegative ``axes``."""
    count = len(axes)
    return OpBuilder(graph).Slice(
        x,
        *(
            consts(graph, values, dtypes.int64)
            for values in ([-1] * count, [-(2**63)] * count, list(axes), [-1] * count)
        ),
    )


def rolled_along(graph: Graph, x: Result, shifts: SymInts, axes: Ints) -> Result:
    """Shift the elements of ``x`` along ``axes``, wrapping around at the ends, like torch.roll."""
    for shift, axis in zip(shifts, axes, strict=True):
        size = dim_of(graph, x, axis)
        if isinstance(size, int) and size == 0:
            continue
        split_index = -shift % dims.max_of(1, size)
        if isinstance(split_index, int) and split_index == 0:
            continue
        nonnegative_axis = normalize_axis(axis, rank_of(graph, x))
        parts = [
            sliced(graph, x, nonnegative_axis, split_index, 2**63 - 1),
            sliced(graph, x, nonnegative_axis, 0, split_index),
        ]
        shape = tuple(shape_of(graph, x))
        x = graph.make_node("Concat", parts, axis=nonnegative_axis)
        graph.set_shape(x, shape)
    return x
