# Generated from specs/aten/softmax.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING

from ortable.dtypes import float32, int64
from ortable.lowerings.softmax import log_softmax_of
from ortable.prelude.complex_arithmetic import re
from ortable.prelude.facts import axes_of, axis_of, dtype_of
from ortable.prelude.metadata import dtype_or_none, shape_or_none
from ortable.prelude.promotion import opmath_dtype
from ortable.prelude.reductions import reduced_extreme
from ortable.prelude.values import at_least_1d, cast, const, consts, unsqueezed, with_rank_of

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Bool, Dtype, Int, Result


def aten__log_softmax(graph: Graph, res: ResultSpec, self: Result, dim: Int, half_to_float: Bool) -> Result:
    """aten::_log_softmax(Tensor self, int dim, bool half_to_float) -> Tensor"""
    compute_dtype = at_least_1d(graph, cast(graph, self, float32) if half_to_float else self)
    return with_rank_of(graph, log_softmax_of(graph, compute_dtype, axis_of(graph, self, dim)), self)


def aten__log_softmax_backward_data(graph: Graph, res: ResultSpec, grad_output: Result, output: Result, dim: Int, input_dtype: Dtype) -> Result:
    """aten::_log_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor"""
    axes = axes_of(graph, output, dim)
    wanted = opmath_dtype(dtype_of(graph, output))
    grad = cast(graph, grad_output, wanted)
    total = graph.make_node('ReduceSum', [grad, consts(graph, axes, int64)], keepdims=1)
    return cast(graph, graph.make_node('Sub', [grad, graph.make_node('Mul', [graph.make_node('Exp', [cast(graph, output, wanted)]), total])]), input_dtype)


def aten__masked_softmax(graph: Graph, res: ResultSpec, self: Result, mask: Result, dim: Int | None = None, mask_type: Int | None = None) -> Result:
    """aten::_masked_softmax(Tensor self, Tensor mask, int? dim=None, int? mask_type=None) -> Tensor"""
    axis = axis_of(graph, self, -1 if dim is None else dim)
    # a mask of type 1 has a row for each of a batch, one of type 0 is for all
    wide = unsqueezed(graph, mask, [1, 2]) if mask_type == 1 else mask
    seen = graph.make_node('Where', [wide, const(graph, -float('inf'), dtype_of(graph, self)), self])
    return with_rank_of(graph, graph.make_node('Softmax', [at_least_1d(graph, seen)], axis=axis), self)


def aten__safe_softmax(graph: Graph, res: ResultSpec, self: Result, dim: Int, dtype: Dtype | None = None) -> Result:
    """aten::_safe_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor"""
    axis = axis_of(graph, self, dim)
    whole = at_least_1d(graph, cast(graph, self, dtype_of(graph, res)))
    highest = reduced_extreme(graph, whole, [axis], True, True)
    hidden = graph.make_node('Equal', [highest, const(graph, -float('inf'), dtype_of(graph, whole))])
    result = graph.make_node('Where', [hidden, const(graph, 0, dtype_of(graph, whole)), graph.make_node('Softmax', [whole], axis=axis)])
    return with_rank_of(graph, result, self)


def aten__softmax(graph: Graph, res: ResultSpec, self: Result, dim: Int, half_to_float: Bool) -> Result:
    """aten::_softmax(Tensor self, int dim, bool half_to_float) -> Tensor"""
    compute_dtype = at_least_1d(graph, cast(graph, self, float32) if half_to_float else self)
    return with_rank_of(graph, graph.make_node('Softmax', [compute_dtype], axis=axis_of(graph, self, dim)), self)


def aten__softmax_backward_data(graph: Graph, res: ResultSpec, grad_output: Result, output: Result, dim: Int, input_dtype: Dtype) -> Result:
    """aten::_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor"""
    axes = axes_of(graph, output, dim)
    wanted = opmath_dtype(dtype_of(graph, output))
    grad = cast(graph, grad_output, wanted)
    result = cast(graph, output, wanted)
    total = graph.make_node('ReduceSum', [graph.make_node('Mul', [grad, result]), consts(graph, axes, int64)], keepdims=1)
    return cast(graph, graph.make_node('Mul', [graph.make_node('Sub', [grad, total]), result]), input_dtype)


def aten_log_softmax_int(graph: Graph, res: ResultSpec, self: Result, dim: Int, dtype: Dtype | None = None) -> Result:
    """aten::log_softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor"""
    graph.case = 1
    compute_dtype = at_least_1d(graph, cast(graph, self, dtype_of(graph, res)))
    return with_rank_of(graph, log_softmax_of(graph, compute_dtype, axis_of(graph, self, dim)), self)


def aten_softmax_int(graph: Graph, res: ResultSpec, self: Result, dim: Int, dtype: Dtype | None = None) -> Result:
    """aten::softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor"""
    graph.case = 1
    compute_dtype = at_least_1d(graph, cast(graph, self, dtype_of(graph, res)))
    return with_rank_of(graph, graph.make_node('Softmax', [compute_dtype], axis=axis_of(graph, self, dim)), self)


def complex_aten_log_softmax_int(graph: Graph, res: ResultSpec, self: Result, dim: Int, dtype: Dtype | None = None) -> Result:
    """aten::log_softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor"""
    graph.case = 2
    x = at_least_1d(graph, cast(graph, re(graph, self), dtype_of(graph, res)))
    return with_rank_of(graph, log_softmax_of(graph, x, axis_of(graph, self, dim)), re(graph, self))


def complex_aten_softmax_int(graph: Graph, res: ResultSpec, self: Result, dim: Int, dtype: Dtype | None = None) -> Result:
    """aten::softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor"""
    graph.case = 2
    x = at_least_1d(graph, cast(graph, re(graph, self), dtype_of(graph, res)))
    return with_rank_of(graph, graph.make_node('Softmax', [x], axis=axis_of(graph, self, dim)), re(graph, self))


def rule_aten__log_softmax(graph: Graph, self: Result, dim: Int, half_to_float: Bool) -> Rules:
    return ((float32 if half_to_float else dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten__log_softmax_backward_data(graph: Graph, grad_output: Result, output: Result, dim: Int, input_dtype: Dtype) -> Rules:
    return ((dtype_or_none(graph, grad_output) if input_dtype is None else input_dtype, shape_or_none(graph, grad_output)),)


def rule_aten__masked_softmax(graph: Graph, self: Result, mask: Result, dim: Int | None = None, mask_type: Int | None = None) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten__safe_softmax(graph: Graph, self: Result, dim: Int, dtype: Dtype | None = None) -> Rules:
    return ((dtype_or_none(graph, self) if dtype is None else dtype, shape_or_none(graph, self)),)


def rule_aten__softmax(graph: Graph, self: Result, dim: Int, half_to_float: Bool) -> Rules:
    return ((float32 if half_to_float else dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten__softmax_backward_data(graph: Graph, grad_output: Result, output: Result, dim: Int, input_dtype: Dtype) -> Rules:
    return ((dtype_or_none(graph, grad_output) if input_dtype is None else input_dtype, shape_or_none(graph, grad_output)),)


def rule_aten_log_softmax_int(graph: Graph, self: Result, dim: Int, dtype: Dtype | None = None) -> Rules:
    return ((dtype_or_none(graph, self) if dtype is None else dtype, shape_or_none(graph, self)),)


def rule_aten_softmax_int(graph: Graph, self: Result, dim: Int, dtype: Dtype | None = None) -> Rules:
    return ((dtype_or_none(graph, self) if dtype is None else dtype, shape_or_none(graph, self)),)
