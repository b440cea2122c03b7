# Generated from specs/aten/linalg_solve.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.dtypes import int32
from ortable.errors import UnsupportedCase
from ortable.lowerings.linalg.solvers import cholesky_factor, determinant, kept_factors, log_determinant, lu_factors, lu_info, lu_permutation, lu_solved, solved, triangular_solved, unit_like, with_unit_diagonal
from ortable.prelude.complex_arithmetic import c_log, complex_of, im, matrix_adjoint, re
from ortable.prelude.complex_value import part_type
from ortable.prelude.facts import count_of, differs, dim_of, dtype_of, is_used, minimum, product, rank_of, shape_of
from ortable.prelude.matrices import matrix_transpose, triu
from ortable.prelude.metadata import dtype_or_none, shape_or_none
from ortable.prelude.shapes import as_flat, expanded, moved_axes, zeros_of
from ortable.prelude.values import const, cropped, permuted, reshape_to

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Bool, Int, Ints, Result


def aten__linalg_det(graph: Graph, res: ResultSpec, A: Result) -> Any:
    """aten::_linalg_det(Tensor A) -> (Tensor result, Tensor LU, Tensor pivots)"""
    if is_used(res[1]) or is_used(res[2]):
        graph.case = 1
        kept = kept_factors(graph, A)
        return (determinant(graph, A), kept[0], kept[1])
    graph.case = 2
    return (determinant(graph, A), None, None)


def aten__linalg_slogdet(graph: Graph, res: ResultSpec, A: Result) -> Any:
    """aten::_linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet, Tensor LU, Tensor pivots)"""
    parts = log_determinant(graph, A)
    kept = kept_factors(graph, A) if is_used(res[2]) or is_used(res[3]) else [None, None]
    return (parts[0], parts[1], kept[0], kept[1])


def aten__linalg_solve_ex(graph: Graph, res: ResultSpec, A: Result, B: Result, *, left: Bool = True, check_errors: Bool = False) -> Any:
    """aten::_linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> (Tensor result, Tensor LU, Tensor pivots, Tensor info)"""
    vector = rank_of(graph, res) < rank_of(graph, A)
    asked = is_used(res[1]) or is_used(res[2]) or is_used(res[3])
    kept = lu_factors(graph, A) if asked else [None, None]
    info = lu_info(graph, kept[0]) if is_used(res[3]) else None
    return (solved(graph, A, B, left, vector), kept[0], kept[1], info)


def aten__lu_with_info(graph: Graph, res: ResultSpec, self: Result, pivot: Bool = True, check_errors: Bool = True) -> Any:
    """aten::_lu_with_info(Tensor self, bool pivot=True, bool check_errors=True) -> (Tensor LU, Tensor pivots, Tensor info)"""
    return aten_linalg_lu_factor_ex(graph, res, A=self, pivot=pivot, check_errors=check_errors)


def aten_cholesky(graph: Graph, res: ResultSpec, self: Result, upper: Bool = False) -> Result:
    """aten::cholesky(Tensor self, bool upper=False) -> Tensor"""
    return cholesky_factor(graph, self, upper)[0]


def aten_cholesky_inverse(graph: Graph, res: ResultSpec, self: Result, upper: Bool = False) -> Result:
    """aten::cholesky_inverse(Tensor self, bool upper=False) -> Tensor"""
    other = matrix_adjoint(graph, self)
    half = triangular_solved(graph, other if upper else self, unit_like(graph, self), False)
    return triangular_solved(graph, self if upper else other, half, True)


def aten_cholesky_solve(graph: Graph, res: ResultSpec, self: Result, input2: Result, upper: Bool = False) -> Result:
    """aten::cholesky_solve(Tensor self, Tensor input2, bool upper=False) -> Tensor"""
    other = matrix_adjoint(graph, input2)
    half = triangular_solved(graph, other if upper else input2, self, False)
    return triangular_solved(graph, input2 if upper else other, half, True)


