# Generated from specs/aten/reduce.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.dispatch import DataCheck
from ortable.dtypes import boolean, int16, int32, int64, uint8
from ortable.errors import UnsupportedCase
from ortable.inference import accumulate_dtype, reduce_shape
from ortable.lowerings.complex.arithmetic import c_prod
from ortable.lowerings.complex.parts import each_part
from ortable.prelude.complex_arithmetic import c_cast, c_truth
from ortable.prelude.facts import axes_of, axis_of, count_of, dim_of, dtype_of, is_bool, is_float, is_used, may_be_zero, rank_of
from ortable.prelude.metadata import dtype_or_none, scalar_shape, shape_or_none
from ortable.prelude.operators import call_operator
from ortable.prelude.promotion import opmath
from ortable.prelude.reductions import all_true, any_true, reduced_extreme
from ortable.prelude.sums import product_over, summed_over
from ortable.prelude.values import as_vec, at_least_1d, cast, const, consts, reshape_to, squeezed, with_rank_of
from ortable_generated.aten import dispatch
from ortable_generated.aten.compare import aten_maximum, aten_minimum, rule_aten_maximum, rule_aten_minimum

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Bool, Dtype, Int, Ints, Result


def aten_all(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::all(Tensor self) -> Tensor"""
    return aten_all_dims(graph, res, self=self, dim=None)


def aten_all_dim(graph: Graph, res: ResultSpec, self: Result, dim: Int, keepdim: Bool = False) -> Result:
    """aten::all.dim(Tensor self, int dim, bool keepdim=False) -> Tensor"""
    return aten_all_dims(graph, res, self=self, dim=[dim], keepdim=keepdim)


def aten_all_dims(graph: Graph, res: ResultSpec, self: Result, dim: Ints | None = None, keepdim: Bool = False) -> Result:
    """aten::all.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor"""
    if dim is not None and len(dim) == 0:
        # an empty list reduces nothing here, None reduces everything
        graph.case = 1
        return cast(graph, cast(graph, self, boolean), dtype_of(graph, res))
    graph.case = 2
    return cast(graph, all_true(graph, self, axes_of(graph, self, dim), keepdim), dtype_of(graph, res))


def aten_amax(graph: Graph, res: ResultSpec, self: Result, dim: Ints = (), keepdim: Bool = False) -> Result:
    """aten::amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor"""
    return reduced_extreme(graph, self, axes_of(graph, self, dim), keepdim, True)


def aten_amin(graph: Graph, res: ResultSpec, self: Result, dim: Ints = (), keepdim: Bool = False) -> Result:
    """aten::amin(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor"""
    return reduced_extreme(graph, self, axes_of(graph, self, dim), keepdim, False)


def aten_aminmax(graph: Graph, res: ResultSpec, self: Result, *, dim: Int | None = None, keepdim: Bool = False) -> Any:
    """aten::aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)"""
    axes = axes_of(graph, self, [] if dim is None else [dim])
    least = reduced_extreme(graph, self, axes, keepdim, False)
    return (least, reduced_extreme(graph, self, axes, keepdim, True))


def aten_any(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::any(Tensor self) -> Tensor"""
    return aten_any_dims(graph, res, self=self, dim=None)


def aten_any_dim(graph: Graph, res: ResultSpec, self: Result, dim: Int, keepdim: Bool = False) -> Result:
    """aten::any.dim(Tensor self, int dim, bool keepdim=False) -> Tensor"""
    return aten_any_dims(graph, res, self=self, dim=[dim], keepdim=keepdim)


def aten_any_dims(graph: Graph, res: ResultSpec, self: Result, dim: Ints | None = None, keepdim: Bool = False) -> Result:
    """aten::any.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor"""
    if dim is not None and len(dim) == 0:
        # an empty list reduces nothing here, None reduces everything
        graph.case = 1
        return cast(graph, cast(graph, self, boolean), dtype_of(graph, res))
    graph.case = 2
    return cast(graph, any_true(graph, self, axes_of(graph, self, dim), keepdim), dtype_of(graph, res))


def aten_argmax(graph: Graph, res: ResultSpec, self: Result, dim: Int | None = None, keepdim: Bool = False) -> Result:
    """aten::argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor"""
    axis = 0 if dim is None else axis_of(graph, self, dim)
    kept = keepdim or rank_of(graph, self) == 0
    if is_bool(graph, self):
        graph.case = 1
        raise UnsupportedCase('aten::argmax: the place of a bool, which torch refuses')
    if dim is None:
        # with keepdim torch keeps every dimension as 1
        graph.case = 2
        flat = call_operator(graph, dispatch, 'aten::argmax', reshape_to(graph, self, [-1]), 0)
        return reshape_to(graph, flat, [1] * rank_of(graph, self)) if keepdim else flat
    if not is_float(graph, self):
        # ONNX allows int16 and halves, ONNX Runtime has no kernel
        graph.case = 3
        x = cast(graph, self, int32 if dtype_of(graph, self) == int16 else dtype_of(graph, self))
        return with_rank_of(graph, graph.make_node('ArgMax', [at_least_1d(graph, x)], axis=axis, keepdims=kept), self)
    # the first NaN is the largest and the smallest
    graph.case = 4
    x = at_least_1d(graph, self)
    lost = cast(graph, graph.make_node('IsNaN', [x]), uint8)
    first = graph.make_node('ArgMax', [lost], axis=axis, keepdims=kept)
    some = cast(graph, graph.make_node('ReduceMax', [lost, consts(graph, [axis], int64)], keepdims=kept), boolean)
    index = graph.make_node('Where', [some, first, graph.make_node('ArgMax', [opmath(graph, x)], axis=axis, keepdims=kept)])
    return with_rank_of(graph, index, self)


def aten_argmin(graph: Graph, res: ResultSpec, self: Result, dim: Int | None = None, keepdim: Bool = False) -> Result:
    """aten::argmin(Tensor self, int? dim=None, bool keepdim=False) -> Tensor"""
    axis = 0 if dim is None else axis_of(graph, self, dim)
    kept = keepdim or rank_of(graph, self) == 0
    if is_bool(graph, self):
        graph.case = 1
        raise UnsupportedCase('aten::argmin: the place of a bool, which torch refuses')
    if dim is None:
        # with keepdim torch keeps every dimension as 1
        graph.case = 2
        flat = call_operator(graph, dispatch, 'aten::argmin', reshape_to(graph, self, [-1]), 0)
        return reshape_to(graph, flat, [1] * rank_of(graph, self)) if keepdim else flat
    if not is_float(graph, self):
        # ONNX allows int16 and halves, ONNX Runtime has no kernel
        graph.case = 3
        x = cast(graph, self, int32 if dtype_of(graph, self) == int16 else dtype_of(graph, self))
        return with_rank_of(graph, graph.make_node('ArgMin', [at_least_1d(graph, x)], axis=axis, keepdims=kept), self)
    # the first NaN is the largest and the smallest
    graph.case = 4
    x = at_least_1d(graph, self)
    lost = cast(graph, graph.make_node('IsNaN', [x]), uint8)
    first = graph.make_node('ArgMax', [lost], axis=axis, keepdims=kept)
    some = cast(graph, graph.make_node('ReduceMax', [lost, consts(graph, [axis], int64)], keepdims=kept), boolean)
    index = graph.make_node('Where', [some, first, graph.make_node('ArgMin', [opmath(graph, x)], axis=axis, keepdims=kept)])
    return with_rank_of(graph, index, self)


def aten_max(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::max(Tensor self) -> Tensor"""
    if count_of(graph, self) == 0:
        graph.case = 1
        raise UnsupportedCase('aten::max: no elements, of which torch returns no extreme')
    graph.case = 2
    return reduced_extreme(graph, self, axes_of(graph, self, []), False, True)


def aten_max_dim(graph: Graph, res: ResultSpec, self: Result, dim: Int, keepdim: Bool = False) -> Any:
    """aten::max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"""
    axis = axis_of(graph, self, dim)
    dropped = [] if keepdim or rank_of(graph, self) == 0 else [axis]
    if dim_of(graph, self, axis) == 0:
        graph.case = 1
        raise UnsupportedCase('aten::max.dim: an axis without elements, of which torch returns no extreme')
    graph.case = 2
    whole = at_least_1d(graph, self)
    order = cast(graph, whole, uint8) if dtype_of(graph, self) == boolean else whole
    index = call_operator(graph, dispatch, 'aten::argmax', order, axis, True) if is_used(res[1]) else None
    result = graph.make_node('GatherElements', [whole, index], axis=axis) if index is not None else None
    value = with_rank_of(graph, squeezed(graph, result, dropped), self) if result is not None else reduced_extreme(graph, self, axes_of(graph, self, axis), keepdim, True)
    return (value, with_rank_of(graph, squeezed(graph, index, dropped), self) if index is not None else None)


def aten_max_other(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::max.other(Tensor self, Tensor other) -> Tensor"""
    return aten_maximum(graph, res, self=self, other=other)


def aten_min(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::min(Tensor self) -> Tensor"""
    if count_of(graph, self) == 0:
        graph.case = 1
        raise UnsupportedCase('aten::min: no elements, of which torch returns no extreme')
    graph.case = 2
    return reduced_extreme(graph, self, axes_of(graph, self, []), False, False)


def aten_min_dim(graph: Graph, res: ResultSpec, self: Result, dim: Int, keepdim: Bool = False) -> Any:
    """aten::min.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"""
    axis = axis_of(graph, self, dim)
    dropped = [] if keepdim or rank_of(graph, self) == 0 else [axis]
    if dim_of(graph, self, axis) == 0:
        graph.case = 1
        raise UnsupportedCase('aten::min.dim: an axis without elements, of which torch returns no extreme')
    graph.case = 2
    whole = at_least_1d(graph, self)
    order = cast(graph, whole, uint8) if dtype_of(graph, self) == boolean else whole
    index = call_operator(graph, dispatch, 'aten::argmin', order, axis, True) if is_used(res[1]) else None
    result = graph.make_node('GatherElements', [whole, index], axis=axis) if index is not None else None
    value = with_rank_of(graph, squeezed(graph, result, dropped), self) if result is not None else reduced_extreme(graph, self, axes_of(graph, self, axis), keepdim, False)
    return (value, with_rank_of(graph, squeezed(graph, index, dropped), self) if index is not None else None)


def aten_min_other(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::min.other(Tensor self, Tensor other) -> Tensor"""
    return aten_minimum(graph, res, self=self, other=other)


def aten_nansum(graph: Graph, res: ResultSpec, self: Result, dim: Ints | None = None, keepdim: Bool = False, *, dtype: Dtype | None = None) -> Result:
    """aten::nansum(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"""
    axes = axes_of(graph, self, dim)
    if not is_float(graph, self):
        graph.case = 1
        return summed_over(graph, cast(graph, self, dtype_of(graph, res)), axes, keepdim)
    graph.case = 2
    known = graph.make_node('Where', [graph.make_node('IsNaN', [self]), const(graph, 0, dtype_of(graph, self)), self])
    return summed_over(graph, cast(graph, known, dtype_of(graph, res)), axes, keepdim)


def aten_prod(graph: Graph, res: ResultSpec, self: Result, *, dtype: Dtype | None = None) -> Result:
    """aten::prod(Tensor self, *, ScalarType? dtype=None) -> Tensor"""
    graph.case = 1
    return product_over(graph, cast(graph, self, dtype_of(graph, res)), axes_of(graph, self, []), False)


def aten_prod_dim_int(graph: Graph, res: ResultSpec, self: Result, dim: Int, keepdim: Bool = False, *, dtype: Dtype | None = None) -> Result:
    """aten::prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"""
    axes = axes_of(graph, self, dim)
    graph.case = 1
    return product_over(graph, cast(graph, self, dtype_of(graph, res)), axes, keepdim)


def aten_sum(graph: Graph, res: ResultSpec, self: Result, *, dtype: Dtype | None = None) -> Result:
    """aten::sum(Tensor self, *, ScalarType? dtype=None) -> Tensor"""
    return aten_sum_dim_IntList(graph, res, self=self, dim=None, dtype=dtype)


def aten_sum_dim_IntList(graph: Graph, res: ResultSpec, self: Result, dim: Ints | None, keepdim: Bool = False, *, dtype: Dtype | None = None) -> Result:
    """aten::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"""
    return summed_over(graph, cast(graph, self, dtype_of(graph, res)), axes_of(graph, self, dim), keepdim)


def check_aten_max(graph: Graph, self: Result) -> list[DataCheck]:
    return [
        *([DataCheck(as_vec(graph, count_of(graph, self)), 1, None, 'RuntimeError', "max(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' argument.", None)] if may_be_zero(count_of(graph, self)) else []),
    ]


def check_aten_max_dim(graph: Graph, self: Result, dim: Int, keepdim: Bool = False) -> list[DataCheck]:
    axis = axis_of(graph, self, dim)
    return [
        *([DataCheck(as_vec(graph, dim_of(graph, self, axis)), 1, None, 'IndexError', 'max(): Expected reduction dim {axis} to have non-zero size.', axis)] if may_be_zero(dim_of(graph, self, axis)) else []),
    ]


def check_aten_min(graph: Graph, self: Result) -> list[DataCheck]:
    return [
        *([DataCheck(as_vec(graph, count_of(graph, self)), 1, None, 'RuntimeError', "min(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' argument.", None)] if may_be_zero(count_of(graph, self)) else []),
    ]


def check_aten_min_dim(graph: Graph, self: Result, dim: Int, keepdim: Bool = False) -> list[DataCheck]:
    axis = axis_of(graph, self, dim)
    return [
        *([DataCheck(as_vec(graph, dim_of(graph, self, axis)), 1, None, 'IndexError', 'min(): Expected reduction dim {axis} to have non-zero size.', axis)] if may_be_zero(dim_of(graph, self, axis)) else []),
    ]


def complex_aten_all(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::all(Tensor self) -> Tensor"""
    return complex_aten_all_dims(graph, res, self=self, dim=None)


def complex_aten_all_dim(graph: Graph, res: ResultSpec, self: Result, dim: Int, keepdim: Bool = False) -> Result:
    """aten::all.dim(Tensor self, int dim, bool keepdim=False) -> Tensor"""
    return complex_aten_all_dims(graph, res, self=self, dim=[dim], keepdim=keepdim)


def complex_aten_all_dims(graph: Graph, res: ResultSpec, self: Result, dim: Ints | None = None, keepdim: Bool = False) -> Result:
    """aten::all.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor"""
    if dim is not None and len(dim) == 0:
        graph.case = 3
        return c_truth(graph, self)
    graph.case = 4
    return all_true(graph, c_truth(graph, self), axes_of(graph, self, dim), keepdim)


def complex_aten_any(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::any(Tensor self) -> Tensor"""
    return complex_aten_any_dims(graph, res, self=self, dim=None)


def complex_aten_any_dim(graph: Graph, res: ResultSpec, self: Result, dim: Int, keepdim: Bool = False) -> Result:
    """aten::any.dim(Tensor self, int dim, bool keepdim=False) -> Tensor"""
    return complex_aten_any_dims(graph, res, self=self, dim=[dim], keepdim=keepdim)


def complex_aten_any_dims(graph: Graph, res: ResultSpec, self: Result, dim: Ints | None = None, keepdim: Bool = False) -> Result:
    """aten::any.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor"""
    if dim is not None and len(dim) == 0:
        graph.case = 3
        return c_truth(graph, self)
    graph.case = 4
    return any_true(graph, c_truth(graph, self), axes_of(graph, self, dim), keepdim)


def complex_aten_prod(graph: Graph, res: ResultSpec, self: Result, *, dtype: Dtype | None = None) -> Result:
    """aten::prod(Tensor self, *, ScalarType? dtype=None) -> Tensor"""
    graph.case = 2
    return c_prod(graph, reshape_to(graph, c_cast(graph, self, dtype_of(graph, res)), [-1]), 0, False)


def complex_aten_prod_dim_int(graph: Graph, res: ResultSpec, self: Result, dim: Int, keepdim: Bool = False, *, dtype: Dtype | None = None) -> Result:
    """aten::prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"""
    graph.case = 2
    return c_prod(graph, c_cast(graph, self, dtype_of(graph, res)), axis_of(graph, self, dim), keepdim)


def complex_aten_sum(graph: Graph, res: ResultSpec, self: Result, *, dtype: Dtype | None = None) -> Result:
    """aten::sum(Tensor self, *, ScalarType? dtype=None) -> Tensor"""
    return complex_aten_sum_dim_IntList(graph, res, self=self, dim=None, dtype=dtype)


def complex_aten_sum_dim_IntList(graph: Graph, res: ResultSpec, self: Result, dim: Ints | None, keepdim: Bool = False, *, dtype: Dtype | None = None) -> Result:
    """aten::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"""
    return each_part(graph, res, aten_sum_dim_IntList, {'self': self}, dim=dim, keepdim=keepdim, dtype=dtype)


def rule_aten_all(graph: Graph, self: Result) -> Rules:
    return rule_aten_all_dims(graph, self=self, dim=None)


def rule_aten_all_dim(graph: Graph, self: Result, dim: Int, keepdim: Bool = False) -> Rules:
    return rule_aten_all_dims(graph, self=self, dim=[dim], keepdim=keepdim)


def rule_aten_all_dims(graph: Graph, self: Result, dim: Ints | None = None, keepdim: Bool = False) -> Rules:
    return ((uint8 if dtype_of(graph, self) == uint8 else boolean, None),)


def rule_aten_amax(graph: Graph, self: Result, dim: Ints = (), keepdim: Bool = False) -> Rules:
    return ((dtype_or_none(graph, self), reduce_shape(shape_or_none(graph, self), dim, keepdim)),)


def rule_aten_amin(graph: Graph, self: Result, dim: Ints = (), keepdim: Bool = False) -> Rules:
    return ((dtype_or_none(graph, self), reduce_shape(shape_or_none(graph, self), dim, keepdim)),)


def rule_aten_aminmax(graph: Graph, self: Result, *, dim: Int | None = None, keepdim: Bool = False) -> Rules:
    return ((dtype_or_none(graph, self), reduce_shape(shape_or_none(graph, self), dim, keepdim)), (dtype_or_none(graph, self), reduce_shape(shape_or_none(graph, self), dim, keepdim)),)


def rule_aten_any(graph: Graph, self: Result) -> Rules:
    return rule_aten_any_dims(graph, self=self, dim=None)


def rule_aten_any_dim(graph: Graph, self: Result, dim: Int, keepdim: Bool = False) -> Rules:
    return rule_aten_any_dims(graph, self=self, dim=[dim], keepdim=keepdim)


def rule_aten_any_dims(graph: Graph, self: Result, dim: Ints | None = None, keepdim: Bool = False) -> Rules:
    return ((uint8 if dtype_of(graph, self) == uint8 else boolean, None),)


def rule_aten_argmax(graph: Graph, self: Result, dim: Int | None = None, keepdim: Bool = False) -> Rules:
    return ((int64, reduce_shape(shape_or_none(graph, self), dim, keepdim)),)


def rule_aten_argmin(graph: Graph, self: Result, dim: Int | None = None, keepdim: Bool = False) -> Rules:
    return ((int64, reduce_shape(shape_or_none(graph, self), dim, keepdim)),)


def rule_aten_max(graph: Graph, self: Result) -> Rules:
    return ((dtype_or_none(graph, self), scalar_shape()),)


def rule_aten_max_dim(graph: Graph, self: Result, dim: Int, keepdim: Bool = False) -> Rules:
    return ((dtype_or_none(graph, self), reduce_shape(shape_or_none(graph, self), dim, keepdim)), (int64, reduce_shape(shape_or_none(graph, self), dim, keepdim)),)


def rule_aten_max_other(graph: Graph, self: Result, other: Result) -> Rules:
    return rule_aten_maximum(graph, self=self, other=other)


def rule_aten_min(graph: Graph, self: Result) -> Rules:
    return ((dtype_or_none(graph, self), scalar_shape()),)


def rule_aten_min_dim(graph: Graph, self: Result, dim: Int, keepdim: Bool = False) -> Rules:
    return ((dtype_or_none(graph, self), reduce_shape(shape_or_none(graph, self), dim, keepdim)), (int64, reduce_shape(shape_or_none(graph, self), dim, keepdim)),)


def rule_aten_min_other(graph: Graph, self: Result, other: Result) -> Rules:
    return rule_aten_minimum(graph, self=self, other=other)


def rule_aten_nansum(graph: Graph, self: Result, dim: Ints | None = None, keepdim: Bool = False, *, dtype: Dtype | None = None) -> Rules:
    return ((accumulate_dtype(dtype_or_none(graph, self)) if dtype is None else dtype, reduce_shape(shape_or_none(graph, self), dim, keepdim)),)


def rule_aten_prod(graph: Graph, self: Result, *, dtype: Dtype | None = None) -> Rules:
    return ((accumulate_dtype(dtype_or_none(graph, self)) if dtype is None else dtype, scalar_shape()),)


def rule_aten_prod_dim_int(graph: Graph, self: Result, dim: Int, keepdim: Bool = False, *, dtype: Dtype | None = None) -> Rules:
    return ((accumulate_dtype(dtype_or_none(graph, self)) if dtype is None else dtype, reduce_shape(shape_or_none(graph, self), dim, keepdim)),)


def rule_aten_sum(graph: Graph, self: Result, *, dtype: Dtype | None = None) -> Rules:
    return rule_aten_sum_dim_IntList(graph, self=self, dim=None, dtype=dtype)


def rule_aten_sum_dim_IntList(graph: Graph, self: Result, dim: Ints | None, keepdim: Bool = False, *, dtype: Dtype | None = None) -> Rules:
    return ((accumulate_dtype(dtype_or_none(graph, self)) if dtype is None else dtype, reduce_shape(shape_or_none(graph, self), dim, keepdim)),)
