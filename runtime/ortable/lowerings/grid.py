"""Lower grid sampling by decomposition.

ONNX Runtime's GridSample differs from torch for NaN and infinite points and for ties, and has no
float64 before opset 20.
"""

from __future__ import annotations

import math
from itertools import product
from typing import Any

from ortable import dtypes
from ortable.ir import Graph, ResultSpec
from ortable.prelude.facts import rank_of, shape_of
from ortable.prelude.op_builder import OpBuilder
from ortable.prelude.promotion import opmath_dtype
from ortable.prelude.values import as_scalar, cast, const, permuted, reshape_to, unsqueezed

_LINEAR, _NEAREST, _CUBIC = 0, 1, 2
_ZEROS, _BORDER, _REFLECT = 0, 1, 2
_CUBIC_A = -0.75  # the free parameter of the cubic convolution (Keys, 1981)


def grid_sampler(
    graph: Graph,
    res: ResultSpec,
    input: str,
    grid: str,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
) -> str:
    """Lower aten::grid_sampler, grid_sampler_2d and grid_sampler_3d.

    The input [N, C, ...] is sampled at a grid [N, ..., n] to [N, C, ...]. Each point is a weighted
    sum of the nearest 2 (linear), 4 (cubic) or 1 (nearest) elements along each axis.
    """
    sampler = _Sampler(graph, input, grid, padding_mode, align_corners)
    taps = [
        sampler.axis_taps(axis, interpolation_mode, sampler.axis_coordinate(axis))
        for axis in range(sampler.n)
    ]
    total = None
    for corner in product(*taps):
        term = sampler.weighted_corner(corner)
        total = term if total is None else OpBuilder(graph).Add(total, term)
    assert total is not None
    return cast(graph, sampler.restore_layout(total), graph.get_type(input))


