"""Pointwise operations that several families share: constants, elementary functions, ranges.

Each function follows torch's CPU kernel, because ONNX has no operator for it, or an operator that
rounds or treats NaN differently. Operations of a single family are in `lowerings.pointwise`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ortable import dims, dtypes
from ortable.dims import SymDim
from ortable.errors import UnsupportedCase
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
    """Return a 0-d constant in the dtype of ``x``."""
    return const(graph, value, graph.get_type(x))


def filled_like(graph: Graph, x: Result, value: Scalar, dtype: Dtype) -> Result:
    """Return a tensor filled with one value, in the run-time shape of ``x``."""
    op = OpBuilder(graph)
    if graph.has_shape(x) and is_static(list(shape_of(graph, x))):
        return filled(graph, shape_of(graph, x), value, dtype)
    return op.Expand(const(graph, value, dtype), op.Shape(x))


@by_parts
def expanded_like(graph: Graph, x: Tensor, like: Result) -> Tensor:
    """Broadcast ``x`` to the shape of ``like``; no node if it has that shape."""
    op = OpBuilder(graph)
    shapes = [graph.get_shape(tensor) if graph.has_shape(tensor) else None for tensor in (x, like)]
    if shapes[0] is not None and shapes[0] == shapes[1]:
        return x
    is_static_shape = shapes[1] is not None and is_static(list(shapes[1]))
    sizes = as_vec(graph, list(shapes[1] or ())) if is_static_shape else op.Shape(like)
    result = op.Expand(x, sizes)
    if shapes[1] is not None and not graph.has_shape(result):  # equal sizes with different names
        graph.set_shape(result, shapes[1])
    return result


def is_sign_set(graph: Graph, x: Result) -> Result:
    """Return a bool tensor that is True where a float or int is negative or -0.0."""
    op, zero = OpBuilder(graph), const_like(graph, 0, x)
    is_negative = op.Less(x, zero)
    if not dtypes.is_float_type(graph.get_type(x)):
        return is_negative
    is_negative_zero = op.Less(op.Div(1, x), zero)
    return op.Or(is_negative, is_negative_zero)


def log1p_of(graph: Graph, x: Result) -> Result:
    """Return ``log(1 + x)`` without the rounding error of 1 + x.

    The formula is x * log(u) / (u - 1) with u = 1 + x (Higham).
    """
    op, result_dtype = OpBuilder(graph), graph.get_type(x)
    x = opmath(graph, x)
    dtype, one = graph.get_type(x), const_like(graph, 1, x)
    u = op.Add(x, one)
    # `tiny` is added to numerator and denominator, so that their quotient is 1 where u rounds to 1.
    # It is too small to change another quotient, and not 0 in float32: ONNX Runtime removes an Add
    # of a constant that is 0 in float32.
    tiny = const_like(graph, machine_epsilon(dtype) ** 2 / 64, x)
    denominator = op.Add(op.Sub(u, one), tiny)
    # a finite denominator: the result for infinity is infinity, not NaN
    largest = float(np.finfo(dtypes.to_numpy(dtype)).max)
    finite_denominator = op.Min(denominator, const_like(graph, largest, x))
    result = op.Mul(x, op.Div(op.Add(op.Log(u), tiny), finite_denominator))
    return cast(graph, result, result_dtype)


def larger_of(graph: Graph, a: Result, b: Result) -> Result:
    """Return the larger of two numbers of one dtype; NaN propagates.

    int64 uses Less and Where, because Max of ONNX Runtime before 1.32 compares vectors of int64 by
    their lower halves.
    """
    op = OpBuilder(graph)
    dtype = graph.get_type(a)
    if dtype == dtypes.int64:
        return op.Where(op.Less(a, b), b, a)
    if dtype == dtypes.boolean:
        return op.Or(a, b)
    return op.Max(a, b)


def smaller_of(graph: Graph, a: Result, b: Result) -> Result:
    """Return the smaller of two numbers of one dtype; NaN propagates. For int64 see `larger_of`."""
    op = OpBuilder(graph)
    dtype = graph.get_type(a)
    if dtype == dtypes.int64:
        return op.Where(op.Less(a, b), a, b)
    if dtype == dtypes.boolean:
        return op.And(a, b)
    return op.Min(a, b)


def relu_of(graph: Graph, x: Result) -> Result:
    """Return ``max(x, 0)``, for ints by `larger_of`, as ONNX Runtime lacks some Relu kernels."""
    if dtypes.is_float_type(graph.get_type(x)):
        return OpBuilder(graph).Relu(x)
    return larger_of(graph, x, const_like(graph, 0, x))


def polynomial(graph: Graph, x: Result, coefficients: Any) -> Result:
    """Evaluate a polynomial of ``x`` by Horner's scheme.

    ``coefficients`` start with the highest power; a string names a table of `rational_tables`.
    """
    op = OpBuilder(graph)
    if isinstance(coefficients, str):
        coefficients = TABLES[coefficients]
    result = const_like(graph, coefficients[0], x)
    for coefficient in coefficients[1:]:
        product = op.Mul(result, x)
        result = op.Add(product, const_like(graph, coefficient, x))
    return result


def atan_of(graph: Graph, x: Result) -> Result:
    """Return the arc tangent.

    ONNX Runtime has no kernel for float64, which uses the float32 result and one Newton step.
    """
    op = OpBuilder(graph)
    if graph.get_type(x) != dtypes.float64:
        return cast(graph, op.Atan(opmath(graph, x)), graph.get_type(x))
    estimate = cast(graph, op.Atan(cast(graph, x, dtypes.float32)), dtypes.float64)
    # tan(atan(x) - estimate), from the sine and cosine of the estimate; numerator and denominator
    # are divided by max(|x|, 1), so that they do not overflow
    sine, cosine = op.Sin(estimate), op.Cos(estimate)
    scale = op.Reciprocal(op.Max(op.Abs(x), 1))
    scaled_x = op.Max(
        op.Min(op.Mul(x, scale), 1),
        -1,
    )
    is_infinite = op.IsInf(x)
    scaled_x = op.Where(is_infinite, op.Sign(x), scaled_x)
    numerator = op.Sub(op.Mul(scaled_x, cosine), op.Mul(sine, scale))
    denominator = op.Add(op.Mul(cosine, scale), op.Mul(scaled_x, sine))
    return op.Add(estimate, op.Div(numerator, denominator))


def triangle_indices(
    graph: Graph, rows: Int, columns: Int, offset: Int, upper: Bool, dtype: Dtype
) -> Result:
    """Return the row and column indices of a triangle's elements, row by row, as int[2, n]."""
    make_indices: Any = np.triu_indices if upper else np.tril_indices
    return graph.make_initializer(
        "", np.stack(make_indices(rows, offset, columns)).astype(dtypes.to_numpy(dtype))
    )


