"""Lower-case words of the spec language for pointwise operators: quotients, elementary functions.

Each follows torch's CPU kernel where ONNX has no operator, or one that rounds or treats NaN
differently.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ortable import dtypes
from ortable.dims import SymDim
from ortable.errors import UnsupportedCase
from ortable.ir import Graph

from .facts import (
    Bool,
    Dtype,
    Float,
    Floats,
    Int,
    Ints,
    Result,
    Scalar,
    SymInt,
    is_static,
    shape_of,
)
from .sums import summed_over
from .values import as_vec, cast, const, consts, filled, squeezed

__all__ = [
    "arange_of",
    "atan2_of",
    "atan_of",
    "const_like",
    "erfc_of",
    "expanded_like",
    "expm1_of",
    "filled_like",
    "floor_quotient",
    "fmod_of",
    "hypot_of",
    "in_dtype",
    "int_pow",
    "int_power",
    "int_range",
    "is_sign_set",
    "largest_finite",
    "linspace_values",
    "log1p_of",
    "log_softmax_of",
    "log_sum_exp",
    "opmath",
    "polynomial",
    "remainder_of",
    "shifted_left",
    "shifted_right",
    "softplus_of",
    "triangle_indices",
    "trunc_quotient",
    "truncated",
]


def opmath(graph: Graph, x: Result) -> Result:
    """``x`` in the dtype in which torch computes: float32 for half floats, else its own."""
    half = graph.get_type(x) in (dtypes.float16, dtypes.bfloat16)
    return cast(graph, x, dtypes.float32) if half else x


def const_like(graph: Graph, value: Scalar, x: Result) -> Result:
    """A 0-d constant in the dtype of ``x``."""
    return const(graph, value, graph.get_type(x))


def in_dtype(graph: Graph, value: Any, dtype: Dtype) -> Result:
    """A tensor, number or symbolic int as a result of ``dtype``."""
    return cast(graph, value, dtype) if type(value) is str else const(graph, value, dtype)


def filled_like(graph: Graph, x: Result, value: Scalar, dtype: Dtype) -> Result:
    """One value everywhere, in the shape that ``x`` has at run time."""
    if graph.has_shape(x) and is_static(list(shape_of(graph, x))):
        return filled(graph, shape_of(graph, x), value, dtype)
    return graph.make_node("Expand", [const(graph, value, dtype), graph.make_node("Shape", [x])])


def expanded_like(graph: Graph, x: Result, like: Result) -> Result:
    """``x`` broadcast to the shape of ``like``; no node when it has that shape."""
    shapes = [graph.get_shape(each) if graph.has_shape(each) else None for each in (x, like)]
    if shapes[0] is not None and shapes[0] == shapes[1]:
        return x
    static = shapes[1] is not None and is_static(list(shapes[1]))
    sizes = as_vec(graph, list(shapes[1] or ())) if static else graph.make_node("Shape", [like])
    return graph.make_node("Expand", [x, sizes])


def truncated(graph: Graph, x: Result) -> Result:
    """``x`` rounded towards zero; ints as they are."""
    if not dtypes.is_float_type(graph.get_type(x)):
        return x
    negative = graph.make_node("Less", [x, const_like(graph, 0, x)])
    return graph.make_node(
        "Where", [negative, graph.make_node("Ceil", [x]), graph.make_node("Floor", [x])]
    )


def trunc_quotient(graph: Graph, a: Result, b: Result) -> Result:
    """``a / b`` rounded towards zero, both of one dtype; ints stay ints and exact."""
    dtype = graph.get_type(a)
    found = graph.make_node("Div", [opmath(graph, a), opmath(graph, b)])
    return cast(graph, truncated(graph, found), dtype)


def floor_quotient(graph: Graph, a: Result, b: Result) -> Result:
    """``a / b`` rounded down, both of one dtype, as Python does; ints stay exact."""
    dtype = graph.get_type(a)
    if dtypes.is_float_type(dtype):
        return cast(graph, _float_floor(graph, opmath(graph, a), opmath(graph, b)), dtype)
    quotient = graph.make_node("Div", [a, b])
    if dtype == dtypes.uint8:
        return quotient
    # ONNX Div truncates; the remainders of both roundings differ where that is not the floor
    rest = _trunc_rest(graph, a, b, quotient)
    same = graph.make_node("Equal", [graph.make_node("Mod", [a, b]), rest])
    over = cast(graph, graph.make_node("Not", [same]), dtype)
    return graph.make_node("Sub", [quotient, over])


def _trunc_rest(graph: Graph, a: str, b: str, quotient: str) -> str:
    """What truncating division of ints leaves; fmod=1 of ONNX Runtime's Mod goes through double."""
    return graph.make_node("Sub", [a, graph.make_node("Mul", [quotient, b])])


