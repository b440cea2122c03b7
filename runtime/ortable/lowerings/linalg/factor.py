"""Factorisations of batches of matrices [batch, rows, columns], one column in each trip of a Loop:
LU with partial pivoting, Cholesky, Householder reflectors; and what is solved with them."""

from __future__ import annotations

from ortable import dtypes
from ortable.dims import Dim
from ortable.ir import Graph
from ortable.prelude.facts import dim_of
from ortable.prelude.matrices import matrix_transpose, smaller_side
from ortable.prelude.pointwise import const_like, filled_like
from ortable.prelude.shapes import expanded, iota, zeros_of
from ortable.prelude.values import as_scalar, cast, const, consts, unsqueezed

from .matrix import first_axis, places, run_loop, sum_of_squares, unit_batch


def lu(graph: Graph, a: str) -> tuple[str, str, str]:
    """(LU, pivots, order): the factors in one matrix, LAPACK's int32 pivots counted from 1, and
    which row of ``a`` each row of the product is."""
    rows, columns, count = places(graph, a, -2), places(graph, a, -1), smaller_side(graph, a)
    line = iota(graph, 0, dim_of(graph, a, 1), 1)
    marks = iota(graph, 0, count, 1)
    order = expanded(
        graph, unsqueezed(graph, line, [0]), [dim_of(graph, a, 0), dim_of(graph, a, 1)]
    )
    pivots = zeros_of(graph, [dim_of(graph, a, 0), count], dtypes.int64)

    def step(body: Graph, place: str, a: str, order: str, pivots: str) -> list[str]:
        make, at = body.make_node, first_axis(body, place)
        size = make("Abs", [make("Gather", [a, at], axis=2)])
        open_ = make("GreaterOrEqual", [rows, place])
        size = make("Where", [open_, size, const_like(body, -1, a)])
        best = make("Max", [make("ArgMax", [size], axis=1, keepdims=1), place])
        best = make("Squeeze", [best, consts(body, [2], dtypes.int64)])
        source = unsqueezed(body, _exchanged(body, line, place, best), [2])
        a = make("GatherND", [a, source], batch_dims=1)
        order = make("GatherND", [order, source], batch_dims=1)
        one = const(body, 1, dtypes.int64)
        pivots = make("Where", [make("Equal", [marks, place]), make("Add", [best, one]), pivots])
        return [_eliminated(body, a, place, rows, columns), order, pivots]

    a, order, pivots = run_loop(graph, count, [a, order, pivots], step)
    return a, cast(graph, pivots, dtypes.int32), order


def _exchanged(body: Graph, line: str, first: str, second: str) -> str:
    """[batch, rows]: the places 0, 1, ... with ``first`` and ``second`` [batch, 1] exchanged."""
    make = body.make_node
    result = make("Where", [make("Equal", [line, second]), first, line])
    return make("Where", [make("Equal", [line, first]), second, result])


def _eliminated(body: Graph, a: str, place: str, rows: str, columns: str) -> str:
    """The column at ``place`` divided by its pivot, and taken away from the columns after it."""
    make, at = body.make_node, first_axis(body, place)
    column, across = make("Gather", [a, at], axis=2), make("Gather", [a, at], axis=1)
    pivot = make("Gather", [column, at], axis=1)
    # a pivot of zero stands over zeros
    zero, one = const_like(body, 0, a), const_like(body, 1, a)
    divisor = make("Where", [make("Equal", [pivot, zero]), one, pivot])
    factors = make("Div", [column, divisor])
    under = make("Greater", [rows, place])
    inside = make("And", [under, make("Greater", [columns, place])])
    here = make("And", [under, make("Equal", [columns, place])])
    rest = make("Sub", [a, make("Mul", [factors, across])])
    return make("Where", [inside, rest, make("Where", [here, factors, a])])


