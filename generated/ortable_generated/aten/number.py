# Generated from specs/aten/number.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.dtypes import boolean, complex128, float32, float64, int32, int64
from ortable.inference import broadcast
from ortable.lowerings.float_parts import exponent_of, neighbour, scaled_by_power
from ortable.lowerings.special.gamma import gcd_of
from ortable.prelude.complex_arithmetic import as_complex, c_abs, c_add, c_mul, c_power, im, re
from ortable.prelude.facts import dtype_of, is_complex, is_float, is_number, rank_of
from ortable.prelude.metadata import dtype_or_none, shape_or_none
from ortable.prelude.pointwise import const_like, log1p_of, trunc_quotient
from ortable.prelude.promotion import opmath, promote_values, promoted_dtype
from ortable.prelude.values import cast, const

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Bool, Float, Result, Scalar


def aten_float_power_Scalar(graph: Graph, res: ResultSpec, self: Scalar, exponent: Result) -> Result:
    """aten::float_power.Scalar(Scalar self, Tensor exponent) -> Tensor"""
    return graph.make_node('Pow', [const(graph, self, float64), cast(graph, exponent, float64)], res.outputs)


def aten_float_power_Tensor_Scalar(graph: Graph, res: ResultSpec, self: Result, exponent: Scalar) -> Result:
    """aten::float_power.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor"""
    if exponent == 0.5:
        # torch takes the root, which differs from C's pow at -inf
        graph.case = 1
        return graph.make_node('Sqrt', [cast(graph, self, float64)], res.outputs)
    if exponent == -2:
        graph.case = 2
        x = cast(graph, self, float64)
        return graph.make_node('Reciprocal', [graph.make_node('Mul', [x, x])], res.outputs)
    if not is_number(exponent):
        # which of the two it is, is decided when the model runs
        graph.case = 3
        x, power = (cast(graph, self, float64), const(graph, exponent, float64))
        return graph.make_node('Where', [graph.make_node('Equal', [power, const(graph, 0.5, float64)]), graph.make_node('Sqrt', [x]), graph.make_node('Pow', [x, power])], res.outputs)
    graph.case = 4
    return graph.make_node('Pow', [cast(graph, self, float64), const(graph, exponent, float64)], res.outputs)


def aten_float_power_Tensor_Tensor(graph: Graph, res: ResultSpec, self: Result, exponent: Result) -> Result:
    """aten::float_power.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor"""
    graph.case = 1
    return graph.make_node('Pow', [cast(graph, self, float64), cast(graph, exponent, float64)], res.outputs)


def aten_frexp_Tensor(graph: Graph, res: ResultSpec, self: Result) -> Any:
    """aten::frexp.Tensor(Tensor self) -> (Tensor mantissa, Tensor exponent)"""
    x = cast(graph, self, float64)
    power = exponent_of(graph, x)
    return (cast(graph, scaled_by_power(graph, x, graph.make_node('Neg', [power])), dtype_of(graph, self)), cast(graph, power, int32))


