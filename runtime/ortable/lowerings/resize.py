"""Lower resizing and its gradient, one axis at a time, last axis first.

The source coordinates are torch's. ONNX's Resize rounds them differently, so it is used only where
every coordinate is exact in float32. Static sizes give constant tables of indices and weights;
dynamic sizes give nodes that compute them.

The gradients of resizing, pooling and padding apply a linear map to each axis. A map is a matrix
[input size, output size] of the forward, or, along a dynamic size, a function that makes the nodes
of the gradient. For resizing and pooling, matrices are read during conversion from torch's gradient
of an identity matrix, so every mode rounds as torch does. The weights of antialiasing filters are
read from torch in the same way.
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


# The free parameter of Keys' cubic convolution; torch uses another value for antialiasing.
_CUBIC, _CUBIC_FILTER = -0.75, -0.5


# The radius of each filter in source elements, if the image does not shrink.
_FILTER_RADIUS = {"linear_filter": 1, "cubic_filter": 2, "lanczos_filter": 3}


# torch's names of these modes.
_TORCH_MODES = {"linear": "bilinear", "cubic": "bicubic", "lanczos": "lanczos"}


# Modes in which torch copies an axis of unchanged size.
_COPY_MODES = ("nearest", "nearest_exact", "linear", *_FILTER_RADIUS)


def resized(
    graph: Graph, x: Result, sizes: SymInts | None, factors: Any, how: Str, align: Bool = False
) -> Result:
    """Resize the spatial axes of [N, C, ...] to ``sizes``, or by ``factors`` if ``sizes`` is None.

    ``how`` is nearest, nearest_exact, linear, cubic, or an antialiased mode: linear_filter,
    cubic_filter, lanczos_filter. If both ``sizes`` and ``factors`` are given, the factors set the
    coordinates, like torch's scale_factor. ``align`` is torch's align_corners.

    Raises:
        UnsupportedCase: ``x`` is uint8, ``how`` is not a nearest mode, and ``x`` is not an image of
            known size.
    """
    op = OpBuilder(graph)
    dtype = graph.get_type(x)
    in_sizes = shape_of(graph, x)[2:]
    factors = list(factors) if factors is not None else [None] * len(in_sizes)
    out_sizes = _out_sizes(graph, in_sizes, sizes, factors)
    ignores_factors = how == "nearest" and len(in_sizes) == 2
    if ignores_factors:
        factors = [
            None if out_size in (size, size * 2) else factor
            for size, out_size, factor in zip(in_sizes, out_sizes, factors, strict=True)
        ]
    multiples = _integer_factors(in_sizes, out_sizes, factors)
    if multiples is not None and _is_exact_resize(how, align, multiples, dtype):
        return _resize_exactly(graph, x, multiples, how)
    if dtype == dtypes.uint8 and not how.startswith("nearest"):
        return _resize_bytes(graph, x, in_sizes, out_sizes, factors, how, align)
    compute_dtype = dtypes.float64 if dtype == dtypes.float64 else dtypes.float32
    result = x if how.startswith("nearest") else cast(graph, x, opmath_dtype(dtype))
    is_copied = False
    for index in reversed(range(len(in_sizes))):
        factor = None if how.endswith("_filter") else factors[index]  # filters copy for any factor
        if how in _COPY_MODES and _is_copied(in_sizes[index], out_sizes[index], factor):
            is_copied = how == "linear"
            continue
        resizer = _AxisResizer(
            graph, in_sizes[index], out_sizes[index], factors[index], align, compute_dtype
        )
        resizer.rank, resizer.ignores_factor = 2 + len(in_sizes), ignores_factors
        result = resizer.resize_axis(result, 2 + index, how)
    if is_copied:  # torch multiplies the element by 1 and 0, so an infinite one becomes NaN
        zeros = op.Mul(result, 0)
        result = op.Add(result, zeros)
    return cast(graph, result, dtype)


def _is_copied(size: Any, out_size: Any, factor: float | None) -> bool:
    """Whether torch copies along an axis: the size and the coordinates are unchanged."""
    if isinstance(out_size, str) or factor not in (None, 0, 1):
        return False
    return bool(size is out_size or size == out_size)


def _resize_bytes(
    graph: Graph, x: str, sizes: SymInts, targets: Any, factors: list[Any], how: str, align: bool
) -> str:
    """Resize uint8 images: torch computes with 16-bit weights and rounds after each axis."""
    if len(sizes) != 2 or not all(isinstance(size, int) for size in (*sizes, *targets)):
        raise UnsupportedCase("interpolation of uint8 tensors other than images of known size")
    result = cast(graph, x, dtypes.int32)
    for index in (1, 0):
        if sizes[index] == targets[index]:
            continue
        resizer = _AxisResizer(
            graph, sizes[index], targets[index], factors[index], align, dtypes.float64
        )
        resizer.rank = 4
        result = resizer.resize_bytes(result, 2 + index, how)
    return cast(graph, result, dtypes.uint8)


def _out_sizes(
    graph: Graph, in_sizes: SymInts, sizes: SymInts | None, factors: list[Any]
) -> list[Any]:
    """Return the output sizes: ints, symbolic ints, or names of int64 [1] results."""
    if sizes is not None:
        return list(sizes) if isinstance(sizes, list | tuple) else [sizes]
    result: list[Any] = []
    for size, factor in zip(in_sizes, factors, strict=True):
        if isinstance(size, int):
            result.append(int(size * factor))
        elif factor == int(factor):
            result.append(size * int(factor))
        else:
            size_result = cast(graph, as_vec(graph, size), dtypes.float64)
            product = OpBuilder(graph).Mul(size_result, const(graph, factor, dtypes.float64))
            result.append(cast(graph, product, dtypes.int64))
    return result


def _integer_factors(
    in_sizes: SymInts, out_sizes: list[Any], factors: list[Any]
) -> list[int] | None:
    """Return the integer factor by which each axis grows, or None if a factor is not an integer."""
    multiples = []
    for size, out_size, factor in zip(in_sizes, out_sizes, factors, strict=True):
        if isinstance(size, int) and isinstance(out_size, int):
            multiple = out_size // size if size and out_size % size == 0 else 0
        elif isinstance(out_size, str) or factor is None or factor != int(factor):
            return None
        else:
            multiple = int(factor) if size * int(factor) == out_size else 0
        if multiple < 1 or factor not in (None, 0, multiple):
            return None
        multiples.append(multiple)
    return multiples


def _is_exact_resize(how: str, align: bool, factors: list[int], dtype: int) -> bool:
    """Whether ONNX's Resize by integer ``factors`` has torch's coordinates.

    Nearest only repeats elements. Linear has exact coordinates for two float32 axes if the factors
    are powers of two.
    """
    if how == "linear":
        are_powers_of_two = all(factor > 1 and factor & (factor - 1) == 0 for factor in factors)
        return dtype == dtypes.float32 and len(factors) == 2 and are_powers_of_two and not align
    return how == "nearest" and dtype in (dtypes.float32, dtypes.uint8)


def _resize_exactly(graph: Graph, x: str, factors: list[int], how: str) -> str:
    op = OpBuilder(graph)
    scales = consts(graph, [1, 1, *factors], dtypes.float32)
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
    """Resize one axis of a tensor of ``rank`` axes, with coordinates in ``dtype``.

    Sizes are ints or symbolic ints; ``out_size`` may also be the name of an int64 [1] result.
    """

    rank: int
    # torch's nearest of images ignores the factor if an axis keeps or doubles its size
    ignores_factor: bool = False

    def __init__(
        self, graph: Graph, size: Any, target: Any, factor: float | None, align: bool, dtype: int
    ) -> None:
        self.graph, self.in_size, self.out_size, self.dtype = graph, size, target, dtype
        self.align, self.factor = align, factor if factor is not None and factor > 0 else None
        self.is_static = isinstance(size, int) and isinstance(target, int)

    def resize_axis(self, x: str, axis: int, how: str) -> str:
        """Return ``x`` with ``axis`` resized."""
        if how.startswith("nearest"):
            indices = self._nearest_indices(0.5 if how == "nearest_exact" else 0.0)
            return self.graph.make_node("Gather", [x, self._fold_constant(indices)], axis=axis)
        if how.endswith("_filter"):
            return self._filter_axis(x, axis, how)
        taps = self._linear_taps() if how == "linear" else self._cubic_taps()
        total = None
        for index, weight in taps:
            part = self.graph.make_node("Gather", [x, self._fold_constant(index)], axis=axis)
            axis_weight = unsqueezed(
                self.graph, self._fold_constant(weight), list(range(1, self.rank - axis))
            )
            term = self.graph.make_node("Mul", [part, axis_weight])
            total = term if total is None else self.graph.make_node("Add", [total, term])
        assert total is not None
        return total

    def resize_bytes(self, x: str, axis: int, how: str) -> str:
        """Resize ``axis`` of an int32 ``x`` by integer weights; round and clip to 0..255."""
        table = self._weight_table(how)
        # the largest power of two with which the weights fit into 16 bits
        bits = 0
        while bits < 22 and int(0.5 + table.max() * 2 ** (bits + 1)) < 2**15:
            bits += 1
        weights = np.trunc(table * 2**bits + np.where(table < 0, -0.5, 0.5)).astype(np.int32)
        # for each output element, the source elements with a weight, filled up with weights of 0
        tap_count = max(int((weights != 0).sum(axis=1).max()), 1)
        indices = np.sort(np.argsort(weights == 0, axis=1, kind="stable")[:, :tap_count], axis=1)
        weights = np.take_along_axis(weights, indices, axis=1)
        shape = (len(weights), tap_count, *[1] * (self.rank - axis - 1))
        make, constant = self.graph.make_node, self.graph.make_initializer
        terms = make("Gather", [x, constant("", indices)], axis=axis)
        terms = make("Mul", [terms, constant("", weights.reshape(shape))])
        total = make("ReduceSum", [terms, consts(self.graph, [axis + 1], dtypes.int64)], keepdims=0)
        half, divisor, lowest, highest = (
            const(self.graph, value, dtypes.int32) for value in (2**bits // 2, 2**bits, 0, 255)
        )
        result = make("Div", [make("Add", [total, half]), divisor])
        return make("Max", [make("Min", [result, highest]), lowest])

    def _weight_table(self, how: str) -> Any:
        """Return the float64 weight of each source element: [output size, input size]."""
        table = np.zeros((self.out_size, self.in_size))
        if how.endswith("_filter"):
            indices, weights, _ = (
                self.graph.get_constant(part) for part in self._filter_window(how)
            )
            for tap in range(indices.shape[1]):
                table[np.arange(self.out_size), indices[:, tap]] += weights[:, tap]
            return table
        for tap_indices, weight in self._linear_taps() if how == "linear" else self._cubic_taps():
            rows = np.arange(self.out_size)
            table[rows, self.graph.get_constant(tap_indices)] += self.graph.get_constant(weight)
        return table

    # -- coordinates, as nodes; constants are folded

    def _fold_constant(self, x: str) -> str:
        return fold_constant(self.graph, x)

    def _make_constant(self, value: Any) -> str:
        return const(self.graph, value, self.dtype)

    def _size_constant(self, size: Any) -> str:
        """Return a size as a 0-d result in the dtype of the coordinates."""
        if isinstance(size, str):
            flat = self.graph.make_node("Squeeze", [size, consts(self.graph, [0], dtypes.int64)])
            return cast(self.graph, flat, self.dtype)
        return self._make_constant(size)

    def _source_scale(self) -> str:
        """Return the step in source coordinates from one element of the result to the next."""
        make = self.graph.make_node
        if self.align:
            if self.is_static:
                span = (self.in_size - 1, self.out_size - 1) if self.out_size > 1 else (0, 1)
                return make("Div", [self._make_constant(span[0]), self._make_constant(span[1])])
            one = self._make_constant(1)
            spans = [
                make("Sub", [self._size_constant(size), one])
                for size in (self.in_size, self.out_size)
            ]
            has_span = make("Greater", [spans[1], self._make_constant(0)])
            return make("Where", [has_span, make("Div", spans), self._make_constant(0)])
        if self.factor is None:
            return make(
                "Div", [self._size_constant(self.in_size), self._size_constant(self.out_size)]
            )
        by_factor = self._make_constant(1.0 / self.factor)
        if self.is_static or not self.ignores_factor:
            return by_factor
        ratio = make("Div", [self._size_constant(self.in_size), self._size_constant(self.out_size)])
        comparisons = [make("Equal", [ratio, self._make_constant(value)]) for value in (1, 0.5)]
        return make("Where", [make("Or", comparisons), ratio, by_factor])

    def _out_indices(self) -> str:
        """Return the indices 0, 1, ... of the elements of the result."""
        if isinstance(self.out_size, int):
            return consts(self.graph, np.arange(self.out_size), self.dtype)
        if isinstance(self.out_size, SymDim):
            end = as_scalar(self.graph, self.out_size)
        else:
            end = self.graph.make_node(
                "Squeeze", [self.out_size, consts(self.graph, [0], dtypes.int64)]
            )
        bounds = [const(self.graph, 0, dtypes.int64), end, const(self.graph, 1, dtypes.int64)]
        return cast(self.graph, self.graph.make_node("Range", bounds), self.dtype)

    def _last_index(self) -> str:
        return self.graph.make_node(
            "Sub", [self._size_constant(self.in_size), self._make_constant(1)]
        )

    def _nearest_indices(self, shift: float) -> str:
        make = self.graph.make_node
        coordinates = self._out_indices()
        if shift:
            coordinates = make("Add", [coordinates, self._make_constant(shift)])
        floor = make("Floor", [make("Mul", [coordinates, self._source_scale()])])
        return cast(self.graph, make("Min", [floor, self._last_index()]), dtypes.int64)

    def _source_coordinates(self, clip_low: bool) -> tuple[str, str]:
        """Return the source index below each coordinate, and the distance from it, 0 to 1.

        The index has the dtype of the coordinates. With ``clip_low``, coordinates before the first
        element are moved to it.
        """
        make, half = self.graph.make_node, self._make_constant(0.5)
        zero, one = self._make_constant(0), self._make_constant(1)
        if self.align:
            coordinates = make("Mul", [self._out_indices(), self._source_scale()])
        else:
            coordinates = make(
                "Sub",
                [
                    make("Mul", [self._source_scale(), make("Add", [self._out_indices(), half])]),
                    half,
                ],
            )
            coordinates = make("Max", [coordinates, zero]) if clip_low else coordinates
        lower = make("Min", [make("Floor", [coordinates]), self._last_index()])
        t = make("Min", [make("Max", [make("Sub", [coordinates, lower]), zero]), one])
        return lower, t

    def _linear_taps(self) -> list[tuple[str, str]]:
        make = self.graph.make_node
        lower, t = self._source_coordinates(True)
        if self.is_static and self.in_size == self.out_size:
            # torch reads only one element here
            lower, t = (
                self._out_indices(),
                make("Mul", [self._out_indices(), self._make_constant(0)]),
            )
            upper = lower
        else:
            upper = make("Min", [make("Add", [lower, self._make_constant(1)]), self._last_index()])
        return [
            (cast(self.graph, lower, dtypes.int64), make("Sub", [self._make_constant(1), t])),
            (cast(self.graph, upper, dtypes.int64), t),
        ]

    def _cubic_taps(self) -> list[tuple[str, str]]:
        make = self.graph.make_node
        lower, t = self._source_coordinates(False)
        zero, one = self._make_constant(0), self._make_constant(1)
        complement = make("Sub", [one, t])
        weights = [
            self._cubic_far(make("Add", [t, one])),
            self._cubic_near(t),
            self._cubic_near(complement),
            self._cubic_far(make("Add", [complement, one])),
        ]
        result = []
        for offset, weight in zip((-1, 0, 1, 2), weights, strict=True):
            shifted = make("Add", [lower, self._make_constant(offset)])
            inside = make("Max", [make("Min", [shifted, self._last_index()]), zero])
            result.append((cast(self.graph, inside, dtypes.int64), weight))
        return result

    def _cubic_near(self, t: str, a: float = _CUBIC) -> str:
        """Return Keys' convolution for distances up to 1: ((A + 2) t - (A + 3)) t t + 1."""
        make = self.graph.make_node
        slope = make("Mul", [t, self._make_constant(a + 2)])
        value = make("Mul", [make("Sub", [slope, self._make_constant(a + 3)]), make("Mul", [t, t])])
        return make("Add", [value, self._make_constant(1)])

    def _cubic_far(self, t: str, a: float = _CUBIC) -> str:
        """Return Keys' convolution for distances from 1 to 2: ((A t - 5 A) t + 8 A) t - 4 A."""
        make = self.graph.make_node
        result = make("Sub", [make("Mul", [t, self._make_constant(a)]), self._make_constant(5 * a)])
        result = make("Add", [make("Mul", [result, t]), self._make_constant(8 * a)])
        return make("Sub", [make("Mul", [result, t]), self._make_constant(4 * a)])

    # -- filters

    def _filter_axis(self, x: str, axis: int, how: str) -> str:
        """Return a weighted sum over each output element's window, as torch's antialiasing does."""
        make, axes = self.graph.make_node, list(range(2, self.rank - axis + 1))
        indices, weights, inside = (
            self._fold_constant(tensor) for tensor in self._filter_window(how)
        )
        if self.is_static and self.in_size and self.out_size:
            weights = self._torch_weights(how, indices, inside)
        part = make("Gather", [x, indices], axis=axis)
        part = make("Mul", [part, unsqueezed(self.graph, weights, axes)])
        part = make("Where", [unsqueezed(self.graph, inside, axes), part, self._make_constant(0)])
        return make("ReduceSum", [part, consts(self.graph, [axis + 1], dtypes.int64)], keepdims=0)

    def _torch_weights(self, how: str, indices: str, inside: str) -> str:
        """Return torch's weights at static indices.

        Next to a zero of the filter, the sign of a weight depends on fused multiplications in
        torch's kernel, and it decides the sign of an infinite result.
        """
        import torch

        from ortable.compat.torch import disable_current_modes

        window, mask = self.graph.get_constant(indices), self.graph.get_constant(inside)
        # a window has one index of each residue modulo taps, so torch's result for the row that is
        # 1 at one residue and 0 elsewhere is the weight of that index
        taps = window.shape[1]
        combs = np.arange(self.in_size) % taps == np.arange(taps)[:, None]
        combs = combs.astype(dtypes.to_numpy(self.dtype)).reshape(1, taps, 1, self.in_size)
        name = f"_upsample_{_TORCH_MODES[how.removesuffix('_filter')]}2d_aa"
        with disable_current_modes(), torch.no_grad():
            resized_aa = getattr(torch.ops.aten, name)
            output_shape, factors = [1, self.out_size], [None, self.factor]
            table = resized_aa(torch.from_numpy(combs), output_shape, self.align, *factors)
        weights = table[0, :, 0].numpy()[window % taps, np.arange(self.out_size)[:, None]]
        return self.graph.make_initializer("", np.where(mask, weights, 0).astype(combs.dtype))

    def _filter_window(self, how: str) -> tuple[str, str, str]:
        """Return indices, weights and a mask of the used elements, each [output size, taps]."""
        make, half, zero = self.graph.make_node, self._make_constant(0.5), self._make_constant(0)
        scale = self._source_scale()
        ratio = make("Max", [scale, self._make_constant(1)])
        radius = make("Mul", [ratio, self._make_constant(_FILTER_RADIUS[how])])
        center = make("Mul", [scale, make("Add", [self._out_indices(), half])])
        center = unsqueezed(self.graph, center, [1])
        begin = make(
            "Floor", [make("Max", [make("Add", [make("Sub", [center, radius]), half]), zero])]
        )
        end = make("Floor", [make("Add", [make("Add", [center, radius]), half])])
        end = make("Min", [end, self._size_constant(self.in_size)])
        two, one = self._make_constant(2), self._make_constant(1)
        taps = make("Add", [make("Mul", [make("Ceil", [radius]), two]), one])
        positions = make("Add", [begin, make("Range", [zero, taps, one])])
        inside = make("Less", [positions, end])
        if not self.is_static:  # torch copies an axis of unchanged size
            is_same_size = make(
                "Equal", [self._size_constant(self.in_size), self._size_constant(self.out_size)]
            )
            is_same_index = make(
                "Equal", [positions, unsqueezed(self.graph, self._out_indices(), [1])]
            )
            inside = make("Where", [is_same_size, is_same_index, inside])
        distance = make("Add", [make("Sub", [positions, center]), half])
        distance = make("Mul", [make("Abs", [distance]), make("Div", [one, ratio])])
        weights = make("Where", [inside, self._filter_weight(distance, how), zero])
        tap_axis = consts(self.graph, [1], dtypes.int64)
        total = make("ReduceSum", [weights, tap_axis], keepdims=1)
        total = make("Where", [make("Equal", [total, zero]), one, total])
        safe_positions = make("Where", [inside, positions, zero])
        return cast(self.graph, safe_positions, dtypes.int64), make("Div", [weights, total]), inside

    def _filter_weight(self, t: str, how: str) -> str:
        """Return the weight at distance ``t`` >= 0 from the centre of the filter."""
        make, one, zero = self.graph.make_node, self._make_constant(1), self._make_constant(0)
        if how.startswith("linear"):
            return make("Max", [make("Sub", [one, t]), zero])
        if how.startswith("lanczos"):
            lobes = self._make_constant(_FILTER_RADIUS[how])
            weight = make("Mul", [self._sinc_value(t), self._sinc_value(make("Div", [t, lobes]))])
            return make("Where", [make("Less", [t, lobes]), weight, zero])
        near, far = self._cubic_near(t, _CUBIC_FILTER), self._cubic_far(t, _CUBIC_FILTER)
        far = make("Where", [make("Less", [t, self._make_constant(2)]), far, zero])
        return make("Where", [make("Less", [t, one]), near, far])

    def _sinc_value(self, t: str) -> str:
        """Return sin(pi t) / (pi t), and 1 at 0."""
        make, one = self.graph.make_node, self._make_constant(1)
        angle = make("Mul", [t, self._make_constant(math.pi)])
        is_zero = make("Equal", [t, self._make_constant(0)])
        ratio = make("Div", [make("Sin", [angle]), make("Where", [is_zero, one, angle])])
        return make("Where", [is_zero, one, ratio])


