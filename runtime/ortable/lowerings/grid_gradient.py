"""Gradients of grid sampling: each point of the grid reads a few elements of the input, its taps.

All taps of all axes are computed at once, so that one gather and one scatter serve them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ortable import dims, dtypes
from ortable.dims import Dim
from ortable.ir import Graph, ResultSpec
from ortable.prelude.facts import dim_of, rank_of, shape_of
from ortable.prelude.indexing import scatter_elements
from ortable.prelude.op_builder import OpBuilder
from ortable.prelude.pointwise import polynomial
from ortable.prelude.promotion import opmath_dtype
from ortable.prelude.shapes import expanded, zeros_of
from ortable.prelude.values import cast, const, consts, reshape_to, unsqueezed

BILINEAR, NEAREST, BICUBIC = 0, 1, 2
ZEROS, BORDER, REFLECTION = 0, 1, 2
A = -0.75  # of torch's cubic convolution (Keys, 1981)


class _Taps(NamedTuple):
    """The taps of one axis, each [N, taps, places]; `slope` is the derivative of `weight` by the
    coordinate of the grid."""

    at: str
    inside: str
    weight: str
    slope: str


def grid_sampler_backward(
    graph: Graph,
    res: ResultSpec,
    grad_output: str,
    input: str,
    grid: str,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
    output_mask: Sequence[bool],
) -> tuple[str | None, str | None]:
    """aten::grid_sampler_2d_backward and grid_sampler_3d_backward: gradients of input and grid.

    Of ``output_mask`` torch reads the first place only.
    """
    op, n, own = OpBuilder(graph), rank_of(graph, input) - 2, graph.get_type(input)
    compute_dtype = opmath_dtype(own)
    batch, channels = shape_of(graph, input)[:2]
    sizes, places = shape_of(graph, input)[2:], shape_of(graph, grad_output)[2:]
    total = dims.product_of(places)
    rows = reshape_to(graph, cast(graph, grid, compute_dtype), [batch, total, n])
    taps = []
    for axis, size in enumerate(sizes):
        # the grid names the last axis first
        spot = op.Gather(rows, consts(graph, [n - 1 - axis], dtypes.int64), axis=2)
        spot = reshape_to(graph, spot, [batch, 1, total])
        mode = (interpolation_mode, padding_mode, align_corners)
        taps.append(_axis_taps(graph, spot, size, mode))
    index, inside = _combine_taps(graph, taps, sizes)
    grad = reshape_to(graph, cast(graph, grad_output, compute_dtype), [batch, channels, 1, total])
    count = dim_of(graph, index, 2)
    flat = [batch, channels, count * total]
    where = reshape_to(graph, expanded(graph, index, [batch, channels, count, total]), flat)
    zero, result = const(graph, 0, compute_dtype), None
    if output_mask[0]:
        parts = op.Mul(grad, _tap_products(graph, [tap.weight for tap in taps]))
        parts = reshape_to(graph, op.Where(inside, parts, zero), flat)
        base = zeros_of(graph, [batch, channels, dims.product_of(sizes)], compute_dtype)
        result = scatter_elements(graph, base, 2, where, parts, "add")
        result = cast(graph, reshape_to(graph, result, shape_of(graph, input)), own)
    if res[1].name == "":
        return result, None
    if interpolation_mode == NEAREST:
        return result, zeros_of(graph, list(shape_of(graph, grid)), own)
    line = reshape_to(
        graph, cast(graph, input, compute_dtype), [batch, channels, dims.product_of(sizes)]
    )
    read = reshape_to(
        graph, op.GatherElements(line, where, axis=2), [batch, channels, count, total]
    )
    along = op.ReduceSum(op.Mul(read, grad), consts(graph, [1], dtypes.int64))
    along = op.Where(inside, along, zero)
    steep = []
    for axis in reversed(range(n)):
        factors = [tap.slope if tap is taps[axis] else tap.weight for tap in taps]
        terms = op.Mul(along, _tap_products(graph, factors))
        steep.append(op.ReduceSum(terms, consts(graph, [1, 2], dtypes.int64), keepdims=0))
    together = op("Concat", [unsqueezed(graph, slope, [2]) for slope in steep], axis=2)
    return result, cast(graph, reshape_to(graph, together, shape_of(graph, grid)), own)


def _tap_products(graph: Graph, factors: Sequence[str]) -> str:
    """[N, 1, all combinations of taps, places] of factors [N, taps, places]."""
    result = factors[0]
    for factor in factors[1:]:
        both = OpBuilder(graph).Mul(unsqueezed(graph, result, [2]), unsqueezed(graph, factor, [1]))
        result = _merge_axes(graph, both)
    return unsqueezed(graph, result, [1])


def _merge_axes(graph: Graph, x: str) -> str:
    """[N, a, b, places] -> [N, a * b, places]."""
    batch, a, b, total = shape_of(graph, x)
    return reshape_to(graph, x, [batch, a * b, total])


def _combine_taps(graph: Graph, taps: Sequence[_Taps], sizes: Sequence[Dim]) -> tuple[str, str]:
    """The index into the flattened input of each combination of taps, and whether it is inside."""
    op = OpBuilder(graph)
    index, inside = taps[0].at, taps[0].inside
    for tap, size in zip(taps[1:], sizes[1:], strict=True):
        lines = op.Mul(index, const(graph, size, dtypes.int64))
        both = op.Add(unsqueezed(graph, lines, [2]), unsqueezed(graph, tap.at, [1]))
        index = _merge_axes(graph, both)
        both = op.And(unsqueezed(graph, inside, [2]), unsqueezed(graph, tap.inside, [1]))
        inside = _merge_axes(graph, both)
    return unsqueezed(graph, index, [1]), unsqueezed(graph, inside, [1])


def _axis_taps(graph: Graph, spot: str, size: Dim, mode: tuple[int, int, bool]) -> _Taps:
    """The taps of one axis for coordinates ``spot`` [N, 1, points] between -1 and 1."""
    how, padding, corners = mode
    op, dtype = OpBuilder(graph), graph.get_type(spot)
    one, half = const(graph, 1, dtype), const(graph, 0.5, dtype)
    length = const(graph, size, dtype)
    shifted = op.Add(spot, one)
    if corners:
        step = op.Mul(op.Sub(length, one), half)
        x = op.Mul(op.Mul(shifted, half), op.Sub(length, one))
    else:
        step = op.Mul(length, half)
        x = op.Mul(op.Sub(op.Mul(shifted, length), one), half)
    if how == BICUBIC:
        low = op.Floor(x)
        weight, slope = _cubic_weights(graph, op.Sub(x, low))
        places = op.Add(low, _column_vector(graph, [-1, 0, 1, 2], dtype))
        places, _ = _pad_coordinates(graph, places, length, padding, corners)
        # torch truncates here; what reflection and clipping give is whole
        return _make_taps(graph, places, length, weight, op.Mul(slope, step))
    x, turn = _pad_coordinates(graph, x, length, padding, corners)
    if turn is not None:
        step = op.Mul(step, turn)
    if how == NEAREST:
        return _make_taps(graph, op.Round(x), length, one, one)
    low = op.Floor(x)
    places = op.Add(low, _column_vector(graph, [0, 1], dtype))
    part = op.Sub(x, low)
    weight = op.Concat(op.Sub(one, part), part, axis=1)
    return _make_taps(
        graph, places, length, weight, op.Mul(_column_vector(graph, [-1, 1], dtype), step)
    )


def _column_vector(graph: Graph, values: Sequence[float], dtype: int) -> str:
    return graph.make_initializer("", np.array(values, dtypes.to_numpy(dtype)).reshape(-1, 1))


def _make_taps(graph: Graph, places: str, length: str, weight: str, slope: str) -> _Taps:
    """Turn integral coordinates into indices; 0 stands for those outside of the input."""
    op, dtype = OpBuilder(graph), graph.get_type(places)
    zero = const(graph, 0, dtype)
    inside = op.And(op.GreaterOrEqual(places, zero), op.Less(places, length))
    index = cast(graph, op.Where(inside, places, zero), dtypes.int64)
    shape = list(shape_of(graph, places))
    weight, slope = expanded(graph, weight, shape), expanded(graph, slope, shape)
    return _Taps(index, inside, weight, slope)


def _cubic_weights(graph: Graph, t: str) -> tuple[str, str]:
    """Weights of four taps around a place, and their derivatives."""
    op, one = OpBuilder(graph), const(graph, 1, graph.get_type(t))
    rest = op.Sub(one, t)
    near, far = (A + 2, -(A + 3), 0, 1), (A, -5 * A, 8 * A, -4 * A)
    near_slope, far_slope = (3 * (A + 2), -2 * (A + 3), 0), (3 * A, -10 * A, 8 * A)
    past, ahead = op.Add(t, one), op.Add(rest, one)
    weights = [polynomial(graph, x, c) for x, c in ((past, far), (t, near), (rest, near))]
    weights.append(polynomial(graph, ahead, far))
    slopes = [polynomial(graph, past, far_slope), polynomial(graph, t, near_slope)]
    for x, c in ((rest, near_slope), (ahead, far_slope)):
        slopes.append(op.Neg(polynomial(graph, x, c)))
    return op("Concat", weights, axis=1), op("Concat", slopes, axis=1)


def _pad_coordinates(
    graph: Graph, x: str, length: str, padding: int, corners: bool
) -> tuple[str, str | None]:
    """Move coordinates into the input; returns also the derivative of that (None: 1)."""
    op, dtype = OpBuilder(graph), graph.get_type(x)
    if padding == ZEROS:
        return x, None
    zero, one = const(graph, 0, dtype), const(graph, 1, dtype)
    last, turn = op.Sub(length, one), None
    if padding == REFLECTION:
        x, turn = _reflect_coordinates(graph, x, last if corners else length, corners)
    between = op.And(op.Greater(x, zero), op.Less(x, last))
    slope = op.Where(between, one if turn is None else turn, zero)
    return op.Min(op.Max(x, zero), last), slope


def _reflect_coordinates(graph: Graph, x: str, span: str, corners: bool) -> tuple[str, str]:
    """Coordinates mirrored at both ends of a line of length ``span``, and the sign of that."""
    op, dtype = OpBuilder(graph), graph.get_type(x)
    zero, one, two = (const(graph, value, dtype) for value in (0, 1, 2))
    half = const(graph, 0 if corners else -0.5, dtype)
    away = op.Sub(x, half)
    sign = op.Where(op.Less(away, zero), -1, one)
    away = op.Abs(away)
    point = op.Equal(span, zero)  # a line of no length: every coordinate is 0
    safe = op.Where(point, one, span)
    rest = op.Mod(away, safe, fmod=1)
    turns = op.Floor(op.Div(away, safe))
    even = op.Equal(op.Mod(turns, two, fmod=1), zero)
    mirrored = op.Add(op.Where(even, rest, op.Sub(safe, rest)), half)
    slope = op.Where(even, sign, op.Neg(sign))
    return op.Where(point, zero, mirrored), op.Where(point, zero, slope)
