# Generated from specs/aten/binary.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING

from ortable.dtypes import boolean, float16
from ortable.errors import UnsupportedCase
from ortable.inference import broadcast
from ortable.lowerings.complex.arithmetic import c_log1p, promote_complex
from ortable.lowerings.pointwise import int_power
from ortable.prelude.complex_arithmetic import as_complex, c_abs, c_add, c_cast, c_div, c_exp, c_mul, c_power, c_scaled, c_where, re
from ortable.prelude.facts import dtype_of, is_bool, is_float, is_number, is_static
from ortable.prelude.metadata import dtype_or_none, shape_or_none
from ortable.prelude.pointwise import atan2_of, const_like, expanded_like, hypot_of, int_pow, is_sign_set, log1p_of
from ortable.prelude.promotion import in_dtype, opmath, promote_values, promoted_dtype
from ortable.prelude.values import cast, const

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Result, Scalar


def aten_add_Scalar(graph: Graph, res: ResultSpec, self: Result, other: Scalar, alpha: Scalar = 1) -> Result:
    """aten::add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor"""
    return aten_add_Tensor(graph, res, self=self, other=other, alpha=alpha)


def aten_add_Tensor(graph: Graph, res: ResultSpec, self: Result, other: Result, *, alpha: Scalar = 1) -> Result:
    """aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"""
    self, other = promote_values(graph, 'default', [self, other])
    if dtype_of(graph, res) == boolean:
        # torch computes self | (alpha and other)
        graph.case = 1
        return graph.make_node('Or', [self, graph.make_node('And', [other, const(graph, alpha, boolean)])], res.outputs)
    if alpha == 1:
        graph.case = 2
        return graph.make_node('Add', [self, other], res.outputs)
    graph.case = 3
    right = opmath(graph, other)
    result = graph.make_node('Add', [opmath(graph, self), graph.make_node('Mul', [right, const_like(graph, alpha, right)])])
    return cast(graph, result, dtype_of(graph, res))


def aten_addcdiv(graph: Graph, res: ResultSpec, self: Result, tensor1: Result, tensor2: Result, *, value: Scalar = 1) -> Result:
    """aten::addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor"""
    self, tensor1, tensor2 = promote_values(graph, 'default', [self, tensor1, tensor2])
    graph.case = 1
    top = opmath(graph, tensor1)
    amount = top if value == 1 else graph.make_node('Mul', [top, const_like(graph, value, top)])
    return cast(graph, graph.make_node('Add', [opmath(graph, self), graph.make_node('Div', [amount, opmath(graph, tensor2)])]), dtype_of(graph, res))


def aten_addcmul(graph: Graph, res: ResultSpec, self: Result, tensor1: Result, tensor2: Result, *, value: Scalar = 1) -> Result:
    """aten::addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor"""
    self, tensor1, tensor2 = promote_values(graph, 'default', [self, tensor1, tensor2])
    graph.case = 1
    both = graph.make_node('Mul', [opmath(graph, tensor1), opmath(graph, tensor2)])
    amount = both if value == 1 else graph.make_node('Mul', [both, const_like(graph, value, both)])
    return cast(graph, graph.make_node('Add', [opmath(graph, self), amount]), dtype_of(graph, res))


