"""Recognize weights that a graph computes from codes, the integers of a quantized weight.

Such a weight is `(codes - zeros) * scales + shifts`, with any packing, casts and reshapes in
between. The result is the codes, scales and zero points for DequantizeLinear. Called by rewrite
helpers about prequantized models.
"""

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
_MAX_DEPTH = 16  # nodes between a weight and its codes
_MAX_INTEGER = 255  # the largest magnitude of integers that are codes
_GROUPS = (256, 128, 64, 32, 16)  # group sizes that kernels support
_MAX_KEPT = 4096  # elements of a constant that stays cached
_TOLERANCE = 2.0**-21  # relative rounding error of a shift that is a multiple of its scale


@dataclass(frozen=True)
class WeightParts:
    """A weight as ``numbers * scales + shifts``: integers and floats that broadcast.

    ``dequantized``: whether a DequantizeLinear computes the weight. Kernels read the 8-bit codes of
    such a weight directly, so only 4-bit codes replace them.
    """

    numbers: np.ndarray
    scales: np.ndarray
    shifts: np.ndarray | None = None
    dequantized: bool = False

    @property
    def all_arrays(self) -> list[np.ndarray]:
        """The arrays of the parts: numbers, scales, and shifts if there are any."""
        shifts = [] if self.shifts is None else [self.shifts]
        return [self.numbers, self.scales, *shifts]

    def map_elements(self, move: Callable[[np.ndarray], np.ndarray]) -> WeightParts:
        """Return the parts of a result whose elements ``move`` rearranges."""
        shape = np.broadcast_shapes(*(array.shape for array in self.all_arrays))

        def move_part(part: np.ndarray) -> np.ndarray:
            return move(np.ascontiguousarray(np.broadcast_to(part, shape)))

        return WeightParts(
            move_part(self.numbers),
            move_part(self.scales),
            None if self.shifts is None else move_part(self.shifts),
            self.dequantized,
        )


@dataclass(frozen=True)
class GroupedWeight:
    """A weight [N, K] in groups along K, as inputs of DequantizeLinear.

    ``codes`` [N, K] are int4, uint4, int8 or uint8. ``scales`` are [N, K / group], or [N] if a row
    has a single scale; ``group`` is then 0. ``zeros`` have the shape of the scales and the type of
    the codes, and are None if all are 0. ``shifts`` [K / group, N] are added to every number of a
    group, and may be None.
    """

    codes: np.ndarray
    scales: np.ndarray
    zeros: np.ndarray | None
    shifts: np.ndarray | None
    group: int

    @property
    def four_bits(self) -> bool:
        """Whether codes have 4 bits."""
        return self.codes.dtype in (ml_dtypes.int4, ml_dtypes.uint4)


def find_weight_parts(
    graph: Graph, name: str, spread: int, depth: int = _MAX_DEPTH
) -> WeightParts | None:
    """Return the parts of a float32 constant, or None if it is not computed from codes.

    ``spread`` is the largest allowed difference between codes; ``depth`` limits the number of nodes
    between the constant and its codes.
    """
    node = _float32_producer(graph, name)
    if node is None or depth == 0:
        return None
    if node.key in _MOVES:
        inner = find_weight_parts(graph, node.inputs[0], spread, depth - 1)
        if inner is None:
            return None  # `read_integer_weight` would fail for the input too
        return inner.map_elements(lambda part: _move_elements(graph, node, part))
    if node.key == "DequantizeLinear":
        return _dequantize_parts(graph, node, spread)
    if node.key == "Mul":
        for numbers, scales in (node.inputs, node.inputs[::-1]):
            integers = read_integer_weight(graph, numbers, spread)
            if integers is not None:
                return WeightParts(integers, get_constant(graph, scales))
    if node.key == "Add":
        for product, shifts in (node.inputs, node.inputs[::-1]):
            inner = find_weight_parts(graph, product, spread, depth - 1)
            if inner is not None and inner.shifts is None:
                return WeightParts(inner.numbers, inner.scales, get_constant(graph, shifts))
    integers_only = read_integer_weight(graph, name, spread, depth)
    return (
        None
        if integers_only is None
        else WeightParts(integers_only, np.ones((1,) * integers_only.ndim, np.float32))
    )


