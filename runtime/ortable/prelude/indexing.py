"""Find indices, gather and scatter by them, and sort; each function adds nodes.

They work around gaps of ONNX Runtime: reductions of half floats and bools, NaN in maxima and
in sorted sequences.
"""

from __future__ import annotations

from math import inf, nan

import numpy as np

from ortable import dims, dtypes
from ortable.inference import normalize_axis
from ortable.ir import Graph

from .facts import Bool, Int, Result, Str, SymInt, SymInts, dim_of, rank_of, shape_of
from .op_builder import OpBuilder
from .shapes import along_axis, expanded, iota, zeros_of
from .values import (
    as_vec,
    at_least_1d,
    cast,
    const,
    consts,
    permuted,
    reshape_to,
    squeezed,
    unsqueezed,
)

__all__ = [
    "argsort",
    "marked_indices",
    "nonzero_rows",
    "put_in_planes",
    "run_ids",
    "scatter_elements",
    "scatter_slices",
    "sort_keys",
    "take_along_dim",
    "window_indices",
]


def argsort(graph: Graph, x: Result, axis: Int) -> Result:
    """The int64 indices of the elements in ascending order along one axis (at least 1-d); equal
    ones keep their order, NaN comes last.
    """
    keys = sort_keys(graph, x)
    parts = [keys, as_vec(graph, dim_of(graph, keys, axis))]
    return graph.make_node("TopK", parts, 2, axis=axis, largest=0)[1]


def run_ids(graph: Graph, starts: Result) -> Result:
    """The number of the run of each element, from the marks of ``run_starts``; along the
    last axis.
    """
    op = OpBuilder(graph)
    axis = const(graph, rank_of(graph, starts) - 1, dtypes.int64)
    count = op.CumSum(cast(graph, starts, dtypes.int64), axis)
    return op.Sub(count, 1)


def window_indices(graph: Graph, count: SymInt, window: Int, step: Int, spacing: Int) -> Result:
    """The int64 matrix [count, window] of the indices in each of ``count`` windows."""
    inner = np.arange(window) * spacing
    if isinstance(count, int):
        return graph.make_initializer("", (np.arange(count)[:, None] * step + inner))
    starts = unsqueezed(graph, iota(graph, 0, count, step), [1])
    return OpBuilder(graph).Add(starts, consts(graph, inner, dtypes.int64))


def scatter_slices(
    graph: Graph, x: Result, axis: Int, index: Result, values: Result, how: Str
) -> Result:
    """``x`` with ``values`` written where the 1-d ``index`` points along one axis; ``how`` is
    ScatterND's reduction, for which an index may occur twice."""
    op = OpBuilder(graph)
    rank = rank_of(graph, x)
    compute_dtype = _reduction_dtype(graph, x, how)
    base, updates = cast(graph, x, compute_dtype), cast(graph, values, compute_dtype)
    if how != "none" and not has_unique_indices(graph, index):
        shape = op.Shape(updates)
        places = op.Expand(along_axis(graph, index, axis, rank), shape)
        written = op.ScatterElements(base, places, updates, axis=axis, reduction=how)
        return cast(graph, written, graph.get_type(x))
    if how == "none" and axis > 0:  # a cache of keys: nothing but the rows is touched
        shape = op.Shape(updates)
        places = op.Expand(along_axis(graph, index, axis, rank), shape)
        return op.ScatterElements(x, places, values, axis=axis)
    order = [axis, *(other for other in range(rank) if other != axis)]
    back = [order.index(other) for other in range(rank)]
    rows = unsqueezed(graph, index, [1])
    parts = [permuted(graph, base, order), rows, permuted(graph, updates, order)]
    written = graph.make_node("ScatterND", parts, reduction=how)
    return cast(graph, permuted(graph, written, back), graph.get_type(x))


def has_unique_indices(graph: Graph, index: Result) -> Bool:
    """Whether an index (or the tuples in its last axis) is known to contain no duplicate.

    ONNX Runtime's ScatterND applies its updates in several threads, and loses one of two that are
    added to one element at a time; ScatterElements applies them in order.
    """
    if not graph.is_constant(index):
        return False
    places = graph.get_constant(index)
    rows = places.reshape(-1, places.shape[-1] if places.ndim > 1 else 1)
    return bool((rows >= 0).all()) and len(np.unique(rows, axis=0)) == len(rows)


def scatter_elements(
    graph: Graph, x: Result, dim_: Int, index: Result, values: Result, how: Str
) -> Result:
    """torch.scatter: ``values`` (of the shape of ``index``, or larger, or 0-d) written into ``x``
    where ``index`` points.

    ``how`` is the reduction of ScatterElements.
    """
    if 0 in shape_of(graph, index):
        return x
    index_dtype = dtypes.int32 if graph.get_type(index) == dtypes.int32 else dtypes.int64
    places = cast(graph, at_least_1d(graph, index), index_dtype)
    sizes = list(shape_of(graph, places))
    if rank_of(graph, values):
        short = [
            axis
            for axis, size in enumerate(sizes)
            if not dims.always_equal(size, dim_of(graph, values, axis))
        ]
        if short:
            ends = as_vec(graph, [sizes[axis] for axis in short])
            zeros = consts(graph, [0] * len(short), dtypes.int64)
            values = OpBuilder(graph).Slice(values, zeros, ends, consts(graph, short, dtypes.int64))
    else:
        values = expanded(graph, values, sizes)
    base = at_least_1d(graph, x)
    axis = normalize_axis(dim_, rank_of(graph, base))
    result = _scatter_reduced(graph, base, places, values, axis, how)
    return squeezed(graph, result, [0]) if rank_of(graph, x) == 0 else result


