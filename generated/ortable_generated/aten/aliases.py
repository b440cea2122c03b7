# Generated from specs/aten/aliases.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.dispatch import DataCheck
from ortable_generated.aten.binary import aten_atan2, aten_mul_Tensor, aten_sub_Tensor, complex_aten_mul_Tensor, complex_aten_sub_Tensor, rule_aten_atan2, rule_aten_mul_Tensor, rule_aten_sub_Tensor
from ortable_generated.aten.compare import aten_ge_Scalar, aten_ge_Tensor, aten_gt_Scalar, aten_gt_Tensor, aten_le_Scalar, aten_le_Tensor, aten_lt_Scalar, aten_lt_Tensor, aten_ne_Scalar, aten_ne_Tensor, complex_aten_ne_Scalar, complex_aten_ne_Tensor, rule_aten_ge_Scalar, rule_aten_ge_Tensor, rule_aten_gt_Scalar, rule_aten_gt_Tensor, rule_aten_le_Scalar, rule_aten_le_Tensor, rule_aten_lt_Scalar, rule_aten_lt_Tensor, rule_aten_ne_Scalar, rule_aten_ne_Tensor
from ortable_generated.aten.cumulative import aten_logcumsumexp, complex_aten_logcumsumexp, rule_aten_logcumsumexp
from ortable_generated.aten.divide import aten_div_Scalar_mode, aten_div_Tensor, complex_aten_div_Scalar_mode, complex_aten_div_Tensor, rule_aten_div_Scalar_mode, rule_aten_div_Tensor
from ortable_generated.aten.indexing import aten_index_Tensor, aten_index_put, check_aten_index_Tensor, check_aten_index_put, complex_aten_index_Tensor, complex_aten_index_put, rule_aten_index_Tensor, rule_aten_index_put
from ortable_generated.aten.reduce import aten_all_dims, aten_aminmax, aten_any_dims, complex_aten_all_dims, complex_aten_any_dims, rule_aten_all_dims, rule_aten_aminmax, rule_aten_any_dims
from ortable_generated.aten.shape_join import aten_split_with_sizes, aten_stack, complex_aten_split_with_sizes, complex_aten_stack, rule_aten_split_with_sizes, rule_aten_stack
from ortable_generated.aten.trigonometric import aten_acos, aten_acosh, aten_asin, aten_asinh, aten_atan, aten_atanh, complex_aten_acos, complex_aten_acosh, complex_aten_asin, complex_aten_asinh, complex_aten_atan, complex_aten_atanh, rule_aten_acos, rule_aten_acosh, rule_aten_asin, rule_aten_asinh, rule_aten_atan, rule_aten_atanh

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Bool, Int, Ints, Result, Results, Scalar, Str


def aten__aminmax(graph: Graph, res: ResultSpec, self: Result) -> Any:
    """aten::_aminmax(Tensor self) -> (Tensor, Tensor)"""
    return aten_aminmax(graph, res, self=self, dim=None, keepdim=False)


def aten__aminmax_dim(graph: Graph, res: ResultSpec, self: Result, dim: Int, keepdim: Bool = False) -> Any:
    """aten::_aminmax.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor, Tensor)"""
    return aten_aminmax(graph, res, self=self, dim=dim, keepdim=keepdim)


def aten__index_put_impl(graph: Graph, res: ResultSpec, self: Result, indices: Results, values: Result, accumulate: Bool = False, unsafe: Bool = False) -> Result:
    """aten::_index_put_impl(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False, bool unsafe=False) -> Tensor"""
    return aten_index_put(graph, res, self=self, indices=indices, values=values, accumulate=accumulate)


