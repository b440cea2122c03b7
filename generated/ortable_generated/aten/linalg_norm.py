# Generated from specs/aten/linalg_norm.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING

from ortable.dtypes import float32, int32, int64, uint8
from ortable.errors import UnsupportedCase
from ortable.inference import accumulate_dtype, broadcast, reduce_shape, unify_shapes
from ortable.lowerings.complex.arithmetic import promote_complex
from ortable.lowerings.distances import euclidean_distances, pair_distances
from ortable.lowerings.linalg.field import in_precision
from ortable.lowerings.linalg.solvers import matrix_norm, vector_norm
from ortable.lowerings.packed_weights import unpacked_nibbles
from ortable.lowerings.products import trilinear_product
from ortable.prelude.complex_arithmetic import c_add, c_mul, complex_of, im, part_dtype, re
from ortable.prelude.complex_value import part_type
from ortable.prelude.facts import axes_of, axis_of, dim_of, dtype_of, is_float, product, rank_of, shape_of
from ortable.prelude.matrices import matrix_product
from ortable.prelude.metadata import dtype_or_none, scalar_shape, shape_or_none
from ortable.prelude.pointwise import int_pow
from ortable.prelude.promotion import as_float, opmath, promote_values, promoted_dtype
from ortable.prelude.shapes import as_flat, iota
from ortable.prelude.values import at_least_1d, cast, const, consts, permuted, reshape_to
from ortable_generated.aten.shape import aten_diagonal, complex_aten_diagonal, rule_aten_diagonal
from ortable_generated.aten.statistics import aten_linalg_vector_norm, complex_aten_linalg_vector_norm, rule_aten_linalg_vector_norm

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Bool, Dtype, Float, Int, Ints, Result, Scalar, Str, SymInt


def aten__cdist_forward(graph: Graph, res: ResultSpec, x1: Result, x2: Result, p: Float, compute_mode: Int | None) -> Result:
    """aten::_cdist_forward(Tensor x1, Tensor x2, float p, int? compute_mode) -> Tensor"""
    return pair_distances(graph, x1, x2, p, 0 if compute_mode is None else compute_mode)


def aten__euclidean_dist(graph: Graph, res: ResultSpec, x1: Result, x2: Result) -> Result:
    """aten::_euclidean_dist(Tensor x1, Tensor x2) -> Tensor"""
    return euclidean_distances(graph, x1, x2)


def aten__int_mm(graph: Graph, res: ResultSpec, self: Result, mat2: Result) -> Result:
    """aten::_int_mm(Tensor self, Tensor mat2) -> Tensor"""
    if dtype_of(graph, self) == uint8:
        # without VNNI, ONNX Runtime's products of uint8 and int8 overflow 16 bits; 128 more and a zero point of 128 are exact
        graph.case = 1
        codes = graph.make_node('BitwiseXor', [cast(graph, mat2, uint8), const(graph, 128, uint8)])
        return graph.make_node('MatMulInteger', [self, codes, None, const(graph, 128, uint8)], res.outputs)
    if graph.target == 'onnxruntime':
        # its product of int8 with int8 is a loop without SIMD on x86
        graph.case = 2
        sign = const(graph, 128, uint8)
        rows, columns = (graph.make_node('BitwiseXor', [cast(graph, self, uint8), sign]), graph.make_node('BitwiseXor', [cast(graph, mat2, uint8), sign]))
        return graph.make_node('MatMulInteger', [rows, columns, sign, sign], res.outputs)
    graph.case = 3
    return graph.make_node('MatMulInteger', [self, mat2], res.outputs)


def aten__pdist_forward(graph: Graph, res: ResultSpec, self: Result, p: Float = 2.0) -> Result:
    """aten::_pdist_forward(Tensor self, float p=2.) -> Tensor"""
    size = dim_of(graph, self, 0)
    lengths = as_flat(graph, pair_distances(graph, self, self, p, 2))
    rows = graph.make_node('Unsqueeze', [iota(graph, 0, size, 1), consts(graph, [1], int64)])
    return graph.make_node('Compress', [lengths, as_flat(graph, graph.make_node('Less', [rows, iota(graph, 0, size, 1)]))], res.outputs, axis=0)


