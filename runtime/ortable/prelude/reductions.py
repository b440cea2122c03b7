"""Reduce over axes: max and min, any and all, norms, losses, with eager's NaN; see also `sums`."""

from __future__ import annotations

import math

from ortable import dims, dtypes
from ortable.ir import Graph

from .facts import Bool, Float, Int, Ints, Result, dim_of, is_static, rank_of, shape_of
from .op_builder import OpBuilder
from .promotion import opmath_dtype
from .shapes import other_axes
from .sums import count_true, l1_norm, l2_norm, largest_int, summed_over
from .values import cast, const, consts, permuted, reshape_to, squeezed, unsqueezed

_BLOCK_COUNTS = (8, 10, 6, 4, 9, 5, 7, 3, 2)  # numbers of blocks into which rows may be split
_MIN_COLUMNS = 16  # with fewer columns, two steps take as long as one

__all__ = [
    "all_true",
    "any_true",
    "loss_reduced",
    "power_norm",
    "reduced_extreme",
]


def power_norm(graph: Graph, x: Result, power: Float, axes: Ints, keepdim: Bool) -> Result:
    """Return the p-norm of a float result over ``axes``."""
    op, dtype = OpBuilder(graph), graph.get_type(x)
    if power in (1, 2):
        norm = l1_norm if power == 1 else l2_norm
        return norm(graph, x, axes, keepdim)
    if power == 0:
        nonzero_count = count_true(graph, cast(graph, x, dtypes.boolean), axes, keepdim)
        return cast(graph, nonzero_count, dtype)
    if abs(power) == math.inf:
        return reduced_extreme(graph, op.Abs(x), axes, keepdim, power > 0)
    raised = op.Pow(op.Abs(x), const(graph, power, dtype))
    total = summed_over(graph, raised, axes, keepdim)
    return op.Pow(total, const(graph, 1 / power, dtype))


def reduced_extreme(graph: Graph, x: Result, axes: Ints, keepdim: Bool, largest: Bool) -> Result:
    """Return the largest (or smallest) element over ``axes``; NaN propagates, as in torch.

    ONNX does not define ReduceMax of NaN, and ONNX Runtime skips NaN. So NaN is found by a sum of
    the elements, clipped to [-1, 1], so that the sum is NaN only if one of the elements is NaN.
    """
    op = OpBuilder(graph)
    dtype = graph.get_type(x)
    if dtype == dtypes.int64 and axes and largest_int(graph, x) > 2**32:
        return _int64_extreme(graph, x, axes, keepdim, largest)
    axes_input = consts(graph, axes, dtypes.int64)
    # older opsets have no ReduceMax of bool, and no opset has ReduceMax of int16
    compute_dtype = {dtypes.boolean: dtypes.uint8, dtypes.int16: dtypes.int32}.get(dtype, dtype)
    op_type = "ReduceMax" if largest else "ReduceMin"
    wide = cast(graph, x, compute_dtype)
    result = cast(graph, _reduce_in_blocks(graph, op_type, wide, axes, keepdim), dtype)
    if not dtypes.is_float_type(dtype):
        return result
    bounds = [const(graph, end, dtype) for end in (-1, 1)]
    bounded = op.Clip(x, *bounds)
    total = op.ReduceSum(bounded, axes_input, keepdims=int(keepdim))
    has_nan = op.IsNaN(total)
    return op.Where(has_nan, float("nan"), result)


def _reduce_in_blocks(graph: Graph, op_type: str, x: str, axes: Ints, keepdim: bool) -> str:
    """Apply ReduceMax or ReduceMin, over leading axes in two steps.

    ONNX Runtime has a fast path for an axis between other axes, but not for the first axis. So rows
    are reduced in blocks if their number has a suitable divisor and there are enough columns.
    """
    sizes = list(shape_of(graph, x)) if graph.has_shape(x) else []
    count = len(axes)
    if 0 < count < len(sizes) and list(axes) == list(range(count)) and is_static(sizes):
        rows = math.prod(sizes[:count])
        blocks = next((part for part in _BLOCK_COUNTS if rows % part == 0 and rows > part), None)
        if blocks and math.prod(sizes[count:]) >= _MIN_COLUMNS:
            x = reshape_to(graph, x, [blocks, rows // blocks, *sizes[count:]])
            middle, first = (consts(graph, [axis], dtypes.int64) for axis in (1, 0))
            x = graph.make_node(op_type, [x, middle], keepdims=0)
            x = graph.make_node(op_type, [x, first], keepdims=0)
            return unsqueezed(graph, x, list(range(count))) if keepdim else x
    axes_input = consts(graph, axes, dtypes.int64)
    return graph.make_node(op_type, [x, axes_input], keepdims=int(keepdim))


def _int64_extreme(graph: Graph, x: str, axes: Ints, keepdim: bool, largest: bool) -> str:
    """Return the largest or smallest int64 by TopK.

    ReduceMax and ReduceMin of ONNX Runtime before 1.32 compare vectors of int64 by their lower
    halves if the upper halves are equal.
    """
    rank = rank_of(graph, x)
    axis, flat = axes[0], x
    if len(axes) > 1:
        kept_axes = other_axes(rank, axes)
        kept_sizes, reduced_sizes = (
            [dim_of(graph, x, axis_) for axis_ in group] for group in (kept_axes, axes)
        )
        axis = len(kept_axes)
        flat = reshape_to(
            graph,
            permuted(graph, x, [*kept_axes, *axes]),
            [*kept_sizes, dims.product_of(reduced_sizes)],
        )
    one = consts(graph, [1], dtypes.int64)
    top = OpBuilder(graph).TopK(flat, one, outputs=2, axis=axis, largest=int(largest))[0]
    result = squeezed(graph, top, [axis])
    return unsqueezed(graph, result, sorted(axes)) if keepdim else result


def any_true(graph: Graph, x: Result, axes: Ints, keepdim: Bool) -> Result:
    """Return whether an element over ``axes`` is not 0; False for no elements."""
    nonzero = cast(graph, cast(graph, x, dtypes.boolean), dtypes.float32)
    # a sum of no elements is 0, while a maximum of no elements is not defined
    axes_input = consts(graph, axes, dtypes.int64)
    total = (
        OpBuilder(graph).ReduceSum(nonzero, axes_input, keepdims=int(keepdim)) if axes else nonzero
    )
    return cast(graph, total, dtypes.boolean)


def all_true(graph: Graph, x: Result, axes: Ints, keepdim: Bool) -> Result:
    """Return whether all elements over ``axes`` are not 0; True for no elements."""
    op = OpBuilder(graph)
    zeros = op.Not(cast(graph, x, dtypes.boolean))
    return op.Not(any_true(graph, zeros, axes, keepdim))


def loss_reduced(graph: Graph, x: Result, reduction: Int) -> Result:
    """Apply torch's enum `Reduction` to the elements of a loss.

    0 returns the elements, 1 their mean, which is NaN for no elements, and 2 their sum.
    """
    if reduction == 0:
        return x
    dtype, axes = graph.get_type(x), list(range(rank_of(graph, x)))
    wide = cast(graph, x, opmath_dtype(dtype))
    total = summed_over(graph, wide, axes, False)
    if reduction == 1:
        count = const(graph, dims.product_of(shape_of(graph, x)), opmath_dtype(dtype))
        total = OpBuilder(graph).Div(total, count)
    return cast(graph, total, dtype)
