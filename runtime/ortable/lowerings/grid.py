"""Grid sampling, decomposed: ONNX Runtime's GridSample differs from torch for NaN and infinite
points and for ties, and has no float64 before opset 20.
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
_KEYS = -0.75  # the free parameter of the cubic convolution


def grid_sampler(
    graph: Graph,
    res: ResultSpec,
    input: str,
    grid: str,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
) -> str:
    """aten::grid_sampler, grid_sampler_2d, grid_sampler_3d: [N, C, ...] at a grid [N, ..., n] gives
    [N, C, ...].

    Points are weighted sums of the 2, 4 or 1 places around them along each axis.
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
    """The input as [N, S, C], the grid as one [N, P] per axis, and the steps of the algorithm."""

    def __init__(self, graph: Any, x: str, grid: str, padding: int, align: bool) -> None:
        self.graph, self.padding, self.align = graph, padding, align
        self.dtype = opmath_dtype(graph.get_type(x))
        self.n = rank_of(graph, x) - 2
        self.out = list(shape_of(graph, grid))[1:-1]
        self.batch, self.channels, *self.sizes = shape_of(graph, x)
        transposed = permuted(graph, cast(graph, x, self.dtype), [0, *range(2, self.n + 2), 1])
        area, points = _multiply_sizes(self.sizes), _multiply_sizes(self.out)
        self.flat = reshape_to(graph, transposed, [self.batch, area, self.channels])
        self.grid = reshape_to(graph, cast(graph, grid, self.dtype), [self.batch, points, self.n])

    def add_node(self, op: str, *inputs: str, **attributes: Any) -> str:
        """Append one node."""
        return str(self.graph.make_node(op, list(inputs), **attributes))

    def make_constant(self, value: Any) -> str:
        """A 0-d constant of the computation."""
        return const(self.graph, value, self.dtype)

    def axis_coordinate(self, axis: int) -> str:
        """The coordinates of the points along an axis, in elements; the grid holds the last axis
        first.
        """
        last = const(self.graph, self.n - 1 - axis, dtypes.int64)
        position = self.add_node("Gather", self.grid, last, axis=2)
        position, size = (
            self.add_node("Add", position, self.make_constant(1)),
            self.make_constant(self.sizes[axis]),
        )
        if self.align:
            less = self.add_node("Sub", size, self.make_constant(1))
            return self.add_node(
                "Mul", position, self.add_node("Mul", less, self.make_constant(0.5))
            )
        wide = self.add_node("Mul", position, self.add_node("Mul", size, self.make_constant(0.5)))
        return self.add_node("Sub", wide, self.make_constant(0.5))

    def pad_coordinate(self, position: str, axis: int) -> str:
        """Move a coordinate into the input by the padding mode; NaN becomes what torch
        makes of it.
        """
        last = self.make_constant(self.sizes[axis] - 1)
        if self.padding == _REFLECT:
            position = self._reflect_coordinate(position, axis)
        if self.padding == _ZEROS:
            if self.n == 2:
                return position
            # volumes take a point that is no number for one outside
            wrong = self.add_node(
                "Or", self.add_node("IsNaN", position), self.add_node("IsInf", position)
            )
            return self.add_node("Where", wrong, self.make_constant(-100), position)
        result = self.add_node("Max", self.add_node("Min", position, last), self.make_constant(0))
        end = self.make_constant(0) if self.n == 2 else last
        return self.add_node("Where", self.add_node("IsNaN", position), end, result)

    def _reflect_coordinate(self, position: str, axis: int) -> str:
        """A coordinate mirrored at the first and last element, or at their outer edges."""
        size = self.sizes[axis]
        if self.align and isinstance(size, int) and size == 1:
            return (
                self.add_node("Mul", position, self.make_constant(0))
                if self.n > 2
                else self.make_constant(0)
            )
        low = 0.0 if self.align else -0.5
        span = self.make_constant(size - 1 if self.align else size)
        away = self.add_node("Abs", self.add_node("Sub", position, self.make_constant(low)))
        if self.n == 2:
            twice = self.add_node("Add", span, span)
            turns = self.add_node("Floor", self.add_node("Div", away, twice))
            extra = self.add_node("Sub", away, self.add_node("Mul", turns, twice))
            near = self.add_node("Min", extra, self.add_node("Sub", twice, extra))
            return self.add_node("Add", near, self.make_constant(low))
        extra = self.add_node("Mod", away, span, fmod=1)
        turns = self.add_node("Floor", self.add_node("Div", away, span))
        odd = self.add_node("Mod", turns, self.make_constant(2), fmod=1)
        flip = self.add_node("Equal", odd, self.make_constant(1))
        far = self.add_node("Sub", span, extra)
        return self.add_node(
            "Add", self.add_node("Where", flip, far, extra), self.make_constant(low)
        )

    def axis_taps(self, axis: int, mode: int, position: str) -> list[tuple[str, str, str | None]]:
        """The elements along one axis that a point reads: (index int64 [N, P], whether it lies in
        the input, weight).
        """
        if mode == _NEAREST:
            at = self.add_node("Round", self.pad_coordinate(position, axis))
            return [(*self._safe_index(at, axis), None)]
        if mode == _LINEAR:
            position = self.pad_coordinate(position, axis)
            first = self.add_node("Floor", position)
            away = self.add_node("Sub", position, first)
            second = self.add_node("Add", first, self.make_constant(1))
            near = self.add_node("Sub", second, position) if self.n > 2 else self._one_minus(away)
            return [(*self._safe_index(first, axis), near), (*self._safe_index(second, axis), away)]
        first = self.add_node("Floor", position)
        result: list[tuple[str, str, str | None]] = []
        for offset, weight in zip(
            (-1, 0, 1, 2), self._cubic_weights(self.add_node("Sub", position, first)), strict=True
        ):
            moved = self.add_node("Add", first, self.make_constant(offset))
            result.append((*self._safe_index(self.pad_coordinate(moved, axis), axis), weight))
        return result

    def _one_minus(self, t: str) -> str:
        return self.add_node("Sub", self.make_constant(1), t)

    def _cubic_weights(self, t: str) -> list[str]:
        """Keys' convolution at t + 1, t, 1 - t, 2 - t."""
        rest = self._one_minus(t)
        weights = []
        for near, x in ((False, t), (True, t), (True, rest), (False, rest)):
            if near:
                value = self.add_node("Mul", x, self.make_constant(_KEYS + 2))
                value = self.add_node("Sub", value, self.make_constant(_KEYS + 3))
                value = self.add_node("Mul", self.add_node("Mul", value, x), x)
                weights.append(self.add_node("Add", value, self.make_constant(1)))
                continue
            x = self.add_node("Add", x, self.make_constant(1))
            value = self.add_node(
                "Sub",
                self.add_node("Mul", x, self.make_constant(_KEYS)),
                self.make_constant(5 * _KEYS),
            )
            value = self.add_node(
                "Add", self.add_node("Mul", value, x), self.make_constant(8 * _KEYS)
            )
            weights.append(
                self.add_node("Sub", self.add_node("Mul", value, x), self.make_constant(4 * _KEYS))
            )
        return weights

    def _safe_index(self, position: str, axis: int) -> tuple[str, str]:
        """Turn an integral coordinate into an index that is always valid, and whether it was."""
        last = self.make_constant(self.sizes[axis] - 1)
        inside = self.add_node(
            "And",
            self.add_node("GreaterOrEqual", position, self.make_constant(0)),
            self.add_node("LessOrEqual", position, last),
        )
        safe = self.add_node("Where", inside, position, self.make_constant(0))
        return cast(self.graph, safe, dtypes.int64), inside

    def weighted_corner(self, corner: tuple[tuple[str, str, str | None], ...]) -> str:
        """[N, P, C]: the input at one corner times its weights, 0 outside of the input."""
        index, inside, weight = corner[0]
        for axis, (more, also, factor) in enumerate(corner[1:], start=1):
            size = as_scalar(self.graph, self.sizes[axis])
            index = self.add_node("Add", self.add_node("Mul", index, size), more)
            inside = self.add_node("And", inside, also)
            if weight is not None and factor is not None:
                weight = self.add_node("Mul", weight, factor)
        value = self.add_node(
            "GatherND", self.flat, unsqueezed(self.graph, index, [2]), batch_dims=1
        )
        mask = unsqueezed(self.graph, inside, [2])
        value = self.add_node("Where", mask, value, self.make_constant(0))
        if weight is None:
            return value
        return self.add_node("Mul", value, unsqueezed(self.graph, weight, [2]))

    def restore_layout(self, x: str) -> str:
        """[N, P, C] as [N, C, ...]."""
        transposed = permuted(self.graph, x, [0, 2, 1])
        return reshape_to(self.graph, transposed, [self.batch, self.channels, *self.out])


def _multiply_sizes(sizes: list[Any]) -> Any:
    return math.prod(sizes[1:], start=sizes[0])
