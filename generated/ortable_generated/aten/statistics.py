# Generated from specs/aten/statistics.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.dtypes import boolean, int64
from ortable.inference import promote_to_float, reduce_shape
from ortable.lowerings.complex.arithmetic import promote_complex
from ortable.lowerings.complex.parts import each_part
from ortable.lowerings.reductions import mean_over, mean_var
from ortable.prelude.complex_arithmetic import c_abs, c_exp, c_log, c_truth, complex_of, im, re
from ortable.prelude.complex_value import part_type
from ortable.prelude.facts import axes_of, dtype_of, is_complex
from ortable.prelude.metadata import dtype_or_none, shape_or_none
from ortable.prelude.pointwise import const_like
from ortable.prelude.promotion import as_float, opmath, opmath_dtype, promote_values
from ortable.prelude.reductions import power_norm, reduced_extreme
from ortable.prelude.sums import count_true, summed_over
from ortable.prelude.values import cast, const, consts, squeezed

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Bool, Dtype, Int, Ints, Result, Scalar


def aten_count_nonzero(graph: Graph, res: ResultSpec, self: Result, dim: Int | None = None) -> Result:
    """aten::count_nonzero(Tensor self, int? dim=None) -> Tensor"""
    return aten_count_nonzero_dim_IntList(graph, res, self=self, dim=[] if dim is None else [dim])


def aten_count_nonzero_dim_IntList(graph: Graph, res: ResultSpec, self: Result, dim: Ints) -> Result:
    """aten::count_nonzero.dim_IntList(Tensor self, int[] dim) -> Tensor"""
    graph.case = 1
    return count_true(graph, cast(graph, self, boolean), axes_of(graph, self, dim), False)


def aten_linalg_vector_norm(graph: Graph, res: ResultSpec, self: Result, ord: Scalar = 2, dim: Ints | None = None, keepdim: Bool = False, *, dtype: Dtype | None = None) -> Result:
    """aten::linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"""
    graph.case = 1
    return power_norm(graph, cast(graph, self, dtype_of(graph, res)), as_float(ord), axes_of(graph, self, dim), keepdim)