def aten__scaled_mm(graph: Graph, res: ResultSpec, self: Result, mat2: Result, scale_a: Result, scale_b: Result, bias: Result | None = None, scale_result: Result | None = None, out_dtype: Dtype | None = None, use_fast_accum: Bool = False) -> Result:
    """aten::_scaled_mm(Tensor self, Tensor mat2, Tensor scale_a, Tensor scale_b, Tensor? bias=None, Tensor? scale_result=None, ScalarType? out_dtype=None, bool use_fast_accum=False) -> Tensor"""
    if scale_result is not None:
        graph.case = 1
        raise UnsupportedCase("aten::_scaled_mm: scale_result, by which only some of torch's kernels divide")
    graph.case = 2
    rows = graph.make_node('Mul', [graph.make_node('MatMul', [cast(graph, self, float32), cast(graph, mat2, float32)]), graph.make_node('Mul', [scale_a, scale_b])])
    return cast(graph, rows if bias is None else graph.make_node('Add', [rows, cast(graph, bias, float32)]), dtype_of(graph, res))


def aten__trilinear(graph: Graph, res: ResultSpec, i1: Result, i2: Result, i3: Result, expand1: Ints, expand2: Ints, expand3: Ints, sumdim: Ints, unroll_dim: Int = 1) -> Result:
    """aten::_trilinear(Tensor i1, Tensor i2, Tensor i3, int[] expand1, int[] expand2, int[] expand3, int[] sumdim, int unroll_dim=1) -> Tensor"""
    return trilinear_product(graph, [i1, i2, i3], [expand1, expand2, expand3], sumdim)


def aten__weight_int4pack_mm_for_cpu(graph: Graph, res: ResultSpec, self: Result, mat2: Result, qGroupSize: Int, qScaleAndZeros: Result) -> Result:
    """aten::_weight_int4pack_mm_for_cpu(Tensor self, Tensor mat2, int qGroupSize, Tensor qScaleAndZeros) -> Tensor"""
    outer = dim_of(graph, mat2, 0)
    inner = 2 * dim_of(graph, mat2, 1)
    groups = dim_of(graph, qScaleAndZeros, 0)
    wide = opmath(graph, self)
    codes = cast(graph, unpacked_nibbles(graph, mat2), dtype_of(graph, wide))
    rows = permuted(graph, cast(graph, qScaleAndZeros, dtype_of(graph, wide)), [1, 0, 2])
    scales, zeros = graph.make_node('Split', [rows, consts(graph, [1, 1], int64)], 2, axis=2)
    apart = graph.make_node('Sub', [reshape_to(graph, codes, [outer, groups, qGroupSize]), const(graph, 8, dtype_of(graph, wide))])
    weight = reshape_to(graph, graph.make_node('Add', [graph.make_node('Mul', [apart, scales]), zeros]), [outer, inner])
    return cast(graph, graph.make_node('MatMul', [wide, permuted(graph, weight, [1, 0])]), dtype_of(graph, self))


def aten__weight_int8pack_mm(graph: Graph, res: ResultSpec, self: Result, mat2: Result, scales: Result) -> Result:
    """aten::_weight_int8pack_mm(Tensor self, Tensor mat2, Tensor scales) -> Tensor"""
    wide = opmath(graph, self)
    columns = cast(graph, permuted(graph, mat2, [1, 0]), dtype_of(graph, wide))
    return cast(graph, graph.make_node('Mul', [graph.make_node('MatMul', [wide, columns]), cast(graph, scales, dtype_of(graph, wide))]), dtype_of(graph, self))


