"""Weights that a graph computes of integer codes, `(codes - zeros) * scales + shifts`, however they
are packed, cast and reshaped on the way. In come a graph and the name of a constant matrix, out go
its codes, scales and zero points for DequantizeLinear, of the same values. Called by rewrite
words about codes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from ortable import dtypes
from ortable.ir import Graph, constants
from ortable.ir.constants import get_constant, is_constant
from ortable.ir.node import Node
from ortable_generated.onnx.traits import GATHERS, MOVES_ELEMENTS, REARRANGES

_MOVES = GATHERS | MOVES_ELEMENTS | REARRANGES
_DEEPEST = 16  # nodes between a weight and its codes
_LARGEST = 255  # of whole numbers, in size
_GROUPS = (256, 128, 64, 32, 16)  # codes of a group, as kernels take them
_KEPT = 4096  # elements of a constant that stays computed
_CLOSE = 2.0**-21  # how far a shift may be from a multiple of its scale: rounding of floats


@dataclass(frozen=True)
class Parts:
    """A weight as ``numbers * scales + shifts``: whole numbers and floats that broadcast;
    ``dequantized`` by an operator whose codes of 8 bits kernels take as they are."""

    numbers: np.ndarray
    scales: np.ndarray
    shifts: np.ndarray | None = None
    dequantized: bool = False

    @property
    def arrays(self) -> list[np.ndarray]:
        """All of them."""
        shifts = [] if self.shifts is None else [self.shifts]
        return [self.numbers, self.scales, *shifts]

    def moved(self, move: Callable[[np.ndarray], np.ndarray]) -> Parts:
        """The same of a result that has the elements in other places."""
        shape = np.broadcast_shapes(*(array.shape for array in self.arrays))

        def one(part: np.ndarray) -> np.ndarray:
            return move(np.ascontiguousarray(np.broadcast_to(part, shape)))

        return Parts(
            one(self.numbers),
            one(self.scales),
            None if self.shifts is None else one(self.shifts),
            self.dequantized,
        )


@dataclass(frozen=True)
class CodedWeight:
    """A weight [N, K] as DequantizeLinear takes it, in groups along K.

    ``codes`` [N, K] of int4, uint4, int8 or uint8; ``scales`` [N, K / group], or [N] where a row
    has one scale and ``group`` is 0; ``zeros`` like the scales, of the codes' type, None where they
    are 0; ``shifts`` [K / group, N], what is added to every number of a group, or None."""

    codes: np.ndarray
    scales: np.ndarray
    zeros: np.ndarray | None
    shifts: np.ndarray | None
    group: int

    @property
    def four_bits(self) -> bool:
        """Whether codes have 4 bits."""
        return self.codes.dtype in (ml_dtypes.int4, ml_dtypes.uint4)


def parts_of(graph: Graph, name: str, spread: int, depth: int = _DEEPEST) -> Parts | None:
    """The parts of a constant of float32; None for one that is not such arithmetic.

    Args:
        graph: the graph.
        name: the result.
        spread: how far codes may be apart at most; others are not computed.
        depth: how many nodes are looked at.
    """
    node = _maker(graph, name)
    if node is None or depth == 0:
        return None
    if node.key in _MOVES:
        inner = parts_of(graph, node.inputs[0], spread, depth - 1)
        if inner is None:
            return None  # not even whole numbers
        return inner.moved(lambda part: _moved(graph, node, part))
    if node.key == "DequantizeLinear":
        return _dequantized(graph, node, spread)
    if node.key == "Mul":
        for numbers, scales in (node.inputs, node.inputs[::-1]):
            found = whole_numbers(graph, numbers, spread)
            if found is not None:
                return Parts(found, get_constant(graph, scales))
    if node.key == "Add":
        for product, shifts in (node.inputs, node.inputs[::-1]):
            inner = parts_of(graph, product, spread, depth - 1)
            if inner is not None and inner.shifts is None:
                return Parts(inner.numbers, inner.scales, get_constant(graph, shifts))
    plain = whole_numbers(graph, name, spread, depth)
    return None if plain is None else Parts(plain, np.ones((1,) * plain.ndim, np.float32))


def _dequantized(graph: Graph, node: Node, spread: int) -> Parts | None:
    """The parts of a DequantizeLinear of codes of 8 bits; kernels take those of 4 as they are."""
    codes, scales, zeros = [*node.inputs, ""][:3]
    if graph.get_type(codes) not in (dtypes.int8, dtypes.uint8):
        return None
    numbers = _within(get_constant(graph, codes), spread)
    if numbers is None:
        return None
    axis, size = node.attrs.get("axis", 1) % numbers.ndim, node.attrs.get("block_size", 0)
    row = [-1 if each == axis else 1 for each in range(numbers.ndim)]
    places = np.arange(numbers.shape[axis]) // (size or 1)

    def spread_out(part: np.ndarray) -> np.ndarray:
        return (
            np.take(part, places, axis)
            if size
            else part.reshape(row if part.size > 1 else [1] * len(row))
        )

    if zeros:
        numbers = numbers - spread_out(get_constant(graph, zeros).astype(np.int16))
    return Parts(numbers, spread_out(get_constant(graph, scales)), dequantized=True)


def whole_numbers(graph: Graph, name: str, spread: int, depth: int = _DEEPEST) -> np.ndarray | None:
    """The value of a constant of float32 that holds integers, as int16; None for another."""
    node = _maker(graph, name)
    if node is None or depth == 0:
        return None
    if node.key == "Cast":
        source = node.inputs[0]
        if graph.get_type(source) not in dtypes.INT_TYPES:
            return None
        return _within(get_constant(graph, source), spread)
    if node.key in _MOVES:
        inner = whole_numbers(graph, node.inputs[0], spread, depth - 1)
        return None if inner is None else _moved(graph, node, inner)
    if node.key == "Sub":
        left, right = node.inputs
        numbers = whole_numbers(graph, left, spread, depth - 1)
        if numbers is None:
            return None
        less = whole_numbers(graph, right, _LARGEST, depth - 1)
        if less is None:
            less = _few_numbers(graph, right)
        return None if less is None else numbers - less
    return None


def coded_weight(parts: Parts, last: bool, wide: bool) -> CodedWeight | None:
    """Such a matrix as codes; None where they are no codes in groups that kernels take.

    Args:
        parts: of a matrix.
        last: whether it is [N, K], not [K, N].
        wide: whether codes may have 8 bits.
    """
    arrays = parts.arrays
    shape = np.broadcast_shapes(*(array.shape for array in arrays))
    if len(shape) != 2 or min(shape) == 0:
        return None
    rows = [np.broadcast_to(array, shape) for array in arrays]
    wide = wide and not parts.dequantized
    numbers, *floats = rows if last else [array.T for array in rows]
    if not all(bool(np.isfinite(array).all()) for array in arrays[1:]):
        return None
    inner = numbers.shape[1]
    for size in (inner, *_GROUPS):
        if inner % size or (size > inner) or not all(_is_grouped(each, size) for each in floats):
            continue
        found = _coded(numbers, [each[:, ::size] for each in floats], size, wide)
        if found is not None:
            return found
    return None


def forget(graph: Any, before: set[str]) -> None:
    """Lets values go that were computed on the way: those of a weight are larger than its codes."""
    for name in set(graph.computed_constants) - before:
        if graph.computed_constants[name].size > _KEPT:
            del graph.computed_constants[name]


def _maker(graph: Graph, name: str) -> Node | None:
    """The node of one result that makes a constant of float32, whose inputs are all known."""
    info = graph.values.get(name)
    node: Node | None = None if info is None else info.producer
    if node is None or len(node.outputs) != 1 or not is_constant(graph, name):
        return None
    if not graph.has_type(name) or graph.get_type(name) != dtypes.float32:
        return None
    known = all(not each or graph.has_shape(each) for each in node.inputs)
    return node if known else None


def _moved(graph: Graph, node: Node, part: np.ndarray) -> np.ndarray:
    rest = [get_constant(graph, name) if name else None for name in node.inputs[1:]]
    return constants.compute_node(graph, node, [part, *rest])


def _within(values: np.ndarray, spread: int) -> np.ndarray | None:
    """Integers as int16, where they are small and not further apart than that."""
    if values.size == 0:
        return None
    low, high = int(values.min()), int(values.max())
    if high - low > spread or max(-low, high) > _LARGEST:
        return None
    return values.astype(np.int16)


def _few_numbers(graph: Graph, name: str) -> np.ndarray | None:
    """A constant of floats that are whole numbers, such as the middle code."""
    if not is_constant(graph, name):
        return None
    values = get_constant(graph, name)
    if not np.array_equal(values, np.rint(values)):
        return None
    return _within(values, _LARGEST)


def _is_grouped(values: np.ndarray, size: int) -> bool:
    """Whether groups of that size along the last axis have one value each."""
    rows, inner = values.shape
    groups = values.reshape(rows, inner // size, size)
    return bool((groups == groups[..., :1]).all())


def _coded(
    numbers: np.ndarray, floats: list[np.ndarray], size: int, wide: bool
) -> CodedWeight | None:
    """Codes for groups of that size, with a scale, and perhaps a shift, each."""
    rows, inner = numbers.shape
    groups = np.ascontiguousarray(numbers).reshape(rows, inner // size, size)
    scales = np.ascontiguousarray(floats[0], np.float32)
    shifts = floats[1] if len(floats) > 1 else None
    if shifts is not None:
        steps = _steps(shifts, scales)
        if steps is not None:
            groups, shifts = groups + steps[..., None], None
    low, high = groups.min(axis=-1), groups.max(axis=-1)
    found = _kind(low, high, wide)
    if found is None:
        return None
    bits, signed = found
    zeros = None if signed else np.maximum(-low, 0)
    kinds: dict[tuple[int, bool], Any] = {
        (4, True): ml_dtypes.int4, (4, False): ml_dtypes.uint4,
        (8, True): np.int8, (8, False): np.uint8,
    }  # fmt: skip
    kind = kinds[bits, signed]
    codes = (groups if zeros is None else groups + zeros[..., None]).reshape(rows, inner)
    whole = size == inner
    return CodedWeight(
        _as(kind, codes),
        scales[:, 0].copy() if whole else scales,
        None if zeros is None else _as(kind, zeros[:, 0] if whole else zeros),
        None if shifts is None else np.ascontiguousarray(shifts.T, np.float32),
        0 if whole else size,
    )


def _kind(low: np.ndarray, high: np.ndarray, wide: bool) -> tuple[int, bool] | None:
    """Bits of codes for numbers between these, and whether they need no zero points."""
    for bits in (4, 8) if wide else (4,):
        half, top = 1 << (bits - 1), (1 << bits) - 1
        if low.min() >= -half and high.max() < half:
            return bits, True
        if low.min() >= -top and high.max() <= top and (high - np.minimum(low, 0)).max() <= top:
            return bits, False
    return None


def _steps(shifts: np.ndarray, scales: np.ndarray) -> np.ndarray | None:
    """Shifts as multiples of the scales, where they are that but for rounding."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        steps = np.rint(np.where(scales == 0, 0, shifts / scales))
    off = np.abs(shifts - steps * scales)
    if not (off <= _CLOSE * np.abs(shifts)).all() or np.abs(steps).max() > _LARGEST:
        return None
    return steps.astype(np.int16)


def _as(kind: Any, numbers: np.ndarray) -> np.ndarray:
    """Numbers as codes; those of 4 bits by their low bits, since casts to them go one by one."""
    if kind in (np.int8, np.uint8):
        return numbers.astype(kind)
    return (numbers & 15).astype(np.uint8).view(kind)
