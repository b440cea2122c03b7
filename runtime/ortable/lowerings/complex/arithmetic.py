"""Lower functions of complex tensors, which are pairs of real results during conversion.

``Complex`` is the type of a tensor argument in a ``complex:`` block: a pair, or a real result where
torch accepts both.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from ortable import dtypes
from ortable.dims import SymDim
from ortable.errors import UnsupportedCase
from ortable.ir import Graph
from ortable.prelude.complex_arithmetic import (
    Complex,
    Complexes,
    as_complex,
    c_mul,
    on_both_parts,
)
from ortable.prelude.complex_value import ComplexValue
from ortable.prelude.facts import Bool, Int, Str, dim_of, rank_of
from ortable.prelude.op_builder import OpBuilder
from ortable.prelude.pointwise import atan2_of, const_like, hypot_of, log1p_of
from ortable.prelude.promotion import computation_dtype, promote_values
from ortable.prelude.sums import product_over
from ortable.prelude.values import consts, squeezed

__all__ = [
    "c_cumprod",
    "c_einsum",
    "c_log1p",
    "c_prod",
]


def c_einsum(graph: Graph, xs: Complexes, equation: Str) -> Complex:
    """Return a complex Einsum, summed over all choices of a real or imaginary part per operand."""
    sums: list[str | None] = [None, None]
    for choice in itertools.product((0, 1), repeat=len(xs)):
        parts = [x.imag if imag else x.real for x, imag in zip(xs, choice, strict=True)]
        term = graph.make_node("Einsum", parts, equation=equation)
        power = sum(choice) % 4  # of the imaginary unit
        result = sums[power % 2]
        if result is None:
            result = OpBuilder(graph).Neg(term) if power > 1 else term
        else:
            result = graph.make_node("Sub" if power > 1 else "Add", [result, term])
        sums[power % 2] = result
    return ComplexValue(sums[0] or "", sums[1] or "", xs[0].dtype)


def c_log1p(graph: Graph, x: Complex) -> Complex:
    """Compute ``log(1 + x)`` without rounding 1 + x for small x."""
    op, one = OpBuilder(graph), const_like(graph, 1, x.real)
    real_plus_one = op.Add(x.real, one)
    square_minus_one = op.Mul(x.real, op.Add(x.real, 2))
    square_minus_one = op.Add(square_minus_one, op.Mul(x.imag, x.imag))
    small_log = op.Mul(log1p_of(graph, square_minus_one), 0.5)
    large_log = op.Log(hypot_of(graph, real_plus_one, x.imag))
    is_small = op.Less(op.Abs(square_minus_one), 0.5)
    angle = atan2_of(graph, x.imag, real_plus_one)
    return ComplexValue(op.Where(is_small, small_log, large_log), angle, x.dtype)


def c_prod(graph: Graph, x: Complex, axis: Int, keepdim: Bool) -> Complex:
    """Return the product along one axis by pairwise halving."""
    op = OpBuilder(graph)
    if type(x) is not ComplexValue:
        return product_over(graph, x, [axis] if rank_of(graph, x) else [], keepdim)
    if not rank_of(graph, x):
        return x
    size = dim_of(graph, x, axis)
    if isinstance(size, SymDim):
        raise UnsupportedCase(f"the product of complex numbers along the dynamic '{size}'", (size,))
    if size == 0:
        ones = op.ReduceProd(x.real, consts(graph, [axis], dtypes.int64), keepdims=int(keepdim))
        return as_complex(graph, ones, x.dtype)
    while size > 1:
        half = size // 2
        parts = [_slice_axis(graph, x, axis, start, start + half) for start in (0, half)]
        odd_element = [_slice_axis(graph, x, axis, size - 1, size)] if size % 2 else []
        x = c_mul(graph, *parts)
        if odd_element:
            x = on_both_parts(graph, lambda a, b: op.Concat(a, b, axis=axis), x, odd_element[0])
        size = half + size % 2
    return x if keepdim else on_both_parts(graph, lambda a: squeezed(graph, a, [axis]), x)


def c_cumprod(graph: Graph, x: Complex, axis: Int) -> Complex:
    """Return the cumulative product along one axis of static size, in log2(size) rounds."""
    if type(x) is not ComplexValue:
        raise UnsupportedCase("the products of complex numbers, taken in a real dtype")
    size = dim_of(graph, x, axis) if rank_of(graph, x) else 1
    if isinstance(size, SymDim):
        raise UnsupportedCase(
            f"the products of complex numbers along the dynamic '{size}'", (size,)
        )
    step = 1
    while step < size:
        head = _slice_axis(graph, x, axis, 0, step)
        earlier = _slice_axis(graph, x, axis, 0, size - step)
        later = c_mul(graph, _slice_axis(graph, x, axis, step, size), earlier)
        x = on_both_parts(graph, lambda a, b: OpBuilder(graph).Concat(a, b, axis=axis), head, later)
        step *= 2
    return x


def _slice_axis(graph: Graph, x: Any, axis: int, start: int, stop: int) -> Any:
    bounds = [consts(graph, [bound], dtypes.int64) for bound in (start, stop, axis)]
    return on_both_parts(graph, lambda part: OpBuilder(graph).Slice(part, *bounds), x)


def promote_complex(
    graph: Graph, kind: str, values: Sequence[Any], opmath: Any = None
) -> list[Any]:
    """Promote values with `promote_values`; each becomes a pair if the common dtype is complex."""
    common = computation_dtype(graph, kind, values)
    if not dtypes.is_complex_type(common):
        return promote_values(graph, kind, values, opmath)
    return [None if value is None else as_complex(graph, value, common) for value in values]
