"""Gradient of reductions over segments: the segment of each element, and its share."""

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
    """aten::_segment_reduce_backward: the gradient of each segment, distributed to its elements.

    For maxima and minima the elements that reach them share it; for a product it is divided by the
    element, or the product of the others is computed where that is 0 or NaN.
    """
    op, axis = OpBuilder(graph), axis_of(graph, data, axis)
    ends, sizes = _segment_ends(graph, lengths, offsets)
    count = dim_of(graph, ends, -1)
    places = iota(graph, 0, dim_of(graph, data, axis), 1)
    passed = op.LessOrEqual(unsqueezed(graph, ends, [rank_of(graph, ends)]), places)
    number = op.ReduceSum(
        cast(graph, passed, dtypes.int64),
        consts(graph, [rank_of(graph, ends) - 1], dtypes.int64),
        keepdims=0,
    )
    rest = list(range(rank_of(graph, number), rank_of(graph, data)))
    inside = unsqueezed(graph, op.Less(number, const(graph, count, dtypes.int64)), rest)
    last = op.Sub(const(graph, count, dtypes.int64), 1)
    number = unsqueezed(graph, op.Min(number, last), rest)
    number = expanded(graph, number, list(shape_of(graph, data)))

    def spread_out(x: str) -> str:
        return op.GatherElements(x, number, axis=axis)

    result = spread_out(grad)
    if reduce == "mean":
        parts = unsqueezed(graph, cast(graph, sizes, graph.get_type(grad)), rest)
        wide = expanded(graph, parts, list(shape_of(graph, grad)))
        result = op.Div(result, spread_out(wide))
    elif reduce in ("max", "min"):
        result = _extreme_share(graph, result, (data, output, number), axis, spread_out)
    elif reduce == "prod":
        result = _product_share(graph, result, (data, output, number), axis, (spread_out, initial))
    return op.Where(inside, result, 0)


def _segment_ends(graph: Graph, lengths: str | None, offsets: str | None) -> tuple[str, str]:
    """int64: where each segment ends, and its length; the last axis counts segments."""
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


def _count_marked(graph: Graph, marks: str, output: str, number: str, axis: int) -> str:
    """The number of marked elements of each segment, in the dtype of ``output``."""
    dtype = graph.get_type(output)
    zeros = zeros_of(graph, list(shape_of(graph, output)), dtype)
    return scatter_elements(graph, zeros, axis, number, cast(graph, marks, dtype), "add")


def _extreme_share(
    graph: Graph, grad: str, tensors: tuple[str, str, str], axis: int, spread_out: Any
) -> str:
    data, output, number = tensors
    op = OpBuilder(graph)
    reached = op.Or(op.Equal(data, spread_out(output)), op.IsNaN(data))
    times = spread_out(_count_marked(graph, reached, output, number, axis))
    zero = const(graph, 0, graph.get_type(grad))
    # torch's kernel shares out positive gradients only; others go whole to each of the elements
    share = op.Where(op.Greater(grad, zero), op.Div(grad, times), grad)
    return op.Where(reached, share, zero)


def _product_share(
    graph: Graph,
    grad: str,
    tensors: tuple[str, str, str],
    axis: int,
    rest: tuple[Any, Any],
) -> str:
    """``grad * product / element``; for 0 and NaN the product of the other elements."""
    data, output, number = tensors
    spread_out, initial = rest
    op, dtype = OpBuilder(graph), graph.get_type(data)
    one, zero = const(graph, 1, dtype), const(graph, 0, dtype)
    lost, empty = op.IsNaN(data), op.Equal(data, zero)
    apart = op.Or(lost, empty)
    start = const(graph, 1 if initial is None else initial, dtype)
    start = expanded(graph, start, list(shape_of(graph, output)))
    factors = op.Where(apart, one, data)
    usual = spread_out(scatter_elements(graph, start, axis, number, factors, "mul"))
    others = []
    for marks in (lost, empty):
        total = spread_out(_count_marked(graph, marks, output, number, axis))
        others.append(op.Greater(op.Sub(total, cast(graph, marks, dtype)), zero))
    product = op.Where(others[1], zero, usual)
    product = op.Where(others[0], math.nan, product)
    plain = op.Div(op.Mul(grad, spread_out(output)), data)
    return op.Where(apart, op.Mul(grad, product), plain)
