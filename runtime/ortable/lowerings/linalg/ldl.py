"""Factors of symmetric and Hermitian matrices that need not be definite, A = L D L', as LAPACK's
unblocked sytf2 and hetf2 find them in the lower triangle, with the pivots of Bunch and Kaufman: D
has blocks of one and of two rows. The solutions are those of sytrs and hetrs.

A Loop takes one column a trip: a matrix of the batch whose block has two rows takes both in one
trip, and is unchanged by the next one. The operations are those of LAPACK, in its order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ortable import dims, dtypes
from ortable.ir import Graph
from ortable.prelude.complex_arithmetic import matrix_adjoint
from ortable.prelude.complex_value import ComplexValue
from ortable.prelude.facts import Bool, Tensor, Tensors, dim_of
from ortable.prelude.matrices import matrix_transpose, triu
from ortable.prelude.op_builder import OpBuilder
from ortable.prelude.pointwise import const_like
from ortable.prelude.shapes import expanded, zeros_of
from ortable.prelude.values import as_scalar, cast, const, consts, reshape_to, unsqueezed

from .factor import swapped_indices
from .field import (
    abs_elements,
    conj_elements,
    div_elements,
    is_pair,
    is_zero,
    map_parts,
    mul_elements,
    mul_matrices,
    real_of,
    rough_size,
    scalar_const,
)
from .matrix import (
    axis_indices,
    batch_of,
    first_axis,
    flat_batch,
    in_batch,
    joint_batch,
    run_loop,
    with_batch,
)

__all__ = ["ldl_factors", "ldl_solved"]

_ALPHA = (1 + 17**0.5) / 8  # keeps the growth of a step with two rows to that of two with one


@dataclass(frozen=True)
class _LoopConstants:
    """Loop invariants: the indices of rows [n, 1] and columns [n], the last index, and how the
    upper triangle follows from the lower one.
    """

    rows: str
    columns: str
    last: str
    hermitian: bool

    def mirror_triangle(self, body: Graph, x: Tensor) -> Tensor:
        """The transpose, conjugated for Hermitian matrices."""
        turn: Callable[..., Tensor] = matrix_adjoint if self.hermitian else matrix_transpose
        return turn(body, x)

    def mirror_element(self, body: Graph, x: Tensor) -> Tensor:
        """A number of the upper triangle, from that of the lower one."""
        return conj_elements(body, x) if self.hermitian else x


@dataclass(frozen=True)
class _Pivot:
    """[batch, 1, 1] each: the row to exchange, whether the block has two rows, whether the column
    is zero.
    """

    row: str
    two: str
    nothing: str


def ldl_factors(graph: Graph, x: Tensor, hermitian: Bool) -> Tensors:
    """[LD, pivots, info]: L below D, which has blocks of one and of two rows; LAPACK's int32
    pivots, from 1, negative for blocks of two; the first block that is zero, from 1, else 0."""
    batch, size = batch_of(graph, x), dim_of(graph, x, -1)
    # torch does not always say that both sides are one size
    a = reshape_to(graph, flat_batch(graph, x), [dims.product_of(batch), size, size])
    count = dim_of(graph, a, 0)
    frame = _loop_constants(graph, a, hermitian)

    def loop_body(
        body: Graph, index: str, a: Tensor, pivots: str, info: str, second: str
    ) -> list[Tensor]:
        op, zero = OpBuilder(body), const(body, 0, dtypes.int64)
        whole = _full_matrix(body, frame, a)
        pivot = _choose_pivot(body, frame, whole, index)
        first = op.Not(second)
        two = op.And(pivot.two, first)
        row = op.Where(second, index, pivot.row)
        end = op.Add(index, cast(body, two, dtypes.int64))
        source = swapped_indices(body, frame.rows, end, row)
        whole = map_parts(body, "GatherND", [whole, source], batch_dims=1)
        whole = map_parts(
            body, "GatherND", [frame.mirror_triangle(body, whole), source], batch_dims=1
        )
        whole = _eliminate_block(body, frame, whole, index, two)
        open_ = [op.GreaterOrEqual(axis, index) for axis in (frame.rows, frame.columns)]
        a = map_parts(body, "Where", [op.And(op("And", open_), first), whole, a])
        pivot_code = op.Add(row, 1)
        pivot_code = op.Where(two, op.Neg(pivot_code), pivot_code)
        here = op.And(op.Equal(frame.rows, index), first)
        beside = op.And(op.Equal(frame.rows, end), two)
        pivots = op.Where(op.Or(here, beside), pivot_code, pivots)
        is_first_zero = op.And(op.And(pivot.nothing, first), op.Equal(info, zero))
        after = op.Add(index, 1)
        return [a, pivots, op.Where(is_first_zero, after, info), two]

    nothing = [zeros_of(graph, [count, rows, 1], dtypes.int64) for rows in (size, 1)]
    second = expanded(graph, const(graph, False, dtypes.boolean), [count, 1, 1])
    a, pivots, info, _ = run_loop(graph, size, [a, *nothing, second], loop_body)
    pivots = reshape_to(graph, cast(graph, pivots, dtypes.int32), [*batch, size])
    info = reshape_to(graph, cast(graph, info, dtypes.int32), batch)
    return [with_batch(graph, triu(graph, a, False), batch), pivots, info]


def _loop_constants(graph: Graph, a: Tensor, hermitian: bool) -> _LoopConstants:
    last = as_scalar(graph, dim_of(graph, a, 1) - 1)
    return _LoopConstants(axis_indices(graph, a, -2), axis_indices(graph, a, -1), last, hermitian)


def _full_matrix(body: Graph, frame: _LoopConstants, a: Tensor) -> Tensor:
    """The symmetric or Hermitian matrix of which ``a`` has the lower triangle."""
    lower = OpBuilder(body).GreaterOrEqual(frame.rows, frame.columns)
    whole = map_parts(body, "Where", [lower, a, frame.mirror_triangle(body, a)])
    if not frame.hermitian or not is_pair(whole):
        return whole
    # like LAPACK, ignore the imaginary part of the diagonal
    diagonal = OpBuilder(body).Equal(frame.rows, frame.columns)
    imag = OpBuilder(body).Where(diagonal, 0, whole.imag)
    return ComplexValue(whole.real, imag, whole.dtype)


def _choose_pivot(body: Graph, frame: _LoopConstants, whole: Tensor, index: str) -> _Pivot:
    """Choose Bunch and Kaufman's pivot at ``index``: keep the row, exchange it for that of the
    largest number in its column, or take both.
    """
    op, at = OpBuilder(body), first_axis(body, index)
    column = rough_size(body, map_parts(body, "Gather", [whole, at], axis=2))
    zero, alpha = const_like(body, 0, column), const_like(body, _ALPHA, column)
    head = op.Gather(column, at, axis=1)
    under = op.Greater(frame.rows, index)
    best = op.Where(under, column, -1)
    best = op.Max(op.ArgMax(best, axis=1, keepdims=1), index)
    most = _max_masked(body, under, column, 1)
    across = rough_size(body, map_parts(body, "GatherND", [whole, best], batch_dims=1))
    own = op.Equal(frame.columns, best)
    others = op.And(op.GreaterOrEqual(frame.columns, index), op.Not(own))
    widest = _max_masked(body, others, across, 2)
    bound = op.Mul(alpha, most)
    keep_row = op.GreaterOrEqual(head, bound)
    bound = op.Mul(bound, op.Div(most, widest))
    keep_row = op.Or(keep_row, op.GreaterOrEqual(head, bound))
    size = _max_masked(body, own, across, 2)
    alone = op.GreaterOrEqual(size, op.Mul(alpha, widest))
    two = op.And(op.Not(op.Or(keep_row, alone)), op.Less(index, frame.last))
    nothing = op("And", [op.Equal(x, zero) for x in (head, most)])
    return _Pivot(op.Where(keep_row, index, best), two, nothing)


def _max_masked(body: Graph, mask: str, x: str, axis: int) -> str:
    """The largest of the sizes under the mask, 0 for none."""
    masked = OpBuilder(body).Where(mask, x, 0)
    return OpBuilder(body).ReduceMax(masked, consts(body, [axis], dtypes.int64), keepdims=1)


def _eliminate_block(
    body: Graph, frame: _LoopConstants, whole: Tensor, index: str, two: str
) -> Tensor:
    """``whole`` with the factors below the block at ``index`` in place of its columns, and the
    trailing matrix updated.
    """
    op, one = OpBuilder(body), const(body, 1, dtypes.int64)
    at = first_axis(body, index)
    left, right = _pivot_columns(body, frame, whole, index)
    pivot = map_parts(body, "Gather", [left, at], axis=1)
    pivot = real_of(pivot) if frame.hermitian else pivot
    # a pivot of zero stands over zeros
    unit = scalar_const(body, 1, pivot)
    divisor = map_parts(body, "Where", [is_zero(body, pivot), unit, pivot])
    single = mul_elements(body, left, div_elements(body, unit, divisor))
    block = _pivot_block(body, whole, index, op.Min(op.Add(index, one), frame.last))
    both = (_hermitian_pair if frame.hermitian else _symmetric_pair)(body, block, left, right)
    first = map_parts(body, "Where", [two, both[0], single])
    rest = map_parts(
        body, "Sub", [whole, mul_elements(body, left, frame.mirror_triangle(body, first))]
    )
    more = map_parts(
        body, "Sub", [rest, mul_elements(body, right, frame.mirror_triangle(body, both[1]))]
    )
    rest = map_parts(body, "Where", [two, more, rest])
    end = op.Add(index, cast(body, two, dtypes.int64))
    factors = map_parts(body, "Where", [op.Equal(frame.columns, index), first, both[1]])
    inside = map_parts(body, "Where", [op.Greater(frame.columns, end), rest, factors])
    return map_parts(body, "Where", [op.Greater(frame.rows, end), inside, whole])


def _pivot_columns(body: Graph, frame: _LoopConstants, x: Tensor, index: str) -> list[Tensor]:
    """The columns of ``x`` at ``index`` and after it; the last one twice."""
    after = OpBuilder(body).Add(index, 1)
    after = OpBuilder(body).Min(after, frame.last)
    return [map_parts(body, "Gather", [x, first_axis(body, at)], axis=2) for at in (index, after)]


def _pivot_block(body: Graph, x: Tensor, first: str, second: str) -> tuple[Tensor, Tensor, Tensor]:
    """x[first, first], x[second, first] and x[second, second], [batch, 1, 1] each."""
    at, after = first_axis(body, first), first_axis(body, second)
    left, right = (map_parts(body, "Gather", [x, column], axis=2) for column in (at, after))
    return (
        map_parts(body, "Gather", [left, at], axis=1),
        map_parts(body, "Gather", [left, after], axis=1),
        map_parts(body, "Gather", [right, after], axis=1),
    )


def _symmetric_pair(
    body: Graph, block: tuple[Tensor, Tensor, Tensor], left: Tensor, right: Tensor
) -> tuple[Tensor, Tensor]:
    """The columns ``left`` and ``right`` times the inverse of the block."""
    head, below, tail = block
    one = scalar_const(body, 1, below)
    heads, tails = div_elements(body, head, below), div_elements(body, tail, below)
    scale = map_parts(body, "Sub", [mul_elements(body, tails, heads), one])
    scale = div_elements(body, div_elements(body, one, scale), below)
    first = map_parts(body, "Sub", [mul_elements(body, tails, left), right])
    second = map_parts(body, "Sub", [mul_elements(body, heads, right), left])
    return mul_elements(body, scale, first), mul_elements(body, scale, second)


def _hermitian_pair(
    body: Graph, block: tuple[Tensor, Tensor, Tensor], left: Tensor, right: Tensor
) -> tuple[Tensor, Tensor]:
    """``_symmetric_pair`` for Hermitian blocks; of real ones it is the same."""
    if not is_pair(left):
        return _symmetric_pair(body, block, left, right)
    head, below, tail = block
    size = abs_elements(body, below)
    one = scalar_const(body, 1, size)
    heads, tails = (div_elements(body, real_of(x), size) for x in (head, tail))
    scale = map_parts(body, "Sub", [mul_elements(body, tails, heads), one])
    scale = div_elements(body, div_elements(body, one, scale), size)
    phase = div_elements(body, below, size)
    first = map_parts(
        body, "Sub", [mul_elements(body, left, tails), mul_elements(body, phase, right)]
    )
    back = mul_elements(body, conj_elements(body, phase), left)
    second = map_parts(body, "Sub", [mul_elements(body, right, heads), back])
    return mul_elements(body, first, scale), mul_elements(body, second, scale)


# -- solutions -----------------------------------------------------------------------------------


def ldl_solved(graph: Graph, factors: Tensor, pivots: Tensor, b: Tensor, hermitian: Bool) -> Tensor:
    """x of A x = b, from the results of `ldl_factors`; leading dimensions broadcast."""
    together, size = joint_batch(graph, [factors, b]), dim_of(graph, factors, -1)
    factors, b = (flat_batch(graph, in_batch(graph, x, together)) for x in (factors, b))
    pivots = unsqueezed(graph, cast(graph, pivots, dtypes.int64), [len(batch_of(graph, pivots, 0))])
    pivots = flat_batch(graph, expanded(graph, pivots, [*together, size, 1]))
    frame = _loop_constants(graph, factors, hermitian)
    x = _solve_lower(graph, frame, factors, pivots, b)
    return with_batch(graph, _solve_upper(graph, frame, factors, pivots, x), together)


def _decode_pivot(body: Graph, pivots: str, index: str, second: str, alone: str) -> tuple[str, str]:
    """(row, two): the row to exchange and whether the block has two rows, [batch, 1, 1] each.

    It has one at the index ``alone`` and in the second trip of a block.
    """
    op = OpBuilder(body)
    pivot_code = op.Gather(pivots, first_axis(body, index), axis=1)
    two = op.Less(pivot_code, 0)
    two = op.And(two, op.Not(op.Or(second, op.Equal(index, alone))))
    row = op.Sub(op.Abs(pivot_code), 1)
    return row, two


def _solve_lower(
    graph: Graph, frame: _LoopConstants, factors: Tensor, pivots: str, b: Tensor
) -> Tensor:
    """x of L D x = b, from the first row to the last."""

    def loop_body(body: Graph, index: str, x: Tensor, second: str) -> list[Tensor]:
        op = OpBuilder(body)
        row, two = _decode_pivot(body, pivots, index, second, frame.last)
        end = op.Add(index, cast(body, two, dtypes.int64))
        source = swapped_indices(body, frame.rows, end, op.Where(second, end, row))
        moved = map_parts(body, "GatherND", [x, source], batch_dims=1)
        left, right = _pivot_columns(body, frame, factors, index)
        at = first_axis(body, index)
        after = op.Min(op.Add(index, 1), frame.last)
        upper = map_parts(body, "Gather", [moved, at], axis=1)
        lower = map_parts(body, "Gather", [moved, first_axis(body, after)], axis=1)
        rest = map_parts(body, "Sub", [moved, mul_elements(body, left, upper)])
        more = map_parts(body, "Sub", [rest, mul_elements(body, right, lower)])
        rest = map_parts(body, "Where", [two, more, rest])
        pivot = map_parts(body, "Gather", [left, at], axis=1)
        pivot = real_of(pivot) if frame.hermitian else pivot
        single = mul_elements(body, upper, div_elements(body, scalar_const(body, 1, pivot), pivot))
        both = _solve_block(body, frame, _pivot_block(body, factors, index, after), upper, lower)
        first = map_parts(body, "Where", [two, both[0], single])
        done = map_parts(body, "Where", [op.Equal(frame.rows, end), both[1], moved])
        done = map_parts(body, "Where", [op.Equal(frame.rows, index), first, done])
        done = map_parts(body, "Where", [op.Greater(frame.rows, end), rest, done])
        return [map_parts(body, "Where", [second, x, done]), two]

    return run_loop(graph, dim_of(graph, factors, 1), [b, _false_flags(graph, b)], loop_body)[0]


def _false_flags(graph: Graph, b: Tensor) -> str:
    return expanded(graph, const(graph, False, dtypes.boolean), [dim_of(graph, b, 0), 1, 1])


def _solve_block(
    body: Graph,
    frame: _LoopConstants,
    block: tuple[Tensor, Tensor, Tensor],
    upper: Tensor,
    lower: Tensor,
) -> tuple[Tensor, Tensor]:
    """Multiply the rows ``upper`` and ``lower`` by the inverse of a block of D."""
    head, below, tail = block
    above = frame.mirror_element(body, below)
    head, tail = div_elements(body, head, above), div_elements(body, tail, below)
    divisor = map_parts(body, "Sub", [mul_elements(body, head, tail), scalar_const(body, 1, below)])
    upper, lower = div_elements(body, upper, above), div_elements(body, lower, below)
    first = map_parts(body, "Sub", [mul_elements(body, tail, upper), lower])
    second = map_parts(body, "Sub", [mul_elements(body, head, lower), upper])
    return div_elements(body, first, divisor), div_elements(body, second, divisor)


def _solve_upper(
    graph: Graph, frame: _LoopConstants, factors: Tensor, pivots: str, b: Tensor
) -> Tensor:
    """x of L' x = b, from the last row to the first."""
    start = const(graph, 0, dtypes.int64)

    def loop_body(body: Graph, position: str, x: Tensor, second: str) -> list[Tensor]:
        op = OpBuilder(body)
        position = op.Sub(frame.last, position)
        row, two = _decode_pivot(body, pivots, position, second, start)
        before = op.Max(op.Sub(position, 1), start)
        under = op.Greater(frame.rows, position)
        zero = scalar_const(body, 0, x)
        solved_rows = map_parts(body, "Where", [under, x, zero])
        done = x
        for at, mask in ((before, two), (position, None)):
            index = first_axis(body, at)
            column = map_parts(body, "Gather", [factors, index], axis=2)
            column = map_parts(body, "Where", [under, column, zero])
            value = map_parts(body, "Gather", [x, index], axis=1)
            earlier = mul_matrices(body, frame.mirror_triangle(body, column), solved_rows)
            value = map_parts(body, "Sub", [value, earlier])
            here = op.Equal(frame.rows, at)
            here = here if mask is None else op.And(here, mask)
            done = map_parts(body, "Where", [here, value, done])
        done = map_parts(
            body, "GatherND", [done, swapped_indices(body, frame.rows, position, row)], batch_dims=1
        )
        return [map_parts(body, "Where", [second, x, done]), two]

    return run_loop(graph, dim_of(graph, factors, 1), [b, _false_flags(graph, b)], loop_body)[0]
