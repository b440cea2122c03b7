"""Factorize batches of matrices [batch, rows, columns] and solve equations from the factors.

The factorizations are LU with partial pivoting, Cholesky, and Householder reflectors. Each trip of
a Loop handles one column of a factorization, or one row of a solution. A' is the adjoint of A.
"""

from __future__ import annotations

from ortable import dtypes
from ortable.dims import Dim
from ortable.ir import Graph
from ortable.prelude.complex_arithmetic import matrix_adjoint
from ortable.prelude.complex_value import ComplexValue, part_type
from ortable.prelude.facts import Tensor, dim_of, dtype_of
from ortable.prelude.matrices import smaller_side, triu
from ortable.prelude.op_builder import OpBuilder
from ortable.prelude.pointwise import const_like, filled_like
from ortable.prelude.shapes import expanded, iota, zeros_of
from ortable.prelude.values import as_scalar, cast, const, consts, squeezed, unsqueezed

from .field import (
    cast_to_field,
    conj_elements,
    div_elements,
    embed_real,
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
    identity_batch,
    overflow_scale,
    run_loop,
    sum_of_squares,
)


def decompose_lu(graph: Graph, a: Tensor) -> tuple[Tensor, str, str]:
    """Return (LU, pivots, order) of an LU factorization with partial pivoting.

    LU has both factors in one matrix. The pivots are LAPACK's: int32, counted from 1. ``order``
    holds, for each row of the product L U, the row of ``a`` that it equals.
    """
    rows, columns, count = (
        axis_indices(graph, a, -2),
        axis_indices(graph, a, -1),
        smaller_side(graph, a),
    )
    row_indices = iota(graph, 0, dim_of(graph, a, 1), 1)
    pivot_indices = iota(graph, 0, count, 1)
    order = expanded(
        graph, unsqueezed(graph, row_indices, [0]), [dim_of(graph, a, 0), dim_of(graph, a, 1)]
    )
    pivots = zeros_of(graph, [dim_of(graph, a, 0), count], dtypes.int64)

    def loop_body(body: Graph, index: str, a: Tensor, order: str, pivots: str) -> list[Tensor]:
        op, at = OpBuilder(body), as_index_vector(body, index)
        magnitude = pivot_magnitude(body, map_parts(body, "Gather", [a, at], axis=2))
        is_remaining = op.GreaterOrEqual(rows, index)
        magnitude = op.Where(is_remaining, magnitude, -1)
        pivot_row = op.Max(op.ArgMax(magnitude, axis=1, keepdims=1), index)
        pivot_row = op.Squeeze(pivot_row, consts(body, [2], dtypes.int64))
        source = unsqueezed(body, swap_indices(body, row_indices, index, pivot_row), [2])
        a = map_parts(body, "GatherND", [a, source], batch_dims=1)
        order = op.GatherND(order, source, batch_dims=1)
        one = const(body, 1, dtypes.int64)
        pivots = op.Where(op.Equal(pivot_indices, index), op.Add(pivot_row, one), pivots)
        return [_eliminate_column(body, a, index, rows, columns), order, pivots]

    a, order, pivots = run_loop(graph, count, [a, order, pivots], loop_body)
    return a, cast(graph, pivots, dtypes.int32), order


def swap_indices(body: Graph, line: str, first: str, second: str) -> str:
    """Return the row indices ``line`` with ``first`` and ``second`` exchanged, for each matrix."""
    op = OpBuilder(body)
    result = op.Where(op.Equal(line, second), first, line)
    return op.Where(op.Equal(line, first), second, result)