def fmod_of(graph: Graph, a: Result, b: Result) -> Result:
    """``a`` modulo ``b`` with the sign of ``a``, both of one dtype."""
    if dtypes.is_float_type(graph.get_type(a)):
        return graph.make_node("Mod", [a, b], fmod=1)
    return _trunc_rest(graph, a, b, graph.make_node("Div", [a, b]))


def _float_floor(graph: Graph, a: str, b: str) -> str:
    """c10::div_floor_floating: CPython's algorithm, exact where floor(a / b) is not."""
    make, zero, one = graph.make_node, const_like(graph, 0, a), const_like(graph, 1, a)
    plain = make("Div", [a, b])
    rest = make("Mod", [a, b], fmod=1)
    quotient = make("Div", [make("Sub", [a, rest]), b])
    quotient = make("Where", [_other_sign(graph, rest, b), make("Sub", [quotient, one]), quotient])
    floor = make("Floor", [quotient])
    low = make("Greater", [make("Sub", [quotient, floor]), const_like(graph, 0.5, a)])
    floor = make("Where", [low, make("Add", [floor, one]), floor])
    return make("Where", [make("Equal", [b, zero]), plain, floor])


def _other_sign(graph: Graph, rest: str, divisor: str) -> str:
    """Where a remainder is not zero and has not the sign of its divisor."""
    make, zero = graph.make_node, const_like(graph, 0, rest)
    signs = [make("Less", [each, zero]) for each in (rest, divisor)]
    return make("And", [make("Not", [make("Equal", [rest, zero])]), make("Xor", signs)])


def remainder_of(graph: Graph, a: Result, b: Result) -> Result:
    """``a`` modulo ``b`` with the sign of ``b``, both of one dtype."""
    dtype = graph.get_type(a)
    if not dtypes.is_float_type(dtype):
        return graph.make_node("Mod", [a, b])
    a, b = opmath(graph, a), opmath(graph, b)
    rest = graph.make_node("Mod", [a, b], fmod=1)
    moved = graph.make_node("Add", [rest, b])
    return cast(graph, graph.make_node("Where", [_other_sign(graph, rest, b), moved, rest]), dtype)


def int_power(graph: Graph, x: Result, times: Int) -> Result:
    """``x`` to a known power >= 0 by repeated squaring.

    Exact for ints, where ONNX Runtime's Pow goes through double.
    """
    if times == 0:
        return filled_like(graph, x, 1, graph.get_type(x))
    found: str | None = None
    while times:
        if times & 1:
            found = x if found is None else graph.make_node("Mul", [found, x])
        times >>= 1
        x = graph.make_node("Mul", [x, x]) if times else x
    assert found is not None
    return found


def is_sign_set(graph: Graph, x: Result) -> Result:
    """True where a float or int is negative or -0.0."""
    make, zero = graph.make_node, const_like(graph, 0, x)
    less = make("Less", [x, zero])
    if not dtypes.is_float_type(graph.get_type(x)):
        return less
    negative_zero = make("Less", [make("Div", [const_like(graph, 1, x), x]), zero])
    return make("Or", [less, negative_zero])


def expm1_of(graph: Graph, x: Result) -> Result:
    """``exp(x) - 1`` without cancellation near 0: 2t / (1 - t) with t = tanh(x / 2)."""
    make, one = graph.make_node, const_like(graph, 1, x)
    t = make("Tanh", [make("Mul", [x, const_like(graph, 0.5, x)])])
    near = make("Div", [make("Add", [t, t]), make("Sub", [one, t])])
    small = make("Less", [make("Abs", [x]), one])
    return make("Where", [small, near, make("Sub", [make("Exp", [x]), one])])


def log1p_of(graph: Graph, x: Result) -> Result:
    """``log(1 + x)`` without rounding 1 + x: log(u) * x / (u - 1), u = 1 + x (Higham)."""
    make, one = graph.make_node, const_like(graph, 1, x)
    u = make("Add", [x, one])
    log = make("Log", [u])
    near = make("Less", [make("Abs", [x]), one])
    factor = make("Div", [make("Mul", [log, x]), make("Sub", [u, one])])
    exact = make("Where", [make("Equal", [u, one]), x, factor])
    return make("Where", [near, exact, log])


