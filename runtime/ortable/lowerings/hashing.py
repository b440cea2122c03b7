"""hash_tensor: the bits of numbers as torch hashes them, folded by exclusive or."""

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
    """aten::hash_tensor: ints as 64 bits, floats as the bits of a double."""
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
    """The bits that torch hashes, as int64."""
    if not dtypes.is_float_type(graph.get_type(x)):
        return cast(graph, x, dtypes.int64)
    wide = cast(graph, x, dtypes.float64)
    if graph.opset >= 26:
        return OpBuilder(graph).BitCast(wide, to=dtypes.int64)
    return _bits_of_double(graph, wide)


def _bits_of_double(graph: Graph, x: str) -> str:
    """The bits from exponent and significand, an integer below 2 ** 53. A NaN has the bits of the
    one that Python and torch write; its payload cannot be read by any operator before BitCast.
    """
    op, whole = OpBuilder(graph), dtypes.int64
    size = op.Abs(x)
    # numbers below 2 ** -1022 share its exponent, and have no leading bit
    power = op.Max(exponent_of(graph, x), -1021)
    places = op.Sub(const_like(graph, _MANTISSA_BITS + 1, x), power)
    digits = cast(graph, scaled_by_power(graph, size, places), whole)
    steps = cast(graph, op.Add(power, 1021), whole)
    one = 1 << _MANTISSA_BITS
    bits = op.Add(op.Mul(steps, const(graph, one, whole)), digits)
    zero = op.Equal(size, 0)
    bits = op.Where(zero, 0, bits)
    endless = op.Equal(size, math.inf)
    infinity = _EXPONENT_OF_INFINITY << _MANTISSA_BITS
    bits = op.Where(endless, const(graph, infinity, whole), bits)
    sign = op.Where(is_sign_set(graph, x), const(graph, -(1 << 63), whole),
                          const(graph, 0, whole))  # fmt: skip
    bits = op.Add(bits, sign)
    quiet = const(graph, infinity + (1 << (_MANTISSA_BITS - 1)), whole)
    return op.Where(op.IsNaN(x), quiet, bits)