def aten__is_all_true(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::_is_all_true(Tensor self) -> Tensor"""
    return aten_all_dims(graph, res, self=self, dim=None)


def aten__is_any_true(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::_is_any_true(Tensor self) -> Tensor"""
    return aten_any_dims(graph, res, self=self, dim=None)


def aten__logcumsumexp(graph: Graph, res: ResultSpec, self: Result, dim: Int) -> Result:
    """aten::_logcumsumexp(Tensor self, int dim) -> Tensor"""
    return aten_logcumsumexp(graph, res, self=self, dim=dim)


def aten__stack(graph: Graph, res: ResultSpec, tensors: Results, dim: Int = 0) -> Result:
    """aten::_stack(Tensor[] tensors, int dim=0) -> Tensor"""
    return aten_stack(graph, res, tensors=tensors, dim=dim)


def aten__unsafe_index_Tensor_hacked_twin(graph: Graph, res: ResultSpec, self: Result, indices: Results) -> Result:
    """aten::_unsafe_index.Tensor_hacked_twin(Tensor self, Tensor[] indices) -> Tensor"""
    return aten_index_Tensor(graph, res, self=self, indices=indices)


def aten__unsafe_index_put_hacked_twin(graph: Graph, res: ResultSpec, self: Result, indices: Results, values: Result, accumulate: Bool = False) -> Result:
    """aten::_unsafe_index_put.hacked_twin(Tensor self, Tensor[] indices, Tensor values, bool accumulate=False) -> Tensor"""
    return aten_index_put(graph, res, self=self, indices=indices, values=values, accumulate=accumulate)


def aten_arccos(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::arccos(Tensor self) -> Tensor"""
    return aten_acos(graph, res, self=self)


def aten_arccosh(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::arccosh(Tensor self) -> Tensor"""
    return aten_acosh(graph, res, self=self)


def aten_arcsin(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::arcsin(Tensor self) -> Tensor"""
    return aten_asin(graph, res, self=self)


def aten_arcsinh(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::arcsinh(Tensor self) -> Tensor"""
    return aten_asinh(graph, res, self=self)


def aten_arctan(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::arctan(Tensor self) -> Tensor"""
    return aten_atan(graph, res, self=self)


def aten_arctan2(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::arctan2(Tensor self, Tensor other) -> Tensor"""
    return aten_atan2(graph, res, self=self, other=other)


def aten_arctanh(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::arctanh(Tensor self) -> Tensor"""
    return aten_atanh(graph, res, self=self)


def aten_divide_Scalar(graph: Graph, res: ResultSpec, self: Result, other: Scalar) -> Result:
    """aten::divide.Scalar(Tensor self, Scalar other) -> Tensor"""
    return aten_div_Tensor(graph, res, self=self, other=other)


def aten_divide_Scalar_mode(graph: Graph, res: ResultSpec, self: Result, other: Scalar, *, rounding_mode: Str | None) -> Result:
    """aten::divide.Scalar_mode(Tensor self, Scalar other, *, str? rounding_mode) -> Tensor"""
    return aten_div_Scalar_mode(graph, res, self=self, other=other, rounding_mode=rounding_mode)


def aten_greater_Scalar(graph: Graph, res: ResultSpec, self: Result, other: Scalar) -> Result:
    """aten::greater.Scalar(Tensor self, Scalar other) -> Tensor"""
    return aten_gt_Scalar(graph, res, self=self, other=other)


def aten_greater_Tensor(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::greater.Tensor(Tensor self, Tensor other) -> Tensor"""
    return aten_gt_Tensor(graph, res, self=self, other=other)


def aten_greater_equal_Scalar(graph: Graph, res: ResultSpec, self: Result, other: Scalar) -> Result:
    """aten::greater_equal.Scalar(Tensor self, Scalar other) -> Tensor"""
    return aten_ge_Scalar(graph, res, self=self, other=other)


def aten_greater_equal_Tensor(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::greater_equal.Tensor(Tensor self, Tensor other) -> Tensor"""
    return aten_ge_Tensor(graph, res, self=self, other=other)


def aten_index_Tensor_hacked_twin(graph: Graph, res: ResultSpec, self: Result, indices: Results) -> Result:
    """aten::index.Tensor_hacked_twin(Tensor self, Tensor[] indices) -> Tensor"""
    return aten_index_Tensor(graph, res, self=self, indices=indices)


def aten_index_put_hacked_twin(graph: Graph, res: ResultSpec, self: Result, indices: Results, values: Result, accumulate: Bool = False) -> Result:
    """aten::index_put.hacked_twin(Tensor self, Tensor[] indices, Tensor values, bool accumulate=False) -> Tensor"""
    return aten_index_put(graph, res, self=self, indices=indices, values=values, accumulate=accumulate)


def aten_less_Scalar(graph: Graph, res: ResultSpec, self: Result, other: Scalar) -> Result:
    """aten::less.Scalar(Tensor self, Scalar other) -> Tensor"""
    return aten_lt_Scalar(graph, res, self=self, other=other)


def aten_less_Tensor(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::less.Tensor(Tensor self, Tensor other) -> Tensor"""
    return aten_lt_Tensor(graph, res, self=self, other=other)


def aten_less_equal_Scalar(graph: Graph, res: ResultSpec, self: Result, other: Scalar) -> Result:
    """aten::less_equal.Scalar(Tensor self, Scalar other) -> Tensor"""
    return aten_le_Scalar(graph, res, self=self, other=other)


def aten_less_equal_Tensor(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::less_equal.Tensor(Tensor self, Tensor other) -> Tensor"""
    return aten_le_Tensor(graph, res, self=self, other=other)


def aten_multiply_Scalar(graph: Graph, res: ResultSpec, self: Result, other: Scalar) -> Result:
    """aten::multiply.Scalar(Tensor self, Scalar other) -> Tensor"""
    return aten_mul_Tensor(graph, res, self=self, other=other)


def aten_not_equal_Scalar(graph: Graph, res: ResultSpec, self: Result, other: Scalar) -> Result:
    """aten::not_equal.Scalar(Tensor self, Scalar other) -> Tensor"""
    return aten_ne_Scalar(graph, res, self=self, other=other)


def aten_not_equal_Tensor(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::not_equal.Tensor(Tensor self, Tensor other) -> Tensor"""
    return aten_ne_Tensor(graph, res, self=self, other=other)


def aten_split(graph: Graph, res: ResultSpec, self: Result, split_sizes: Ints, dim: Int = 0) -> Any:
    """aten::split(Tensor(a -> *) self, int[] split_sizes, int dim=0) -> Tensor(a)[]"""
    return aten_split_with_sizes(graph, res, self=self, split_sizes=split_sizes, dim=dim)


def aten_subtract_Scalar(graph: Graph, res: ResultSpec, self: Result, other: Scalar, alpha: Scalar = 1) -> Result:
    """aten::subtract.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor"""
    return aten_sub_Tensor(graph, res, self=self, other=other, alpha=alpha)


def check_aten__index_put_impl(graph: Graph, self: Result, indices: Results, values: Result, accumulate: Bool = False, unsafe: Bool = False) -> list[DataCheck]:
    return check_aten_index_put(graph, self=self, indices=indices, values=values, accumulate=accumulate)


def check_aten__unsafe_index_Tensor_hacked_twin(graph: Graph, self: Result, indices: Results) -> list[DataCheck]:
    return check_aten_index_Tensor(graph, self=self, indices=indices)


def check_aten__unsafe_index_put_hacked_twin(graph: Graph, self: Result, indices: Results, values: Result, accumulate: Bool = False) -> list[DataCheck]:
    return check_aten_index_put(graph, self=self, indices=indices, values=values, accumulate=accumulate)


def check_aten_index_Tensor_hacked_twin(graph: Graph, self: Result, indices: Results) -> list[DataCheck]:
    return check_aten_index_Tensor(graph, self=self, indices=indices)


def check_aten_index_put_hacked_twin(graph: Graph, self: Result, indices: Results, values: Result, accumulate: Bool = False) -> list[DataCheck]:
    return check_aten_index_put(graph, self=self, indices=indices, values=values, accumulate=accumulate)


def complex_aten__index_put_impl(graph: Graph, res: ResultSpec, self: Result, indices: Results, values: Result, accumulate: Bool = False, unsafe: Bool = False) -> Result:
    """aten::_index_put_impl(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False, bool unsafe=False) -> Tensor"""
    return complex_aten_index_put(graph, res, self=self, indices=indices, values=values, accumulate=accumulate)


def complex_aten__is_all_true(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::_is_all_true(Tensor self) -> Tensor"""
    return complex_aten_all_dims(graph, res, self=self, dim=None)


def complex_aten__is_any_true(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::_is_any_true(Tensor self) -> Tensor"""
    return complex_aten_any_dims(graph, res, self=self, dim=None)


def complex_aten__logcumsumexp(graph: Graph, res: ResultSpec, self: Result, dim: Int) -> Result:
    """aten::_logcumsumexp(Tensor self, int dim) -> Tensor"""
    return complex_aten_logcumsumexp(graph, res, self=self, dim=dim)


def complex_aten__stack(graph: Graph, res: ResultSpec, tensors: Results, dim: Int = 0) -> Result:
    """aten::_stack(Tensor[] tensors, int dim=0) -> Tensor"""
    return complex_aten_stack(graph, res, tensors=tensors, dim=dim)


def complex_aten__unsafe_index_Tensor_hacked_twin(graph: Graph, res: ResultSpec, self: Result, indices: Results) -> Result:
    """aten::_unsafe_index.Tensor_hacked_twin(Tensor self, Tensor[] indices) -> Tensor"""
    return complex_aten_index_Tensor(graph, res, self=self, indices=indices)


def complex_aten__unsafe_index_put_hacked_twin(graph: Graph, res: ResultSpec, self: Result, indices: Results, values: Result, accumulate: Bool = False) -> Result:
    """aten::_unsafe_index_put.hacked_twin(Tensor self, Tensor[] indices, Tensor values, bool accumulate=False) -> Tensor"""
    return complex_aten_index_put(graph, res, self=self, indices=indices, values=values, accumulate=accumulate)


def complex_aten_arccos(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::arccos(Tensor self) -> Tensor"""
    return complex_aten_acos(graph, res, self=self)


def complex_aten_arccosh(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::arccosh(Tensor self) -> Tensor"""
    return complex_aten_acosh(graph, res, self=self)


def complex_aten_arcsin(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::arcsin(Tensor self) -> Tensor"""
    return complex_aten_asin(graph, res, self=self)


def complex_aten_arcsinh(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::arcsinh(Tensor self) -> Tensor"""
    return complex_aten_asinh(graph, res, self=self)


def complex_aten_arctan(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::arctan(Tensor self) -> Tensor"""
    return complex_aten_atan(graph, res, self=self)


def complex_aten_arctanh(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::arctanh(Tensor self) -> Tensor"""
    return complex_aten_atanh(graph, res, self=self)


def complex_aten_divide_Scalar(graph: Graph, res: ResultSpec, self: Result, other: Scalar) -> Result:
    """aten::divide.Scalar(Tensor self, Scalar other) -> Tensor"""
    return complex_aten_div_Tensor(graph, res, self=self, other=other)


def complex_aten_divide_Scalar_mode(graph: Graph, res: ResultSpec, self: Result, other: Scalar, *, rounding_mode: Str | None) -> Result:
    """aten::divide.Scalar_mode(Tensor self, Scalar other, *, str? rounding_mode) -> Tensor"""
    return complex_aten_div_Scalar_mode(graph, res, self=self, other=other, rounding_mode=rounding_mode)


def complex_aten_index_Tensor_hacked_twin(graph: Graph, res: ResultSpec, self: Result, indices: Results) -> Result:
    """aten::index.Tensor_hacked_twin(Tensor self, Tensor[] indices) -> Tensor"""
    return complex_aten_index_Tensor(graph, res, self=self, indices=indices)


def complex_aten_index_put_hacked_twin(graph: Graph, res: ResultSpec, self: Result, indices: Results, values: Result, accumulate: Bool = False) -> Result:
    """aten::index_put.hacked_twin(Tensor self, Tensor[] indices, Tensor values, bool accumulate=False) -> Tensor"""
    return complex_aten_index_put(graph, res, self=self, indices=indices, values=values, accumulate=accumulate)


def complex_aten_multiply_Scalar(graph: Graph, res: ResultSpec, self: Result, other: Scalar) -> Result:
    """aten::multiply.Scalar(Tensor self, Scalar other) -> Tensor"""
    return complex_aten_mul_Tensor(graph, res, self=self, other=other)


def complex_aten_not_equal_Scalar(graph: Graph, res: ResultSpec, self: Result, other: Scalar) -> Result:
    """aten::not_equal.Scalar(Tensor self, Scalar other) -> Tensor"""
    return complex_aten_ne_Scalar(graph, res, self=self, other=other)


def complex_aten_not_equal_Tensor(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::not_equal.Tensor(Tensor self, Tensor other) -> Tensor"""
    return complex_aten_ne_Tensor(graph, res, self=self, other=other)


def complex_aten_split(graph: Graph, res: ResultSpec, self: Result, split_sizes: Ints, dim: Int = 0) -> Any:
    """aten::split(Tensor(a -> *) self, int[] split_sizes, int dim=0) -> Tensor(a)[]"""
    return complex_aten_split_with_sizes(graph, res, self=self, split_sizes=split_sizes, dim=dim)


def complex_aten_subtract_Scalar(graph: Graph, res: ResultSpec, self: Result, other: Scalar, alpha: Scalar = 1) -> Result:
    """aten::subtract.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor"""
    return complex_aten_sub_Tensor(graph, res, self=self, other=other, alpha=alpha)


def rule_aten__aminmax(graph: Graph, self: Result) -> Rules:
    return rule_aten_aminmax(graph, self=self, dim=None, keepdim=False)


def rule_aten__aminmax_dim(graph: Graph, self: Result, dim: Int, keepdim: Bool = False) -> Rules:
    return rule_aten_aminmax(graph, self=self, dim=dim, keepdim=keepdim)


def rule_aten__index_put_impl(graph: Graph, self: Result, indices: Results, values: Result, accumulate: Bool = False, unsafe: Bool = False) -> Rules:
    return rule_aten_index_put(graph, self=self, indices=indices, values=values, accumulate=accumulate)


def rule_aten__is_all_true(graph: Graph, self: Result) -> Rules:
    return rule_aten_all_dims(graph, self=self, dim=None)


def rule_aten__is_any_true(graph: Graph, self: Result) -> Rules:
    return rule_aten_any_dims(graph, self=self, dim=None)


def rule_aten__logcumsumexp(graph: Graph, self: Result, dim: Int) -> Rules:
    return rule_aten_logcumsumexp(graph, self=self, dim=dim)


def rule_aten__stack(graph: Graph, tensors: Results, dim: Int = 0) -> Rules:
    return rule_aten_stack(graph, tensors=tensors, dim=dim)


def rule_aten__unsafe_index_Tensor_hacked_twin(graph: Graph, self: Result, indices: Results) -> Rules:
    return rule_aten_index_Tensor(graph, self=self, indices=indices)


def rule_aten__unsafe_index_put_hacked_twin(graph: Graph, self: Result, indices: Results, values: Result, accumulate: Bool = False) -> Rules:
    return rule_aten_index_put(graph, self=self, indices=indices, values=values, accumulate=accumulate)


def rule_aten_arccos(graph: Graph, self: Result) -> Rules:
    return rule_aten_acos(graph, self=self)


def rule_aten_arccosh(graph: Graph, self: Result) -> Rules:
    return rule_aten_acosh(graph, self=self)


def rule_aten_arcsin(graph: Graph, self: Result) -> Rules:
    return rule_aten_asin(graph, self=self)


def rule_aten_arcsinh(graph: Graph, self: Result) -> Rules:
    return rule_aten_asinh(graph, self=self)


def rule_aten_arctan(graph: Graph, self: Result) -> Rules:
    return rule_aten_atan(graph, self=self)


def rule_aten_arctan2(graph: Graph, self: Result, other: Result) -> Rules:
    return rule_aten_atan2(graph, self=self, other=other)


def rule_aten_arctanh(graph: Graph, self: Result) -> Rules:
    return rule_aten_atanh(graph, self=self)


def rule_aten_divide_Scalar(graph: Graph, self: Result, other: Scalar) -> Rules:
    return rule_aten_div_Tensor(graph, self=self, other=other)


def rule_aten_divide_Scalar_mode(graph: Graph, self: Result, other: Scalar, *, rounding_mode: Str | None) -> Rules:
    return rule_aten_div_Scalar_mode(graph, self=self, other=other, rounding_mode=rounding_mode)


def rule_aten_greater_Scalar(graph: Graph, self: Result, other: Scalar) -> Rules:
    return rule_aten_gt_Scalar(graph, self=self, other=other)


def rule_aten_greater_Tensor(graph: Graph, self: Result, other: Result) -> Rules:
    return rule_aten_gt_Tensor(graph, self=self, other=other)


def rule_aten_greater_equal_Scalar(graph: Graph, self: Result, other: Scalar) -> Rules:
    return rule_aten_ge_Scalar(graph, self=self, other=other)


def rule_aten_greater_equal_Tensor(graph: Graph, self: Result, other: Result) -> Rules:
    return rule_aten_ge_Tensor(graph, self=self, other=other)


def rule_aten_index_Tensor_hacked_twin(graph: Graph, self: Result, indices: Results) -> Rules:
    return rule_aten_index_Tensor(graph, self=self, indices=indices)


def rule_aten_index_put_hacked_twin(graph: Graph, self: Result, indices: Results, values: Result, accumulate: Bool = False) -> Rules:
    return rule_aten_index_put(graph, self=self, indices=indices, values=values, accumulate=accumulate)


def rule_aten_less_Scalar(graph: Graph, self: Result, other: Scalar) -> Rules:
    return rule_aten_lt_Scalar(graph, self=self, other=other)


def rule_aten_less_Tensor(graph: Graph, self: Result, other: Result) -> Rules:
    return rule_aten_lt_Tensor(graph, self=self, other=other)


def rule_aten_less_equal_Scalar(graph: Graph, self: Result, other: Scalar) -> Rules:
    return rule_aten_le_Scalar(graph, self=self, other=other)


def rule_aten_less_equal_Tensor(graph: Graph, self: Result, other: Result) -> Rules:
    return rule_aten_le_Tensor(graph, self=self, other=other)


def rule_aten_multiply_Scalar(graph: Graph, self: Result, other: Scalar) -> Rules:
    return rule_aten_mul_Tensor(graph, self=self, other=other)


def rule_aten_not_equal_Scalar(graph: Graph, self: Result, other: Scalar) -> Rules:
    return rule_aten_ne_Scalar(graph, self=self, other=other)


def rule_aten_not_equal_Tensor(graph: Graph, self: Result, other: Result) -> Rules:
    return rule_aten_ne_Tensor(graph, self=self, other=other)


def rule_aten_split(graph: Graph, self: Result, split_sizes: Ints, dim: Int = 0) -> Rules:
    return rule_aten_split_with_sizes(graph, self=self, split_sizes=split_sizes, dim=dim)


def rule_aten_subtract_Scalar(graph: Graph, self: Result, other: Scalar, alpha: Scalar = 1) -> Rules:
    return rule_aten_sub_Tensor(graph, self=self, other=other, alpha=alpha)