def aten_bilinear(graph: Graph, res: ResultSpec, input1: Result, input2: Result, weight: Result, bias: Result | None = None) -> Result:
    """aten::bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor"""
    count = dim_of(graph, weight, 0)
    first = dim_of(graph, weight, 1)
    second = dim_of(graph, weight, 2)
    rows = product(shape_of(graph, input1)[:-1])
    matrix = reshape_to(graph, graph.make_node('Transpose', [weight], perm=[1, 0, 2]), [first, count * second])
    half = matrix_product(graph, reshape_to(graph, input1, [rows, first]), matrix)
    half = reshape_to(graph, half, [rows, count, second])
    other = reshape_to(graph, input2, [rows, second, 1])
    total = reshape_to(graph, matrix_product(graph, half, other), list(shape_of(graph, input1)[:-1]) + [count])
    return total if bias is None else graph.make_node('Add', [total, bias], res.outputs)


def aten_cdist(graph: Graph, res: ResultSpec, x1: Result, x2: Result, p: Float = 2.0, compute_mode: Int | None = None) -> Result:
    """aten::cdist(Tensor x1, Tensor x2, float p=2., int? compute_mode=None) -> Tensor"""
    return aten__cdist_forward(graph, res, x1=x1, x2=x2, p=p, compute_mode=compute_mode)


def aten_dist(graph: Graph, res: ResultSpec, self: Result, other: Result, p: Scalar = 2) -> Result:
    """aten::dist(Tensor self, Tensor other, Scalar p=2) -> Tensor"""
    self, other = promote_values(graph, 'complex_to_float', [self, other])
    graph.case = 1
    apart = graph.make_node('Sub', [self, other])
    return vector_norm(graph, apart, as_float(p), list(range(rank_of(graph, apart))), False)


def aten_frobenius_norm_dim(graph: Graph, res: ResultSpec, self: Result, dim: Ints, keepdim: Bool = False) -> Result:
    """aten::frobenius_norm.dim(Tensor self, int[1] dim, bool keepdim=False) -> Tensor"""
    return aten_linalg_vector_norm(graph, res, self=self, ord=2, dim=dim, keepdim=keepdim, dtype=None)


def aten_linalg_cross(graph: Graph, res: ResultSpec, self: Result, other: Result, *, dim: Int = -1) -> Result:
    """aten::linalg_cross(Tensor self, Tensor other, *, int dim=-1) -> Tensor"""
    self, other = promote_values(graph, 'default', [self, other])
    axis = axis_of(graph, self, dim)
    graph.case = 1
    ahead = consts(graph, [1, 2, 0], int64)
    back = consts(graph, [2, 0, 1], int64)
    plus = graph.make_node('Mul', [graph.make_node('Gather', [self, ahead], axis=axis), graph.make_node('Gather', [other, back], axis=axis)])
    minus = graph.make_node('Mul', [graph.make_node('Gather', [self, back], axis=axis), graph.make_node('Gather', [other, ahead], axis=axis)])
    return graph.make_node('Sub', [plus, minus], res.outputs)


def aten_linalg_diagonal(graph: Graph, res: ResultSpec, A: Result, *, offset: Int = 0, dim1: Int = -2, dim2: Int = -1) -> Result:
    """aten::linalg_diagonal(Tensor(a) A, *, int offset=0, int dim1=-2, int dim2=-1) -> Tensor(a)"""
    return aten_diagonal(graph, res, self=A, offset=offset, dim1=dim1, dim2=dim2)


def aten_linalg_matrix_norm(graph: Graph, res: ResultSpec, self: Result, ord: Scalar, dim: Ints = (-2, -1), keepdim: Bool = False, *, dtype: Dtype | None = None) -> Result:
    """aten::linalg_matrix_norm(Tensor self, Scalar ord, int[] dim=[-2, -1], bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"""
    axes = [axis_of(graph, self, each) for each in dim]
    return matrix_norm(graph, in_precision(graph, self, dtype_of(graph, res)), as_float(ord), axes, keepdim)


