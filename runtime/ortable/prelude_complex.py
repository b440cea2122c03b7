"""Lower-case words for complex tensors, which are pairs of real results while a graph is converted.

``Complex`` is the class of a tensor argument in a block of ``complex:``: a pair, or a real result
where torch lets both stand. Formulas are those of C99's annex G as far as a few nodes can say them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable import dtypes
from ortable.complex_value import ComplexValue, complex_type, join_pair, part_type, split_pair
from ortable.dims import SymDim
from ortable.prelude import Bool, Dtype, Result, Scalar
from ortable.prelude_make import cast, const
from ortable.prelude_nn import matrix_product
from ortable.prelude_pointwise import (
    atan2_of,
    const_like,
    expm1_of,
    filled_like,
    hypot_of,
    is_sign_set,
)

if TYPE_CHECKING:
    from ortable.builder import GraphBuilder as Graph

Complex = Any  # a ComplexValue, or the name of a real result
Complexes = Any  # a list of them


# -- parts --------------------------------------------------------------------------------------


def re(graph: Graph, x: Complex) -> Result:
    """The real part; a real result is its own."""
    return x.real if type(x) is ComplexValue else x


def im(graph: Graph, x: Complex) -> Result:
    """The imaginary part; zeros for a real result."""
    return x.imag if type(x) is ComplexValue else filled_like(graph, x, 0, graph.get_type(x))


def complex_of(graph: Graph, a: Result, b: Result) -> Complex:
    """The complex tensor with these parts, which are broadcast to one shape."""
    if graph.has_shape(a) and graph.has_shape(b) and graph.get_shape(a) != graph.get_shape(b):
        shape = graph.make_node("Shape", [graph.make_node("Add", [a, b])])
        a, b = (graph.make_node("Expand", [part, shape]) for part in (a, b))
    return ComplexValue(a, b, complex_type(graph.get_type(a)))


def part_dtype(dtype: Dtype) -> Dtype:
    """float32 for complex64, float64 for complex128; others as they are."""
    return part_type(dtype)


def as_complex(graph: Graph, x: Any, dtype: Dtype) -> Complex:
    """A tensor or number as a complex tensor of ``dtype``; a real one gets zeros."""
    wanted = part_type(dtype)
    if type(x) is ComplexValue:
        return ComplexValue(cast(graph, x.real, wanted), cast(graph, x.imag, wanted), dtype)
    if type(x) is str:
        return ComplexValue(cast(graph, x, wanted), filled_like(graph, x, 0, wanted), dtype)
    number = complex(x) if not isinstance(x, SymDim) else x
    parts = (number.real, number.imag) if isinstance(number, complex) else (number, 0)
    return ComplexValue(const(graph, parts[0], wanted), const(graph, parts[1], wanted), dtype)


def c_joined(graph: Graph, x: Complex) -> Result:
    """``torch.view_as_real``: both parts along a new last dimension."""
    return join_pair(graph, x)


def c_unjoined(graph: Graph, x: Result) -> Complex:
    """``torch.view_as_complex``: the complex tensor of a last dimension of 2."""
    return split_pair(graph, x)


def c_conj(graph: Graph, x: Complex) -> Complex:
    """``x`` with the other sign of its imaginary part; a real result as it is."""
    if type(x) is not ComplexValue:
        return x
    return ComplexValue(x.real, graph.make_node("Neg", [x.imag]), x.dtype)


# -- arithmetic ---------------------------------------------------------------------------------


def c_sum(graph: Graph, a: Complex, b: Complex, sign: Scalar = 1) -> Complex:
    """``a + b``, or ``a - b`` for a sign of -1."""
    op = "Add" if sign == 1 else "Sub"
    return ComplexValue(
        graph.make_node(op, [a.real, b.real]), graph.make_node(op, [a.imag, b.imag]), a.dtype
    )


def c_times(graph: Graph, a: Complex, b: Complex) -> Complex:
    """The product of two complex tensors, element by element."""
    return _product(graph, "Mul", a, b)


def c_scaled(graph: Graph, x: Complex, factor: Scalar) -> Complex:
    """``x`` times a real or complex number; no node for 1."""
    if not isinstance(factor, SymDim) and factor == 1:
        return x
    return _product(graph, "Mul", x, as_complex(graph, factor, x.dtype))


def c_matmul(graph: Graph, a: Complex, b: Complex) -> Complex:
    """The matrix product of two complex tensors."""
    return _product(graph, "MatMul", a, b)


def _product(graph: Graph, op: str, a: ComplexValue, b: ComplexValue) -> ComplexValue:
    def times(x: str, y: str) -> str:
        return matrix_product(graph, x, y) if op == "MatMul" else graph.make_node(op, [x, y])

    real = graph.make_node("Sub", [times(a.real, b.real), times(a.imag, b.imag)])
    imag = graph.make_node("Add", [times(a.real, b.imag), times(a.imag, b.real)])
    return ComplexValue(real, imag, a.dtype)


def c_over(graph: Graph, a: Complex, b: Complex) -> Complex:
    """The quotient of two complex tensors, scaled by the larger part of the divisor."""
    make = graph.make_node
    size = make("Max", [make("Abs", [b.real]), make("Abs", [b.imag])])
    c, d = make("Div", [b.real, size]), make("Div", [b.imag, size])
    x, y = make("Div", [a.real, size]), make("Div", [a.imag, size])
    square = make("Add", [make("Mul", [c, c]), make("Mul", [d, d])])
    real = make("Add", [make("Mul", [x, c]), make("Mul", [y, d])])
    imag = make("Sub", [make("Mul", [y, c]), make("Mul", [x, d])])
    return ComplexValue(make("Div", [real, square]), make("Div", [imag, square]), a.dtype)


def c_abs(graph: Graph, x: Complex) -> Result:
    """The absolute value of a complex tensor, without overflow of the squares."""
    return hypot_of(graph, x.real, x.imag)


def c_angle(graph: Graph, x: Complex) -> Result:
    """The angle of a complex tensor in -pi..pi."""
    return atan2_of(graph, x.imag, x.real)


def c_polar(graph: Graph, size: Result, angle: Result) -> Complex:
    """``size * (cos(angle) + i sin(angle))``."""
    make = graph.make_node
    real = make("Mul", [size, make("Cos", [angle])])
    imag = make("Mul", [size, make("Sin", [angle])])
    return ComplexValue(real, imag, complex_type(graph.get_type(real)))


# -- elementary functions -----------------------------------------------------------------------


def c_exp(graph: Graph, x: Complex) -> Complex:
    """The exponential; a real argument keeps its zero imaginary part."""
    make = graph.make_node
    found = c_polar(graph, make("Exp", [x.real]), x.imag)
    flat = make("Equal", [x.imag, const_like(graph, 0, x.imag)])
    return ComplexValue(
        make("Where", [flat, make("Exp", [x.real]), found.real]),
        make("Where", [flat, x.imag, found.imag]),
        x.dtype,
    )


def c_log(graph: Graph, x: Complex) -> Complex:
    """The principal logarithm: of the magnitude, and the phase."""
    make = graph.make_node
    return ComplexValue(make("Log", [c_abs(graph, x)]), c_angle(graph, x), x.dtype)


def c_sqrt(graph: Graph, x: Complex) -> Complex:
    """The square root with a real part >= 0, without cancellation."""
    make = graph.make_node
    across = make("Abs", [x.real])
    half = const_like(graph, 0.5, across)
    large = make("Sqrt", [make("Mul", [make("Add", [c_abs(graph, x), across]), half])])
    zero = make("Equal", [large, const_like(graph, 0, large)])
    ratio = make("Div", [make("Mul", [make("Abs", [x.imag]), half]), large])
    small = make("Where", [zero, large, ratio])
    left = is_sign_set(graph, x.real)
    imag = make("Where", [left, large, small])
    below = is_sign_set(graph, x.imag)
    return ComplexValue(
        make("Where", [left, small, large]),
        make("Where", [below, make("Neg", [imag]), imag]),
        x.dtype,
    )


def c_power(graph: Graph, x: Complex, y: Complex) -> Complex:
    """``x ** y``: ``exp(y log x)``; 1 where ``y`` is 0, and 0 where ``x`` is."""
    make = graph.make_node
    found = c_exp(graph, c_times(graph, y, c_log(graph, x)))
    zero = const_like(graph, 0, x.real)
    nothing = make("And", [make("Equal", [x.real, zero]), make("Equal", [x.imag, zero])])
    none = make("And", [make("Equal", [y.real, zero]), make("Equal", [y.imag, zero])])
    one = const_like(graph, 1, x.real)
    parts = [make("Where", [nothing, zero, part]) for part in (found.real, found.imag)]
    return ComplexValue(
        make("Where", [none, one, parts[0]]), make("Where", [none, zero, parts[1]]), x.dtype
    )


def c_sinh(graph: Graph, x: Complex) -> Complex:
    """The hyperbolic sine."""
    make = graph.make_node
    grown, shrunk = _hyperbolic(graph, x.real, True), _hyperbolic(graph, x.real, False)
    return ComplexValue(
        make("Mul", [grown, make("Cos", [x.imag])]),
        make("Mul", [shrunk, make("Sin", [x.imag])]),
        x.dtype,
    )


def c_cosh(graph: Graph, x: Complex) -> Complex:
    """The hyperbolic cosine."""
    make = graph.make_node
    grown, shrunk = _hyperbolic(graph, x.real, True), _hyperbolic(graph, x.real, False)
    return ComplexValue(
        make("Mul", [shrunk, make("Cos", [x.imag])]),
        make("Mul", [grown, make("Sin", [x.imag])]),
        x.dtype,
    )


def c_tanh(graph: Graph, x: Complex) -> Complex:
    """The hyperbolic tangent, by Kahan's formula; it is 1 to the last digit beyond 22."""
    make = graph.make_node
    limit = const_like(graph, 22, x.real)
    real = make("Clip", [x.real, make("Neg", [limit]), limit])
    s = _hyperbolic(graph, real, True)
    one = const_like(graph, 1, real)
    t = make("Div", [make("Sin", [x.imag]), make("Cos", [x.imag])])
    beta = make("Add", [one, make("Mul", [t, t])])
    rho = _hyperbolic(graph, real, False)
    below = make("Add", [one, make("Mul", [make("Mul", [beta, s]), s])])
    above = make("Mul", [make("Mul", [beta, rho]), s])
    return ComplexValue(make("Div", [above, below]), make("Div", [t, below]), x.dtype)


