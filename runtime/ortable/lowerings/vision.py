"""Operators of torchvision on regions of pictures, one region a step of Loop: kernels for them are
missing in newer opsets, and ONNX's own operators lack the details of torchvision's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ortable import dtypes
from ortable.dims import Dim
from ortable.ir import Graph, ResultSpec
from ortable.prelude.facts import dim_of, static
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

    def pooled(body: Graph, picture: str, corners: list[str]) -> str:
        weights = [
            _sample_weights(
                body,
                _edges(body, corners[axis::2], spatial_scale, 0.5 if aligned else 0.0, not aligned),
                bins[1 - axis],
                sizes[1 - axis],
                sampling_ratio,
            )
            for axis in (0, 1)
        ]
        columns = body.make_node("Transpose", [weights[0]], perm=[1, 0])
        rows = body.make_node("MatMul", [weights[1], picture])
        return body.make_node("MatMul", [rows, columns])

    return _each_region(graph, input, rois, bins, pooled)


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

    def pooled(body: Graph, picture: str, corners: list[str]) -> str:
        columns, rows = (
            _inside_bins(body, corners[axis::2], spatial_scale, bins[1 - axis], sizes[1 - axis])
            for axis in (0, 1)
        )
        make = body.make_node
        lowest = const(body, -np.inf, body.get_type(picture))
        # [C, H, 1, W] against [bins, W], then [C, 1, H, bins] against [bins, H, 1]
        spread = make("Where", [columns, unsqueezed(body, picture, [2]), lowest])
        last = consts(body, [3], dtypes.int64)
        narrow = unsqueezed(body, make("ReduceMax", [spread, last], keepdims=0), [1])
        spread = make("Where", [unsqueezed(body, rows, [2]), narrow, lowest])
        result = make("ReduceMax", [spread, consts(body, [2], dtypes.int64)], keepdims=0)
        empty = make("Equal", [result, lowest])
        return make("Where", [empty, const(body, 0, body.get_type(picture)), result])

    return _each_region(graph, input, rois, bins, pooled), None


def _each_region(
    graph: Graph,
    input: str,
    rois: str,
    bins: tuple[int, int],
    pooled: Callable[[Graph, str, list[str]], str],
) -> str:
    """``pooled(body, picture [C, H, W], [x1, y1, x2, y2])`` of every region, stacked."""
    dtype = opmath_dtype(graph.get_type(input))
    pictures, regions = cast(graph, input, dtype), cast(graph, rois, dtype)
    body = graph.subgraph("region")
    step = body.make_tensor_input(body.unique_name("step"), dtypes.int64, ())
    going = body.make_tensor_input(body.unique_name("going"), dtypes.boolean, ())
    region = body.make_node("Gather", [regions, step], axis=0)
    numbers = [
        body.make_node("Gather", [region, const(body, place, dtypes.int64)], axis=0)
        for place in range(5)
    ]
    picture = body.make_node("Gather", [pictures, cast(body, numbers[0], dtypes.int64)], axis=0)
    out = pooled(body, picture, numbers[1:])
    for result in (going, out):
        body.make_tensor_output(body.make_node("Identity", [result]))
    count = as_scalar(graph, dim_of(graph, rois, 0))
    # not Scan, which ONNX Runtime cannot run over no region
    always = const(graph, True, dtypes.boolean)
    stacked = graph.make_node("Loop", [count, always], 1, body=body)
    shape = [dim_of(graph, rois, 0), dim_of(graph, input, 1), *bins]
    graph.set_shape(stacked, shape)
    if not isinstance(shape[1], int):
        # without a region ONNX Runtime takes 0 for channels that it cannot know
        stacked = graph.make_node("Reshape", [stacked, as_vec(graph, shape)], allowzero=1)
    return cast(graph, stacked, graph.get_type(input))


def _edges(
    body: Graph, corners: list[str], scale: float, offset: float, at_least_one: bool
) -> tuple[str, str]:
    """Where a region begins along one axis, and its length."""
    dtype = body.get_type(corners[0])
    start, end = (
        body.make_node(
            "Sub",
            [body.make_node("Mul", [each, const(body, scale, dtype)]), const(body, offset, dtype)],
        )
        for each in corners
    )
    length = body.make_node("Sub", [end, start])
    return start, body.make_node("Max", [length, const(body, 1, dtype)]) if at_least_one else length


def _sample_weights(body: Graph, edges: tuple[str, str], bins: int, size: Dim, ratio: int) -> str:
    """[bins, size]: how much each row of the picture counts in the mean of each bin."""
    make, (start, length) = body.make_node, edges
    dtype = body.get_type(start)
    step = make("Div", [length, const(body, bins, dtype)])
    if ratio > 0:
        count, numbers = const(body, ratio, dtype), consts(body, np.arange(ratio), dtype)
    else:
        count = make("Max", [make("Ceil", [step]), const(body, 0, dtype)])
        ends = [const(body, 0, dtypes.int64), cast(body, count, dtypes.int64)]
        numbers = cast(body, make("Range", [*ends, const(body, 1, dtypes.int64)]), dtype)
    within = make("Div", [make("Mul", [_plus(body, numbers, 0.5), step]), count])
    bin_starts = make("Mul", [unsqueezed(body, consts(body, np.arange(bins), dtype), [1]), step])
    places = make("Add", [make("Add", [start, bin_starts]), within])
    end = cast(body, as_scalar(body, size), dtype)
    known = make(
        "And",
        [
            make("GreaterOrEqual", [places, const(body, -1, dtype)]),
            make("LessOrEqual", [places, end]),
        ],
    )
    clipped = make("Clip", [places, const(body, 0, dtype), _plus(body, end, -1)])
    distance = make("Sub", [unsqueezed(body, clipped, [2]), _positions(body, size, dtype)])
    share = make("Sub", [const(body, 1, dtype), make("Abs", [distance])])
    share = make("Max", [share, const(body, 0, dtype)])
    share = make("Mul", [share, unsqueezed(body, cast(body, known, dtype), [2])])
    total = make("ReduceSum", [share, consts(body, [1], dtypes.int64)], keepdims=0)
    return make("Div", [total, make("Max", [count, const(body, 1, dtype)])])


def _inside_bins(body: Graph, corners: list[str], scale: float, bins: int, size: Dim) -> str:
    """[bins, size]: whether a row of the picture is in a bin, both ends rounded outwards."""
    make, dtype = body.make_node, body.get_type(corners[0])
    start, end = (_rounded(body, make("Mul", [x, const(body, scale, dtype)])) for x in corners)
    length = make("Max", [_plus(body, make("Sub", [end, start]), 1), const(body, 1, dtype)])
    step = make("Div", [length, const(body, bins, dtype)])
    bounds = [
        make("Add", [make(word, [make("Mul", [consts(body, numbers, dtype), step])]), start])
        for word, numbers in (("Floor", np.arange(bins)), ("Ceil", np.arange(1, bins + 1)))
    ]
    low, high = (unsqueezed(body, each, [1]) for each in bounds)
    places = _positions(body, size, dtype)
    return make("And", [make("GreaterOrEqual", [places, low]), make("Less", [places, high])])


def _positions(body: Graph, size: Dim, kind: int) -> str:
    """0, 1, ... up to ``size``."""
    ends = [const(body, 0, dtypes.int64), as_scalar(body, size), const(body, 1, dtypes.int64)]
    return cast(body, body.make_node("Range", ends), kind)


def _rounded(body: Graph, x: str) -> str:
    """Halves away from zero, as C rounds."""
    make, dtype = body.make_node, body.get_type(x)
    size = make("Abs", [x])
    whole = make("Floor", [size])
    half = make("GreaterOrEqual", [make("Sub", [size, whole]), const(body, 0.5, dtype)])
    return make("Mul", [make("Sign", [x]), make("Add", [whole, cast(body, half, dtype)])])


def _plus(body: Graph, x: Any, value: float) -> str:
    return body.make_node("Add", [x, const(body, value, body.get_type(x))])
