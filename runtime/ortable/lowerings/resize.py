"""Resizing and its gradient: one axis after the other, last axis first, with the source coordinates
of torch. The gradients of pooling and padding are linear maps of one axis, computed the same way.

ONNX's Resize rounds source coordinates differently; it is used only where every coordinate is
exact in float32. Static sizes give constant tables of indices and weights; dynamic ones give
the nodes that compute them. The weights of a gradient are read from torch's own gradient of a unit
matrix while converting, so every mode rounds as torch does; those of a filter are read likewise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ortable import dims, dtypes
from ortable.dims import SymDim
from ortable.errors import UnsupportedCase
from ortable.ir import Graph
from ortable.prelude.facts import (
    Bool,
    Dtype,
    Floats,
    Int,
    Ints,
    Opaque,
    Result,
    Results,
    Str,
    SymInt,
    SymInts,
    broadcast_ints,
    is_static,
    rank_of,
    shape_of,
)
from ortable.prelude.op_builder import OpBuilder
from ortable.prelude.promotion import opmath_dtype
from ortable.prelude.shapes import iota, sliced
from ortable.prelude.values import as_scalar, as_vec, cast, const, consts, unsqueezed

from .padding import full_pads

__all__ = [
    "adaptive_weights",
    "edge_weights",
    "grid_steps",
    "mean_weights",
    "resample_weights",
    "resized",
]


# The free parameter of Keys' cubic convolution: torch takes another one where it filters.
_CUBIC, _CUBIC_FILTER = -0.75, -0.5


# How far the filters reach where the image does not shrink.
_REACH = {"linear_filter": 1, "cubic_filter": 2, "lanczos_filter": 3}


# torch's names of the filters.
_SMOOTH = {"linear": "bilinear", "cubic": "bicubic", "lanczos": "lanczos"}


# Modes in which an axis of unchanged size is a copy.
_COPYING = ("nearest", "nearest_exact", "linear", *_REACH)


def resized(
    graph: Graph, x: Result, sizes: SymInts | None, factors: Any, how: Str, align: Bool = False
) -> Result:
    """[N, C, ...] with its spatial axes resized to ``sizes``, or by ``factors`` without them.

    ``how``: nearest, nearest_exact, linear, cubic, linear_filter, cubic_filter, lanczos_filter
    (the antialiased forms). ``factors`` given beside sizes set the coordinates, as torch's
    scale_factor does.

    Raises:
        UnsupportedCase: uint8 (but for nearest) that is no image of known size.
    """
    op = OpBuilder(graph)
    own = graph.get_type(x)
    have = shape_of(graph, x)[2:]
    factors = list(factors) if factors is not None else [None] * len(have)
    goals = _goal_sizes(graph, have, sizes, factors)
    snaps = how == "nearest" and len(have) == 2
    if snaps:
        factors = [
            None if goal in (size, size * 2) else factor
            for size, goal, factor in zip(have, goals, factors, strict=True)
        ]
    times = _whole_factors(have, goals, factors)
    if times is not None and _is_exact_resize(how, align, times, own):
        return _resize_exactly(graph, x, times, how)
    if own == dtypes.uint8 and not how.startswith("nearest"):
        return _resized_bytes(graph, x, have, goals, factors, how, align)
    dtype = dtypes.float64 if own == dtypes.float64 else dtypes.float32
    result = x if how.startswith("nearest") else cast(graph, x, opmath_dtype(own))
    copied = False
    for index in reversed(range(len(have))):
        factor = None if how.endswith("_filter") else factors[index]  # filters copy whatever it is
        if how in _COPYING and _is_copied(have[index], goals[index], factor):
            copied = how == "linear"
            continue
        axis = _AxisResizer(graph, have[index], goals[index], factors[index], align, dtype)
        axis.rank, axis.snaps = 2 + len(have), snaps
        result = axis.resize_axis(result, 2 + index, how)
    if copied:  # torch weighs the element by 1 and 0, so an infinite one becomes NaN
        nothing = op.Mul(result, 0)
        result = op.Add(result, nothing)
    return cast(graph, result, own)


def _is_copied(size: Any, goal: Any, factor: float | None) -> bool:
    """Whether torch copies along an axis: the size is unchanged and so are the coordinates."""
    if isinstance(goal, str) or factor not in (None, 0, 1):
        return False
    return bool(size is goal or size == goal)


def _resized_bytes(
    graph: Graph, x: str, have: SymInts, goals: Any, factors: list[Any], how: str, align: bool
) -> str:
    """Images of uint8: torch computes with weights of 16 bits and rounds after each axis."""
    if len(have) != 2 or not all(isinstance(size, int) for size in (*have, *goals)):
        raise UnsupportedCase("interpolation of uint8 but for images of known size")
    result = cast(graph, x, dtypes.int32)
    for index in (1, 0):
        if have[index] == goals[index]:
            continue
        axis = _AxisResizer(graph, have[index], goals[index], factors[index], align, dtypes.float64)
        axis.rank = 4
        result = axis.resize_bytes(result, 2 + index, how)
    return cast(graph, result, dtypes.uint8)


def _goal_sizes(
    graph: Graph, have: SymInts, sizes: SymInts | None, factors: list[Any]
) -> list[Any]:
    """The sizes after resizing: ints, symbolic ints, or names of int64[1] results."""
    if sizes is not None:
        return list(sizes) if isinstance(sizes, list | tuple) else [sizes]
    result: list[Any] = []
    for size, factor in zip(have, factors, strict=True):
        if isinstance(size, int):
            result.append(int(size * factor))
        elif factor == int(factor):
            result.append(size * int(factor))
        else:
            wide = cast(graph, as_vec(graph, size), dtypes.float64)
            times = OpBuilder(graph).Mul(wide, const(graph, factor, dtypes.float64))
            result.append(cast(graph, times, dtypes.int64))
    return result


def _whole_factors(have: SymInts, goals: list[Any], factors: list[Any]) -> list[int] | None:
    """The integer factors of an upsampling that repeats elements along each axis; None
    otherwise.
    """
    times = []
    for size, goal, factor in zip(have, goals, factors, strict=True):
        if isinstance(size, int) and isinstance(goal, int):
            multiple = goal // size if size and goal % size == 0 else 0
        elif isinstance(goal, str) or factor is None or factor != int(factor):
            return None
        else:
            multiple = int(factor) if size * int(factor) == goal else 0
        if multiple < 1 or factor not in (None, 0, multiple):
            return None
        times.append(multiple)
    return times


def _is_exact_resize(how: str, align: bool, times: list[int], dtype: int) -> bool:
    """Whether ONNX's Resize has torch's coordinates: elements are repeated, or the factors of a
    plane are powers of two.
    """
    if how == "linear":
        powers = all(factor > 1 and factor & (factor - 1) == 0 for factor in times)
        return dtype == dtypes.float32 and len(times) == 2 and powers and not align
    return how == "nearest" and dtype in (dtypes.float32, dtypes.uint8)


def _resize_exactly(graph: Graph, x: str, times: list[int], how: str) -> str:
    op = OpBuilder(graph)
    scales = consts(graph, [1, 1, *times], dtypes.float32)
    if how == "linear":
        return op.Resize(x, "", scales, mode="linear")
    return op.Resize(
        x,
        "",
        scales,
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )


class _AxisResizer:
    """Resizing of one axis from ``have`` to ``goal`` elements, coordinates in ``dtype``."""

    rank: int
    # torch's nearest of images reads no factor where an axis keeps or doubles its size
    snaps: bool = False

    def __init__(
        self, graph: Graph, have: Any, goal: Any, factor: float | None, align: bool, dtype: int
    ) -> None:
        self.graph, self.have, self.goal, self.dtype = graph, have, goal, dtype
        self.align, self.factor = align, factor if factor is not None and factor > 0 else None
        self.static = isinstance(have, int) and isinstance(goal, int)

    def resize_axis(self, x: str, axis: int, how: str) -> str:
        """``x`` with ``axis`` resized."""
        if how.startswith("nearest"):
            indices = self._nearest_indices(0.5 if how == "nearest_exact" else 0.0)
            return self.graph.make_node("Gather", [x, self._fold_constant(indices)], axis=axis)
        if how.endswith("_filter"):
            return self._filter_axis(x, axis, how)
        taps = self._linear_taps() if how == "linear" else self._cubic_taps()
        total = None
        for index, weight in taps:
            part = self.graph.make_node("Gather", [x, self._fold_constant(index)], axis=axis)
            along = unsqueezed(
                self.graph, self._fold_constant(weight), list(range(1, self.rank - axis))
            )
            term = self.graph.make_node("Mul", [part, along])
            total = term if total is None else self.graph.make_node("Add", [total, term])
        assert total is not None
        return total

    def resize_bytes(self, x: str, axis: int, how: str) -> str:
        """``x`` of int32 with ``axis`` resized: sums with whole weights, rounded to 0 to 255."""
        table = self._weight_table(how)
        # the largest power of two with which the weights fit into 16 bits
        bits = 0
        while bits < 22 and int(0.5 + table.max() * 2 ** (bits + 1)) < 2**15:
            bits += 1
        weights = np.trunc(table * 2**bits + np.where(table < 0, -0.5, 0.5)).astype(np.int32)
        taps = max(int((weights != 0).sum(axis=1).max()), 1)
        places = np.sort(np.argsort(weights == 0, axis=1, kind="stable")[:, :taps], axis=1)
        weights = np.take_along_axis(weights, places, axis=1)
        shape = (len(weights), taps, *[1] * (self.rank - axis - 1))
        make, number = self.graph.make_node, self.graph.make_initializer
        part = make("Gather", [x, number("", places)], axis=axis)
        part = make("Mul", [part, number("", weights.reshape(shape))])
        total = make("ReduceSum", [part, consts(self.graph, [axis + 1], dtypes.int64)], keepdims=0)
        half, unit, least, most = (
            const(self.graph, value, dtypes.int32) for value in (2**bits // 2, 2**bits, 0, 255)
        )
        result = make("Div", [make("Add", [total, half]), unit])
        return make("Max", [make("Min", [result, most]), least])

    def _weight_table(self, how: str) -> Any:
        """[goal, have]: the weight of each element of the source."""
        table = np.zeros((self.goal, self.have))
        if how.endswith("_filter"):
            places, weights, _ = (
                self.graph.get_constant(part) for part in self._filter_window(how)
            )
            for tap in range(places.shape[1]):
                table[np.arange(self.goal), places[:, tap]] += weights[:, tap]
            return table
        for indices, weight in self._linear_taps() if how == "linear" else self._cubic_taps():
            rows = np.arange(self.goal)
            table[rows, self.graph.get_constant(indices)] += self.graph.get_constant(weight)
        return table

    # -- coordinates, as nodes; constants are settled

    def _fold_constant(self, x: str) -> str:
        return fold_constant(self.graph, x)

    def _make_constant(self, value: Any) -> str:
        return const(self.graph, value, self.dtype)

    def _size_constant(self, size: Any) -> str:
        """A size as a 0-d result in the dtype of the coordinates."""
        if isinstance(size, str):
            flat = self.graph.make_node("Squeeze", [size, consts(self.graph, [0], dtypes.int64)])
            return cast(self.graph, flat, self.dtype)
        return self._make_constant(size)

    def _source_scale(self) -> str:
        """How far the source moves while the result moves by one."""
        make = self.graph.make_node
        if self.align:
            if self.static:
                step = (self.have - 1, self.goal - 1) if self.goal > 1 else (0, 1)
                return make("Div", [self._make_constant(step[0]), self._make_constant(step[1])])
            one = self._make_constant(1)
            less = [
                make("Sub", [self._size_constant(size), one]) for size in (self.have, self.goal)
            ]
            some = make("Greater", [less[1], self._make_constant(0)])
            return make("Where", [some, make("Div", less), self._make_constant(0)])
        if self.factor is None:
            return make("Div", [self._size_constant(self.have), self._size_constant(self.goal)])
        by_factor = self._make_constant(1.0 / self.factor)
        if self.static or not self.snaps:
            return by_factor
        ratio = make("Div", [self._size_constant(self.have), self._size_constant(self.goal)])
        ends = [make("Equal", [ratio, self._make_constant(value)]) for value in (1, 0.5)]
        return make("Where", [make("Or", ends), ratio, by_factor])

    def _goal_indices(self) -> str:
        """0, 1, ... for each element of the result."""
        if isinstance(self.goal, int):
            return consts(self.graph, np.arange(self.goal), self.dtype)
        if isinstance(self.goal, SymDim):
            end = as_scalar(self.graph, self.goal)
        else:
            end = self.graph.make_node(
                "Squeeze", [self.goal, consts(self.graph, [0], dtypes.int64)]
            )
        ends = [const(self.graph, 0, dtypes.int64), end, const(self.graph, 1, dtypes.int64)]
        return cast(self.graph, self.graph.make_node("Range", ends), self.dtype)

    def _last_index(self) -> str:
        return self.graph.make_node("Sub", [self._size_constant(self.have), self._make_constant(1)])

    def _nearest_indices(self, shift: float) -> str:
        make = self.graph.make_node
        ramp = self._goal_indices()
        if shift:
            ramp = make("Add", [ramp, self._make_constant(shift)])
        at = make("Floor", [make("Mul", [ramp, self._source_scale()])])
        return cast(self.graph, make("Min", [at, self._last_index()]), dtypes.int64)

    def _source_coordinates(self, low: bool) -> tuple[str, str]:
        """The index before each source coordinate (an integral float) and the distance from it, 0
        to 1.

        ``low``: coordinates before the first element move to it.
        """
        make, half = self.graph.make_node, self._make_constant(0.5)
        zero, one = self._make_constant(0), self._make_constant(1)
        if self.align:
            real = make("Mul", [self._goal_indices(), self._source_scale()])
        else:
            real = make(
                "Sub",
                [
                    make("Mul", [self._source_scale(), make("Add", [self._goal_indices(), half])]),
                    half,
                ],
            )
            real = make("Max", [real, zero]) if low else real
        first = make("Min", [make("Floor", [real]), self._last_index()])
        away = make("Min", [make("Max", [make("Sub", [real, first]), zero]), one])
        return first, away

    def _linear_taps(self) -> list[tuple[str, str]]:
        make = self.graph.make_node
        first, away = self._source_coordinates(True)
        if self.static and self.have == self.goal:
            # torch takes no second element there
            first, away = (
                self._goal_indices(),
                make("Mul", [self._goal_indices(), self._make_constant(0)]),
            )
            second = first
        else:
            second = make("Min", [make("Add", [first, self._make_constant(1)]), self._last_index()])
        return [
            (cast(self.graph, first, dtypes.int64), make("Sub", [self._make_constant(1), away])),
            (cast(self.graph, second, dtypes.int64), away),
        ]

    def _cubic_taps(self) -> list[tuple[str, str]]:
        make = self.graph.make_node
        first, t = self._source_coordinates(False)
        zero, one = self._make_constant(0), self._make_constant(1)
        rest = make("Sub", [one, t])
        weights = [
            self._cubic_far(make("Add", [t, one])),
            self._cubic_near(t),
            self._cubic_near(rest),
            self._cubic_far(make("Add", [rest, one])),
        ]
        result = []
        for offset, weight in zip((-1, 0, 1, 2), weights, strict=True):
            moved = make("Add", [first, self._make_constant(offset)])
            inside = make("Max", [make("Min", [moved, self._last_index()]), zero])
            result.append((cast(self.graph, inside, dtypes.int64), weight))
        return result

    def _cubic_near(self, t: str, a: float = _CUBIC) -> str:
        """Keys' convolution up to 1: ((A + 2) t - (A + 3)) t t + 1."""
        make = self.graph.make_node
        slope = make("Mul", [t, self._make_constant(a + 2)])
        value = make("Mul", [make("Sub", [slope, self._make_constant(a + 3)]), make("Mul", [t, t])])
        return make("Add", [value, self._make_constant(1)])

    def _cubic_far(self, t: str, a: float = _CUBIC) -> str:
        """Keys' convolution from 1 to 2: ((A t - 5 A) t + 8 A) t - 4 A."""
        make = self.graph.make_node
        result = make("Sub", [make("Mul", [t, self._make_constant(a)]), self._make_constant(5 * a)])
        result = make("Add", [make("Mul", [result, t]), self._make_constant(8 * a)])
        return make("Sub", [make("Mul", [result, t]), self._make_constant(4 * a)])

    # -- filters

    def _filter_axis(self, x: str, axis: int, how: str) -> str:
        """A weighted sum over the window of each element of the result: torch's antialiasing."""
        make, rest = self.graph.make_node, list(range(2, self.rank - axis + 1))
        places, weights, inside = (
            self._fold_constant(tensor) for tensor in self._filter_window(how)
        )
        if self.static and self.have and self.goal:
            weights = self._torch_weights(how, places, inside)
        part = make("Gather", [x, places], axis=axis)
        part = make("Mul", [part, unsqueezed(self.graph, weights, rest)])
        part = make("Where", [unsqueezed(self.graph, inside, rest), part, self._make_constant(0)])
        return make("ReduceSum", [part, consts(self.graph, [axis + 1], dtypes.int64)], keepdims=0)

    def _torch_weights(self, how: str, places: str, inside: str) -> str:
        """torch's own weights at static indices: next to a zero of the filter they depend on fused
        multiplications, and an infinite element takes the sign of the smallest weight.
        """
        import torch

        from ortable.compat.torch import disable_current_modes

        window, counts = self.graph.get_constant(places), self.graph.get_constant(inside)
        taps = window.shape[1]  # a window has one of the places of each of so many combs
        combs = np.arange(self.have) % taps == np.arange(taps)[:, None]
        combs = combs.astype(dtypes.to_numpy(self.dtype)).reshape(1, taps, 1, self.have)
        name = f"_upsample_{_SMOOTH[how.removesuffix('_filter')]}2d_aa"
        with disable_current_modes(), torch.no_grad():
            resized_aa = getattr(torch.ops.aten, name)
            goal, factors = [1, self.goal], [None, self.factor]
            table = resized_aa(torch.from_numpy(combs), goal, self.align, *factors)
        weights = table[0, :, 0].numpy()[window % taps, np.arange(self.goal)[:, None]]
        return self.graph.make_initializer("", np.where(counts, weights, 0).astype(combs.dtype))

    def _filter_window(self, how: str) -> tuple[str, str, str]:
        """Indices, weights and whether they count, each [goal, taps]."""
        make, half, zero = self.graph.make_node, self._make_constant(0.5), self._make_constant(0)
        scale = self._source_scale()
        ratio = make("Max", [scale, self._make_constant(1)])
        reach = make("Mul", [ratio, self._make_constant(_REACH[how])])
        center = make("Mul", [scale, make("Add", [self._goal_indices(), half])])
        center = unsqueezed(self.graph, center, [1])
        first = make(
            "Floor", [make("Max", [make("Add", [make("Sub", [center, reach]), half]), zero])]
        )
        end = make("Floor", [make("Add", [make("Add", [center, reach]), half])])
        end = make("Min", [end, self._size_constant(self.have)])
        two, one = self._make_constant(2), self._make_constant(1)
        taps = make("Add", [make("Mul", [make("Ceil", [reach]), two]), one])
        places = make("Add", [first, make("Range", [zero, taps, one])])
        inside = make("Less", [places, end])
        if not self.static:  # torch copies an axis of unchanged size
            same = make("Equal", [self._size_constant(self.have), self._size_constant(self.goal)])
            own = make("Equal", [places, unsqueezed(self.graph, self._goal_indices(), [1])])
            inside = make("Where", [same, own, inside])
        away = make("Add", [make("Sub", [places, center]), half])
        away = make("Mul", [make("Abs", [away]), make("Div", [one, ratio])])
        weights = make("Where", [inside, self._filter_weight(away, how), zero])
        over = consts(self.graph, [1], dtypes.int64)
        total = make("ReduceSum", [weights, over], keepdims=1)
        total = make("Where", [make("Equal", [total, zero]), one, total])
        safe = make("Where", [inside, places, zero])
        return cast(self.graph, safe, dtypes.int64), make("Div", [weights, total]), inside

    def _filter_weight(self, t: str, how: str) -> str:
        """The weight of an element at distance ``t`` from the centre."""
        make, one, zero = self.graph.make_node, self._make_constant(1), self._make_constant(0)
        if how.startswith("linear"):
            return make("Max", [make("Sub", [one, t]), zero])
        if how.startswith("lanczos"):
            lobes = self._make_constant(_REACH[how])
            weight = make("Mul", [self._sinc_value(t), self._sinc_value(make("Div", [t, lobes]))])
            return make("Where", [make("Less", [t, lobes]), weight, zero])
        near, far = self._cubic_near(t, _CUBIC_FILTER), self._cubic_far(t, _CUBIC_FILTER)
        far = make("Where", [make("Less", [t, self._make_constant(2)]), far, zero])
        return make("Where", [make("Less", [t, one]), near, far])

    def _sinc_value(self, t: str) -> str:
        """sin(pi t) / (pi t), and 1 at 0."""
        make, one = self.graph.make_node, self._make_constant(1)
        angle = make("Mul", [t, self._make_constant(math.pi)])
        middle = make("Equal", [t, self._make_constant(0)])
        ratio = make("Div", [make("Sin", [angle]), make("Where", [middle, one, angle])])
        return make("Where", [middle, one, ratio])