def row_order(graph: Graph, pivots: str, rows: Dim) -> str:
    """[batch, rows]: which row of a matrix comes to stand at each place after the exchanges that
    ``pivots`` [batch, count] tell, in turn."""
    line = iota(graph, 0, rows, 1)
    order = expanded(graph, unsqueezed(graph, line, [0]), [dim_of(graph, pivots, 0), rows])
    pivots = cast(graph, pivots, dtypes.int64)

    def step(body: Graph, place: str, order: str) -> list[str]:
        make = body.make_node
        other = make("Gather", [pivots, first_axis(body, place)], axis=1)
        other = make("Sub", [other, const(body, 1, dtypes.int64)])
        source = unsqueezed(body, _exchanged(body, line, place, other), [2])
        return [make("GatherND", [order, source], batch_dims=1)]

    return run_loop(graph, dim_of(graph, pivots, 1), [order], step)[0]


def permutation_matrix(graph: Graph, order: str, dtype: int) -> str:
    """[batch, rows, rows]: P of A = P L U."""
    line = unsqueezed(graph, iota(graph, 0, dim_of(graph, order, 1), 1), [1])
    return cast(graph, graph.make_node("Equal", [line, unsqueezed(graph, order, [1])]), dtype)


def reordered(graph: Graph, x: str, order: str, back: bool) -> str:
    """The rows of ``x`` [batch, rows, columns] in ``order`` [batch, rows], or put back from it."""
    if back:
        hits = cast(graph, permutation_matrix(graph, order, dtypes.int32), dtypes.int32)
        order = graph.make_node("ArgMax", [hits], axis=2, keepdims=0)
    return graph.make_node("GatherND", [x, unsqueezed(graph, order, [2])], batch_dims=1)


def triangular(graph: Graph, a: str, b: str, upper: bool, unit: bool) -> str:
    """The solution of a x = b by substitution; the other triangle of ``a`` is not read."""
    rows, columns = places(graph, a, -2), places(graph, a, -1)
    last = as_scalar(graph, dim_of(graph, a, 1) - 1)

    def step(body: Graph, place: str, x: str) -> list[str]:
        make = body.make_node
        place = make("Sub", [last, place]) if upper else place
        at = first_axis(body, place)
        row = make("Gather", [a, at], axis=1)
        known = make("Greater" if upper else "Less", [columns, place])
        factors = make("Where", [known, row, const_like(body, 0, a)])
        value = make("Sub", [make("Gather", [b, at], axis=1), make("MatMul", [factors, x])])
        if not unit:
            value = make("Div", [value, make("Gather", [row, at], axis=2)])
        return [make("Where", [make("Equal", [rows, place]), value, x])]

    return run_loop(
        graph, dim_of(graph, a, 1), [filled_like(graph, b, 0, graph.get_type(b))], step
    )[0]


def lu_solution(graph: Graph, factors: str, order: str, b: str, adjoint: bool) -> str:
    """x of A x = b, or of its transpose, from what ``lu`` gives."""
    if adjoint:
        across = matrix_transpose(graph, factors)
        middle = triangular(graph, across, b, False, False)
        return reordered(graph, triangular(graph, across, middle, True, True), order, True)
    below = triangular(graph, factors, reordered(graph, b, order, False), False, True)
    return triangular(graph, factors, below, True, False)


def cholesky(graph: Graph, a: str) -> tuple[str, str]:
    """(L, info) of the lower triangle of ``a``; info [batch] counts from 1 the first column
    where the matrix is not positive definite."""
    rows, columns = places(graph, a, -2), places(graph, a, -1)
    info = zeros_of(graph, [dim_of(graph, a, 0), 1, 1], dtypes.int64)

    def step(body: Graph, place: str, a: str, info: str) -> list[str]:
        make, at = body.make_node, first_axis(body, place)
        column = make("Gather", [a, at], axis=2)
        head = make("Gather", [column, at], axis=1)
        root = make("Sqrt", [head])
        column = make("Where", [make("Equal", [rows, place]), root, make("Div", [column, root])])
        inside = make("And", [make("Greater", [rows, place]), make("Greater", [columns, place])])
        rest = make("Sub", [a, make("Mul", [column, matrix_transpose(body, column)])])
        here = make("Equal", [columns, place])
        a = make("Where", [inside, rest, make("Where", [here, column, a])])
        fine = make("Greater", [head, const_like(body, 0, a)])
        known = make("Greater", [info, const(body, 0, dtypes.int64)])
        number = make("Add", [place, const(body, 1, dtypes.int64)])
        return [a, make("Where", [make("Or", [fine, known]), info, number])]

    a, info = run_loop(graph, dim_of(graph, a, 1), [a, info], step)
    info = graph.make_node("Squeeze", [info, consts(graph, [1, 2], dtypes.int64)])
    return graph.make_node("Trilu", [a], upper=0), cast(graph, info, dtypes.int32)