class _Sampler:
    """Grid sampling of an input [N, area, C] at P points, a grid [N, P, n] for n spatial dims."""

    def __init__(self, graph: Any, x: str, grid: str, padding: int, align_corners: bool) -> None:
        self.graph, self.padding, self.align_corners = graph, padding, align_corners
        self.dtype = opmath_dtype(graph.get_type(x))
        self.n = rank_of(graph, x) - 2
        self.out_sizes = list(shape_of(graph, grid))[1:-1]
        self.batch, self.channels, *self.sizes = shape_of(graph, x)
        channels_last = permuted(graph, cast(graph, x, self.dtype), [0, *range(2, self.n + 2), 1])
        area, points = _multiply_sizes(self.sizes), _multiply_sizes(self.out_sizes)
        self.rows = reshape_to(graph, channels_last, [self.batch, area, self.channels])
        self.grid = reshape_to(graph, cast(graph, grid, self.dtype), [self.batch, points, self.n])

    def add_node(self, op: str, *inputs: str, **attributes: Any) -> str:
        """Append a node and return its result."""
        return str(self.graph.make_node(op, list(inputs), **attributes))

    def make_constant(self, value: Any) -> str:
        """Return a 0-d constant of the compute dtype."""
        return const(self.graph, value, self.dtype)

    def axis_coordinate(self, axis: int) -> str:
        """Return the coordinates of the points along an axis, in elements."""
        grid_column = const(self.graph, self.n - 1 - axis, dtypes.int64)  # last axis first
        position = self.add_node("Gather", self.grid, grid_column, axis=2)
        position, size = (
            self.add_node("Add", position, self.make_constant(1)),
            self.make_constant(self.sizes[axis]),
        )
        if self.align_corners:
            span = self.add_node("Sub", size, self.make_constant(1))
            return self.add_node(
                "Mul", position, self.add_node("Mul", span, self.make_constant(0.5))
            )
        scaled = self.add_node("Mul", position, self.add_node("Mul", size, self.make_constant(0.5)))
        return self.add_node("Sub", scaled, self.make_constant(0.5))

    def pad_coordinate(self, position: str, axis: int) -> str:
        """Move a coordinate into the input by the padding mode; handle NaN as torch does."""
        last = self.make_constant(self.sizes[axis] - 1)
        if self.padding == _REFLECT:
            position = self._reflect_coordinate(position, axis)
        if self.padding == _ZEROS:
            if self.n == 2:
                return position
            # for volumes, torch treats a point that is not finite as outside of the input
            is_not_finite = self.add_node(
                "Or", self.add_node("IsNaN", position), self.add_node("IsInf", position)
            )
            return self.add_node("Where", is_not_finite, self.make_constant(-100), position)
        result = self.add_node("Max", self.add_node("Min", position, last), self.make_constant(0))
        nan_position = self.make_constant(0) if self.n == 2 else last
        return self.add_node("Where", self.add_node("IsNaN", position), nan_position, result)

    def _reflect_coordinate(self, position: str, axis: int) -> str:
        """Mirror a coordinate at the first and last element, or at their outer edges."""
        size = self.sizes[axis]
        if self.align_corners and isinstance(size, int) and size == 1:
            return (
                self.add_node("Mul", position, self.make_constant(0))
                if self.n > 2
                else self.make_constant(0)
            )
        edge = 0.0 if self.align_corners else -0.5
        span = self.make_constant(size - 1 if self.align_corners else size)
        distance = self.add_node("Abs", self.add_node("Sub", position, self.make_constant(edge)))
        if self.n == 2:
            period = self.add_node("Add", span, span)
            periods = self.add_node("Floor", self.add_node("Div", distance, period))
            remainder = self.add_node("Sub", distance, self.add_node("Mul", periods, period))
            folded = self.add_node("Min", remainder, self.add_node("Sub", period, remainder))
            return self.add_node("Add", folded, self.make_constant(edge))
        remainder = self.add_node("Mod", distance, span, fmod=1)
        periods = self.add_node("Floor", self.add_node("Div", distance, span))
        parity = self.add_node("Mod", periods, self.make_constant(2), fmod=1)
        is_mirrored = self.add_node("Equal", parity, self.make_constant(1))
        mirrored = self.add_node("Sub", span, remainder)
        return self.add_node(
            "Add",
            self.add_node("Where", is_mirrored, mirrored, remainder),
            self.make_constant(edge),
        )

    def axis_taps(self, axis: int, mode: int, position: str) -> list[tuple[str, str, str | None]]:
        """Return the elements along one axis that a point reads.

        Each is a tuple of an index, whether the element is inside of the input, and a weight. The
        index is int64 [N, P] and always valid. The weight None means 1.
        """
        if mode == _NEAREST:
            nearest = self.add_node("Round", self.pad_coordinate(position, axis))
            return [(*self._safe_index(nearest, axis), None)]
        if mode == _LINEAR:
            position = self.pad_coordinate(position, axis)
            lower = self.add_node("Floor", position)
            t = self.add_node("Sub", position, lower)
            upper = self.add_node("Add", lower, self.make_constant(1))
            complement = self.add_node("Sub", upper, position) if self.n > 2 else self._one_minus(t)
            return [
                (*self._safe_index(lower, axis), complement),
                (*self._safe_index(upper, axis), t),
            ]
        lower = self.add_node("Floor", position)
        taps: list[tuple[str, str, str | None]] = []
        for offset, weight in zip(
            (-1, 0, 1, 2), self._cubic_weights(self.add_node("Sub", position, lower)), strict=True
        ):
            shifted = self.add_node("Add", lower, self.make_constant(offset))
            taps.append((*self._safe_index(self.pad_coordinate(shifted, axis), axis), weight))
        return taps

    def _one_minus(self, t: str) -> str:
        return self.add_node("Sub", self.make_constant(1), t)

    def _cubic_weights(self, t: str) -> list[str]:
        """Return Keys' cubic convolution weights at distances t + 1, t, 1 - t and 2 - t."""
        complement = self._one_minus(t)
        weights = []
        for is_near, distance in ((False, t), (True, t), (True, complement), (False, complement)):
            if is_near:
                weight = self.add_node("Mul", distance, self.make_constant(_CUBIC_A + 2))
                weight = self.add_node("Sub", weight, self.make_constant(_CUBIC_A + 3))
                weight = self.add_node("Mul", self.add_node("Mul", weight, distance), distance)
                weights.append(self.add_node("Add", weight, self.make_constant(1)))
                continue
            distance = self.add_node("Add", distance, self.make_constant(1))
            weight = self.add_node(
                "Sub",
                self.add_node("Mul", distance, self.make_constant(_CUBIC_A)),
                self.make_constant(5 * _CUBIC_A),
            )
            weight = self.add_node(
                "Add", self.add_node("Mul", weight, distance), self.make_constant(8 * _CUBIC_A)
            )
            weights.append(
                self.add_node(
                    "Sub", self.add_node("Mul", weight, distance), self.make_constant(4 * _CUBIC_A)
                )
            )
        return weights

    def _safe_index(self, position: str, axis: int) -> tuple[str, str]:
        """Turn an integral coordinate into a valid index; also return whether it was inside."""
        last = self.make_constant(self.sizes[axis] - 1)
        inside = self.add_node(
            "And",
            self.add_node("GreaterOrEqual", position, self.make_constant(0)),
            self.add_node("LessOrEqual", position, last),
        )
        safe = self.add_node("Where", inside, position, self.make_constant(0))
        return cast(self.graph, safe, dtypes.int64), inside

    def weighted_corner(self, corner: tuple[tuple[str, str, str | None], ...]) -> str:
        """Return [N, P, C]: the input at one corner times its weights, 0 outside of the input."""
        index, inside, weight = corner[0]
        for axis, (axis_index, axis_inside, factor) in enumerate(corner[1:], start=1):
            size = as_scalar(self.graph, self.sizes[axis])
            index = self.add_node("Add", self.add_node("Mul", index, size), axis_index)
            inside = self.add_node("And", inside, axis_inside)
            if weight is not None and factor is not None:
                weight = self.add_node("Mul", weight, factor)
        value = self.add_node(
            "GatherND", self.rows, unsqueezed(self.graph, index, [2]), batch_dims=1
        )
        mask = unsqueezed(self.graph, inside, [2])
        value = self.add_node("Where", mask, value, self.make_constant(0))
        if weight is None:
            return value
        return self.add_node("Mul", value, unsqueezed(self.graph, weight, [2]))

    def restore_layout(self, x: str) -> str:
        """Reshape [N, P, C] to [N, C, ...]."""
        transposed = permuted(self.graph, x, [0, 2, 1])
        return reshape_to(self.graph, transposed, [self.batch, self.channels, *self.out_sizes])


def _multiply_sizes(sizes: list[Any]) -> Any:
    return math.prod(sizes[1:], start=sizes[0])