def aten_det(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::det(Tensor self) -> Tensor"""
    return aten_linalg_det(graph, res, A=self)


def aten_inverse(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::inverse(Tensor self) -> Tensor"""
    return aten_linalg_inv(graph, res, A=self)


def aten_linalg_cholesky(graph: Graph, res: ResultSpec, self: Result, *, upper: Bool = False) -> Result:
    """aten::linalg_cholesky(Tensor self, *, bool upper=False) -> Tensor"""
    return cholesky_factor(graph, self, upper)[0]


def aten_linalg_cholesky_ex(graph: Graph, res: ResultSpec, self: Result, *, upper: Bool = False, check_errors: Bool = False) -> Any:
    """aten::linalg_cholesky_ex(Tensor self, *, bool upper=False, bool check_errors=False) -> (Tensor L, Tensor info)"""
    result = cholesky_factor(graph, self, upper)
    return (result[0], result[1])


def aten_linalg_det(graph: Graph, res: ResultSpec, A: Result) -> Result:
    """aten::linalg_det(Tensor A) -> Tensor"""
    return determinant(graph, A)


def aten_linalg_inv(graph: Graph, res: ResultSpec, A: Result) -> Result:
    """aten::linalg_inv(Tensor A) -> Tensor"""
    return solved(graph, A, unit_like(graph, A))


def aten_linalg_inv_ex(graph: Graph, res: ResultSpec, A: Result, *, check_errors: Bool = False) -> Any:
    """aten::linalg_inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info)"""
    factors = lu_factors(graph, A)
    return (lu_solved(graph, factors[0], factors[1], unit_like(graph, A)), lu_info(graph, factors[0]))


def aten_linalg_lu(graph: Graph, res: ResultSpec, A: Result, *, pivot: Bool = True) -> Any:
    """aten::linalg_lu(Tensor A, *, bool pivot=True) -> (Tensor P, Tensor L, Tensor U)"""
    if not pivot:
        graph.case = 1
        raise UnsupportedCase('aten::linalg_lu: LU factors without pivoting, which torch has on CUDA only')
    graph.case = 2
    factors = lu_factors(graph, A)
    count = minimum(*shape_of(graph, A)[-2:])
    order = lu_permutation(graph, factors[1], dim_of(graph, A, -2), dtype_of(graph, A))
    below = triu(graph, cropped(graph, factors[0], [dim_of(graph, A, -2), count]), False)
    above = triu(graph, cropped(graph, factors[0], [count, dim_of(graph, A, -1)]))
    return (order, with_unit_diagonal(graph, below), above)


def aten_linalg_lu_factor(graph: Graph, res: ResultSpec, A: Result, *, pivot: Bool = True) -> Any:
    """aten::linalg_lu_factor(Tensor A, *, bool pivot=True) -> (Tensor LU, Tensor pivots)"""
    if not pivot:
        graph.case = 1
        raise UnsupportedCase('aten::linalg_lu_factor: LU factors without pivoting, which torch has on CUDA only')
    graph.case = 2
    factors = lu_factors(graph, A)
    return (factors[0], factors[1])


def aten_linalg_lu_factor_ex(graph: Graph, res: ResultSpec, A: Result, *, pivot: Bool = True, check_errors: Bool = False) -> Any:
    """aten::linalg_lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False) -> (Tensor LU, Tensor pivots, Tensor info)"""
    if not pivot:
        graph.case = 1
        raise UnsupportedCase('aten::linalg_lu_factor_ex: LU factors without pivoting, which torch has on CUDA only')
    graph.case = 2
    factors = lu_factors(graph, A)
    return (factors[0], factors[1], lu_info(graph, factors[0]))


def aten_linalg_lu_solve(graph: Graph, res: ResultSpec, LU: Result, pivots: Result, B: Result, *, left: Bool = True, adjoint: Bool = False) -> Result:
    """aten::linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False) -> Tensor"""
    if left:
        graph.case = 1
        return lu_solved(graph, LU, pivots, B, adjoint)
    graph.case = 2
    return matrix_adjoint(graph, lu_solved(graph, LU, pivots, matrix_adjoint(graph, B), not adjoint))


def aten_linalg_slogdet(graph: Graph, res: ResultSpec, A: Result) -> Any:
    """aten::linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet)"""
    parts = log_determinant(graph, A)
    return (parts[0], parts[1])


def aten_linalg_solve(graph: Graph, res: ResultSpec, A: Result, B: Result, *, left: Bool = True) -> Result:
    """aten::linalg_solve(Tensor A, Tensor B, *, bool left=True) -> Tensor"""
    return solved(graph, A, B, left, rank_of(graph, res) < rank_of(graph, A))


def aten_linalg_solve_ex(graph: Graph, res: ResultSpec, A: Result, B: Result, *, left: Bool = True, check_errors: Bool = False) -> Any:
    """aten::linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> (Tensor result, Tensor info)"""
    return (solved(graph, A, B, left, rank_of(graph, res) < rank_of(graph, A)), lu_info(graph, lu_factors(graph, A)[0]))


def aten_linalg_solve_triangular(graph: Graph, res: ResultSpec, self: Result, B: Result, *, upper: Bool, left: Bool = True, unitriangular: Bool = False) -> Result:
    """aten::linalg_solve_triangular(Tensor self, Tensor B, *, bool upper, bool left=True, bool unitriangular=False) -> Tensor"""
    if left:
        graph.case = 1
        return triangular_solved(graph, self, B, upper, unitriangular)
    graph.case = 2
    transposed = matrix_transpose(graph, B)
    result = triangular_solved(graph, matrix_transpose(graph, self), transposed, not upper, unitriangular)
    return matrix_transpose(graph, result)


def aten_linalg_tensorinv(graph: Graph, res: ResultSpec, self: Result, ind: Int = 2) -> Result:
    """aten::linalg_tensorinv(Tensor self, int ind=2) -> Tensor"""
    first = shape_of(graph, self)[:ind]
    second = shape_of(graph, self)[ind:]
    square = reshape_to(graph, self, [product(second), product(second)])
    return reshape_to(graph, solved(graph, square, unit_like(graph, square)), list(second) + list(first))


def aten_linalg_tensorsolve(graph: Graph, res: ResultSpec, self: Result, other: Result, dims: Ints | None = None) -> Result:
    """aten::linalg_tensorsolve(Tensor self, Tensor other, int[]? dims=None) -> Tensor"""
    moved = [] if dims is None else list(dims)
    rank = rank_of(graph, self)
    last = [place - len(moved) for place in range(len(moved))]
    transposed = permuted(graph, self, moved_axes(rank, moved, last))
    square = reshape_to(graph, transposed, [count_of(graph, other), count_of(graph, other)])
    flat = solved(graph, square, as_flat(graph, other), True, True)
    return reshape_to(graph, flat, shape_of(graph, res))


def aten_logdet(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::logdet(Tensor self) -> Tensor"""
    graph.case = 1
    parts = log_determinant(graph, self)
    negative = graph.make_node('Less', [parts[0], const(graph, 0, dtype_of(graph, self))])
    return graph.make_node('Where', [negative, const(graph, float('nan'), dtype_of(graph, self)), parts[1]], res.outputs)


def aten_lu_solve(graph: Graph, res: ResultSpec, self: Result, LU_data: Result, LU_pivots: Result) -> Result:
    """aten::lu_solve(Tensor self, Tensor LU_data, Tensor LU_pivots) -> Tensor"""
    return lu_solved(graph, LU_data, LU_pivots, self)


def aten_lu_unpack(graph: Graph, res: ResultSpec, LU_data: Result, LU_pivots: Result, unpack_data: Bool = True, unpack_pivots: Bool = True) -> Any:
    """aten::lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool unpack_pivots=True) -> (Tensor P, Tensor L, Tensor U)"""
    rows = dim_of(graph, LU_data, -2)
    columns = dim_of(graph, LU_data, -1)
    count = minimum(rows, columns)
    own = dtype_of(graph, LU_data)
    none = zeros_of(graph, [0], own)
    order = lu_permutation(graph, LU_pivots, rows, own) if unpack_pivots else none
    below = triu(graph, cropped(graph, LU_data, [rows, count]), False) if unpack_data else none
    above = triu(graph, cropped(graph, LU_data, [count, columns])) if unpack_data else none
    return (order, with_unit_diagonal(graph, below) if unpack_data else none, above)


def aten_slogdet(graph: Graph, res: ResultSpec, self: Result) -> Any:
    """aten::slogdet(Tensor self) -> (Tensor sign, Tensor logabsdet)"""
    return aten_linalg_slogdet(graph, res, A=self)


def aten_triangular_solve(graph: Graph, res: ResultSpec, self: Result, A: Result, upper: Bool = True, transpose: Bool = False, unitriangular: Bool = False) -> Any:
    """aten::triangular_solve(Tensor self, Tensor A, bool upper=True, bool transpose=False, bool unitriangular=False) -> (Tensor solution, Tensor cloned_coefficient)"""
    graph.case = 1
    matrix = matrix_transpose(graph, A) if transpose else A
    result = triangular_solved(graph, matrix, self, differs(upper, transpose), unitriangular)
    return (result, expanded(graph, graph.make_node('Identity', [A]), shape_of(graph, res[1])))


def complex_aten__linalg_det(graph: Graph, res: ResultSpec, A: Result) -> Any:
    """aten::_linalg_det(Tensor A) -> (Tensor result, Tensor LU, Tensor pivots)"""
    if is_used(res[1]) or is_used(res[2]):
        graph.case = 1
        kept = kept_factors(graph, A)
        return (determinant(graph, A), kept[0], kept[1])
    graph.case = 2
    return (determinant(graph, A), None, None)


def complex_aten__linalg_slogdet(graph: Graph, res: ResultSpec, A: Result) -> Any:
    """aten::_linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet, Tensor LU, Tensor pivots)"""
    parts = log_determinant(graph, A)
    kept = kept_factors(graph, A) if is_used(res[2]) or is_used(res[3]) else [None, None]
    return (parts[0], parts[1], kept[0], kept[1])


def complex_aten__linalg_solve_ex(graph: Graph, res: ResultSpec, A: Result, B: Result, *, left: Bool = True, check_errors: Bool = False) -> Any:
    """aten::_linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> (Tensor result, Tensor LU, Tensor pivots, Tensor info)"""
    vector = rank_of(graph, res) < rank_of(graph, A)
    asked = is_used(res[1]) or is_used(res[2]) or is_used(res[3])
    kept = lu_factors(graph, A) if asked else [None, None]
    info = lu_info(graph, kept[0]) if is_used(res[3]) else None
    return (solved(graph, A, B, left, vector), kept[0], kept[1], info)


def complex_aten__lu_with_info(graph: Graph, res: ResultSpec, self: Result, pivot: Bool = True, check_errors: Bool = True) -> Any:
    """aten::_lu_with_info(Tensor self, bool pivot=True, bool check_errors=True) -> (Tensor LU, Tensor pivots, Tensor info)"""
    return complex_aten_linalg_lu_factor_ex(graph, res, A=self, pivot=pivot, check_errors=check_errors)


def complex_aten_cholesky(graph: Graph, res: ResultSpec, self: Result, upper: Bool = False) -> Result:
    """aten::cholesky(Tensor self, bool upper=False) -> Tensor"""
    return cholesky_factor(graph, self, upper)[0]


def complex_aten_cholesky_inverse(graph: Graph, res: ResultSpec, self: Result, upper: Bool = False) -> Result:
    """aten::cholesky_inverse(Tensor self, bool upper=False) -> Tensor"""
    other = matrix_adjoint(graph, self)
    half = triangular_solved(graph, other if upper else self, unit_like(graph, self), False)
    return triangular_solved(graph, self if upper else other, half, True)


def complex_aten_cholesky_solve(graph: Graph, res: ResultSpec, self: Result, input2: Result, upper: Bool = False) -> Result:
    """aten::cholesky_solve(Tensor self, Tensor input2, bool upper=False) -> Tensor"""
    other = matrix_adjoint(graph, input2)
    half = triangular_solved(graph, other if upper else input2, self, False)
    return triangular_solved(graph, input2 if upper else other, half, True)


def complex_aten_det(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::det(Tensor self) -> Tensor"""
    return complex_aten_linalg_det(graph, res, A=self)


