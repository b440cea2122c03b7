# Generated from specs/aten/unary.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING

from ortable.algorithms.complex_parts import each_part
from ortable.dtypes import boolean, float64
from ortable.known import known_dtype, known_shape
from ortable.prelude import dtype_of, is_bool, is_float, is_signed
from ortable.prelude_complex import as_complex, c_abs, c_is_zero, c_over, c_scaled, c_times, c_times_i, c_where, complex_of, im, re
from ortable.prelude_complex_math import c_acos, c_acosh, c_asin, c_atanh, c_cosh, c_exp, c_expm1, c_log, c_log1p, c_sinh, c_sqrt, c_tanh
from ortable.prelude_make import cast, const
from ortable.prelude_pointwise import atan2_of, atan_of, const_like, expm1_of, filled_like, is_sign_set, largest_finite, log1p_of, opmath, truncated
from ortable.prelude_special import erf_of, erfc_wide
from ortable.promotion import promote_complex, promote_values, promoted_dtype

if TYPE_CHECKING:
    from ortable.builder import GraphBuilder, Res
    from ortable.known import Rules
    from ortable.prelude import Float, Int, Result


def aten_abs(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::abs(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'complex_to_float', [self])
    return graph.make_node('Abs', [self], res.outputs)


def aten_absolute(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::absolute(Tensor self) -> Tensor"""
    return aten_abs(graph, res, self=self)


def aten_acos(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::acos(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    if dtype_of(graph, self) != float64:
        return cast(graph, graph.make_node('Acos', [opmath(graph, self)]), dtype_of(graph, self))
    # ONNX Runtime has no kernel for float64
    one = const(graph, 1, float64)
    side = graph.make_node('Sqrt', [graph.make_node('Mul', [graph.make_node('Sub', [one, self]), graph.make_node('Add', [one, self])])])
    return graph.make_node('Where', [graph.make_node('IsNaN', [side]), side, atan2_of(graph, side, self)], res.outputs)


def aten_acosh(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::acosh(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    if dtype_of(graph, self) != float64:
        return cast(graph, graph.make_node('Acosh', [opmath(graph, self)]), dtype_of(graph, self))
    one = const(graph, 1, float64)
    over = graph.make_node('Sub', [self, one])
    return log1p_of(graph, graph.make_node('Add', [over, graph.make_node('Mul', [graph.make_node('Sqrt', [over]), graph.make_node('Sqrt', [graph.make_node('Add', [self, one])])])]))


def aten_asin(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::asin(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    if dtype_of(graph, self) != float64:
        return cast(graph, graph.make_node('Asin', [opmath(graph, self)]), dtype_of(graph, self))
    # ONNX Runtime has no kernel for float64
    one = const(graph, 1, float64)
    side = graph.make_node('Sqrt', [graph.make_node('Mul', [graph.make_node('Sub', [one, self]), graph.make_node('Add', [one, self])])])
    return graph.make_node('Where', [graph.make_node('IsNaN', [side]), side, atan2_of(graph, self, side)], res.outputs)


def aten_asinh(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::asinh(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    if dtype_of(graph, self) != float64:
        return cast(graph, graph.make_node('Asinh', [opmath(graph, self)]), dtype_of(graph, self))
    size = graph.make_node('Abs', [self])
    one = const(graph, 1, float64)
    root = graph.make_node('Add', [one, graph.make_node('Sqrt', [graph.make_node('Add', [one, graph.make_node('Mul', [self, self])])])])
    found = graph.make_node('Mul', [graph.make_node('Sign', [self]), log1p_of(graph, graph.make_node('Add', [size, graph.make_node('Div', [graph.make_node('Mul', [size, size]), root])]))])
    return graph.make_node('Where', [graph.make_node('IsInf', [self]), self, found], res.outputs)


def aten_atan(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::atan(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    return atan_of(graph, self)


def aten_atanh(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::atanh(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    if dtype_of(graph, self) != float64:
        return cast(graph, graph.make_node('Atanh', [opmath(graph, self)]), dtype_of(graph, self))
    ratio = graph.make_node('Div', [graph.make_node('Add', [self, self]), graph.make_node('Sub', [const(graph, 1, float64), self])])
    return graph.make_node('Mul', [log1p_of(graph, ratio), const(graph, 0.5, float64)], res.outputs)


def aten_ceil(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::ceil(Tensor self) -> Tensor"""
    return graph.make_node('Ceil', [self], res.outputs) if is_float(graph, self) else self


def aten_cos(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::cos(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    return cast(graph, graph.make_node('Cos', [opmath(graph, self)]), dtype_of(graph, self))


def aten_cosh(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::cosh(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    if dtype_of(graph, self) != float64:
        return cast(graph, graph.make_node('Cosh', [opmath(graph, self)]), dtype_of(graph, self))
    return graph.make_node('Mul', [graph.make_node('Add', [graph.make_node('Exp', [self]), graph.make_node('Exp', [graph.make_node('Neg', [self])])]), const(graph, 0.5, float64)], res.outputs)


def aten_deg2rad(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::deg2rad(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    return graph.make_node('Mul', [self, const_like(graph, 3.141592653589793 / 180, self)], res.outputs)


def aten_erf(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::erf(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    return erf_of(graph, self)


def aten_erfc(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::erfc(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    return cast(graph, erfc_wide(graph, opmath(graph, self)), dtype_of(graph, self))


def aten_exp(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::exp(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    return graph.make_node('Exp', [self], res.outputs)


def aten_exp2(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::exp2(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    return graph.make_node('Pow', [const_like(graph, 2, self), self], res.outputs)


def aten_expm1(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::expm1(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    return cast(graph, expm1_of(graph, opmath(graph, self)), dtype_of(graph, self))


def aten_fix(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::fix(Tensor self) -> Tensor"""
    return aten_trunc(graph, res, self=self)


def aten_floor(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::floor(Tensor self) -> Tensor"""
    return graph.make_node('Floor', [self], res.outputs) if is_float(graph, self) else self


def aten_frac(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::frac(Tensor self) -> Tensor"""
    return graph.make_node('Sub', [self, truncated(graph, self)], res.outputs)


def aten_isfinite(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::isfinite(Tensor self) -> Tensor"""
    if is_float(graph, self):
        return graph.make_node('Less', [graph.make_node('Abs', [self]), const_like(graph, float('inf'), self)], res.outputs)
    return filled_like(graph, self, True, boolean)


def aten_isinf(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::isinf(Tensor self) -> Tensor"""
    return graph.make_node('IsInf', [opmath(graph, self)], res.outputs) if is_float(graph, self) else filled_like(graph, self, False, boolean)


def aten_isnan(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::isnan(Tensor self) -> Tensor"""
    return graph.make_node('IsNaN', [self], res.outputs) if is_float(graph, self) else filled_like(graph, self, False, boolean)


def aten_isneginf(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::isneginf(Tensor self) -> Tensor"""
    if is_float(graph, self):
        return graph.make_node('Equal', [self, const_like(graph, -float('inf'), self)], res.outputs)
    return filled_like(graph, self, False, boolean)


def aten_isposinf(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::isposinf(Tensor self) -> Tensor"""
    if is_float(graph, self):
        return graph.make_node('Equal', [self, const_like(graph, float('inf'), self)], res.outputs)
    return filled_like(graph, self, False, boolean)


def aten_log(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::log(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    return graph.make_node('Log', [self], res.outputs)


def aten_log10(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::log10(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    found = graph.make_node('Log', [opmath(graph, self)])
    return cast(graph, graph.make_node('Div', [found, const_like(graph, 2.302585092994046, found)]), dtype_of(graph, self))


def aten_log1p(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::log1p(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    return cast(graph, log1p_of(graph, opmath(graph, self)), dtype_of(graph, self))


def aten_log2(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::log2(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    found = graph.make_node('Log', [opmath(graph, self)])
    return cast(graph, graph.make_node('Div', [found, const_like(graph, 0.6931471805599453, found)]), dtype_of(graph, self))


def aten_logit(graph: GraphBuilder, res: Res, self: Result, eps: Float | None = None) -> Result:
    """aten::logit(Tensor self, float? eps=None) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    if eps is None:
        x = opmath(graph, self)
        return cast(graph, graph.make_node('Log', [graph.make_node('Div', [x, graph.make_node('Sub', [const_like(graph, 1, x), x])])]), dtype_of(graph, self))
    x = opmath(graph, self)
    z = graph.make_node('Clip', [x, const_like(graph, eps, x), const_like(graph, 1 - eps, x)])
    return cast(graph, graph.make_node('Log', [graph.make_node('Div', [z, graph.make_node('Sub', [const_like(graph, 1, x), z])])]), dtype_of(graph, self))


def aten_nan_to_num(graph: GraphBuilder, res: Res, self: Result, nan: Float | None = None, posinf: Float | None = None, neginf: Float | None = None) -> Result:
    """aten::nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor"""
    if not is_float(graph, self):
        return self
    most = largest_finite(dtype_of(graph, self))
    top = const_like(graph, posinf if posinf is not None else most, self)
    bottom = const_like(graph, neginf if neginf is not None else -most, self)
    number = const_like(graph, nan if nan is not None else 0.0, self)
    finite = graph.make_node('Where', [graph.make_node('IsNaN', [self]), number, self])
    capped = graph.make_node('Where', [graph.make_node('Equal', [self, const_like(graph, float('inf'), self)]), top, finite])
    return graph.make_node('Where', [graph.make_node('Equal', [self, const_like(graph, -float('inf'), self)]), bottom, capped], res.outputs)


def aten_neg(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::neg(Tensor self) -> Tensor"""
    if is_signed(graph, self):
        return graph.make_node('Neg', [self], res.outputs)
    return graph.make_node('Sub', [const_like(graph, 0, self), self], res.outputs)


def aten_negative(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::negative(Tensor self) -> Tensor"""
    return aten_neg(graph, res, self=self)


def aten_positive(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::positive(Tensor(a) self) -> Tensor(a)"""
    return self


def aten_rad2deg(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::rad2deg(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    return graph.make_node('Mul', [self, const_like(graph, 180 / 3.141592653589793, self)], res.outputs)


def aten_reciprocal(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::reciprocal(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    return graph.make_node('Reciprocal', [self], res.outputs)


def aten_round(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::round(Tensor self) -> Tensor"""
    return cast(graph, graph.make_node('Round', [opmath(graph, self)]), dtype_of(graph, self)) if is_float(graph, self) else self


def aten_round_decimals(graph: GraphBuilder, res: Res, self: Result, *, decimals: Int) -> Result:
    """aten::round.decimals(Tensor self, *, int decimals) -> Tensor"""
    if decimals == 0:
        return cast(graph, graph.make_node('Round', [opmath(graph, self)]), dtype_of(graph, self))
    if decimals < 0:
        x = opmath(graph, self)
        unit = const_like(graph, 10.0 ** abs(decimals), x)
        return cast(graph, graph.make_node('Mul', [graph.make_node('Round', [graph.make_node('Div', [x, unit])]), unit]), dtype_of(graph, self))
    x = opmath(graph, self)
    unit = const_like(graph, 10.0 ** decimals, x)
    return cast(graph, graph.make_node('Div', [graph.make_node('Round', [graph.make_node('Mul', [x, unit])]), unit]), dtype_of(graph, self))


def aten_rsqrt(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::rsqrt(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    return cast(graph, graph.make_node('Reciprocal', [graph.make_node('Sqrt', [opmath(graph, self)])]), dtype_of(graph, self))


def aten_sgn(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::sgn(Tensor self) -> Tensor"""
    return aten_sign(graph, res, self=self)


def aten_sign(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::sign(Tensor self) -> Tensor"""
    if is_bool(graph, self):
        return self
    if is_float(graph, self):
        # torch's sign of NaN is 0
        zero = const_like(graph, 0, self)
        above = cast(graph, graph.make_node('Greater', [self, zero]), dtype_of(graph, self))
        return graph.make_node('Sub', [above, cast(graph, graph.make_node('Less', [self, zero]), dtype_of(graph, self))], res.outputs)
    return graph.make_node('Sign', [self], res.outputs)


def aten_signbit(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::signbit(Tensor self) -> Tensor"""
    if is_bool(graph, self):
        return filled_like(graph, self, False, boolean)
    return is_sign_set(graph, self)


def aten_sin(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::sin(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    return cast(graph, graph.make_node('Sin', [opmath(graph, self)]), dtype_of(graph, self))


def aten_sinc(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::sinc(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    x = opmath(graph, self)
    angle = graph.make_node('Mul', [x, const_like(graph, 3.141592653589793, x)])
    found = graph.make_node('Where', [graph.make_node('Equal', [x, const_like(graph, 0, x)]), const_like(graph, 1, x), graph.make_node('Div', [graph.make_node('Sin', [angle]), angle])])
    return cast(graph, found, dtype_of(graph, self))


def aten_sinh(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::sinh(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    if dtype_of(graph, self) != float64:
        return cast(graph, graph.make_node('Sinh', [opmath(graph, self)]), dtype_of(graph, self))
    one = const(graph, 1, float64)
    grown = expm1_of(graph, self)
    near = graph.make_node('Add', [grown, graph.make_node('Div', [grown, graph.make_node('Add', [grown, one])])])
    found = graph.make_node('Where', [graph.make_node('Less', [graph.make_node('Abs', [self]), one]), near, graph.make_node('Sub', [graph.make_node('Exp', [self]), graph.make_node('Exp', [graph.make_node('Neg', [self])])])])
    return graph.make_node('Mul', [found, const(graph, 0.5, float64)], res.outputs)


def aten_sqrt(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::sqrt(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    return graph.make_node('Sqrt', [self], res.outputs)


def aten_square(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::square(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'bool_to_long', [self])
    return graph.make_node('Mul', [self, self], res.outputs)


def aten_tan(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::tan(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    if dtype_of(graph, self) != float64:
        return cast(graph, graph.make_node('Tan', [opmath(graph, self)]), dtype_of(graph, self))
    return graph.make_node('Div', [graph.make_node('Sin', [self]), graph.make_node('Cos', [self])], res.outputs)


def aten_trunc(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::trunc(Tensor self) -> Tensor"""
    return truncated(graph, self)


def complex_aten_abs(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::abs(Tensor self) -> Tensor"""
    self, = promote_complex(graph, 'complex_to_float', [self])
    return c_abs(graph, self)


def complex_aten_absolute(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::absolute(Tensor self) -> Tensor"""
    return complex_aten_abs(graph, res, self=self)


def complex_aten_acos(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::acos(Tensor self) -> Tensor"""
    self, = promote_complex(graph, 'int_to_float', [self])
    return c_acos(graph, self)


def complex_aten_acosh(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::acosh(Tensor self) -> Tensor"""
    self, = promote_complex(graph, 'int_to_float', [self])
    return c_acosh(graph, self)


def complex_aten_asin(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::asin(Tensor self) -> Tensor"""
    self, = promote_complex(graph, 'int_to_float', [self])
    return c_asin(graph, self)


def complex_aten_asinh(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::asinh(Tensor self) -> Tensor"""
    self, = promote_complex(graph, 'int_to_float', [self])
    return c_times_i(graph, c_asin(graph, c_times_i(graph, self)), -1)


def complex_aten_atan(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::atan(Tensor self) -> Tensor"""
    self, = promote_complex(graph, 'int_to_float', [self])
    return c_times_i(graph, c_atanh(graph, c_times_i(graph, self)), -1)


def complex_aten_atanh(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::atanh(Tensor self) -> Tensor"""
    self, = promote_complex(graph, 'int_to_float', [self])
    return c_atanh(graph, self)


def complex_aten_cos(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::cos(Tensor self) -> Tensor"""
    self, = promote_complex(graph, 'int_to_float', [self])
    return c_cosh(graph, c_times_i(graph, self))


def complex_aten_cosh(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::cosh(Tensor self) -> Tensor"""
    self, = promote_complex(graph, 'int_to_float', [self])
    return c_cosh(graph, self)


def complex_aten_exp(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::exp(Tensor self) -> Tensor"""
    self, = promote_complex(graph, 'int_to_float', [self])
    return c_exp(graph, self)


def complex_aten_exp2(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::exp2(Tensor self) -> Tensor"""
    self, = promote_complex(graph, 'int_to_float', [self])
    return c_exp(graph, c_scaled(graph, self, 0.6931471805599453))


def complex_aten_expm1(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::expm1(Tensor self) -> Tensor"""
    self, = promote_complex(graph, 'int_to_float', [self])
    return c_expm1(graph, self)


def complex_aten_isfinite(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::isfinite(Tensor self) -> Tensor"""
    top = const_like(graph, float('inf'), re(graph, self))
    return graph.make_node('And', [graph.make_node('Less', [graph.make_node('Abs', [re(graph, self)]), top]), graph.make_node('Less', [graph.make_node('Abs', [im(graph, self)]), top])], res.outputs)


def complex_aten_isinf(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::isinf(Tensor self) -> Tensor"""
    return graph.make_node('Or', [graph.make_node('IsInf', [re(graph, self)]), graph.make_node('IsInf', [im(graph, self)])], res.outputs)


def complex_aten_isnan(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::isnan(Tensor self) -> Tensor"""
    return graph.make_node('Or', [graph.make_node('IsNaN', [re(graph, self)]), graph.make_node('IsNaN', [im(graph, self)])], res.outputs)


def complex_aten_log(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::log(Tensor self) -> Tensor"""
    self, = promote_complex(graph, 'int_to_float', [self])
    return c_log(graph, self)


def complex_aten_log10(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::log10(Tensor self) -> Tensor"""
    self, = promote_complex(graph, 'int_to_float', [self])
    return c_scaled(graph, c_log(graph, self), 0.4342944819032518)


def complex_aten_log1p(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::log1p(Tensor self) -> Tensor"""
    self, = promote_complex(graph, 'int_to_float', [self])
    return c_log1p(graph, self)


def complex_aten_log2(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::log2(Tensor self) -> Tensor"""
    self, = promote_complex(graph, 'int_to_float', [self])
    return c_scaled(graph, c_log(graph, self), 1.4426950408889634)


def complex_aten_nan_to_num(graph: GraphBuilder, res: Res, self: Result, nan: Float | None = None, posinf: Float | None = None, neginf: Float | None = None) -> Result:
    """aten::nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor"""
    return each_part(graph, res, aten_nan_to_num, {'self': self}, nan=nan, posinf=posinf, neginf=neginf)


def complex_aten_neg(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::neg(Tensor self) -> Tensor"""
    return each_part(graph, res, aten_neg, {'self': self})


def complex_aten_negative(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::negative(Tensor self) -> Tensor"""
    return complex_aten_neg(graph, res, self=self)


def complex_aten_positive(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::positive(Tensor(a) self) -> Tensor(a)"""
    return each_part(graph, res, aten_positive, {'self': self})


def complex_aten_reciprocal(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::reciprocal(Tensor self) -> Tensor"""
    self, = promote_complex(graph, 'int_to_float', [self])
    return c_over(graph, as_complex(graph, 1, dtype_of(graph, self)), self)


def complex_aten_rsqrt(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::rsqrt(Tensor self) -> Tensor"""
    self, = promote_complex(graph, 'int_to_float', [self])
    return c_over(graph, as_complex(graph, 1, dtype_of(graph, self)), c_sqrt(graph, self))


def complex_aten_sgn(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::sgn(Tensor self) -> Tensor"""
    return complex_aten_sign(graph, res, self=self)


def complex_aten_sign(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::sign(Tensor self) -> Tensor"""
    # only sgn takes complex tensors, which it scales to length 1
    size = c_abs(graph, self)
    zero = graph.make_node('Equal', [size, const_like(graph, 0, size)])
    return c_where(graph, zero, self, complex_of(graph, graph.make_node('Div', [re(graph, self), size]), graph.make_node('Div', [im(graph, self), size])))


def complex_aten_sin(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::sin(Tensor self) -> Tensor"""
    self, = promote_complex(graph, 'int_to_float', [self])
    return c_times_i(graph, c_sinh(graph, c_times_i(graph, self)), -1)


def complex_aten_sinc(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::sinc(Tensor self) -> Tensor"""
    self, = promote_complex(graph, 'int_to_float', [self])
    x = c_scaled(graph, self, 3.141592653589793)
    found = c_over(graph, c_times_i(graph, c_sinh(graph, c_times_i(graph, x)), -1), x)
    return c_where(graph, c_is_zero(graph, self), as_complex(graph, 1, dtype_of(graph, self)), found)


def complex_aten_sinh(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::sinh(Tensor self) -> Tensor"""
    self, = promote_complex(graph, 'int_to_float', [self])
    return c_sinh(graph, self)


def complex_aten_sqrt(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::sqrt(Tensor self) -> Tensor"""
    self, = promote_complex(graph, 'int_to_float', [self])
    return c_sqrt(graph, self)


def complex_aten_square(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::square(Tensor self) -> Tensor"""
    self, = promote_complex(graph, 'bool_to_long', [self])
    return c_times(graph, self, self)


def complex_aten_tan(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::tan(Tensor self) -> Tensor"""
    self, = promote_complex(graph, 'int_to_float', [self])
    return c_times_i(graph, c_tanh(graph, c_times_i(graph, self)), -1)


def rule_aten_abs(graph: GraphBuilder, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'complex_to_float', self), known_shape(graph, self)),)


def rule_aten_absolute(graph: GraphBuilder, self: Result) -> Rules:
    return rule_aten_abs(graph, self=self)


def rule_aten_acos(graph: GraphBuilder, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), known_shape(graph, self)),)


def rule_aten_acosh(graph: GraphBuilder, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), known_shape(graph, self)),)


def rule_aten_asin(graph: GraphBuilder, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), known_shape(graph, self)),)


def rule_aten_asinh(graph: GraphBuilder, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), known_shape(graph, self)),)


def rule_aten_atan(graph: GraphBuilder, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), known_shape(graph, self)),)


def rule_aten_atanh(graph: GraphBuilder, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), known_shape(graph, self)),)


def rule_aten_ceil(graph: GraphBuilder, self: Result) -> Rules:
    return ((known_dtype(graph, self), known_shape(graph, self)),)


def rule_aten_cos(graph: GraphBuilder, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), known_shape(graph, self)),)


def rule_aten_cosh(graph: GraphBuilder, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), known_shape(graph, self)),)


def rule_aten_deg2rad(graph: GraphBuilder, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), known_shape(graph, self)),)


def rule_aten_erf(graph: GraphBuilder, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), known_shape(graph, self)),)


def rule_aten_erfc(graph: GraphBuilder, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), known_shape(graph, self)),)


def rule_aten_exp(graph: GraphBuilder, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), known_shape(graph, self)),)


def rule_aten_exp2(graph: GraphBuilder, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), known_shape(graph, self)),)


def rule_aten_expm1(graph: GraphBuilder, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), known_shape(graph, self)),)


def rule_aten_fix(graph: GraphBuilder, self: Result) -> Rules:
    return rule_aten_trunc(graph, self=self)


def rule_aten_floor(graph: GraphBuilder, self: Result) -> Rules:
    return ((known_dtype(graph, self), known_shape(graph, self)),)


def rule_aten_frac(graph: GraphBuilder, self: Result) -> Rules:
    return ((known_dtype(graph, self), known_shape(graph, self)),)


def rule_aten_isfinite(graph: GraphBuilder, self: Result) -> Rules:
    return ((boolean, known_shape(graph, self)),)


def rule_aten_isinf(graph: GraphBuilder, self: Result) -> Rules:
    return ((boolean, known_shape(graph, self)),)


def rule_aten_isnan(graph: GraphBuilder, self: Result) -> Rules:
    return ((boolean, known_shape(graph, self)),)


def rule_aten_isneginf(graph: GraphBuilder, self: Result) -> Rules:
    return ((boolean, known_shape(graph, self)),)


def rule_aten_isposinf(graph: GraphBuilder, self: Result) -> Rules:
    return ((boolean, known_shape(graph, self)),)


def rule_aten_log(graph: GraphBuilder, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), known_shape(graph, self)),)


def rule_aten_log10(graph: GraphBuilder, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), known_shape(graph, self)),)


def rule_aten_log1p(graph: GraphBuilder, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), known_shape(graph, self)),)


def rule_aten_log2(graph: GraphBuilder, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), known_shape(graph, self)),)


def rule_aten_logit(graph: GraphBuilder, self: Result, eps: Float | None = None) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), known_shape(graph, self)),)


def rule_aten_nan_to_num(graph: GraphBuilder, self: Result, nan: Float | None = None, posinf: Float | None = None, neginf: Float | None = None) -> Rules:
    return ((known_dtype(graph, self), known_shape(graph, self)),)


def rule_aten_neg(graph: GraphBuilder, self: Result) -> Rules:
    return ((known_dtype(graph, self), known_shape(graph, self)),)


def rule_aten_negative(graph: GraphBuilder, self: Result) -> Rules:
    return rule_aten_neg(graph, self=self)


def rule_aten_positive(graph: GraphBuilder, self: Result) -> Rules:
    return ((known_dtype(graph, self), known_shape(graph, self)),)


def rule_aten_rad2deg(graph: GraphBuilder, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), known_shape(graph, self)),)


def rule_aten_reciprocal(graph: GraphBuilder, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), known_shape(graph, self)),)


def rule_aten_round(graph: GraphBuilder, self: Result) -> Rules:
    return ((known_dtype(graph, self), known_shape(graph, self)),)


def rule_aten_round_decimals(graph: GraphBuilder, self: Result, *, decimals: Int) -> Rules:
    return ((known_dtype(graph, self), known_shape(graph, self)),)


def rule_aten_rsqrt(graph: GraphBuilder, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), known_shape(graph, self)),)


def rule_aten_sgn(graph: GraphBuilder, self: Result) -> Rules:
    return rule_aten_sign(graph, self=self)


def rule_aten_sign(graph: GraphBuilder, self: Result) -> Rules:
    return ((known_dtype(graph, self), known_shape(graph, self)),)


def rule_aten_signbit(graph: GraphBuilder, self: Result) -> Rules:
    return ((boolean, known_shape(graph, self)),)


def rule_aten_sin(graph: GraphBuilder, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), known_shape(graph, self)),)


def rule_aten_sinc(graph: GraphBuilder, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), known_shape(graph, self)),)


def rule_aten_sinh(graph: GraphBuilder, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), known_shape(graph, self)),)


def rule_aten_sqrt(graph: GraphBuilder, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), known_shape(graph, self)),)


def rule_aten_square(graph: GraphBuilder, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'bool_to_long', self), known_shape(graph, self)),)


def rule_aten_tan(graph: GraphBuilder, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), known_shape(graph, self)),)


def rule_aten_trunc(graph: GraphBuilder, self: Result) -> Rules:
    return ((known_dtype(graph, self), known_shape(graph, self)),)