def fold_constant(graph: Graph, x: Result) -> Result:
    """Replace a computed constant by an initializer, so that the nodes that computed it are
    removed.
    """
    return graph.make_initializer("", graph.get_constant(x)) if graph.is_constant(x) else x


def grid_steps(graph: Graph, size: SymInt, align: Bool, dtype: Dtype) -> Result:
    """Where the elements of an axis lie between -1 and 1: their centres, or with ``align`` from end
    to end; [0] for one element."""
    op = OpBuilder(graph)
    ramp = cast(graph, iota(graph, 0, size, 1), dtype)
    if isinstance(size, int) and size <= 1:
        return op.Mul(ramp, 0)
    count, one = const(graph, size, dtype), const(graph, 1, dtype)
    if align:
        step = op.Div(2, op.Sub(count, one))
        return op.Sub(op.Mul(ramp, step), one)
    twice = op.Add(op.Add(ramp, ramp), one)
    return op.Sub(op.Div(twice, count), one)


def _through_windows(
    graph: Graph, x: str, axis: int, size: SymInt, start: str, end: str, counts: str
) -> str:
    """``result[i] = sum of x[o] / counts[o]`` over the windows o with ``start <= i < end``."""
    op, later = OpBuilder(graph), list(range(2, rank_of(graph, x) - axis + 1))
    shared = unsqueezed(graph, cast(graph, counts, graph.get_type(x)), [n - 1 for n in later])
    x = unsqueezed(graph, op.Div(x, shared), [axis])
    places = unsqueezed(graph, iota(graph, 0, size, 1), [1])
    inside = op.And(op.GreaterOrEqual(places, start), op.Less(places, end))
    covered = op.Where(unsqueezed(graph, inside, later), x, 0)
    return op.ReduceSum(covered, consts(graph, [axis + 1], dtypes.int64), keepdims=0)


