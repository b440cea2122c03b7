# Generated from specs/aten/linalg.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING

from ortable.dtypes import bfloat16, boolean, float32, float64, int32, int64
from ortable.errors import UnsupportedCase
from ortable.inference import keep_leading, unify_shapes
from ortable.lowerings.complex.arithmetic import c_einsum, promote_complex
from ortable.lowerings.products import einsum_dtype, einsum_equation, einsum_product, rounded_to
from ortable.lowerings.quantize import is_dequantized, rows_of
from ortable.prelude.complex_arithmetic import c_add, c_conj, c_mul, c_scaled
from ortable.prelude.facts import differs, dim_of, dtype_of, fits_attribute, is_float, is_number, is_wide, product, rank_of, shape_of, transpose_perm
from ortable.prelude.matrices import matrix_product, untransposed
from ortable.prelude.metadata import dtype_or_none, scalar_shape, shape_or_none
from ortable.prelude.pointwise import scaled
from ortable.prelude.promotion import opmath, opmath_beside, opmath_dtype, promote_values, promoted_dtype
from ortable.prelude.sums import summed_over
from ortable.prelude.values import as_vec, cast, cast_all, consts, filled, permuted, reshape_to, unsqueezed

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Dtype, Ints, Result, Results, Scalar, Str


def aten_addbmm(graph: Graph, res: ResultSpec, self: Result, batch1: Result, batch2: Result, *, beta: Scalar = 1, alpha: Scalar = 1) -> Result:
    """aten::addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"""
    if alpha == 0 and is_wide(graph, batch1):
        # torch does not read the matrices when alpha is 0, except those of half floats
        graph.case = 1
        sizes = [dim_of(graph, batch1, 1), dim_of(graph, batch2, 2)]
        own = dtype_of(graph, self)
        return filled(graph, sizes, 0, own) if beta == 0 else graph.make_node('Expand', [scaled(graph, self, beta), as_vec(graph, sizes)], res.outputs)
    if beta == 0:
        # torch does not read self when beta is 0, so NaN must not leak
        graph.case = 2
        pairs = matrix_product(graph, opmath(graph, batch1), opmath(graph, batch2))
        total = summed_over(graph, pairs, [0], False)
        return cast(graph, scaled(graph, total, alpha), dtype_of(graph, batch1))
    graph.case = 3
    pairs = matrix_product(graph, opmath(graph, batch1), opmath(graph, batch2))
    total = summed_over(graph, pairs, [0], False)
    return cast(graph, graph.make_node('Add', [scaled(graph, opmath(graph, self), beta, True), scaled(graph, total, alpha)]), dtype_of(graph, batch1))


def aten_addmm(graph: Graph, res: ResultSpec, self: Result, mat1: Result, mat2: Result, *, beta: Scalar = 1, alpha: Scalar = 1) -> Result:
    """aten::addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"""
    if alpha == 0 and is_wide(graph, mat1):
        # torch does not read the matrices when alpha is 0, except those of half floats
        graph.case = 1
        sizes = [dim_of(graph, mat1, 0), dim_of(graph, mat2, 1)]
        own = dtype_of(graph, self)
        return filled(graph, sizes, 0, own) if beta == 0 else graph.make_node('Expand', [scaled(graph, self, beta), as_vec(graph, sizes)], res.outputs)
    if is_float(graph, mat1) and dim_of(graph, mat1, 1) == 0:
        # ONNX Runtime's Gemm over nothing leaves beta out
        graph.case = 2
        rest = matrix_product(graph, mat1, mat2)
        factor = rounded_to(beta, dtype_of(graph, self))
        return rest if beta == 0 else graph.make_node('Add', [scaled(graph, self, factor, True), rest], res.outputs)
    if is_float(graph, mat1) and is_number(alpha) and is_number(beta) and fits_attribute(graph, alpha, mat1) and fits_attribute(graph, beta, mat1):
        # torch does not read self when beta is 0, so NaN must not leak
        graph.case = 3
        a = untransposed(graph, mat1)
        b = untransposed(graph, mat2)
        bias = self if differs(beta, 0) else None
        return graph.make_node('Gemm', [a[0], b[0], bias], res.outputs, alpha=float(alpha), beta=float(beta), transA=a[1], transB=b[1])
    if is_float(graph, mat1):
        # attributes are float32
        graph.case = 4
        a = untransposed(graph, mat1)
        b = untransposed(graph, mat2)
        grown = scaled(graph, graph.make_node('Gemm', [a[0], b[0]], transA=a[1], transB=b[1]), alpha)
        return grown if beta == 0 else graph.make_node('Add', [scaled(graph, self, beta, True), grown], res.outputs)
    if beta == 0:
        graph.case = 5
        return scaled(graph, matrix_product(graph, mat1, mat2), int(alpha))
    # onnxruntime has no integer Gemm kernel; torch cuts the factors to ints
    graph.case = 6
    return graph.make_node('Add', [scaled(graph, matrix_product(graph, mat1, mat2), int(alpha)), scaled(graph, self, int(beta), True)], res.outputs)


