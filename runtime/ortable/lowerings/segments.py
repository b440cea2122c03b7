"""Lower reductions over segments of an axis; the segment lengths are known only at run time."""

from __future__ import annotations

from math import inf, nan

from ortable import dtypes
from ortable.ir import Graph, ResultSpec
from ortable.prelude.facts import axis_of, dim_of, rank_of, shape_of
from ortable.prelude.indexing import scatter_elements
from ortable.prelude.op_builder import OpBuilder
from ortable.prelude.promotion import opmath_dtype
from ortable.prelude.shapes import expanded, iota, sliced
from ortable.prelude.values import cast, const, filled, unsqueezed

from .sorting import searchsorted

__all__ = []

_INITIAL_VALUES = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -inf, "min": inf}


def segment_reduce(
    graph: Graph,
    res: ResultSpec,
    data: str,
    reduce: str,
    lengths: str | None,
    offsets: str | None,
    axis: int,
    initial: float | None,
) -> str:
    """Lower aten::segment_reduce: segment s is the elements from offsets[s] to offsets[s + 1]."""
    op, dtype = OpBuilder(graph), graph.get_type(data)
    dim = axis_of(graph, data, axis)
    if lengths is not None:
        last = const(graph, rank_of(graph, lengths) - 1, dtypes.int64)
        ends = op.CumSum(cast(graph, lengths, dtypes.int64), last)
        zero_shape = [*shape_of(graph, lengths)[:-1], 1]
        zero = filled(graph, zero_shape, 0, dtypes.int64)
        edges = op.Concat(zero, ends, axis=rank_of(graph, lengths) - 1)
    else:
        assert offsets is not None, "torch requires lengths or offsets"
        edges = cast(graph, offsets, dtypes.int64)
    count = dim_of(graph, edges, -1) - 1
    # index s + 1 is segment s; indices 0 and count + 1, before and after all segments, are cut off
    positions = iota(graph, 0, dim_of(graph, data, dim), 1)
    batch_sizes = list(shape_of(graph, edges)[:-1])
    positions = expanded(graph, positions, [*batch_sizes, dim_of(graph, data, dim)])
    index = searchsorted(graph, edges, positions, True, dtypes.int64)
    rank = rank_of(graph, data)
    index = unsqueezed(graph, index, list(range(dim + 1, rank)))
    index = expanded(graph, index, list(shape_of(graph, data)))
    sizes = list(shape_of(graph, data))
    sizes[dim] = count + 2
    start = _INITIAL_VALUES[reduce] if initial is None else float(initial)
    compute_dtype = opmath_dtype(dtype)
    reduction = {"prod": "mul", "max": "max", "min": "min"}.get(reduce, "add")
    base = expanded(graph, const(graph, start, compute_dtype), sizes)
    result = scatter_elements(graph, base, dim, index, cast(graph, data, compute_dtype), reduction)
    if reduce == "mean":
        result = _segment_mean(graph, result, dim, index, sizes, initial)
    return cast(graph, sliced(graph, result, dim, 1, count + 1), dtype)


def _segment_mean(
    graph: Graph, total: str, dim: int, index: str, sizes: list[int], initial: float | None
) -> str:
    """Divide totals by element counts; an empty segment gives ``initial``, or NaN without it."""
    op, compute_dtype = OpBuilder(graph), graph.get_type(total)
    zeros = expanded(graph, const(graph, 0, dtypes.int64), sizes)
    count = scatter_elements(graph, zeros, dim, index, const(graph, 1, dtypes.int64), "add")
    is_empty = op.Equal(count, 0)
    empty_value = const(graph, nan if initial is None else float(initial), compute_dtype)
    return op.Where(is_empty, empty_value, op.Div(total, cast(graph, count, compute_dtype)))