def _dequantize_parts(graph: Graph, node: Node, spread: int) -> WeightParts | None:
    """Return the parts of a DequantizeLinear of 8-bit codes, else None.

    Kernels read the 4-bit codes of a DequantizeLinear directly.
    """
    codes, scales, zeros = [*node.inputs, ""][:3]
    if graph.get_type(codes) not in (dtypes.int8, dtypes.uint8):
        return None
    numbers = _small_integers(get_constant(graph, codes), spread)
    if numbers is None:
        return None
    axis, size = node.attrs.get("axis", 1) % numbers.ndim, node.attrs.get("block_size", 0)
    broadcast_shape = [-1 if index == axis else 1 for index in range(numbers.ndim)]
    group_indices = np.arange(numbers.shape[axis]) // (size or 1)

    def expand_part(part: np.ndarray) -> np.ndarray:
        return (
            np.take(part, group_indices, axis)
            if size
            else part.reshape(broadcast_shape if part.size > 1 else [1] * len(broadcast_shape))
        )

    if zeros:
        numbers = numbers - expand_part(get_constant(graph, zeros).astype(np.int16))
    return WeightParts(numbers, expand_part(get_constant(graph, scales)), dequantized=True)


def read_integer_weight(
    graph: Graph, name: str, spread: int, depth: int = _MAX_DEPTH
) -> np.ndarray | None:
    """Return the value of a float32 constant that holds integers, as int16, else None."""
    node = _float32_producer(graph, name)
    if node is None or depth == 0:
        return None
    if node.key == "Cast":
        source = node.inputs[0]
        if graph.get_type(source) not in dtypes.INT_TYPES:
            return None
        return _small_integers(get_constant(graph, source), spread)
    if node.key in _MOVES:
        inner = read_integer_weight(graph, node.inputs[0], spread, depth - 1)
        return None if inner is None else _move_elements(graph, node, inner)
    if node.key == "Sub":
        left, right = node.inputs
        numbers = read_integer_weight(graph, left, spread, depth - 1)
        if numbers is None:
            return None
        subtrahend = read_integer_weight(graph, right, _MAX_INTEGER, depth - 1)
        if subtrahend is None:
            subtrahend = _integer_floats(graph, right)
        return None if subtrahend is None else numbers - subtrahend
    return None


def to_grouped_weight(
    parts: WeightParts, outer_first: bool, eight_bits: bool
) -> GroupedWeight | None:
    """Return a matrix as grouped codes, or None if kernels support no grouping of the matrix.

    ``outer_first``: whether the matrix is [N, K] rather than [K, N]; ``eight_bits``: whether codes
    may have 8 bits.
    """
    arrays = parts.all_arrays
    shape = np.broadcast_shapes(*(array.shape for array in arrays))
    if len(shape) != 2 or min(shape) == 0:
        return None
    full_arrays = [np.broadcast_to(array, shape) for array in arrays]
    eight_bits = eight_bits and not parts.dequantized
    numbers, *floats = full_arrays if outer_first else [array.T for array in full_arrays]
    if not all(bool(np.isfinite(array).all()) for array in arrays[1:]):
        return None
    inner = numbers.shape[1]
    for size in (inner, *_GROUPS):
        if inner % size or (size > inner) or not all(_is_grouped(part, size) for part in floats):
            continue
        weight = _group_codes(numbers, [part[:, ::size] for part in floats], size, eight_bits)
        if weight is not None:
            return weight
    return None


def drop_large_constants(graph: Any, earlier_names: set[str]) -> None:
    """Drop large computed constants, except ``earlier_names``; codes take less memory."""
    for name in set(graph.computed_constants) - earlier_names:
        if graph.computed_constants[name].size > _MAX_KEPT:
            del graph.computed_constants[name]


def _float32_producer(graph: Graph, name: str) -> Node | None:
    """Return the single-output node of a float32 constant, if its inputs have known shapes."""
    info = graph.values.get(name)
    node: Node | None = None if info is None else info.producer
    if node is None or len(node.outputs) != 1 or not is_constant(graph, name):
        return None
    if not graph.has_type(name) or graph.get_type(name) != dtypes.float32:
        return None
    is_known = all(not operand or graph.has_shape(operand) for operand in node.inputs)
    return node if is_known else None