def aten_addmm_dtype(graph: Graph, res: ResultSpec, self: Result, mat1: Result, mat2: Result, out_dtype: Dtype, *, beta: Scalar = 1, alpha: Scalar = 1) -> Result:
    """aten::addmm.dtype(Tensor self, Tensor mat1, Tensor mat2, ScalarType out_dtype, *, Scalar beta=1, Scalar alpha=1) -> Tensor"""
    compute_dtype = opmath_dtype(dtype_of(graph, res))
    rows = matrix_product(graph, cast(graph, mat1, compute_dtype), cast(graph, mat2, compute_dtype))
    left = scaled(graph, rows, alpha)
    total = left if beta == 0 else graph.make_node('Add', [scaled(graph, cast(graph, self, compute_dtype), beta, True), left])
    return cast(graph, total, dtype_of(graph, res))


def aten_addmv(graph: Graph, res: ResultSpec, self: Result, mat: Result, vec: Result, *, beta: Scalar = 1, alpha: Scalar = 1) -> Result:
    """aten::addmv(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor"""
    a = rounded_to(alpha, dtype_of(graph, mat))
    b = rounded_to(beta, dtype_of(graph, mat))
    if a == 0 and is_wide(graph, mat):
        # torch does not read the factors when alpha is 0, except those of half floats
        graph.case = 1
        sizes = [dim_of(graph, mat, 0)]
        own = dtype_of(graph, self)
        return filled(graph, sizes, 0, own) if b == 0 else graph.make_node('Expand', [scaled(graph, self, b), as_vec(graph, sizes)], res.outputs)
    if b == 0:
        # torch does not read self when beta is 0
        graph.case = 2
        return cast(graph, scaled(graph, matrix_product(graph, opmath(graph, mat), opmath(graph, vec)), a), dtype_of(graph, mat))
    # torch rounds a product of half floats when it is scaled
    graph.case = 3
    term = scaled(graph, matrix_product(graph, opmath(graph, mat), opmath(graph, vec)), a)
    return graph.make_node('Add', [scaled(graph, self, b, True), cast(graph, term, dtype_of(graph, mat))], res.outputs)


def aten_addr(graph: Graph, res: ResultSpec, self: Result, vec1: Result, vec2: Result, *, beta: Scalar = 1, alpha: Scalar = 1) -> Result:
    """aten::addr(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"""
    self, vec1, vec2 = promote_values(graph, 'default', [self, vec1, vec2])
    column = [1]
    a = rounded_to(alpha, dtype_of(graph, res))
    b = rounded_to(beta, dtype_of(graph, res))
    if dtype_of(graph, res) == boolean and beta and alpha:
        graph.case = 1
        return graph.make_node('Or', [self, graph.make_node('And', [graph.make_node('Unsqueeze', [vec1, consts(graph, column, int64)]), vec2])], res.outputs)
    if dtype_of(graph, res) == boolean:
        graph.case = 2
        raise UnsupportedCase('aten::addr: beta or alpha of False on bool')
    if b == 0:
        # torch does not read self when beta is 0
        graph.case = 3
        return scaled(graph, graph.make_node('Mul', [graph.make_node('Unsqueeze', [vec1, consts(graph, column, int64)]), vec2]), a)
    graph.case = 4
    pairs = graph.make_node('Mul', [graph.make_node('Unsqueeze', [vec1, consts(graph, column, int64)]), vec2])
    return graph.make_node('Add', [scaled(graph, self, b, True), scaled(graph, pairs, a)], res.outputs)