def _through_edges(graph: Graph, x: str, axis: int, size: SymInt, before: int, after: int) -> str:
    """The gradient of padding one axis with the elements at its ends; cropped elements get 0."""
    op, rank = OpBuilder(graph), rank_of(graph, x)
    cut = max(-before, 0), max(-after, 0)
    first = max(before, 0)
    result = sliced(graph, x, axis, first, first + size - sum(cut), 1)
    if any(cut):
        result = op.Pad(result, as_vec(graph, full_pads(rank, axis, *cut)))
    last = first + size - sum(cut)
    left, right = (0, first), (last, last + max(after, 0))
    for ends, pads in ((left, (0, size - 1)), (right, (size - 1, 0))):
        if dims.always_equal(*ends):
            continue
        over = sliced(graph, x, axis, *ends, 1)
        total = op.ReduceSum(over, consts(graph, [axis], dtypes.int64), keepdims=1)
        more = op.Pad(total, as_vec(graph, full_pads(rank, axis, *pads)))
        result = op.Add(result, more)
    return result


def _require_static(sizes: Any) -> list[int]:
    for size in sizes:
        if isinstance(size, SymDim):
            raise UnsupportedCase(f"the gradient along the dynamic size '{size}'", (size,))
    return list(sizes)


def _response_matrix(count: int, dtype: int, backward: Callable[[Any, Any], Any]) -> np.ndarray:
    """The matrix [in, out] of a linear map of one axis; ``backward(torch, grad)`` maps gradients of
    its ``count`` results, the last axis of [1, out, 1, out], to those of its inputs.
    """
    import torch

    from ortable.compat.torch import disable_current_modes

    compute_dtype = torch.float64 if dtype == dtypes.float64 else torch.float32
    with disable_current_modes(), torch.no_grad():
        unit = torch.eye(count, dtype=compute_dtype, device="cpu").reshape(1, count, 1, count)
        return backward(torch, unit)[0, :, 0].numpy().T