def aten_linalg_matrix_norm_str_ord(graph: Graph, res: ResultSpec, self: Result, ord: Str = 'fro', dim: Ints = (-2, -1), keepdim: Bool = False, *, dtype: Dtype | None = None) -> Result:
    '''aten::linalg_matrix_norm.str_ord(Tensor self, str ord="fro", int[] dim=[-2, -1], bool keepdim=False, *, ScalarType? dtype=None) -> Tensor'''
    axes = [axis_of(graph, self, each) for each in dim]
    return matrix_norm(graph, in_precision(graph, self, dtype_of(graph, res)), ord, axes, keepdim)


def aten_linalg_norm(graph: Graph, res: ResultSpec, self: Result, ord: Scalar | None = None, dim: Ints | None = None, keepdim: Bool = False, *, dtype: Dtype | None = None) -> Result:
    """aten::linalg_norm(Tensor self, Scalar? ord=None, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"""
    if ord is None:
        graph.case = 1
        return vector_norm(graph, in_precision(graph, self, dtype_of(graph, res)), 2.0, axes_of(graph, self, dim), keepdim)
    if len(axes_of(graph, self, dim)) == 2:
        graph.case = 2
        axes = [axis_of(graph, self, each) for each in ([0, 1] if dim is None else dim)]
        return matrix_norm(graph, in_precision(graph, self, dtype_of(graph, res)), as_float(ord), axes, keepdim)
    graph.case = 3
    x = in_precision(graph, self, dtype_of(graph, res))
    return vector_norm(graph, x, as_float(ord), axes_of(graph, self, dim), keepdim)


def aten_linalg_norm_ord_str(graph: Graph, res: ResultSpec, self: Result, ord: Str, dim: Ints | None = None, keepdim: Bool = False, *, dtype: Dtype | None = None) -> Result:
    """aten::linalg_norm.ord_str(Tensor self, str ord, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"""
    axes = [axis_of(graph, self, each) for each in ([0, 1] if dim is None else dim)]
    return matrix_norm(graph, in_precision(graph, self, dtype_of(graph, res)), ord, axes, keepdim)


def aten_linalg_vander(graph: Graph, res: ResultSpec, x: Result, *, N: SymInt | None = None) -> Result:
    """aten::linalg_vander(Tensor x, *, SymInt? N=None) -> Tensor"""
    x, = promote_values(graph, 'bool_to_long', [x])
    count = dim_of(graph, x, -1) if N is None else N
    if is_float(graph, x):
        graph.case = 1
        powers = cast(graph, iota(graph, 0, count, 1), dtype_of(graph, x))
        return graph.make_node('Pow', [graph.make_node('Unsqueeze', [at_least_1d(graph, x), consts(graph, [-1], int64)]), powers], res.outputs)
    graph.case = 2
    columns = graph.make_node('Unsqueeze', [cast(graph, at_least_1d(graph, x), int64), consts(graph, [-1], int64)])
    return int_pow(graph, columns, iota(graph, 0, count, 1))


def aten_nuclear_norm(graph: Graph, res: ResultSpec, self: Result, keepdim: Bool = False) -> Result:
    """aten::nuclear_norm(Tensor self, bool keepdim=False) -> Tensor"""
    return matrix_norm(graph, self, 'nuc', [0, 1], keepdim)


def aten_nuclear_norm_dim(graph: Graph, res: ResultSpec, self: Result, dim: Ints, keepdim: Bool = False) -> Result:
    """aten::nuclear_norm.dim(Tensor self, int[2] dim, bool keepdim=False) -> Tensor"""
    return matrix_norm(graph, self, 'nuc', [axis_of(graph, self, each) for each in dim], keepdim)


def aten_pdist(graph: Graph, res: ResultSpec, self: Result, p: Float = 2.0) -> Result:
    """aten::pdist(Tensor self, float p=2.) -> Tensor"""
    return aten__pdist_forward(graph, res, self=self, p=p)