def complex_aten_inverse(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::inverse(Tensor self) -> Tensor"""
    return complex_aten_linalg_inv(graph, res, A=self)


def complex_aten_linalg_cholesky(graph: Graph, res: ResultSpec, self: Result, *, upper: Bool = False) -> Result:
    """aten::linalg_cholesky(Tensor self, *, bool upper=False) -> Tensor"""
    return cholesky_factor(graph, self, upper)[0]


def complex_aten_linalg_cholesky_ex(graph: Graph, res: ResultSpec, self: Result, *, upper: Bool = False, check_errors: Bool = False) -> Any:
    """aten::linalg_cholesky_ex(Tensor self, *, bool upper=False, bool check_errors=False) -> (Tensor L, Tensor info)"""
    result = cholesky_factor(graph, self, upper)
    return (result[0], result[1])


def complex_aten_linalg_det(graph: Graph, res: ResultSpec, A: Result) -> Result:
    """aten::linalg_det(Tensor A) -> Tensor"""
    return determinant(graph, A)


def complex_aten_linalg_inv(graph: Graph, res: ResultSpec, A: Result) -> Result:
    """aten::linalg_inv(Tensor A) -> Tensor"""
    return solved(graph, A, unit_like(graph, A))


def complex_aten_linalg_inv_ex(graph: Graph, res: ResultSpec, A: Result, *, check_errors: Bool = False) -> Any:
    """aten::linalg_inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info)"""
    factors = lu_factors(graph, A)
    return (lu_solved(graph, factors[0], factors[1], unit_like(graph, A)), lu_info(graph, factors[0]))


def complex_aten_linalg_lu(graph: Graph, res: ResultSpec, A: Result, *, pivot: Bool = True) -> Any:
    """aten::linalg_lu(Tensor A, *, bool pivot=True) -> (Tensor P, Tensor L, Tensor U)"""
    if not pivot:
        graph.case = 1
        raise UnsupportedCase('aten::linalg_lu: LU factors without pivoting, which torch has on CUDA only')
    graph.case = 2
    factors = lu_factors(graph, A)
    count = minimum(*shape_of(graph, A)[-2:])
    order = lu_permutation(graph, factors[1], dim_of(graph, A, -2), dtype_of(graph, A))
    below = triu(graph, cropped(graph, factors[0], [dim_of(graph, A, -2), count]), False)
    above = triu(graph, cropped(graph, factors[0], [count, dim_of(graph, A, -1)]))
    return (order, with_unit_diagonal(graph, below), above)


def complex_aten_linalg_lu_factor(graph: Graph, res: ResultSpec, A: Result, *, pivot: Bool = True) -> Any:
    """aten::linalg_lu_factor(Tensor A, *, bool pivot=True) -> (Tensor LU, Tensor pivots)"""
    if not pivot:
        graph.case = 1
        raise UnsupportedCase('aten::linalg_lu_factor: LU factors without pivoting, which torch has on CUDA only')
    graph.case = 2
    factors = lu_factors(graph, A)
    return (factors[0], factors[1])


def complex_aten_linalg_lu_factor_ex(graph: Graph, res: ResultSpec, A: Result, *, pivot: Bool = True, check_errors: Bool = False) -> Any:
    """aten::linalg_lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False) -> (Tensor LU, Tensor pivots, Tensor info)"""
    if not pivot:
        graph.case = 1
        raise UnsupportedCase('aten::linalg_lu_factor_ex: LU factors without pivoting, which torch has on CUDA only')
    graph.case = 2
    factors = lu_factors(graph, A)
    return (factors[0], factors[1], lu_info(graph, factors[0]))


def complex_aten_linalg_lu_solve(graph: Graph, res: ResultSpec, LU: Result, pivots: Result, B: Result, *, left: Bool = True, adjoint: Bool = False) -> Result:
    """aten::linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False) -> Tensor"""
    if left:
        graph.case = 1
        return lu_solved(graph, LU, pivots, B, adjoint)
    graph.case = 2
    return matrix_adjoint(graph, lu_solved(graph, LU, pivots, matrix_adjoint(graph, B), not adjoint))


def complex_aten_linalg_slogdet(graph: Graph, res: ResultSpec, A: Result) -> Any:
    """aten::linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet)"""
    parts = log_determinant(graph, A)
    return (parts[0], parts[1])


def complex_aten_linalg_solve(graph: Graph, res: ResultSpec, A: Result, B: Result, *, left: Bool = True) -> Result:
    """aten::linalg_solve(Tensor A, Tensor B, *, bool left=True) -> Tensor"""
    return solved(graph, A, B, left, rank_of(graph, res) < rank_of(graph, A))


def complex_aten_linalg_solve_ex(graph: Graph, res: ResultSpec, A: Result, B: Result, *, left: Bool = True, check_errors: Bool = False) -> Any:
    """aten::linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> (Tensor result, Tensor info)"""
    return (solved(graph, A, B, left, rank_of(graph, res) < rank_of(graph, A)), lu_info(graph, lu_factors(graph, A)[0]))


def complex_aten_linalg_solve_triangular(graph: Graph, res: ResultSpec, self: Result, B: Result, *, upper: Bool, left: Bool = True, unitriangular: Bool = False) -> Result:
    """aten::linalg_solve_triangular(Tensor self, Tensor B, *, bool upper, bool left=True, bool unitriangular=False) -> Tensor"""
    if left:
        graph.case = 1
        return triangular_solved(graph, self, B, upper, unitriangular)
    graph.case = 2
    transposed = matrix_transpose(graph, B)
    result = triangular_solved(graph, matrix_transpose(graph, self), transposed, not upper, unitriangular)
    return matrix_transpose(graph, result)


def complex_aten_linalg_tensorinv(graph: Graph, res: ResultSpec, self: Result, ind: Int = 2) -> Result:
    """aten::linalg_tensorinv(Tensor self, int ind=2) -> Tensor"""
    first = shape_of(graph, self)[:ind]
    second = shape_of(graph, self)[ind:]
    square = reshape_to(graph, self, [product(second), product(second)])
    return reshape_to(graph, solved(graph, square, unit_like(graph, square)), list(second) + list(first))


def complex_aten_linalg_tensorsolve(graph: Graph, res: ResultSpec, self: Result, other: Result, dims: Ints | None = None) -> Result:
    """aten::linalg_tensorsolve(Tensor self, Tensor other, int[]? dims=None) -> Tensor"""
    moved = [] if dims is None else list(dims)
    rank = rank_of(graph, self)
    last = [place - len(moved) for place in range(len(moved))]
    transposed = permuted(graph, self, moved_axes(rank, moved, last))
    square = reshape_to(graph, transposed, [count_of(graph, other), count_of(graph, other)])
    flat = solved(graph, square, as_flat(graph, other), True, True)
    return reshape_to(graph, flat, shape_of(graph, res))


def complex_aten_logdet(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::logdet(Tensor self) -> Tensor"""
    graph.case = 2
    parts = log_determinant(graph, self)
    phase = c_log(graph, parts[0])
    return complex_of(graph, graph.make_node('Add', [re(graph, phase), re(graph, parts[1])]), im(graph, phase))


