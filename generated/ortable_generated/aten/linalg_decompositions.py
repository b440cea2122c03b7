# Generated from specs/aten/linalg_decompositions.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.dtypes import int32, int64
from ortable.errors import UnsupportedCase
from ortable.lowerings.linalg.ldl import ldl_factors, ldl_solved
from ortable.lowerings.linalg.power import matrix_exp, matrix_power, multi_dot
from ortable.lowerings.linalg.solvers import noise_floor, orthogonal_part, polar_parts, pseudo_inverse, reflected, reflectors_of, singular_lengths, singular_parts, symmetric_parts, symmetric_root
from ortable.prelude.complex_arithmetic import matrix_adjoint, part_dtype, re
from ortable.prelude.complex_value import complex_type, part_type
from ortable.prelude.facts import dim_of, dtype_of, maximum, minimum, rank_of, shape_of
from ortable.prelude.matrices import triu
from ortable.prelude.metadata import dtype_or_none, shape_or_none
from ortable.prelude.shapes import zeros_of
from ortable.prelude.values import as_tensor, cast, const, consts, cropped

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Bool, Float, Int, Result, Results, Str


def aten__linalg_eigh(graph: Graph, res: ResultSpec, A: Result, UPLO: Str = 'L', compute_v: Bool = True) -> Any:
    '''aten::_linalg_eigh(Tensor A, str UPLO="L", bool compute_v=True) -> (Tensor eigenvalues, Tensor eigenvectors)'''
    parts = symmetric_parts(graph, A, UPLO)
    return (parts[0], parts[1] if compute_v else zeros_of(graph, [0], dtype_of(graph, A)))


def aten__linalg_svd(graph: Graph, res: ResultSpec, A: Result, full_matrices: Bool = False, compute_uv: Bool = True, *, driver: Str | None = None) -> Any:
    """aten::_linalg_svd(Tensor A, bool full_matrices=False, bool compute_uv=True, *, str? driver=None) -> (Tensor U, Tensor S, Tensor Vh)"""
    if not compute_uv:
        graph.case = 1
        return (zeros_of(graph, [0], dtype_of(graph, A)), singular_lengths(graph, A), zeros_of(graph, [0], dtype_of(graph, A)))
    graph.case = 2
    parts = singular_parts(graph, A, full_matrices)
    return (parts[0], parts[1], parts[2])


def aten_chain_matmul(graph: Graph, res: ResultSpec, matrices: Results) -> Result:
    """aten::chain_matmul(Tensor[] matrices) -> Tensor"""
    return aten_linalg_multi_dot(graph, res, tensors=matrices)


def aten_geqrf(graph: Graph, res: ResultSpec, self: Result) -> Any:
    """aten::geqrf(Tensor self) -> (Tensor a, Tensor tau)"""
    result = reflectors_of(graph, self)
    return (result[0], result[1])


def aten_linalg_eigh(graph: Graph, res: ResultSpec, self: Result, UPLO: Str = 'L') -> Any:
    '''aten::linalg_eigh(Tensor self, str UPLO="L") -> (Tensor eigenvalues, Tensor eigenvectors)'''
    parts = symmetric_parts(graph, self, UPLO)
    return (parts[0], parts[1])


def aten_linalg_eigvalsh(graph: Graph, res: ResultSpec, self: Result, UPLO: Str = 'L') -> Result:
    '''aten::linalg_eigvalsh(Tensor self, str UPLO="L") -> Tensor'''
    return re(graph, symmetric_parts(graph, self, UPLO)[0])


def aten_linalg_householder_product(graph: Graph, res: ResultSpec, input: Result, tau: Result) -> Result:
    """aten::linalg_householder_product(Tensor input, Tensor tau) -> Tensor"""
    return orthogonal_part(graph, input, tau, dim_of(graph, input, -1))


def aten_linalg_ldl_factor(graph: Graph, res: ResultSpec, self: Result, *, hermitian: Bool = False) -> Any:
    """aten::linalg_ldl_factor(Tensor self, *, bool hermitian=False) -> (Tensor LD, Tensor pivots)"""
    result = ldl_factors(graph, self, hermitian)
    return (result[0], result[1])


def aten_linalg_ldl_factor_ex(graph: Graph, res: ResultSpec, self: Result, *, hermitian: Bool = False, check_errors: Bool = False) -> Any:
    """aten::linalg_ldl_factor_ex(Tensor self, *, bool hermitian=False, bool check_errors=False) -> (Tensor LD, Tensor pivots, Tensor info)"""
    result = ldl_factors(graph, self, hermitian)
    return (result[0], result[1], result[2])