def fold_constant(graph: Graph, x: Result) -> Result:
    """Replace a computed constant by an initializer; a later pass removes the unused nodes."""
    return graph.make_initializer("", graph.get_constant(x)) if graph.is_constant(x) else x


def grid_steps(graph: Graph, size: SymInt, align: Bool, dtype: Dtype) -> Result:
    """Return the coordinates of the elements of an axis between -1 and 1; [0] for one element.

    For size 2, they are the centres [-0.5, 0.5], or the ends [-1, 1] with ``align``.
    """
    op = OpBuilder(graph)
    indices = cast(graph, iota(graph, 0, size, 1), dtype)
    if isinstance(size, int) and size <= 1:
        return op.Mul(indices, 0)
    count, one = const(graph, size, dtype), const(graph, 1, dtype)
    if align:
        step = op.Div(2, op.Sub(count, one))
        return op.Sub(op.Mul(indices, step), one)
    odd_numbers = op.Add(op.Add(indices, indices), one)
    return op.Sub(op.Div(odd_numbers, count), one)


def _window_gradient(
    graph: Graph, x: str, axis: int, size: SymInt, start: str, end: str, counts: str
) -> str:
    """Sum x[o] / counts[o], for each input index i, over windows o with start[o] <= i < end[o]."""
    op, axes = OpBuilder(graph), list(range(2, rank_of(graph, x) - axis + 1))
    divisor = unsqueezed(graph, cast(graph, counts, graph.get_type(x)), [n - 1 for n in axes])
    x = unsqueezed(graph, op.Div(x, divisor), [axis])
    indices = unsqueezed(graph, iota(graph, 0, size, 1), [1])
    inside = op.And(op.GreaterOrEqual(indices, start), op.Less(indices, end))
    covered = op.Where(unsqueezed(graph, inside, axes), x, 0)
    return op.ReduceSum(covered, consts(graph, [axis + 1], dtypes.int64), keepdims=0)