def complex_aten_lu_solve(graph: Graph, res: ResultSpec, self: Result, LU_data: Result, LU_pivots: Result) -> Result:
    """aten::lu_solve(Tensor self, Tensor LU_data, Tensor LU_pivots) -> Tensor"""
    return lu_solved(graph, LU_data, LU_pivots, self)


def complex_aten_lu_unpack(graph: Graph, res: ResultSpec, LU_data: Result, LU_pivots: Result, unpack_data: Bool = True, unpack_pivots: Bool = True) -> Any:
    """aten::lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool unpack_pivots=True) -> (Tensor P, Tensor L, Tensor U)"""
    rows = dim_of(graph, LU_data, -2)
    columns = dim_of(graph, LU_data, -1)
    count = minimum(rows, columns)
    own = dtype_of(graph, LU_data)
    none = zeros_of(graph, [0], own)
    order = lu_permutation(graph, LU_pivots, rows, own) if unpack_pivots else none
    below = triu(graph, cropped(graph, LU_data, [rows, count]), False) if unpack_data else none
    above = triu(graph, cropped(graph, LU_data, [count, columns])) if unpack_data else none
    return (order, with_unit_diagonal(graph, below) if unpack_data else none, above)


def complex_aten_slogdet(graph: Graph, res: ResultSpec, self: Result) -> Any:
    """aten::slogdet(Tensor self) -> (Tensor sign, Tensor logabsdet)"""
    return complex_aten_linalg_slogdet(graph, res, A=self)