def _move_elements(graph: Graph, node: Node, first_input: np.ndarray) -> np.ndarray:
    parameters = [get_constant(graph, name) if name else None for name in node.inputs[1:]]
    return constants.compute_node(graph, node, [first_input, *parameters])


def _small_integers(values: np.ndarray, spread: int) -> np.ndarray | None:
    """Return integers as int16 if they are small and differ by at most ``spread``, else None."""
    if values.size == 0:
        return None
    low, high = int(values.min()), int(values.max())
    if high - low > spread or max(-low, high) > _MAX_INTEGER:
        return None
    return values.astype(np.int16)


def _integer_floats(graph: Graph, name: str) -> np.ndarray | None:
    """Return a constant of floats that are integers, such as the middle code, as int16."""
    if not is_constant(graph, name):
        return None
    values = get_constant(graph, name)
    if not np.array_equal(values, np.rint(values)):
        return None
    return _small_integers(values, _MAX_INTEGER)


def _is_grouped(values: np.ndarray, size: int) -> bool:
    """Whether the values of each group of ``size`` along the last axis are equal."""
    rows, inner = values.shape
    groups = values.reshape(rows, inner // size, size)
    return bool((groups == groups[..., :1]).all())


def _group_codes(
    numbers: np.ndarray, floats: list[np.ndarray], size: int, eight_bits: bool
) -> GroupedWeight | None:
    """Return codes for groups of ``size``, each with a scale and possibly a shift."""
    rows, inner = numbers.shape
    groups = np.ascontiguousarray(numbers).reshape(rows, inner // size, size)
    scales = np.ascontiguousarray(floats[0], np.float32)
    shifts = floats[1] if len(floats) > 1 else None
    if shifts is not None:
        steps = _scale_multiples(shifts, scales)
        if steps is not None:
            groups, shifts = groups + steps[..., None], None
    low, high = groups.min(axis=-1), groups.max(axis=-1)
    code_format = _code_format(low, high, eight_bits)
    if code_format is None:
        return None
    bits, signed = code_format
    zeros = None if signed else np.maximum(-low, 0)
    dtypes_by_format: dict[tuple[int, bool], Any] = {
        (4, True): ml_dtypes.int4, (4, False): ml_dtypes.uint4,
        (8, True): np.int8, (8, False): np.uint8,
    }  # fmt: skip
    dtype = dtypes_by_format[bits, signed]
    codes = (groups if zeros is None else groups + zeros[..., None]).reshape(rows, inner)
    per_row = size == inner
    return GroupedWeight(
        _to_codes(dtype, codes),
        scales[:, 0].copy() if per_row else scales,
        None if zeros is None else _to_codes(dtype, zeros[:, 0] if per_row else zeros),
        None if shifts is None else np.ascontiguousarray(shifts.T, np.float32),
        0 if per_row else size,
    )


def _code_format(low: np.ndarray, high: np.ndarray, eight_bits: bool) -> tuple[int, bool] | None:
    """Return the bits of codes with these bounds, and whether they are signed (no zero points)."""
    for bits in (4, 8) if eight_bits else (4,):
        half, unsigned_max = 1 << (bits - 1), (1 << bits) - 1
        if low.min() >= -half and high.max() < half:
            return bits, True
        if (
            low.min() >= -unsigned_max
            and high.max() <= unsigned_max
            and (high - np.minimum(low, 0)).max() <= unsigned_max
        ):
            return bits, False
    return None


def _scale_multiples(shifts: np.ndarray, scales: np.ndarray) -> np.ndarray | None:
    """Return shifts divided by scales, or None if the quotients are not integers up to rounding."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        steps = np.rint(np.where(scales == 0, 0, shifts / scales))
    error = np.abs(shifts - steps * scales)
    if not (error <= _TOLERANCE * np.abs(shifts)).all() or np.abs(steps).max() > _MAX_INTEGER:
        return None
    return steps.astype(np.int16)


def _to_codes(dtype: Any, numbers: np.ndarray) -> np.ndarray:
    """Convert integers to codes; 4-bit codes are a view, because NumPy casts to 4 bits slowly."""
    if dtype in (np.int8, np.uint8):
        return numbers.astype(dtype)
    return (numbers & 15).astype(np.uint8).view(dtype)