def aten_atan2(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::atan2(Tensor self, Tensor other) -> Tensor"""
    self, other = promote_values(graph, 'int_to_float', [self, other])
    return cast(graph, atan2_of(graph, opmath(graph, self), opmath(graph, other)), dtype_of(graph, res))


def aten_copysign_Scalar(graph: Graph, res: ResultSpec, self: Result, other: Scalar) -> Result:
    """aten::copysign.Scalar(Tensor self, Scalar other) -> Tensor"""
    return aten_copysign_Tensor(graph, res, self=self, other=other)


def aten_copysign_Tensor(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::copysign.Tensor(Tensor self, Tensor other) -> Tensor"""
    self, other = promote_values(graph, 'int_to_float', [self, other])
    size = graph.make_node('Abs', [self])
    return graph.make_node('Mul', [size, graph.make_node('Where', [is_sign_set(graph, other), const_like(graph, -1, size), const_like(graph, 1, size)])], res.outputs)


def aten_heaviside(graph: Graph, res: ResultSpec, self: Result, values: Result) -> Result:
    """aten::heaviside(Tensor self, Tensor values) -> Tensor"""
    if is_bool(graph, self):
        graph.case = 1
        return graph.make_node('Or', [self, values], res.outputs)
    graph.case = 2
    zero = const_like(graph, 0, self)
    step = cast(graph, graph.make_node('Greater', [self, zero]), dtype_of(graph, self))
    return graph.make_node('Where', [graph.make_node('Equal', [self, zero]), values, step], res.outputs)


def aten_hypot(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::hypot(Tensor self, Tensor other) -> Tensor"""
    self, other = promote_values(graph, 'default', [self, other])
    return cast(graph, hypot_of(graph, opmath(graph, self), opmath(graph, other)), dtype_of(graph, res))


def aten_lerp_Scalar(graph: Graph, res: ResultSpec, self: Result, end: Result, weight: Scalar) -> Result:
    """aten::lerp.Scalar(Tensor self, Tensor end, Scalar weight) -> Tensor"""
    self, end = promote_values(graph, 'default', [self, end])
    if not is_static(weight):
        # a number read from a tensor; which side is exact is decided when the model runs
        graph.case = 1
        x, y = (opmath(graph, self), opmath(graph, end))
        way, w = (graph.make_node('Sub', [y, x]), const_like(graph, weight, x))
        late = graph.make_node('Sub', [y, graph.make_node('Mul', [way, graph.make_node('Sub', [const_like(graph, 1, w), w])])])
        result = graph.make_node('Where', [graph.make_node('Less', [graph.make_node('Abs', [w]), const_like(graph, 0.5, w)]), graph.make_node('Add', [x, graph.make_node('Mul', [w, way])]), late])
        return cast(graph, result, dtype_of(graph, res))
    if weight < 0.5 and weight > -0.5:
        graph.case = 2
        x = opmath(graph, self)
        way = graph.make_node('Sub', [opmath(graph, end), x])
        return cast(graph, graph.make_node('Add', [x, graph.make_node('Mul', [const_like(graph, weight, x), way])]), dtype_of(graph, res))
    # counted from the end, so that a weight of 1 gives it exactly
    graph.case = 3
    y = opmath(graph, end)
    way = graph.make_node('Sub', [y, opmath(graph, self)])
    return cast(graph, graph.make_node('Sub', [y, graph.make_node('Mul', [way, const_like(graph, 1 - weight, y)])]), dtype_of(graph, res))


def aten_lerp_Tensor(graph: Graph, res: ResultSpec, self: Result, end: Result, weight: Result) -> Result:
    """aten::lerp.Tensor(Tensor self, Tensor end, Tensor weight) -> Tensor"""
    self, end, weight = promote_values(graph, 'default', [self, end, weight])
    graph.case = 1
    x = opmath(graph, self)
    y = opmath(graph, end)
    w = opmath(graph, weight)
    way = graph.make_node('Sub', [y, x])
    late = graph.make_node('Sub', [y, graph.make_node('Mul', [way, graph.make_node('Sub', [const_like(graph, 1, w), w])])])
    result = graph.make_node('Where', [graph.make_node('Less', [graph.make_node('Abs', [w]), const_like(graph, 0.5, w)]), graph.make_node('Add', [x, graph.make_node('Mul', [w, way])]), late])
    return cast(graph, result, dtype_of(graph, res))


def aten_logaddexp(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::logaddexp(Tensor self, Tensor other) -> Tensor"""
    self, other = promote_values(graph, 'default', [self, other])
    graph.case = 1
    x = opmath(graph, self)
    y = opmath(graph, other)
    high = graph.make_node('Max', [x, y])
    apart = graph.make_node('Neg', [graph.make_node('Abs', [graph.make_node('Sub', [x, y])])])
    result = graph.make_node('Where', [graph.make_node('Equal', [x, y]), graph.make_node('Add', [high, const_like(graph, 0.6931471805599453, high)]), graph.make_node('Add', [high, log1p_of(graph, graph.make_node('Exp', [apart]))])])
    return cast(graph, result, dtype_of(graph, res))


def aten_mul_Scalar(graph: Graph, res: ResultSpec, self: Result, other: Scalar) -> Result:
    """aten::mul.Scalar(Tensor self, Scalar other) -> Tensor"""
    return aten_mul_Tensor(graph, res, self=self, other=other)


def aten_mul_Tensor(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::mul.Tensor(Tensor self, Tensor other) -> Tensor"""
    self, other = promote_values(graph, 'default', [self, other], other)
    if dtype_of(graph, res) == boolean:
        graph.case = 1
        return graph.make_node('And', [self, other], res.outputs)
    graph.case = 2
    return cast(graph, graph.make_node('Mul', [self, other]), dtype_of(graph, res))


def aten_multiply_Tensor(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::multiply.Tensor(Tensor self, Tensor other) -> Tensor"""
    return aten_mul_Tensor(graph, res, self=self, other=other)


def aten_pow_Scalar(graph: Graph, res: ResultSpec, self: Scalar, exponent: Result) -> Result:
    """aten::pow.Scalar(Scalar self, Tensor exponent) -> Tensor"""
    self, exponent = promote_values(graph, 'pow', [self, exponent])
    if is_float(graph, res):
        graph.case = 1
        return graph.make_node('Pow', [self, exponent], res.outputs)
    graph.case = 2
    return int_pow(graph, self, exponent)


def aten_pow_Tensor_Scalar(graph: Graph, res: ResultSpec, self: Result, exponent: Scalar) -> Result:
    """aten::pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor"""
    dtype = dtype_of(graph, res)
    if is_float(graph, res) and exponent == 2:
        graph.case = 1
        base = in_dtype(graph, self, dtype)
        return graph.make_node('Mul', [base, base], res.outputs)
    if is_float(graph, res) and exponent == 0.5 and (dtype_of(graph, res) != float16):
        # torch takes the root, which differs from C's pow at -inf, except in float16
        graph.case = 2
        return graph.make_node('Sqrt', [in_dtype(graph, self, dtype)], res.outputs)
    if is_float(graph, res) and exponent == -0.5 and (dtype_of(graph, res) != float16):
        graph.case = 3
        return cast(graph, graph.make_node('Reciprocal', [graph.make_node('Sqrt', [opmath(graph, in_dtype(graph, self, dtype))])]), dtype)
    if is_float(graph, res) and exponent == -1 and (dtype_of(graph, res) != float16):
        # ONNX Runtime's Pow takes 40 times as long
        graph.case = 4
        return cast(graph, graph.make_node('Reciprocal', [opmath(graph, in_dtype(graph, self, dtype))]), dtype)
    if is_float(graph, res) and exponent == -2 and (dtype_of(graph, res) != float16):
        graph.case = 5
        base = opmath(graph, in_dtype(graph, self, dtype))
        return cast(graph, graph.make_node('Reciprocal', [graph.make_node('Mul', [base, base])]), dtype)
    if is_float(graph, res) and (not is_number(exponent)) and (dtype_of(graph, res) != float16):
        # which of these it is, is decided when the model runs
        graph.case = 6
        x = opmath(graph, in_dtype(graph, self, dtype))
        power, root = (const_like(graph, exponent, x), graph.make_node('Sqrt', [x]))
        other = graph.make_node('Where', [graph.make_node('Equal', [power, const_like(graph, -0.5, x)]), graph.make_node('Reciprocal', [root]), graph.make_node('Pow', [x, power])])
        return cast(graph, graph.make_node('Where', [graph.make_node('Equal', [power, const_like(graph, 0.5, x)]), root, other]), dtype)
    if is_float(graph, res):
        graph.case = 7
        return graph.make_node('Pow', [in_dtype(graph, self, dtype), const(graph, exponent, dtype)], res.outputs)
    if is_number(exponent) and exponent < 0:
        graph.case = 8
        raise UnsupportedCase('aten::pow.Tensor_Scalar: integers to negative integer powers are not allowed')
    if not is_number(exponent):
        graph.case = 9
        return int_pow(graph, in_dtype(graph, self, dtype), const(graph, exponent, dtype))
    # ONNX Runtime's integer Pow goes through double, wrong above 2**53
    graph.case = 10
    return int_power(graph, in_dtype(graph, self, dtype), int(exponent))


def aten_pow_Tensor_Tensor(graph: Graph, res: ResultSpec, self: Result, exponent: Result) -> Result:
    """aten::pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor"""
    self, exponent = promote_values(graph, 'pow', [self, exponent])
    if is_float(graph, res):
        graph.case = 1
        return graph.make_node('Pow', [self, exponent], res.outputs)
    graph.case = 2
    return int_pow(graph, self, exponent)


def aten_rsub_Scalar(graph: Graph, res: ResultSpec, self: Result, other: Scalar, alpha: Scalar = 1) -> Result:
    """aten::rsub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor"""
    return aten_rsub_Tensor(graph, res, self=self, other=other, alpha=alpha)


def aten_rsub_Tensor(graph: Graph, res: ResultSpec, self: Result, other: Result, *, alpha: Scalar = 1) -> Result:
    """aten::rsub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"""
    self, other = promote_values(graph, 'no_bool', [self, other])
    if alpha == 1:
        graph.case = 1
        return graph.make_node('Sub', [other, self], res.outputs)
    graph.case = 2
    left = opmath(graph, self)
    result = graph.make_node('Sub', [opmath(graph, other), graph.make_node('Mul', [left, const_like(graph, alpha, left)])])
    return cast(graph, result, dtype_of(graph, res))


def aten_sub_Scalar(graph: Graph, res: ResultSpec, self: Result, other: Scalar, alpha: Scalar = 1) -> Result:
    """aten::sub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor"""
    return aten_sub_Tensor(graph, res, self=self, other=other, alpha=alpha)


def aten_sub_Tensor(graph: Graph, res: ResultSpec, self: Result, other: Result, *, alpha: Scalar = 1) -> Result:
    """aten::sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"""
    self, other = promote_values(graph, 'no_bool', [self, other])
    if alpha == 1:
        graph.case = 1
        return graph.make_node('Sub', [self, other], res.outputs)
    graph.case = 2
    right = opmath(graph, other)
    result = graph.make_node('Sub', [opmath(graph, self), graph.make_node('Mul', [right, const_like(graph, alpha, right)])])
    return cast(graph, result, dtype_of(graph, res))


def aten_subtract_Tensor(graph: Graph, res: ResultSpec, self: Result, other: Result, *, alpha: Scalar = 1) -> Result:
    """aten::subtract.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"""
    return aten_sub_Tensor(graph, res, self=self, other=other, alpha=alpha)


def aten_xlogy_Scalar_Other(graph: Graph, res: ResultSpec, self: Result, other: Scalar) -> Result:
    """aten::xlogy.Scalar_Other(Tensor self, Scalar other) -> Tensor"""
    return aten_xlogy_Tensor(graph, res, self=self, other=other)


def aten_xlogy_Scalar_Self(graph: Graph, res: ResultSpec, self: Scalar, other: Result) -> Result:
    """aten::xlogy.Scalar_Self(Scalar self, Tensor other) -> Tensor"""
    return aten_xlogy_Tensor(graph, res, self=self, other=other)


def aten_xlogy_Tensor(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::xlogy.Tensor(Tensor self, Tensor other) -> Tensor"""
    self, other = promote_values(graph, 'int_to_float', [self, other])
    x = opmath(graph, self)
    y = opmath(graph, other)
    zero = const_like(graph, 0, x)
    result = graph.make_node('Where', [graph.make_node('Equal', [x, zero]), zero, graph.make_node('Mul', [x, graph.make_node('Log', [y])])])
    return cast(graph, graph.make_node('Where', [graph.make_node('IsNaN', [y]), y, result]), dtype_of(graph, res))


def complex_aten_add_Scalar(graph: Graph, res: ResultSpec, self: Result, other: Scalar, alpha: Scalar = 1) -> Result:
    """aten::add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor"""
    return complex_aten_add_Tensor(graph, res, self=self, other=other, alpha=alpha)


def complex_aten_add_Tensor(graph: Graph, res: ResultSpec, self: Result, other: Result, *, alpha: Scalar = 1) -> Result:
    """aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"""
    self, other = promote_complex(graph, 'default', [self, other])
    graph.case = 4
    return c_add(graph, self, c_scaled(graph, other, alpha))


def complex_aten_addcdiv(graph: Graph, res: ResultSpec, self: Result, tensor1: Result, tensor2: Result, *, value: Scalar = 1) -> Result:
    """aten::addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor"""
    self, tensor1, tensor2 = promote_complex(graph, 'default', [self, tensor1, tensor2])
    graph.case = 2
    return c_add(graph, self, c_scaled(graph, c_div(graph, tensor1, tensor2), value))


def complex_aten_addcmul(graph: Graph, res: ResultSpec, self: Result, tensor1: Result, tensor2: Result, *, value: Scalar = 1) -> Result:
    """aten::addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor"""
    self, tensor1, tensor2 = promote_complex(graph, 'default', [self, tensor1, tensor2])
    graph.case = 2
    return c_add(graph, self, c_scaled(graph, c_mul(graph, tensor1, tensor2), value))


def complex_aten_lerp_Scalar(graph: Graph, res: ResultSpec, self: Result, end: Result, weight: Scalar) -> Result:
    """aten::lerp.Scalar(Tensor self, Tensor end, Scalar weight) -> Tensor"""
    self, end = promote_complex(graph, 'default', [self, end])
    if not is_static(weight):
        graph.case = 4
        return c_add(graph, self, c_scaled(graph, c_add(graph, end, self, -1), weight))
    if abs(weight) < 0.5:
        graph.case = 5
        return c_add(graph, self, c_scaled(graph, c_add(graph, end, self, -1), weight))
    graph.case = 6
    return c_add(graph, end, c_scaled(graph, c_add(graph, end, self, -1), 1 - weight), -1)


def complex_aten_lerp_Tensor(graph: Graph, res: ResultSpec, self: Result, end: Result, weight: Result) -> Result:
    """aten::lerp.Tensor(Tensor self, Tensor end, Tensor weight) -> Tensor"""
    self, end, weight = promote_complex(graph, 'default', [self, end, weight])
    graph.case = 2
    way = c_add(graph, end, self, -1)
    size = c_abs(graph, weight)
    late = c_add(graph, end, c_mul(graph, way, c_add(graph, c_cast(graph, const_like(graph, 1, size), dtype_of(graph, res)), weight, -1)), -1)
    return c_where(graph, graph.make_node('Less', [size, const_like(graph, 0.5, size)]), c_add(graph, self, c_mul(graph, way, weight)), late)


def complex_aten_logaddexp(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::logaddexp(Tensor self, Tensor other) -> Tensor"""
    self, other = promote_complex(graph, 'default', [self, other])
    graph.case = 2
    lower_ = graph.make_node('Less', [re(graph, self), re(graph, other)])
    high = c_where(graph, lower_, expanded_like(graph, other, re(graph, self)), expanded_like(graph, self, re(graph, other)))
    low = c_where(graph, lower_, expanded_like(graph, self, re(graph, other)), expanded_like(graph, other, re(graph, self)))
    return c_add(graph, high, c_log1p(graph, c_exp(graph, c_add(graph, low, high, -1))))


def complex_aten_mul_Scalar(graph: Graph, res: ResultSpec, self: Result, other: Scalar) -> Result:
    """aten::mul.Scalar(Tensor self, Scalar other) -> Tensor"""
    return complex_aten_mul_Tensor(graph, res, self=self, other=other)


def complex_aten_mul_Tensor(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::mul.Tensor(Tensor self, Tensor other) -> Tensor"""
    self, other = promote_complex(graph, 'default', [self, other], other)
    graph.case = 3
    return c_mul(graph, self, other)


def complex_aten_multiply_Tensor(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::multiply.Tensor(Tensor self, Tensor other) -> Tensor"""
    return complex_aten_mul_Tensor(graph, res, self=self, other=other)


def complex_aten_pow_Scalar(graph: Graph, res: ResultSpec, self: Scalar, exponent: Result) -> Result:
    """aten::pow.Scalar(Scalar self, Tensor exponent) -> Tensor"""
    self, exponent = promote_complex(graph, 'pow', [self, exponent])
    graph.case = 3
    return c_power(graph, self, exponent)


def complex_aten_pow_Tensor_Scalar(graph: Graph, res: ResultSpec, self: Result, exponent: Scalar) -> Result:
    """aten::pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor"""
    dtype = dtype_of(graph, res)
    if exponent == 2:
        graph.case = 11
        base = as_complex(graph, self, dtype_of(graph, res))
        return c_mul(graph, base, base)
    graph.case = 12
    dtype = dtype_of(graph, res)
    return c_power(graph, as_complex(graph, self, dtype), as_complex(graph, exponent, dtype))


def complex_aten_pow_Tensor_Tensor(graph: Graph, res: ResultSpec, self: Result, exponent: Result) -> Result:
    """aten::pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor"""
    self, exponent = promote_complex(graph, 'pow', [self, exponent])
    graph.case = 3
    return c_power(graph, self, exponent)


def complex_aten_rsub_Scalar(graph: Graph, res: ResultSpec, self: Result, other: Scalar, alpha: Scalar = 1) -> Result:
    """aten::rsub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor"""
    return complex_aten_rsub_Tensor(graph, res, self=self, other=other, alpha=alpha)


def complex_aten_rsub_Tensor(graph: Graph, res: ResultSpec, self: Result, other: Result, *, alpha: Scalar = 1) -> Result:
    """aten::rsub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"""
    self, other = promote_complex(graph, 'no_bool', [self, other])
    graph.case = 3
    return c_add(graph, other, c_scaled(graph, self, alpha), -1)


def complex_aten_sub_Scalar(graph: Graph, res: ResultSpec, self: Result, other: Scalar, alpha: Scalar = 1) -> Result:
    """aten::sub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor"""
    return complex_aten_sub_Tensor(graph, res, self=self, other=other, alpha=alpha)


def complex_aten_sub_Tensor(graph: Graph, res: ResultSpec, self: Result, other: Result, *, alpha: Scalar = 1) -> Result:
    """aten::sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"""
    self, other = promote_complex(graph, 'no_bool', [self, other])
    graph.case = 3
    return c_add(graph, self, c_scaled(graph, other, alpha), -1)


def complex_aten_subtract_Tensor(graph: Graph, res: ResultSpec, self: Result, other: Result, *, alpha: Scalar = 1) -> Result:
    """aten::subtract.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"""
    return complex_aten_sub_Tensor(graph, res, self=self, other=other, alpha=alpha)


def rule_aten_add_Scalar(graph: Graph, self: Result, other: Scalar, alpha: Scalar = 1) -> Rules:
    return rule_aten_add_Tensor(graph, self=self, other=other, alpha=alpha)


def rule_aten_add_Tensor(graph: Graph, self: Result, other: Result, *, alpha: Scalar = 1) -> Rules:
    return ((promoted_dtype(graph, 'default', self, other), broadcast(shape_or_none(graph, self), shape_or_none(graph, other))),)


def rule_aten_addcdiv(graph: Graph, self: Result, tensor1: Result, tensor2: Result, *, value: Scalar = 1) -> Rules:
    return ((promoted_dtype(graph, 'default', self, tensor1, tensor2), broadcast(shape_or_none(graph, self), shape_or_none(graph, tensor1), shape_or_none(graph, tensor2))),)


def rule_aten_addcmul(graph: Graph, self: Result, tensor1: Result, tensor2: Result, *, value: Scalar = 1) -> Rules:
    return ((promoted_dtype(graph, 'default', self, tensor1, tensor2), broadcast(shape_or_none(graph, self), shape_or_none(graph, tensor1), shape_or_none(graph, tensor2))),)


def rule_aten_atan2(graph: Graph, self: Result, other: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self, other), broadcast(shape_or_none(graph, self), shape_or_none(graph, other))),)


def rule_aten_copysign_Scalar(graph: Graph, self: Result, other: Scalar) -> Rules:
    return rule_aten_copysign_Tensor(graph, self=self, other=other)


def rule_aten_copysign_Tensor(graph: Graph, self: Result, other: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self, other), broadcast(shape_or_none(graph, self), shape_or_none(graph, other))),)


def rule_aten_heaviside(graph: Graph, self: Result, values: Result) -> Rules:
    return ((dtype_or_none(graph, self), broadcast(shape_or_none(graph, self), shape_or_none(graph, values))),)


def rule_aten_hypot(graph: Graph, self: Result, other: Result) -> Rules:
    return ((promoted_dtype(graph, 'default', self, other), broadcast(shape_or_none(graph, self), shape_or_none(graph, other))),)


def rule_aten_lerp_Scalar(graph: Graph, self: Result, end: Result, weight: Scalar) -> Rules:
    return ((promoted_dtype(graph, 'default', self, end), broadcast(shape_or_none(graph, self), shape_or_none(graph, end))),)


def rule_aten_lerp_Tensor(graph: Graph, self: Result, end: Result, weight: Result) -> Rules:
    return ((promoted_dtype(graph, 'default', self, end, weight), broadcast(shape_or_none(graph, self), shape_or_none(graph, end), shape_or_none(graph, weight))),)


def rule_aten_logaddexp(graph: Graph, self: Result, other: Result) -> Rules:
    return ((promoted_dtype(graph, 'default', self, other), broadcast(shape_or_none(graph, self), shape_or_none(graph, other))),)


def rule_aten_mul_Scalar(graph: Graph, self: Result, other: Scalar) -> Rules:
    return rule_aten_mul_Tensor(graph, self=self, other=other)


def rule_aten_mul_Tensor(graph: Graph, self: Result, other: Result) -> Rules:
    return ((promoted_dtype(graph, 'default', self, other), broadcast(shape_or_none(graph, self), shape_or_none(graph, other))),)


def rule_aten_multiply_Tensor(graph: Graph, self: Result, other: Result) -> Rules:
    return rule_aten_mul_Tensor(graph, self=self, other=other)


def rule_aten_pow_Scalar(graph: Graph, self: Scalar, exponent: Result) -> Rules:
    return ((promoted_dtype(graph, 'pow', self, exponent), shape_or_none(graph, exponent)),)


def rule_aten_pow_Tensor_Scalar(graph: Graph, self: Result, exponent: Scalar) -> Rules:
    return ((promoted_dtype(graph, 'default', self, exponent), shape_or_none(graph, self)),)


def rule_aten_pow_Tensor_Tensor(graph: Graph, self: Result, exponent: Result) -> Rules:
    return ((promoted_dtype(graph, 'pow', self, exponent), broadcast(shape_or_none(graph, self), shape_or_none(graph, exponent))),)


def rule_aten_rsub_Scalar(graph: Graph, self: Result, other: Scalar, alpha: Scalar = 1) -> Rules:
    return rule_aten_rsub_Tensor(graph, self=self, other=other, alpha=alpha)


def rule_aten_rsub_Tensor(graph: Graph, self: Result, other: Result, *, alpha: Scalar = 1) -> Rules:
    return ((promoted_dtype(graph, 'no_bool', self, other), broadcast(shape_or_none(graph, self), shape_or_none(graph, other))),)


def rule_aten_sub_Scalar(graph: Graph, self: Result, other: Scalar, alpha: Scalar = 1) -> Rules:
    return rule_aten_sub_Tensor(graph, self=self, other=other, alpha=alpha)


def rule_aten_sub_Tensor(graph: Graph, self: Result, other: Result, *, alpha: Scalar = 1) -> Rules:
    return ((promoted_dtype(graph, 'no_bool', self, other), broadcast(shape_or_none(graph, self), shape_or_none(graph, other))),)


def rule_aten_subtract_Tensor(graph: Graph, self: Result, other: Result, *, alpha: Scalar = 1) -> Rules:
    return rule_aten_sub_Tensor(graph, self=self, other=other, alpha=alpha)


def rule_aten_xlogy_Scalar_Other(graph: Graph, self: Result, other: Scalar) -> Rules:
    return rule_aten_xlogy_Tensor(graph, self=self, other=other)


def rule_aten_xlogy_Scalar_Self(graph: Graph, self: Scalar, other: Result) -> Rules:
    return rule_aten_xlogy_Tensor(graph, self=self, other=other)


def rule_aten_xlogy_Tensor(graph: Graph, self: Result, other: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self, other), broadcast(shape_or_none(graph, self), shape_or_none(graph, other))),)