def _eliminate_column(body: Graph, a: Tensor, index: str, rows: str, columns: str) -> Tensor:
    """Divide the column at ``index`` below its pivot by the pivot, and update the later columns."""
    op, at = OpBuilder(body), as_index_vector(body, index)
    column, pivot_row_values = (map_parts(body, "Gather", [a, at], axis=axis) for axis in (2, 1))
    pivot = map_parts(body, "Gather", [column, at], axis=1)
    # if the pivot is zero, all elements below it are zero too
    divisor = map_parts(body, "Where", [is_zero(body, pivot), scalar_const(body, 1, a), pivot])
    factors = div_elements(body, column, divisor)
    is_below = op.Greater(rows, index)
    trailing = op.And(is_below, op.Greater(columns, index))
    current = op.And(is_below, op.Equal(columns, index))
    updated = map_parts(body, "Sub", [a, mul_elements(body, factors, pivot_row_values)])
    return map_parts(
        body, "Where", [trailing, updated, map_parts(body, "Where", [current, factors, a])]
    )


def rows_from_pivots(graph: Graph, pivots: str, rows: Dim) -> str:
    """Return the row order [batch, rows] of `decompose_lu` from LAPACK's ``pivots``."""
    row_indices = iota(graph, 0, rows, 1)
    order = expanded(graph, unsqueezed(graph, row_indices, [0]), [dim_of(graph, pivots, 0), rows])
    pivots = cast(graph, pivots, dtypes.int64)

    def loop_body(body: Graph, index: str, order: str) -> list[str]:
        op = OpBuilder(body)
        pivot_row = op.Gather(pivots, as_index_vector(body, index), axis=1)
        pivot_row = op.Sub(pivot_row, 1)
        source = unsqueezed(body, swap_indices(body, row_indices, index, pivot_row), [2])
        return [op.GatherND(order, source, batch_dims=1)]

    return run_loop(graph, dim_of(graph, pivots, 1), [order], loop_body)[0]


def permutation_matrix(graph: Graph, order: str, dtype: int) -> Tensor:
    """Return P [batch, rows, rows] of A = P L U."""
    row_indices = unsqueezed(graph, iota(graph, 0, dim_of(graph, order, 1), 1), [1])
    return cast_to_field(
        graph, OpBuilder(graph).Equal(row_indices, unsqueezed(graph, order, [1])), dtype
    )


def permute_rows(graph: Graph, x: Tensor, order: str, back: bool) -> Tensor:
    """Gather the rows of ``x`` by ``order`` [batch, rows], or by its inverse if ``back``."""
    if back:
        matches = cast(graph, permutation_matrix(graph, order, dtypes.int32), dtypes.int32)
        order = OpBuilder(graph).ArgMax(matches, axis=2, keepdims=0)
    return map_parts(graph, "GatherND", [x, unsqueezed(graph, order, [2])], batch_dims=1)


def solve_triangular(graph: Graph, a: Tensor, b: Tensor, upper: bool, unit: bool) -> Tensor:
    """Solve a x = b for the upper or the lower triangle of ``a``; its diagonal is 1 if ``unit``."""
    rows, columns = axis_indices(graph, a, -2), axis_indices(graph, a, -1)
    last = as_scalar(graph, dim_of(graph, a, 1) - 1)

    def loop_body(body: Graph, index: str, x: Tensor) -> list[Tensor]:
        op = OpBuilder(body)
        index = op.Sub(last, index) if upper else index
        at = as_index_vector(body, index)
        row = map_parts(body, "Gather", [a, at], axis=1)
        is_solved = op("Greater" if upper else "Less", [columns, index])
        factors = map_parts(body, "Where", [is_solved, row, scalar_const(body, 0, a)])
        earlier = mul_matrices(body, factors, x)
        value = map_parts(body, "Sub", [map_parts(body, "Gather", [b, at], axis=1), earlier])
        if not unit:
            value = div_elements(body, value, map_parts(body, "Gather", [row, at], axis=2))
        return [map_parts(body, "Where", [op.Equal(rows, index), value, x])]

    zeros = filled_like(graph, real_part(b), 0, part_type(dtype_of(graph, b)))
    start = ComplexValue(zeros, zeros, b.dtype) if is_pair(b) else zeros
    return run_loop(graph, dim_of(graph, a, 1), [start], loop_body)[0]