def polynomial(graph: Graph, x: Result, coefficients: Floats) -> Result:
    """Horner's scheme; the coefficient of the highest power comes first."""
    found = const_like(graph, coefficients[0], x)
    for coefficient in coefficients[1:]:
        product = graph.make_node("Mul", [found, x])
        found = graph.make_node("Add", [product, const_like(graph, coefficient, x)])
    return found


def atan_of(graph: Graph, x: Result) -> Result:
    """The arc tangent; for float64, which has no kernel, that of float32 and one Newton step."""
    if graph.get_type(x) != dtypes.float64:
        return cast(graph, graph.make_node("Atan", [opmath(graph, x)]), graph.get_type(x))
    make = graph.make_node
    rough = cast(graph, make("Atan", [cast(graph, x, dtypes.float32)]), dtypes.float64)
    # tan(atan(x) - rough) from sine and cosine of rough, with x divided away where it is large
    sine, cosine = make("Sin", [rough]), make("Cos", [rough])
    scale = make("Reciprocal", [make("Max", [make("Abs", [x]), const_like(graph, 1, x)])])
    scaled = make(
        "Max",
        [make("Min", [make("Mul", [x, scale]), const_like(graph, 1, x)]), const_like(graph, -1, x)],
    )
    large = make("IsInf", [x])
    scaled = make("Where", [large, make("Sign", [x]), scaled])
    above = make("Sub", [make("Mul", [scaled, cosine]), make("Mul", [sine, scale])])
    below = make("Add", [make("Mul", [cosine, scale]), make("Mul", [scaled, sine])])
    return make("Add", [rough, make("Div", [above, below])])


def largest_finite(dtype: Dtype) -> Float:
    """The largest finite value of a float dtype."""
    if dtype == dtypes.bfloat16:
        return 3.3895313892515355e38
    return float(np.finfo(dtypes.to_numpy(dtype)).max)


def linspace_values(start: Scalar, end: Scalar, steps: Int, dtype: Dtype) -> Floats:
    """The numbers of ``torch.linspace``: counted from both ends, so that the last one is exact."""
    if isinstance(start, SymDim) or isinstance(end, SymDim):
        raise UnsupportedCase("linspace from or to a dynamic dimension")
    if dtypes.is_int_type(dtype):
        start, end = int(start), int(end)
    step = (end - start) / (steps - 1) if steps > 1 else 0.0
    found = [
        start + step * i if i < steps // 2 or steps == 1 else end - step * (steps - 1 - i)
        for i in range(steps)
    ]
    return [math.trunc(value) for value in found] if dtypes.is_int_type(dtype) else found


def triangle_indices(
    graph: Graph, rows: Int, columns: Int, offset: Int, upper: Bool, dtype: Dtype
) -> Result:
    """int[2, n]: rows and columns of the elements in the lower or upper triangle, row by row."""
    find: Any = np.triu_indices if upper else np.tril_indices
    return graph.make_initializer(
        "", np.stack(find(rows, offset, columns)).astype(dtypes.to_numpy(dtype))
    )


def int_range(graph: Graph, start: Scalar, count: Scalar, step: Scalar) -> Result:
    """int64[count]: ``start``, ``start + step``, ...; each may be symbolic, floats are cut off.

    A Range that may hold negative numbers, or end at one, is written as numbers from 0 that are
    multiplied and moved: where a Gather reads a Range, ONNX Runtime's GatherToSliceFusion makes a
    Slice of both, for which -1 is the last element.
    """
    if not isinstance(start, int | SymDim):
        start = int(start)
    if not isinstance(step, int | SymDim):
        step = int(step)
    end = start + count * step
    if start >= 0 and end >= 0:
        return graph.make_node("Range", [const(graph, x, dtypes.int64) for x in (start, end, step)])
    found = graph.make_node("Range", [const(graph, x, dtypes.int64) for x in (0, count, 1)])
    if step == -1:
        return graph.make_node("Sub", [const(graph, start, dtypes.int64), found])
    if step != 1:
        found = graph.make_node("Mul", [found, const(graph, step, dtypes.int64)])
    return graph.make_node("Add", [found, const(graph, start, dtypes.int64)])


def softplus_of(graph: Graph, x: Result) -> Result:
    """``log(1 + exp(x))``; written out for float64, for which ONNX Runtime has no kernel."""
    make = graph.make_node
    if graph.get_type(x) != dtypes.float64:
        return make("Softplus", [x])
    positive = make("Max", [x, const_like(graph, 0, x)])
    return make("Add", [positive, log1p_of(graph, make("Exp", [make("Neg", [make("Abs", [x])])]))])