def _edge_padding_gradient(
    graph: Graph, x: str, axis: int, size: SymInt, before: int, after: int
) -> str:
    """Return the gradient of replication padding of one axis; cropped elements get 0."""
    op, rank = OpBuilder(graph), rank_of(graph, x)
    cropped = max(-before, 0), max(-after, 0)
    first = max(before, 0)
    result = sliced(graph, x, axis, first, first + size - sum(cropped), 1)
    if any(cropped):
        result = op.Pad(result, as_vec(graph, full_pads(rank, axis, *cropped)))
    last = first + size - sum(cropped)
    left_pad, right_pad = (0, first), (last, last + max(after, 0))
    for bounds, pads in ((left_pad, (0, size - 1)), (right_pad, (size - 1, 0))):
        if dims.always_equal(*bounds):
            continue
        padded_grad = sliced(graph, x, axis, *bounds, 1)
        total = op.ReduceSum(padded_grad, consts(graph, [axis], dtypes.int64), keepdims=1)
        edge_grad = op.Pad(total, as_vec(graph, full_pads(rank, axis, *pads)))
        result = op.Add(result, edge_grad)
    return result


def _require_static(sizes: Any) -> list[int]:
    for size in sizes:
        if isinstance(size, SymDim):
            raise UnsupportedCase(f"the gradient along the dynamic size '{size}'", (size,))
    return list(sizes)