def in_interval(graph: Graph, x: Result, low: Scalar, high: Scalar) -> Result:
    """Return a bool tensor that is True between two numbers, inclusive; False for NaN."""
    op = OpBuilder(graph)
    dtype = graph.get_type(x)
    above = op.GreaterOrEqual(x, const(graph, low, dtype))
    return op.And(above, op.LessOrEqual(x, const(graph, high, dtype)))


def int_range(graph: Graph, start: Scalar, count: Scalar, step: Scalar) -> Result:
    """Return int64[count] with ``start``, ``start + step``, and so on.

    Each argument may be symbolic; floats are truncated. If the start or the end of the Range may be
    negative, the result is a Range from 0, multiplied by ``step`` and shifted by ``start``: ONNX
    Runtime's GatherToSliceFusion replaces a Gather with a Range as index by a Slice, in which an
    end of -1 means the last element.
    """
    op = OpBuilder(graph)
    if not isinstance(start, int | SymDim):
        start = int(start)
    if not isinstance(step, int | SymDim):
        step = int(step)
    if step == 0:  # torch 2.14 and newer truncate a step below 1; Range rejects a step of 0
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
    """Return the angle of the point (x, y), with the signs of zeros and infinities as in C."""
    op, zero = OpBuilder(graph), const_like(graph, 0, x)
    abs_x, abs_y = op.Abs(x), op.Abs(y)
    larger, smaller = op.Max(abs_x, abs_y), op.Min(abs_x, abs_y)
    ratio = op.Where(op.Equal(larger, zero), zero, op.Div(smaller, larger))
    is_diagonal = op.And(op.Equal(larger, smaller), op.Greater(larger, zero))
    angle = atan_of(graph, op.Where(is_diagonal, 1, ratio))
    complement = op.Sub(math.pi / 2, angle)
    angle = op.Where(op.Greater(abs_y, abs_x), complement, angle)
    supplement = op.Sub(math.pi, angle)
    angle = op.Where(is_sign_set(graph, x), supplement, angle)
    # multiplied, since Where in ONNX Runtime loses the sign of 0
    sign = op.Where(is_sign_set(graph, y), const_like(graph, -1, x), const_like(graph, 1, x))
    return op.Mul(angle, sign)


