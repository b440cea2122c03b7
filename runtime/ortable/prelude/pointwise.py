"""Pointwise operations that many families share: constants like a result, elementary functions,
ranges.

Each follows torch's CPU kernel where ONNX has no operator, or one that rounds or treats NaN
differently. Those of a single family are in `lowerings.pointwise`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ortable import dims, dtypes
from ortable.dims import SymDim
from ortable.ir import Graph

from .complex_value import by_parts
from .facts import Bool, Dtype, Int, Result, Scalar, SymInt, Tensor, is_static, shape_of
from .op_builder import OpBuilder
from .promotion import machine_epsilon, opmath, opmath_beside
from .rational_tables import TABLES
from .values import as_scalar, as_vec, cast, const, filled

__all__ = [
    "arange_of",
    "atan2_of",
    "atan_of",
    "const_like",
    "expanded_like",
    "filled_like",
    "floor_quotient",
    "hypot_of",
    "in_interval",
    "int_pow",
    "int_range",
    "is_sign_set",
    "larger_of",
    "log1p_of",
    "polynomial",
    "relu_of",
    "scaled",
    "smaller_of",
    "triangle_indices",
    "trunc_quotient",
    "truncated",
]


def const_like(graph: Graph, value: Scalar, x: Result) -> Result:
    """A 0-d constant in the dtype of ``x``."""
    return const(graph, value, graph.get_type(x))


def filled_like(graph: Graph, x: Result, value: Scalar, dtype: Dtype) -> Result:
    """One value everywhere, in the shape that ``x`` has at run time."""
    op = OpBuilder(graph)
    if graph.has_shape(x) and is_static(list(shape_of(graph, x))):
        return filled(graph, shape_of(graph, x), value, dtype)
    return op.Expand(const(graph, value, dtype), op.Shape(x))


@by_parts
def expanded_like(graph: Graph, x: Tensor, like: Result) -> Tensor:
    """``x`` broadcast to the shape of ``like``; no node when it has that shape."""
    op = OpBuilder(graph)
    shapes = [graph.get_shape(tensor) if graph.has_shape(tensor) else None for tensor in (x, like)]
    if shapes[0] is not None and shapes[0] == shapes[1]:
        return x
    static = shapes[1] is not None and is_static(list(shapes[1]))
    sizes = as_vec(graph, list(shapes[1] or ())) if static else op.Shape(like)
    result = op.Expand(x, sizes)
    if shapes[1] is not None and not graph.has_shape(result):  # sizes of two names
        graph.set_shape(result, shapes[1])
    return result


def is_sign_set(graph: Graph, x: Result) -> Result:
    """True where a float or int is negative or -0.0."""
    op, zero = OpBuilder(graph), const_like(graph, 0, x)
    less = op.Less(x, zero)
    if not dtypes.is_float_type(graph.get_type(x)):
        return less
    negative_zero = op.Less(op.Div(1, x), zero)
    return op.Or(less, negative_zero)


def log1p_of(graph: Graph, x: Result) -> Result:
    """``log(1 + x)`` without rounding 1 + x: x * log(u) / (u - 1), u = 1 + x (Higham)."""
    op, own = OpBuilder(graph), graph.get_type(x)
    x = opmath(graph, x)
    dtype, one = graph.get_type(x), const_like(graph, 1, x)
    u = op.Add(x, one)
    # where u is 1, the quotient is that of these, which are too small to change another one; what
    # is 0 in float32, ONNX Runtime does not add
    tiny = const_like(graph, machine_epsilon(dtype) ** 2 / 64, x)
    above = op.Add(op.Sub(u, one), tiny)
    # an infinity is divided by a number
    largest = float(np.finfo(dtypes.to_numpy(dtype)).max)
    below = op.Min(above, const_like(graph, largest, x))
    result = op.Mul(x, op.Div(op.Add(op.Log(u), tiny), below))
    return cast(graph, result, own)


def larger_of(graph: Graph, a: Result, b: Result) -> Result:
    """The larger of two numbers of one dtype, NaN kept.

    ONNX Runtime before 1.32 compares vectors of int64 by their lower halves: those are chosen."""
    op = OpBuilder(graph)
    dtype = graph.get_type(a)
    if dtype == dtypes.int64:
        return op.Where(op.Less(a, b), b, a)
    if dtype == dtypes.boolean:
        return op.Or(a, b)
    return op.Max(a, b)


def smaller_of(graph: Graph, a: Result, b: Result) -> Result:
    """The smaller of two numbers of one dtype, NaN kept; int64 is chosen as in `larger_of`."""
    op = OpBuilder(graph)
    dtype = graph.get_type(a)
    if dtype == dtypes.int64:
        return op.Where(op.Less(a, b), a, b)
    if dtype == dtypes.boolean:
        return op.And(a, b)
    return op.Min(a, b)


def relu_of(graph: Graph, x: Result) -> Result:
    """``x`` where it is above 0, else 0; ONNX Runtime has no Relu kernel for every int."""
    if dtypes.is_float_type(graph.get_type(x)):
        return OpBuilder(graph).Relu(x)
    return larger_of(graph, x, const_like(graph, 0, x))


def polynomial(graph: Graph, x: Result, coefficients: Any) -> Result:
    """Horner's scheme; the coefficients, or the name of their table, begin with the highest
    power."""
    op = OpBuilder(graph)
    if isinstance(coefficients, str):
        coefficients = TABLES[coefficients]
    result = const_like(graph, coefficients[0], x)
    for coefficient in coefficients[1:]:
        product = op.Mul(result, x)
        result = op.Add(product, const_like(graph, coefficient, x))
    return result


def atan_of(graph: Graph, x: Result) -> Result:
    """The arc tangent; for float64, which has no kernel, that of float32 and one Newton step."""
    op = OpBuilder(graph)
    if graph.get_type(x) != dtypes.float64:
        return cast(graph, op.Atan(opmath(graph, x)), graph.get_type(x))
    rough = cast(graph, op.Atan(cast(graph, x, dtypes.float32)), dtypes.float64)
    # tan(atan(x) - rough) from sine and cosine of rough, with x divided away where it is large
    sine, cosine = op.Sin(rough), op.Cos(rough)
    scale = op.Reciprocal(op.Max(op.Abs(x), 1))
    scaled = op.Max(
        op.Min(op.Mul(x, scale), 1),
        -1,
    )
    large = op.IsInf(x)
    scaled = op.Where(large, op.Sign(x), scaled)
    above = op.Sub(op.Mul(scaled, cosine), op.Mul(sine, scale))
    below = op.Add(op.Mul(cosine, scale), op.Mul(scaled, sine))
    return op.Add(rough, op.Div(above, below))


def triangle_indices(
    graph: Graph, rows: Int, columns: Int, offset: Int, upper: Bool, dtype: Dtype
) -> Result:
    """int[2, n]: rows and columns of the elements in the lower or upper triangle, row by row."""
    find: Any = np.triu_indices if upper else np.tril_indices
    return graph.make_initializer(
        "", np.stack(find(rows, offset, columns)).astype(dtypes.to_numpy(dtype))
    )


def in_interval(graph: Graph, x: Result, low: Scalar, high: Scalar) -> Result:
    """Whether elements are between two numbers, inclusive; False for NaN."""
    op = OpBuilder(graph)
    dtype = graph.get_type(x)
    above = op.GreaterOrEqual(x, const(graph, low, dtype))
    return op.And(above, op.LessOrEqual(x, const(graph, high, dtype)))


def int_range(graph: Graph, start: Scalar, count: Scalar, step: Scalar) -> Result:
    """int64[count]: ``start``, ``start + step``, ...; each may be symbolic, floats are cut off.

    A Range that may hold negative numbers, or end at one, is written as numbers from 0 that are
    multiplied and moved: where a Gather reads a Range, ONNX Runtime's GatherToSliceFusion makes a
    Slice of both, for which -1 is the last element.
    """
    op = OpBuilder(graph)
    if not isinstance(start, int | SymDim):
        start = int(start)
    if not isinstance(step, int | SymDim):
        step = int(step)
    if step == 0:  # a step below 1 that torch 2.14 and newer cut off; Range takes none of 0
        return filled(graph, [count], start, dtypes.int64)
    end = start + count * step
    if start >= 0 and end >= 0:
        return graph.make_node("Range", [const(graph, x, dtypes.int64) for x in (start, end, step)])
    result = graph.make_node("Range", [const(graph, x, dtypes.int64) for x in (0, count, 1)])
    if step == -1:
        return op.Sub(const(graph, start, dtypes.int64), result)
    if step != 1:
        result = op.Mul(result, const(graph, step, dtypes.int64))
    return op.Add(result, const(graph, start, dtypes.int64))


def atan2_of(graph: Graph, y: Result, x: Result) -> Result:
    """The angle of the point (x, y), signs of zeros and infinities as in C."""
    op, zero = OpBuilder(graph), const_like(graph, 0, x)
    across, up = op.Abs(x), op.Abs(y)
    long, short = op.Max(across, up), op.Min(across, up)
    ratio = op.Where(op.Equal(long, zero), zero, op.Div(short, long))
    both = op.And(op.Equal(long, short), op.Greater(long, zero))
    angle = atan_of(graph, op.Where(both, 1, ratio))
    steep = op.Sub(math.pi / 2, angle)
    angle = op.Where(op.Greater(up, across), steep, angle)
    back = op.Sub(math.pi, angle)
    angle = op.Where(is_sign_set(graph, x), back, angle)
    # a product, since ONNX Runtime's Where loses the sign of 0
    sign = op.Where(is_sign_set(graph, y), const_like(graph, -1, x), const_like(graph, 1, x))
    return op.Mul(angle, sign)


def hypot_of(graph: Graph, x: Result, y: Result) -> Result:
    """``sqrt(x * x + y * y)`` without overflow of the squares; infinite when one side is."""
    op, zero = OpBuilder(graph), const_like(graph, 0, x)
    across, up = op.Abs(x), op.Abs(y)
    long, short = op.Max(across, up), op.Min(across, up)
    ratio = op.Div(short, long)
    root = op.Sqrt(op.Add(op.Mul(ratio, ratio), 1))
    result = op.Where(op.Equal(long, zero), zero, op.Mul(long, root))
    endless = op.Or(op.IsInf(x), op.IsInf(y))
    return op.Where(endless, math.inf, result)


def int_pow(graph: Graph, x: Result, times: Result) -> Result:
    """``x`` to integer powers known only at run time: repeated squaring in a Loop, exact, wrapping.

    A negative power is 1 / x truncated, as torch's: 0 unless x is 1 or -1.
    """
    op, dtype = OpBuilder(graph), graph.get_type(x)
    zero, one, two = (const(graph, value, dtype) for value in (0, 1, 2))
    negative = op.Less(times, zero)
    odd = op.Equal(op.Mod(times, two), one)
    unit = op.Equal(op.Abs(x) if dtype != dtypes.uint8 else x, one)
    flipped = op.Where(unit, op.Where(odd, x, one), zero)
    result, base, left = (
        filled_like(graph, op.Add(x, times), 1, dtype),
        x,
        larger_of(graph, times, zero),
    )
    result = _power_loop(graph, result, base, left)
    return op.Where(negative, flipped, result)


def _power_loop(graph: Graph, product_so_far: str, base: str, left: str) -> str:
    """Loop over (result, base, exponent) while some bit of an exponent is left."""
    dtype = graph.get_type(product_so_far)
    body = graph.subgraph("power")
    body.make_tensor_input(graph.unique_name("round"), dtypes.int64, ())
    body.make_tensor_input(graph.unique_name("going"), dtypes.boolean, ())
    names = [graph.unique_name(text) for text in ("found", "base", "left")]
    for name, like in zip(names, (product_so_far, base, left), strict=True):
        body.make_tensor_input(name, dtype, graph.get_shape(like))
    op, two = OpBuilder(body), const(graph, 2, dtype)
    odd = op.Equal(op.Mod(names[2], two), 1)
    product = op.Where(odd, op.Mul(names[0], names[1]), names[0])
    square, half = op.Mul(names[1], names[1]), op.Div(names[2], two)
    # a sum, unlike a maximum, exists for an empty tensor
    count = op.ReduceSum(
        cast(body, op.Greater(half, 0), dtypes.int64),
        keepdims=0,
    )
    more = op.Greater(count, 0)
    for name in (more, product, square, half):
        body.make_tensor_output(name)
    start = const(graph, 8 * dtypes.itemsize(dtype), dtypes.int64)
    return OpBuilder(graph).Loop(start, "", product_so_far, base, left, outputs=3, body=body)[0]


def arange_of(graph: Graph, count: SymInt, start: Scalar, step: Scalar, dtype: Dtype) -> Result:
    """``count`` numbers from ``start``; ints are exact, floats computed in double as torch does."""
    op = OpBuilder(graph)
    is_int = all(isinstance(value, int | SymDim) for value in (start, step))
    if dtypes.is_int_type(dtype) or is_int:
        return cast(graph, int_range(graph, start, count, step), dtype)
    counts = cast(graph, int_range(graph, 0, count, 1), dtypes.float64)
    steps = op.Mul(counts, const(graph, step, dtypes.float64))
    return cast(graph, op.Add(steps, const(graph, start, dtypes.float64)), dtype)


def scaled(graph: Graph, x: Result, factor: Scalar, lazy: Bool = False) -> Result:
    """Multiply ``x`` by a number; no node for 1. ``lazy``: 0 where a number known only at run time
    is 0, since torch does not read ``x`` then, and its NaN must not propagate.
    """
    op = OpBuilder(graph)
    is_known = not isinstance(factor, dims.SymDim)
    if is_known and factor == 1:
        return x
    dtype = graph.get_type(x)
    wide = opmath_beside(graph, factor, dtype)
    product = op.Mul(cast(graph, x, wide), const(graph, factor, wide))
    result = cast(graph, product, dtype)
    if is_known or not lazy:
        return result
    nothing = op.Equal(as_scalar(graph, factor), 0)
    return op.Where(nothing, 0, result)


def floor_quotient(graph: Graph, a: Result, b: Result, *, positive: Bool = False) -> Result:
    """``a / b`` rounded down, both of one dtype, as Python does; ints stay exact, and the smallest
    one by -1 wraps. ``positive``: no element of ``b`` is below 1."""
    op = OpBuilder(graph)
    dtype = graph.get_type(a)
    if dtypes.is_float_type(dtype):
        floor = _float_floor if dtype == dtypes.float64 else _widened_floor
        return cast(graph, floor(graph, a, b), dtype)
    if dtype not in dtypes.SIGNED_INT_TYPES:
        return op.Div(a, b)
    safe, traps = (b, None) if positive else trap_free_divisor(graph, b)
    quotient = op.Div(a, safe)
    over = cast(graph, _is_rounded_up(graph, a, safe, quotient, positive), dtype)
    return op.Sub(negated_at(graph, quotient, traps), over)


def _is_rounded_up(graph: Graph, a: str, b: str, quotient: str, positive: bool) -> str:
    """Where truncating division is above the floor: its remainder has the other sign."""
    op, zero = OpBuilder(graph), const_like(graph, 0, a)
    rest = truncated_remainder(graph, a, b, quotient)
    if positive or _is_constant_where(graph, b, lambda values: values > 0):
        return op.Less(rest, zero)
    differ = op.Less(op.BitwiseXor(rest, b), zero)
    return op.And(differ, cast(graph, rest, dtypes.boolean))


def trap_free_divisor(graph: Graph, b: Result) -> tuple[Result, Result | None]:
    """An int divisor with 1 in place of -1, and a mask of these; None where no element is -1.

    x86 stops the process at the smallest int32 or int64 by -1, and ONNX Runtime does not check. C++
    widens narrower ints first.
    """
    op = OpBuilder(graph)
    dtype = graph.get_type(b)
    safe_kernel = dtypes.itemsize(dtype) < 4 or dtype not in dtypes.SIGNED_INT_TYPES
    if safe_kernel or _is_constant_where(graph, b, lambda values: values != -1):
        return b, None
    traps = op.Equal(b, -1)
    return op.Where(traps, 1, b), traps


def negated_at(graph: Graph, quotient: Result, traps: Result | None) -> Result:
    """A quotient by `trap_free_divisor` as the divisor itself gives it; the smallest int wraps."""
    op = OpBuilder(graph)
    if traps is None:
        return quotient
    one, minus = const_like(graph, 1, quotient), const_like(graph, -1, quotient)
    return op.Mul(quotient, op.Where(traps, minus, one))


def truncated(graph: Graph, x: Result) -> Result:
    """``x`` rounded towards zero; ints as they are."""
    op = OpBuilder(graph)
    if not dtypes.is_float_type(graph.get_type(x)):
        return x
    # ONNX Runtime's Where gives 0.0 for a -0.0 that it takes from its first choice
    positive = op.Greater(x, 0)
    return op.Where(positive, op.Floor(x), op.Ceil(x))


def trunc_quotient(graph: Graph, a: Result, b: Result) -> Result:
    """``a / b`` rounded towards zero, both of one dtype; ints stay ints and exact."""
    op = OpBuilder(graph)
    dtype = graph.get_type(a)
    if dtypes.is_float_type(dtype):
        result = op.Div(opmath(graph, a), opmath(graph, b))
        return cast(graph, truncated(graph, result), dtype)
    safe, traps = trap_free_divisor(graph, b)
    return negated_at(graph, op.Div(a, safe), traps)


def _is_constant_where(graph: Graph, x: str, condition: Callable[[np.ndarray], np.ndarray]) -> bool:
    """Whether ``x`` is a constant whose elements all fulfil a condition."""
    return graph.is_constant(x) and bool(condition(graph.get_constant(x)).all())


def truncated_remainder(graph: Graph, a: str, b: str, quotient: str) -> str:
    """The remainder of truncating int division; fmod=1 of ONNX Runtime's Mod goes through
    double.
    """
    op = OpBuilder(graph)
    return op.Sub(a, op.Mul(quotient, b))


def _float_floor(graph: Graph, a: str, b: str) -> str:
    """c10::div_floor_floating: CPython's algorithm, exact where floor(a / b) is not."""
    op, zero, one = OpBuilder(graph), const_like(graph, 0, a), const_like(graph, 1, a)
    plain = op.Div(a, b)
    rest = op.Mod(a, b, fmod=1)
    quotient = op.Div(op.Sub(a, rest), b)
    quotient = op.Where(signs_differ(graph, rest, b), op.Sub(quotient, one), quotient)
    floor = op.Floor(quotient)
    low = op.Greater(op.Sub(quotient, floor), 0.5)
    floor = op.Where(low, op.Add(floor, one), floor)
    # zeros have the sign of the quotient; ONNX Runtime's Where keeps that of its second choice
    nonzero = op.Greater(op.Abs(quotient), zero)
    floor = op.Where(nonzero, floor, op.Mul(plain, zero))
    return op.Where(op.Equal(b, zero), plain, floor)


def _widened_floor(graph: Graph, a: str, b: str) -> str:
    """The same for narrower floats: of these, a quotient in float64 that is not an integer does not
    round to one, as far as the result holds integers."""
    op, wide = OpBuilder(graph), dtypes.float64
    # more than any of them instead of infinity: a negative quotient by it is rounded down to -1
    ends = [const(graph, end, wide) for end in (-1e50, 1e50)]
    bounded = op.Clip(cast(graph, b, wide), *ends)
    floor = op.Floor(op.Div(cast(graph, a, wide), bounded))
    lost = op.And(op.IsInf(opmath(graph, a)), cast(graph, b, dtypes.boolean))
    return op.Where(lost, math.nan, floor)


def signs_differ(graph: Graph, rest: str, divisor: str) -> str:
    """Where a remainder is not zero and has not the sign of its divisor."""
    op, zero = OpBuilder(graph), const_like(graph, 0, rest)
    signs = [op.Less(value, zero) for value in (rest, divisor)]
    return op.And(op.Not(op.Equal(rest, zero)), op("Xor", signs))