def marked_indices(graph: Graph, x: Result, dim_: Int, index: Result) -> Result:
    """A bool result that broadcasts against ``x``: True where ``index`` points along one axis."""
    rank = rank_of(graph, x)
    size = dim_of(graph, x, dim_) if rank else 1
    axis = normalize_axis(dim_, rank) if rank else 0
    nowhere = expanded(graph, const(graph, False, dtypes.boolean), [size])
    places = unsqueezed(graph, cast(graph, at_least_1d(graph, index), dtypes.int64), [1])
    count = dim_of(graph, places, 0)
    yes = expanded(graph, const(graph, True, dtypes.boolean), [count])
    result = OpBuilder(graph).ScatterND(nowhere, places, yes)
    return along_axis(graph, result, axis, rank) if rank else squeezed(graph, result, [0])


def nonzero_rows(graph: Graph, x: Result) -> Result:
    """The coordinates of nonzero elements, one row an element (torch.nonzero): int64
    [count, rank].
    """
    op = OpBuilder(graph)
    result = op.NonZero(cast(graph, at_least_1d(graph, x), dtypes.boolean))
    if rank_of(graph, x) == 0:
        result = op.Slice(result, as_vec(graph, 0), as_vec(graph, 0), as_vec(graph, 0))
    return op.Transpose(result, perm=[1, 0])


def sort_keys(graph: Graph, x: Result) -> Result:
    """Numbers that sort in torch's order, in which NaN is the largest: at least 1-d, in a dtype
    that TopK supports.

    ONNX does not define the order of NaN. Here +inf becomes a number that no finite value of the
    narrower dtype of ``x`` reaches, and NaN becomes +inf. Numbers of float64 are halved for that:
    only denormals lose a bit.
    """
    op = OpBuilder(graph)
    wide = at_least_1d(graph, x)
    dtype = graph.get_type(wide)
    if dtype == dtypes.boolean:
        return cast(graph, wide, dtypes.uint8)
    if not dtypes.is_float_type(dtype):
        return wide
    keys = cast(graph, wide, dtypes.float64 if dtypes.itemsize(dtype) > 2 else dtypes.float32)
    if dtype == dtypes.float64:
        keys = op.Mul(keys, 0.5)
    large = {dtypes.float64: 1.7976931348623157e308, dtypes.float32: 1e300}.get(dtype, 3.4e38)
    finite = op.Min(keys, const(graph, large, graph.get_type(keys)))
    unordered = op.IsNaN(keys)
    return op.Where(unordered, const(graph, inf, graph.get_type(keys)), finite)


def take_along_dim(graph: Graph, x: Result, places: Result, axis: Int) -> Result:
    """``x`` taken along one axis at ``places`` (GatherElements), at least 1-d."""
    return OpBuilder(graph).GatherElements(at_least_1d(graph, x), places, axis=axis)


def _reduction_dtype(graph: Graph, x: str, how: str) -> int:
    """The dtype that ONNX Runtime reduces: float32 for half floats, int32 for bool (or, and)."""
    dtype = graph.get_type(x)
    if how == "none":
        return dtype
    if dtype == dtypes.boolean:
        return dtypes.int32
    return dtypes.float32 if dtype in (dtypes.float16, dtypes.bfloat16) else dtype


def _scatter_reduced(
    graph: Graph, base: str, indices: str, values: str, axis: int, how: str
) -> str:
    """ScatterElements in a dtype that ONNX Runtime reduces; its max and min ignore NaN, eager's do
    not.
    """
    op = OpBuilder(graph)
    dtype = graph.get_type(base)
    compute_dtype = _reduction_dtype(graph, base, how)
    base, values = cast(graph, base, compute_dtype), cast(graph, values, compute_dtype)
    result = op.ScatterElements(base, indices, values, axis=axis, reduction=how)
    if how in ("max", "min") and dtypes.is_float_type(compute_dtype):
        flags = [cast(graph, op.IsNaN(part), dtypes.int32) for part in (base, values)]
        marks = op.ScatterElements(flags[0], indices, flags[1], axis=axis, reduction="max")
        result = op.Where(
            cast(graph, marks, dtypes.boolean), const(graph, nan, compute_dtype), result
        )
    return cast(graph, result, dtype)


def put_in_planes(
    graph: Graph, shape: SymInts, n: Int, index: Result, values: Result, how: Str
) -> Result:
    """Zeros of ``shape`` with ``values`` written (``how``: none) or added where ``index`` points
    into the flattened last ``n`` dimensions."""
    lead, own = list(shape[:-n]), graph.get_type(values)
    if index is not None and 0 in shape_of(graph, index):
        return zeros_of(graph, list(shape), own)
    windows = [*lead, dims.product_of(shape_of(graph, index)[-n:])]
    zeros = zeros_of(graph, [*lead, dims.product_of(shape[-n:])], own)
    places, parts = reshape_to(graph, index, windows), reshape_to(graph, values, windows)
    return reshape_to(graph, scatter_elements(graph, zeros, len(lead), places, parts, how), shape)