def _hyperbolic(graph: Graph, x: Result, odd: Bool) -> Result:
    """The real hyperbolic sine (``odd``) or cosine; written out for float64, which has no
    kernel."""
    make = graph.make_node
    if graph.get_type(x) != dtypes.float64:
        return make("Sinh" if odd else "Cosh", [x])
    if odd:
        near = expm1_of(graph, x)  # sinh x = (e + e / (e + 1)) / 2, e = exp(x) - 1
        far = make("Div", [near, make("Add", [near, const_like(graph, 1, x)])])
        far = make("Where", [make("IsInf", [near]), const_like(graph, 1, x), far])
        back = make("Equal", [near, const_like(graph, -1, x)])
        far = make("Where", [back, make("Neg", [make("Exp", [make("Neg", [x])])]), far])
        return make("Mul", [make("Add", [near, far]), const_like(graph, 0.5, x)])
    both = make("Add", [make("Exp", [x]), make("Exp", [make("Neg", [x])])])
    return make("Mul", [both, const_like(graph, 0.5, x)])


def c_times_i(graph: Graph, x: Complex, sign: Scalar = 1) -> Complex:
    """``i * x``, or ``-i * x`` for a sign of -1."""
    make = graph.make_node
    if sign == 1:
        return ComplexValue(make("Neg", [x.imag]), x.real, x.dtype)
    return ComplexValue(x.imag, make("Neg", [x.real]), x.dtype)


def c_where(graph: Graph, mask: Result, a: Complex, b: Complex) -> Complex:
    """``a`` where the mask is true, else ``b``."""
    make = graph.make_node
    return ComplexValue(
        make("Where", [mask, a.real, b.real]), make("Where", [mask, a.imag, b.imag]), a.dtype
    )


def c_is_zero(graph: Graph, x: Complex) -> Result:
    """True where both parts are 0."""
    make, zero = graph.make_node, const_like(graph, 0, re(graph, x))
    parts = [make("Equal", [part, zero]) for part in (re(graph, x), im(graph, x))]
    return make("And", parts)
