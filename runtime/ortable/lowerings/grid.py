"""Sampling at the points of a grid, written out: ONNX Runtime's GridSample differs from torch for
NaN and infinite points and for ties, and has no float64 before opset 20."""

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
        sampler.taps(axis, interpolation_mode, sampler.coordinate(axis))
        for axis in range(sampler.n)
    ]
    total = None
    for corner in product(*taps):
        term = sampler.weighed(corner)
        total = term if total is None else OpBuilder(graph).Add(total, term)
    assert total is not None
    return cast(graph, sampler.restored(total), graph.get_type(input))


class _Sampler:
    """The input as [N, S, C], the grid as one [N, P] per axis, and the steps of the algorithm."""

    def __init__(self, graph: Any, x: str, grid: str, padding: int, align: bool) -> None:
        self.graph, self.padding, self.align = graph, padding, align
        self.kind = opmath_dtype(graph.get_type(x))
        self.n = rank_of(graph, x) - 2
        self.out = list(shape_of(graph, grid))[1:-1]
        self.batch, self.channels, *self.sizes = shape_of(graph, x)
        transposed = permuted(graph, cast(graph, x, self.kind), [0, *range(2, self.n + 2), 1])
        area, points = _product(self.sizes), _product(self.out)
        self.flat = reshape_to(graph, transposed, [self.batch, area, self.channels])
        self.grid = reshape_to(graph, cast(graph, grid, self.kind), [self.batch, points, self.n])

    def make(self, op: str, *inputs: str, **attributes: Any) -> str:
        """One node."""
        return str(self.graph.make_node(op, list(inputs), **attributes))

    def number(self, value: Any) -> str:
        """A 0-d constant of the computation."""
        return const(self.graph, value, self.kind)

    def coordinate(self, axis: int) -> str:
        """Where the points lie along an axis, in elements; the grid holds the last axis first."""
        last = const(self.graph, self.n - 1 - axis, dtypes.int64)
        place = self.make("Gather", self.grid, last, axis=2)
        place, size = self.make("Add", place, self.number(1)), self.number(self.sizes[axis])
        if self.align:
            less = self.make("Sub", size, self.number(1))
            return self.make("Mul", place, self.make("Mul", less, self.number(0.5)))
        wide = self.make("Mul", place, self.make("Mul", size, self.number(0.5)))
        return self.make("Sub", wide, self.number(0.5))

    def padded(self, place: str, axis: int) -> str:
        """A coordinate moved into the input by the padding mode; NaN goes where torch puts it."""
        last = self.number(self.sizes[axis] - 1)
        if self.padding == _REFLECT:
            place = self._reflected(place, axis)
        if self.padding == _ZEROS:
            if self.n == 2:
                return place
            # volumes take a point that is no number for one outside
            wrong = self.make("Or", self.make("IsNaN", place), self.make("IsInf", place))
            return self.make("Where", wrong, self.number(-100), place)
        result = self.make("Max", self.make("Min", place, last), self.number(0))
        end = self.number(0) if self.n == 2 else last
        return self.make("Where", self.make("IsNaN", place), end, result)

    def _reflected(self, place: str, axis: int) -> str:
        """A coordinate mirrored at the first and last element, or at their outer edges."""
        size = self.sizes[axis]
        if self.align and isinstance(size, int) and size == 1:
            return self.make("Mul", place, self.number(0)) if self.n > 2 else self.number(0)
        low = 0.0 if self.align else -0.5
        span = self.number(size - 1 if self.align else size)
        away = self.make("Abs", self.make("Sub", place, self.number(low)))
        if self.n == 2:
            twice = self.make("Add", span, span)
            turns = self.make("Floor", self.make("Div", away, twice))
            extra = self.make("Sub", away, self.make("Mul", turns, twice))
            near = self.make("Min", extra, self.make("Sub", twice, extra))
            return self.make("Add", near, self.number(low))
        extra = self.make("Mod", away, span, fmod=1)
        turns = self.make("Floor", self.make("Div", away, span))
        odd = self.make("Mod", turns, self.number(2), fmod=1)
        flip = self.make("Equal", odd, self.number(1))
        far = self.make("Sub", span, extra)
        return self.make("Add", self.make("Where", flip, far, extra), self.number(low))

    def taps(self, axis: int, mode: int, place: str) -> list[tuple[str, str, str | None]]:
        """The places along one axis that a point takes its value from: (index int64 [N, P],
        whether it lies in the input, weight)."""
        if mode == _NEAREST:
            at = self.make("Round", self.padded(place, axis))
            return [(*self._index(at, axis), None)]
        if mode == _LINEAR:
            place = self.padded(place, axis)
            first = self.make("Floor", place)
            away = self.make("Sub", place, first)
            second = self.make("Add", first, self.number(1))
            near = self.make("Sub", second, place) if self.n > 2 else self._rest(away)
            return [(*self._index(first, axis), near), (*self._index(second, axis), away)]
        first = self.make("Floor", place)
        result: list[tuple[str, str, str | None]] = []
        for offset, weight in zip(
            (-1, 0, 1, 2), self._cubic(self.make("Sub", place, first)), strict=True
        ):
            moved = self.make("Add", first, self.number(offset))
            result.append((*self._index(self.padded(moved, axis), axis), weight))
        return result

    def _rest(self, t: str) -> str:
        return self.make("Sub", self.number(1), t)

    def _cubic(self, t: str) -> list[str]:
        """Keys' convolution at t + 1, t, 1 - t, 2 - t."""
        rest = self._rest(t)
        weights = []
        for near, x in ((False, t), (True, t), (True, rest), (False, rest)):
            if near:
                bent = self.make("Mul", x, self.number(_KEYS + 2))
                bent = self.make("Sub", bent, self.number(_KEYS + 3))
                bent = self.make("Mul", self.make("Mul", bent, x), x)
                weights.append(self.make("Add", bent, self.number(1)))
                continue
            x = self.make("Add", x, self.number(1))
            bent = self.make("Sub", self.make("Mul", x, self.number(_KEYS)), self.number(5 * _KEYS))
            bent = self.make("Add", self.make("Mul", bent, x), self.number(8 * _KEYS))
            weights.append(self.make("Sub", self.make("Mul", bent, x), self.number(4 * _KEYS)))
        return weights

    def _index(self, place: str, axis: int) -> tuple[str, str]:
        """A whole coordinate as an index that is always valid, and whether it was."""
        last = self.number(self.sizes[axis] - 1)
        inside = self.make(
            "And",
            self.make("GreaterOrEqual", place, self.number(0)),
            self.make("LessOrEqual", place, last),
        )
        safe = self.make("Where", inside, place, self.number(0))
        return cast(self.graph, safe, dtypes.int64), inside

    def weighed(self, corner: tuple[tuple[str, str, str | None], ...]) -> str:
        """[N, P, C]: the input at one corner times its weights, 0 outside of the input."""
        index, inside, weight = corner[0]
        for axis, (more, also, factor) in enumerate(corner[1:], start=1):
            size = as_scalar(self.graph, self.sizes[axis])
            index = self.make("Add", self.make("Mul", index, size), more)
            inside = self.make("And", inside, also)
            if weight is not None and factor is not None:
                weight = self.make("Mul", weight, factor)
        value = self.make("GatherND", self.flat, unsqueezed(self.graph, index, [2]), batch_dims=1)
        mask = unsqueezed(self.graph, inside, [2])
        value = self.make("Where", mask, value, self.number(0))
        if weight is None:
            return value
        return self.make("Mul", value, unsqueezed(self.graph, weight, [2]))

    def restored(self, x: str) -> str:
        """[N, P, C] as [N, C, ...]."""
        transposed = permuted(self.graph, x, [0, 2, 1])
        return reshape_to(self.graph, transposed, [self.batch, self.channels, *self.out])


def _product(sizes: list[Any]) -> Any:
    return math.prod(sizes[1:], start=sizes[0])