def reflectors(graph: Graph, a: str) -> tuple[str, str]:
    """(a, tau) of LAPACK's geqrf: R above the reflectors 1 - tau v v', v[place] = 1 left out."""
    rows, columns, count = places(graph, a, -2), places(graph, a, -1), smaller_side(graph, a)
    marks = iota(graph, 0, count, 1)
    tau = zeros_of(graph, [dim_of(graph, a, 0), count], graph.get_type(a))

    def step(body: Graph, place: str, a: str, tau: str) -> list[str]:
        make, at = body.make_node, first_axis(body, place)
        zero, one = const_like(body, 0, a), const_like(body, 1, a)
        column = make("Gather", [a, at], axis=2)
        head = make("Gather", [column, at], axis=1)
        under, here = make("Greater", [rows, place]), make("Equal", [rows, place])
        tail = make("Where", [under, column, zero])
        squares = sum_of_squares(body, tail)
        done = make("Equal", [squares, zero])
        length = make("Sqrt", [make("Add", [make("Mul", [head, head]), squares])])
        beta = make("Where", [make("Less", [head, zero]), length, make("Neg", [length])])
        beta = make("Where", [done, one, beta])
        own = make("Where", [done, zero, make("Div", [make("Sub", [beta, head]), beta])])
        divisor = make("Where", [done, one, make("Sub", [head, beta])])
        vector = make("Where", [here, one, make("Div", [tail, divisor])])
        rest = _reflected(body, a, vector, own)
        top = make("Where", [make("And", [here, make("Not", [done])]), beta, column])
        kept = make(
            "Where", [make("Equal", [columns, place]), make("Where", [under, vector, top]), a]
        )
        a = make("Where", [make("Greater", [columns, place]), rest, kept])
        own = make("Squeeze", [own, consts(body, [2], dtypes.int64)])
        return [a, make("Where", [make("Equal", [marks, place]), own, tau])]

    a, tau = run_loop(graph, count, [a, tau], step)
    return a, tau


def _reflected(body: Graph, x: str, vector: str, tau: str) -> str:
    """x - tau v (v' x)"""
    across = body.make_node("MatMul", [matrix_transpose(body, vector), x])
    shift = body.make_node("Mul", [body.make_node("Mul", [tau, vector]), across])
    return body.make_node("Sub", [x, shift])


def apply_reflectors(graph: Graph, a: str, tau: str, x: str, adjoint: bool) -> str:
    """Q x, or Q' x, for the product Q of the reflectors that ``a`` and ``tau`` hold."""
    rows, count = places(graph, a, -2), dim_of(graph, tau, 1)
    last = as_scalar(graph, count - 1)

    def step(body: Graph, place: str, x: str) -> list[str]:
        make = body.make_node
        place = place if adjoint else make("Sub", [last, place])
        at = first_axis(body, place)
        zero, one = const_like(body, 0, a), const_like(body, 1, a)
        tail = make(
            "Where", [make("Greater", [rows, place]), make("Gather", [a, at], axis=2), zero]
        )
        vector = make("Where", [make("Equal", [rows, place]), one, tail])
        own = unsqueezed(body, make("Gather", [tau, at], axis=1), [2])
        return [_reflected(body, x, vector, own)]

    return run_loop(graph, count, [x], step)[0]


def orthogonal(graph: Graph, a: str, tau: str, columns: Dim) -> str:
    """The first ``columns`` columns of the product of the reflectors."""
    start = unit_batch(graph, a, dim_of(graph, a, 1), columns)
    return apply_reflectors(graph, a, tau, start, False)
