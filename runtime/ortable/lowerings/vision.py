"""Lower torchvision's operators on regions of images, one region per trip of a Loop.

ONNX's own operators differ in details, and ONNX Runtime lacks kernels for their newer opsets.
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
    """Lower torchvision's roi_align: the mean of bilinear samples in each bin of each region."""
    # [height, width]; corners are [x1, y1, x2, y2], so axis 0 of them is x
    sizes = dim_of(graph, input, 2), dim_of(graph, input, 3)
    bins = static(pooled_height), static(pooled_width)

    def pool_region(body: Graph, image: str, corners: list[str]) -> str:
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
        rows = OpBuilder(body).MatMul(weights[1], image)
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
    """Lower torchvision's roi_pool: the maximum of each bin of each region, 0 for an empty bin.

    The second result, the indices of the maxima for the backward, is None.
    """
    sizes = dim_of(graph, input, 2), dim_of(graph, input, 3)
    bins = static(pooled_height), static(pooled_width)

    def pool_region(body: Graph, image: str, corners: list[str]) -> str:
        columns, rows = (
            _inside_bins(body, corners[axis::2], spatial_scale, bins[1 - axis], sizes[1 - axis])
            for axis in (0, 1)
        )
        op = OpBuilder(body)
        lowest = const(body, -np.inf, body.get_type(image))
        # shapes: [C, H, 1, W] and [bins, W], then [C, 1, H, bins] and [bins, H, 1]
        masked = op.Where(columns, unsqueezed(body, image, [2]), lowest)
        last_axis = consts(body, [3], dtypes.int64)
        row_maxima = unsqueezed(body, op.ReduceMax(masked, last_axis, keepdims=0), [1])
        masked = op.Where(unsqueezed(body, rows, [2]), row_maxima, lowest)
        result = op.ReduceMax(masked, consts(body, [2], dtypes.int64), keepdims=0)
        is_empty = op.Equal(result, lowest)
        return op.Where(is_empty, 0, result)

    return _loop_over_regions(graph, input, rois, bins, pool_region), None


def _loop_over_regions(
    graph: Graph,
    input: str,
    rois: str,
    bins: tuple[int, int],
    pool_region: Callable[[Graph, str, list[str]], str],
) -> str:
    """Stack ``pool_region(body, image, [x1, y1, x2, y2])`` of all ``rois`` [N, 5].

    The first number of a region is the index of its image, [C, H, W].
    """
    op = OpBuilder(graph)
    dtype = opmath_dtype(graph.get_type(input))
    images, regions = cast(graph, input, dtype), cast(graph, rois, dtype)
    body = graph.subgraph("region")
    step = body.make_tensor_input(body.unique_name("step"), dtypes.int64, ())
    condition = body.make_tensor_input(body.unique_name("going"), dtypes.boolean, ())
    region = OpBuilder(body).Gather(regions, step, axis=0)
    region_fields = [
        OpBuilder(body).Gather(region, const(body, index, dtypes.int64), axis=0)
        for index in range(5)
    ]
    image = OpBuilder(body).Gather(images, cast(body, region_fields[0], dtypes.int64), axis=0)
    pooled = pool_region(body, image, region_fields[1:])
    for result in (condition, pooled):
        body.make_tensor_output(OpBuilder(body).Identity(result))
    count = as_scalar(graph, dim_of(graph, rois, 0))
    # a Loop, because ONNX Runtime cannot run a Scan without steps
    initial_condition = const(graph, True, dtypes.boolean)
    stacked = op.Loop(count, initial_condition, outputs=1, body=body)
    shape = [dim_of(graph, rois, 0), dim_of(graph, input, 1), *bins]
    graph.set_shape(stacked, shape)
    if not isinstance(shape[1], int):
        # without regions, ONNX Runtime infers 0 for an unknown number of channels
        stacked = op.Reshape(stacked, as_vec(graph, shape), allowzero=1)
    return cast(graph, stacked, graph.get_type(input))


