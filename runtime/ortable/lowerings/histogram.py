"""Lower histograms and bincount.

A histogram counts elements in equal bins, or between given edges, in one column or in several.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ortable import dims, dtypes
from ortable.ir import Graph, ResultSpec
from ortable.prelude.facts import Dtype, Result, dim_of, shape_of, static
from ortable.prelude.op_builder import OpBuilder
from ortable.prelude.promotion import opmath_dtype
from ortable.prelude.reductions import reduced_extreme
from ortable.prelude.shapes import as_flat, sliced
from ortable.prelude.values import as_vec, cast, const, reshape_to

from .creation import linspace
from .sorting import searchsorted

__all__ = [
    "bincount",
]


def lower_histc(graph: Graph, res: ResultSpec, self: str, bins: int, min: float, max: float) -> str:
    """Lower aten::histc: count from ``min`` to ``max``, or if they are equal, over all elements."""
    flat = as_flat(graph, self)
    limits = (float(min), float(max)) if min != max else None
    if min == max and dims.always_equal(dim_of(graph, flat, 0), 0):
        limits = (float(min), float(max))
    edges = _bin_edges(graph, flat, bins, limits, 1.0)
    return _count_bins(graph, [flat], [edges], [_bin_by_division(graph, flat, edges, bins)], None)


def lower_histogram(
    graph: Graph,
    res: ResultSpec,
    self: str,
    bins: int,
    range: Sequence[float] | None,
    weight: str | None,
    density: bool,
) -> tuple[str, str]:
    """Lower aten::histogram.bin_ct: return the counts and the edges of ``bins`` equal bins."""
    flat = as_flat(graph, self)
    edges = _histogram_edges(graph, flat, bins, range)
    indices = _bin_with_correction(graph, flat, edges, bins)
    return _weighted_counts(graph, [flat], [edges], [indices], weight, density), edges


def histogram_between(
    graph: Graph, res: ResultSpec, self: str, bins: str, weight: str | None, density: bool
) -> tuple[str, str]:
    """Lower aten::histogram.bins_tensor: return the counts between given edges, and the edges."""
    flat = as_flat(graph, self)
    indices = _bin_between(graph, flat, bins)
    return _weighted_counts(graph, [flat], [bins], [indices], weight, density), bins


def grid_edges(
    graph: Graph, res: ResultSpec, self: str, bins: Sequence[int], range: Sequence[float] | None
) -> list[str]:
    """Lower aten::_histogramdd_bin_edges: return one vector of edges per column."""
    columns = _split_columns(graph, self)
    return [
        _histogram_edges(graph, column, count, None if range is None else range[2 * i : 2 * i + 2])
        for i, (column, count) in enumerate(zip(columns, bins, strict=True))
    ]


def grid_counts(
    graph: Graph,
    res: ResultSpec,
    self: str,
    bins: Sequence[int],
    range: Sequence[float] | None,
    weight: str | None,
    density: bool,
) -> str:
    """Lower aten::_histogramdd_from_bin_cts: return the counts in a grid of equal bins."""
    columns, edges = _split_columns(graph, self), grid_edges(graph, res, self, bins, range)
    indices = [
        _bin_with_correction(graph, column, edge, count)
        for column, edge, count in zip(columns, edges, bins, strict=True)
    ]
    return _weighted_counts(graph, columns, edges, indices, weight, density)


def grid_counts_between(
    graph: Graph,
    res: ResultSpec,
    self: str,
    bins: Sequence[str],
    weight: str | None,
    density: bool,
) -> str:
    """Lower aten::_histogramdd_from_bin_tensors: return the counts in a grid of given edges."""
    columns = _split_columns(graph, self)
    indices = [
        _bin_between(graph, column, edge) for column, edge in zip(columns, bins, strict=True)
    ]
    return _weighted_counts(graph, columns, list(bins), indices, weight, density)


def _split_columns(graph: Graph, x: str) -> list[str]:
    """Return the columns of ``x``, with its other dimensions flattened."""
    shape = list(shape_of(graph, x))
    rows = reshape_to(graph, x, [dims.product_of(shape[:-1]), shape[-1]])
    return [
        OpBuilder(graph).Gather(rows, const(graph, index, dtypes.int64), axis=1)
        for index in range(static(shape[-1]))
    ]


def _histogram_edges(graph: Graph, x: str, bins: int, limits: Sequence[float] | None) -> str:
    """Return the edges of torch.histogram; a range of equal limits is extended by half a unit."""
    if limits is None and dims.always_equal(dim_of(graph, x, 0), 0):
        limits = (0.0, 1.0)
    return _bin_edges(graph, x, bins, limits, 0.5)


def _bin_edges(
    graph: Graph, x: str, bins: int, limits: Sequence[float] | None, margin: float
) -> str:
    dtype = graph.get_type(x)
    if limits is not None:
        low, high = limits
        if low == high:
            low, high = low - margin, high + margin
        return linspace(graph, low, high, bins + 1, dtype)
    op = OpBuilder(graph)
    minimum, maximum = (reduced_extreme(graph, x, [0], False, largest) for largest in (False, True))
    is_flat, extension = op.Equal(minimum, maximum), const(graph, margin, dtype)
    minimum = op.Where(is_flat, op.Sub(minimum, extension), minimum)
    maximum = op.Where(is_flat, op.Add(maximum, extension), maximum)
    return linspace(graph, minimum, maximum, bins + 1, dtype)


def _is_inside(graph: Graph, x: str, edges: str) -> str:
    op = OpBuilder(graph)
    first, last = (op.Gather(edges, const(graph, index, dtypes.int64), axis=0) for index in (0, -1))
    return op.And(op.GreaterOrEqual(x, first), op.LessOrEqual(x, last))


def _bin_by_division(graph: Graph, x: str, edges: str, bins: int) -> str:
    """Return the bin of each element by division, 0 for elements outside of the edges."""
    op, dtype = OpBuilder(graph), graph.get_type(x)
    first, last = (
        op.Gather(edges, const(graph, position, dtypes.int64), axis=0) for position in (0, -1)
    )
    scaled = op.Mul(op.Sub(x, first), const(graph, bins, dtype))
    position = op.Div(scaled, op.Sub(last, first))
    clamped = op.Where(_is_inside(graph, x, edges), position, 0)
    result = cast(graph, clamped, dtypes.int64)
    return op.Min(result, const(graph, bins - 1, dtypes.int64))  # the last edge is inside


def _bin_with_correction(graph: Graph, x: str, edges: str, bins: int) -> str:
    """Return the bin by division, moved by 1 if rounding put an element into the wrong bin."""
    op, one = OpBuilder(graph), const(graph, 1, dtypes.int64)
    bin_index = _bin_by_division(graph, x, edges, bins)
    is_below = op.Less(x, op.Gather(edges, bin_index))
    is_above = op.GreaterOrEqual(x, op.Gather(edges, op.Add(bin_index, one)))
    corrected = op.Add(op.Sub(bin_index, cast(graph, is_below, dtypes.int64)),
                         cast(graph, is_above, dtypes.int64))  # fmt: skip
    low, high = const(graph, 0, dtypes.int64), const(graph, bins - 1, dtypes.int64)
    return op.Max(op.Min(corrected, high), low)


def _bin_between(graph: Graph, x: str, edges: str) -> str:
    """Return the bin of each element between the edges by binary search."""
    op, one = OpBuilder(graph), const(graph, 1, dtypes.int64)
    bin_index = op.Sub(searchsorted(graph, edges, x, True, dtypes.int64), one)
    last = const(graph, dim_of(graph, edges, 0) - 2, dtypes.int64)
    return op.Max(op.Min(bin_index, last), 0)


def _count_bins(
    graph: Graph, columns: list[str], edges: list[str], indices: list[str], weight: str | None
) -> str:
    """Return the counts of a grid; elements outside go to an extra bin, which is cut off."""
    op = OpBuilder(graph)
    sizes = [dim_of(graph, bounds, 0) - 1 for bounds in edges]
    total = dims.product_of(sizes)
    bin_index, is_inside = indices[0], _is_inside(graph, columns[0], edges[0])
    for column, edge, axis_bin, size in zip(
        columns[1:], edges[1:], indices[1:], sizes[1:], strict=True
    ):
        bin_index = op.Add(op.Mul(bin_index, const(graph, size, dtypes.int64)), axis_bin)
        is_inside = op.And(is_inside, _is_inside(graph, column, edge))
    safe_index = op.Where(is_inside, bin_index, const(graph, total, dtypes.int64))
    flat = None if weight is None else as_flat(graph, weight)
    result = bincount(graph, safe_index, flat, as_vec(graph, total + 1), graph.get_type(columns[0]))
    return reshape_to(graph, sliced(graph, result, 0, 0, total), sizes)


def _weighted_counts(
    graph: Graph,
    columns: list[str],
    edges: list[str],
    indices: list[str],
    weight: str | None,
    density: bool,
) -> str:
    """Return the counts, or with ``density`` the share of the total divided by the bin size."""
    result = _count_bins(graph, columns, edges, indices, weight)
    if not density:
        return result
    op = OpBuilder(graph)
    result = op.Div(result, op.ReduceSum(result, keepdims=0))
    for axis, edge in enumerate(edges):
        widths: Any = op.Sub(sliced(graph, edge, 0, 1, 2**63 - 1), sliced(graph, edge, 0, 0, -1))
        shape = [-1 if index == axis else 1 for index in range(len(edges))]
        result = op.Div(result, reshape_to(graph, widths, shape))
    return result


def bincount(
    graph: Graph, places: Result, weights: Result | None, size: Result, dtype: Dtype
) -> Result:
    """Count the numbers below ``size`` (an int64 [1] result) in ``places``, or sum ``weights``."""
    op = OpBuilder(graph)
    compute_dtype = opmath_dtype(dtype)
    zeros = op.Expand(const(graph, 0, compute_dtype), size)
    if not graph.has_rank(zeros):
        graph.set_rank(zeros, 1)
    increment = (
        const(graph, 1, compute_dtype) if weights is None else cast(graph, weights, compute_dtype)
    )
    updates = op.Expand(increment, op.Shape(places))
    parts = [zeros, places, updates]
    return cast(graph, graph.make_node("ScatterElements", parts, axis=0, reduction="add"), dtype)