def aten_gcd(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::gcd(Tensor self, Tensor other) -> Tensor"""
    self, other = promote_values(graph, 'default', [self, other])
    return gcd_of(graph, self, other)


def aten_isclose(graph: Graph, res: ResultSpec, self: Result, other: Result, rtol: Float = 1e-05, atol: Float = 1e-08, equal_nan: Bool = False) -> Result:
    """aten::isclose(Tensor self, Tensor other, float rtol=1.0000000000000001e-05, float atol=1e-08, bool equal_nan=False) -> Tensor"""
    graph.case = 1
    same = graph.make_node('Equal', [self, other])
    paired = equal_nan and is_float(graph, self)
    same = graph.make_node('Or', [same, graph.make_node('And', [graph.make_node('IsNaN', [self]), graph.make_node('IsNaN', [other])])]) if paired else same
    x = self if is_float(graph, self) else cast(graph, self, float32)
    y = other if is_float(graph, other) else cast(graph, other, float32)
    bound = graph.make_node('Abs', [graph.make_node('Mul', [const_like(graph, rtol, y), y])])
    bound = graph.make_node('Add', [const_like(graph, atol, y), bound])
    off = graph.make_node('Abs', [graph.make_node('Sub', [x, y])])
    near = graph.make_node('And', [graph.make_node('Less', [off, const_like(graph, float('inf'), off)]), graph.make_node('LessOrEqual', [off, bound])])
    return same if rtol == 0 and atol == 0 else graph.make_node('Or', [same, near], res.outputs)


def aten_lcm(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::lcm(Tensor self, Tensor other) -> Tensor"""
    self, other = promote_values(graph, 'default', [self, other])
    compute_dtype = int64 if dtype_of(graph, res) == int64 else int32
    common = gcd_of(graph, self, other)
    none = graph.make_node('Equal', [common, const_like(graph, 0, common)])
    reduced = cast(graph, trunc_quotient(graph, self, graph.make_node('Where', [none, const_like(graph, 1, common), common])), compute_dtype)
    least = cast(graph, graph.make_node('Abs', [graph.make_node('Mul', [reduced, cast(graph, other, compute_dtype)])]), dtype_of(graph, res))
    return graph.make_node('Where', [none, common, least], res.outputs)


def aten_ldexp_Tensor(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::ldexp.Tensor(Tensor self, Tensor other) -> Tensor"""
    dtype = dtype_of(graph, res)
    if is_float(graph, other):
        graph.case = 1
        compute_dtype = dtype if rank_of(graph, other) == 0 else dtype_of(graph, other)
        power = graph.make_node('Pow', [const(graph, 2, compute_dtype), cast(graph, other, compute_dtype)])
        return graph.make_node('Mul', [cast(graph, self, dtype), cast(graph, power, dtype)], res.outputs)
    # an exponent beyond the range of float64 may still bring a number back into it
    graph.case = 2
    power = graph.make_node('Clip', [cast(graph, other, float64), const(graph, -2100, float64), const(graph, 2100, float64)])
    half = graph.make_node('Floor', [graph.make_node('Mul', [power, const(graph, 0.5, float64)])])
    once = scaled_by_power(graph, cast(graph, cast(graph, self, dtype), float64), half)
    return cast(graph, scaled_by_power(graph, once, graph.make_node('Sub', [power, half])), dtype)


def aten_logaddexp2(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::logaddexp2(Tensor self, Tensor other) -> Tensor"""
    self, other = promote_values(graph, 'default', [self, other])
    x = opmath(graph, self)
    y = opmath(graph, other)
    high = graph.make_node('Max', [x, y])
    apart = graph.make_node('Neg', [graph.make_node('Abs', [graph.make_node('Sub', [x, y])])])
    over = log1p_of(graph, graph.make_node('Exp', [graph.make_node('Mul', [apart, const_like(graph, 0.6931471805599453, x)])]))
    result = graph.make_node('Add', [high, graph.make_node('Div', [over, const_like(graph, 0.6931471805599453, x)])])
    return cast(graph, graph.make_node('Where', [graph.make_node('Equal', [x, y]), graph.make_node('Add', [high, const_like(graph, 1, high)]), result]), dtype_of(graph, res))


def aten_nextafter(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::nextafter(Tensor self, Tensor other) -> Tensor"""
    self, other = promote_values(graph, 'default', [self, other])
    return neighbour(graph, self, other)


def complex_aten_float_power_Tensor_Tensor(graph: Graph, res: ResultSpec, self: Result, exponent: Result) -> Result:
    """aten::float_power.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor"""
    graph.case = 2
    return c_power(graph, as_complex(graph, self, complex128), as_complex(graph, exponent, complex128))


def complex_aten_isclose(graph: Graph, res: ResultSpec, self: Result, other: Result, rtol: Float = 1e-05, atol: Float = 1e-08, equal_nan: Bool = False) -> Result:
    """aten::isclose(Tensor self, Tensor other, float rtol=1.0000000000000001e-05, float atol=1e-08, bool equal_nan=False) -> Tensor"""
    graph.case = 2
    same = graph.make_node('And', [graph.make_node('Equal', [re(graph, self), re(graph, other)]), graph.make_node('Equal', [im(graph, self), im(graph, other)])])
    lost = graph.make_node('And', [graph.make_node('Or', [graph.make_node('IsNaN', [re(graph, self)]), graph.make_node('IsNaN', [im(graph, self)])]), graph.make_node('Or', [graph.make_node('IsNaN', [re(graph, other)]), graph.make_node('IsNaN', [im(graph, other)])])])
    same = graph.make_node('Or', [same, lost]) if equal_nan else same
    size = c_abs(graph, other)
    bound = graph.make_node('Add', [const_like(graph, atol, size), graph.make_node('Abs', [graph.make_node('Mul', [const_like(graph, rtol, size), size])])])
    off = c_abs(graph, c_add(graph, self, other, -1))
    near = graph.make_node('And', [graph.make_node('Less', [off, const_like(graph, float('inf'), off)]), graph.make_node('LessOrEqual', [off, bound])])
    return same if rtol == 0 and atol == 0 else graph.make_node('Or', [same, near], res.outputs)


def complex_aten_ldexp_Tensor(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::ldexp.Tensor(Tensor self, Tensor other) -> Tensor"""
    dtype = dtype_of(graph, res)
    graph.case = 3
    power = c_power(graph, as_complex(graph, 2.0, dtype), as_complex(graph, other, dtype))
    return c_mul(graph, as_complex(graph, self, dtype), power)


def rule_aten_float_power_Scalar(graph: Graph, self: Scalar, exponent: Result) -> Rules:
    return ((complex128 if is_complex(graph, exponent) else float64, shape_or_none(graph, exponent)),)


def rule_aten_float_power_Tensor_Scalar(graph: Graph, self: Result, exponent: Scalar) -> Rules:
    return ((complex128 if is_complex(graph, self) else float64, shape_or_none(graph, self)),)


def rule_aten_float_power_Tensor_Tensor(graph: Graph, self: Result, exponent: Result) -> Rules:
    return ((complex128 if is_complex(graph, self) or is_complex(graph, exponent) else float64, broadcast(shape_or_none(graph, self), shape_or_none(graph, exponent))),)


def rule_aten_frexp_Tensor(graph: Graph, self: Result) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)), (int32, shape_or_none(graph, self)),)