def log_softmax_of(graph: Graph, x: Result, axis: Int) -> Result:
    """The logarithm of the softmax along an axis; written out for float64, whose kernel in ONNX
    Runtime loses NaN."""
    make = graph.make_node
    if graph.get_type(x) != dtypes.float64:
        return make("LogSoftmax", [x], axis=axis)
    over = consts(graph, [axis], dtypes.int64)
    away = make("Sub", [x, make("ReduceMax", [x, over], keepdims=1)])
    total = make("ReduceSum", [make("Exp", [away]), over], keepdims=1)
    return make("Sub", [away, make("Log", [total])])


def log_sum_exp(graph: Graph, x: Result, axes: Ints, keepdim: Bool) -> Result:
    """The logarithm of the sum of exponentials, as torch computes it: less the largest value,
    unless that is infinite. ONNX Runtime's ReduceLogSumExp shifts no row that has an infinity."""
    make, over = graph.make_node, consts(graph, axes, dtypes.int64)
    if not axes:
        return x
    most = make("ReduceMax", [x, over], keepdims=1)
    shift = make("Where", [make("IsInf", [most]), const_like(graph, 0, x), most])
    total = summed_over(graph, make("Exp", [make("Sub", [x, shift])]), axes, True)
    found = make("Add", [make("Log", [total]), shift])
    return found if keepdim else squeezed(graph, found, axes)


def atan2_of(graph: Graph, y: Result, x: Result) -> Result:
    """The angle of the point (x, y), signs of zeros and infinities as in C."""
    make, zero = graph.make_node, const_like(graph, 0, x)
    across, up = make("Abs", [x]), make("Abs", [y])
    long, short = make("Max", [across, up]), make("Min", [across, up])
    ratio = make("Where", [make("Equal", [long, zero]), zero, make("Div", [short, long])])
    both = make("And", [make("Equal", [long, short]), make("Greater", [long, zero])])
    angle = atan_of(graph, make("Where", [both, const_like(graph, 1, x), ratio]))
    steep = make("Sub", [const_like(graph, math.pi / 2, x), angle])
    angle = make("Where", [make("Greater", [up, across]), steep, angle])
    back = make("Sub", [const_like(graph, math.pi, x), angle])
    angle = make("Where", [is_sign_set(graph, x), back, angle])
    return make("Where", [is_sign_set(graph, y), make("Neg", [angle]), angle])


def hypot_of(graph: Graph, x: Result, y: Result) -> Result:
    """``sqrt(x * x + y * y)`` without overflow of the squares; infinite when one side is."""
    make, zero = graph.make_node, const_like(graph, 0, x)
    across, up = make("Abs", [x]), make("Abs", [y])
    long, short = make("Max", [across, up]), make("Min", [across, up])
    ratio = make("Div", [short, long])
    root = make("Sqrt", [make("Add", [make("Mul", [ratio, ratio]), const_like(graph, 1, x)])])
    found = make("Where", [make("Equal", [long, zero]), zero, make("Mul", [long, root])])
    endless = make("Or", [make("IsInf", [x]), make("IsInf", [y])])
    return make("Where", [endless, const_like(graph, math.inf, x), found])


def int_pow(graph: Graph, x: Result, times: Result) -> Result:
    """``x`` to integer powers known only at run time: repeated squaring in a Loop, exact, wrapping.

    A negative power is 1 / x truncated, as torch's: 0 unless x is 1 or -1.
    """
    make, dtype = graph.make_node, graph.get_type(x)
    zero, one, two = (const(graph, value, dtype) for value in (0, 1, 2))
    negative = make("Less", [times, zero])
    odd = make("Equal", [make("Mod", [times, two]), one])
    unit = make("Equal", [make("Abs", [x]) if dtype != dtypes.uint8 else x, one])
    flipped = make("Where", [unit, make("Where", [odd, x, one]), zero])
    found, base, left = (
        filled_like(graph, make("Add", [x, times]), 1, dtype),
        x,
        make("Max", [times, zero]),
    )
    found = _squaring_loop(graph, found, base, left)
    return make("Where", [negative, flipped, found])


