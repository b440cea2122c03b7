"""torchvision's operators on regions of images, one region a trip of a Loop. Newer opsets of ONNX
Runtime lack kernels for ONNX's own operators, which also differ in details.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ortable import dtypes
from ortable.dims import Dim
from ortable.ir import Graph, ResultSpec
from ortable.prelude.facts import dim_of, static
from ortable.prelude.op_builder import OpBuilder
from ortable.prelude.promotion import opmath_dtype
from ortable.prelude.values import as_scalar, as_vec, cast, const, consts, unsqueezed


def roi_align(
    graph: Graph,
    res: ResultSpec,
    input: str,
    rois: str,
    spatial_scale: float,
    pooled_height: Dim,
    pooled_width: Dim,
    sampling_ratio: int,
    aligned: bool,
) -> str:
    """Means of bilinear samples: [bins, H] weights of the rows times [H, W] times [W, bins]."""
    sizes = dim_of(graph, input, 2), dim_of(graph, input, 3)
    bins = static(pooled_height), static(pooled_width)

    def pool_region(body: Graph, picture: str, corners: list[str]) -> str:
        weights = [
            _sample_weights(
                body,
                _region_extent(
                    body, corners[axis::2], spatial_scale, 0.5 if aligned else 0.0, not aligned
                ),
                bins[1 - axis],
                sizes[1 - axis],
                sampling_ratio,
            )
            for axis in (0, 1)
        ]
        columns = OpBuilder(body).Transpose(weights[0], perm=[1, 0])
        rows = OpBuilder(body).MatMul(weights[1], picture)
        return OpBuilder(body).MatMul(rows, columns)

    return _loop_over_regions(graph, input, rois, bins, pool_region)


def roi_pool(
    graph: Graph,
    res: ResultSpec,
    input: str,
    rois: str,
    spatial_scale: float,
    pooled_height: Dim,
    pooled_width: Dim,
) -> tuple[str, None]:
    """Maxima over the bins of each region; 0 where a bin is empty."""
    sizes = dim_of(graph, input, 2), dim_of(graph, input, 3)
    bins = static(pooled_height), static(pooled_width)

    def pool_region(body: Graph, picture: str, corners: list[str]) -> str:
        columns, rows = (
            _inside_bins(body, corners[axis::2], spatial_scale, bins[1 - axis], sizes[1 - axis])
            for axis in (0, 1)
        )
        op = OpBuilder(body)
        lowest = const(body, -np.inf, body.get_type(picture))
        # [C, H, 1, W] against [bins, W], then [C, 1, H, bins] against [bins, H, 1]
        spread = op.Where(columns, unsqueezed(body, picture, [2]), lowest)
        last = consts(body, [3], dtypes.int64)
        narrow = unsqueezed(body, op.ReduceMax(spread, last, keepdims=0), [1])
        spread = op.Where(unsqueezed(body, rows, [2]), narrow, lowest)
        result = op.ReduceMax(spread, consts(body, [2], dtypes.int64), keepdims=0)
        empty = op.Equal(result, lowest)
        return op.Where(empty, 0, result)

    return _loop_over_regions(graph, input, rois, bins, pool_region), None


def _loop_over_regions(
    graph: Graph,
    input: str,
    rois: str,
    bins: tuple[int, int],
    pool_region: Callable[[Graph, str, list[str]], str],
) -> str:
    """``pool_region(body, picture [C, H, W], [x1, y1, x2, y2])`` of every region, stacked."""
    op = OpBuilder(graph)
    dtype = opmath_dtype(graph.get_type(input))
    pictures, regions = cast(graph, input, dtype), cast(graph, rois, dtype)
    body = graph.subgraph("region")
    step = body.make_tensor_input(body.unique_name("step"), dtypes.int64, ())
    going = body.make_tensor_input(body.unique_name("going"), dtypes.boolean, ())
    region = OpBuilder(body).Gather(regions, step, axis=0)
    numbers = [
        OpBuilder(body).Gather(region, const(body, index, dtypes.int64), axis=0)
        for index in range(5)
    ]
    picture = OpBuilder(body).Gather(pictures, cast(body, numbers[0], dtypes.int64), axis=0)
    out = pool_region(body, picture, numbers[1:])
    for result in (going, out):
        body.make_tensor_output(OpBuilder(body).Identity(result))
    count = as_scalar(graph, dim_of(graph, rois, 0))
    # not Scan, which ONNX Runtime cannot run over no region
    always = const(graph, True, dtypes.boolean)
    stacked = op.Loop(count, always, outputs=1, body=body)
    shape = [dim_of(graph, rois, 0), dim_of(graph, input, 1), *bins]
    graph.set_shape(stacked, shape)
    if not isinstance(shape[1], int):
        # without a region ONNX Runtime takes 0 for channels that it cannot know
        stacked = op.Reshape(stacked, as_vec(graph, shape), allowzero=1)
    return cast(graph, stacked, graph.get_type(input))


def _region_extent(
    body: Graph, corners: list[str], scale: float, offset: float, at_least_one: bool
) -> tuple[str, str]:
    """The start of a region along one axis, and its length."""
    dtype = body.get_type(corners[0])
    start, end = (
        OpBuilder(body).Sub(
            OpBuilder(body).Mul(corner, const(body, scale, dtype)),
            const(body, offset, dtype),
        )
        for corner in corners
    )
    length = OpBuilder(body).Sub(end, start)
    return start, OpBuilder(body).Max(length, 1) if at_least_one else length


def _sample_weights(body: Graph, edges: tuple[str, str], bins: int, size: Dim, ratio: int) -> str:
    """[bins, size]: the weight of each row of the picture in the mean of each bin."""
    op, (start, length) = OpBuilder(body), edges
    dtype = body.get_type(start)
    step = op.Div(length, const(body, bins, dtype))
    if ratio > 0:
        count, numbers = const(body, ratio, dtype), consts(body, np.arange(ratio), dtype)
    else:
        count = op.Max(op.Ceil(step), 0)
        ends = [const(body, 0, dtypes.int64), cast(body, count, dtypes.int64)]
        numbers = cast(body, op.Range(*ends, const(body, 1, dtypes.int64)), dtype)
    within = op.Div(op.Mul(_add_number(body, numbers, 0.5), step), count)
    bin_starts = op.Mul(unsqueezed(body, consts(body, np.arange(bins), dtype), [1]), step)
    places = op.Add(op.Add(start, bin_starts), within)
    end = cast(body, as_scalar(body, size), dtype)
    inside = op.And(
        op.GreaterOrEqual(places, -1),
        op.LessOrEqual(places, end),
    )
    clipped = op.Clip(places, const(body, 0, dtype), _add_number(body, end, -1))
    distance = op.Sub(unsqueezed(body, clipped, [2]), _pixel_indices(body, size, dtype))
    share = op.Sub(1, op.Abs(distance))
    share = op.Max(share, 0)
    share = op.Mul(share, unsqueezed(body, cast(body, inside, dtype), [2]))
    total = op.ReduceSum(share, consts(body, [1], dtypes.int64), keepdims=0)
    return op.Div(total, op.Max(count, 1))


def _inside_bins(body: Graph, corners: list[str], scale: float, bins: int, size: Dim) -> str:
    """[bins, size]: whether a row of the picture is in a bin, both ends rounded outwards."""
    op, dtype = OpBuilder(body), body.get_type(corners[0])
    start, end = (_round_half_away(body, op.Mul(x, const(body, scale, dtype))) for x in corners)
    length = op.Max(_add_number(body, op.Sub(end, start), 1), 1)
    step = op.Div(length, const(body, bins, dtype))
    bounds = [
        op.Add(op(op_type, [op.Mul(consts(body, numbers, dtype), step)]), start)
        for op_type, numbers in (("Floor", np.arange(bins)), ("Ceil", np.arange(1, bins + 1)))
    ]
    low, high = (unsqueezed(body, bound, [1]) for bound in bounds)
    places = _pixel_indices(body, size, dtype)
    return op.And(op.GreaterOrEqual(places, low), op.Less(places, high))


def _pixel_indices(body: Graph, size: Dim, dtype: int) -> str:
    """0, 1, ... up to ``size``."""
    ends = [const(body, 0, dtypes.int64), as_scalar(body, size), const(body, 1, dtypes.int64)]
    return cast(body, body.make_node("Range", ends), dtype)


def _round_half_away(body: Graph, x: str) -> str:
    """Halves away from zero, as C rounds."""
    op, dtype = OpBuilder(body), body.get_type(x)
    size = op.Abs(x)
    whole = op.Floor(size)
    half = op.GreaterOrEqual(op.Sub(size, whole), 0.5)
    return op.Mul(op.Sign(x), op.Add(whole, cast(body, half, dtype)))


def _add_number(body: Graph, x: Any, value: float) -> str:
    return OpBuilder(body).Add(x, const(body, value, body.get_type(x)))
