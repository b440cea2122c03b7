"""Factorize symmetric and Hermitian indefinite matrices, A = L D L', and solve from the factors.

A' is the transpose, or for Hermitian matrices the adjoint, of A.

The algorithms are LAPACK's unblocked sytf2 and hetf2 for the lower triangle, with Bunch-Kaufman
pivoting; D has blocks of one or two rows. The solvers are sytrs and hetrs. The operations are those
of LAPACK, in the same order.

Each trip of a Loop handles one column of each matrix of the batch. A block of two rows is handled
in one trip; the next one, its "second trip", leaves this matrix unchanged.
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

from .factor import swap_indices
from .field import (
    abs_elements,
    conj_elements,
    div_elements,
    is_pair,
    is_zero,
    map_parts,
    mul_elements,
    mul_matrices,
    pivot_magnitude,
    real_part,
    scalar_const,
)
from .matrix import (
    as_index_vector,
    axis_indices,
    batch_dims,
    broadcast_batch_dims,
    broadcast_to_batch,
    flatten_batch,
    run_loop,
    unflatten_batch,
)

__all__ = ["ldl_factors", "ldl_solved"]

_ALPHA = (1 + 17**0.5) / 8  # limits the element growth of a 2x2 step to that of two 1x1 steps


@dataclass(frozen=True)
class _LoopConstants:
    """Loop invariants of the factorization and the solvers."""

    rows: str  # the row indices [n, 1]
    columns: str  # the column indices [n]
    last: str  # the last index
    hermitian: bool  # whether the upper triangle is the conjugate of the lower one

    def mirror_triangle(self, body: Graph, x: Tensor) -> Tensor:
        """Return the transpose, conjugated for Hermitian matrices."""
        transpose: Callable[..., Tensor] = matrix_adjoint if self.hermitian else matrix_transpose
        return transpose(body, x)

    def mirror_element(self, body: Graph, x: Tensor) -> Tensor:
        """Return the element of the upper triangle that mirrors ``x`` in the lower one."""
        return conj_elements(body, x) if self.hermitian else x


@dataclass(frozen=True)
class _Pivot:
    """A pivot for each matrix, each field [batch, 1, 1]."""

    row: str  # the row to exchange with the last row of the block
    is_two_rows: str  # whether the block has two rows
    is_zero_column: str  # whether the column is zero on and below the diagonal


def ldl_factors(graph: Graph, x: Tensor, hermitian: Bool) -> Tensors:
    """Return [LD, pivots, info] of the factorization A = L D L'.

    LD has L below the blocks of D, which have one or two rows. The pivots are LAPACK's: int32, from
    1, negative for blocks of two rows. ``info`` is the number, from 1, of the first column whose
    block is zero, or 0.
    """
    batch, size = batch_dims(graph, x), dim_of(graph, x, -1)
    # torch's shape does not always show that both sides have the same size
    a = reshape_to(graph, flatten_batch(graph, x), [dims.product_of(batch), size, size])
    count = dim_of(graph, a, 0)
    shared = _loop_constants(graph, a, hermitian)

    def loop_body(
        body: Graph, index: str, a: Tensor, pivots: str, info: str, is_second_trip: str
    ) -> list[Tensor]:
        op, zero = OpBuilder(body), const(body, 0, dtypes.int64)
        full = _full_matrix(body, shared, a)
        pivot = _choose_pivot(body, shared, full, index)
        is_first_trip = op.Not(is_second_trip)
        is_two_rows = op.And(pivot.is_two_rows, is_first_trip)
        row = op.Where(is_second_trip, index, pivot.row)
        end = op.Add(index, cast(body, is_two_rows, dtypes.int64))
        source = swap_indices(body, shared.rows, end, row)
        full = map_parts(body, "GatherND", [full, source], batch_dims=1)
        full = map_parts(
            body, "GatherND", [shared.mirror_triangle(body, full), source], batch_dims=1
        )
        full = _eliminate_block(body, shared, full, index, is_two_rows)
        remaining = [op.GreaterOrEqual(axis, index) for axis in (shared.rows, shared.columns)]
        a = map_parts(body, "Where", [op.And(op("And", remaining), is_first_trip), full, a])
        pivot_code = op.Add(row, 1)
        pivot_code = op.Where(is_two_rows, op.Neg(pivot_code), pivot_code)
        is_pivot_row = op.And(op.Equal(shared.rows, index), is_first_trip)
        is_second_row = op.And(op.Equal(shared.rows, end), is_two_rows)
        pivots = op.Where(op.Or(is_pivot_row, is_second_row), pivot_code, pivots)
        is_first_zero = op.And(op.And(pivot.is_zero_column, is_first_trip), op.Equal(info, zero))
        index_from_one = op.Add(index, 1)
        return [a, pivots, op.Where(is_first_zero, index_from_one, info), is_two_rows]

    initial_codes = [zeros_of(graph, [count, rows, 1], dtypes.int64) for rows in (size, 1)]
    is_second_trip = expanded(graph, const(graph, False, dtypes.boolean), [count, 1, 1])
    a, pivots, info, _ = run_loop(graph, size, [a, *initial_codes, is_second_trip], loop_body)
    pivots = reshape_to(graph, cast(graph, pivots, dtypes.int32), [*batch, size])
    info = reshape_to(graph, cast(graph, info, dtypes.int32), batch)
    return [unflatten_batch(graph, triu(graph, a, False), batch), pivots, info]


def _loop_constants(graph: Graph, a: Tensor, hermitian: bool) -> _LoopConstants:
    last = as_scalar(graph, dim_of(graph, a, 1) - 1)
    return _LoopConstants(axis_indices(graph, a, -2), axis_indices(graph, a, -1), last, hermitian)


def _full_matrix(body: Graph, shared: _LoopConstants, a: Tensor) -> Tensor:
    """Return the symmetric or Hermitian matrix whose lower triangle is that of ``a``."""
    lower = OpBuilder(body).GreaterOrEqual(shared.rows, shared.columns)
    full = map_parts(body, "Where", [lower, a, shared.mirror_triangle(body, a)])
    if not shared.hermitian or not is_pair(full):
        return full
    # like LAPACK, ignore the imaginary part of the diagonal
    diagonal = OpBuilder(body).Equal(shared.rows, shared.columns)
    imag = OpBuilder(body).Where(diagonal, 0, full.imag)
    return ComplexValue(full.real, imag, full.dtype)


def _choose_pivot(body: Graph, shared: _LoopConstants, full: Tensor, index: str) -> _Pivot:
    """Choose the Bunch-Kaufman pivot at ``index``.

    The choice is to keep the row, to exchange it for the row of the largest element below it in the
    column, or to take both rows as one block.
    """
    op, at = OpBuilder(body), as_index_vector(body, index)
    column = pivot_magnitude(body, map_parts(body, "Gather", [full, at], axis=2))
    zero, alpha = const_like(body, 0, column), const_like(body, _ALPHA, column)
    diagonal = op.Gather(column, at, axis=1)
    is_below = op.Greater(shared.rows, index)
    magnitudes_below = op.Where(is_below, column, -1)
    best_row = op.Max(op.ArgMax(magnitudes_below, axis=1, keepdims=1), index)
    column_max = _max_masked(body, is_below, column, 1)
    row = pivot_magnitude(body, map_parts(body, "GatherND", [full, best_row], batch_dims=1))
    is_best_column = op.Equal(shared.columns, best_row)
    other_columns = op.And(op.GreaterOrEqual(shared.columns, index), op.Not(is_best_column))
    row_max = _max_masked(body, other_columns, row, 2)
    bound = op.Mul(alpha, column_max)
    keep_row = op.GreaterOrEqual(diagonal, bound)
    bound = op.Mul(bound, op.Div(column_max, row_max))
    keep_row = op.Or(keep_row, op.GreaterOrEqual(diagonal, bound))
    best_diagonal = _max_masked(body, is_best_column, row, 2)
    best_is_single = op.GreaterOrEqual(best_diagonal, op.Mul(alpha, row_max))
    is_two_rows = op.And(op.Not(op.Or(keep_row, best_is_single)), op.Less(index, shared.last))
    is_zero_column = op("And", [op.Equal(x, zero) for x in (diagonal, column_max)])
    return _Pivot(op.Where(keep_row, index, best_row), is_two_rows, is_zero_column)


def _max_masked(body: Graph, mask: str, x: str, axis: int) -> str:
    """Return the largest of the nonnegative values under the mask, 0 for an empty mask."""
    masked = OpBuilder(body).Where(mask, x, 0)
    return OpBuilder(body).ReduceMax(masked, consts(body, [axis], dtypes.int64), keepdims=1)


def _eliminate_block(
    body: Graph, shared: _LoopConstants, full: Tensor, index: str, is_two_rows: str
) -> Tensor:
    """Replace the columns below the block at ``index`` by factors; update the trailing matrix."""
    op, one = OpBuilder(body), const(body, 1, dtypes.int64)
    at = as_index_vector(body, index)
    left, right = _pivot_columns(body, shared, full, index)
    pivot = map_parts(body, "Gather", [left, at], axis=1)
    pivot = real_part(pivot) if shared.hermitian else pivot
    # if the pivot is zero, all elements below it are zero too
    unit = scalar_const(body, 1, pivot)
    divisor = map_parts(body, "Where", [is_zero(body, pivot), unit, pivot])
    single_factors = mul_elements(body, left, div_elements(body, unit, divisor))
    block = _pivot_block(body, full, index, op.Min(op.Add(index, one), shared.last))
    pair_factors = (_solve_hermitian if shared.hermitian else _solve_symmetric)(
        body, block, left, right
    )
    left_factors = map_parts(body, "Where", [is_two_rows, pair_factors[0], single_factors])
    updated = map_parts(
        body, "Sub", [full, mul_elements(body, left, shared.mirror_triangle(body, left_factors))]
    )
    updated_twice = map_parts(
        body,
        "Sub",
        [updated, mul_elements(body, right, shared.mirror_triangle(body, pair_factors[1]))],
    )
    updated = map_parts(body, "Where", [is_two_rows, updated_twice, updated])
    end = op.Add(index, cast(body, is_two_rows, dtypes.int64))
    factors = map_parts(
        body, "Where", [op.Equal(shared.columns, index), left_factors, pair_factors[1]]
    )
    lower_rows = map_parts(body, "Where", [op.Greater(shared.columns, end), updated, factors])
    return map_parts(body, "Where", [op.Greater(shared.rows, end), lower_rows, full])


def _pivot_columns(body: Graph, shared: _LoopConstants, x: Tensor, index: str) -> list[Tensor]:
    """Return the columns of ``x`` at ``index`` and ``index + 1``, or the last column twice."""
    second = OpBuilder(body).Add(index, 1)
    second = OpBuilder(body).Min(second, shared.last)
    return [
        map_parts(body, "Gather", [x, as_index_vector(body, i)], axis=2) for i in (index, second)
    ]


def _pivot_block(body: Graph, x: Tensor, first: str, second: str) -> tuple[Tensor, Tensor, Tensor]:
    """Return x[first, first], x[second, first] and x[second, second], [batch, 1, 1] each."""
    upper, lower = as_index_vector(body, first), as_index_vector(body, second)
    left, right = (map_parts(body, "Gather", [x, column], axis=2) for column in (upper, lower))
    return (
        map_parts(body, "Gather", [left, upper], axis=1),
        map_parts(body, "Gather", [left, lower], axis=1),
        map_parts(body, "Gather", [right, lower], axis=1),
    )


def _solve_symmetric(
    body: Graph, block: tuple[Tensor, Tensor, Tensor], left: Tensor, right: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the columns of [left, right] D^-1 for the block D = [[head, below], [below, tail]]."""
    head, below, tail = block
    one = scalar_const(body, 1, below)
    head_ratio, tail_ratio = div_elements(body, head, below), div_elements(body, tail, below)
    scale = map_parts(body, "Sub", [mul_elements(body, tail_ratio, head_ratio), one])
    scale = div_elements(body, div_elements(body, one, scale), below)
    first = map_parts(body, "Sub", [mul_elements(body, tail_ratio, left), right])
    second = map_parts(body, "Sub", [mul_elements(body, head_ratio, right), left])
    return mul_elements(body, scale, first), mul_elements(body, scale, second)