def _response_matrix(count: int, dtype: int, backward: Callable[[Any, Any], Any]) -> np.ndarray:
    """Return the matrix [in, ``count``] of a linear map of one axis from its gradient function."""
    import torch

    from ortable.compat.torch import disable_current_modes

    compute_dtype = torch.float64 if dtype == dtypes.float64 else torch.float32
    with disable_current_modes(), torch.no_grad():
        identity = torch.eye(count, dtype=compute_dtype, device="cpu").reshape(1, count, 1, count)
        return backward(torch, identity)[0, :, 0].numpy().T


def _upsample_backward(
    torch: Any, grad: Any, how: str, sizes: Any, corners: bool, scale: Any
) -> Any:
    """Return torch's gradient of upsampling along the last axis of planes [1, N, 1, size].

    ``sizes`` are the output and the input size.
    """
    aten, (count, size) = torch.ops.aten, sizes
    out, in_shape = [1, count], [1, count, 1, size]
    if how == "nearest":
        return aten.upsample_nearest2d_backward(grad, out, in_shape, None, scale)
    if how == "exact":
        return aten._upsample_nearest_exact2d_backward(grad, out, in_shape, None, scale)
    antialias, _, mode = how.rpartition(" ")
    name = (
        f"_upsample_{_TORCH_MODES[mode]}2d_aa" if antialias else f"upsample_{_TORCH_MODES[mode]}2d"
    )
    return getattr(aten, f"{name}_backward")(grad, out, in_shape, corners, None, scale)