def rule_aten_gcd(graph: Graph, self: Result, other: Result) -> Rules:
    return ((promoted_dtype(graph, 'default', self, other), broadcast(shape_or_none(graph, self), shape_or_none(graph, other))),)


def rule_aten_isclose(graph: Graph, self: Result, other: Result, rtol: Float = 1e-05, atol: Float = 1e-08, equal_nan: Bool = False) -> Rules:
    return ((boolean, broadcast(shape_or_none(graph, self), shape_or_none(graph, other))),)


def rule_aten_lcm(graph: Graph, self: Result, other: Result) -> Rules:
    return ((promoted_dtype(graph, 'default', self, other), broadcast(shape_or_none(graph, self), shape_or_none(graph, other))),)


def rule_aten_ldexp_Tensor(graph: Graph, self: Result, other: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self, other), broadcast(shape_or_none(graph, self), shape_or_none(graph, other))),)


def rule_aten_logaddexp2(graph: Graph, self: Result, other: Result) -> Rules:
    return ((promoted_dtype(graph, 'default', self, other), broadcast(shape_or_none(graph, self), shape_or_none(graph, other))),)


def rule_aten_nextafter(graph: Graph, self: Result, other: Result) -> Rules:
    return ((promoted_dtype(graph, 'default', self, other), broadcast(shape_or_none(graph, self), shape_or_none(graph, other))),)
