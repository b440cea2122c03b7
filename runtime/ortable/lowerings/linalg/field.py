"""Arithmetic for linear algebra over real results and complex pairs of results.

With it, one algorithm handles both fields. For real operands, it makes no more nodes than the
plain operators.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ortable import dtypes
from ortable.ir import Graph
from ortable.prelude.complex_arithmetic import c_abs, c_conj, c_div, c_mul
from ortable.prelude.complex_value import ComplexValue, complex_type, part_type
from ortable.prelude.facts import Dtype, Tensor, dtype_of
from ortable.prelude.matrices import matrix_product
from ortable.prelude.op_builder import OpBuilder
from ortable.prelude.pointwise import filled_like
from ortable.prelude.values import cast, const

__all__ = ["in_precision"]


def is_pair(x: Any) -> bool:
    """Return whether ``x`` is complex: a pair of real results."""
    return x.__class__ is ComplexValue


def map_parts(graph: Graph, op: str, inputs: Sequence[Tensor], **attributes: Any) -> Tensor:
    """Make a node of an operator that acts on real and imaginary parts separately.

    If an input is a pair, make one node for the real parts and one for the imaginary parts. Real
    inputs such as indices, masks and divisors are inputs of both nodes.
    """
    pair = next((x for x in inputs if is_pair(x)), None)
    if pair is None:
        return graph.make_node(op, list(inputs), **attributes)
    real = graph.make_node(op, [x.real if is_pair(x) else x for x in inputs], **attributes)
    imag = graph.make_node(op, [x.imag if is_pair(x) else x for x in inputs], **attributes)
    return ComplexValue(real, imag, pair.dtype)


def scalar_const(graph: Graph, value: float, like: Tensor) -> Tensor:
    """Return a real number as a 0-d constant of the dtype of ``like``, real or complex."""
    dtype = part_type(dtype_of(graph, like))
    real = const(graph, value, dtype)
    return ComplexValue(real, const(graph, 0, dtype), like.dtype) if is_pair(like) else real


def embed_real(graph: Graph, real: str, like: Tensor) -> Tensor:
    """Return a real result as a pair if ``like`` is one, else unchanged."""
    if not is_pair(like):
        return real
    zero = filled_like(graph, real, 0, graph.get_type(real))
    return ComplexValue(real, zero, like.dtype)


def cast_to_field(graph: Graph, x: str, dtype: int) -> Tensor:
    """Cast a real result to ``dtype``, which may be complex."""
    real = cast(graph, x, part_type(dtype))
    if not dtypes.is_complex_type(dtype):
        return real
    return ComplexValue(real, filled_like(graph, x, 0, part_type(dtype)), dtype)


def real_part(x: Tensor) -> str:
    """Return the real part."""
    return x.real if is_pair(x) else x


def mul_elements(graph: Graph, a: Tensor, b: Tensor) -> Tensor:
    """Return the elementwise product; each operand may be real or complex."""
    if is_pair(a) and is_pair(b):
        return c_mul(graph, a, b)
    return map_parts(graph, "Mul", [a, b])


def mul_matrices(graph: Graph, a: Tensor, b: Tensor) -> Tensor:
    """Return the matrix product; ``b`` is real if ``a`` is."""
    if is_pair(a):
        return matrix_product(graph, a, b)
    return OpBuilder(graph).MatMul(a, b)


def div_elements(graph: Graph, a: Tensor, b: Tensor) -> Tensor:
    """Return the elementwise quotient; ``b`` may be real if ``a`` is complex."""
    return c_div(graph, a, b) if is_pair(b) else map_parts(graph, "Div", [a, b])


def conj_elements(graph: Graph, x: Tensor) -> Tensor:
    """Return the complex conjugate."""
    return c_conj(graph, x)


def abs_elements(graph: Graph, x: Tensor) -> str:
    """Return the absolute value."""
    return c_abs(graph, x) if is_pair(x) else OpBuilder(graph).Abs(x)


def pivot_magnitude(graph: Graph, x: Tensor) -> str:
    """Return LAPACK's pivot magnitude: abs(x), or abs(real) + abs(imag) of a pair."""
    op = OpBuilder(graph)
    if not is_pair(x):
        return op.Abs(x)
    parts = [op.Abs(part) for part in (x.real, x.imag)]
    return graph.make_node("Add", parts)


def is_zero(graph: Graph, x: Tensor) -> str:
    """Return a mask that is true where the number is 0."""
    op = OpBuilder(graph)
    zero = const(graph, 0, part_type(dtype_of(graph, x)))
    if not is_pair(x):
        return op.Equal(x, zero)
    return graph.make_node("And", [op.Equal(part, zero) for part in (x.real, x.imag)])


def in_precision(graph: Graph, x: Tensor, dtype: Dtype) -> Tensor:
    """Cast a real ``x`` to ``dtype``, or a pair to the complex dtype of the same precision."""
    if not is_pair(x):
        return cast(graph, x, dtype)
    parts = [cast(graph, part, part_type(dtype)) for part in (x.real, x.imag)]
    return ComplexValue(parts[0], parts[1], complex_type(dtype))