def complex_aten_dist(graph: Graph, res: ResultSpec, self: Result, other: Result, p: Scalar = 2) -> Result:
    """aten::dist(Tensor self, Tensor other, Scalar p=2) -> Tensor"""
    self, other = promote_complex(graph, 'complex_to_float', [self, other])
    graph.case = 2
    apart = c_add(graph, self, other, -1)
    return vector_norm(graph, apart, as_float(p), list(range(rank_of(graph, apart))), False)


def complex_aten_frobenius_norm_dim(graph: Graph, res: ResultSpec, self: Result, dim: Ints, keepdim: Bool = False) -> Result:
    """aten::frobenius_norm.dim(Tensor self, int[1] dim, bool keepdim=False) -> Tensor"""
    return complex_aten_linalg_vector_norm(graph, res, self=self, ord=2, dim=dim, keepdim=keepdim, dtype=None)


def complex_aten_linalg_cross(graph: Graph, res: ResultSpec, self: Result, other: Result, *, dim: Int = -1) -> Result:
    """aten::linalg_cross(Tensor self, Tensor other, *, int dim=-1) -> Tensor"""
    self, other = promote_complex(graph, 'default', [self, other])
    axis = axis_of(graph, self, dim)
    graph.case = 2
    ahead = consts(graph, [1, 2, 0], int64)
    back = consts(graph, [2, 0, 1], int64)
    pairs = [(self, ahead), (other, back), (self, back), (other, ahead)]
    x = [complex_of(graph, graph.make_node('Gather', [re(graph, t), places], axis=axis), graph.make_node('Gather', [im(graph, t), places], axis=axis)) for t, places in pairs]
    return c_add(graph, c_mul(graph, x[0], x[1]), c_mul(graph, x[2], x[3]), -1)


def complex_aten_linalg_diagonal(graph: Graph, res: ResultSpec, A: Result, *, offset: Int = 0, dim1: Int = -2, dim2: Int = -1) -> Result:
    """aten::linalg_diagonal(Tensor(a) A, *, int offset=0, int dim1=-2, int dim2=-1) -> Tensor(a)"""
    return complex_aten_diagonal(graph, res, self=A, offset=offset, dim1=dim1, dim2=dim2)


def complex_aten_linalg_matrix_norm(graph: Graph, res: ResultSpec, self: Result, ord: Scalar, dim: Ints = (-2, -1), keepdim: Bool = False, *, dtype: Dtype | None = None) -> Result:
    """aten::linalg_matrix_norm(Tensor self, Scalar ord, int[] dim=[-2, -1], bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"""
    axes = [axis_of(graph, self, each) for each in dim]
    return matrix_norm(graph, in_precision(graph, self, dtype_of(graph, res)), as_float(ord), axes, keepdim)


def complex_aten_linalg_matrix_norm_str_ord(graph: Graph, res: ResultSpec, self: Result, ord: Str = 'fro', dim: Ints = (-2, -1), keepdim: Bool = False, *, dtype: Dtype | None = None) -> Result:
    '''aten::linalg_matrix_norm.str_ord(Tensor self, str ord="fro", int[] dim=[-2, -1], bool keepdim=False, *, ScalarType? dtype=None) -> Tensor'''
    axes = [axis_of(graph, self, each) for each in dim]
    return matrix_norm(graph, in_precision(graph, self, dtype_of(graph, res)), ord, axes, keepdim)


def complex_aten_linalg_norm(graph: Graph, res: ResultSpec, self: Result, ord: Scalar | None = None, dim: Ints | None = None, keepdim: Bool = False, *, dtype: Dtype | None = None) -> Result:
    """aten::linalg_norm(Tensor self, Scalar? ord=None, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"""
    if ord is None:
        graph.case = 1
        return vector_norm(graph, in_precision(graph, self, dtype_of(graph, res)), 2.0, axes_of(graph, self, dim), keepdim)
    if len(axes_of(graph, self, dim)) == 2:
        graph.case = 2
        axes = [axis_of(graph, self, each) for each in ([0, 1] if dim is None else dim)]
        return matrix_norm(graph, in_precision(graph, self, dtype_of(graph, res)), as_float(ord), axes, keepdim)
    graph.case = 3
    x = in_precision(graph, self, dtype_of(graph, res))
    return vector_norm(graph, x, as_float(ord), axes_of(graph, self, dim), keepdim)


