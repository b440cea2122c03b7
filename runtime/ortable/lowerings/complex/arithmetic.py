"""Lower-case words for complex tensors, which are pairs of real results while a graph is converted.

``Complex`` is the class of a tensor argument in a block of ``complex:``: a pair, or a real result
where torch lets both stand. The elementary functions are in
`functions`.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from ortable import dtypes
from ortable.dims import SymDim
from ortable.errors import UnsupportedCase
from ortable.ir import Graph
from ortable.lowerings.products import matrix_product
from ortable.prelude.complex_value import (
    ComplexValue,
    complex_type,
    join_pair,
    part_type,
    split_pair,
)
from ortable.prelude.facts import (
    Bool,
    Dtype,
    Int,
    Ints,
    Result,
    Scalar,
    Str,
    SymInts,
    dim_of,
    rank_of,
)
from ortable.prelude.pointwise import atan2_of, const_like, expanded_like, filled_like, hypot_of
from ortable.prelude.promotion import computation_dtype, promote_values
from ortable.prelude.sums import summed_over
from ortable.prelude.values import (
    as_tensor,
    cast,
    const,
    consts,
    permuted,
    reshape_to,
    squeezed,
    unsqueezed,
)

__all__ = [
    "as_complex",
    "c_abs",
    "c_angle",
    "c_cast",
    "c_conj",
    "c_cumprod",
    "c_einsum",
    "c_is_zero",
    "c_joined",
    "c_like",
    "c_matmul",
    "c_over",
    "c_permuted",
    "c_polar",
    "c_prod",
    "c_reshaped",
    "c_scaled",
    "c_sum",
    "c_times",
    "c_times_i",
    "c_total",
    "c_truth",
    "c_unjoined",
    "c_unsqueezed",
    "c_where",
    "complex_of",
    "im",
    "part_dtype",
    "re",
]

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


def c_einsum(graph: Graph, xs: Complexes, equation: Str) -> Complex:
    """``Einsum`` of complex tensors: a sum over the ways to take a real or an imaginary part of
    each."""
    sums: list[str | None] = [None, None]
    for choice in itertools.product((0, 1), repeat=len(xs)):
        parts = [x.imag if imag else x.real for x, imag in zip(xs, choice, strict=True)]
        term = graph.make_node("Einsum", parts, equation=equation)
        power = sum(choice) % 4  # of i
        found = sums[power % 2]
        if found is None:
            found = graph.make_node("Neg", [term]) if power > 1 else term
        else:
            found = graph.make_node("Sub" if power > 1 else "Add", [found, term])
        sums[power % 2] = found
    return ComplexValue(sums[0] or "", sums[1] or "", xs[0].dtype)


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


# -- dtypes and reductions ----------------------------------------------------------------------


def c_cast(graph: Graph, x: Complex, dtype: Dtype | None) -> Complex:
    """``x`` in ``dtype``; a real dtype takes the real part, bool what is not 0."""
    if dtype is None:
        return x
    if dtypes.is_complex_type(dtype):
        return as_complex(graph, x, dtype)
    if dtype == dtypes.boolean and type(x) is ComplexValue:
        return graph.make_node("Not", [c_is_zero(graph, x)])
    return cast(graph, re(graph, x), dtype)


def c_truth(graph: Graph, x: Complex) -> Result:
    """True where a complex or real tensor, or a number, is not 0."""
    if type(x) is ComplexValue:
        return graph.make_node("Not", [c_is_zero(graph, x)])
    return as_tensor(graph, x, dtypes.boolean)


def c_total(graph: Graph, x: Complex, axes: Ints) -> Complex:
    """The sum along ``axes``."""
    return _both(graph, lambda part: summed_over(graph, part, axes, False), x)


def c_like(graph: Graph, x: Complex, like: Complex) -> Complex:
    """``x`` broadcast to the shape of ``like``."""
    wanted = re(graph, like)
    if type(x) is not ComplexValue:
        return expanded_like(graph, x, wanted)
    return _both(graph, lambda part: expanded_like(graph, part, wanted), x)


def c_permuted(graph: Graph, x: Complex, perm: Ints) -> Complex:
    """``x`` with permuted axes."""
    return _both(graph, lambda part: permuted(graph, part, perm), x)


def c_unsqueezed(graph: Graph, x: Complex, axes: Ints) -> Complex:
    """``x`` with new axes of size 1."""
    return _both(graph, lambda part: unsqueezed(graph, part, axes), x)


def c_reshaped(graph: Graph, x: Complex, shape: SymInts) -> Complex:
    """``x`` with another shape."""
    return _both(graph, lambda part: reshape_to(graph, part, shape), x)


def c_prod(graph: Graph, x: Complex, axis: Int, keepdim: Bool) -> Complex:
    """The product along one axis of static size, by halves."""
    if not rank_of(graph, x):
        return x
    size = dim_of(graph, x, axis)
    if isinstance(size, SymDim):
        raise UnsupportedCase(f"the product of complex numbers along the dynamic '{size}'")
    if size == 0:
        ones = graph.make_node(
            "ReduceProd", [x.real, consts(graph, [axis], dtypes.int64)], keepdims=int(keepdim)
        )
        return as_complex(graph, ones, x.dtype)
    while size > 1:
        half = size // 2
        parts = [_stretch(graph, x, axis, first, first + half) for first in (0, half)]
        rest = [_stretch(graph, x, axis, size - 1, size)] if size % 2 else []
        x = c_times(graph, *parts)
        if rest:
            x = _both(graph, lambda a, b: graph.make_node("Concat", [a, b], axis=axis), x, rest[0])
        size = half + size % 2
    return x if keepdim else _both(graph, lambda a: squeezed(graph, a, [axis]), x)


def c_cumprod(graph: Graph, x: Complex, axis: Int) -> Complex:
    """The products of the first elements along one axis of static size, in doubling steps."""
    size = dim_of(graph, x, axis) if rank_of(graph, x) else 1
    if isinstance(size, SymDim):
        raise UnsupportedCase(f"the products of complex numbers along the dynamic '{size}'")
    step = 1
    while step < size:
        first = _stretch(graph, x, axis, 0, step)
        earlier = _stretch(graph, x, axis, 0, size - step)
        later = c_times(graph, _stretch(graph, x, axis, step, size), earlier)
        x = _both(graph, lambda a, b: graph.make_node("Concat", [a, b], axis=axis), first, later)
        step *= 2
    return x


def _both(graph: Graph, function: Any, *values: Any) -> Any:
    """``function`` of the real parts and of the imaginary parts."""
    real = function(*(value.real for value in values))
    return ComplexValue(real, function(*(value.imag for value in values)), values[0].dtype)


def _stretch(graph: Graph, x: Any, axis: int, first: int, last: int) -> Any:
    bounds = [consts(graph, [each], dtypes.int64) for each in (first, last, axis)]
    return _both(graph, lambda part: graph.make_node("Slice", [part, *bounds]), x)


def promote_complex(graph: Graph, kind: str, values: Sequence[Any]) -> list[Any]:
    """``promote_values`` where a value is complex, or may be: each becomes a pair of parts when the
    common dtype is complex."""
    wanted = computation_dtype(graph, kind, values)
    if not dtypes.is_complex_type(wanted):
        return promote_values(graph, kind, values)
    return [None if value is None else as_complex(graph, value, wanted) for value in values]