def aten_logsumexp(graph: Graph, res: ResultSpec, self: Result, dim: Ints, keepdim: Bool = False) -> Result:
    """aten::logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    # the largest value is taken away unless it is infinite; ReduceLogSumExp shifts no row that has an infinity
    graph.case = 1
    x, axes = (opmath(graph, self), axes_of(graph, self, dim))
    most = graph.make_node('ReduceMax', [x, consts(graph, axes, int64)], keepdims=1)
    shift = graph.make_node('Where', [graph.make_node('IsInf', [most]), const_like(graph, 0, most), most])
    total = summed_over(graph, graph.make_node('Exp', [graph.make_node('Sub', [x, shift])]), axes, True)
    result = graph.make_node('Add', [graph.make_node('Log', [total]), shift])
    return cast(graph, squeezed(graph, result, [] if keepdim else axes), dtype_of(graph, self))


def aten_mean(graph: Graph, res: ResultSpec, self: Result, *, dtype: Dtype | None = None) -> Result:
    """aten::mean(Tensor self, *, ScalarType? dtype=None) -> Tensor"""
    return aten_mean_dim(graph, res, self=self, dim=None, dtype=dtype)


def aten_mean_dim(graph: Graph, res: ResultSpec, self: Result, dim: Ints | None, keepdim: Bool = False, *, dtype: Dtype | None = None) -> Result:
    """aten::mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"""
    wanted = opmath_dtype(dtype_of(graph, res))
    return cast(graph, mean_over(graph, cast(graph, self, wanted), axes_of(graph, self, dim), keepdim), dtype_of(graph, res))


def aten_nanmean(graph: Graph, res: ResultSpec, self: Result, dim: Ints | None = None, keepdim: Bool = False, *, dtype: Dtype | None = None) -> Result:
    """aten::nanmean(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"""
    axes = axes_of(graph, self, dim)
    wanted = opmath_dtype(dtype_of(graph, res))
    known = graph.make_node('Where', [graph.make_node('IsNaN', [self]), const(graph, 0, dtype_of(graph, self)), self])
    total = summed_over(graph, cast(graph, known, wanted), axes, keepdim)
    count = cast(graph, count_true(graph, graph.make_node('Not', [graph.make_node('IsNaN', [self])]), axes, keepdim), wanted)
    return cast(graph, graph.make_node('Div', [total, count]), dtype_of(graph, res))


def aten_norm_Scalar(graph: Graph, res: ResultSpec, self: Result, p: Scalar = 2) -> Result:
    """aten::norm.Scalar(Tensor self, Scalar p=2) -> Tensor"""
    return aten_linalg_vector_norm(graph, res, self=self, ord=p, dim=None)


def aten_norm_ScalarOpt_dim(graph: Graph, res: ResultSpec, self: Result, p: Scalar | None, dim: Ints, keepdim: Bool = False) -> Result:
    """aten::norm.ScalarOpt_dim(Tensor self, Scalar? p, int[1] dim, bool keepdim=False) -> Tensor"""
    return aten_linalg_vector_norm(graph, res, self=self, ord=2 if p is None else p, dim=dim, keepdim=keepdim)


def aten_norm_ScalarOpt_dim_dtype(graph: Graph, res: ResultSpec, self: Result, p: Scalar | None, dim: Ints, keepdim: Bool, *, dtype: Dtype) -> Result:
    """aten::norm.ScalarOpt_dim_dtype(Tensor self, Scalar? p, int[1] dim, bool keepdim, *, ScalarType dtype) -> Tensor"""
    return aten_linalg_vector_norm(graph, res, self=self, ord=2 if p is None else p, dim=dim, keepdim=keepdim, dtype=dtype)


def aten_norm_ScalarOpt_dtype(graph: Graph, res: ResultSpec, self: Result, p: Scalar | None, *, dtype: Dtype) -> Result:
    """aten::norm.ScalarOpt_dtype(Tensor self, Scalar? p, *, ScalarType dtype) -> Tensor"""
    return aten_linalg_vector_norm(graph, res, self=self, ord=2 if p is None else p, dim=None, dtype=dtype)


def aten_std(graph: Graph, res: ResultSpec, self: Result, unbiased: Bool = True) -> Result:
    """aten::std(Tensor self, bool unbiased=True) -> Tensor"""
    return aten_std_correction(graph, res, self=self, dim=None, correction=1 if unbiased else 0)


def aten_std_correction(graph: Graph, res: ResultSpec, self: Result, dim: Ints | None = None, *, correction: Scalar | None = None, keepdim: Bool = False) -> Result:
    """aten::std.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor"""
    graph.case = 1
    variance = mean_var(graph, self, axes_of(graph, self, dim), correction, keepdim)[1]
    return cast(graph, graph.make_node('Sqrt', [variance]), dtype_of(graph, self))


def aten_std_dim(graph: Graph, res: ResultSpec, self: Result, dim: Ints | None, unbiased: Bool = True, keepdim: Bool = False) -> Result:
    """aten::std.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor"""
    return aten_std_correction(graph, res, self=self, dim=dim, correction=1 if unbiased else 0, keepdim=keepdim)


def aten_std_mean(graph: Graph, res: ResultSpec, self: Result, unbiased: Bool = True) -> Any:
    """aten::std_mean(Tensor self, bool unbiased=True) -> (Tensor, Tensor)"""
    return aten_std_mean_correction(graph, res, self=self, dim=None, correction=1 if unbiased else 0)


def aten_std_mean_correction(graph: Graph, res: ResultSpec, self: Result, dim: Ints | None = None, *, correction: Scalar | None = None, keepdim: Bool = False) -> Any:
    """aten::std_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> (Tensor, Tensor)"""
    graph.case = 1
    axes = axes_of(graph, self, dim)
    mean, variance = mean_var(graph, self, axes, correction, keepdim)
    middle = squeezed(graph, mean, [] if keepdim else axes)
    return (cast(graph, graph.make_node('Sqrt', [variance]), dtype_of(graph, self)), cast(graph, middle, dtype_of(graph, self)))


def aten_std_mean_dim(graph: Graph, res: ResultSpec, self: Result, dim: Ints | None, unbiased: Bool = True, keepdim: Bool = False) -> Any:
    """aten::std_mean.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> (Tensor, Tensor)"""
    return aten_std_mean_correction(graph, res, self=self, dim=dim, correction=1 if unbiased else 0, keepdim=keepdim)


def aten_var(graph: Graph, res: ResultSpec, self: Result, unbiased: Bool = True) -> Result:
    """aten::var(Tensor self, bool unbiased=True) -> Tensor"""
    return aten_var_correction(graph, res, self=self, dim=None, correction=1 if unbiased else 0)


def aten_var_correction(graph: Graph, res: ResultSpec, self: Result, dim: Ints | None = None, *, correction: Scalar | None = None, keepdim: Bool = False) -> Result:
    """aten::var.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor"""
    graph.case = 1
    variance = mean_var(graph, self, axes_of(graph, self, dim), correction, keepdim)[1]
    return cast(graph, variance, dtype_of(graph, self))


def aten_var_dim(graph: Graph, res: ResultSpec, self: Result, dim: Ints | None, unbiased: Bool = True, keepdim: Bool = False) -> Result:
    """aten::var.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor"""
    return aten_var_correction(graph, res, self=self, dim=dim, correction=1 if unbiased else 0, keepdim=keepdim)


def aten_var_mean(graph: Graph, res: ResultSpec, self: Result, unbiased: Bool = True) -> Any:
    """aten::var_mean(Tensor self, bool unbiased=True) -> (Tensor, Tensor)"""
    return aten_var_mean_correction(graph, res, self=self, dim=None, correction=1 if unbiased else 0)


def aten_var_mean_correction(graph: Graph, res: ResultSpec, self: Result, dim: Ints | None = None, *, correction: Scalar | None = None, keepdim: Bool = False) -> Any:
    """aten::var_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> (Tensor, Tensor)"""
    graph.case = 1
    axes = axes_of(graph, self, dim)
    mean, variance = mean_var(graph, self, axes, correction, keepdim)
    middle = squeezed(graph, mean, [] if keepdim else axes)
    return (cast(graph, variance, dtype_of(graph, self)), cast(graph, middle, dtype_of(graph, self)))


def aten_var_mean_dim(graph: Graph, res: ResultSpec, self: Result, dim: Ints | None, unbiased: Bool = True, keepdim: Bool = False) -> Any:
    """aten::var_mean.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> (Tensor, Tensor)"""
    return aten_var_mean_correction(graph, res, self=self, dim=dim, correction=1 if unbiased else 0, keepdim=keepdim)


def complex_aten_count_nonzero(graph: Graph, res: ResultSpec, self: Result, dim: Int | None = None) -> Result:
    """aten::count_nonzero(Tensor self, int? dim=None) -> Tensor"""
    return complex_aten_count_nonzero_dim_IntList(graph, res, self=self, dim=[] if dim is None else [dim])


def complex_aten_count_nonzero_dim_IntList(graph: Graph, res: ResultSpec, self: Result, dim: Ints) -> Result:
    """aten::count_nonzero.dim_IntList(Tensor self, int[] dim) -> Tensor"""
    graph.case = 2
    return count_true(graph, c_truth(graph, self), axes_of(graph, self, dim), False)


def complex_aten_linalg_vector_norm(graph: Graph, res: ResultSpec, self: Result, ord: Scalar = 2, dim: Ints | None = None, keepdim: Bool = False, *, dtype: Dtype | None = None) -> Result:
    """aten::linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"""
    if as_float(ord) == 0:
        graph.case = 2
        return cast(graph, count_true(graph, c_truth(graph, self), axes_of(graph, self, dim), keepdim), dtype_of(graph, res))
    graph.case = 3
    size = cast(graph, c_abs(graph, self), dtype_of(graph, res))
    return power_norm(graph, size, as_float(ord), axes_of(graph, self, dim), keepdim)


def complex_aten_logsumexp(graph: Graph, res: ResultSpec, self: Result, dim: Ints, keepdim: Bool = False) -> Result:
    """aten::logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor"""
    self, = promote_complex(graph, 'int_to_float', [self])
    graph.case = 2
    axes = axes_of(graph, self, dim)
    most = reduced_extreme(graph, re(graph, self), axes, True, True)
    shift = graph.make_node('Where', [graph.make_node('IsInf', [most]), const_like(graph, 0, most), most])
    powers = c_exp(graph, complex_of(graph, graph.make_node('Sub', [re(graph, self), shift]), im(graph, self)))
    total = c_log(graph, summed_over(graph, powers, axes, True))
    wide = complex_of(graph, graph.make_node('Add', [re(graph, total), shift]), im(graph, total))
    return squeezed(graph, wide, [] if keepdim else axes)


def complex_aten_mean(graph: Graph, res: ResultSpec, self: Result, *, dtype: Dtype | None = None) -> Result:
    """aten::mean(Tensor self, *, ScalarType? dtype=None) -> Tensor"""
    return complex_aten_mean_dim(graph, res, self=self, dim=None, dtype=dtype)


def complex_aten_mean_dim(graph: Graph, res: ResultSpec, self: Result, dim: Ints | None, keepdim: Bool = False, *, dtype: Dtype | None = None) -> Result:
    """aten::mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"""
    return each_part(graph, res, aten_mean_dim, {'self': self}, dim=dim, keepdim=keepdim, dtype=dtype)


def complex_aten_norm_Scalar(graph: Graph, res: ResultSpec, self: Result, p: Scalar = 2) -> Result:
    """aten::norm.Scalar(Tensor self, Scalar p=2) -> Tensor"""
    return complex_aten_linalg_vector_norm(graph, res, self=self, ord=p, dim=None)


def complex_aten_norm_ScalarOpt_dim(graph: Graph, res: ResultSpec, self: Result, p: Scalar | None, dim: Ints, keepdim: Bool = False) -> Result:
    """aten::norm.ScalarOpt_dim(Tensor self, Scalar? p, int[1] dim, bool keepdim=False) -> Tensor"""
    return complex_aten_linalg_vector_norm(graph, res, self=self, ord=2 if p is None else p, dim=dim, keepdim=keepdim)


def complex_aten_norm_ScalarOpt_dim_dtype(graph: Graph, res: ResultSpec, self: Result, p: Scalar | None, dim: Ints, keepdim: Bool, *, dtype: Dtype) -> Result:
    """aten::norm.ScalarOpt_dim_dtype(Tensor self, Scalar? p, int[1] dim, bool keepdim, *, ScalarType dtype) -> Tensor"""
    return complex_aten_linalg_vector_norm(graph, res, self=self, ord=2 if p is None else p, dim=dim, keepdim=keepdim, dtype=dtype)


def complex_aten_norm_ScalarOpt_dtype(graph: Graph, res: ResultSpec, self: Result, p: Scalar | None, *, dtype: Dtype) -> Result:
    """aten::norm.ScalarOpt_dtype(Tensor self, Scalar? p, *, ScalarType dtype) -> Tensor"""
    return complex_aten_linalg_vector_norm(graph, res, self=self, ord=2 if p is None else p, dim=None, dtype=dtype)


def complex_aten_std(graph: Graph, res: ResultSpec, self: Result, unbiased: Bool = True) -> Result:
    """aten::std(Tensor self, bool unbiased=True) -> Tensor"""
    return complex_aten_std_correction(graph, res, self=self, dim=None, correction=1 if unbiased else 0)


def complex_aten_std_correction(graph: Graph, res: ResultSpec, self: Result, dim: Ints | None = None, *, correction: Scalar | None = None, keepdim: Bool = False) -> Result:
    """aten::std.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor"""
    graph.case = 2
    axes = axes_of(graph, self, dim)
    parts_ = [mean_var(graph, x, axes, correction, keepdim)[1] for x in [re(graph, self), im(graph, self)]]
    return cast(graph, graph.make_node('Sqrt', [graph.make_node('Add', [*parts_])]), dtype_of(graph, res))


def complex_aten_std_dim(graph: Graph, res: ResultSpec, self: Result, dim: Ints | None, unbiased: Bool = True, keepdim: Bool = False) -> Result:
    """aten::std.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor"""
    return complex_aten_std_correction(graph, res, self=self, dim=dim, correction=1 if unbiased else 0, keepdim=keepdim)


def complex_aten_std_mean(graph: Graph, res: ResultSpec, self: Result, unbiased: Bool = True) -> Any:
    """aten::std_mean(Tensor self, bool unbiased=True) -> (Tensor, Tensor)"""
    return complex_aten_std_mean_correction(graph, res, self=self, dim=None, correction=1 if unbiased else 0)


def complex_aten_std_mean_correction(graph: Graph, res: ResultSpec, self: Result, dim: Ints | None = None, *, correction: Scalar | None = None, keepdim: Bool = False) -> Any:
    """aten::std_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> (Tensor, Tensor)"""
    graph.case = 2
    axes = axes_of(graph, self, dim)
    first = mean_var(graph, re(graph, self), axes, correction, keepdim)
    second = mean_var(graph, im(graph, self), axes, correction, keepdim)
    total = graph.make_node('Add', [first[1], second[1]])
    kept = [] if keepdim else axes
    middle = [cast(graph, squeezed(graph, x, kept), dtype_of(graph, res)) for x in [first[0], second[0]]]
    return (cast(graph, graph.make_node('Sqrt', [total]), dtype_of(graph, res)), complex_of(graph, *middle))


def complex_aten_std_mean_dim(graph: Graph, res: ResultSpec, self: Result, dim: Ints | None, unbiased: Bool = True, keepdim: Bool = False) -> Any:
    """aten::std_mean.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> (Tensor, Tensor)"""
    return complex_aten_std_mean_correction(graph, res, self=self, dim=dim, correction=1 if unbiased else 0, keepdim=keepdim)


def complex_aten_var(graph: Graph, res: ResultSpec, self: Result, unbiased: Bool = True) -> Result:
    """aten::var(Tensor self, bool unbiased=True) -> Tensor"""
    return complex_aten_var_correction(graph, res, self=self, dim=None, correction=1 if unbiased else 0)


def complex_aten_var_correction(graph: Graph, res: ResultSpec, self: Result, dim: Ints | None = None, *, correction: Scalar | None = None, keepdim: Bool = False) -> Result:
    """aten::var.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor"""
    graph.case = 2
    axes = axes_of(graph, self, dim)
    parts_ = [mean_var(graph, x, axes, correction, keepdim)[1] for x in [re(graph, self), im(graph, self)]]
    return cast(graph, graph.make_node('Add', [*parts_]), dtype_of(graph, res))


def complex_aten_var_dim(graph: Graph, res: ResultSpec, self: Result, dim: Ints | None, unbiased: Bool = True, keepdim: Bool = False) -> Result:
    """aten::var.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor"""
    return complex_aten_var_correction(graph, res, self=self, dim=dim, correction=1 if unbiased else 0, keepdim=keepdim)


def complex_aten_var_mean(graph: Graph, res: ResultSpec, self: Result, unbiased: Bool = True) -> Any:
    """aten::var_mean(Tensor self, bool unbiased=True) -> (Tensor, Tensor)"""
    return complex_aten_var_mean_correction(graph, res, self=self, dim=None, correction=1 if unbiased else 0)


def complex_aten_var_mean_correction(graph: Graph, res: ResultSpec, self: Result, dim: Ints | None = None, *, correction: Scalar | None = None, keepdim: Bool = False) -> Any:
    """aten::var_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> (Tensor, Tensor)"""
    graph.case = 2
    axes = axes_of(graph, self, dim)
    first = mean_var(graph, re(graph, self), axes, correction, keepdim)
    second = mean_var(graph, im(graph, self), axes, correction, keepdim)
    total = graph.make_node('Add', [first[1], second[1]])
    kept = [] if keepdim else axes
    middle = [cast(graph, squeezed(graph, x, kept), dtype_of(graph, res)) for x in [first[0], second[0]]]
    return (cast(graph, total, dtype_of(graph, res)), complex_of(graph, *middle))


def complex_aten_var_mean_dim(graph: Graph, res: ResultSpec, self: Result, dim: Ints | None, unbiased: Bool = True, keepdim: Bool = False) -> Any:
    """aten::var_mean.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> (Tensor, Tensor)"""
    return complex_aten_var_mean_correction(graph, res, self=self, dim=dim, correction=1 if unbiased else 0, keepdim=keepdim)


def rule_aten_count_nonzero(graph: Graph, self: Result, dim: Int | None = None) -> Rules:
    return rule_aten_count_nonzero_dim_IntList(graph, self=self, dim=[] if dim is None else [dim])


def rule_aten_count_nonzero_dim_IntList(graph: Graph, self: Result, dim: Ints) -> Rules:
    return ((int64, reduce_shape(shape_or_none(graph, self), dim, False)),)


def rule_aten_linalg_vector_norm(graph: Graph, self: Result, ord: Scalar = 2, dim: Ints | None = None, keepdim: Bool = False, *, dtype: Dtype | None = None) -> Rules:
    return ((part_type(dtype_or_none(graph, self)) if is_complex(graph, self) else dtype_or_none(graph, self) if dtype is None else dtype, reduce_shape(shape_or_none(graph, self), dim, keepdim)),)


def rule_aten_logsumexp(graph: Graph, self: Result, dim: Ints, keepdim: Bool = False) -> Rules:
    return ((promote_to_float(dtype_or_none(graph, self)), reduce_shape(shape_or_none(graph, self), dim, keepdim)),)


def rule_aten_mean(graph: Graph, self: Result, *, dtype: Dtype | None = None) -> Rules:
    return rule_aten_mean_dim(graph, self=self, dim=None, dtype=dtype)


def rule_aten_mean_dim(graph: Graph, self: Result, dim: Ints | None, keepdim: Bool = False, *, dtype: Dtype | None = None) -> Rules:
    return ((dtype_or_none(graph, self) if dtype is None else dtype, reduce_shape(shape_or_none(graph, self), dim, keepdim)),)


def rule_aten_nanmean(graph: Graph, self: Result, dim: Ints | None = None, keepdim: Bool = False, *, dtype: Dtype | None = None) -> Rules:
    return ((dtype_or_none(graph, self) if dtype is None else dtype, reduce_shape(shape_or_none(graph, self), dim, keepdim)),)


def rule_aten_norm_Scalar(graph: Graph, self: Result, p: Scalar = 2) -> Rules:
    return rule_aten_linalg_vector_norm(graph, self=self, ord=p, dim=None)


def rule_aten_norm_ScalarOpt_dim(graph: Graph, self: Result, p: Scalar | None, dim: Ints, keepdim: Bool = False) -> Rules:
    return rule_aten_linalg_vector_norm(graph, self=self, ord=2 if p is None else p, dim=dim, keepdim=keepdim)


def rule_aten_norm_ScalarOpt_dim_dtype(graph: Graph, self: Result, p: Scalar | None, dim: Ints, keepdim: Bool, *, dtype: Dtype) -> Rules:
    return rule_aten_linalg_vector_norm(graph, self=self, ord=2 if p is None else p, dim=dim, keepdim=keepdim, dtype=dtype)


def rule_aten_norm_ScalarOpt_dtype(graph: Graph, self: Result, p: Scalar | None, *, dtype: Dtype) -> Rules:
    return rule_aten_linalg_vector_norm(graph, self=self, ord=2 if p is None else p, dim=None, dtype=dtype)


def rule_aten_std(graph: Graph, self: Result, unbiased: Bool = True) -> Rules:
    return rule_aten_std_correction(graph, self=self, dim=None, correction=1 if unbiased else 0)


def rule_aten_std_correction(graph: Graph, self: Result, dim: Ints | None = None, *, correction: Scalar | None = None, keepdim: Bool = False) -> Rules:
    return ((part_type(dtype_or_none(graph, self)), reduce_shape(shape_or_none(graph, self), dim, keepdim)),)


def rule_aten_std_dim(graph: Graph, self: Result, dim: Ints | None, unbiased: Bool = True, keepdim: Bool = False) -> Rules:
    return rule_aten_std_correction(graph, self=self, dim=dim, correction=1 if unbiased else 0, keepdim=keepdim)


def rule_aten_std_mean(graph: Graph, self: Result, unbiased: Bool = True) -> Rules:
    return rule_aten_std_mean_correction(graph, self=self, dim=None, correction=1 if unbiased else 0)


def rule_aten_std_mean_correction(graph: Graph, self: Result, dim: Ints | None = None, *, correction: Scalar | None = None, keepdim: Bool = False) -> Rules:
    return ((part_type(dtype_or_none(graph, self)), reduce_shape(shape_or_none(graph, self), dim, keepdim)), (dtype_or_none(graph, self), reduce_shape(shape_or_none(graph, self), dim, keepdim)),)


def rule_aten_std_mean_dim(graph: Graph, self: Result, dim: Ints | None, unbiased: Bool = True, keepdim: Bool = False) -> Rules:
    return rule_aten_std_mean_correction(graph, self=self, dim=dim, correction=1 if unbiased else 0, keepdim=keepdim)


def rule_aten_var(graph: Graph, self: Result, unbiased: Bool = True) -> Rules:
    return rule_aten_var_correction(graph, self=self, dim=None, correction=1 if unbiased else 0)


def rule_aten_var_correction(graph: Graph, self: Result, dim: Ints | None = None, *, correction: Scalar | None = None, keepdim: Bool = False) -> Rules:
    return ((part_type(dtype_or_none(graph, self)), reduce_shape(shape_or_none(graph, self), dim, keepdim)),)


def rule_aten_var_dim(graph: Graph, self: Result, dim: Ints | None, unbiased: Bool = True, keepdim: Bool = False) -> Rules:
    return rule_aten_var_correction(graph, self=self, dim=dim, correction=1 if unbiased else 0, keepdim=keepdim)


def rule_aten_var_mean(graph: Graph, self: Result, unbiased: Bool = True) -> Rules:
    return rule_aten_var_mean_correction(graph, self=self, dim=None, correction=1 if unbiased else 0)


def rule_aten_var_mean_correction(graph: Graph, self: Result, dim: Ints | None = None, *, correction: Scalar | None = None, keepdim: Bool = False) -> Rules:
    return ((part_type(dtype_or_none(graph, self)), reduce_shape(shape_or_none(graph, self), dim, keepdim)), (dtype_or_none(graph, self), reduce_shape(shape_or_none(graph, self), dim, keepdim)),)


def rule_aten_var_mean_dim(graph: Graph, self: Result, dim: Ints | None, unbiased: Bool = True, keepdim: Bool = False) -> Rules:
    return rule_aten_var_mean_correction(graph, self=self, dim=dim, correction=1 if unbiased else 0, keepdim=keepdim)