def _region_extent(
    body: Graph, corners: list[str], scale: float, offset: float, at_least_one: bool
) -> tuple[str, str]:
    """Return the start and the length of a region along one axis, in pixels of the input."""
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


def _sample_weights(body: Graph, extent: tuple[str, str], bins: int, size: Dim, ratio: int) -> str:
    """Return [bins, size]: the weight of each row (or column) of the image in each bin's mean."""
    op, (start, length) = OpBuilder(body), extent
    dtype = body.get_type(start)
    step = op.Div(length, const(body, bins, dtype))
    if ratio > 0:
        count, sample_indices = const(body, ratio, dtype), consts(body, np.arange(ratio), dtype)
    else:
        count = op.Max(op.Ceil(step), 0)
        bounds = [const(body, 0, dtypes.int64), cast(body, count, dtypes.int64)]
        sample_indices = cast(body, op.Range(*bounds, const(body, 1, dtypes.int64)), dtype)
    sample_offsets = op.Div(op.Mul(_add_number(body, sample_indices, 0.5), step), count)
    bin_starts = op.Mul(unsqueezed(body, consts(body, np.arange(bins), dtype), [1]), step)
    positions = op.Add(op.Add(start, bin_starts), sample_offsets)
    end = cast(body, as_scalar(body, size), dtype)
    inside = op.And(
        op.GreaterOrEqual(positions, -1),
        op.LessOrEqual(positions, end),
    )
    clipped = op.Clip(positions, const(body, 0, dtype), _add_number(body, end, -1))
    distance = op.Sub(unsqueezed(body, clipped, [2]), _pixel_indices(body, size, dtype))
    weights = op.Sub(1, op.Abs(distance))
    weights = op.Max(weights, 0)
    weights = op.Mul(weights, unsqueezed(body, cast(body, inside, dtype), [2]))
    total = op.ReduceSum(weights, consts(body, [1], dtypes.int64), keepdims=0)
    return op.Div(total, op.Max(count, 1))


def _inside_bins(body: Graph, corners: list[str], scale: float, bins: int, size: Dim) -> str:
    """Return [bins, size]: whether a row (or column) is in a bin, both ends rounded outwards."""
    op, dtype = OpBuilder(body), body.get_type(corners[0])
    start, end = (_round_half_away(body, op.Mul(x, const(body, scale, dtype))) for x in corners)
    length = op.Max(_add_number(body, op.Sub(end, start), 1), 1)
    step = op.Div(length, const(body, bins, dtype))
    bounds = [
        op.Add(op(op_type, [op.Mul(consts(body, bin_indices, dtype), step)]), start)
        for op_type, bin_indices in (("Floor", np.arange(bins)), ("Ceil", np.arange(1, bins + 1)))
    ]
    begin, bin_end = (unsqueezed(body, bound, [1]) for bound in bounds)
    pixels = _pixel_indices(body, size, dtype)
    return op.And(op.GreaterOrEqual(pixels, begin), op.Less(pixels, bin_end))


def _pixel_indices(body: Graph, size: Dim, dtype: int) -> str:
    """Return 0, 1, ..., ``size`` - 1 in ``dtype``."""
    bounds = [const(body, 0, dtypes.int64), as_scalar(body, size), const(body, 1, dtypes.int64)]
    return cast(body, body.make_node("Range", bounds), dtype)


def _round_half_away(body: Graph, x: str) -> str:
    """Round halves away from zero, as C does."""
    op, dtype = OpBuilder(body), body.get_type(x)
    magnitude = op.Abs(x)
    floor = op.Floor(magnitude)
    rounds_up = op.GreaterOrEqual(op.Sub(magnitude, floor), 0.5)
    return op.Mul(op.Sign(x), op.Add(floor, cast(body, rounds_up, dtype)))


def _add_number(body: Graph, x: Any, value: float) -> str:
    return OpBuilder(body).Add(x, const(body, value, body.get_type(x)))