def complex_aten_triangular_solve(graph: Graph, res: ResultSpec, self: Result, A: Result, upper: Bool = True, transpose: Bool = False, unitriangular: Bool = False) -> Any:
    """aten::triangular_solve(Tensor self, Tensor A, bool upper=True, bool transpose=False, bool unitriangular=False) -> (Tensor solution, Tensor cloned_coefficient)"""
    graph.case = 2
    matrix = matrix_transpose(graph, A) if transpose else A
    result = triangular_solved(graph, matrix, self, differs(upper, transpose), unitriangular)
    return (result, expanded(graph, A, shape_of(graph, res[1])))


def rule_aten__linalg_det(graph: Graph, A: Result) -> Rules:
    return ((dtype_or_none(graph, A), None), (dtype_or_none(graph, A), shape_or_none(graph, A)), (int32, None),)


def rule_aten__linalg_slogdet(graph: Graph, A: Result) -> Rules:
    return ((dtype_or_none(graph, A), None), (part_type(dtype_or_none(graph, A)), None), (dtype_or_none(graph, A), shape_or_none(graph, A)), (int32, None),)


def rule_aten__linalg_solve_ex(graph: Graph, A: Result, B: Result, *, left: Bool = True, check_errors: Bool = False) -> Rules:
    return ((dtype_or_none(graph, A), None), (dtype_or_none(graph, A), shape_or_none(graph, A)), (int32, None), (int32, None),)


