"""Shapes of operators that view, join, split, repeat and flip tensors; most functions answer with
sizes, axes or indices and add no node. Shared ones are in `prelude.shapes`.
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
    """Broadcast ``x`` against ``other``; by their shapes at run time, where either of two dynamic
    sizes may be the 1.
    """
    op = OpBuilder(graph)
    sizes = broadcast(tuple(shape_of(graph, x)), tuple(shape_of(graph, other)))
    if sizes is not None:
        return expanded(graph, x, list(sizes))
    result = op.Expand(x, op.Shape(other))
    if not graph.has_rank(result):
        graph.set_rank(result, max(rank_of(graph, x), rank_of(graph, other)))
    return result


def repeat_indices(graph: Graph, counts: Result) -> Result:
    """The int64 vector that contains each index ``i`` of the 1-d ``counts`` ``counts[i]`` times."""
    op = OpBuilder(graph)
    if shape_or_none(graph, counts) == (0,):
        return consts(graph, [], dtypes.int64)
    most = op.ReduceMax(cast(graph, counts, dtypes.int64), keepdims=0)
    ramp = op.Range(const(graph, 0, dtypes.int64), most, const(graph, 1, dtypes.int64))
    rows = unsqueezed(graph, cast(graph, counts, dtypes.int64), [1])
    result = op.NonZero(op.Less(ramp, rows))
    return op.Gather(result, const(graph, 0, dtypes.int64), axis=0)


def unflat_sizes(graph: Graph, x: Result, axis: Int, sizes: SymInts) -> SymInts:
    """The shape of ``x`` with one dimension replaced by ``sizes``, of which one may be -1."""
    shape = list(shape_of(graph, x))
    position = normalize_axis(axis, len(shape))
    rest = dims.product_of([size for size in sizes if not is_inferred(size)])
    result = [shape[position] // rest if is_inferred(size) else size for size in sizes]
    return [*shape[:position], *result, *shape[position + 1 :]]


def all_but(values: SymInts, axes: Ints) -> SymInts:
    """The values whose index is not in ``axes`` (counted from the front)."""
    return [value for axis, value in enumerate(values) if axis not in axes]


def insert_at(values: SymInts, index: Int, value: SymInt) -> SymInts:
    """Insert one more value before the one at ``index``."""
    return [*values[:index], value, *values[index:]]


def chunk_count(graph: Graph, x: Result, axis: Int, size: SymInt, otherwise: Int) -> Int:
    """The number of pieces of ``size`` along an axis; ``otherwise`` (torch's own count) when a size
    is dynamic, or where the axis is empty, of which torch makes as many as requested.
    """
    have = dim_of(graph, x, axis)
    if not (isinstance(have, int) and isinstance(size, int)) or not size:
        return otherwise
    return max(-(-have // size), 1)


def cat_list(graph: Graph, xs: Results) -> Results:
    """The results that torch.cat joins, in their common dtype: empty 1-d ones are skipped next to
    others."""
    common = result_type(graph, xs)
    nonempty = [x for x in xs if shape_or_none(graph, x) != (0,)]
    return [cast(graph, x, common) for x in nonempty or xs[:1]]


def broadcast_except(graph: Graph, x: Result, y: Result, axis: Int) -> SymInts:
    """The shape of ``x`` broadcast against that of ``y`` (one rank) along every axis but one."""
    own = list(shape_of(graph, x))
    result = broadcast(tuple(all_but(own, [axis])), tuple(all_but(shape_of(graph, y), [axis])))
    if result is None:
        raise UnsupportedCase("shapes whose common shape depends on which dynamic size is 1")
    return insert_at(list(result), axis, own[axis])


def common_sizes(graph: Graph, xs: Results) -> SymInts:
    """The shape to which results broadcast together.

    Raises:
        UnsupportedCase: either of two dynamic sizes may be the 1 that broadcasts.
    """
    result = broadcast(*(tuple(shape_of(graph, x)) for x in xs))
    if result is None:
        raise UnsupportedCase("shapes whose common shape depends on which dynamic size is 1")
    return list(result)


def flipped_along(graph: Graph, x: Result, axes: Ints) -> Result:
    """Reverse ``x`` along ``axes`` (counted from the front)."""
    count = len(axes)
    return OpBuilder(graph).Slice(
        x,
        *(
            consts(graph, values, dtypes.int64)
            for values in ([-1] * count, [-(2**63)] * count, list(axes), [-1] * count)
        ),
    )


def rolled_along(graph: Graph, x: Result, shifts: SymInts, axes: Ints) -> Result:
    """Shift the elements of each axis, with wraparound."""
    for shift, axis in zip(shifts, axes, strict=True):
        size = dim_of(graph, x, axis)
        if isinstance(size, int) and size == 0:
            continue
        cut = -shift % size
        if isinstance(cut, int) and cut == 0:
            continue
        position = normalize_axis(axis, rank_of(graph, x))
        parts = [sliced(graph, x, position, cut, 2**63 - 1), sliced(graph, x, position, 0, cut)]
        shape = tuple(shape_of(graph, x))
        x = graph.make_node("Concat", parts, axis=position)
        graph.set_shape(x, shape)
    return x