def hypot_of(graph: Graph, x: Result, y: Result) -> Result:
    """Return ``sqrt(x * x + y * y)`` without overflow; infinite if an argument is infinite."""
    op, zero = OpBuilder(graph), const_like(graph, 0, x)
    abs_x, abs_y = op.Abs(x), op.Abs(y)
    larger, smaller = op.Max(abs_x, abs_y), op.Min(abs_x, abs_y)
    ratio = op.Div(smaller, larger)
    root = op.Sqrt(op.Add(op.Mul(ratio, ratio), 1))
    result = op.Where(op.Equal(larger, zero), zero, op.Mul(larger, root))
    is_infinite = op.Or(op.IsInf(x), op.IsInf(y))
    return op.Where(is_infinite, math.inf, result)


def int_pow(graph: Graph, x: Result, exponent: Result) -> Result:
    """Raise ``x`` to run-time integer powers by repeated squaring in a Loop, exact and wrapping.

    A negative power is 1 / x**n truncated, as in torch: 0 unless x is 1 or -1.
    """
    op, dtype = OpBuilder(graph), graph.get_type(x)
    zero, one, two = (const(graph, value, dtype) for value in (0, 1, 2))
    is_negative = op.Less(exponent, zero)
    is_odd = op.Equal(op.Mod(exponent, two), one)
    is_unit = op.Equal(op.Abs(x) if dtype != dtypes.uint8 else x, one)
    reciprocal = op.Where(is_unit, op.Where(is_odd, x, one), zero)
    result, base, remaining = (
        filled_like(graph, op.Add(x, exponent), 1, dtype),
        x,
        larger_of(graph, exponent, zero),
    )
    result = _power_loop(graph, result, base, remaining)
    return op.Where(is_negative, reciprocal, result)


def _power_loop(graph: Graph, product_so_far: str, base: str, remaining: str) -> str:
    """Loop over (product, base, exponent) until every exponent is 0; return the product."""
    dtype = graph.get_type(product_so_far)
    body = graph.subgraph("power")
    body.make_tensor_input(graph.unique_name("round"), dtypes.int64, ())
    body.make_tensor_input(graph.unique_name("going"), dtypes.boolean, ())
    names = [graph.unique_name(prefix) for prefix in ("found", "base", "left")]
    for name, initial in zip(names, (product_so_far, base, remaining), strict=True):
        body.make_tensor_input(name, dtype, graph.get_shape(initial))
    op, two = OpBuilder(body), const(graph, 2, dtype)
    is_odd = op.Equal(op.Mod(names[2], two), 1)
    product = op.Where(is_odd, op.Mul(names[0], names[1]), names[0])
    next_base, next_remaining = op.Mul(names[1], names[1]), op.Div(names[2], two)
    # ReduceSum, since ReduceMax fails for an empty tensor
    unfinished_count = op.ReduceSum(
        cast(body, op.Greater(next_remaining, 0), dtypes.int64),
        keepdims=0,
    )
    is_unfinished = op.Greater(unfinished_count, 0)
    for name in (is_unfinished, product, next_base, next_remaining):
        body.make_tensor_output(name)
    max_trips = const(graph, 8 * dtypes.itemsize(dtype), dtypes.int64)
    return OpBuilder(graph).Loop(
        max_trips, "", product_so_far, base, remaining, outputs=3, body=body
    )[0]


