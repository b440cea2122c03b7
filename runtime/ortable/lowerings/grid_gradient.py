"""Lower gradients of grid sampling.

Each point of the grid reads a few elements of the input, its taps. All taps of all axes are
computed at once, so that one gather and one scatter handle all of them.
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
A = -0.75  # the free parameter of torch's cubic convolution (Keys, 1981)


class _Taps(NamedTuple):
    """The taps of one axis, each field [N, taps, points]."""

    indices: str
    inside: str
    weight: str
    slope: str  # the derivative of the weight with respect to the grid coordinate


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
    """Lower aten::grid_sampler_2d_backward and grid_sampler_3d_backward."""
    op, n, input_dtype = OpBuilder(graph), rank_of(graph, input) - 2, graph.get_type(input)
    compute_dtype = opmath_dtype(input_dtype)
    batch, channels = shape_of(graph, input)[:2]
    sizes, out_sizes = shape_of(graph, input)[2:], shape_of(graph, grad_output)[2:]
    points = dims.product_of(out_sizes)
    grid_rows = reshape_to(graph, cast(graph, grid, compute_dtype), [batch, points, n])
    taps = []
    for axis, size in enumerate(sizes):
        # the grid stores the coordinates of the last axis first
        coordinates = op.Gather(grid_rows, consts(graph, [n - 1 - axis], dtypes.int64), axis=2)
        coordinates = reshape_to(graph, coordinates, [batch, 1, points])
        mode = (interpolation_mode, padding_mode, align_corners)
        taps.append(_axis_taps(graph, coordinates, size, mode))
    index, inside = _combine_taps(graph, taps, sizes)
    grad = reshape_to(graph, cast(graph, grad_output, compute_dtype), [batch, channels, 1, points])
    count = dim_of(graph, index, 2)
    shape = [batch, channels, count * points]
    indices = reshape_to(graph, expanded(graph, index, [batch, channels, count, points]), shape)
    zero, input_grad = const(graph, 0, compute_dtype), None
    if output_mask[0]:
        updates = op.Mul(grad, _tap_products(graph, [tap.weight for tap in taps]))
        updates = reshape_to(graph, op.Where(inside, updates, zero), shape)
        base = zeros_of(graph, [batch, channels, dims.product_of(sizes)], compute_dtype)
        input_grad = scatter_elements(graph, base, 2, indices, updates, "add")
        input_grad = cast(graph, reshape_to(graph, input_grad, shape_of(graph, input)), input_dtype)
    if res[1].name == "":
        return input_grad, None
    if interpolation_mode == NEAREST:
        return input_grad, zeros_of(graph, list(shape_of(graph, grid)), input_dtype)
    flat_input = reshape_to(
        graph, cast(graph, input, compute_dtype), [batch, channels, dims.product_of(sizes)]
    )
    tap_values = reshape_to(
        graph, op.GatherElements(flat_input, indices, axis=2), [batch, channels, count, points]
    )
    tap_grads = op.ReduceSum(op.Mul(tap_values, grad), consts(graph, [1], dtypes.int64))
    tap_grads = op.Where(inside, tap_grads, zero)
    slopes = []
    for axis in reversed(range(n)):
        factors = [tap.slope if tap is taps[axis] else tap.weight for tap in taps]
        terms = op.Mul(tap_grads, _tap_products(graph, factors))
        slopes.append(op.ReduceSum(terms, consts(graph, [1, 2], dtypes.int64), keepdims=0))
    grid_grad = op("Concat", [unsqueezed(graph, slope, [2]) for slope in slopes], axis=2)
    return input_grad, cast(graph, reshape_to(graph, grid_grad, shape_of(graph, grid)), input_dtype)


def _tap_products(graph: Graph, factors: Sequence[str]) -> str:
    """Multiply factors [N, taps, points] of all axes: [N, 1, all combinations of taps, points]."""
    result = factors[0]
    for factor in factors[1:]:
        pairs = OpBuilder(graph).Mul(unsqueezed(graph, result, [2]), unsqueezed(graph, factor, [1]))
        result = _merge_axes(graph, pairs)
    return unsqueezed(graph, result, [1])


def _merge_axes(graph: Graph, x: str) -> str:
    """Reshape [N, a, b, points] to [N, a * b, points]."""
    batch, a, b, points = shape_of(graph, x)
    return reshape_to(graph, x, [batch, a * b, points])


def _combine_taps(graph: Graph, taps: Sequence[_Taps], sizes: Sequence[Dim]) -> tuple[str, str]:
    """Return the flat input index of each combination of taps, and whether it is inside."""
    op = OpBuilder(graph)
    index, inside = taps[0].indices, taps[0].inside
    for tap, size in zip(taps[1:], sizes[1:], strict=True):
        row_starts = op.Mul(index, const(graph, size, dtypes.int64))
        combined = op.Add(unsqueezed(graph, row_starts, [2]), unsqueezed(graph, tap.indices, [1]))
        index = _merge_axes(graph, combined)
        combined = op.And(unsqueezed(graph, inside, [2]), unsqueezed(graph, tap.inside, [1]))
        inside = _merge_axes(graph, combined)
    return unsqueezed(graph, index, [1]), unsqueezed(graph, inside, [1])


def _axis_taps(graph: Graph, coordinates: str, size: Dim, mode: tuple[int, int, bool]) -> _Taps:
    """Return the taps of one axis for ``coordinates`` [N, 1, points]; -1 and 1 are its ends."""
    interpolation, padding, corners = mode
    op, dtype = OpBuilder(graph), graph.get_type(coordinates)
    one, half = const(graph, 1, dtype), const(graph, 0.5, dtype)
    length = const(graph, size, dtype)
    shifted = op.Add(coordinates, one)
    if corners:
        step = op.Mul(op.Sub(length, one), half)
        x = op.Mul(op.Mul(shifted, half), op.Sub(length, one))
    else:
        step = op.Mul(length, half)
        x = op.Mul(op.Sub(op.Mul(shifted, length), one), half)
    if interpolation == BICUBIC:
        lower = op.Floor(x)
        weight, slope = _cubic_weights(graph, op.Sub(x, lower))
        tap_positions = op.Add(lower, _column_vector(graph, [-1, 0, 1, 2], dtype))
        tap_positions, _ = _pad_coordinates(graph, tap_positions, length, padding, corners)
        # torch truncates these positions; after reflection or clipping they are integers already
        return _make_taps(graph, tap_positions, length, weight, op.Mul(slope, step))
    x, reflection_slope = _pad_coordinates(graph, x, length, padding, corners)
    if reflection_slope is not None:
        step = op.Mul(step, reflection_slope)
    if interpolation == NEAREST:
        return _make_taps(graph, op.Round(x), length, one, one)
    lower = op.Floor(x)
    tap_positions = op.Add(lower, _column_vector(graph, [0, 1], dtype))
    upper_weight = op.Sub(x, lower)
    weight = op.Concat(op.Sub(one, upper_weight), upper_weight, axis=1)
    return _make_taps(
        graph, tap_positions, length, weight, op.Mul(_column_vector(graph, [-1, 1], dtype), step)
    )


def _column_vector(graph: Graph, values: Sequence[float], dtype: int) -> str:
    return graph.make_initializer("", np.array(values, dtypes.to_numpy(dtype)).reshape(-1, 1))


def _make_taps(graph: Graph, positions: str, length: str, weight: str, slope: str) -> _Taps:
    """Turn integral positions into indices; positions outside of the input become index 0."""
    op, dtype = OpBuilder(graph), graph.get_type(positions)
    zero = const(graph, 0, dtype)
    inside = op.And(op.GreaterOrEqual(positions, zero), op.Less(positions, length))
    index = cast(graph, op.Where(inside, positions, zero), dtypes.int64)
    shape = list(shape_of(graph, positions))
    weight, slope = expanded(graph, weight, shape), expanded(graph, slope, shape)
    return _Taps(index, inside, weight, slope)


def _cubic_weights(graph: Graph, t: str) -> tuple[str, str]:
    """Return the weights of the four taps around a position, and their derivatives."""
    op, one = OpBuilder(graph), const(graph, 1, graph.get_type(t))
    complement = op.Sub(one, t)
    near, far = (A + 2, -(A + 3), 0, 1), (A, -5 * A, 8 * A, -4 * A)
    near_slope, far_slope = (3 * (A + 2), -2 * (A + 3), 0), (3 * A, -10 * A, 8 * A)
    t_plus_one, complement_plus_one = op.Add(t, one), op.Add(complement, one)
    weights = [
        polynomial(graph, x, c) for x, c in ((t_plus_one, far), (t, near), (complement, near))
    ]
    weights.append(polynomial(graph, complement_plus_one, far))
    slopes = [polynomial(graph, t_plus_one, far_slope), polynomial(graph, t, near_slope)]
    for x, c in ((complement, near_slope), (complement_plus_one, far_slope)):
        slopes.append(op.Neg(polynomial(graph, x, c)))
    return op("Concat", weights, axis=1), op("Concat", slopes, axis=1)


def _pad_coordinates(
    graph: Graph, x: str, length: str, padding: int, corners: bool
) -> tuple[str, str | None]:
    """Apply the padding mode to coordinates; also return the derivative of it (None for 1)."""
    op, dtype = OpBuilder(graph), graph.get_type(x)
    if padding == ZEROS:
        return x, None
    zero, one = const(graph, 0, dtype), const(graph, 1, dtype)
    last, reflection_slope = op.Sub(length, one), None
    if padding == REFLECTION:
        x, reflection_slope = _reflect_coordinates(graph, x, last if corners else length, corners)
    is_inside = op.And(op.Greater(x, zero), op.Less(x, last))
    slope = op.Where(is_inside, one if reflection_slope is None else reflection_slope, zero)
    return op.Min(op.Max(x, zero), last), slope


def _reflect_coordinates(graph: Graph, x: str, span: str, corners: bool) -> tuple[str, str]:
    """Mirror coordinates at both ends of a line of length ``span``; also return the derivative."""
    op, dtype = OpBuilder(graph), graph.get_type(x)
    zero, one, two = (const(graph, value, dtype) for value in (0, 1, 2))
    origin = const(graph, 0 if corners else -0.5, dtype)
    distance = op.Sub(x, origin)
    sign = op.Where(op.Less(distance, zero), -1, one)
    distance = op.Abs(distance)
    is_degenerate = op.Equal(span, zero)  # in a line of length 0, every coordinate becomes 0
    safe_span = op.Where(is_degenerate, one, span)
    remainder = op.Mod(distance, safe_span, fmod=1)
    periods = op.Floor(op.Div(distance, safe_span))
    is_even = op.Equal(op.Mod(periods, two, fmod=1), zero)
    mirrored = op.Add(op.Where(is_even, remainder, op.Sub(safe_span, remainder)), origin)
    slope = op.Where(is_even, sign, op.Neg(sign))
    return op.Where(is_degenerate, zero, mirrored), op.Where(is_degenerate, zero, slope)
