# Generated from specs/aten/number_functions.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING

from ortable.dtypes import float64, int64
from ortable.lowerings.bits import shifted_left, shifted_right
from ortable.lowerings.pointwise import remainder_of
from ortable.prelude.pointwise import floor_quotient
from ortable.prelude.values import cast

if TYPE_CHECKING:
    from ortable.ir import Graph
    from ortable.prelude.facts import Result


def condition_operator_and_(graph: Graph, x: Result, y: Result) -> Result:
    """operator.and_(bool x, bool y)"""
    return graph.make_node('And', [x, y])


def condition_operator_eq(graph: Graph, x: Result, y: Result) -> Result:
    """operator.eq(number x, number y)"""
    return graph.make_node('Equal', [x, y])


def condition_operator_ge(graph: Graph, x: Result, y: Result) -> Result:
    """operator.ge(number x, number y)"""
    return graph.make_node('GreaterOrEqual', [x, y])


def condition_operator_gt(graph: Graph, x: Result, y: Result) -> Result:
    """operator.gt(number x, number y)"""
    return graph.make_node('Greater', [x, y])


def condition_operator_le(graph: Graph, x: Result, y: Result) -> Result:
    """operator.le(number x, number y)"""
    return graph.make_node('LessOrEqual', [x, y])


def condition_operator_lt(graph: Graph, x: Result, y: Result) -> Result:
    """operator.lt(number x, number y)"""
    return graph.make_node('Less', [x, y])


def condition_operator_ne(graph: Graph, x: Result, y: Result) -> Result:
    """operator.ne(number x, number y)"""
    return graph.make_node('Not', [graph.make_node('Equal', [x, y])])


def condition_operator_not_(graph: Graph, x: Result) -> Result:
    """operator.not_(bool x)"""
    return graph.make_node('Not', [x])


def condition_operator_or_(graph: Graph, x: Result, y: Result) -> Result:
    """operator.or_(bool x, bool y)"""
    return graph.make_node('Or', [x, y])


def condition_torch_sym_not(graph: Graph, x: Result) -> Result:
    """torch.sym_not(bool x)"""
    return graph.make_node('Not', [x])


def number_builtins_max(graph: Graph, x: Result, y: Result) -> Result:
    """builtins.max(number x, number y, ...)"""
    return graph.make_node('Max', [x, y])


def number_builtins_min(graph: Graph, x: Result, y: Result) -> Result:
    """builtins.min(number x, number y, ...)"""
    return graph.make_node('Min', [x, y])


def number_builtins_round(graph: Graph, x: Result) -> Result:
    """builtins.round(float x)"""
    x = cast(graph, x, float64)
    return graph.make_node('Round', [x])


def number_math_acos(graph: Graph, x: Result) -> Result:
    """math.acos(float x)"""
    x = cast(graph, x, float64)
    return graph.make_node('Acos', [x])


def number_math_asin(graph: Graph, x: Result) -> Result:
    """math.asin(float x)"""
    x = cast(graph, x, float64)
    return graph.make_node('Asin', [x])


def number_math_atan(graph: Graph, x: Result) -> Result:
    """math.atan(float x)"""
    x = cast(graph, x, float64)
    return graph.make_node('Atan', [x])


def number_math_ceil(graph: Graph, x: Result) -> Result:
    """math.ceil(float x)"""
    x = cast(graph, x, float64)
    return graph.make_node('Ceil', [x])


def number_math_cos(graph: Graph, x: Result) -> Result:
    """math.cos(float x)"""
    x = cast(graph, x, float64)
    return graph.make_node('Cos', [x])


def number_math_cosh(graph: Graph, x: Result) -> Result:
    """math.cosh(float x)"""
    x = cast(graph, x, float64)
    return graph.make_node('Cosh', [x])


def number_math_exp(graph: Graph, x: Result) -> Result:
    """math.exp(float x)"""
    x = cast(graph, x, float64)
    return graph.make_node('Exp', [x])


def number_math_floor(graph: Graph, x: Result) -> Result:
    """math.floor(float x)"""
    x = cast(graph, x, float64)
    return graph.make_node('Floor', [x])


def number_math_log(graph: Graph, x: Result) -> Result:
    """math.log(float x)"""
    x = cast(graph, x, float64)
    return graph.make_node('Log', [x])


def number_math_sin(graph: Graph, x: Result) -> Result:
    """math.sin(float x)"""
    x = cast(graph, x, float64)
    return graph.make_node('Sin', [x])