def aten_baddbmm(graph: Graph, res: ResultSpec, self: Result, batch1: Result, batch2: Result, *, beta: Scalar = 1, alpha: Scalar = 1) -> Result:
    """aten::baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"""
    dtype = opmath_beside(graph, beta, opmath_beside(graph, alpha, dtype_of(graph, batch1)))
    if beta == 0:
        # torch does not read self when beta is 0, so NaN must not leak
        graph.case = 1
        pairs = matrix_product(graph, cast(graph, batch1, dtype), cast(graph, batch2, dtype))
        return cast(graph, scaled(graph, pairs, alpha), dtype_of(graph, batch1))
    graph.case = 2
    pairs = matrix_product(graph, cast(graph, batch1, dtype), cast(graph, batch2, dtype))
    total = graph.make_node('Add', [scaled(graph, cast(graph, self, dtype), beta, True), scaled(graph, pairs, alpha)])
    return cast(graph, total, dtype_of(graph, batch1))


def aten_bmm(graph: Graph, res: ResultSpec, self: Result, mat2: Result) -> Result:
    """aten::bmm(Tensor self, Tensor mat2) -> Tensor"""
    graph.case = 1
    return matrix_product(graph, self, mat2)


def aten_bmm_dtype(graph: Graph, res: ResultSpec, self: Result, mat2: Result, out_dtype: Dtype) -> Result:
    """aten::bmm.dtype(Tensor self, Tensor mat2, ScalarType out_dtype) -> Tensor"""
    compute_dtype = opmath_dtype(dtype_of(graph, res))
    rows = matrix_product(graph, cast(graph, self, compute_dtype), cast(graph, mat2, compute_dtype))
    return cast(graph, rows, dtype_of(graph, res))


def aten_dot(graph: Graph, res: ResultSpec, self: Result, tensor: Result) -> Result:
    """aten::dot(Tensor self, Tensor tensor) -> Tensor"""
    if is_float(graph, self) and dim_of(graph, self, 0) > 16:
        # ONNX Runtime adds up the products of a vector one by one; float64 holds those of float32
        graph.case = 1
        terms = graph.make_node('Mul', [cast(graph, self, float64), cast(graph, tensor, float64)])
        return cast(graph, graph.make_node('ReduceSum', [terms, consts(graph, [0], int64)], keepdims=0), dtype_of(graph, self))
    graph.case = 2
    return matrix_product(graph, self, tensor)


def aten_einsum(graph: Graph, res: ResultSpec, equation: Str, tensors: Results, *, path: Ints | None = None) -> Result:
    """aten::einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor"""
    graph.case = 1
    text = einsum_equation(graph, equation, [rank_of(graph, x) for x in tensors])
    own = einsum_dtype(graph, equation, tensors)
    wide = float32 if own == bfloat16 else int32 if own == boolean else own
    return cast(graph, einsum_product(graph, cast_all(graph, tensors, wide), text), own)


def aten_ger(graph: Graph, res: ResultSpec, self: Result, vec2: Result) -> Result:
    """aten::ger(Tensor self, Tensor vec2) -> Tensor"""
    return aten_outer(graph, res, self=self, vec2=vec2)