def resample_weights(
    how: Str, have: SymInts, wanted: SymInts, corners: Bool, scales: Floats, dtype: Dtype
) -> Opaque:
    """Return the matrices of torch's upsampling from the last sizes of ``have`` to ``wanted``.

    ``how`` is nearest, exact, linear or cubic, or antialiased: smooth linear, smooth cubic or
    smooth lanczos. Each matrix is [input size, output size].
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
    """Return the maps of average pooling to ``places`` windows along the axes.

    ``rest`` holds ceil_mode, count_include_pad and divisor_override.
    """
    n, (ceil, padded, divisor) = len(sizes), rest
    window, begin_pads = broadcast_ints(kernel, n), broadcast_ints(pads, n)
    strides = broadcast_ints(steps, n) if steps else window
    result: list[Any] = []
    for size, count, taps, step, pad in zip(
        sizes, places, window, strides, begin_pads, strict=True
    ):
        axis_divisor = divisor and (1 if result else divisor)  # applied on the first axis only
        if is_static([size, count]):
            windows = ([1, taps], [1, step], [0, pad])
            backward = partial(
                _avg_pool_backward, size=size, window=windows, rest=(ceil, padded, divisor and 1)
            )
            result.append(_response_matrix(count, dtype, backward) / (axis_divisor or 1))
        else:
            start, end, counts = window_ends(graph, size, count, taps, step, pad, padded)
            counts = counts if axis_divisor is None else consts(graph, [axis_divisor], dtype)
            result.append(partial(_window_gradient, size=size, start=start, end=end, counts=counts))
    return result


def window_ends(
    graph: Graph, size: SymInt, count: SymInt, k: Int, step: Int, pad: Int, padded: Bool
) -> Results:
    """Return the begins, ends and divisors of windows; if ``padded``, divisors count padding."""
    op = OpBuilder(graph)
    start = iota(graph, -pad, count, step)
    end = op.Add(start, const(graph, k, dtypes.int64))
    first_counted, end_counted = (-pad, size + pad) if padded else (0, size)
    counted_end = op.Min(end, const(graph, end_counted, dtypes.int64))
    counts = op.Sub(counted_end, op.Max(start, const(graph, first_counted, dtypes.int64)))
    return [start, end, counts]


def _avg_pool_backward(torch: Any, grad: Any, size: int, window: Any, rest: Any) -> Any:
    """Return torch's gradient of average pooling along the last axis of [1, N, 1, ``size``]."""
    input_like = grad.new_zeros(1, grad.shape[1], 1, size)
    return torch.ops.aten.avg_pool2d_backward(grad, input_like, *window, *rest)


