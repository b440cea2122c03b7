"""Compute with complex tensors, which are pairs of real results during conversion.

``Complex`` is the class of a tensor argument in a block of ``complex:``: a pair, or a real result
where torch accepts both. Functions of a single operator family are in `lowerings.complex`.
"""

from __future__ import annotations

from typing import Any

from ortable import dtypes
from ortable.dims import SymDim
from ortable.ir import Graph

from .complex_value import ComplexValue, complex_type, part_type
from .facts import Bool, Dtype, Result, Scalar, Tensor
from .matrices import matrix_transpose
from .op_builder import OpBuilder
from .pointwise import atan2_of, const_like, filled_like, hypot_of
from .values import as_scalar, as_tensor, cast, const

__all__ = [
    "as_complex",
    "c_abs",
    "c_add",
    "c_cast",
    "c_conj",
    "c_div",
    "c_exp",
    "c_log",
    "c_mul",
    "c_power",
    "c_scaled",
    "c_truth",
    "c_where",
    "complex_of",
    "im",
    "matrix_adjoint",
    "part_dtype",
    "re",
]

Complex = Any  # a ComplexValue, or the name of a real result
Complexes = Any  # a list of Complex values


def re(graph: Graph, x: Complex) -> Result:
    """Return the real part of a tensor; a real result is returned unchanged."""
    return x.real if type(x) is ComplexValue else x


def im(graph: Graph, x: Complex) -> Result:
    """Return the imaginary part of a tensor; zeros for a real result."""
    return x.imag if type(x) is ComplexValue else filled_like(graph, x, 0, graph.get_type(x))


def complex_of(graph: Graph, a: Result, b: Result) -> Complex:
    """Return the complex tensor with these parts, which are broadcast to one shape."""
    op = OpBuilder(graph)
    if graph.has_shape(a) and graph.has_shape(b) and graph.get_shape(a) != graph.get_shape(b):
        shape = op.Shape(op.Add(a, b))
        a, b = (op.Expand(part, shape) for part in (a, b))
    return ComplexValue(a, b, complex_type(graph.get_type(a)))


def part_dtype(dtype: Dtype) -> Dtype:
    """Return the dtype of the parts of a complex dtype; real dtypes are returned unchanged."""
    return part_type(dtype)


def as_complex(graph: Graph, x: Any, dtype: Dtype) -> Complex:
    """Convert a tensor or number to complex ``dtype``, with imaginary part 0 for a real value."""
    real_dtype = part_type(dtype)
    if type(x) is ComplexValue:
        return ComplexValue(cast(graph, x.real, real_dtype), cast(graph, x.imag, real_dtype), dtype)
    if type(x) is str:
        return ComplexValue(cast(graph, x, real_dtype), filled_like(graph, x, 0, real_dtype), dtype)
    number = complex(x) if not isinstance(x, SymDim) else x
    parts = (number.real, number.imag) if isinstance(number, complex) else (number, 0)
    return ComplexValue(
        const(graph, parts[0], real_dtype), const(graph, parts[1], real_dtype), dtype
    )


def c_conj(graph: Graph, x: Complex) -> Complex:
    """Return the complex conjugate; a real result is returned unchanged."""
    if type(x) is complex:  # a Python number, which autograd converts to a tensor
        return as_complex(graph, x.conjugate(), dtypes.complex128)
    if type(x) is not ComplexValue:
        return x
    return ComplexValue(x.real, OpBuilder(graph).Neg(x.imag), x.dtype)


def c_add(graph: Graph, a: Complex, b: Complex, sign: Scalar = 1) -> Complex:
    """Return ``a + b``, or ``a - b`` for a sign of -1."""
    op = "Add" if sign == 1 else "Sub"
    return ComplexValue(
        graph.make_node(op, [a.real, b.real]), graph.make_node(op, [a.imag, b.imag]), a.dtype
    )


def c_mul(graph: Graph, a: Complex, b: Complex) -> Complex:
    """Return the elementwise product of two complex tensors."""
    op = OpBuilder(graph)
    real = op.Sub(op.Mul(a.real, b.real), op.Mul(a.imag, b.imag))
    imag = op.Add(op.Mul(a.real, b.imag), op.Mul(a.imag, b.real))
    return ComplexValue(real, imag, a.dtype)


def c_scaled(graph: Graph, x: Complex, factor: Scalar, lazy: Bool = False) -> Complex:
    """Multiply ``x`` by a real or complex number; see `scaled`, also for ``lazy``."""
    is_known = not isinstance(factor, SymDim)
    if is_known and factor == 1:
        return x
    result = c_mul(graph, x, as_complex(graph, factor, x.dtype))
    if is_known or not lazy:
        return result
    op, zero = OpBuilder(graph), const_like(graph, 0, x.real)
    is_zero_factor = op.Equal(as_scalar(graph, factor), 0)
    real, imag = (op.Where(is_zero_factor, zero, part) for part in (result.real, result.imag))
    return ComplexValue(real, imag, x.dtype)


