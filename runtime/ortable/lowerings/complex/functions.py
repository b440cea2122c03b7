"""Lower-case words for elementary functions of complex tensors, with C99's branch cuts; infinite
parts are as a few nodes give them."""

from __future__ import annotations

from typing import Any

from ortable import dtypes
from ortable.ir import Graph
from ortable.lowerings.pointwise import sinh_of
from ortable.prelude.complex_arithmetic import Complex, c_abs, c_conj, c_mul
from ortable.prelude.complex_value import ComplexValue
from ortable.prelude.pointwise import atan2_of, const_like, hypot_of, is_sign_set, log1p_of

__all__ = [
    "c_acos",
    "c_acosh",
    "c_asin",
    "c_atanh",
    "c_cosh",
    "c_log1p",
    "c_sinh",
    "c_sqrt",
    "c_tanh",
]


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


def _hyperbolic(graph: Graph, x: str, odd: bool) -> str:
    """The real hyperbolic sine (``odd``) or cosine; written out for float64, which has no
    kernel."""
    if odd:
        return sinh_of(graph, x)
    make = graph.make_node
    if graph.get_type(x) != dtypes.float64:
        return make("Cosh", [x])
    both = make("Add", [make("Exp", [x]), make("Exp", [make("Neg", [x])])])
    return make("Mul", [both, const_like(graph, 0.5, x)])


def c_log1p(graph: Graph, x: Complex) -> Complex:
    """``log(1 + x)``, without rounding 1 + x where x is small."""
    make, one = graph.make_node, const_like(graph, 1, x.real)
    across = make("Add", [x.real, one])
    squares = make("Mul", [x.real, make("Add", [x.real, const_like(graph, 2, x.real)])])
    squares = make("Add", [squares, make("Mul", [x.imag, x.imag])])
    near = make("Mul", [log1p_of(graph, squares), const_like(graph, 0.5, squares)])
    far = make("Log", [hypot_of(graph, across, x.imag)])
    small = make("Less", [make("Abs", [squares]), const_like(graph, 0.5, squares)])
    angle = atan2_of(graph, x.imag, across)
    return ComplexValue(make("Where", [small, near, far]), angle, x.dtype)


def c_asin(graph: Graph, x: Complex) -> Complex:
    """The arc sine, by Kahan's formula (Branch cuts for complex elementary functions, 1987)."""
    below, above = _roots_around(graph, x, swap=False)
    real = atan2_of(graph, x.real, c_mul(graph, below, above).real)
    imag = _asinh(graph, c_mul(graph, c_conj(graph, below), above).imag)
    return ComplexValue(real, imag, x.dtype)


def c_acos(graph: Graph, x: Complex) -> Complex:
    """The arc cosine, by Kahan's formula."""
    below, above = _roots_around(graph, x, swap=False)
    angle = atan2_of(graph, below.real, above.real)
    real = graph.make_node("Mul", [const_like(graph, 2, angle), angle])
    imag = _asinh(graph, c_mul(graph, c_conj(graph, above), below).imag)
    return ComplexValue(real, imag, x.dtype)


def c_acosh(graph: Graph, x: Complex) -> Complex:
    """The inverse hyperbolic cosine, by Kahan's formula."""
    below, above = _roots_around(graph, x, swap=True)
    real = _asinh(graph, c_mul(graph, c_conj(graph, below), above).real)
    angle = atan2_of(graph, below.imag, above.real)
    imag = graph.make_node("Mul", [const_like(graph, 2, angle), angle])
    return ComplexValue(real, imag, x.dtype)


def c_atanh(graph: Graph, x: Complex) -> Complex:
    """The inverse hyperbolic tangent: half the logarithm of (1 + x) / (1 - x)."""
    make, one = graph.make_node, const_like(graph, 1, x.real)
    ahead, behind = make("Sub", [one, x.real]), make("Add", [one, x.real])
    square = make("Mul", [x.imag, x.imag])
    size = make("Add", [make("Mul", [ahead, ahead]), square])
    ratio = make("Div", [make("Mul", [const_like(graph, 4, one), x.real]), size])
    real = make("Mul", [log1p_of(graph, ratio), const_like(graph, 0.25, one)])
    twice = make("Add", [x.imag, x.imag])
    angle = atan2_of(graph, twice, make("Sub", [make("Mul", [ahead, behind]), square]))
    return ComplexValue(real, make("Mul", [angle, const_like(graph, 0.5, one)]), x.dtype)


def _roots_around(graph: Graph, x: Any, swap: bool) -> tuple[Any, Any]:
    """The square roots of 1 - x (of x - 1 for ``swap``) and of 1 + x."""
    make, one = graph.make_node, const_like(graph, 1, x.real)
    if swap:
        first = ComplexValue(make("Sub", [x.real, one]), x.imag, x.dtype)
    else:
        first = ComplexValue(make("Sub", [one, x.real]), make("Neg", [x.imag]), x.dtype)
    second = ComplexValue(make("Add", [one, x.real]), x.imag, x.dtype)
    return c_sqrt(graph, first), c_sqrt(graph, second)


def _asinh(graph: Graph, x: str) -> str:
    make = graph.make_node
    if graph.get_type(x) != dtypes.float64:
        return make("Asinh", [x])
    size, one = make("Abs", [x]), const_like(graph, 1, x)
    square = make("Mul", [size, size])
    root = make("Add", [one, make("Sqrt", [make("Add", [one, square])])])
    grown = log1p_of(graph, make("Add", [size, make("Div", [square, root])]))
    return make("Mul", [make("Sign", [x]), grown])
