"""Find indices, gather and scatter elements, and sort; each function adds nodes.

The functions work around gaps of ONNX Runtime: reductions of half floats and bools, NaN in maxima
and in sorted sequences.
"""

from __future__ import annotations

from math import inf, nan

import numpy as np

from ortable import dims, dtypes
from ortable.errors import UnsupportedCase
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
    """Return the int64 indices that sort the elements of a result along one axis (at least 1-d).

    The order is ascending and stable; NaN is last.
    """
    keys = sort_keys(graph, x)
    inputs = [keys, as_vec(graph, dim_of(graph, keys, axis))]
    return graph.make_node("TopK", inputs, 2, axis=axis, largest=0)[1]


def run_ids(graph: Graph, starts: Result) -> Result:
    """Return the index of the run to which each element belongs, along the last axis.

    ``starts`` is True at the first element of each run.
    """
    op = OpBuilder(graph)
    axis = const(graph, rank_of(graph, starts) - 1, dtypes.int64)
    count = op.CumSum(cast(graph, starts, dtypes.int64), axis)
    return op.Sub(count, 1)


def window_indices(graph: Graph, count: SymInt, window: Int, step: Int, spacing: Int) -> Result:
    """Return the int64 matrix [count, window] of the indices in each of ``count`` windows."""
    offsets = np.arange(window) * spacing
    if isinstance(count, int):
        return graph.make_initializer("", (np.arange(count)[:, None] * step + offsets))
    starts = unsqueezed(graph, iota(graph, 0, count, step), [1])
    return OpBuilder(graph).Add(starts, consts(graph, offsets, dtypes.int64))


def require_equal_dtypes(graph: Graph, x: Result, values: Result) -> None:
    """Refuse to write values of another dtype into a tensor, as torch does."""
    dtype, other = graph.get_type(x), graph.get_type(values)
    if dtype != other and values not in graph.numbers:
        raise UnsupportedCase(
            f"{dtypes.name(other)} written into {dtypes.name(dtype)}, which torch refuses"
        )


def scatter_slices(
    graph: Graph, x: Result, axis: Int, index: Result, values: Result, how: Str
) -> Result:
    """Write ``values`` into ``x`` at the 1-d ``index`` along one axis.

    ``how`` is ScatterND's reduction; with a reduction, ``index`` may have duplicates.

    Raises:
        UnsupportedCase: the dtypes differ, which torch refuses.
    """
    op = OpBuilder(graph)
    require_equal_dtypes(graph, x, values)
    rank = rank_of(graph, x)
    compute_dtype = _reduction_dtype(graph, x, how)
    base, updates = cast(graph, x, compute_dtype), cast(graph, values, compute_dtype)
    if how != "none" and not has_unique_indices(graph, index):
        shape = op.Shape(updates)
        indices = op.Expand(along_axis(graph, index, axis, rank), shape)
        result = op.ScatterElements(base, indices, updates, axis=axis, reduction=how)
        return cast(graph, result, graph.get_type(x))
    if how == "none" and axis > 0:  # such as a key cache: writes only the rows, no Transpose
        shape = op.Shape(updates)
        indices = op.Expand(along_axis(graph, index, axis, rank), shape)
        return op.ScatterElements(x, indices, values, axis=axis)
    order = [axis, *(dim for dim in range(rank) if dim != axis)]
    inverse_order = [order.index(dim) for dim in range(rank)]
    rows = unsqueezed(graph, index, [1])
    inputs = [permuted(graph, base, order), rows, permuted(graph, updates, order)]
    result = graph.make_node("ScatterND", inputs, reduction=how)
    return cast(graph, permuted(graph, result, inverse_order), graph.get_type(x))


def has_unique_indices(graph: Graph, index: Result) -> Bool:
    """Whether an index (or the tuples in its last axis) is constant, not negative and unique.

    ONNX Runtime's ScatterND applies updates in several threads, and may lose one of two additions
    to the same element; ScatterElements applies them in order.
    """
    if not graph.is_constant(index):
        return False
    values = graph.get_constant(index)
    rows = values.reshape(-1, values.shape[-1] if values.ndim > 1 else 1)
    return bool((rows >= 0).all()) and len(np.unique(rows, axis=0)) == len(rows)


def scatter_elements(
    graph: Graph, x: Result, dim_: Int, index: Result, values: Result, how: Str
) -> Result:
    """Write ``values`` into ``x`` at ``index`` along one axis, as torch.scatter does.

    ``values`` has the shape of ``index``, or is larger, or 0-d. ``how`` is the reduction of
    ScatterElements.
    """
    if 0 in shape_of(graph, index):
        return x
    index_dtype = dtypes.int32 if graph.get_type(index) == dtypes.int32 else dtypes.int64
    indices = cast(graph, at_least_1d(graph, index), index_dtype)
    sizes = list(shape_of(graph, indices))
    if rank_of(graph, values):
        larger_axes = [
            axis
            for axis, size in enumerate(sizes)
            if not dims.always_equal(size, dim_of(graph, values, axis))
        ]
        if larger_axes:
            ends = as_vec(graph, [sizes[axis] for axis in larger_axes])
            zeros = consts(graph, [0] * len(larger_axes), dtypes.int64)
            values = OpBuilder(graph).Slice(
                values, zeros, ends, consts(graph, larger_axes, dtypes.int64)
            )
    else:
        values = expanded(graph, values, sizes)
    base = at_least_1d(graph, x)
    axis = normalize_axis(dim_, rank_of(graph, base))
    result = _scatter_reduced(graph, base, indices, values, axis, how)
    return squeezed(graph, result, [0]) if rank_of(graph, x) == 0 else result