def _squaring_loop(graph: Graph, found: str, base: str, left: str) -> str:
    """Loop(found, base, left) while some bit of an exponent is left."""
    dtype = graph.get_type(found)
    body = graph.subgraph("power")
    body.make_tensor_input(graph.unique_name("round"), dtypes.int64, ())
    body.make_tensor_input(graph.unique_name("going"), dtypes.boolean, ())
    names = [graph.unique_name(text) for text in ("found", "base", "left")]
    for name, like in zip(names, (found, base, left), strict=True):
        body.make_tensor_input(name, dtype, graph.get_shape(like))
    make, two = body.make_node, const(graph, 2, dtype)
    odd = make("Equal", [make("Mod", [names[2], two]), const(graph, 1, dtype)])
    product = make("Where", [odd, make("Mul", [names[0], names[1]]), names[0]])
    square, half = make("Mul", [names[1], names[1]]), make("Div", [names[2], two])
    # a sum, unlike a maximum, exists for an empty tensor
    count = make(
        "ReduceSum",
        [cast(body, make("Greater", [half, const(graph, 0, dtype)]), dtypes.int64)],
        keepdims=0,
    )
    more = make("Greater", [count, const(graph, 0, dtypes.int64)])
    for name in (more, product, square, half):
        body.make_tensor_output(name)
    start = const(graph, 8 * dtypes.itemsize(dtype), dtypes.int64)
    return graph.make_node("Loop", [start, "", found, base, left], 3, body=body)[0]


def erfc_of(graph: Graph, x: Result) -> Result:
    """``1 - erf(x)`` for float32, with a relative error of 1e-7 where erf(x) is near 1.

    Source: the Chebyshev fit of Numerical Recipes in C, 6.2 (erfcc), used for x > 0.5.
    """
    make, one = graph.make_node, const_like(graph, 1, x)
    half = const_like(graph, 0.5, x)
    t = make("Div", [one, make("Add", [make("Mul", [make("Abs", [x]), half]), one])])
    fit = (
        0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807, -0.18628806,
        0.09678418, 0.37409196, 1.00002368, -1.26551223,
    )  # fmt: skip
    exponent = make("Sub", [polynomial(graph, t, fit), make("Mul", [x, x])])
    tail = make("Mul", [t, make("Exp", [exponent])])
    return make("Where", [make("Greater", [x, half]), tail, make("Sub", [one, make("Erf", [x])])])


def shifted_left(graph: Graph, x: Result, places: Result) -> Result:
    """``x << places`` of ints: a wrapping product; 0 for places outside of the dtype, as in torch.

    ONNX's BitShift takes unsigned ints only.
    """
    bits = 8 * dtypes.itemsize(graph.get_type(x))
    powers = np.array([1 << place for place in range(bits)] + [0], np.uint64)
    return graph.make_node(
        "Mul", [x, _power_of_two(graph, places, powers, bits, graph.get_type(x))]
    )


def shifted_right(graph: Graph, x: Result, places: Result) -> Result:
    """``x >> places`` of ints: the floor of a quotient; outside of the dtype the sign."""
    dtype = graph.get_type(x)
    signed = 0 if dtype == dtypes.uint8 else 1
    top = 8 * dtypes.itemsize(dtype) - 1 - signed
    powers = np.array([1 << place for place in range(top + 1)] + [1], np.uint64)
    found = floor_quotient(graph, x, _power_of_two(graph, places, powers, top + 1, dtype))
    zero, make = const(graph, 0, dtype), graph.make_node
    sign = (
        make("Where", [make("Less", [x, zero]), const(graph, -1, dtype), zero]) if signed else zero
    )
    inside = make("LessOrEqual", [places, const(graph, top, dtype)])
    if signed:
        inside = make("And", [inside, make("GreaterOrEqual", [places, zero])])
    return make("Where", [inside, found, sign])


def _power_of_two(graph: Graph, places: str, powers: Any, outside: int, dtype: int) -> str:
    """Powers of two from a table; places that are negative or too large find its last entry."""
    table = graph.make_initializer("", powers.astype(dtypes.to_numpy(dtype)))
    places = cast(graph, places, dtypes.int64)
    limit, zero = const(graph, outside, dtypes.int64), const(graph, 0, dtypes.int64)
    bounded = graph.make_node("Min", [places, limit])
    index = graph.make_node("Where", [graph.make_node("Less", [places, zero]), limit, bounded])
    return graph.make_node("Gather", [table, index], axis=0)


def arange_of(graph: Graph, count: SymInt, start: Scalar, step: Scalar, dtype: Dtype) -> Result:
    """``count`` numbers from ``start``; ints are exact, floats computed in double as torch does."""
    whole = all(isinstance(value, int | SymDim) for value in (start, step))
    if dtypes.is_int_type(dtype) or whole:
        return cast(graph, int_range(graph, start, count, step), dtype)
    places = cast(graph, int_range(graph, 0, count, 1), dtypes.float64)
    steps = graph.make_node("Mul", [places, const(graph, step, dtypes.float64)])
    return cast(graph, graph.make_node("Add", [steps, const(graph, start, dtypes.float64)]), dtype)
