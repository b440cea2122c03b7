# Generated from specs/aten/unary.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING

from ortable.dtypes import uint16, uint32, uint64, uint8
from ortable.lowerings.complex.arithmetic import c_log1p, promote_complex
from ortable.lowerings.complex.parts import each_part
from ortable.prelude.complex_arithmetic import as_complex, c_abs, c_div, c_exp, c_log, c_mul, c_scaled, complex_of, im, re
from ortable.prelude.error_functions import erf_of, erfc_wide
from ortable.prelude.facts import dtype_of, is_float
from ortable.prelude.metadata import dtype_or_none, shape_or_none
from ortable.prelude.operators import call_operator
from ortable.prelude.pointwise import const_like, is_sign_set, log1p_of, truncated
from ortable.prelude.promotion import opmath, promote_values, promoted_dtype
from ortable.prelude.values import cast, const
from ortable_generated.aten import dispatch

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Float, Int, Result


def aten_abs(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::abs(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'complex_to_float', [self])
    graph.case = 1
    return graph.make_node('Abs', [self], res.outputs)


def aten_absolute(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::absolute(Tensor self) -> Tensor"""
    return aten_abs(graph, res, self=self)


def aten_ceil(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::ceil(Tensor self) -> Tensor"""
    return graph.make_node('Ceil', [self], res.outputs) if is_float(graph, self) else self


def aten_erf(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::erf(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    return erf_of(graph, self)


def aten_erfc(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::erfc(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    return cast(graph, erfc_wide(graph, opmath(graph, self)), dtype_of(graph, self))


def aten_exp(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::exp(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    graph.case = 1
    return graph.make_node('Exp', [self], res.outputs)


def aten_exp2(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::exp2(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    graph.case = 1
    return graph.make_node('Pow', [const_like(graph, 2, self), self], res.outputs)


def aten_expm1(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::expm1(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    # 2t / (1 - t) with t = tanh(x / 2) near 0; Where keeps the sign of 0 of its second choice
    graph.case = 1
    x = opmath(graph, self)
    one = const_like(graph, 1, x)
    t = graph.make_node('Tanh', [graph.make_node('Mul', [x, const_like(graph, 0.5, x)])])
    near = graph.make_node('Div', [graph.make_node('Add', [t, t]), graph.make_node('Sub', [one, t])])
    return cast(graph, graph.make_node('Where', [graph.make_node('Greater', [x, one]), graph.make_node('Sub', [graph.make_node('Exp', [x]), one]), near]), dtype_of(graph, self))


def aten_fix(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::fix(Tensor self) -> Tensor"""
    return aten_trunc(graph, res, self=self)


def aten_floor(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::floor(Tensor self) -> Tensor"""
    return graph.make_node('Floor', [self], res.outputs) if is_float(graph, self) else self


def aten_frac(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::frac(Tensor self) -> Tensor"""
    return graph.make_node('Sub', [self, truncated(graph, self)], res.outputs)


def aten_log(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::log(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    graph.case = 1
    return graph.make_node('Log', [self], res.outputs)


def aten_log10(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::log10(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    graph.case = 1
    result = graph.make_node('Log', [opmath(graph, self)])
    return cast(graph, graph.make_node('Div', [result, const_like(graph, 2.302585092994046, result)]), dtype_of(graph, self))


def aten_log1p(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::log1p(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    graph.case = 1
    return cast(graph, log1p_of(graph, opmath(graph, self)), dtype_of(graph, self))


def aten_log2(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::log2(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    graph.case = 1
    result = graph.make_node('Log', [opmath(graph, self)])
    return cast(graph, graph.make_node('Div', [result, const_like(graph, 0.6931471805599453, result)]), dtype_of(graph, self))


def aten_logit(graph: Graph, res: ResultSpec, self: Result, eps: Float | None = None) -> Result:
    """aten::logit(Tensor self, float? eps=None) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    if eps is None:
        graph.case = 1
        x = opmath(graph, self)
        return cast(graph, graph.make_node('Log', [graph.make_node('Div', [x, graph.make_node('Sub', [const_like(graph, 1, x), x])])]), dtype_of(graph, self))
    if eps > 0.5:
        # the lower bound lies above the upper one, and what is below both gets the lower one
        graph.case = 2
        low, high = (const(graph, eps, dtype_of(graph, self)), const(graph, 1 - eps, dtype_of(graph, self)))
        z = opmath(graph, graph.make_node('Where', [graph.make_node('Less', [self, low]), low, graph.make_node('Clip', [self, low, high])]))
        return cast(graph, graph.make_node('Log', [graph.make_node('Div', [z, graph.make_node('Sub', [const_like(graph, 1, z), z])])]), dtype_of(graph, self))
    # torch rounds the bounds to the dtype of self, 0.999 to 1 in bfloat16
    graph.case = 3
    z = opmath(graph, graph.make_node('Clip', [self, const(graph, eps, dtype_of(graph, self)), const(graph, 1 - eps, dtype_of(graph, self))]))
    return cast(graph, graph.make_node('Log', [graph.make_node('Div', [z, graph.make_node('Sub', [const_like(graph, 1, z), z])])]), dtype_of(graph, self))


def aten_neg(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::neg(Tensor self) -> Tensor"""
    if dtype_of(graph, self) not in (uint8, uint16, uint32, uint64):
        graph.case = 1
        return graph.make_node('Neg', [self], res.outputs)
    graph.case = 2
    return graph.make_node('Sub', [const_like(graph, 0, self), self], res.outputs)


def aten_negative(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::negative(Tensor self) -> Tensor"""
    return aten_neg(graph, res, self=self)


def aten_positive(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::positive(Tensor(a) self) -> Tensor(a)"""
    return self


def aten_reciprocal(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::reciprocal(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    graph.case = 1
    return graph.make_node('Reciprocal', [self], res.outputs)


def aten_round(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::round(Tensor self) -> Tensor"""
    return cast(graph, graph.make_node('Round', [opmath(graph, self)]), dtype_of(graph, self)) if is_float(graph, self) else self


def aten_round_decimals(graph: Graph, res: ResultSpec, self: Result, *, decimals: Int) -> Result:
    """aten::round.decimals(Tensor self, *, int decimals) -> Tensor"""
    if decimals == 0:
        graph.case = 1
        return cast(graph, graph.make_node('Round', [opmath(graph, self)]), dtype_of(graph, self))
    if decimals < 0:
        graph.case = 2
        x = opmath(graph, self)
        unit = const_like(graph, 10.0 ** abs(decimals), x)
        return cast(graph, graph.make_node('Mul', [graph.make_node('Round', [graph.make_node('Div', [x, unit])]), unit]), dtype_of(graph, self))
    graph.case = 3
    x = opmath(graph, self)
    unit = const_like(graph, 10.0 ** decimals, x)
    return cast(graph, graph.make_node('Div', [graph.make_node('Round', [graph.make_node('Mul', [x, unit])]), unit]), dtype_of(graph, self))


def aten_rsqrt(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::rsqrt(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    graph.case = 1
    return cast(graph, graph.make_node('Reciprocal', [graph.make_node('Sqrt', [opmath(graph, self)])]), dtype_of(graph, self))


def aten_sqrt(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::sqrt(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    graph.case = 1
    return graph.make_node('Sqrt', [self], res.outputs)


def aten_square(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::square(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'bool_to_long', [self])
    graph.case = 1
    return graph.make_node('Mul', [self, self], res.outputs)


def aten_trunc(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::trunc(Tensor self) -> Tensor"""
    return truncated(graph, self)


def complex_aten_abs(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::abs(Tensor self) -> Tensor"""
    self, = promote_complex(graph, 'complex_to_float', [self])
    graph.case = 2
    return c_abs(graph, self)


def complex_aten_absolute(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::absolute(Tensor self) -> Tensor"""
    return complex_aten_abs(graph, res, self=self)


def complex_aten_exp(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::exp(Tensor self) -> Tensor"""
    self, = promote_complex(graph, 'int_to_float', [self])
    graph.case = 2
    return c_exp(graph, self)


def complex_aten_exp2(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::exp2(Tensor self) -> Tensor"""
    self, = promote_complex(graph, 'int_to_float', [self])
    graph.case = 2
    return c_exp(graph, c_scaled(graph, self, 0.6931471805599453))


def complex_aten_expm1(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::expm1(Tensor self) -> Tensor"""
    self, = promote_complex(graph, 'int_to_float', [self])
    graph.case = 2
    half = graph.make_node('Sin', [graph.make_node('Mul', [im(graph, self), const_like(graph, 0.5, im(graph, self))])])
    drop = graph.make_node('Mul', [const_like(graph, 2, half), graph.make_node('Mul', [half, half])])
    real = graph.make_node('Sub', [graph.make_node('Mul', [call_operator(graph, dispatch, 'aten::expm1', re(graph, self)), graph.make_node('Cos', [im(graph, self)])]), drop])
    return complex_of(graph, real, graph.make_node('Mul', [graph.make_node('Exp', [re(graph, self)]), graph.make_node('Sin', [im(graph, self)])]))


def complex_aten_log(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::log(Tensor self) -> Tensor"""
    self, = promote_complex(graph, 'int_to_float', [self])
    graph.case = 2
    return c_log(graph, self)


def complex_aten_log10(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::log10(Tensor self) -> Tensor"""
    self, = promote_complex(graph, 'int_to_float', [self])
    graph.case = 2
    return c_scaled(graph, c_log(graph, self), 0.4342944819032518)


def complex_aten_log1p(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::log1p(Tensor self) -> Tensor"""
    self, = promote_complex(graph, 'int_to_float', [self])
    graph.case = 2
    return c_log1p(graph, self)


def complex_aten_log2(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::log2(Tensor self) -> Tensor"""
    self, = promote_complex(graph, 'int_to_float', [self])
    graph.case = 2
    return c_scaled(graph, c_log(graph, self), 1.4426950408889634)


def complex_aten_neg(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::neg(Tensor self) -> Tensor"""
    return each_part(graph, res, aten_neg, {'self': self})


def complex_aten_negative(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::negative(Tensor self) -> Tensor"""
    return complex_aten_neg(graph, res, self=self)


def complex_aten_positive(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::positive(Tensor(a) self) -> Tensor(a)"""
    return each_part(graph, res, aten_positive, {'self': self})


def complex_aten_reciprocal(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::reciprocal(Tensor self) -> Tensor"""
    self, = promote_complex(graph, 'int_to_float', [self])
    graph.case = 2
    return c_div(graph, as_complex(graph, 1, dtype_of(graph, self)), self)


def complex_aten_rsqrt(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::rsqrt(Tensor self) -> Tensor"""
    self, = promote_complex(graph, 'int_to_float', [self])
    graph.case = 2
    return c_div(graph, as_complex(graph, 1, dtype_of(graph, self)), call_operator(graph, dispatch, 'aten::sqrt', self))


def complex_aten_sqrt(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::sqrt(Tensor self) -> Tensor"""
    self, = promote_complex(graph, 'int_to_float', [self])
    graph.case = 2
    across, up = (graph.make_node('Abs', [re(graph, self)]), graph.make_node('Abs', [im(graph, self)]))
    half = const_like(graph, 0.5, across)
    large = graph.make_node('Sqrt', [graph.make_node('Mul', [graph.make_node('Add', [c_abs(graph, self), across]), half])])
    small = graph.make_node('Where', [graph.make_node('Equal', [large, const_like(graph, 0, large)]), large, graph.make_node('Div', [graph.make_node('Mul', [up, half]), large])])
    left = is_sign_set(graph, re(graph, self))
    imag = graph.make_node('Where', [left, large, small])
    return complex_of(graph, graph.make_node('Where', [left, small, large]), graph.make_node('Where', [is_sign_set(graph, im(graph, self)), graph.make_node('Neg', [imag]), imag]))


def complex_aten_square(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::square(Tensor self) -> Tensor"""
    self, = promote_complex(graph, 'bool_to_long', [self])
    graph.case = 2
    return c_mul(graph, self, self)


def rule_aten_abs(graph: Graph, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'complex_to_float', self), shape_or_none(graph, self)),)


def rule_aten_absolute(graph: Graph, self: Result) -> Rules:
    return rule_aten_abs(graph, self=self)


def rule_aten_ceil(graph: Graph, self: Result) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_erf(graph: Graph, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), shape_or_none(graph, self)),)


def rule_aten_erfc(graph: Graph, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), shape_or_none(graph, self)),)


def rule_aten_exp(graph: Graph, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), shape_or_none(graph, self)),)


def rule_aten_exp2(graph: Graph, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), shape_or_none(graph, self)),)


def rule_aten_expm1(graph: Graph, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), shape_or_none(graph, self)),)


def rule_aten_fix(graph: Graph, self: Result) -> Rules:
    return rule_aten_trunc(graph, self=self)


def rule_aten_floor(graph: Graph, self: Result) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_frac(graph: Graph, self: Result) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_log(graph: Graph, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), shape_or_none(graph, self)),)


def rule_aten_log10(graph: Graph, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), shape_or_none(graph, self)),)


def rule_aten_log1p(graph: Graph, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), shape_or_none(graph, self)),)


def rule_aten_log2(graph: Graph, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), shape_or_none(graph, self)),)


def rule_aten_logit(graph: Graph, self: Result, eps: Float | None = None) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), shape_or_none(graph, self)),)


def rule_aten_neg(graph: Graph, self: Result) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_negative(graph: Graph, self: Result) -> Rules:
    return rule_aten_neg(graph, self=self)


def rule_aten_positive(graph: Graph, self: Result) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_reciprocal(graph: Graph, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), shape_or_none(graph, self)),)


def rule_aten_round(graph: Graph, self: Result) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_round_decimals(graph: Graph, self: Result, *, decimals: Int) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_rsqrt(graph: Graph, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), shape_or_none(graph, self)),)


def rule_aten_sqrt(graph: Graph, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), shape_or_none(graph, self)),)


def rule_aten_square(graph: Graph, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'bool_to_long', self), shape_or_none(graph, self)),)


def rule_aten_trunc(graph: Graph, self: Result) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)
