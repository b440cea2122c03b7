"""Lower the gradient of segment reductions: distribute each segment's gradient to its elements."""

from __future__ import annotations

import math
from typing import Any

from ortable import dtypes
from ortable.ir import Graph, ResultSpec
from ortable.prelude.facts import axis_of, dim_of, rank_of, shape_of
from ortable.prelude.indexing import scatter_elements
from ortable.prelude.op_builder import OpBuilder
from ortable.prelude.shapes import expanded, iota, sliced, zeros_of
from ortable.prelude.values import cast, const, consts, unsqueezed


def segment_reduce_backward(
    graph: Graph,
    res: ResultSpec,
    grad: str,
    output: str,
    data: str,
    reduce: str,
    lengths: str | None,
    offsets: str | None,
    axis: int,
    initial: Any,
) -> str:
    """Lower aten::_segment_reduce_backward: distribute each segment's gradient to its elements.

    For maxima and minima, NaN and elements equal to the result receive the gradient; a positive
    gradient is divided among them. For a product, the gradient of an element is the segment's,
    multiplied by the product of the other elements. Elements after all segments get 0.
    """
    op, axis = OpBuilder(graph), axis_of(graph, data, axis)
    ends, sizes = _segment_ends(graph, lengths, offsets)
    count = dim_of(graph, ends, -1)
    positions = iota(graph, 0, dim_of(graph, data, axis), 1)
    is_passed = op.LessOrEqual(unsqueezed(graph, ends, [rank_of(graph, ends)]), positions)
    segment = op.ReduceSum(
        cast(graph, is_passed, dtypes.int64),
        consts(graph, [rank_of(graph, ends) - 1], dtypes.int64),
        keepdims=0,
    )
    axes = list(range(rank_of(graph, segment), rank_of(graph, data)))
    in_segment = unsqueezed(graph, op.Less(segment, const(graph, count, dtypes.int64)), axes)
    last_segment = op.Sub(const(graph, count, dtypes.int64), 1)
    segment = unsqueezed(graph, op.Min(segment, last_segment), axes)
    segment = expanded(graph, segment, list(shape_of(graph, data)))

    def gather(x: str) -> str:
        return op.GatherElements(x, segment, axis=axis)

    result = gather(grad)
    if reduce == "mean":
        segment_sizes = unsqueezed(graph, cast(graph, sizes, graph.get_type(grad)), axes)
        wide_sizes = expanded(graph, segment_sizes, list(shape_of(graph, grad)))
        result = op.Div(result, gather(wide_sizes))
    elif reduce in ("max", "min"):
        result = _extreme_share(graph, result, (data, output, segment), axis, gather)
    elif reduce == "prod":
        result = _product_share(graph, result, (data, output, segment), axis, (gather, initial))
    return op.Where(in_segment, result, 0)


def _segment_ends(graph: Graph, lengths: str | None, offsets: str | None) -> tuple[str, str]:
    """Return the end and the length of each segment [..., segments] as int64."""
    op = OpBuilder(graph)
    if lengths is not None:
        sizes = cast(graph, lengths, dtypes.int64)
        last = const(graph, rank_of(graph, sizes) - 1, dtypes.int64)
        return op.CumSum(sizes, last), sizes
    assert offsets is not None, "torch requires lengths or offsets"
    bounds = cast(graph, offsets, dtypes.int64)
    axis, count = rank_of(graph, bounds) - 1, dim_of(graph, bounds, -1)
    ends = sliced(graph, bounds, axis, 1, count)
    return ends, op.Sub(ends, sliced(graph, bounds, axis, 0, count - 1))


def _count_marked(graph: Graph, marks: str, output: str, segment: str, axis: int) -> str:
    """Return the number of marked elements of each segment, in the dtype of ``output``."""
    dtype = graph.get_type(output)
    zeros = zeros_of(graph, list(shape_of(graph, output)), dtype)
    return scatter_elements(graph, zeros, axis, segment, cast(graph, marks, dtype), "add")


def _extreme_share(
    graph: Graph, grad: str, tensors: tuple[str, str, str], axis: int, gather: Any
) -> str:
    data, output, segment = tensors
    op = OpBuilder(graph)
    is_extreme = op.Or(op.Equal(data, gather(output)), op.IsNaN(data))
    extreme_count = gather(_count_marked(graph, is_extreme, output, segment, axis))
    zero = const(graph, 0, graph.get_type(grad))
    # torch's kernel divides only positive gradients; each element gets other gradients undivided
    share = op.Where(op.Greater(grad, zero), op.Div(grad, extreme_count), grad)
    return op.Where(is_extreme, share, zero)


def _product_share(
    graph: Graph,
    grad: str,
    tensors: tuple[str, str, str],
    axis: int,
    helpers: tuple[Any, Any],
) -> str:
    """Return grad * product / element, or for 0 and NaN grad * product of the other elements."""
    data, output, segment = tensors
    gather, initial = helpers
    op, dtype = OpBuilder(graph), graph.get_type(data)
    one, zero = const(graph, 1, dtype), const(graph, 0, dtype)
    is_nan, is_zero = op.IsNaN(data), op.Equal(data, zero)
    is_special = op.Or(is_nan, is_zero)
    start = const(graph, 1 if initial is None else initial, dtype)
    start = expanded(graph, start, list(shape_of(graph, output)))
    factors = op.Where(is_special, one, data)
    regular_product = gather(scatter_elements(graph, start, axis, segment, factors, "mul"))
    has_others = []  # two masks: another element of the segment is NaN; another one is 0
    for mask in (is_nan, is_zero):
        total = gather(_count_marked(graph, mask, output, segment, axis))
        has_others.append(op.Greater(op.Sub(total, cast(graph, mask, dtype)), zero))
    product = op.Where(has_others[1], zero, regular_product)
    product = op.Where(has_others[0], math.nan, product)
    regular_share = op.Div(op.Mul(grad, gather(output)), data)
    return op.Where(is_special, op.Mul(grad, product), regular_share)