def _solve_hermitian(
    body: Graph, block: tuple[Tensor, Tensor, Tensor], left: Tensor, right: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the columns of [left, right] D^-1 for a Hermitian block D, real or complex."""
    if not is_pair(left):
        return _solve_symmetric(body, block, left, right)
    head, below, tail = block
    magnitude = abs_elements(body, below)
    one = scalar_const(body, 1, magnitude)
    head_ratio, tail_ratio = (div_elements(body, real_part(x), magnitude) for x in (head, tail))
    scale = map_parts(body, "Sub", [mul_elements(body, tail_ratio, head_ratio), one])
    scale = div_elements(body, div_elements(body, one, scale), magnitude)
    phase = div_elements(body, below, magnitude)
    first = map_parts(
        body, "Sub", [mul_elements(body, left, tail_ratio), mul_elements(body, phase, right)]
    )
    rotated_left = mul_elements(body, conj_elements(body, phase), left)
    second = map_parts(body, "Sub", [mul_elements(body, right, head_ratio), rotated_left])
    return mul_elements(body, first, scale), mul_elements(body, second, scale)


# -- solutions -----------------------------------------------------------------------------------


def ldl_solved(graph: Graph, factors: Tensor, pivots: Tensor, b: Tensor, hermitian: Bool) -> Tensor:
    """Solve A x = b from the results of `ldl_factors`; leading dimensions broadcast."""
    batch, size = broadcast_batch_dims(graph, [factors, b]), dim_of(graph, factors, -1)
    factors, b = (flatten_batch(graph, broadcast_to_batch(graph, x, batch)) for x in (factors, b))
    pivots = unsqueezed(
        graph, cast(graph, pivots, dtypes.int64), [len(batch_dims(graph, pivots, 0))]
    )
    pivots = flatten_batch(graph, expanded(graph, pivots, [*batch, size, 1]))
    shared = _loop_constants(graph, factors, hermitian)
    x = _solve_lower(graph, shared, factors, pivots, b)
    return unflatten_batch(graph, _solve_upper(graph, shared, factors, pivots, x), batch)


def _decode_pivot(
    body: Graph, pivots: str, index: str, is_second_trip: str, last_index: str
) -> tuple[str, str]:
    """Return (row, is_two_rows): the row to exchange, and whether the block has two rows.

    Both are [batch, 1, 1]. ``is_two_rows`` is false in the second trip of a block, and at
    ``last_index``, the end of the Loop, where no block of two rows starts.
    """
    op = OpBuilder(body)
    pivot_code = op.Gather(pivots, as_index_vector(body, index), axis=1)
    is_two_rows = op.Less(pivot_code, 0)
    is_two_rows = op.And(is_two_rows, op.Not(op.Or(is_second_trip, op.Equal(index, last_index))))
    row = op.Sub(op.Abs(pivot_code), 1)
    return row, is_two_rows


def _solve_lower(
    graph: Graph, shared: _LoopConstants, factors: Tensor, pivots: str, b: Tensor
) -> Tensor:
    """Solve L D x = b, from the first row to the last, with the row exchanges of ``pivots``."""

    def loop_body(body: Graph, index: str, x: Tensor, is_second_trip: str) -> list[Tensor]:
        op = OpBuilder(body)
        row, is_two_rows = _decode_pivot(body, pivots, index, is_second_trip, shared.last)
        end = op.Add(index, cast(body, is_two_rows, dtypes.int64))
        source = swap_indices(body, shared.rows, end, op.Where(is_second_trip, end, row))
        exchanged = map_parts(body, "GatherND", [x, source], batch_dims=1)
        left, right = _pivot_columns(body, shared, factors, index)
        at = as_index_vector(body, index)
        second = op.Min(op.Add(index, 1), shared.last)
        upper = map_parts(body, "Gather", [exchanged, at], axis=1)
        lower = map_parts(body, "Gather", [exchanged, as_index_vector(body, second)], axis=1)
        updated = map_parts(body, "Sub", [exchanged, mul_elements(body, left, upper)])
        updated_twice = map_parts(body, "Sub", [updated, mul_elements(body, right, lower)])
        updated = map_parts(body, "Where", [is_two_rows, updated_twice, updated])
        pivot = map_parts(body, "Gather", [left, at], axis=1)
        pivot = real_part(pivot) if shared.hermitian else pivot
        single_value = mul_elements(
            body, upper, div_elements(body, scalar_const(body, 1, pivot), pivot)
        )
        pair_values = _solve_block(
            body, shared, _pivot_block(body, factors, index, second), upper, lower
        )
        upper_value = map_parts(body, "Where", [is_two_rows, pair_values[0], single_value])
        result = map_parts(body, "Where", [op.Equal(shared.rows, end), pair_values[1], exchanged])
        result = map_parts(body, "Where", [op.Equal(shared.rows, index), upper_value, result])
        result = map_parts(body, "Where", [op.Greater(shared.rows, end), updated, result])
        return [map_parts(body, "Where", [is_second_trip, x, result]), is_two_rows]

    return run_loop(graph, dim_of(graph, factors, 1), [b, _false_flags(graph, b)], loop_body)[0]


def _false_flags(graph: Graph, b: Tensor) -> str:
    return expanded(graph, const(graph, False, dtypes.boolean), [dim_of(graph, b, 0), 1, 1])


def _solve_block(
    body: Graph,
    shared: _LoopConstants,
    block: tuple[Tensor, Tensor, Tensor],
    upper: Tensor,
    lower: Tensor,
) -> tuple[Tensor, Tensor]:
    """Return the rows of D^-1 [upper; lower] for a block D of two rows."""
    head, below, tail = block
    above = shared.mirror_element(body, below)
    head, tail = div_elements(body, head, above), div_elements(body, tail, below)
    divisor = map_parts(body, "Sub", [mul_elements(body, head, tail), scalar_const(body, 1, below)])
    upper, lower = div_elements(body, upper, above), div_elements(body, lower, below)
    first = map_parts(body, "Sub", [mul_elements(body, tail, upper), lower])
    second = map_parts(body, "Sub", [mul_elements(body, head, lower), upper])
    return div_elements(body, first, divisor), div_elements(body, second, divisor)


def _solve_upper(
    graph: Graph, shared: _LoopConstants, factors: Tensor, pivots: str, b: Tensor
) -> Tensor:
    """Solve L' x = b, from the last row to the first, with the row exchanges of ``pivots``."""
    start = const(graph, 0, dtypes.int64)

    def loop_body(body: Graph, trip: str, x: Tensor, is_second_trip: str) -> list[Tensor]:
        op = OpBuilder(body)
        position = op.Sub(shared.last, trip)
        row, is_two_rows = _decode_pivot(body, pivots, position, is_second_trip, start)
        previous = op.Max(op.Sub(position, 1), start)
        is_below = op.Greater(shared.rows, position)
        zero = scalar_const(body, 0, x)
        solved_rows = map_parts(body, "Where", [is_below, x, zero])
        result = x
        for target, mask in ((previous, is_two_rows), (position, None)):
            index = as_index_vector(body, target)
            column = map_parts(body, "Gather", [factors, index], axis=2)
            column = map_parts(body, "Where", [is_below, column, zero])
            value = map_parts(body, "Gather", [x, index], axis=1)
            solved_part = mul_matrices(body, shared.mirror_triangle(body, column), solved_rows)
            value = map_parts(body, "Sub", [value, solved_part])
            is_target = op.Equal(shared.rows, target)
            is_target = is_target if mask is None else op.And(is_target, mask)
            result = map_parts(body, "Where", [is_target, value, result])
        result = map_parts(
            body,
            "GatherND",
            [result, swap_indices(body, shared.rows, position, row)],
            batch_dims=1,
        )
        return [map_parts(body, "Where", [is_second_trip, x, result]), is_two_rows]

    return run_loop(graph, dim_of(graph, factors, 1), [b, _false_flags(graph, b)], loop_body)[0]