def arange_of(graph: Graph, count: SymInt, start: Scalar, step: Scalar, dtype: Dtype) -> Result:
    """Return ``count`` numbers from ``start``, floats computed in float64 as in torch."""
    op = OpBuilder(graph)
    is_int = all(isinstance(value, int | SymDim) for value in (start, step))
    if dtypes.is_int_type(dtype) or is_int:
        return cast(graph, int_range(graph, start, count, step), dtype)
    indices = cast(graph, int_range(graph, 0, count, 1), dtypes.float64)
    offsets = op.Mul(indices, const(graph, step, dtypes.float64))
    return cast(graph, op.Add(offsets, const(graph, start, dtypes.float64)), dtype)


def scaled(graph: Graph, x: Result, factor: Scalar, lazy: Bool = False) -> Result:
    """Multiply ``x`` by a number; no node for 1.

    With ``lazy``, the result is 0 if the number is known only at run time and is 0: torch does not
    read ``x`` then, so its NaN must not propagate.
    """
    op = OpBuilder(graph)
    is_known = not isinstance(factor, dims.SymDim)
    if is_known and factor == 1:
        return x
    dtype = graph.get_type(x)
    compute_dtype = opmath_beside(graph, factor, dtype)
    product = op.Mul(cast(graph, x, compute_dtype), const(graph, factor, compute_dtype))
    result = cast(graph, product, dtype)
    if is_known or not lazy:
        return result
    is_zero_factor = op.Equal(as_scalar(graph, factor), 0)
    return op.Where(is_zero_factor, 0, result)


def floor_quotient(graph: Graph, a: Result, b: Result, *, positive: Bool = False) -> Result:
    """Return ``a / b`` of one dtype, rounded down as in Python; exact for ints.

    The smallest int divided by -1 wraps. ``positive``: every element of ``b`` is at least 1.
    """
    op = OpBuilder(graph)
    dtype = graph.get_type(a)
    if dtypes.is_float_type(dtype):
        divide = _float_floor if dtype == dtypes.float64 else _widened_floor
        return cast(graph, divide(graph, a, b), dtype)
    safe_divisor, is_minus_one = (b, None) if positive else trap_free_divisor(graph, b)
    if dtype not in dtypes.SIGNED_INT_TYPES:
        return op.Div(a, safe_divisor)
    quotient = op.Div(a, safe_divisor)
    correction = cast(graph, _is_rounded_up(graph, a, safe_divisor, quotient, positive), dtype)
    return op.Sub(negated_at(graph, quotient, is_minus_one), correction)


def _is_rounded_up(graph: Graph, a: str, b: str, quotient: str, positive: bool) -> str:
    """Return a mask of where truncation exceeds the floor: remainder and divisor differ in sign."""
    op, zero = OpBuilder(graph), const_like(graph, 0, a)
    remainder = truncated_remainder(graph, a, b, quotient)
    if positive or _is_constant_where(graph, b, lambda values: values > 0):
        return op.Less(remainder, zero)
    has_other_sign = op.Less(op.BitwiseXor(remainder, b), zero)
    return op.And(has_other_sign, cast(graph, remainder, dtypes.boolean))


def trap_free_divisor(graph: Graph, b: Result) -> tuple[Result, Result | None]:
    """Return an int divisor with -1 replaced by 1, and the mask of -1; None if it cannot trap.

    x86 raises SIGFPE, which ends the process, if the smallest int32 or int64 is divided by -1, and
    ONNX Runtime does not check for that. C++ widens narrower ints first.

    Raises:
        UnsupportedCase: the divisor is 0 for every input: torch raises an error at the call.
    """
    op = OpBuilder(graph)
    dtype = graph.get_type(b)
    if graph.is_constant(b) and not graph.get_constant(b).all():
        raise UnsupportedCase("an integer division by 0, which torch refuses")
    cannot_trap = dtypes.itemsize(dtype) < 4 or dtype not in dtypes.SIGNED_INT_TYPES
    if cannot_trap or _is_constant_where(graph, b, lambda values: values != -1):
        return b, None
    is_minus_one = op.Equal(b, -1)
    return op.Where(is_minus_one, 1, b), is_minus_one


