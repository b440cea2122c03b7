"""Lower-case words of the spec language for the parts and neighbours of floating-point numbers, and
for sequences whose values are known while converting.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ortable import dtypes
from ortable.prelude import Bool, Dtype, Float, Floats, Int, Result, Scalar, Str
from ortable.prelude_make import cast, consts
from ortable.prelude_pointwise import const_like, largest_finite, linspace_values

if TYPE_CHECKING:
    from ortable.builder import GraphBuilder as Graph

# bits of the significand, exponent of the smallest subnormal number
_PARTS = {
    dtypes.float16: (11, -24),
    dtypes.bfloat16: (8, -133),
    dtypes.float32: (24, -149),
    dtypes.float64: (53, -1074),
}


def exponent_of(graph: Graph, x: Result) -> Result:
    """The exponent e with abs(x) = m * 2 ** e and 0.5 <= m < 1, of a float64, as a float64; 0 for
    zeros, infinities and NaN."""
    make, one = graph.make_node, const_like(graph, 1, x)
    size = make("Abs", [x])
    plain = make("And", [
        make("Greater", [size, const_like(graph, 0, x)]),
        make("Less", [size, const_like(graph, math.inf, x)]),
    ])  # fmt: skip
    size = make("Where", [plain, size, const_like(graph, 0.5, x)])
    found = make("Floor", [make("Div", [make("Log", [size]), const_like(graph, math.log(2), x)])])
    found = make("Add", [found, one])
    # the logarithm rounds: it may be off by one next to a power of two
    part = scaled_by_power(graph, size, make("Neg", [found]))
    over = cast(graph, make("GreaterOrEqual", [part, one]), dtypes.float64)
    under = cast(graph, make("Less", [part, const_like(graph, 0.5, x)]), dtypes.float64)
    return make("Sub", [make("Add", [found, over]), under])


def scaled_by_power(graph: Graph, x: Result, power: Result) -> Result:
    """``x * 2 ** power`` in two steps, as 2 ** power alone may leave the range."""
    make, two = graph.make_node, const_like(graph, 2, x)
    half = make("Floor", [make("Div", [power, two])])
    rest = make("Sub", [power, half])
    once = make("Mul", [x, make("Pow", [two, half])])
    return make("Mul", [once, make("Pow", [two, rest])])


def neighbour(graph: Graph, x: Result, goal: Result) -> Result:
    """The number next to ``x`` in the direction of ``goal``, both of one float dtype.

    A step of 0.6 to 1.3 units in the last place is added and the sum rounds to the neighbour: in
    float64 for narrower dtypes; for float64 with tiny numbers scaled up, as the step would round.
    """
    make, dtype = graph.make_node, graph.get_type(x)
    digits, least = _PARTS[dtype]
    base, end = (cast(graph, each, dtypes.float64) for each in (x, goal))
    size = make("Abs", [base])
    step = make("Mul", [size, const_like(graph, 1.25 * 2.0**-digits, base)])
    up = make("Greater", [end, base])
    if dtype != dtypes.float64:
        step = make("Max", [step, const_like(graph, 0.75 * 2.0**least, base)])
        moved = cast(graph, make("Add", [base, _signed(graph, step, up)]), dtype)
    else:
        scaled = [make("Mul", [each, const_like(graph, 2.0**200, x)]) for each in (base, size)]
        small = make("Mul", [scaled[1], const_like(graph, 1.25 * 2.0**-digits, x)])
        near = make("Add", [scaled[0], _signed(graph, small, up)])
        near = make("Mul", [near, const_like(graph, 2.0**-200, x)])
        lowest = _signed(graph, const_like(graph, 2.0**least, x), up)
        flat = make("Less", [size, const_like(graph, 2.0**-1021, x)])
        near = make("Where", [flat, make("Add", [base, lowest]), near])
        moved = make("Add", [base, _signed(graph, step, up)])
        moved = make("Where", [make("Less", [size, const_like(graph, 2.0**-900, x)]), near, moved])
    top = make("Mul", [make("Sign", [x]), const_like(graph, largest_finite(dtype), x)])
    moved = make("Where", [make("IsInf", [base]), top, moved])
    moved = make("Where", [make("Equal", [base, end]), goal, moved])
    moved = make("Where", [make("IsNaN", [end]), goal, moved])
    return make("Where", [make("IsNaN", [base]), x, moved])


def _signed(graph: Graph, step: str, up: str) -> str:
    return graph.make_node("Where", [up, step, graph.make_node("Neg", [step])])


def window_values(name: Str, count: Int, periodic: Bool, first: Float, second: Float) -> Floats:
    """The numbers of torch's window functions; ``first`` and ``second`` are alpha and beta of
    ``hamming``, ``first`` is beta of ``kaiser``."""
    if count <= 1:
        return [1.0] * count
    places = np.arange(count) / (count if periodic else count - 1)
    turn = 2 * math.pi * places
    if name == "blackman":
        values = 0.42 - 0.5 * np.cos(turn) + 0.08 * np.cos(2 * turn)
    elif name == "bartlett":
        values = 1 - np.abs(2 * places - 1)
    elif name == "kaiser":
        values = np.i0(first * np.sqrt(np.maximum(1 - (2 * places - 1) ** 2, 0))) / np.i0(first)
    else:
        values = first - second * np.cos(turn)
    return [float(value) for value in values]


def logspace_values(start: Scalar, end: Scalar, steps: Int, base: Float, dtype: Dtype) -> Floats:
    """The numbers of ``torch.logspace``; for an int dtype its ends are truncated first and the step
    is a float32, as in torch."""
    with np.errstate(all="ignore"):
        if not dtypes.is_int_type(dtype):
            powers = np.array(linspace_values(start, end, steps, dtypes.float64), np.float64)
            return [float(value) for value in np.power(np.float64(base), powers)]
        if steps == 1:
            return [math.trunc(np.power(np.float64(int(base)), int(start)))]
        first, last = int(start), int(end)
        step = np.float32(last - first) / np.float32(max(steps - 1, 1))
        half = steps // 2
        ramp = [np.float32(first) + step * np.float32(i) for i in range(half)]
        ramp += [np.float32(last) - step * np.float32(steps - 1 - i) for i in range(half, steps)]
        return [math.trunc(np.power(np.float64(int(base)), np.float64(p))) for p in ramp]


def linspace_of(graph: Graph, start: Result, end: Result, steps: Int, dtype: Dtype) -> Result:
    """``torch.linspace`` between 0-d tensors: counted from both ends; ints step in float64."""
    make, wide = graph.make_node, dtype
    if not dtypes.is_float_type(dtype):
        wide = dtypes.float64
    elif dtype in (dtypes.float16, dtypes.bfloat16):
        wide = dtypes.float32
    first, last = (cast(graph, cast(graph, each, dtype), wide) for each in (start, end))
    width = make("Sub", [last, first])
    step = make("Div", [width, const_like(graph, max(steps - 1, 1), first)])
    places = np.arange(steps)
    half = steps // 2 if steps > 1 else 1
    ahead = consts(graph, np.where(places < half, places, 0), wide)
    back = consts(graph, np.where(places < half, 0, steps - 1 - places), wide)
    front = make("Add", [first, make("Mul", [step, ahead])])
    rear = make("Sub", [last, make("Mul", [step, back])])
    found = make("Where", [consts(graph, places < half, dtypes.boolean), front, rear])
    return cast(graph, found, dtype)
