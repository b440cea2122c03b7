"""hash_tensor: the bits of numbers as torch hashes them, folded by exclusive or.

In come a real tensor and the dimensions to fold, out goes a uint64 result. Called by the generated
converter of hash_tensor."""

from __future__ import annotations

import math
import sys

from ortable import dtypes
from ortable.ir import Graph, ResultSpec
from ortable.prelude.facts import axes_of, product, rank_of, shape_of
from ortable.prelude.pointwise import const_like, is_sign_set
from ortable.prelude.shapes import other_axes, sliced
from ortable.prelude.values import cast, const, permuted, reshape_to

from .cumulative import accumulated
from .float_parts import exponent_of, scaled_by_power

_EXPONENT_OF_INFINITY = 2047
_MANTISSA_BITS = 52


def hash_tensor(graph: Graph, res: ResultSpec, self: str, dim: list[int], keepdim: bool) -> str:
    """aten::hash_tensor: ints as 64 bits, floats as the bits of a double."""
    axes, shape = axes_of(graph, self, dim), list(shape_of(graph, self))
    kept = other_axes(rank_of(graph, self), axes)
    rows = permuted(graph, _bits(graph, self), [*kept, *axes])
    size = product([shape[axis] for axis in axes])
    rows = reshape_to(graph, rows, [*(shape[axis] for axis in kept), size])
    folded = accumulated(graph, len(kept), [rows], [0], _exclusive_or)[0]
    last = sliced(graph, folded, len(kept), -1, sys.maxsize)
    wanted = [1 if axis in axes else each for axis, each in enumerate(shape)]
    if not keepdim:
        wanted = [shape[axis] for axis in kept]
    return cast(graph, reshape_to(graph, last, wanted), dtypes.uint64)


def _exclusive_or(graph: Graph, before: list[str], after: list[str]) -> list[str]:
    return [graph.make_node("BitwiseXor", [before[0], after[0]])]


def _bits(graph: Graph, x: str) -> str:
    """The bits that torch hashes, as int64."""
    if not dtypes.is_float_type(graph.get_type(x)):
        return cast(graph, x, dtypes.int64)
    wide = cast(graph, x, dtypes.float64)
    if graph.opset >= 26:
        return graph.make_node("BitCast", [wide], to=dtypes.int64)
    return _bits_of_double(graph, wide)


def _bits_of_double(graph: Graph, x: str) -> str:
    """The bits from exponent and significand, which is an integer below 2 ** 53. A NaN has the bits
    of the one that Python and torch write; what else it carries, no operator before BitCast reads.
    """
    make, whole = graph.make_node, dtypes.int64
    size = make("Abs", [x])
    # numbers below 2 ** -1022 share its exponent, and have no leading bit
    power = make("Max", [exponent_of(graph, x), const_like(graph, -1021, x)])
    places = make("Sub", [const_like(graph, _MANTISSA_BITS + 1, x), power])
    digits = cast(graph, scaled_by_power(graph, size, places), whole)
    steps = cast(graph, make("Add", [power, const_like(graph, 1021, x)]), whole)
    one = 1 << _MANTISSA_BITS
    bits = make("Add", [make("Mul", [steps, const(graph, one, whole)]), digits])
    zero = make("Equal", [size, const_like(graph, 0, x)])
    bits = make("Where", [zero, const(graph, 0, whole), bits])
    endless = make("Equal", [size, const_like(graph, math.inf, x)])
    infinity = _EXPONENT_OF_INFINITY << _MANTISSA_BITS
    bits = make("Where", [endless, const(graph, infinity, whole), bits])
    sign = make("Where", [is_sign_set(graph, x), const(graph, -(1 << 63), whole),
                          const(graph, 0, whole)])  # fmt: skip
    bits = make("Add", [bits, sign])
    quiet = const(graph, infinity + (1 << (_MANTISSA_BITS - 1)), whole)
    return make("Where", [make("IsNaN", [x]), quiet, bits])