def c_div(graph: Graph, a: Complex, b: Complex) -> Complex:
    """Return the quotient of two complex tensors.

    Dividend and divisor are first divided by the larger part of the divisor, so that squares do not
    overflow.
    """
    op = OpBuilder(graph)
    larger_part = op.Max(op.Abs(b.real), op.Abs(b.imag))
    divisor_real, divisor_imag = op.Div(b.real, larger_part), op.Div(b.imag, larger_part)
    dividend_real, dividend_imag = op.Div(a.real, larger_part), op.Div(a.imag, larger_part)
    norm = op.Add(op.Mul(divisor_real, divisor_real), op.Mul(divisor_imag, divisor_imag))
    real = op.Add(op.Mul(dividend_real, divisor_real), op.Mul(dividend_imag, divisor_imag))
    imag = op.Sub(op.Mul(dividend_imag, divisor_real), op.Mul(dividend_real, divisor_imag))
    return ComplexValue(op.Div(real, norm), op.Div(imag, norm), a.dtype)


def c_abs(graph: Graph, x: Complex) -> Result:
    """Return the absolute value of a complex tensor, without overflow of the squares."""
    return hypot_of(graph, x.real, x.imag)


def c_polar(graph: Graph, size: Result, angle: Result) -> Complex:
    """Return ``size * (cos(angle) + i sin(angle))``."""
    op = OpBuilder(graph)
    real = op.Mul(size, op.Cos(angle))
    imag = op.Mul(size, op.Sin(angle))
    return ComplexValue(real, imag, complex_type(graph.get_type(real)))


def c_is_zero(graph: Graph, x: Complex) -> Result:
    """Return a bool tensor that is True where both parts are 0."""
    op, zero = OpBuilder(graph), const_like(graph, 0, re(graph, x))
    parts = [op.Equal(part, zero) for part in (re(graph, x), im(graph, x))]
    return op("And", parts)


def c_cast(graph: Graph, x: Complex, dtype: Dtype | None) -> Complex:
    """Cast ``x`` to ``dtype``; None keeps the dtype.

    A cast to a real dtype returns the real part; a cast to bool is True for nonzero numbers.
    """
    if dtype is None:
        return x
    if dtypes.is_complex_type(dtype):
        return as_complex(graph, x, dtype)
    if dtype == dtypes.boolean and type(x) is ComplexValue:
        return OpBuilder(graph).Not(c_is_zero(graph, x))
    return cast(graph, re(graph, x), dtype)


def c_truth(graph: Graph, x: Complex) -> Result:
    """Return a bool tensor that is True where a complex or real tensor, or a number, is not 0."""
    if type(x) is ComplexValue:
        return OpBuilder(graph).Not(c_is_zero(graph, x))
    return as_tensor(graph, x, dtypes.boolean)


def on_both_parts(graph: Graph, function: Any, *values: Any) -> Any:
    """Apply ``function`` to the real parts and to the imaginary parts."""
    real = function(*(value.real for value in values))
    return ComplexValue(real, function(*(value.imag for value in values)), values[0].dtype)


def matrix_adjoint(graph: Graph, x: Tensor) -> Tensor:
    """Return the transposed matrices, conjugated if they are complex."""
    return c_conj(graph, matrix_transpose(graph, x))


def c_log(graph: Graph, x: Complex) -> Complex:
    """Return the principal logarithm: real part log(abs(x)), imaginary part the phase."""
    log_abs = OpBuilder(graph).Log(c_abs(graph, x))
    return ComplexValue(log_abs, atan2_of(graph, x.imag, x.real), x.dtype)


def c_exp(graph: Graph, x: Complex) -> Complex:
    """Return the exponential; a real argument keeps its zero imaginary part."""
    op = OpBuilder(graph)
    result = c_polar(graph, op.Exp(x.real), x.imag)
    is_real = op.Equal(x.imag, 0)
    return ComplexValue(
        op.Where(is_real, op.Exp(x.real), result.real),
        op.Where(is_real, x.imag, result.imag),
        x.dtype,
    )


def c_power(graph: Graph, x: Complex, y: Complex) -> Complex:
    """Return ``x ** y`` as ``exp(y log x)``, with the limits of C's cpow at 0.

    The result is 1 where ``y`` is 0. Where ``x`` is 0, the result is 0 if the real part of ``y`` is
    positive, and inf + nan i if that part is negative.
    """
    op = OpBuilder(graph)
    result = c_exp(graph, c_mul(graph, y, c_log(graph, x)))
    zero, one = const_like(graph, 0, x.real), const_like(graph, 1, x.real)
    is_zero_base = op.And(op.Equal(x.real, zero), op.Equal(x.imag, zero))
    is_zero_result = op.And(is_zero_base, op.Greater(y.real, zero))
    is_pole = op.And(is_zero_base, op.Less(y.real, zero))
    is_zero_power = op.And(op.Equal(y.real, zero), op.Equal(y.imag, zero))
    parts = []
    for part, limit in ((result.real, float("inf")), (result.imag, float("nan"))):
        part = op.Where(is_pole, const_like(graph, limit, x.real), part)
        parts.append(op.Where(is_zero_result, zero, part))
    return ComplexValue(
        op.Where(is_zero_power, one, parts[0]), op.Where(is_zero_power, zero, parts[1]), x.dtype
    )


def c_where(graph: Graph, mask: Result, a: Complex, b: Complex) -> Complex:
    """Return ``a`` where the mask is true, else ``b``."""
    op = OpBuilder(graph)
    return ComplexValue(op.Where(mask, a.real, b.real), op.Where(mask, a.imag, b.imag), a.dtype)