def complex_aten_linalg_norm_ord_str(graph: Graph, res: ResultSpec, self: Result, ord: Str, dim: Ints | None = None, keepdim: Bool = False, *, dtype: Dtype | None = None) -> Result:
    """aten::linalg_norm.ord_str(Tensor self, str ord, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"""
    axes = [axis_of(graph, self, each) for each in ([0, 1] if dim is None else dim)]
    return matrix_norm(graph, in_precision(graph, self, dtype_of(graph, res)), ord, axes, keepdim)


def complex_aten_nuclear_norm(graph: Graph, res: ResultSpec, self: Result, keepdim: Bool = False) -> Result:
    """aten::nuclear_norm(Tensor self, bool keepdim=False) -> Tensor"""
    return matrix_norm(graph, self, 'nuc', [0, 1], keepdim)


def complex_aten_nuclear_norm_dim(graph: Graph, res: ResultSpec, self: Result, dim: Ints, keepdim: Bool = False) -> Result:
    """aten::nuclear_norm.dim(Tensor self, int[2] dim, bool keepdim=False) -> Tensor"""
    return matrix_norm(graph, self, 'nuc', [axis_of(graph, self, each) for each in dim], keepdim)


def rule_aten__cdist_forward(graph: Graph, x1: Result, x2: Result, p: Float, compute_mode: Int | None) -> Rules:
    return ((dtype_or_none(graph, x1), None),)


def rule_aten__euclidean_dist(graph: Graph, x1: Result, x2: Result) -> Rules:
    return ((dtype_or_none(graph, x1), None),)


def rule_aten__int_mm(graph: Graph, self: Result, mat2: Result) -> Rules:
    return ((int32, unify_shapes((('m', 'k'), ('k', 'n')), (('m', 'n'),), [shape_or_none(graph, self), shape_or_none(graph, mat2)])[0]),)


def rule_aten__pdist_forward(graph: Graph, self: Result, p: Float = 2.0) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten__scaled_mm(graph: Graph, self: Result, mat2: Result, scale_a: Result, scale_b: Result, bias: Result | None = None, scale_result: Result | None = None, out_dtype: Dtype | None = None, use_fast_accum: Bool = False) -> Rules:
    return ((dtype_or_none(graph, self) if out_dtype is None else out_dtype, unify_shapes((('m', 'k'), ('k', 'n')), (('m', 'n'),), [shape_or_none(graph, self), shape_or_none(graph, mat2)])[0]),)


def rule_aten__trilinear(graph: Graph, i1: Result, i2: Result, i3: Result, expand1: Ints, expand2: Ints, expand3: Ints, sumdim: Ints, unroll_dim: Int = 1) -> Rules:
    return ((dtype_or_none(graph, i1), None),)


def rule_aten__weight_int4pack_mm_for_cpu(graph: Graph, self: Result, mat2: Result, qGroupSize: Int, qScaleAndZeros: Result) -> Rules:
    return ((dtype_or_none(graph, self), unify_shapes((('m', 'k'), ('n', 'h'), ('g', 'n', 't')), (('m', 'n'),), [shape_or_none(graph, self), shape_or_none(graph, mat2), shape_or_none(graph, qScaleAndZeros)])[0]),)


def rule_aten__weight_int8pack_mm(graph: Graph, self: Result, mat2: Result, scales: Result) -> Rules:
    return ((dtype_or_none(graph, self), unify_shapes((('m', 'k'), ('n', 'k'), ('n',)), (('m', 'n'),), [shape_or_none(graph, self), shape_or_none(graph, mat2), shape_or_none(graph, scales)])[0]),)