def _upsample_backward(
    torch: Any, grad: Any, how: str, sizes: Any, corners: bool, scale: Any
) -> Any:
    """torch's gradient of upsampling the last axis, of 1 by ``count`` pixels."""
    aten, (count, size) = torch.ops.aten, sizes
    out, have = [1, count], [1, count, 1, size]
    if how == "nearest":
        return aten.upsample_nearest2d_backward(grad, out, have, None, scale)
    if how == "exact":
        return aten._upsample_nearest_exact2d_backward(grad, out, have, None, scale)
    kind, _, smooth = how.rpartition(" ")
    name = f"_upsample_{_SMOOTH[smooth]}2d_aa" if kind else f"upsample_{_SMOOTH[smooth]}2d"
    return getattr(aten, f"{name}_backward")(grad, out, have, corners, None, scale)


def resample_weights(
    how: Str, have: SymInts, wanted: SymInts, corners: Bool, scales: Floats, dtype: Dtype
) -> Opaque:
    """The matrices of torch's upsampling from the last sizes of ``have`` to ``wanted``.

    ``how``: nearest, exact, linear, cubic, or smooth (antialiased) linear, cubic, lanczos.

    Raises:
        UnsupportedCase: a size is dynamic.
    """
    sizes = list(zip(_require_static(wanted), _require_static(have[-len(wanted) :]), strict=True))
    return [
        _response_matrix(
            pair[0],
            dtype,
            partial(_upsample_backward, how=how, sizes=pair, corners=corners, scale=scale),
        )
        for pair, scale in zip(sizes, scales, strict=True)
    ]