def negated_at(graph: Graph, quotient: Result, is_minus_one: Result | None) -> Result:
    """Negate a quotient by a `trap_free_divisor` where the mask is true; the smallest int wraps."""
    op = OpBuilder(graph)
    if is_minus_one is None:
        return quotient
    one, minus_one = const_like(graph, 1, quotient), const_like(graph, -1, quotient)
    return op.Mul(quotient, op.Where(is_minus_one, minus_one, one))


def truncated(graph: Graph, x: Result) -> Result:
    """Round ``x`` towards zero; ints are returned unchanged."""
    op = OpBuilder(graph)
    if not dtypes.is_float_type(graph.get_type(x)):
        return x
    # ONNX Runtime's Where preserves -0.0, which Ceil returns, only of its last input
    positive = op.Greater(x, 0)
    return op.Where(positive, op.Floor(x), op.Ceil(x))


def trunc_quotient(graph: Graph, a: Result, b: Result) -> Result:
    """Return ``a / b`` of one dtype, rounded towards zero; exact for ints."""
    op = OpBuilder(graph)
    dtype = graph.get_type(a)
    if dtypes.is_float_type(dtype):
        result = op.Div(opmath(graph, a), opmath(graph, b))
        return cast(graph, truncated(graph, result), dtype)
    safe_divisor, is_minus_one = trap_free_divisor(graph, b)
    return negated_at(graph, op.Div(a, safe_divisor), is_minus_one)


def _is_constant_where(graph: Graph, x: str, condition: Callable[[np.ndarray], np.ndarray]) -> bool:
    return graph.is_constant(x) and bool(condition(graph.get_constant(x)).all())


def truncated_remainder(graph: Graph, a: str, b: str, quotient: str) -> str:
    """Return the remainder of int division; ONNX Runtime's Mod with fmod=1 uses inexact doubles."""
    op = OpBuilder(graph)
    return op.Sub(a, op.Mul(quotient, b))


def _float_floor(graph: Graph, a: str, b: str) -> str:
    """Compute c10::div_floor_floating: CPython's algorithm, exact where floor(a / b) is not."""
    op, zero, one = OpBuilder(graph), const_like(graph, 0, a), const_like(graph, 1, a)
    true_quotient = op.Div(a, b)
    remainder = op.Mod(a, b, fmod=1)
    quotient = op.Div(op.Sub(a, remainder), b)
    quotient = op.Where(signs_differ(graph, remainder, b), op.Sub(quotient, one), quotient)
    floor = op.Floor(quotient)
    is_closer_to_next = op.Greater(op.Sub(quotient, floor), 0.5)
    floor = op.Where(is_closer_to_next, op.Add(floor, one), floor)
    # a zero has the sign of a / b, which ONNX Runtime's Where preserves only of its last input
    nonzero = op.Greater(op.Abs(quotient), zero)
    floor = op.Where(nonzero, floor, op.Mul(true_quotient, zero))
    return op.Where(op.Equal(b, zero), true_quotient, floor)


def _widened_floor(graph: Graph, a: str, b: str) -> str:
    """Compute floor division of floats narrower than float64 in float64.

    A quotient of two such floats that is not an integer does not round to an integer in float64, up
    to the magnitude from which the result's dtype cannot represent every integer.
    """
    op, compute_dtype = OpBuilder(graph), dtypes.float64
    # beyond the range of narrower floats, and finite: a negative number divided by it floors to -1
    bounds = [const(graph, bound, compute_dtype) for bound in (-1e50, 1e50)]
    bounded = op.Clip(cast(graph, b, compute_dtype), *bounds)
    floor = op.Floor(op.Div(cast(graph, a, compute_dtype), bounded))
    is_invalid = op.And(op.IsInf(opmath(graph, a)), cast(graph, b, dtypes.boolean))
    return op.Where(is_invalid, math.nan, floor)


def signs_differ(graph: Graph, remainder: str, divisor: str) -> str:
    """Return a mask of where a remainder is not zero and has not the sign of the divisor."""
    op, zero = OpBuilder(graph), const_like(graph, 0, remainder)
    signs = [op.Less(value, zero) for value in (remainder, divisor)]
    return op.And(op.Not(op.Equal(remainder, zero)), op("Xor", signs))
