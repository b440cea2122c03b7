# Generated from specs/aten/trigonometric.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING

from ortable.dtypes import float64
from ortable.lowerings.complex.arithmetic import promote_complex
from ortable.prelude.complex_arithmetic import as_complex, c_conj, c_div, c_mul, c_scaled, c_where, complex_of, im, re
from ortable.prelude.facts import dtype_of
from ortable.prelude.metadata import shape_or_none
from ortable.prelude.operators import call_operator
from ortable.prelude.pointwise import atan2_of, atan_of, const_like, log1p_of
from ortable.prelude.promotion import opmath, promote_values, promoted_dtype
from ortable.prelude.values import cast, const
from ortable_generated.aten import dispatch

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Result


def aten_acos(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::acos(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    if dtype_of(graph, self) != float64:
        graph.case = 1
        return cast(graph, graph.make_node('Acos', [opmath(graph, self)]), dtype_of(graph, self))
    # ONNX Runtime has no kernel for float64
    graph.case = 2
    one = const(graph, 1, float64)
    side = graph.make_node('Sqrt', [graph.make_node('Mul', [graph.make_node('Sub', [one, self]), graph.make_node('Add', [one, self])])])
    return graph.make_node('Where', [graph.make_node('IsNaN', [side]), side, atan2_of(graph, side, self)], res.outputs)


def aten_acosh(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::acosh(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    if dtype_of(graph, self) != float64:
        graph.case = 1
        return cast(graph, graph.make_node('Acosh', [opmath(graph, self)]), dtype_of(graph, self))
    graph.case = 2
    one = const(graph, 1, float64)
    over = graph.make_node('Sub', [self, one])
    near = log1p_of(graph, graph.make_node('Add', [over, graph.make_node('Mul', [graph.make_node('Sqrt', [over]), graph.make_node('Sqrt', [graph.make_node('Add', [self, one])])])]))
    far = graph.make_node('Add', [graph.make_node('Log', [self]), const_like(graph, 0.6931471805599453, self)])
    return graph.make_node('Where', [graph.make_node('Greater', [self, const_like(graph, 1000000000.0, self)]), far, near], res.outputs)


def aten_asin(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::asin(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    if dtype_of(graph, self) != float64:
        graph.case = 1
        return cast(graph, graph.make_node('Asin', [opmath(graph, self)]), dtype_of(graph, self))
    # ONNX Runtime has no kernel for float64
    graph.case = 2
    one = const(graph, 1, float64)
    side = graph.make_node('Sqrt', [graph.make_node('Mul', [graph.make_node('Sub', [one, self]), graph.make_node('Add', [one, self])])])
    return graph.make_node('Where', [graph.make_node('IsNaN', [side]), side, atan2_of(graph, self, side)], res.outputs)


def aten_asinh(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::asinh(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    if dtype_of(graph, self) != float64:
        graph.case = 1
        return cast(graph, graph.make_node('Asinh', [opmath(graph, self)]), dtype_of(graph, self))
    graph.case = 2
    size = graph.make_node('Abs', [self])
    one = const(graph, 1, float64)
    root = graph.make_node('Add', [one, graph.make_node('Sqrt', [graph.make_node('Add', [one, graph.make_node('Mul', [self, self])])])])
    near = log1p_of(graph, graph.make_node('Add', [size, graph.make_node('Div', [graph.make_node('Mul', [size, size]), root])]))
    far = graph.make_node('Add', [graph.make_node('Log', [size]), const_like(graph, 0.6931471805599453, size)])
    return graph.make_node('Mul', [graph.make_node('Sign', [self]), graph.make_node('Where', [graph.make_node('Less', [size, const_like(graph, 1000000000.0, size)]), near, far])], res.outputs)


def aten_atan(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::atan(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    graph.case = 1
    return atan_of(graph, self)


def aten_atanh(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::atanh(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    if dtype_of(graph, self) != float64:
        graph.case = 1
        return cast(graph, graph.make_node('Atanh', [opmath(graph, self)]), dtype_of(graph, self))
    graph.case = 2
    ratio = graph.make_node('Div', [graph.make_node('Add', [self, self]), graph.make_node('Sub', [const(graph, 1, float64), self])])
    return graph.make_node('Mul', [log1p_of(graph, ratio), const(graph, 0.5, float64)], res.outputs)


def aten_cos(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::cos(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    graph.case = 1
    return cast(graph, graph.make_node('Cos', [opmath(graph, self)]), dtype_of(graph, self))


def aten_cosh(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::cosh(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    if dtype_of(graph, self) != float64:
        graph.case = 1
        return cast(graph, graph.make_node('Cosh', [opmath(graph, self)]), dtype_of(graph, self))
    graph.case = 2
    return graph.make_node('Mul', [graph.make_node('Add', [graph.make_node('Exp', [self]), graph.make_node('Exp', [graph.make_node('Neg', [self])])]), const(graph, 0.5, float64)], res.outputs)


def aten_deg2rad(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::deg2rad(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    return graph.make_node('Mul', [self, const_like(graph, 3.141592653589793 / 180, self)], res.outputs)


def aten_rad2deg(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::rad2deg(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    return graph.make_node('Mul', [self, const_like(graph, 180 / 3.141592653589793, self)], res.outputs)


def aten_sin(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::sin(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    graph.case = 1
    return cast(graph, graph.make_node('Sin', [opmath(graph, self)]), dtype_of(graph, self))


def aten_sinc(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::sinc(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    graph.case = 1
    x = opmath(graph, self)
    angle = graph.make_node('Mul', [x, const_like(graph, 3.141592653589793, x)])
    result = graph.make_node('Where', [graph.make_node('Equal', [x, const_like(graph, 0, x)]), const_like(graph, 1, x), graph.make_node('Div', [graph.make_node('Sin', [angle]), angle])])
    return cast(graph, result, dtype_of(graph, self))


def aten_sinh(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::sinh(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    if dtype_of(graph, self) != float64:
        graph.case = 1
        return cast(graph, graph.make_node('Sinh', [opmath(graph, self)]), dtype_of(graph, self))
    # ONNX Runtime has no kernel for float64; with e = exp(x) - 1 it is (e + e / (e + 1)) / 2
    graph.case = 2
    grown = call_operator(graph, dispatch, 'aten::expm1', self)
    one = const(graph, 1, float64)
    near = graph.make_node('Add', [grown, graph.make_node('Div', [grown, graph.make_node('Add', [grown, one])])])
    far = graph.make_node('Sub', [graph.make_node('Exp', [self]), graph.make_node('Exp', [graph.make_node('Neg', [self])])])
    return graph.make_node('Mul', [graph.make_node('Where', [graph.make_node('GreaterOrEqual', [graph.make_node('Abs', [self]), one]), far, near]), const(graph, 0.5, float64)], res.outputs)


def aten_tan(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::tan(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    if dtype_of(graph, self) != float64:
        graph.case = 1
        return cast(graph, graph.make_node('Tan', [opmath(graph, self)]), dtype_of(graph, self))
    graph.case = 2
    return graph.make_node('Div', [graph.make_node('Sin', [self]), graph.make_node('Cos', [self])], res.outputs)


def complex_aten_acos(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::acos(Tensor self) -> Tensor"""
    self, = promote_complex(graph, 'int_to_float', [self])
    # Kahan, Branch cuts for complex elementary functions (1987)
    graph.case = 3
    one = const_like(graph, 1, re(graph, self))
    below = call_operator(graph, dispatch, 'aten::sqrt', complex_of(graph, graph.make_node('Sub', [one, re(graph, self)]), graph.make_node('Neg', [im(graph, self)])))
    above = call_operator(graph, dispatch, 'aten::sqrt', complex_of(graph, graph.make_node('Add', [one, re(graph, self)]), im(graph, self)))
    angle = atan2_of(graph, re(graph, below), re(graph, above))
    return complex_of(graph, graph.make_node('Add', [angle, angle]), call_operator(graph, dispatch, 'aten::asinh', im(graph, c_mul(graph, c_conj(graph, above), below))))


def complex_aten_acosh(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::acosh(Tensor self) -> Tensor"""
    self, = promote_complex(graph, 'int_to_float', [self])
    graph.case = 3
    one = const_like(graph, 1, re(graph, self))
    below = call_operator(graph, dispatch, 'aten::sqrt', complex_of(graph, graph.make_node('Sub', [re(graph, self), one]), im(graph, self)))
    above = call_operator(graph, dispatch, 'aten::sqrt', complex_of(graph, graph.make_node('Add', [one, re(graph, self)]), im(graph, self)))
    angle = atan2_of(graph, im(graph, below), re(graph, above))
    return complex_of(graph, call_operator(graph, dispatch, 'aten::asinh', re(graph, c_mul(graph, c_conj(graph, below), above))), graph.make_node('Add', [angle, angle]))


def complex_aten_asin(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::asin(Tensor self) -> Tensor"""
    self, = promote_complex(graph, 'int_to_float', [self])
    # Kahan, Branch cuts for complex elementary functions (1987)
    graph.case = 3
    one = const_like(graph, 1, re(graph, self))
    below = call_operator(graph, dispatch, 'aten::sqrt', complex_of(graph, graph.make_node('Sub', [one, re(graph, self)]), graph.make_node('Neg', [im(graph, self)])))
    above = call_operator(graph, dispatch, 'aten::sqrt', complex_of(graph, graph.make_node('Add', [one, re(graph, self)]), im(graph, self)))
    angle = atan2_of(graph, re(graph, self), re(graph, c_mul(graph, below, above)))
    return complex_of(graph, angle, call_operator(graph, dispatch, 'aten::asinh', im(graph, c_mul(graph, c_conj(graph, below), above))))


def complex_aten_asinh(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::asinh(Tensor self) -> Tensor"""
    self, = promote_complex(graph, 'int_to_float', [self])
    graph.case = 3
    turned = call_operator(graph, dispatch, 'aten::asin', complex_of(graph, graph.make_node('Neg', [im(graph, self)]), re(graph, self)))
    return complex_of(graph, im(graph, turned), graph.make_node('Neg', [re(graph, turned)]))


def complex_aten_atan(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::atan(Tensor self) -> Tensor"""
    self, = promote_complex(graph, 'int_to_float', [self])
    graph.case = 2
    turned = call_operator(graph, dispatch, 'aten::atanh', complex_of(graph, graph.make_node('Neg', [im(graph, self)]), re(graph, self)))
    return complex_of(graph, im(graph, turned), graph.make_node('Neg', [re(graph, turned)]))


def complex_aten_atanh(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::atanh(Tensor self) -> Tensor"""
    self, = promote_complex(graph, 'int_to_float', [self])
    graph.case = 3
    x, y = (re(graph, self), im(graph, self))
    one = const_like(graph, 1, x)
    ahead, behind, square = (graph.make_node('Sub', [one, x]), graph.make_node('Add', [one, x]), graph.make_node('Mul', [y, y]))
    ratio = graph.make_node('Div', [graph.make_node('Mul', [const_like(graph, 4, x), x]), graph.make_node('Add', [graph.make_node('Mul', [ahead, ahead]), square])])
    angle = atan2_of(graph, graph.make_node('Add', [y, y]), graph.make_node('Sub', [graph.make_node('Mul', [ahead, behind]), square]))
    real = graph.make_node('Mul', [log1p_of(graph, ratio), const_like(graph, 0.25, x)])
    return complex_of(graph, real, graph.make_node('Mul', [angle, const_like(graph, 0.5, x)]))


def complex_aten_cos(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::cos(Tensor self) -> Tensor"""
    self, = promote_complex(graph, 'int_to_float', [self])
    graph.case = 2
    return call_operator(graph, dispatch, 'aten::cosh', complex_of(graph, graph.make_node('Neg', [im(graph, self)]), re(graph, self)))


def complex_aten_cosh(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::cosh(Tensor self) -> Tensor"""
    self, = promote_complex(graph, 'int_to_float', [self])
    graph.case = 3
    real = graph.make_node('Mul', [call_operator(graph, dispatch, 'aten::cosh', re(graph, self)), graph.make_node('Cos', [im(graph, self)])])
    return complex_of(graph, real, graph.make_node('Mul', [call_operator(graph, dispatch, 'aten::sinh', re(graph, self)), graph.make_node('Sin', [im(graph, self)])]))


def complex_aten_sin(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::sin(Tensor self) -> Tensor"""
    self, = promote_complex(graph, 'int_to_float', [self])
    graph.case = 2
    turned = call_operator(graph, dispatch, 'aten::sinh', complex_of(graph, graph.make_node('Neg', [im(graph, self)]), re(graph, self)))
    return complex_of(graph, im(graph, turned), graph.make_node('Neg', [re(graph, turned)]))


def complex_aten_sinc(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::sinc(Tensor self) -> Tensor"""
    self, = promote_complex(graph, 'int_to_float', [self])
    graph.case = 2
    x = c_scaled(graph, self, 3.141592653589793)
    result = c_div(graph, call_operator(graph, dispatch, 'aten::sin', x), x)
    zero = const_like(graph, 0, re(graph, self))
    is_zero = graph.make_node('And', [graph.make_node('Equal', [re(graph, self), zero]), graph.make_node('Equal', [im(graph, self), zero])])
    return c_where(graph, is_zero, as_complex(graph, 1, dtype_of(graph, self)), result)


def complex_aten_sinh(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::sinh(Tensor self) -> Tensor"""
    self, = promote_complex(graph, 'int_to_float', [self])
    graph.case = 3
    real = graph.make_node('Mul', [call_operator(graph, dispatch, 'aten::sinh', re(graph, self)), graph.make_node('Cos', [im(graph, self)])])
    return complex_of(graph, real, graph.make_node('Mul', [call_operator(graph, dispatch, 'aten::cosh', re(graph, self)), graph.make_node('Sin', [im(graph, self)])]))


def complex_aten_tan(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::tan(Tensor self) -> Tensor"""
    self, = promote_complex(graph, 'int_to_float', [self])
    graph.case = 3
    turned = call_operator(graph, dispatch, 'aten::tanh', complex_of(graph, graph.make_node('Neg', [im(graph, self)]), re(graph, self)))
    return complex_of(graph, im(graph, turned), graph.make_node('Neg', [re(graph, turned)]))


def rule_aten_acos(graph: Graph, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), shape_or_none(graph, self)),)


def rule_aten_acosh(graph: Graph, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), shape_or_none(graph, self)),)


def rule_aten_asin(graph: Graph, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), shape_or_none(graph, self)),)


def rule_aten_asinh(graph: Graph, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), shape_or_none(graph, self)),)


def rule_aten_atan(graph: Graph, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), shape_or_none(graph, self)),)


def rule_aten_atanh(graph: Graph, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), shape_or_none(graph, self)),)


def rule_aten_cos(graph: Graph, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), shape_or_none(graph, self)),)


def rule_aten_cosh(graph: Graph, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), shape_or_none(graph, self)),)


def rule_aten_deg2rad(graph: Graph, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), shape_or_none(graph, self)),)


def rule_aten_rad2deg(graph: Graph, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), shape_or_none(graph, self)),)


def rule_aten_sin(graph: Graph, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), shape_or_none(graph, self)),)


def rule_aten_sinc(graph: Graph, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), shape_or_none(graph, self)),)


def rule_aten_sinh(graph: Graph, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), shape_or_none(graph, self)),)


def rule_aten_tan(graph: Graph, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), shape_or_none(graph, self)),)