def aten_inner(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::inner(Tensor self, Tensor other) -> Tensor"""
    if rank_of(graph, self) == 0 or rank_of(graph, other) == 0:
        graph.case = 1
        return graph.make_node('Mul', [self, other], res.outputs)
    graph.case = 2
    first = shape_of(graph, self)[:-1]
    second = shape_of(graph, other)[:-1]
    rows = reshape_to(graph, self, [product(first), dim_of(graph, self, -1)])
    columns = permuted(graph, reshape_to(graph, other, [product(second), dim_of(graph, other, -1)]), [1, 0])
    return reshape_to(graph, matrix_product(graph, rows, columns), list(first) + list(second))


def aten_linalg_matmul(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::linalg_matmul(Tensor self, Tensor other) -> Tensor"""
    return aten_matmul(graph, res, self=self, other=other)


def aten_linear(graph: Graph, res: ResultSpec, input: Result, weight: Result, bias: Result | None = None) -> Result:
    """aten::linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor"""
    if rank_of(graph, input) == 2 and rank_of(graph, weight) == 2 and is_float(graph, input):
        graph.case = 1
        return graph.make_node('Gemm', [input, weight, bias], res.outputs, transB=1)
    if rank_of(graph, input) > 2 and is_dequantized(graph, weight) and (rank_of(graph, weight) == 2):
        # ONNX Runtime makes an integer product of it, and a MatMul would round float activations
        graph.case = 2
        return reshape_to(graph, graph.make_node('Gemm', [rows_of(graph, input), weight, bias], transB=1), shape_of(graph, res))
    if bias is None:
        graph.case = 3
        return matrix_product(graph, input, permuted(graph, weight, transpose_perm(rank_of(graph, weight), 0, -1)))
    graph.case = 4
    transposed = permuted(graph, weight, transpose_perm(rank_of(graph, weight), 0, -1))
    return graph.make_node('Add', [matrix_product(graph, input, transposed), bias], res.outputs)


def aten_matmul(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::matmul(Tensor self, Tensor other) -> Tensor"""
    graph.case = 1
    return matrix_product(graph, self, other)


def aten_mm(graph: Graph, res: ResultSpec, self: Result, mat2: Result) -> Result:
    """aten::mm(Tensor self, Tensor mat2) -> Tensor"""
    graph.case = 1
    return matrix_product(graph, self, mat2)


def aten_mm_dtype(graph: Graph, res: ResultSpec, self: Result, mat2: Result, out_dtype: Dtype) -> Result:
    """aten::mm.dtype(Tensor self, Tensor mat2, ScalarType out_dtype) -> Tensor"""
    compute_dtype = opmath_dtype(dtype_of(graph, res))
    rows = matrix_product(graph, cast(graph, self, compute_dtype), cast(graph, mat2, compute_dtype))
    return cast(graph, rows, dtype_of(graph, res))


def aten_mv(graph: Graph, res: ResultSpec, self: Result, vec: Result) -> Result:
    """aten::mv(Tensor self, Tensor vec) -> Tensor"""
    graph.case = 1
    return matrix_product(graph, self, vec)


def aten_outer(graph: Graph, res: ResultSpec, self: Result, vec2: Result) -> Result:
    """aten::outer(Tensor self, Tensor vec2) -> Tensor"""
    self, vec2 = promote_values(graph, 'default', [self, vec2])
    if dtype_of(graph, res) == boolean:
        graph.case = 1
        return graph.make_node('And', [graph.make_node('Unsqueeze', [self, consts(graph, [1], int64)]), vec2], res.outputs)
    graph.case = 2
    return graph.make_node('Mul', [graph.make_node('Unsqueeze', [self, consts(graph, [1], int64)]), vec2], res.outputs)


def aten_vdot(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::vdot(Tensor self, Tensor other) -> Tensor"""
    graph.case = 1
    return matrix_product(graph, self, other)


def complex_aten_addbmm(graph: Graph, res: ResultSpec, self: Result, batch1: Result, batch2: Result, *, beta: Scalar = 1, alpha: Scalar = 1) -> Result:
    """aten::addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"""
    if beta == 0:
        graph.case = 4
        return c_scaled(graph, summed_over(graph, matrix_product(graph, batch1, batch2), [0], False), alpha)
    graph.case = 5
    total = summed_over(graph, matrix_product(graph, batch1, batch2), [0], False)
    return c_add(graph, c_scaled(graph, total, alpha), c_scaled(graph, self, beta, True))


def complex_aten_addmm(graph: Graph, res: ResultSpec, self: Result, mat1: Result, mat2: Result, *, beta: Scalar = 1, alpha: Scalar = 1) -> Result:
    """aten::addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"""
    if beta == 0:
        graph.case = 7
        return c_scaled(graph, matrix_product(graph, mat1, mat2), alpha)
    graph.case = 8
    return c_add(graph, c_scaled(graph, matrix_product(graph, mat1, mat2), alpha), c_scaled(graph, self, beta, True))


def complex_aten_addmv(graph: Graph, res: ResultSpec, self: Result, mat: Result, vec: Result, *, beta: Scalar = 1, alpha: Scalar = 1) -> Result:
    """aten::addmv(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor"""
    if beta == 0:
        graph.case = 4
        return c_scaled(graph, matrix_product(graph, mat, vec), alpha)
    graph.case = 5
    return c_add(graph, c_scaled(graph, matrix_product(graph, mat, vec), alpha), c_scaled(graph, self, beta, True))


def complex_aten_addr(graph: Graph, res: ResultSpec, self: Result, vec1: Result, vec2: Result, *, beta: Scalar = 1, alpha: Scalar = 1) -> Result:
    """aten::addr(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"""
    self, vec1, vec2 = promote_complex(graph, 'default', [self, vec1, vec2])
    if beta == 0:
        graph.case = 5
        return c_scaled(graph, c_mul(graph, unsqueezed(graph, vec1, [1]), vec2), alpha)
    graph.case = 6
    pairs = c_mul(graph, unsqueezed(graph, vec1, [1]), vec2)
    return c_add(graph, c_scaled(graph, pairs, alpha), c_scaled(graph, self, beta, True))


def complex_aten_baddbmm(graph: Graph, res: ResultSpec, self: Result, batch1: Result, batch2: Result, *, beta: Scalar = 1, alpha: Scalar = 1) -> Result:
    """aten::baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"""
    if beta == 0:
        graph.case = 3
        return c_scaled(graph, matrix_product(graph, batch1, batch2), alpha)
    graph.case = 4
    return c_add(graph, c_scaled(graph, matrix_product(graph, batch1, batch2), alpha), c_scaled(graph, self, beta, True))


def complex_aten_bmm(graph: Graph, res: ResultSpec, self: Result, mat2: Result) -> Result:
    """aten::bmm(Tensor self, Tensor mat2) -> Tensor"""
    graph.case = 2
    return matrix_product(graph, self, mat2)


def complex_aten_dot(graph: Graph, res: ResultSpec, self: Result, tensor: Result) -> Result:
    """aten::dot(Tensor self, Tensor tensor) -> Tensor"""
    graph.case = 3
    return matrix_product(graph, self, tensor)


def complex_aten_einsum(graph: Graph, res: ResultSpec, equation: Str, tensors: Results, *, path: Ints | None = None) -> Result:
    """aten::einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor"""
    graph.case = 2
    return c_einsum(graph, tensors, einsum_equation(graph, equation, [rank_of(graph, x) for x in tensors]))


def complex_aten_ger(graph: Graph, res: ResultSpec, self: Result, vec2: Result) -> Result:
    """aten::ger(Tensor self, Tensor vec2) -> Tensor"""
    return complex_aten_outer(graph, res, self=self, vec2=vec2)


def complex_aten_inner(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::inner(Tensor self, Tensor other) -> Tensor"""
    if rank_of(graph, self) == 0 or rank_of(graph, other) == 0:
        graph.case = 3
        return c_mul(graph, self, other)
    graph.case = 4
    first = shape_of(graph, self)[:-1]
    second = shape_of(graph, other)[:-1]
    rows = reshape_to(graph, self, [product(first), dim_of(graph, self, -1)])
    columns = permuted(graph, reshape_to(graph, other, [product(second), dim_of(graph, other, -1)]), [1, 0])
    return reshape_to(graph, matrix_product(graph, rows, columns), [*first, *second])


def complex_aten_linalg_matmul(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::linalg_matmul(Tensor self, Tensor other) -> Tensor"""
    return complex_aten_matmul(graph, res, self=self, other=other)


def complex_aten_linear(graph: Graph, res: ResultSpec, input: Result, weight: Result, bias: Result | None = None) -> Result:
    """aten::linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor"""
    if bias is None:
        graph.case = 5
        return matrix_product(graph, input, permuted(graph, weight, transpose_perm(rank_of(graph, weight), 0, -1)))
    graph.case = 6
    transposed = permuted(graph, weight, transpose_perm(rank_of(graph, weight), 0, -1))
    return c_add(graph, matrix_product(graph, input, transposed), bias)


def complex_aten_matmul(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::matmul(Tensor self, Tensor other) -> Tensor"""
    graph.case = 2
    return matrix_product(graph, self, other)


def complex_aten_mm(graph: Graph, res: ResultSpec, self: Result, mat2: Result) -> Result:
    """aten::mm(Tensor self, Tensor mat2) -> Tensor"""
    graph.case = 2
    return matrix_product(graph, self, mat2)


def complex_aten_mv(graph: Graph, res: ResultSpec, self: Result, vec: Result) -> Result:
    """aten::mv(Tensor self, Tensor vec) -> Tensor"""
    graph.case = 2
    return matrix_product(graph, self, vec)


def complex_aten_outer(graph: Graph, res: ResultSpec, self: Result, vec2: Result) -> Result:
    """aten::outer(Tensor self, Tensor vec2) -> Tensor"""
    self, vec2 = promote_complex(graph, 'default', [self, vec2])
    graph.case = 3
    return c_mul(graph, unsqueezed(graph, self, [1]), vec2)


def complex_aten_vdot(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::vdot(Tensor self, Tensor other) -> Tensor"""
    graph.case = 2
    return matrix_product(graph, c_conj(graph, self), other)


def rule_aten_addbmm(graph: Graph, self: Result, batch1: Result, batch2: Result, *, beta: Scalar = 1, alpha: Scalar = 1) -> Rules:
    return ((dtype_or_none(graph, batch1), unify_shapes(('*', ('b', 'm', 'k'), ('b', 'k', 'n')), (('m', 'n'),), [shape_or_none(graph, self), shape_or_none(graph, batch1), shape_or_none(graph, batch2)])[0]),)


def rule_aten_addmm(graph: Graph, self: Result, mat1: Result, mat2: Result, *, beta: Scalar = 1, alpha: Scalar = 1) -> Rules:
    return ((dtype_or_none(graph, mat1), unify_shapes(('*', ('m', 'k'), ('k', 'n')), (('m', 'n'),), [shape_or_none(graph, self), shape_or_none(graph, mat1), shape_or_none(graph, mat2)])[0]),)


def rule_aten_addmm_dtype(graph: Graph, self: Result, mat1: Result, mat2: Result, out_dtype: Dtype, *, beta: Scalar = 1, alpha: Scalar = 1) -> Rules:
    return ((out_dtype, unify_shapes(('*', ('m', 'k'), ('k', 'n')), (('m', 'n'),), [shape_or_none(graph, self), shape_or_none(graph, mat1), shape_or_none(graph, mat2)])[0]),)


def rule_aten_addmv(graph: Graph, self: Result, mat: Result, vec: Result, *, beta: Scalar = 1, alpha: Scalar = 1) -> Rules:
    return ((dtype_or_none(graph, mat), unify_shapes(('*', ('m', 'k'), ('k',)), (('m',),), [shape_or_none(graph, self), shape_or_none(graph, mat), shape_or_none(graph, vec)])[0]),)


def rule_aten_addr(graph: Graph, self: Result, vec1: Result, vec2: Result, *, beta: Scalar = 1, alpha: Scalar = 1) -> Rules:
    return ((promoted_dtype(graph, 'default', self, vec1, vec2), unify_shapes(('*', ('m',), ('n',)), (('m', 'n'),), [shape_or_none(graph, self), shape_or_none(graph, vec1), shape_or_none(graph, vec2)])[0]),)


def rule_aten_baddbmm(graph: Graph, self: Result, batch1: Result, batch2: Result, *, beta: Scalar = 1, alpha: Scalar = 1) -> Rules:
    return ((dtype_or_none(graph, batch1), unify_shapes(('*', ('b', 'm', 'k'), ('b', 'k', 'n')), (('b', 'm', 'n'),), [shape_or_none(graph, self), shape_or_none(graph, batch1), shape_or_none(graph, batch2)])[0]),)


def rule_aten_bmm(graph: Graph, self: Result, mat2: Result) -> Rules:
    return ((dtype_or_none(graph, self), unify_shapes((('b', 'm', 'k'), ('b', 'k', 'n')), (('b', 'm', 'n'),), [shape_or_none(graph, self), shape_or_none(graph, mat2)])[0]),)


def rule_aten_bmm_dtype(graph: Graph, self: Result, mat2: Result, out_dtype: Dtype) -> Rules:
    return ((out_dtype, unify_shapes((('b', 'm', 'k'), ('b', 'k', 'n')), (('b', 'm', 'n'),), [shape_or_none(graph, self), shape_or_none(graph, mat2)])[0]),)


def rule_aten_dot(graph: Graph, self: Result, tensor: Result) -> Rules:
    return ((dtype_or_none(graph, self), unify_shapes((('n',), ('n',)), ((),), [shape_or_none(graph, self), shape_or_none(graph, tensor)])[0]),)


def rule_aten_einsum(graph: Graph, equation: Str, tensors: Results, *, path: Ints | None = None) -> Rules:
    return ((dtype_or_none(graph, tensors) if einsum_dtype(graph, equation, tensors) is None else einsum_dtype(graph, equation, tensors), None),)


def rule_aten_ger(graph: Graph, self: Result, vec2: Result) -> Rules:
    return rule_aten_outer(graph, self=self, vec2=vec2)


def rule_aten_inner(graph: Graph, self: Result, other: Result) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_linalg_matmul(graph: Graph, self: Result, other: Result) -> Rules:
    return rule_aten_matmul(graph, self=self, other=other)


def rule_aten_linear(graph: Graph, input: Result, weight: Result, bias: Result | None = None) -> Rules:
    return ((dtype_or_none(graph, input), keep_leading(shape_or_none(graph, input), rank_of(graph, input) - 1, shape_of(graph, weight)[:-1])),)


def rule_aten_matmul(graph: Graph, self: Result, other: Result) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_mm(graph: Graph, self: Result, mat2: Result) -> Rules:
    return ((dtype_or_none(graph, self), unify_shapes((('m', 'k'), ('k', 'n')), (('m', 'n'),), [shape_or_none(graph, self), shape_or_none(graph, mat2)])[0]),)


def rule_aten_mm_dtype(graph: Graph, self: Result, mat2: Result, out_dtype: Dtype) -> Rules:
    return ((out_dtype, unify_shapes((('m', 'k'), ('k', 'n')), (('m', 'n'),), [shape_or_none(graph, self), shape_or_none(graph, mat2)])[0]),)


def rule_aten_mv(graph: Graph, self: Result, vec: Result) -> Rules:
    return ((dtype_or_none(graph, self), unify_shapes((('m', 'k'), ('k',)), (('m',),), [shape_or_none(graph, self), shape_or_none(graph, vec)])[0]),)


def rule_aten_outer(graph: Graph, self: Result, vec2: Result) -> Rules:
    return ((promoted_dtype(graph, 'default', self, vec2), unify_shapes((('m',), ('n',)), (('m', 'n'),), [shape_or_none(graph, self), shape_or_none(graph, vec2)])[0]),)


def rule_aten_vdot(graph: Graph, self: Result, other: Result) -> Rules:
    return ((dtype_or_none(graph, self), scalar_shape()),)
