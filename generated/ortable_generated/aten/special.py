# Generated from specs/aten/special.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING

from ortable.inference import broadcast
from ortable.prelude.facts import dtype_of
from ortable.prelude.metadata import shape_or_none
from ortable.prelude.pointwise import const_like, log1p_of
from ortable.prelude.promotion import opmath, promote_values, promoted_dtype
from ortable.prelude.values import cast, const
from ortable_generated.aten.activation import aten_sigmoid, complex_aten_sigmoid, rule_aten_sigmoid
from ortable_generated.aten.binary import aten_xlogy_Tensor, rule_aten_xlogy_Tensor
from ortable_generated.aten.softmax import aten_log_softmax_int, aten_softmax_int, complex_aten_log_softmax_int, complex_aten_softmax_int, rule_aten_log_softmax_int, rule_aten_softmax_int
from ortable_generated.aten.statistics import aten_logsumexp, complex_aten_logsumexp, rule_aten_logsumexp
from ortable_generated.aten.trigonometric import aten_sinc, complex_aten_sinc, rule_aten_sinc
from ortable_generated.aten.unary import aten_exp2, aten_expm1, aten_log1p, aten_logit, aten_round_decimals, complex_aten_exp2, complex_aten_expm1, complex_aten_log1p, rule_aten_exp2, rule_aten_expm1, rule_aten_log1p, rule_aten_logit, rule_aten_round_decimals

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Bool, Dtype, Float, Int, Ints, Result, Scalar


