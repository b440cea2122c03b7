"""Functions on complex tensors, which are pairs of real results while a graph is converted.

``Complex`` is the class of a tensor argument in a block of ``complex:``: a pair, or a real result
where torch accepts both.
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
    """``Einsum`` of complex tensors: a sum over the ways to take a real or an imaginary part of
    each."""
    sums: list[str | None] = [None, None]
    for choice in itertools.product((0, 1), repeat=len(xs)):
        parts = [x.imag if imag else x.real for x, imag in zip(xs, choice, strict=True)]
        term = graph.make_node("Einsum", parts, equation=equation)
        power = sum(choice) % 4  # of i
        result = sums[power % 2]
        if result is None:
            result = OpBuilder(graph).Neg(term) if power > 1 else term
        else:
            result = graph.make_node("Sub" if power > 1 else "Add", [result, term])
        sums[power % 2] = result
    return ComplexValue(sums[0] or "", sums[1] or "", xs[0].dtype)


def c_log1p(graph: Graph, x: Complex) -> Complex:
    """``log(1 + x)``, without rounding 1 + x where x is small."""
    op, one = OpBuilder(graph), const_like(graph, 1, x.real)
    across = op.Add(x.real, one)
    squares = op.Mul(x.real, op.Add(x.real, 2))
    squares = op.Add(squares, op.Mul(x.imag, x.imag))
    near = op.Mul(log1p_of(graph, squares), 0.5)
    far = op.Log(hypot_of(graph, across, x.imag))
    small = op.Less(op.Abs(squares), 0.5)
    angle = atan2_of(graph, x.imag, across)
    return ComplexValue(op.Where(small, near, far), angle, x.dtype)


def c_prod(graph: Graph, x: Complex, axis: Int, keepdim: Bool) -> Complex:
    """The product along one axis of static size, by halves; of a real tensor as of any other."""
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
        parts = [_slice_axis(graph, x, axis, first, first + half) for first in (0, half)]
        rest = [_slice_axis(graph, x, axis, size - 1, size)] if size % 2 else []
        x = c_mul(graph, *parts)
        if rest:
            x = on_both_parts(graph, lambda a, b: op.Concat(a, b, axis=axis), x, rest[0])
        size = half + size % 2
    return x if keepdim else on_both_parts(graph, lambda a: squeezed(graph, a, [axis]), x)


def c_cumprod(graph: Graph, x: Complex, axis: Int) -> Complex:
    """The products of the first elements along one axis of static size, in doubling steps."""
    if type(x) is not ComplexValue:
        raise UnsupportedCase("the products of complex numbers, taken in a real dtype")
    size = dim_of(graph, x, axis) if rank_of(graph, x) else 1
    if isinstance(size, SymDim):
        raise UnsupportedCase(
            f"the products of complex numbers along the dynamic '{size}'", (size,)
        )
    step = 1
    while step < size:
        first = _slice_axis(graph, x, axis, 0, step)
        earlier = _slice_axis(graph, x, axis, 0, size - step)
        later = c_mul(graph, _slice_axis(graph, x, axis, step, size), earlier)
        x = on_both_parts(
            graph, lambda a, b: OpBuilder(graph).Concat(a, b, axis=axis), first, later
        )
        step *= 2
    return x


def _slice_axis(graph: Graph, x: Any, axis: int, first: int, last: int) -> Any:
    bounds = [consts(graph, [bound], dtypes.int64) for bound in (first, last, axis)]
    return on_both_parts(graph, lambda part: OpBuilder(graph).Slice(part, *bounds), x)


def promote_complex(
    graph: Graph, kind: str, values: Sequence[Any], opmath: Any = None
) -> list[Any]:
    """``promote_values`` where a value is complex, or may be: each becomes a pair of parts when the
    common dtype is complex."""
    common = computation_dtype(graph, kind, values)
    if not dtypes.is_complex_type(common):
        return promote_values(graph, kind, values, opmath)
    return [None if value is None else as_complex(graph, value, common) for value in values]