def mean_weights(
    graph: Graph,
    sizes: SymInts,
    places: SymInts,
    kernel: Ints,
    steps: Ints,
    pads: Ints,
    rest: Opaque,
    dtype: Dtype,
) -> Opaque:
    """The maps of average pooling of ``sizes`` into ``places`` windows; ``rest`` holds ceil_mode,
    count_include_pad and divisor_override."""
    n, (ceil, padded, divisor) = len(sizes), rest
    window, before = broadcast_ints(kernel, n), broadcast_ints(pads, n)
    strides = broadcast_ints(steps, n) if steps else window
    result: list[Any] = []
    for size, count, k, step, pad in zip(sizes, places, window, strides, before, strict=True):
        share = divisor and (1 if result else divisor)  # all of it along the first axis
        if is_static([size, count]):
            windows = ([1, k], [1, step], [0, pad])
            back = partial(
                _avg_pool_backward, size=size, window=windows, rest=(ceil, padded, divisor and 1)
            )
            result.append(_response_matrix(count, dtype, back) / (share or 1))
        else:
            start, end, counts = window_ends(graph, size, count, k, step, pad, padded)
            counts = counts if share is None else consts(graph, [share], dtype)
            result.append(partial(_through_windows, size=size, start=start, end=end, counts=counts))
    return result