def aten_special_entr(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::special_entr(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    zero = const(graph, 0, dtype_of(graph, self))
    inside = graph.make_node('Neg', [graph.make_node('Mul', [self, graph.make_node('Log', [self])])])
    outside = graph.make_node('Where', [graph.make_node('Less', [self, zero]), const(graph, -float('inf'), dtype_of(graph, self)), zero])
    return graph.make_node('Where', [graph.make_node('Or', [graph.make_node('Greater', [self, zero]), graph.make_node('IsNaN', [self])]), inside, outside], res.outputs)


def aten_special_exp2(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::special_exp2(Tensor self) -> Tensor"""
    return aten_exp2(graph, res, self=self)


def aten_special_expit(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::special_expit(Tensor self) -> Tensor"""
    return aten_sigmoid(graph, res, self=self)


def aten_special_expm1(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::special_expm1(Tensor self) -> Tensor"""
    return aten_expm1(graph, res, self=self)


def aten_special_log1p(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::special_log1p(Tensor self) -> Tensor"""
    return aten_log1p(graph, res, self=self)


def aten_special_log_softmax(graph: Graph, res: ResultSpec, self: Result, dim: Int, *, dtype: Dtype | None = None) -> Result:
    """aten::special_log_softmax(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor"""
    return aten_log_softmax_int(graph, res, self=self, dim=dim, dtype=dtype)


def aten_special_logit(graph: Graph, res: ResultSpec, self: Result, eps: Float | None = None) -> Result:
    """aten::special_logit(Tensor self, float? eps=None) -> Tensor"""
    return aten_logit(graph, res, self=self, eps=eps)


def aten_special_logsumexp(graph: Graph, res: ResultSpec, self: Result, dim: Ints, keepdim: Bool = False) -> Result:
    """aten::special_logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor"""
    return aten_logsumexp(graph, res, self=self, dim=dim, keepdim=keepdim)


def aten_special_round(graph: Graph, res: ResultSpec, self: Result, *, decimals: Int = 0) -> Result:
    """aten::special_round(Tensor self, *, int decimals=0) -> Tensor"""
    return aten_round_decimals(graph, res, self=self, decimals=decimals)


def aten_special_sinc(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::special_sinc(Tensor self) -> Tensor"""
    return aten_sinc(graph, res, self=self)


def aten_special_softmax(graph: Graph, res: ResultSpec, self: Result, dim: Int, dtype: Dtype | None = None) -> Result:
    """aten::special_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor"""
    return aten_softmax_int(graph, res, self=self, dim=dim, dtype=dtype)


def aten_special_xlog1py(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::special_xlog1py(Tensor self, Tensor other) -> Tensor"""
    self, other = promote_values(graph, 'int_to_float', [self, other])
    x = opmath(graph, self)
    y = opmath(graph, other)
    zero = const_like(graph, 0, x)
    result = graph.make_node('Where', [graph.make_node('Equal', [x, zero]), zero, graph.make_node('Mul', [x, log1p_of(graph, y)])])
    return cast(graph, graph.make_node('Where', [graph.make_node('IsNaN', [y]), y, result]), dtype_of(graph, self))


def aten_special_xlog1py_other_scalar(graph: Graph, res: ResultSpec, self: Result, other: Scalar) -> Result:
    """aten::special_xlog1py.other_scalar(Tensor self, Scalar other) -> Tensor"""
    return aten_special_xlog1py(graph, res, self=self, other=other)


def aten_special_xlog1py_self_scalar(graph: Graph, res: ResultSpec, self: Scalar, other: Result) -> Result:
    """aten::special_xlog1py.self_scalar(Scalar self, Tensor other) -> Tensor"""
    return aten_special_xlog1py(graph, res, self=self, other=other)


def aten_special_xlogy(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::special_xlogy(Tensor self, Tensor other) -> Tensor"""
    return aten_xlogy_Tensor(graph, res, self=self, other=other)


def aten_special_xlogy_other_scalar(graph: Graph, res: ResultSpec, self: Result, other: Scalar) -> Result:
    """aten::special_xlogy.other_scalar(Tensor self, Scalar other) -> Tensor"""
    return aten_xlogy_Tensor(graph, res, self=self, other=other)


def aten_special_xlogy_self_scalar(graph: Graph, res: ResultSpec, self: Scalar, other: Result) -> Result:
    """aten::special_xlogy.self_scalar(Scalar self, Tensor other) -> Tensor"""
    return aten_xlogy_Tensor(graph, res, self=self, other=other)


def complex_aten_special_exp2(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::special_exp2(Tensor self) -> Tensor"""
    return complex_aten_exp2(graph, res, self=self)


def complex_aten_special_expit(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::special_expit(Tensor self) -> Tensor"""
    return complex_aten_sigmoid(graph, res, self=self)


def complex_aten_special_expm1(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::special_expm1(Tensor self) -> Tensor"""
    return complex_aten_expm1(graph, res, self=self)


def complex_aten_special_log1p(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::special_log1p(Tensor self) -> Tensor"""
    return complex_aten_log1p(graph, res, self=self)


def complex_aten_special_log_softmax(graph: Graph, res: ResultSpec, self: Result, dim: Int, *, dtype: Dtype | None = None) -> Result:
    """aten::special_log_softmax(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor"""
    return complex_aten_log_softmax_int(graph, res, self=self, dim=dim, dtype=dtype)


def complex_aten_special_logsumexp(graph: Graph, res: ResultSpec, self: Result, dim: Ints, keepdim: Bool = False) -> Result:
    """aten::special_logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor"""
    return complex_aten_logsumexp(graph, res, self=self, dim=dim, keepdim=keepdim)


def complex_aten_special_sinc(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::special_sinc(Tensor self) -> Tensor"""
    return complex_aten_sinc(graph, res, self=self)


def complex_aten_special_softmax(graph: Graph, res: ResultSpec, self: Result, dim: Int, dtype: Dtype | None = None) -> Result:
    """aten::special_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor"""
    return complex_aten_softmax_int(graph, res, self=self, dim=dim, dtype=dtype)


def rule_aten_special_entr(graph: Graph, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), shape_or_none(graph, self)),)


def rule_aten_special_exp2(graph: Graph, self: Result) -> Rules:
    return rule_aten_exp2(graph, self=self)


def rule_aten_special_expit(graph: Graph, self: Result) -> Rules:
    return rule_aten_sigmoid(graph, self=self)


def rule_aten_special_expm1(graph: Graph, self: Result) -> Rules:
    return rule_aten_expm1(graph, self=self)


def rule_aten_special_log1p(graph: Graph, self: Result) -> Rules:
    return rule_aten_log1p(graph, self=self)


def rule_aten_special_log_softmax(graph: Graph, self: Result, dim: Int, *, dtype: Dtype | None = None) -> Rules:
    return rule_aten_log_softmax_int(graph, self=self, dim=dim, dtype=dtype)


def rule_aten_special_logit(graph: Graph, self: Result, eps: Float | None = None) -> Rules:
    return rule_aten_logit(graph, self=self, eps=eps)


def rule_aten_special_logsumexp(graph: Graph, self: Result, dim: Ints, keepdim: Bool = False) -> Rules:
    return rule_aten_logsumexp(graph, self=self, dim=dim, keepdim=keepdim)


def rule_aten_special_round(graph: Graph, self: Result, *, decimals: Int = 0) -> Rules:
    return rule_aten_round_decimals(graph, self=self, decimals=decimals)


def rule_aten_special_sinc(graph: Graph, self: Result) -> Rules:
    return rule_aten_sinc(graph, self=self)


def rule_aten_special_softmax(graph: Graph, self: Result, dim: Int, dtype: Dtype | None = None) -> Rules:
    return rule_aten_softmax_int(graph, self=self, dim=dim, dtype=dtype)


def rule_aten_special_xlog1py(graph: Graph, self: Result, other: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self, other), broadcast(shape_or_none(graph, self), shape_or_none(graph, other))),)


def rule_aten_special_xlog1py_other_scalar(graph: Graph, self: Result, other: Scalar) -> Rules:
    return rule_aten_special_xlog1py(graph, self=self, other=other)


def rule_aten_special_xlog1py_self_scalar(graph: Graph, self: Scalar, other: Result) -> Rules:
    return rule_aten_special_xlog1py(graph, self=self, other=other)


def rule_aten_special_xlogy(graph: Graph, self: Result, other: Result) -> Rules:
    return rule_aten_xlogy_Tensor(graph, self=self, other=other)


def rule_aten_special_xlogy_other_scalar(graph: Graph, self: Result, other: Scalar) -> Rules:
    return rule_aten_xlogy_Tensor(graph, self=self, other=other)


def rule_aten_special_xlogy_self_scalar(graph: Graph, self: Scalar, other: Result) -> Rules:
    return rule_aten_xlogy_Tensor(graph, self=self, other=other)