def rule_aten_bilinear(graph: Graph, input1: Result, input2: Result, weight: Result, bias: Result | None = None) -> Rules:
    return ((dtype_or_none(graph, input1), None),)


def rule_aten_cdist(graph: Graph, x1: Result, x2: Result, p: Float = 2.0, compute_mode: Int | None = None) -> Rules:
    return rule_aten__cdist_forward(graph, x1=x1, x2=x2, p=p, compute_mode=compute_mode)


def rule_aten_dist(graph: Graph, self: Result, other: Result, p: Scalar = 2) -> Rules:
    return ((promoted_dtype(graph, 'complex_to_float', self, other), scalar_shape()),)


def rule_aten_frobenius_norm_dim(graph: Graph, self: Result, dim: Ints, keepdim: Bool = False) -> Rules:
    return rule_aten_linalg_vector_norm(graph, self=self, ord=2, dim=dim, keepdim=keepdim, dtype=None)


def rule_aten_linalg_cross(graph: Graph, self: Result, other: Result, *, dim: Int = -1) -> Rules:
    return ((promoted_dtype(graph, 'default', self, other), broadcast(shape_or_none(graph, self), shape_or_none(graph, other))),)


def rule_aten_linalg_diagonal(graph: Graph, A: Result, *, offset: Int = 0, dim1: Int = -2, dim2: Int = -1) -> Rules:
    return rule_aten_diagonal(graph, self=A, offset=offset, dim1=dim1, dim2=dim2)


def rule_aten_linalg_matrix_norm(graph: Graph, self: Result, ord: Scalar, dim: Ints = (-2, -1), keepdim: Bool = False, *, dtype: Dtype | None = None) -> Rules:
    return ((part_type(dtype_or_none(graph, self)) if part_dtype(dtype) is None else part_dtype(dtype), reduce_shape(shape_or_none(graph, self), dim, keepdim)),)


def rule_aten_linalg_matrix_norm_str_ord(graph: Graph, self: Result, ord: Str = 'fro', dim: Ints = (-2, -1), keepdim: Bool = False, *, dtype: Dtype | None = None) -> Rules:
    return ((part_type(dtype_or_none(graph, self)) if part_dtype(dtype) is None else part_dtype(dtype), reduce_shape(shape_or_none(graph, self), dim, keepdim)),)


def rule_aten_linalg_norm(graph: Graph, self: Result, ord: Scalar | None = None, dim: Ints | None = None, keepdim: Bool = False, *, dtype: Dtype | None = None) -> Rules:
    return ((part_type(dtype_or_none(graph, self)) if part_dtype(dtype) is None else part_dtype(dtype), None),)


def rule_aten_linalg_norm_ord_str(graph: Graph, self: Result, ord: Str, dim: Ints | None = None, keepdim: Bool = False, *, dtype: Dtype | None = None) -> Rules:
    return ((part_type(dtype_or_none(graph, self)) if part_dtype(dtype) is None else part_dtype(dtype), None),)


def rule_aten_linalg_vander(graph: Graph, x: Result, *, N: SymInt | None = None) -> Rules:
    return ((accumulate_dtype(dtype_or_none(graph, x)), None),)


def rule_aten_nuclear_norm(graph: Graph, self: Result, keepdim: Bool = False) -> Rules:
    return ((part_type(dtype_or_none(graph, self)), None),)


def rule_aten_nuclear_norm_dim(graph: Graph, self: Result, dim: Ints, keepdim: Bool = False) -> Rules:
    return ((part_type(dtype_or_none(graph, self)), reduce_shape(shape_or_none(graph, self), dim, keepdim)),)


def rule_aten_pdist(graph: Graph, self: Result, p: Float = 2.0) -> Rules:
    return rule_aten__pdist_forward(graph, self=self, p=p)