def rule_aten__lu_with_info(graph: Graph, self: Result, pivot: Bool = True, check_errors: Bool = True) -> Rules:
    return rule_aten_linalg_lu_factor_ex(graph, A=self, pivot=pivot, check_errors=check_errors)


def rule_aten_cholesky(graph: Graph, self: Result, upper: Bool = False) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_cholesky_inverse(graph: Graph, self: Result, upper: Bool = False) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_cholesky_solve(graph: Graph, self: Result, input2: Result, upper: Bool = False) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_det(graph: Graph, self: Result) -> Rules:
    return rule_aten_linalg_det(graph, A=self)


def rule_aten_inverse(graph: Graph, self: Result) -> Rules:
    return rule_aten_linalg_inv(graph, A=self)


def rule_aten_linalg_cholesky(graph: Graph, self: Result, *, upper: Bool = False) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_linalg_cholesky_ex(graph: Graph, self: Result, *, upper: Bool = False, check_errors: Bool = False) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)), (int32, None),)


def rule_aten_linalg_det(graph: Graph, A: Result) -> Rules:
    return ((dtype_or_none(graph, A), None),)


def rule_aten_linalg_inv(graph: Graph, A: Result) -> Rules:
    return ((dtype_or_none(graph, A), shape_or_none(graph, A)),)


