"""The parts and neighbours of floating-point numbers: exponents, nextafter, the largest number.

In come a float result or dtype, out goes a number or the name of a result. Called by generated
converters of frexp, ldexp, nextafter and of predicates."""

from __future__ import annotations

import math

import numpy as np

from ortable import dtypes
from ortable.ir import Graph
from ortable.prelude.facts import Dtype, Float, Result
from ortable.prelude.pointwise import const_like
from ortable.prelude.values import cast

__all__ = [
    "exponent_of",
    "largest_finite",
    "neighbour",
    "scaled_by_power",
]


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
    result = make("Floor", [make("Div", [make("Log", [size]), const_like(graph, math.log(2), x)])])
    result = make("Add", [result, one])
    # the logarithm rounds: it may be off by one next to a power of two
    part = scaled_by_power(graph, size, make("Neg", [result]))
    over = cast(graph, make("GreaterOrEqual", [part, one]), dtypes.float64)
    under = cast(graph, make("Less", [part, const_like(graph, 0.5, x)]), dtypes.float64)
    return make("Sub", [make("Add", [result, over]), under])


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


def largest_finite(dtype: Dtype) -> Float:
    """The largest finite value of a float dtype."""
    if dtype == dtypes.bfloat16:
        return 3.3895313892515355e38
    return float(np.finfo(dtypes.to_numpy(dtype)).max)
