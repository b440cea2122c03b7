"""Arithmetic on complex tensors, which are pairs of real results while a graph is converted.

``Complex`` is the class of a tensor argument in a block of ``complex:``: a pair, or a real result
where torch accepts both. Functions of a single family are in `lowerings.complex`.
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


Complexes = Any  # a list of them


def re(graph: Graph, x: Complex) -> Result:
    """The real part; a real result is its own."""
    return x.real if type(x) is ComplexValue else x


def im(graph: Graph, x: Complex) -> Result:
    """The imaginary part; zeros for a real result."""
    return x.imag if type(x) is ComplexValue else filled_like(graph, x, 0, graph.get_type(x))


def complex_of(graph: Graph, a: Result, b: Result) -> Complex:
    """The complex tensor with these parts, which are broadcast to one shape."""
    op = OpBuilder(graph)
    if graph.has_shape(a) and graph.has_shape(b) and graph.get_shape(a) != graph.get_shape(b):
        shape = op.Shape(op.Add(a, b))
        a, b = (op.Expand(part, shape) for part in (a, b))
    return ComplexValue(a, b, complex_type(graph.get_type(a)))


def part_dtype(dtype: Dtype) -> Dtype:
    """float32 for complex64, float64 for complex128; others as they are."""
    return part_type(dtype)


def as_complex(graph: Graph, x: Any, dtype: Dtype) -> Complex:
    """A tensor or number as a complex tensor of ``dtype``; a real one gets zeros."""
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
    """``x`` with the other sign of its imaginary part; a real result as it is."""
    if type(x) is complex:  # a number in the user's code, of which autograd makes a tensor
        return as_complex(graph, x.conjugate(), dtypes.complex128)
    if type(x) is not ComplexValue:
        return x
    return ComplexValue(x.real, OpBuilder(graph).Neg(x.imag), x.dtype)


def c_add(graph: Graph, a: Complex, b: Complex, sign: Scalar = 1) -> Complex:
    """``a + b``, or ``a - b`` for a sign of -1."""
    op = "Add" if sign == 1 else "Sub"
    return ComplexValue(
        graph.make_node(op, [a.real, b.real]), graph.make_node(op, [a.imag, b.imag]), a.dtype
    )


def c_mul(graph: Graph, a: Complex, b: Complex) -> Complex:
    """The product of two complex tensors, element by element."""
    op = OpBuilder(graph)
    real = op.Sub(op.Mul(a.real, b.real), op.Mul(a.imag, b.imag))
    imag = op.Add(op.Mul(a.real, b.imag), op.Mul(a.imag, b.real))
    return ComplexValue(real, imag, a.dtype)


def c_scaled(graph: Graph, x: Complex, factor: Scalar, lazy: Bool = False) -> Complex:
    """``x`` times a real or complex number; no node for 1; ``lazy`` as for ``scaled``."""
    is_known = not isinstance(factor, SymDim)
    if is_known and factor == 1:
        return x
    result = c_mul(graph, x, as_complex(graph, factor, x.dtype))
    if is_known or not lazy:
        return result
    op, zero = OpBuilder(graph), const_like(graph, 0, x.real)
    nothing = op.Equal(as_scalar(graph, factor), 0)
    real, imag = (op.Where(nothing, zero, part) for part in (result.real, result.imag))
    return ComplexValue(real, imag, x.dtype)


def c_div(graph: Graph, a: Complex, b: Complex) -> Complex:
    """The quotient of two complex tensors, scaled by the larger part of the divisor."""
    op = OpBuilder(graph)
    size = op.Max(op.Abs(b.real), op.Abs(b.imag))
    c, d = op.Div(b.real, size), op.Div(b.imag, size)
    x, y = op.Div(a.real, size), op.Div(a.imag, size)
    square = op.Add(op.Mul(c, c), op.Mul(d, d))
    real = op.Add(op.Mul(x, c), op.Mul(y, d))
    imag = op.Sub(op.Mul(y, c), op.Mul(x, d))
    return ComplexValue(op.Div(real, square), op.Div(imag, square), a.dtype)


def c_abs(graph: Graph, x: Complex) -> Result:
    """The absolute value of a complex tensor, without overflow of the squares."""
    return hypot_of(graph, x.real, x.imag)


def c_polar(graph: Graph, size: Result, angle: Result) -> Complex:
    """``size * (cos(angle) + i sin(angle))``."""
    op = OpBuilder(graph)
    real = op.Mul(size, op.Cos(angle))
    imag = op.Mul(size, op.Sin(angle))
    return ComplexValue(real, imag, complex_type(graph.get_type(real)))


def c_is_zero(graph: Graph, x: Complex) -> Result:
    """True where both parts are 0."""
    op, zero = OpBuilder(graph), const_like(graph, 0, re(graph, x))
    parts = [op.Equal(part, zero) for part in (re(graph, x), im(graph, x))]
    return op("And", parts)


def c_cast(graph: Graph, x: Complex, dtype: Dtype | None) -> Complex:
    """Cast ``x`` to ``dtype``; a real dtype takes the real part, bool is True for nonzero
    numbers.
    """
    if dtype is None:
        return x
    if dtypes.is_complex_type(dtype):
        return as_complex(graph, x, dtype)
    if dtype == dtypes.boolean and type(x) is ComplexValue:
        return OpBuilder(graph).Not(c_is_zero(graph, x))
    return cast(graph, re(graph, x), dtype)


def c_truth(graph: Graph, x: Complex) -> Result:
    """True where a complex or real tensor, or a number, is not 0."""
    if type(x) is ComplexValue:
        return OpBuilder(graph).Not(c_is_zero(graph, x))
    return as_tensor(graph, x, dtypes.boolean)


def on_both_parts(graph: Graph, function: Any, *values: Any) -> Any:
    """``function`` of the real parts and of the imaginary parts."""
    real = function(*(value.real for value in values))
    return ComplexValue(real, function(*(value.imag for value in values)), values[0].dtype)


def matrix_adjoint(graph: Graph, x: Tensor) -> Tensor:
    """The transposed matrices, conjugated where they are complex."""
    return c_conj(graph, matrix_transpose(graph, x))


def c_log(graph: Graph, x: Complex) -> Complex:
    """The principal logarithm: of the magnitude, and the phase."""
    size = OpBuilder(graph).Log(c_abs(graph, x))
    return ComplexValue(size, atan2_of(graph, x.imag, x.real), x.dtype)


def c_exp(graph: Graph, x: Complex) -> Complex:
    """The exponential; a real argument keeps its zero imaginary part."""
    op = OpBuilder(graph)
    result = c_polar(graph, op.Exp(x.real), x.imag)
    flat = op.Equal(x.imag, 0)
    return ComplexValue(
        op.Where(flat, op.Exp(x.real), result.real),
        op.Where(flat, x.imag, result.imag),
        x.dtype,
    )


def c_power(graph: Graph, x: Complex, y: Complex) -> Complex:
    """``x ** y``: ``exp(y log x)``; 1 where ``y`` is 0. Where ``x`` is 0, it is 0 for a positive
    real part of ``y``, and inf + nan i for a negative one, as C's cpow gives it."""
    op = OpBuilder(graph)
    result = c_exp(graph, c_mul(graph, y, c_log(graph, x)))
    zero, one = const_like(graph, 0, x.real), const_like(graph, 1, x.real)
    at_zero = op.And(op.Equal(x.real, zero), op.Equal(x.imag, zero))
    nothing = op.And(at_zero, op.Greater(y.real, zero))
    pole = op.And(at_zero, op.Less(y.real, zero))
    none = op.And(op.Equal(y.real, zero), op.Equal(y.imag, zero))
    parts = []
    for part, limit in ((result.real, float("inf")), (result.imag, float("nan"))):
        part = op.Where(pole, const_like(graph, limit, x.real), part)
        parts.append(op.Where(nothing, zero, part))
    return ComplexValue(op.Where(none, one, parts[0]), op.Where(none, zero, parts[1]), x.dtype)


def c_where(graph: Graph, mask: Result, a: Complex, b: Complex) -> Complex:
    """``a`` where the mask is true, else ``b``."""
    op = OpBuilder(graph)
    return ComplexValue(op.Where(mask, a.real, b.real), op.Where(mask, a.imag, b.imag), a.dtype)