def aten_linalg_ldl_solve(graph: Graph, res: ResultSpec, LD: Result, pivots: Result, B: Result, *, hermitian: Bool = False) -> Result:
    """aten::linalg_ldl_solve(Tensor LD, Tensor pivots, Tensor B, *, bool hermitian=False) -> Tensor"""
    return ldl_solved(graph, LD, pivots, B, hermitian)


def aten_linalg_matrix_exp(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::linalg_matrix_exp(Tensor self) -> Tensor"""
    return matrix_exp(graph, res, self=self)


def aten_linalg_matrix_power(graph: Graph, res: ResultSpec, self: Result, n: Int) -> Result:
    """aten::linalg_matrix_power(Tensor self, int n) -> Tensor"""
    return matrix_power(graph, res, self=self, n=n)


def aten_linalg_matrix_rank(graph: Graph, res: ResultSpec, self: Result, tol: Float, hermitian: Bool = False) -> Result:
    """aten::linalg_matrix_rank(Tensor self, float tol, bool hermitian=False) -> Tensor"""
    return aten_linalg_matrix_rank_atol_rtol_float(graph, res, self=self, atol=tol, rtol=0.0, hermitian=hermitian)


def aten_linalg_matrix_rank_atol_rtol_float(graph: Graph, res: ResultSpec, self: Result, *, atol: Float | None = None, rtol: Float | None = None, hermitian: Bool = False) -> Result:
    """aten::linalg_matrix_rank.atol_rtol_float(Tensor self, *, float? atol=None, float? rtol=None, bool hermitian=False) -> Tensor"""
    values = graph.make_node('Abs', [re(graph, symmetric_parts(graph, self)[0])]) if hermitian else singular_lengths(graph, self)
    floors = [as_tensor(graph, each, part_dtype(dtype_of(graph, self))) for each in [atol, rtol]]
    kept = graph.make_node('Greater', [values, noise_floor(graph, values, maximum(*shape_of(graph, self)[-2:]), floors[0], floors[1])])
    return graph.make_node('ReduceSum', [cast(graph, kept, int64), consts(graph, [rank_of(graph, self) - 2], int64)], res.outputs, keepdims=0)


def aten_linalg_matrix_rank_atol_rtol_tensor(graph: Graph, res: ResultSpec, input: Result, *, atol: Result | None = None, rtol: Result | None = None, hermitian: Bool = False) -> Result:
    """aten::linalg_matrix_rank.atol_rtol_tensor(Tensor input, *, Tensor? atol=None, Tensor? rtol=None, bool hermitian=False) -> Tensor"""
    values = graph.make_node('Abs', [re(graph, symmetric_parts(graph, input)[0])]) if hermitian else singular_lengths(graph, input)
    kept = graph.make_node('Greater', [values, noise_floor(graph, values, maximum(*shape_of(graph, input)[-2:]), atol, rtol)])
    return graph.make_node('ReduceSum', [cast(graph, kept, int64), consts(graph, [rank_of(graph, res)], int64)], res.outputs, keepdims=0)


def aten_linalg_matrix_rank_tol_tensor(graph: Graph, res: ResultSpec, input: Result, tol: Result, hermitian: Bool = False) -> Result:
    """aten::linalg_matrix_rank.tol_tensor(Tensor input, Tensor tol, bool hermitian=False) -> Tensor"""
    values = graph.make_node('Abs', [re(graph, symmetric_parts(graph, input)[0])]) if hermitian else singular_lengths(graph, input)
    nothing = const(graph, 0, dtype_of(graph, values))
    kept = graph.make_node('Greater', [values, noise_floor(graph, values, maximum(*shape_of(graph, input)[-2:]), tol, nothing)])
    return graph.make_node('ReduceSum', [cast(graph, kept, int64), consts(graph, [rank_of(graph, res)], int64)], res.outputs, keepdims=0)


def aten_linalg_matrix_sqrth(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::linalg_matrix_sqrth(Tensor self) -> Tensor"""
    return symmetric_root(graph, self)


def aten_linalg_multi_dot(graph: Graph, res: ResultSpec, tensors: Results) -> Result:
    """aten::linalg_multi_dot(Tensor[] tensors) -> Tensor"""
    return multi_dot(graph, res, tensors=tensors)


def aten_linalg_pinv(graph: Graph, res: ResultSpec, self: Result, rcond: Float, hermitian: Bool = False) -> Result:
    """aten::linalg_pinv(Tensor self, float rcond, bool hermitian=False) -> Tensor"""
    return aten_linalg_pinv_atol_rtol_float(graph, res, self=self, atol=0.0, rtol=rcond, hermitian=hermitian)


def aten_linalg_pinv_atol_rtol_float(graph: Graph, res: ResultSpec, self: Result, *, atol: Float | None = None, rtol: Float | None = None, hermitian: Bool = False) -> Result:
    """aten::linalg_pinv.atol_rtol_float(Tensor self, *, float? atol=None, float? rtol=None, bool hermitian=False) -> Tensor"""
    bounds = [as_tensor(graph, each, part_dtype(dtype_of(graph, self))) for each in [atol, rtol]]
    return pseudo_inverse(graph, self, bounds[0], bounds[1], hermitian)


def aten_linalg_pinv_atol_rtol_tensor(graph: Graph, res: ResultSpec, self: Result, *, atol: Result | None = None, rtol: Result | None = None, hermitian: Bool = False) -> Result:
    """aten::linalg_pinv.atol_rtol_tensor(Tensor self, *, Tensor? atol=None, Tensor? rtol=None, bool hermitian=False) -> Tensor"""
    return pseudo_inverse(graph, self, atol, rtol, hermitian)


def aten_linalg_pinv_rcond_tensor(graph: Graph, res: ResultSpec, self: Result, rcond: Result, hermitian: Bool = False) -> Result:
    """aten::linalg_pinv.rcond_tensor(Tensor self, Tensor rcond, bool hermitian=False) -> Tensor"""
    return pseudo_inverse(graph, self, const(graph, 0, part_dtype(dtype_of(graph, self))), rcond, hermitian)


def aten_linalg_polar(graph: Graph, res: ResultSpec, A: Result) -> Any:
    """aten::linalg_polar(Tensor A) -> (Tensor U, Tensor H)"""
    parts = polar_parts(graph, A)
    return (parts[0], parts[1])


def aten_linalg_qr(graph: Graph, res: ResultSpec, A: Result, mode: Str = 'reduced') -> Any:
    '''aten::linalg_qr(Tensor A, str mode="reduced") -> (Tensor Q, Tensor R)'''
    rows = dim_of(graph, A, -2)
    columns = dim_of(graph, A, -1)
    count = minimum(rows, columns)
    if mode == 'complete':
        graph.case = 1
        result = reflectors_of(graph, A)
        return (orthogonal_part(graph, result[0], result[1], rows), triu(graph, result[0]))
    if mode == 'r':
        graph.case = 2
        result = reflectors_of(graph, A)
        return (zeros_of(graph, [0], dtype_of(graph, A)), triu(graph, cropped(graph, result[0], [count, columns])))
    graph.case = 3
    result = reflectors_of(graph, A)
    whole = orthogonal_part(graph, result[0], result[1], count)
    return (whole, triu(graph, cropped(graph, result[0], [count, columns])))


def aten_linalg_svd(graph: Graph, res: ResultSpec, A: Result, full_matrices: Bool = True, *, driver: Str | None = None) -> Any:
    """aten::linalg_svd(Tensor A, bool full_matrices=True, *, str? driver=None) -> (Tensor U, Tensor S, Tensor Vh)"""
    parts = singular_parts(graph, A, full_matrices)
    return (parts[0], parts[1], parts[2])


def aten_linalg_svdvals(graph: Graph, res: ResultSpec, A: Result, *, driver: Str | None = None) -> Result:
    """aten::linalg_svdvals(Tensor A, *, str? driver=None) -> Tensor"""
    return singular_lengths(graph, A)


def aten_matrix_exp(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::matrix_exp(Tensor self) -> Tensor"""
    return aten_linalg_matrix_exp(graph, res, self=self)


def aten_matrix_power(graph: Graph, res: ResultSpec, self: Result, n: Int) -> Result:
    """aten::matrix_power(Tensor self, int n) -> Tensor"""
    return aten_linalg_matrix_power(graph, res, self=self, n=n)


def aten_orgqr(graph: Graph, res: ResultSpec, self: Result, input2: Result) -> Result:
    """aten::orgqr(Tensor self, Tensor input2) -> Tensor"""
    return aten_linalg_householder_product(graph, res, input=self, tau=input2)


def aten_ormqr(graph: Graph, res: ResultSpec, self: Result, input2: Result, input3: Result, left: Bool = True, transpose: Bool = False) -> Result:
    """aten::ormqr(Tensor self, Tensor input2, Tensor input3, bool left=True, bool transpose=False) -> Tensor"""
    if left:
        graph.case = 1
        return reflected(graph, self, input2, input3, transpose)
    graph.case = 2
    return matrix_adjoint(graph, reflected(graph, self, input2, matrix_adjoint(graph, input3), not transpose))


def aten_pinverse(graph: Graph, res: ResultSpec, self: Result, rcond: Float = 1e-15) -> Result:
    """aten::pinverse(Tensor self, float rcond=1.0000000000000001e-15) -> Tensor"""
    return aten_linalg_pinv_atol_rtol_float(graph, res, self=self, atol=0.0, rtol=rcond)


def aten_qr(graph: Graph, res: ResultSpec, self: Result, some: Bool = True) -> Any:
    """aten::qr(Tensor self, bool some=True) -> (Tensor Q, Tensor R)"""
    count = minimum(*shape_of(graph, self)[-2:]) if some else dim_of(graph, self, -2)
    result = reflectors_of(graph, self)
    whole = orthogonal_part(graph, result[0], result[1], count)
    return (whole, triu(graph, cropped(graph, result[0], [count, dim_of(graph, self, -1)])))


def aten_svd(graph: Graph, res: ResultSpec, self: Result, some: Bool = True, compute_uv: Bool = True) -> Any:
    """aten::svd(Tensor self, bool some=True, bool compute_uv=True) -> (Tensor U, Tensor S, Tensor V)"""
    if not compute_uv:
        graph.case = 1
        left = zeros_of(graph, shape_of(graph, res[0]), dtype_of(graph, self))
        return (left, singular_lengths(graph, self), zeros_of(graph, shape_of(graph, res[2]), dtype_of(graph, self)))
    graph.case = 2
    parts = singular_parts(graph, self, not some)
    return (parts[0], parts[1], matrix_adjoint(graph, parts[2]))


def complex_aten__linalg_eigh(graph: Graph, res: ResultSpec, A: Result, UPLO: Str = 'L', compute_v: Bool = True) -> Any:
    '''aten::_linalg_eigh(Tensor A, str UPLO="L", bool compute_v=True) -> (Tensor eigenvalues, Tensor eigenvectors)'''
    parts = symmetric_parts(graph, A, UPLO)
    return (parts[0], parts[1] if compute_v else zeros_of(graph, [0], dtype_of(graph, A)))


def complex_aten__linalg_svd(graph: Graph, res: ResultSpec, A: Result, full_matrices: Bool = False, compute_uv: Bool = True, *, driver: Str | None = None) -> Any:
    """aten::_linalg_svd(Tensor A, bool full_matrices=False, bool compute_uv=True, *, str? driver=None) -> (Tensor U, Tensor S, Tensor Vh)"""
    if not compute_uv:
        graph.case = 1
        return (zeros_of(graph, [0], dtype_of(graph, A)), singular_lengths(graph, A), zeros_of(graph, [0], dtype_of(graph, A)))
    graph.case = 2
    parts = singular_parts(graph, A, full_matrices)
    return (parts[0], parts[1], parts[2])


def complex_aten_chain_matmul(graph: Graph, res: ResultSpec, matrices: Results) -> Result:
    """aten::chain_matmul(Tensor[] matrices) -> Tensor"""
    return complex_aten_linalg_multi_dot(graph, res, tensors=matrices)


def complex_aten_geqrf(graph: Graph, res: ResultSpec, self: Result) -> Any:
    """aten::geqrf(Tensor self) -> (Tensor a, Tensor tau)"""
    result = reflectors_of(graph, self)
    return (result[0], result[1])


def complex_aten_linalg_eig(graph: Graph, res: ResultSpec, self: Result) -> Any:
    """aten::linalg_eig(Tensor self) -> (Tensor eigenvalues, Tensor eigenvectors)"""
    raise UnsupportedCase('aten::linalg_eig: eigenvalues of a general matrix, which are complex')


def complex_aten_linalg_eigh(graph: Graph, res: ResultSpec, self: Result, UPLO: Str = 'L') -> Any:
    '''aten::linalg_eigh(Tensor self, str UPLO="L") -> (Tensor eigenvalues, Tensor eigenvectors)'''
    parts = symmetric_parts(graph, self, UPLO)
    return (parts[0], parts[1])


def complex_aten_linalg_eigvals(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::linalg_eigvals(Tensor self) -> Tensor"""
    return complex_aten_linalg_eig(graph, res, self=self)


def complex_aten_linalg_eigvalsh(graph: Graph, res: ResultSpec, self: Result, UPLO: Str = 'L') -> Result:
    '''aten::linalg_eigvalsh(Tensor self, str UPLO="L") -> Tensor'''
    return re(graph, symmetric_parts(graph, self, UPLO)[0])


def complex_aten_linalg_householder_product(graph: Graph, res: ResultSpec, input: Result, tau: Result) -> Result:
    """aten::linalg_householder_product(Tensor input, Tensor tau) -> Tensor"""
    return orthogonal_part(graph, input, tau, dim_of(graph, input, -1))


def complex_aten_linalg_ldl_factor(graph: Graph, res: ResultSpec, self: Result, *, hermitian: Bool = False) -> Any:
    """aten::linalg_ldl_factor(Tensor self, *, bool hermitian=False) -> (Tensor LD, Tensor pivots)"""
    result = ldl_factors(graph, self, hermitian)
    return (result[0], result[1])


def complex_aten_linalg_ldl_factor_ex(graph: Graph, res: ResultSpec, self: Result, *, hermitian: Bool = False, check_errors: Bool = False) -> Any:
    """aten::linalg_ldl_factor_ex(Tensor self, *, bool hermitian=False, bool check_errors=False) -> (Tensor LD, Tensor pivots, Tensor info)"""
    result = ldl_factors(graph, self, hermitian)
    return (result[0], result[1], result[2])


def complex_aten_linalg_ldl_solve(graph: Graph, res: ResultSpec, LD: Result, pivots: Result, B: Result, *, hermitian: Bool = False) -> Result:
    """aten::linalg_ldl_solve(Tensor LD, Tensor pivots, Tensor B, *, bool hermitian=False) -> Tensor"""
    return ldl_solved(graph, LD, pivots, B, hermitian)


def complex_aten_linalg_matrix_exp(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::linalg_matrix_exp(Tensor self) -> Tensor"""
    return matrix_exp(graph, res, self=self)


def complex_aten_linalg_matrix_power(graph: Graph, res: ResultSpec, self: Result, n: Int) -> Result:
    """aten::linalg_matrix_power(Tensor self, int n) -> Tensor"""
    return matrix_power(graph, res, self=self, n=n)


def complex_aten_linalg_matrix_rank(graph: Graph, res: ResultSpec, self: Result, tol: Float, hermitian: Bool = False) -> Result:
    """aten::linalg_matrix_rank(Tensor self, float tol, bool hermitian=False) -> Tensor"""
    return complex_aten_linalg_matrix_rank_atol_rtol_float(graph, res, self=self, atol=tol, rtol=0.0, hermitian=hermitian)


def complex_aten_linalg_matrix_rank_atol_rtol_float(graph: Graph, res: ResultSpec, self: Result, *, atol: Float | None = None, rtol: Float | None = None, hermitian: Bool = False) -> Result:
    """aten::linalg_matrix_rank.atol_rtol_float(Tensor self, *, float? atol=None, float? rtol=None, bool hermitian=False) -> Tensor"""
    values = graph.make_node('Abs', [re(graph, symmetric_parts(graph, self)[0])]) if hermitian else singular_lengths(graph, self)
    floors = [as_tensor(graph, each, part_dtype(dtype_of(graph, self))) for each in [atol, rtol]]
    kept = graph.make_node('Greater', [values, noise_floor(graph, values, maximum(*shape_of(graph, self)[-2:]), floors[0], floors[1])])
    return graph.make_node('ReduceSum', [cast(graph, kept, int64), consts(graph, [rank_of(graph, self) - 2], int64)], res.outputs, keepdims=0)


def complex_aten_linalg_matrix_rank_atol_rtol_tensor(graph: Graph, res: ResultSpec, input: Result, *, atol: Result | None = None, rtol: Result | None = None, hermitian: Bool = False) -> Result:
    """aten::linalg_matrix_rank.atol_rtol_tensor(Tensor input, *, Tensor? atol=None, Tensor? rtol=None, bool hermitian=False) -> Tensor"""
    values = graph.make_node('Abs', [re(graph, symmetric_parts(graph, input)[0])]) if hermitian else singular_lengths(graph, input)
    kept = graph.make_node('Greater', [values, noise_floor(graph, values, maximum(*shape_of(graph, input)[-2:]), atol, rtol)])
    return graph.make_node('ReduceSum', [cast(graph, kept, int64), consts(graph, [rank_of(graph, res)], int64)], res.outputs, keepdims=0)


def complex_aten_linalg_matrix_rank_tol_tensor(graph: Graph, res: ResultSpec, input: Result, tol: Result, hermitian: Bool = False) -> Result:
    """aten::linalg_matrix_rank.tol_tensor(Tensor input, Tensor tol, bool hermitian=False) -> Tensor"""
    values = graph.make_node('Abs', [re(graph, symmetric_parts(graph, input)[0])]) if hermitian else singular_lengths(graph, input)
    nothing = const(graph, 0, dtype_of(graph, values))
    kept = graph.make_node('Greater', [values, noise_floor(graph, values, maximum(*shape_of(graph, input)[-2:]), tol, nothing)])
    return graph.make_node('ReduceSum', [cast(graph, kept, int64), consts(graph, [rank_of(graph, res)], int64)], res.outputs, keepdims=0)


def complex_aten_linalg_matrix_sqrth(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::linalg_matrix_sqrth(Tensor self) -> Tensor"""
    return symmetric_root(graph, self)


def complex_aten_linalg_multi_dot(graph: Graph, res: ResultSpec, tensors: Results) -> Result:
    """aten::linalg_multi_dot(Tensor[] tensors) -> Tensor"""
    return multi_dot(graph, res, tensors=tensors)


def complex_aten_linalg_pinv(graph: Graph, res: ResultSpec, self: Result, rcond: Float, hermitian: Bool = False) -> Result:
    """aten::linalg_pinv(Tensor self, float rcond, bool hermitian=False) -> Tensor"""
    return complex_aten_linalg_pinv_atol_rtol_float(graph, res, self=self, atol=0.0, rtol=rcond, hermitian=hermitian)


def complex_aten_linalg_pinv_atol_rtol_float(graph: Graph, res: ResultSpec, self: Result, *, atol: Float | None = None, rtol: Float | None = None, hermitian: Bool = False) -> Result:
    """aten::linalg_pinv.atol_rtol_float(Tensor self, *, float? atol=None, float? rtol=None, bool hermitian=False) -> Tensor"""
    bounds = [as_tensor(graph, each, part_dtype(dtype_of(graph, self))) for each in [atol, rtol]]
    return pseudo_inverse(graph, self, bounds[0], bounds[1], hermitian)


def complex_aten_linalg_pinv_atol_rtol_tensor(graph: Graph, res: ResultSpec, self: Result, *, atol: Result | None = None, rtol: Result | None = None, hermitian: Bool = False) -> Result:
    """aten::linalg_pinv.atol_rtol_tensor(Tensor self, *, Tensor? atol=None, Tensor? rtol=None, bool hermitian=False) -> Tensor"""
    return pseudo_inverse(graph, self, atol, rtol, hermitian)


def complex_aten_linalg_pinv_rcond_tensor(graph: Graph, res: ResultSpec, self: Result, rcond: Result, hermitian: Bool = False) -> Result:
    """aten::linalg_pinv.rcond_tensor(Tensor self, Tensor rcond, bool hermitian=False) -> Tensor"""
    return pseudo_inverse(graph, self, const(graph, 0, part_dtype(dtype_of(graph, self))), rcond, hermitian)


def complex_aten_linalg_polar(graph: Graph, res: ResultSpec, A: Result) -> Any:
    """aten::linalg_polar(Tensor A) -> (Tensor U, Tensor H)"""
    parts = polar_parts(graph, A)
    return (parts[0], parts[1])


def complex_aten_linalg_qr(graph: Graph, res: ResultSpec, A: Result, mode: Str = 'reduced') -> Any:
    '''aten::linalg_qr(Tensor A, str mode="reduced") -> (Tensor Q, Tensor R)'''
    rows = dim_of(graph, A, -2)
    columns = dim_of(graph, A, -1)
    count = minimum(rows, columns)
    if mode == 'complete':
        graph.case = 1
        result = reflectors_of(graph, A)
        return (orthogonal_part(graph, result[0], result[1], rows), triu(graph, result[0]))
    if mode == 'r':
        graph.case = 2
        result = reflectors_of(graph, A)
        return (zeros_of(graph, [0], dtype_of(graph, A)), triu(graph, cropped(graph, result[0], [count, columns])))
    graph.case = 3
    result = reflectors_of(graph, A)
    whole = orthogonal_part(graph, result[0], result[1], count)
    return (whole, triu(graph, cropped(graph, result[0], [count, columns])))


def complex_aten_linalg_svd(graph: Graph, res: ResultSpec, A: Result, full_matrices: Bool = True, *, driver: Str | None = None) -> Any:
    """aten::linalg_svd(Tensor A, bool full_matrices=True, *, str? driver=None) -> (Tensor U, Tensor S, Tensor Vh)"""
    parts = singular_parts(graph, A, full_matrices)
    return (parts[0], parts[1], parts[2])


def complex_aten_linalg_svdvals(graph: Graph, res: ResultSpec, A: Result, *, driver: Str | None = None) -> Result:
    """aten::linalg_svdvals(Tensor A, *, str? driver=None) -> Tensor"""
    return singular_lengths(graph, A)


def complex_aten_matrix_exp(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::matrix_exp(Tensor self) -> Tensor"""
    return complex_aten_linalg_matrix_exp(graph, res, self=self)


def complex_aten_matrix_power(graph: Graph, res: ResultSpec, self: Result, n: Int) -> Result:
    """aten::matrix_power(Tensor self, int n) -> Tensor"""
    return complex_aten_linalg_matrix_power(graph, res, self=self, n=n)


def complex_aten_orgqr(graph: Graph, res: ResultSpec, self: Result, input2: Result) -> Result:
    """aten::orgqr(Tensor self, Tensor input2) -> Tensor"""
    return complex_aten_linalg_householder_product(graph, res, input=self, tau=input2)


def complex_aten_ormqr(graph: Graph, res: ResultSpec, self: Result, input2: Result, input3: Result, left: Bool = True, transpose: Bool = False) -> Result:
    """aten::ormqr(Tensor self, Tensor input2, Tensor input3, bool left=True, bool transpose=False) -> Tensor"""
    if left:
        graph.case = 1
        return reflected(graph, self, input2, input3, transpose)
    graph.case = 2
    return matrix_adjoint(graph, reflected(graph, self, input2, matrix_adjoint(graph, input3), not transpose))


def complex_aten_pinverse(graph: Graph, res: ResultSpec, self: Result, rcond: Float = 1e-15) -> Result:
    """aten::pinverse(Tensor self, float rcond=1.0000000000000001e-15) -> Tensor"""
    return complex_aten_linalg_pinv_atol_rtol_float(graph, res, self=self, atol=0.0, rtol=rcond)


def complex_aten_qr(graph: Graph, res: ResultSpec, self: Result, some: Bool = True) -> Any:
    """aten::qr(Tensor self, bool some=True) -> (Tensor Q, Tensor R)"""
    count = minimum(*shape_of(graph, self)[-2:]) if some else dim_of(graph, self, -2)
    result = reflectors_of(graph, self)
    whole = orthogonal_part(graph, result[0], result[1], count)
    return (whole, triu(graph, cropped(graph, result[0], [count, dim_of(graph, self, -1)])))


def complex_aten_svd(graph: Graph, res: ResultSpec, self: Result, some: Bool = True, compute_uv: Bool = True) -> Any:
    """aten::svd(Tensor self, bool some=True, bool compute_uv=True) -> (Tensor U, Tensor S, Tensor V)"""
    if not compute_uv:
        graph.case = 1
        left = zeros_of(graph, shape_of(graph, res[0]), dtype_of(graph, self))
        return (left, singular_lengths(graph, self), zeros_of(graph, shape_of(graph, res[2]), dtype_of(graph, self)))
    graph.case = 2
    parts = singular_parts(graph, self, not some)
    return (parts[0], parts[1], matrix_adjoint(graph, parts[2]))


def rule_aten__linalg_eigh(graph: Graph, A: Result, UPLO: Str = 'L', compute_v: Bool = True) -> Rules:
    return ((part_type(dtype_or_none(graph, A)), None), (dtype_or_none(graph, A), None),)


def rule_aten__linalg_svd(graph: Graph, A: Result, full_matrices: Bool = False, compute_uv: Bool = True, *, driver: Str | None = None) -> Rules:
    return ((dtype_or_none(graph, A), None), (part_type(dtype_or_none(graph, A)), None), (dtype_or_none(graph, A), None),)


def rule_aten_chain_matmul(graph: Graph, matrices: Results) -> Rules:
    return rule_aten_linalg_multi_dot(graph, tensors=matrices)


def rule_aten_geqrf(graph: Graph, self: Result) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)), (dtype_or_none(graph, self), None),)


def rule_aten_linalg_eig(graph: Graph, self: Result) -> Rules:
    return ((complex_type(dtype_or_none(graph, self)), None), (complex_type(dtype_or_none(graph, self)), None),)


def rule_aten_linalg_eigh(graph: Graph, self: Result, UPLO: Str = 'L') -> Rules:
    return ((part_type(dtype_or_none(graph, self)), None), (dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_linalg_eigvals(graph: Graph, self: Result) -> Rules:
    return rule_aten_linalg_eig(graph, self=self)


def rule_aten_linalg_eigvalsh(graph: Graph, self: Result, UPLO: Str = 'L') -> Rules:
    return ((part_type(dtype_or_none(graph, self)), None),)


def rule_aten_linalg_householder_product(graph: Graph, input: Result, tau: Result) -> Rules:
    return ((dtype_or_none(graph, input), shape_or_none(graph, input)),)


def rule_aten_linalg_ldl_factor(graph: Graph, self: Result, *, hermitian: Bool = False) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)), (int32, None),)


def rule_aten_linalg_ldl_factor_ex(graph: Graph, self: Result, *, hermitian: Bool = False, check_errors: Bool = False) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)), (int32, None), (int32, None),)


def rule_aten_linalg_ldl_solve(graph: Graph, LD: Result, pivots: Result, B: Result, *, hermitian: Bool = False) -> Rules:
    return ((dtype_or_none(graph, B), None),)


def rule_aten_linalg_matrix_exp(graph: Graph, self: Result) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_linalg_matrix_power(graph: Graph, self: Result, n: Int) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_linalg_matrix_rank(graph: Graph, self: Result, tol: Float, hermitian: Bool = False) -> Rules:
    return rule_aten_linalg_matrix_rank_atol_rtol_float(graph, self=self, atol=tol, rtol=0.0, hermitian=hermitian)


def rule_aten_linalg_matrix_rank_atol_rtol_float(graph: Graph, self: Result, *, atol: Float | None = None, rtol: Float | None = None, hermitian: Bool = False) -> Rules:
    return ((int64, None),)


def rule_aten_linalg_matrix_rank_atol_rtol_tensor(graph: Graph, input: Result, *, atol: Result | None = None, rtol: Result | None = None, hermitian: Bool = False) -> Rules:
    return ((int64, None),)


def rule_aten_linalg_matrix_rank_tol_tensor(graph: Graph, input: Result, tol: Result, hermitian: Bool = False) -> Rules:
    return ((int64, None),)


def rule_aten_linalg_matrix_sqrth(graph: Graph, self: Result) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_linalg_multi_dot(graph: Graph, tensors: Results) -> Rules:
    return ((dtype_or_none(graph, tensors), None),)


def rule_aten_linalg_pinv(graph: Graph, self: Result, rcond: Float, hermitian: Bool = False) -> Rules:
    return rule_aten_linalg_pinv_atol_rtol_float(graph, self=self, atol=0.0, rtol=rcond, hermitian=hermitian)


def rule_aten_linalg_pinv_atol_rtol_float(graph: Graph, self: Result, *, atol: Float | None = None, rtol: Float | None = None, hermitian: Bool = False) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_linalg_pinv_atol_rtol_tensor(graph: Graph, self: Result, *, atol: Result | None = None, rtol: Result | None = None, hermitian: Bool = False) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_linalg_pinv_rcond_tensor(graph: Graph, self: Result, rcond: Result, hermitian: Bool = False) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_linalg_polar(graph: Graph, A: Result) -> Rules:
    return ((dtype_or_none(graph, A), shape_or_none(graph, A)), (dtype_or_none(graph, A), None),)


def rule_aten_linalg_qr(graph: Graph, A: Result, mode: Str = 'reduced') -> Rules:
    return ((dtype_or_none(graph, A), None), (dtype_or_none(graph, A), None),)


def rule_aten_linalg_svd(graph: Graph, A: Result, full_matrices: Bool = True, *, driver: Str | None = None) -> Rules:
    return ((dtype_or_none(graph, A), None), (part_type(dtype_or_none(graph, A)), None), (dtype_or_none(graph, A), None),)


def rule_aten_linalg_svdvals(graph: Graph, A: Result, *, driver: Str | None = None) -> Rules:
    return ((part_type(dtype_or_none(graph, A)), None),)


def rule_aten_matrix_exp(graph: Graph, self: Result) -> Rules:
    return rule_aten_linalg_matrix_exp(graph, self=self)


def rule_aten_matrix_power(graph: Graph, self: Result, n: Int) -> Rules:
    return rule_aten_linalg_matrix_power(graph, self=self, n=n)


def rule_aten_orgqr(graph: Graph, self: Result, input2: Result) -> Rules:
    return rule_aten_linalg_householder_product(graph, input=self, tau=input2)


def rule_aten_ormqr(graph: Graph, self: Result, input2: Result, input3: Result, left: Bool = True, transpose: Bool = False) -> Rules:
    return ((dtype_or_none(graph, input3), shape_or_none(graph, input3)),)


def rule_aten_pinverse(graph: Graph, self: Result, rcond: Float = 1e-15) -> Rules:
    return rule_aten_linalg_pinv_atol_rtol_float(graph, self=self, atol=0.0, rtol=rcond)


def rule_aten_qr(graph: Graph, self: Result, some: Bool = True) -> Rules:
    return ((dtype_or_none(graph, self), None), (dtype_or_none(graph, self), None),)


def rule_aten_svd(graph: Graph, self: Result, some: Bool = True, compute_uv: Bool = True) -> Rules:
    return ((dtype_or_none(graph, self), None), (part_type(dtype_or_none(graph, self)), None), (dtype_or_none(graph, self), None),)
