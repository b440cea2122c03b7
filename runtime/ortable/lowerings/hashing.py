"""Lower hash_tensor: reduce the bits of numbers, as torch reads them, by exclusive or."""

from __future__ import annotations

import math
import sys

from ortable import dtypes
from ortable.ir import Graph, ResultSpec
from ortable.prelude.facts import axes_of, product, rank_of, shape_of
from ortable.prelude.op_builder import OpBuilder
from ortable.prelude.pointwise import const_like, is_sign_set
from ortable.prelude.shapes import other_axes, sliced
from ortable.prelude.values import cast, const, permuted, reshape_to

from .cumulative import prefix_scan
from .float_parts import exponent_of, scaled_by_power

_EXPONENT_OF_INFINITY = 2047
_MANTISSA_BITS = 52


def hash_tensor(graph: Graph, res: ResultSpec, self: str, dim: list[int], keepdim: bool) -> str:
    """Lower aten::hash_tensor: ints are hashed as 64 bits, floats as the bits of a double."""
    axes, shape = axes_of(graph, self, dim), list(shape_of(graph, self))
    kept_axes = other_axes(rank_of(graph, self), axes)
    rows = permuted(graph, _hash_bits(graph, self), [*kept_axes, *axes])
    size = product([shape[axis] for axis in axes])
    rows = reshape_to(graph, rows, [*(shape[axis] for axis in kept_axes), size])
    folded = prefix_scan(graph, len(kept_axes), [rows], [0], _exclusive_or)[0]
    last = sliced(graph, folded, len(kept_axes), -1, sys.maxsize)
    out_shape = [1 if axis in axes else length for axis, length in enumerate(shape)]
    if not keepdim:
        out_shape = [shape[axis] for axis in kept_axes]
    return cast(graph, reshape_to(graph, last, out_shape), dtypes.uint64)


def _exclusive_or(graph: Graph, before: list[str], after: list[str]) -> list[str]:
    return [OpBuilder(graph).BitwiseXor(before[0], after[0])]


def _hash_bits(graph: Graph, x: str) -> str:
    """Return the bits that torch hashes, as int64."""
    if not dtypes.is_float_type(graph.get_type(x)):
        return cast(graph, x, dtypes.int64)
    wide = cast(graph, x, dtypes.float64)
    if graph.opset >= 26:
        return OpBuilder(graph).BitCast(wide, to=dtypes.int64)
    return _bits_of_double(graph, wide)


def _bits_of_double(graph: Graph, x: str) -> str:
    """Assemble the bits of a double from its exponent and significand, an integer below 2 ** 53.

    Every NaN gets the bits of Python's and torch's default NaN, because no operator before BitCast
    can read the payload.
    """
    op, int64 = OpBuilder(graph), dtypes.int64
    magnitude = op.Abs(x)
    # subnormal numbers have the exponent of 2 ** -1022 and no leading bit
    exponent = op.Max(exponent_of(graph, x), -1021)
    shift = op.Sub(const_like(graph, _MANTISSA_BITS + 1, x), exponent)
    significand = cast(graph, scaled_by_power(graph, magnitude, shift), int64)
    biased_exponent = cast(graph, op.Add(exponent, 1021), int64)
    exponent_unit = 1 << _MANTISSA_BITS
    bits = op.Add(op.Mul(biased_exponent, const(graph, exponent_unit, int64)), significand)
    is_zero = op.Equal(magnitude, 0)
    bits = op.Where(is_zero, 0, bits)
    is_infinite = op.Equal(magnitude, math.inf)
    infinity = _EXPONENT_OF_INFINITY << _MANTISSA_BITS
    bits = op.Where(is_infinite, const(graph, infinity, int64), bits)
    sign = op.Where(is_sign_set(graph, x), const(graph, -(1 << 63), int64),
                          const(graph, 0, int64))  # fmt: skip
    bits = op.Add(bits, sign)
    nan_bits = const(graph, infinity + (1 << (_MANTISSA_BITS - 1)), int64)
    return op.Where(op.IsNaN(x), nan_bits, bits)