def window_ends(
    graph: Graph, size: SymInt, count: SymInt, k: Int, step: Int, pad: Int, padded: Bool
) -> Results:
    """Where ``count`` windows of ``k`` elements begin and end along an axis, and how many elements
    each of them averages: those inside, and those of the padding where it counts."""
    op = OpBuilder(graph)
    start = iota(graph, -pad, count, step)
    end = op.Add(start, const(graph, k, dtypes.int64))
    low, high = (-pad, size + pad) if padded else (0, size)
    last = op.Min(end, const(graph, high, dtypes.int64))
    counts = op.Sub(last, op.Max(start, const(graph, low, dtypes.int64)))
    return [start, end, counts]


def _avg_pool_backward(torch: Any, grad: Any, size: int, window: Any, rest: Any) -> Any:
    """torch's gradient of average pooling of the last axis."""
    read = grad.new_zeros(1, grad.shape[1], 1, size)
    return torch.ops.aten.avg_pool2d_backward(grad, read, *window, *rest)


def _adaptive_avg_pool_backward(torch: Any, grad: Any, size: int) -> Any:
    """torch's gradient of adaptive average pooling of the last axis."""
    read = grad.new_zeros(1, grad.shape[1], 1, size)
    return torch.ops.aten._adaptive_avg_pool2d_backward(grad, read)


