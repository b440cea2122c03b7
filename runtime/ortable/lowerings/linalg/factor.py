"""Factorisations of batches of matrices [batch, rows, columns], one column in each trip of a Loop:
LU with partial pivoting, Cholesky, Householder reflectors; and solutions from these factors.
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
    as_kind,
    conj_elements,
    div_elements,
    from_real,
    is_pair,
    is_zero,
    map_parts,
    mul_elements,
    mul_matrices,
    real_of,
    rough_size,
    scalar_const,
)
from .matrix import axis_indices, first_axis, run_loop, scale_of, sum_of_squares, unit_batch


def decompose_lu(graph: Graph, a: Tensor) -> tuple[Tensor, str, str]:
    """(LU, pivots, order): the factors in one matrix, LAPACK's int32 pivots counted from 1, and
    which row of ``a`` each row of the product is."""
    rows, columns, count = (
        axis_indices(graph, a, -2),
        axis_indices(graph, a, -1),
        smaller_side(graph, a),
    )
    line = iota(graph, 0, dim_of(graph, a, 1), 1)
    marks = iota(graph, 0, count, 1)
    order = expanded(
        graph, unsqueezed(graph, line, [0]), [dim_of(graph, a, 0), dim_of(graph, a, 1)]
    )
    pivots = zeros_of(graph, [dim_of(graph, a, 0), count], dtypes.int64)

    def loop_body(body: Graph, index: str, a: Tensor, order: str, pivots: str) -> list[Tensor]:
        op, at = OpBuilder(body), first_axis(body, index)
        size = rough_size(body, map_parts(body, "Gather", [a, at], axis=2))
        open_ = op.GreaterOrEqual(rows, index)
        size = op.Where(open_, size, -1)
        best = op.Max(op.ArgMax(size, axis=1, keepdims=1), index)
        best = op.Squeeze(best, consts(body, [2], dtypes.int64))
        source = unsqueezed(body, swapped_indices(body, line, index, best), [2])
        a = map_parts(body, "GatherND", [a, source], batch_dims=1)
        order = op.GatherND(order, source, batch_dims=1)
        one = const(body, 1, dtypes.int64)
        pivots = op.Where(op.Equal(marks, index), op.Add(best, one), pivots)
        return [_eliminate_column(body, a, index, rows, columns), order, pivots]

    a, order, pivots = run_loop(graph, count, [a, order, pivots], loop_body)
    return a, cast(graph, pivots, dtypes.int32), order


def swapped_indices(body: Graph, line: str, first: str, second: str) -> str:
    """[batch, rows]: the indices 0, 1, ... with ``first`` and ``second`` [batch, 1] exchanged."""
    op = OpBuilder(body)
    result = op.Where(op.Equal(line, second), first, line)
    return op.Where(op.Equal(line, first), second, result)


def _eliminate_column(body: Graph, a: Tensor, index: str, rows: str, columns: str) -> Tensor:
    """Divide the column at ``index`` by its pivot, and subtract its products from the columns after
    it.
    """
    op, at = OpBuilder(body), first_axis(body, index)
    column, across = (map_parts(body, "Gather", [a, at], axis=axis) for axis in (2, 1))
    pivot = map_parts(body, "Gather", [column, at], axis=1)
    # a pivot of zero stands over zeros
    divisor = map_parts(body, "Where", [is_zero(body, pivot), scalar_const(body, 1, a), pivot])
    factors = div_elements(body, column, divisor)
    under = op.Greater(rows, index)
    inside = op.And(under, op.Greater(columns, index))
    here = op.And(under, op.Equal(columns, index))
    rest = map_parts(body, "Sub", [a, mul_elements(body, factors, across)])
    return map_parts(body, "Where", [inside, rest, map_parts(body, "Where", [here, factors, a])])


def row_order(graph: Graph, pivots: str, rows: Dim) -> str:
    """[batch, rows]: the source row of each row after the exchanges of ``pivots`` [batch, count],
    in turn.
    """
    line = iota(graph, 0, rows, 1)
    order = expanded(graph, unsqueezed(graph, line, [0]), [dim_of(graph, pivots, 0), rows])
    pivots = cast(graph, pivots, dtypes.int64)

    def loop_body(body: Graph, index: str, order: str) -> list[str]:
        op = OpBuilder(body)
        other = op.Gather(pivots, first_axis(body, index), axis=1)
        other = op.Sub(other, 1)
        source = unsqueezed(body, swapped_indices(body, line, index, other), [2])
        return [op.GatherND(order, source, batch_dims=1)]

    return run_loop(graph, dim_of(graph, pivots, 1), [order], loop_body)[0]


def permutation_matrix(graph: Graph, order: str, dtype: int) -> Tensor:
    """[batch, rows, rows]: P of A = P L U."""
    line = unsqueezed(graph, iota(graph, 0, dim_of(graph, order, 1), 1), [1])
    return as_kind(graph, OpBuilder(graph).Equal(line, unsqueezed(graph, order, [1])), dtype)


def permute_rows(graph: Graph, x: Tensor, order: str, back: bool) -> Tensor:
    """Gather the rows of ``x`` [batch, rows, columns] by ``order`` [batch, rows], or invert
    that.
    """
    if back:
        hits = cast(graph, permutation_matrix(graph, order, dtypes.int32), dtypes.int32)
        order = OpBuilder(graph).ArgMax(hits, axis=2, keepdims=0)
    return map_parts(graph, "GatherND", [x, unsqueezed(graph, order, [2])], batch_dims=1)


def solve_triangular(graph: Graph, a: Tensor, b: Tensor, upper: bool, unit: bool) -> Tensor:
    """The solution of a x = b by substitution; the other triangle of ``a`` is not read."""
    rows, columns = axis_indices(graph, a, -2), axis_indices(graph, a, -1)
    last = as_scalar(graph, dim_of(graph, a, 1) - 1)

    def loop_body(body: Graph, index: str, x: Tensor) -> list[Tensor]:
        op = OpBuilder(body)
        index = op.Sub(last, index) if upper else index
        at = first_axis(body, index)
        row = map_parts(body, "Gather", [a, at], axis=1)
        solved = op("Greater" if upper else "Less", [columns, index])
        factors = map_parts(body, "Where", [solved, row, scalar_const(body, 0, a)])
        earlier = mul_matrices(body, factors, x)
        value = map_parts(body, "Sub", [map_parts(body, "Gather", [b, at], axis=1), earlier])
        if not unit:
            value = div_elements(body, value, map_parts(body, "Gather", [row, at], axis=2))
        return [map_parts(body, "Where", [op.Equal(rows, index), value, x])]

    nothing = filled_like(graph, real_of(b), 0, part_type(dtype_of(graph, b)))
    start = ComplexValue(nothing, nothing, b.dtype) if is_pair(b) else nothing
    return run_loop(graph, dim_of(graph, a, 1), [start], loop_body)[0]


def lu_solution(graph: Graph, factors: Tensor, order: str, b: Tensor, across: bool) -> Tensor:
    """x of A x = b, or (``across``) of its adjoint, from the results of `decompose_lu`."""
    if across:
        turned = matrix_adjoint(graph, factors)
        middle = solve_triangular(graph, turned, b, False, False)
        return permute_rows(graph, solve_triangular(graph, turned, middle, True, True), order, True)
    below = solve_triangular(graph, factors, permute_rows(graph, b, order, False), False, True)
    return solve_triangular(graph, factors, below, True, False)


def decompose_cholesky(graph: Graph, a: Tensor) -> tuple[Tensor, str]:
    """(L, info) of the lower triangle of ``a``; info [batch] counts from 1 the first column
    where the matrix is not positive definite."""
    rows, columns = axis_indices(graph, a, -2), axis_indices(graph, a, -1)
    info = zeros_of(graph, [dim_of(graph, a, 0), 1, 1], dtypes.int64)

    def loop_body(body: Graph, index: str, a: Tensor, info: str) -> list[Tensor]:
        op, at = OpBuilder(body), first_axis(body, index)
        column = map_parts(body, "Gather", [a, at], axis=2)
        head = op.Gather(real_of(column), at, axis=1)
        root = op.Sqrt(head)
        top = op.Equal(rows, index)
        column = map_parts(
            body, "Where", [top, from_real(body, root, a), div_elements(body, column, root)]
        )
        inside = op.And(op.Greater(rows, index), op.Greater(columns, index))
        rest = map_parts(body, "Sub", [a, mul_elements(body, column, matrix_adjoint(body, column))])
        here = op.Equal(columns, index)
        a = map_parts(body, "Where", [inside, rest, map_parts(body, "Where", [here, column, a])])
        fine = op.Greater(head, 0)
        failed_before = op.Greater(info, 0)
        column_number = op.Add(index, 1)
        return [a, op.Where(op.Or(fine, failed_before), info, column_number)]

    a, info = run_loop(graph, dim_of(graph, a, 1), [a, info], loop_body)
    info = OpBuilder(graph).Squeeze(info, consts(graph, [1, 2], dtypes.int64))
    return triu(graph, a, False), cast(graph, info, dtypes.int32)


def householder_reflectors(graph: Graph, a: Tensor) -> tuple[Tensor, Tensor]:
    """(a, tau) of LAPACK's geqrf: R above the reflectors 1 - tau v v', without the leading 1 of
    each v.
    """
    rows, columns, count = (
        axis_indices(graph, a, -2),
        axis_indices(graph, a, -1),
        smaller_side(graph, a),
    )
    marks = iota(graph, 0, count, 1)
    tau = zeros_of(graph, [dim_of(graph, a, 0), count], dtype_of(graph, a))
    scale = scale_of(graph, a)

    def loop_body(body: Graph, index: str, a: Tensor, tau: Tensor) -> list[Tensor]:
        op, at = OpBuilder(body), first_axis(body, index)
        zero, one = scalar_const(body, 0, a), scalar_const(body, 1, a)
        column = map_parts(body, "Gather", [a, at], axis=2)
        head = map_parts(body, "Gather", [column, at], axis=1)
        under, here = op.Greater(rows, index), op.Equal(rows, index)
        tail = map_parts(body, "Where", [under, column, zero])
        squares = sum_of_squares(body, tail)
        beta, own, done = _make_reflector(body, head, squares)
        divisor = map_parts(body, "Where", [done, one, map_parts(body, "Sub", [head, beta])])
        vector = map_parts(body, "Where", [here, one, div_elements(body, tail, divisor)])
        rest = _apply_reflector(body, a, vector, conj_elements(body, own))
        changed = op.And(here, op.Not(done))
        top = map_parts(body, "Where", [changed, beta, column])
        column = map_parts(body, "Where", [under, vector, top])
        replaced = map_parts(body, "Where", [op.Equal(columns, index), column, a])
        a = map_parts(body, "Where", [op.Greater(columns, index), rest, replaced])
        own = squeezed(body, own, [2])
        return [a, map_parts(body, "Where", [op.Equal(marks, index), own, tau])]

    a, tau = run_loop(graph, count, [map_parts(graph, "Div", [a, scale]), tau], loop_body)
    above = OpBuilder(graph).LessOrEqual(rows, columns)  # reflectors have no scale
    return map_parts(graph, "Where", [above, mul_elements(graph, a, scale), a]), tau


def _make_reflector(body: Graph, head: Tensor, squares: str) -> tuple[Tensor, Tensor, str]:
    """(beta, tau, done): the new head, the factor of the reflector, and whether nothing changes,
    since the rest is 0 and the head is real.
    """
    op, real = OpBuilder(body), real_of(head)
    zero, one = const_like(body, 0, real), const_like(body, 1, real)
    done, square = op.Equal(squares, zero), op.Mul(real, real)
    if is_pair(head):
        done = op.And(done, op.Equal(head.imag, zero))
        square = op.Add(square, op.Mul(head.imag, head.imag))
    length = op.Sqrt(op.Add(square, squares))
    beta = op.Where(op.Less(real, zero), length, op.Neg(length))
    beta = op.Where(done, one, beta)
    own: Tensor = op.Where(done, zero, op.Div(op.Sub(beta, real), beta))
    if is_pair(head):
        turned = op.Div(op.Neg(head.imag), beta)
        turned = op.Where(done, zero, turned)
        own = ComplexValue(own, turned, head.dtype)
    return from_real(body, beta, head), own, done


def _apply_reflector(body: Graph, x: Tensor, vector: Tensor, tau: Tensor) -> Tensor:
    """x - tau v (v' x)"""
    across = mul_matrices(body, matrix_adjoint(body, vector), x)
    shift = mul_elements(body, mul_elements(body, tau, vector), across)
    return map_parts(body, "Sub", [x, shift])


def apply_reflectors(graph: Graph, a: Tensor, tau: Tensor, x: Tensor, across: bool) -> Tensor:
    """Q x, or Q' x, for the product Q of the reflectors that ``a`` and ``tau`` hold."""
    rows, count = axis_indices(graph, a, -2), dim_of(graph, tau, 1)
    last = as_scalar(graph, count - 1)

    def loop_body(body: Graph, index: str, x: Tensor) -> list[Tensor]:
        op = OpBuilder(body)
        index = index if across else op.Sub(last, index)
        at = first_axis(body, index)
        column = map_parts(body, "Gather", [a, at], axis=2)
        under = op.Greater(rows, index)
        tail = map_parts(body, "Where", [under, column, scalar_const(body, 0, a)])
        vector = map_parts(body, "Where", [op.Equal(rows, index), scalar_const(body, 1, a), tail])
        own = unsqueezed(body, map_parts(body, "Gather", [tau, at], axis=1), [2])
        return [_apply_reflector(body, x, vector, conj_elements(body, own) if across else own)]

    return run_loop(graph, count, [x], loop_body)[0]


def orthogonal_columns(graph: Graph, a: Tensor, tau: Tensor, columns: Dim) -> Tensor:
    """The first ``columns`` columns of the product of the reflectors."""
    start = unit_batch(graph, a, dim_of(graph, a, 1), columns)
    return apply_reflectors(graph, a, tau, start, False)