def solve_lu(graph: Graph, factors: Tensor, order: str, b: Tensor, across: bool) -> Tensor:
    """Solve A x = b, or A' x = b if ``across``, from the results of `decompose_lu`."""
    if across:
        adjoint = matrix_adjoint(graph, factors)
        z = solve_triangular(graph, adjoint, b, False, False)
        return permute_rows(graph, solve_triangular(graph, adjoint, z, True, True), order, True)
    y = solve_triangular(graph, factors, permute_rows(graph, b, order, False), False, True)
    return solve_triangular(graph, factors, y, True, False)


def decompose_cholesky(graph: Graph, a: Tensor) -> tuple[Tensor, str]:
    """Return (L, info) of the Cholesky factorization A = L L', from the lower triangle of ``a``.

    ``info`` [batch] is the number, from 1, of the first column whose pivot is not positive, or 0.
    """
    rows, columns = axis_indices(graph, a, -2), axis_indices(graph, a, -1)
    info = zeros_of(graph, [dim_of(graph, a, 0), 1, 1], dtypes.int64)

    def loop_body(body: Graph, index: str, a: Tensor, info: str) -> list[Tensor]:
        op, at = OpBuilder(body), as_index_vector(body, index)
        column = map_parts(body, "Gather", [a, at], axis=2)
        pivot = op.Gather(real_part(column), at, axis=1)
        root = op.Sqrt(pivot)
        is_pivot = op.Equal(rows, index)
        column = map_parts(
            body, "Where", [is_pivot, embed_real(body, root, a), div_elements(body, column, root)]
        )
        trailing = op.And(op.Greater(rows, index), op.Greater(columns, index))
        updated = map_parts(
            body, "Sub", [a, mul_elements(body, column, matrix_adjoint(body, column))]
        )
        current = op.Equal(columns, index)
        a = map_parts(
            body, "Where", [trailing, updated, map_parts(body, "Where", [current, column, a])]
        )
        is_positive = op.Greater(pivot, 0)
        failed_before = op.Greater(info, 0)
        column_number = op.Add(index, 1)
        return [a, op.Where(op.Or(is_positive, failed_before), info, column_number)]

    a, info = run_loop(graph, dim_of(graph, a, 1), [a, info], loop_body)
    info = OpBuilder(graph).Squeeze(info, consts(graph, [1, 2], dtypes.int64))
    return triu(graph, a, False), cast(graph, info, dtypes.int32)


def householder_reflectors(graph: Graph, a: Tensor) -> tuple[Tensor, Tensor]:
    """Return (a, tau) of LAPACK's geqrf.

    ``a`` holds R, and below its diagonal the reflectors v without their leading 1. The reflector
    of a column is I - tau v v'.
    """
    rows, columns, count = (
        axis_indices(graph, a, -2),
        axis_indices(graph, a, -1),
        smaller_side(graph, a),
    )
    column_indices = iota(graph, 0, count, 1)
    tau = zeros_of(graph, [dim_of(graph, a, 0), count], dtype_of(graph, a))
    scale = overflow_scale(graph, a)

    def loop_body(body: Graph, index: str, a: Tensor, tau: Tensor) -> list[Tensor]:
        op, at = OpBuilder(body), as_index_vector(body, index)
        zero, one = scalar_const(body, 0, a), scalar_const(body, 1, a)
        column = map_parts(body, "Gather", [a, at], axis=2)
        head = map_parts(body, "Gather", [column, at], axis=1)
        is_below, is_diagonal = op.Greater(rows, index), op.Equal(rows, index)
        tail = map_parts(body, "Where", [is_below, column, zero])
        squares = sum_of_squares(body, tail)
        beta, column_tau, is_reduced = _make_reflector(body, head, squares)
        divisor = map_parts(body, "Where", [is_reduced, one, map_parts(body, "Sub", [head, beta])])
        vector = map_parts(body, "Where", [is_diagonal, one, div_elements(body, tail, divisor)])
        updated = _apply_reflector(body, a, vector, conj_elements(body, column_tau))
        changed = op.And(is_diagonal, op.Not(is_reduced))
        with_beta = map_parts(body, "Where", [changed, beta, column])
        column = map_parts(body, "Where", [is_below, vector, with_beta])
        replaced = map_parts(body, "Where", [op.Equal(columns, index), column, a])
        a = map_parts(body, "Where", [op.Greater(columns, index), updated, replaced])
        column_tau = squeezed(body, column_tau, [2])
        return [a, map_parts(body, "Where", [op.Equal(column_indices, index), column_tau, tau])]

    a, tau = run_loop(graph, count, [map_parts(graph, "Div", [a, scale]), tau], loop_body)
    is_upper = OpBuilder(graph).LessOrEqual(rows, columns)  # reflectors are not scaled
    return map_parts(graph, "Where", [is_upper, mul_elements(graph, a, scale), a]), tau


