# Generated from specs/aten/special_erf.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING

from math import sqrt
from ortable.dtypes import float32, float64
from ortable.prelude.error_functions import erf_of, erfc_tail, erfc_wide, ratio_of
from ortable.prelude.facts import dtype_of
from ortable.prelude.metadata import shape_or_none
from ortable.prelude.operators import call_operator
from ortable.prelude.pointwise import const_like, log1p_of, polynomial
from ortable.prelude.promotion import opmath, promote_values, promoted_dtype
from ortable.prelude.values import cast, const
from ortable_generated.aten import dispatch
from ortable_generated.aten.unary import aten_erf, aten_erfc, rule_aten_erf, rule_aten_erfc

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Result


def aten_erfinv(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::erfinv(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    if dtype_of(graph, self) == float64:
        # torch's formula, a rational start and two steps of Newton's method
        graph.case = 1
        size, one, rate = (graph.make_node('Abs', [self]), const(graph, 1, float64), const(graph, 2 / sqrt(3.141592653589793), float64))
        near = graph.make_node('Mul', [self, ratio_of(graph, graph.make_node('Mul', [self, self]), 'erfinv_a', 'erfinv_b')])
        deep = graph.make_node('Sqrt', [graph.make_node('Neg', [graph.make_node('Log', [graph.make_node('Mul', [graph.make_node('Sub', [one, size]), const(graph, 0.5, float64)])])])])
        far = graph.make_node('Mul', [graph.make_node('Sign', [self]), ratio_of(graph, deep, 'erfinv_c', 'erfinv_d')])
        x = graph.make_node('Where', [graph.make_node('LessOrEqual', [size, const(graph, 0.7, float64)]), near, far])
        y = graph.make_node('Sub', [x, graph.make_node('Div', [graph.make_node('Sub', [erf_of(graph, x), self]), graph.make_node('Mul', [graph.make_node('Exp', [graph.make_node('Neg', [graph.make_node('Mul', [x, x])])]), rate])])])
        result = graph.make_node('Sub', [y, graph.make_node('Div', [graph.make_node('Sub', [erf_of(graph, y), self]), graph.make_node('Mul', [graph.make_node('Exp', [graph.make_node('Neg', [graph.make_node('Mul', [y, y])])]), rate])])])
        result = graph.make_node('Where', [graph.make_node('Equal', [size, one]), graph.make_node('Mul', [graph.make_node('Sign', [self]), const(graph, float('inf'), float64)]), result])
        return graph.make_node('Where', [graph.make_node('Greater', [size, one]), const(graph, float('nan'), float64), result], res.outputs)
    # M. Giles, Approximating the erfinv function: relative error 4e-7, as torch's
    graph.case = 2
    x = opmath(graph, self)
    one = const(graph, 1, float32)
    w = graph.make_node('Neg', [graph.make_node('Log', [graph.make_node('Mul', [graph.make_node('Sub', [one, x]), graph.make_node('Add', [one, x])])])])
    near = polynomial(graph, graph.make_node('Sub', [w, const(graph, 2.5, float32)]), 'erfinv_low')
    far = polynomial(graph, graph.make_node('Sub', [graph.make_node('Sqrt', [w]), const(graph, 3, float32)]), 'erfinv_high')
    result = graph.make_node('Mul', [x, graph.make_node('Where', [graph.make_node('Less', [w, const(graph, 5, float32)]), near, far])])
    ends = graph.make_node('Mul', [x, const(graph, float('inf'), float32)])
    return cast(graph, graph.make_node('Where', [graph.make_node('Equal', [graph.make_node('Abs', [x]), one]), ends, result]), dtype_of(graph, self))


def aten_special_erf(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::special_erf(Tensor self) -> Tensor"""
    return aten_erf(graph, res, self=self)


def aten_special_erfc(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::special_erfc(Tensor self) -> Tensor"""
    return aten_erfc(graph, res, self=self)


def aten_special_erfcx(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::special_erfcx(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    # the tables of Cephes' erfc: relative error 4e-16
    x, one = (graph.make_node('Abs', [self]), const_like(graph, 1, self))
    grown = graph.make_node('Exp', [graph.make_node('Mul', [self, self])])
    near = graph.make_node('Mul', [grown, graph.make_node('Sub', [one, graph.make_node('Mul', [x, ratio_of(graph, graph.make_node('Mul', [x, x]), 'erf_t', 'erf_u')])])])
    result = graph.make_node('Where', [graph.make_node('Less', [x, one]), near, erfc_tail(graph, x)])
    left = graph.make_node('Sub', [graph.make_node('Mul', [grown, const_like(graph, 2, x)]), result])
    return graph.make_node('Where', [graph.make_node('Less', [self, const_like(graph, 0, x)]), left, result], res.outputs)


def aten_special_erfinv(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::special_erfinv(Tensor self) -> Tensor"""
    return aten_erfinv(graph, res, self=self)


def aten_special_log_ndtr(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::special_log_ndtr(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    t = graph.make_node('Mul', [self, const_like(graph, sqrt(0.5), self)])
    half = const_like(graph, 0.5, self)
    far = graph.make_node('Sub', [graph.make_node('Log', [graph.make_node('Mul', [call_operator(graph, dispatch, 'aten::special_erfcx', graph.make_node('Neg', [t])), half])]), graph.make_node('Mul', [t, t])])
    near = log1p_of(graph, graph.make_node('Neg', [graph.make_node('Mul', [erfc_wide(graph, t), half])]))
    return graph.make_node('Where', [graph.make_node('Less', [self, const_like(graph, -1, self)]), far, near], res.outputs)


def aten_special_ndtr(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::special_ndtr(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    x = opmath(graph, self)
    t = graph.make_node('Neg', [graph.make_node('Mul', [x, const_like(graph, sqrt(0.5), x)])])
    return cast(graph, graph.make_node('Mul', [erfc_wide(graph, t), const_like(graph, 0.5, x)]), dtype_of(graph, self))


def aten_special_ndtri(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::special_ndtri(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    one, edge = (const_like(graph, 1, self), const_like(graph, 0.1353352832366127, self))
    upper = graph.make_node('Greater', [self, graph.make_node('Sub', [one, edge])])
    y = graph.make_node('Where', [upper, graph.make_node('Sub', [one, self]), self])
    x = graph.make_node('Sqrt', [graph.make_node('Mul', [graph.make_node('Log', [y]), const_like(graph, -2, y)])])
    z = graph.make_node('Reciprocal', [x])
    curve = graph.make_node('Where', [graph.make_node('Less', [x, const_like(graph, 8, y)]), ratio_of(graph, z, 'ndtri_p1', 'ndtri_q1'), ratio_of(graph, z, 'ndtri_p2', 'ndtri_q2')])
    tail = graph.make_node('Where', [graph.make_node('Equal', [y, const_like(graph, 0, y)]), x, graph.make_node('Sub', [graph.make_node('Sub', [x, graph.make_node('Mul', [graph.make_node('Log', [x]), z])]), graph.make_node('Mul', [z, curve])])])
    off = graph.make_node('Sub', [self, const_like(graph, 0.5, self)])
    square = graph.make_node('Mul', [off, off])
    inner = graph.make_node('Add', [off, graph.make_node('Mul', [off, graph.make_node('Mul', [square, ratio_of(graph, square, 'ndtri_p0', 'ndtri_q0')])])])
    middle = graph.make_node('Mul', [inner, const_like(graph, 2.5066282746310007, self)])
    return graph.make_node('Where', [graph.make_node('Greater', [y, edge]), middle, graph.make_node('Where', [upper, tail, graph.make_node('Neg', [tail])])], res.outputs)


def rule_aten_erfinv(graph: Graph, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), shape_or_none(graph, self)),)


def rule_aten_special_erf(graph: Graph, self: Result) -> Rules:
    return rule_aten_erf(graph, self=self)


def rule_aten_special_erfc(graph: Graph, self: Result) -> Rules:
    return rule_aten_erfc(graph, self=self)


def rule_aten_special_erfcx(graph: Graph, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), shape_or_none(graph, self)),)


def rule_aten_special_erfinv(graph: Graph, self: Result) -> Rules:
    return rule_aten_erfinv(graph, self=self)


def rule_aten_special_log_ndtr(graph: Graph, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), shape_or_none(graph, self)),)


def rule_aten_special_ndtr(graph: Graph, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), shape_or_none(graph, self)),)


def rule_aten_special_ndtri(graph: Graph, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), shape_or_none(graph, self)),)