def marked_indices(graph: Graph, x: Result, dim_: Int, index: Result) -> Result:
    """Return a bool result, True at ``index`` along one axis, that broadcasts against ``x``."""
    rank = rank_of(graph, x)
    size = dim_of(graph, x, dim_) if rank else 1
    axis = normalize_axis(dim_, rank) if rank else 0
    all_false = expanded(graph, const(graph, False, dtypes.boolean), [size])
    indices = unsqueezed(graph, cast(graph, at_least_1d(graph, index), dtypes.int64), [1])
    count = dim_of(graph, indices, 0)
    all_true = expanded(graph, const(graph, True, dtypes.boolean), [count])
    result = OpBuilder(graph).ScatterND(all_false, indices, all_true)
    return along_axis(graph, result, axis, rank) if rank else squeezed(graph, result, [0])


def nonzero_rows(graph: Graph, x: Result) -> Result:
    """Return the coordinates of nonzero elements as int64 [count, rank], as torch.nonzero does."""
    op = OpBuilder(graph)
    result = op.NonZero(cast(graph, at_least_1d(graph, x), dtypes.boolean))
    if rank_of(graph, x) == 0:
        result = op.Slice(result, as_vec(graph, 0), as_vec(graph, 0), as_vec(graph, 0))
    return op.Transpose(result, perm=[1, 0])


def sort_keys(graph: Graph, x: Result) -> Result:
    """Return keys that sort in torch's order, in which NaN is the largest.

    The keys are at least 1-d, in a dtype that TopK supports. ONNX does not define the order of NaN.
    +inf becomes a number that exceeds every finite key, and NaN becomes +inf. float64 numbers are
    halved to make such a number possible; only denormals lose a bit.
    """
    op = OpBuilder(graph)
    vector = at_least_1d(graph, x)
    dtype = graph.get_type(vector)
    if dtype == dtypes.boolean:
        return cast(graph, vector, dtypes.uint8)
    if not dtypes.is_float_type(dtype):
        return vector
    keys = cast(graph, vector, dtypes.float64 if dtypes.itemsize(dtype) > 2 else dtypes.float32)
    if dtype == dtypes.float64:
        keys = op.Mul(keys, 0.5)
    large = {dtypes.float64: 1.7976931348623157e308, dtypes.float32: 1e300}.get(dtype, 3.4e38)
    below_infinity = op.Min(keys, const(graph, large, graph.get_type(keys)))
    is_nan = op.IsNaN(vector if dtype == dtypes.float32 else keys)
    return op.Where(is_nan, const(graph, inf, graph.get_type(keys)), below_infinity)


def take_along_dim(graph: Graph, x: Result, places: Result, axis: Int) -> Result:
    """Gather elements of ``x`` (at least 1-d) at ``places`` along one axis."""
    return OpBuilder(graph).GatherElements(at_least_1d(graph, x), places, axis=axis)


def _reduction_dtype(graph: Graph, x: str, how: str) -> int:
    """Return the dtype that ONNX Runtime reduces: float32 for half floats, int32 for bool."""
    dtype = graph.get_type(x)
    if how == "none":
        return dtype
    if dtype == dtypes.boolean:
        return dtypes.int32
    return dtypes.float32 if dtype in (dtypes.float16, dtypes.bfloat16) else dtype


def _scatter_reduced(
    graph: Graph, base: str, indices: str, values: str, axis: int, how: str
) -> str:
    """Run ScatterElements in a dtype that ONNX Runtime reduces.

    The max and min of ScatterElements ignore NaN, which eager propagates, so elements that combine
    a NaN are replaced by NaN.
    """
    op = OpBuilder(graph)
    dtype = graph.get_type(base)
    compute_dtype = _reduction_dtype(graph, base, how)
    base, values = cast(graph, base, compute_dtype), cast(graph, values, compute_dtype)
    result = op.ScatterElements(base, indices, values, axis=axis, reduction=how)
    if how in ("max", "min") and dtypes.is_float_type(compute_dtype):
        is_nan = [cast(graph, op.IsNaN(part), dtypes.int32) for part in (base, values)]
        has_nan = op.ScatterElements(is_nan[0], indices, is_nan[1], axis=axis, reduction="max")
        result = op.Where(
            cast(graph, has_nan, dtypes.boolean), const(graph, nan, compute_dtype), result
        )
    return cast(graph, result, dtype)


def put_in_planes(
    graph: Graph, shape: SymInts, n: Int, index: Result, values: Result, how: Str
) -> Result:
    """Write or add ``values`` at ``index`` in the flattened last ``n`` dimensions of zeros.

    ``shape`` is the shape of the result; ``how`` is "none" to write, or the reduction of
    ScatterElements.
    """
    leading, dtype = list(shape[:-n]), graph.get_type(values)
    if index is not None and 0 in shape_of(graph, index):
        return zeros_of(graph, list(shape), dtype)
    flat_shape = [*leading, dims.product_of(shape_of(graph, index)[-n:])]
    zeros = zeros_of(graph, [*leading, dims.product_of(shape[-n:])], dtype)
    indices, updates = reshape_to(graph, index, flat_shape), reshape_to(graph, values, flat_shape)
    return reshape_to(
        graph, scatter_elements(graph, zeros, len(leading), indices, updates, how), shape
    )