def _adaptive_avg_pool_backward(torch: Any, grad: Any, size: int) -> Any:
    """Return torch's gradient of adaptive average pooling along the last axis, of ``size``."""
    input_like = grad.new_zeros(1, grad.shape[1], 1, size)
    return torch.ops.aten._adaptive_avg_pool2d_backward(grad, input_like)


def adaptive_weights(graph: Graph, have: SymInts, wanted: SymInts, dtype: Dtype) -> Opaque:
    """Return the maps of adaptive average pooling from the sizes ``have`` to ``wanted``."""
    result: list[Any] = []
    for size, count in zip(have, wanted, strict=True):
        if is_static([size, count]):
            result.append(
                _response_matrix(count, dtype, partial(_adaptive_avg_pool_backward, size=size))
            )
        else:
            start, end = even_ends(graph, size, count)
            counts = OpBuilder(graph).Sub(end, start)
            result.append(partial(_window_gradient, size=size, start=start, end=end, counts=counts))
    return result


def edge_weights(sizes: SymInts, pads: SymInts, dtype: Dtype) -> Opaque:
    """Return the maps of padding with edge elements; ``pads`` begins with the last axis."""
    amounts = _require_static(pads)[::-1]
    result: list[Any] = []
    for axis, size in enumerate(sizes):
        after, before = amounts[2 * axis : 2 * axis + 2]
        if isinstance(size, SymDim):
            result.append(partial(_edge_padding_gradient, size=size, before=before, after=after))
            continue
        source_indices = np.clip(np.arange(-before, size + after), 0, max(size - 1, 0))
        compute_dtype = np.float64 if dtype == dtypes.float64 else np.float32
        result.append((np.arange(size)[:, None] == source_indices).astype(compute_dtype))
    return result


def even_ends(graph: Graph, size: SymInt, count: SymInt) -> Results:
    """Return the begins and ends of the ``count`` windows of adaptive pooling along an axis."""
    op, one = OpBuilder(graph), const(graph, 1, dtypes.int64)
    indices = iota(graph, 0, count, 1)
    length, parts = const(graph, size, dtypes.int64), const(graph, count, dtypes.int64)
    start = op.Div(op.Mul(indices, length), parts)
    scaled_end = op.Mul(op.Add(indices, one), length)
    return [start, op.Div(op.Add(scaled_end, op.Sub(parts, one)), parts)]