def number_math_sinh(graph: Graph, x: Result) -> Result:
    """math.sinh(float x)"""
    x = cast(graph, x, float64)
    return graph.make_node('Sinh', [x])


def number_math_sqrt(graph: Graph, x: Result) -> Result:
    """math.sqrt(float x)"""
    x = cast(graph, x, float64)
    return graph.make_node('Sqrt', [x])


def number_math_tan(graph: Graph, x: Result) -> Result:
    """math.tan(float x)"""
    x = cast(graph, x, float64)
    return graph.make_node('Tan', [x])


def number_math_tanh(graph: Graph, x: Result) -> Result:
    """math.tanh(float x)"""
    x = cast(graph, x, float64)
    return graph.make_node('Tanh', [x])


def number_math_trunc(graph: Graph, x: Result) -> Result:
    """math.trunc(number x)"""
    return cast(graph, x, int64)


def number_operator_abs(graph: Graph, x: Result) -> Result:
    """operator.abs(number x)"""
    return graph.make_node('Abs', [x])


def number_operator_add(graph: Graph, x: Result, y: Result) -> Result:
    """operator.add(number x, number y)"""
    return graph.make_node('Add', [x, y])


def number_operator_and_(graph: Graph, x: Result, y: Result) -> Result:
    """operator.and_(number x, number y)"""
    return graph.make_node('BitwiseAnd', [x, y])


def number_operator_floordiv(graph: Graph, x: Result, y: Result) -> Result:
    """operator.floordiv(number x, number y)"""
    return floor_quotient(graph, x, y)


def number_operator_lshift(graph: Graph, x: Result, y: Result) -> Result:
    """operator.lshift(number x, number y)"""
    return shifted_left(graph, x, y)


def number_operator_mod(graph: Graph, x: Result, y: Result) -> Result:
    """operator.mod(number x, number y)"""
    return remainder_of(graph, x, y)


def number_operator_mul(graph: Graph, x: Result, y: Result) -> Result:
    """operator.mul(number x, number y)"""
    return graph.make_node('Mul', [x, y])


def number_operator_neg(graph: Graph, x: Result) -> Result:
    """operator.neg(number x)"""
    return graph.make_node('Neg', [x])


def number_operator_or_(graph: Graph, x: Result, y: Result) -> Result:
    """operator.or_(number x, number y)"""
    return graph.make_node('BitwiseOr', [x, y])


def number_operator_pos(graph: Graph, x: Result) -> Result:
    """operator.pos(number x)"""
    return graph.make_node('Identity', [x])


def number_operator_pow(graph: Graph, x: Result, y: Result) -> Result:
    """operator.pow(float x, float y)"""
    x = cast(graph, x, float64)
    y = cast(graph, y, float64)
    return graph.make_node('Pow', [x, y])


def number_operator_rshift(graph: Graph, x: Result, y: Result) -> Result:
    """operator.rshift(number x, number y)"""
    return shifted_right(graph, x, y)


def number_operator_sub(graph: Graph, x: Result, y: Result) -> Result:
    """operator.sub(number x, number y)"""
    return graph.make_node('Sub', [x, y])


def number_operator_truediv(graph: Graph, x: Result, y: Result) -> Result:
    """operator.truediv(float x, float y)"""
    x = cast(graph, x, float64)
    y = cast(graph, y, float64)
    return graph.make_node('Div', [x, y])


def number_operator_xor(graph: Graph, x: Result, y: Result) -> Result:
    """operator.xor(number x, number y)"""
    return graph.make_node('BitwiseXor', [x, y])


def number_torch_sym_float(graph: Graph, x: Result) -> Result:
    """torch.sym_float(number x)"""
    return cast(graph, x, float64)


def number_torch_sym_float_pow(graph: Graph, x: Result, y: Result) -> Result:
    """torch.sym_float_pow(float x, float y)"""
    x = cast(graph, x, float64)
    y = cast(graph, y, float64)
    return graph.make_node('Pow', [x, y])


def number_torch_sym_int(graph: Graph, x: Result) -> Result:
    """torch.sym_int(number x)"""
    return cast(graph, x, int64)


def number_torch_sym_ite(graph: Graph, b: Result, x: Result, y: Result) -> Result:
    """torch.sym_ite(bool b, number x, number y)"""
    return graph.make_node('Where', [b, x, y])


def number_torch_sym_sum(graph: Graph, x: Result, y: Result) -> Result:
    """torch.sym_sum(number x, number y, ...)"""
    return graph.make_node('Add', [x, y])