def rule_aten_linalg_inv_ex(graph: Graph, A: Result, *, check_errors: Bool = False) -> Rules:
    return ((dtype_or_none(graph, A), shape_or_none(graph, A)), (int32, None),)


def rule_aten_linalg_lu(graph: Graph, A: Result, *, pivot: Bool = True) -> Rules:
    return ((dtype_or_none(graph, A), None), (dtype_or_none(graph, A), None), (dtype_or_none(graph, A), None),)


def rule_aten_linalg_lu_factor(graph: Graph, A: Result, *, pivot: Bool = True) -> Rules:
    return ((dtype_or_none(graph, A), shape_or_none(graph, A)), (int32, None),)


def rule_aten_linalg_lu_factor_ex(graph: Graph, A: Result, *, pivot: Bool = True, check_errors: Bool = False) -> Rules:
    return ((dtype_or_none(graph, A), shape_or_none(graph, A)), (int32, None), (int32, None),)


def rule_aten_linalg_lu_solve(graph: Graph, LU: Result, pivots: Result, B: Result, *, left: Bool = True, adjoint: Bool = False) -> Rules:
    return ((dtype_or_none(graph, LU), None),)


def rule_aten_linalg_slogdet(graph: Graph, A: Result) -> Rules:
    return ((dtype_or_none(graph, A), None), (part_type(dtype_or_none(graph, A)), None),)


def rule_aten_linalg_solve(graph: Graph, A: Result, B: Result, *, left: Bool = True) -> Rules:
    return ((dtype_or_none(graph, A), None),)


def rule_aten_linalg_solve_ex(graph: Graph, A: Result, B: Result, *, left: Bool = True, check_errors: Bool = False) -> Rules:
    return ((dtype_or_none(graph, A), None), (int32, None),)


def rule_aten_linalg_solve_triangular(graph: Graph, self: Result, B: Result, *, upper: Bool, left: Bool = True, unitriangular: Bool = False) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_linalg_tensorinv(graph: Graph, self: Result, ind: Int = 2) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_linalg_tensorsolve(graph: Graph, self: Result, other: Result, dims: Ints | None = None) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_logdet(graph: Graph, self: Result) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_lu_solve(graph: Graph, self: Result, LU_data: Result, LU_pivots: Result) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_lu_unpack(graph: Graph, LU_data: Result, LU_pivots: Result, unpack_data: Bool = True, unpack_pivots: Bool = True) -> Rules:
    return ((dtype_or_none(graph, LU_data), None), (dtype_or_none(graph, LU_data), None), (dtype_or_none(graph, LU_data), None),)


def rule_aten_slogdet(graph: Graph, self: Result) -> Rules:
    return rule_aten_linalg_slogdet(graph, A=self)


def rule_aten_triangular_solve(graph: Graph, self: Result, A: Result, upper: Bool = True, transpose: Bool = False, unitriangular: Bool = False) -> Rules:
    return ((dtype_or_none(graph, self), None), (dtype_or_none(graph, A), None),)