def adaptive_weights(graph: Graph, have: SymInts, wanted: SymInts, dtype: Dtype) -> Opaque:
    """The maps of adaptive average pooling from sizes to sizes."""
    result: list[Any] = []
    for size, count in zip(have, wanted, strict=True):
        if is_static([size, count]):
            result.append(
                _response_matrix(count, dtype, partial(_adaptive_avg_pool_backward, size=size))
            )
        else:
            start, end = even_ends(graph, size, count)
            counts = OpBuilder(graph).Sub(end, start)
            result.append(partial(_through_windows, size=size, start=start, end=end, counts=counts))
    return result


def edge_weights(sizes: SymInts, pads: SymInts, dtype: Dtype) -> Opaque:
    """The maps of padding with the elements at the edge; the last axis comes first in ``pads``.

    Raises:
        UnsupportedCase: an amount is dynamic.
    """
    amounts = _require_static(pads)[::-1]
    result: list[Any] = []
    for axis, size in enumerate(sizes):
        after, before = amounts[2 * axis : 2 * axis + 2]
        if isinstance(size, SymDim):
            result.append(partial(_through_edges, size=size, before=before, after=after))
            continue
        read = np.clip(np.arange(-before, size + after), 0, max(size - 1, 0))
        compute_dtype = np.float64 if dtype == dtypes.float64 else np.float32
        result.append((np.arange(size)[:, None] == read).astype(compute_dtype))
    return result


def even_ends(graph: Graph, size: SymInt, count: SymInt) -> Results:
    """Where the ``count`` windows of adaptive pooling begin and end along an axis."""
    op, one = OpBuilder(graph), const(graph, 1, dtypes.int64)
    ramp = iota(graph, 0, count, 1)
    length, parts = const(graph, size, dtypes.int64), const(graph, count, dtypes.int64)
    start = op.Div(op.Mul(ramp, length), parts)
    after = op.Mul(op.Add(ramp, one), length)
    return [start, op.Div(op.Add(after, op.Sub(parts, one)), parts)]