def _make_reflector(body: Graph, head: Tensor, tail_squares: str) -> tuple[Tensor, Tensor, str]:
    """Return (beta, tau, is_reduced) of a Householder reflector.

    ``beta`` is the new head. ``is_reduced`` is true if the tail is 0 and the head real; the column
    then keeps its head, ``tau`` is 0 and ``beta`` is 1, which the caller ignores.
    """
    op, real = OpBuilder(body), real_part(head)
    zero, one = const_like(body, 0, real), const_like(body, 1, real)
    is_reduced, head_square = op.Equal(tail_squares, zero), op.Mul(real, real)
    if is_pair(head):
        is_reduced = op.And(is_reduced, op.Equal(head.imag, zero))
        head_square = op.Add(head_square, op.Mul(head.imag, head.imag))
    length = op.Sqrt(op.Add(head_square, tail_squares))
    beta = op.Where(op.Less(real, zero), length, op.Neg(length))
    beta = op.Where(is_reduced, one, beta)
    tau: Tensor = op.Where(is_reduced, zero, op.Div(op.Sub(beta, real), beta))
    if is_pair(head):
        imag_tau = op.Div(op.Neg(head.imag), beta)
        imag_tau = op.Where(is_reduced, zero, imag_tau)
        tau = ComplexValue(tau, imag_tau, head.dtype)
    return embed_real(body, beta, head), tau, is_reduced


def _apply_reflector(body: Graph, x: Tensor, vector: Tensor, tau: Tensor) -> Tensor:
    """Return x - tau v (v' x)."""
    projection = mul_matrices(body, matrix_adjoint(body, vector), x)
    update = mul_elements(body, mul_elements(body, tau, vector), projection)
    return map_parts(body, "Sub", [x, update])


def apply_reflectors(graph: Graph, a: Tensor, tau: Tensor, x: Tensor, across: bool) -> Tensor:
    """Return Q x, or Q' x if ``across``, for the product Q of the reflectors ``a`` and ``tau``."""
    rows, count = axis_indices(graph, a, -2), dim_of(graph, tau, 1)
    last = as_scalar(graph, count - 1)

    def loop_body(body: Graph, index: str, x: Tensor) -> list[Tensor]:
        op = OpBuilder(body)
        index = index if across else op.Sub(last, index)
        at = as_index_vector(body, index)
        column = map_parts(body, "Gather", [a, at], axis=2)
        is_below = op.Greater(rows, index)
        tail = map_parts(body, "Where", [is_below, column, scalar_const(body, 0, a)])
        vector = map_parts(body, "Where", [op.Equal(rows, index), scalar_const(body, 1, a), tail])
        tau_i = unsqueezed(body, map_parts(body, "Gather", [tau, at], axis=1), [2])
        return [_apply_reflector(body, x, vector, conj_elements(body, tau_i) if across else tau_i)]

    return run_loop(graph, count, [x], loop_body)[0]


def orthogonal_columns(graph: Graph, a: Tensor, tau: Tensor, columns: Dim) -> Tensor:
    """Return the first ``columns`` columns of the product of the reflectors."""
    start = identity_batch(graph, a, dim_of(graph, a, 1), columns)
    return apply_reflectors(graph, a, tau, start, False)
