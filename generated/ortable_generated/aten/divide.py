# Generated from specs/aten/divide.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING

from ortable.errors import UnsupportedCase
from ortable.inference import broadcast, promote_to_float
from ortable.lowerings.complex.arithmetic import promote_complex
from ortable.lowerings.pointwise import fmod_of, remainder_of
from ortable.prelude.complex_arithmetic import as_complex, c_div
from ortable.prelude.facts import dtype_of
from ortable.prelude.metadata import dtype_or_none, shape_or_none
from ortable.prelude.pointwise import floor_quotient, trunc_quotient
from ortable.prelude.promotion import in_dtype, opmath_beside, promote_values, promoted_dtype
from ortable.prelude.values import cast, const

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Result, Scalar, Str


def aten_div_Scalar(graph: Graph, res: ResultSpec, self: Result, other: Scalar) -> Result:
    """aten::div.Scalar(Tensor self, Scalar other) -> Tensor"""
    return aten_div_Tensor(graph, res, self=self, other=other)


def aten_div_Scalar_mode(graph: Graph, res: ResultSpec, self: Result, other: Scalar, *, rounding_mode: Str | None) -> Result:
    """aten::div.Scalar_mode(Tensor self, Scalar other, *, str? rounding_mode) -> Tensor"""
    dtype = opmath_beside(graph, other, dtype_of(graph, res))
    if rounding_mode is None:
        graph.case = 1
        return cast(graph, graph.make_node('Div', [in_dtype(graph, self, dtype), const(graph, other, dtype)]), dtype_of(graph, res))
    if rounding_mode == 'floor':
        graph.case = 2
        return cast(graph, floor_quotient(graph, in_dtype(graph, self, dtype), const(graph, other, dtype)), dtype_of(graph, res))
    graph.case = 3
    return cast(graph, trunc_quotient(graph, in_dtype(graph, self, dtype), const(graph, other, dtype)), dtype_of(graph, res))


def aten_div_Tensor(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::div.Tensor(Tensor self, Tensor other) -> Tensor"""
    self, other = promote_values(graph, 'int_to_float', [self, other], other)
    graph.case = 1
    return cast(graph, graph.make_node('Div', [self, other]), dtype_of(graph, res))


def aten_div_Tensor_mode(graph: Graph, res: ResultSpec, self: Result, other: Result, *, rounding_mode: Str | None) -> Result:
    """aten::div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor"""
    dtype = opmath_beside(graph, other, dtype_of(graph, res))
    if rounding_mode is None:
        graph.case = 1
        return cast(graph, graph.make_node('Div', [in_dtype(graph, self, dtype), in_dtype(graph, other, dtype)]), dtype_of(graph, res))
    if rounding_mode == 'floor':
        graph.case = 2
        return cast(graph, floor_quotient(graph, in_dtype(graph, self, dtype), in_dtype(graph, other, dtype)), dtype_of(graph, res))
    graph.case = 3
    return cast(graph, trunc_quotient(graph, in_dtype(graph, self, dtype), in_dtype(graph, other, dtype)), dtype_of(graph, res))


def aten_divide_Tensor(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::divide.Tensor(Tensor self, Tensor other) -> Tensor"""
    return aten_div_Tensor(graph, res, self=self, other=other)


def aten_divide_Tensor_mode(graph: Graph, res: ResultSpec, self: Result, other: Result, *, rounding_mode: Str | None) -> Result:
    """aten::divide.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor"""
    return aten_div_Tensor_mode(graph, res, self=self, other=other, rounding_mode=rounding_mode)


def aten_floor_divide(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::floor_divide(Tensor self, Tensor other) -> Tensor"""
    self, other = promote_values(graph, 'default', [self, other], other)
    return cast(graph, floor_quotient(graph, self, other), dtype_of(graph, res))


def aten_floor_divide_Scalar(graph: Graph, res: ResultSpec, self: Result, other: Scalar) -> Result:
    """aten::floor_divide.Scalar(Tensor self, Scalar other) -> Tensor"""
    return aten_floor_divide(graph, res, self=self, other=other)


def aten_fmod_Scalar(graph: Graph, res: ResultSpec, self: Result, other: Scalar) -> Result:
    """aten::fmod.Scalar(Tensor self, Scalar other) -> Tensor"""
    return aten_fmod_Tensor(graph, res, self=self, other=other)


def aten_fmod_Tensor(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::fmod.Tensor(Tensor self, Tensor other) -> Tensor"""
    self, other = promote_values(graph, 'default', [self, other])
    return fmod_of(graph, self, other)


def aten_remainder_Scalar(graph: Graph, res: ResultSpec, self: Result, other: Scalar) -> Result:
    """aten::remainder.Scalar(Tensor self, Scalar other) -> Tensor"""
    return aten_remainder_Tensor(graph, res, self=self, other=other)


def aten_remainder_Scalar_Tensor(graph: Graph, res: ResultSpec, self: Scalar, other: Result) -> Result:
    """aten::remainder.Scalar_Tensor(Scalar self, Tensor other) -> Tensor"""
    return aten_remainder_Tensor(graph, res, self=self, other=other)


def aten_remainder_Tensor(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::remainder.Tensor(Tensor self, Tensor other) -> Tensor"""
    self, other = promote_values(graph, 'default', [self, other])
    return remainder_of(graph, self, other)


def aten_true_divide_Scalar(graph: Graph, res: ResultSpec, self: Result, other: Scalar) -> Result:
    """aten::true_divide.Scalar(Tensor self, Scalar other) -> Tensor"""
    return aten_div_Tensor(graph, res, self=self, other=other)


def aten_true_divide_Tensor(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::true_divide.Tensor(Tensor self, Tensor other) -> Tensor"""
    return aten_div_Tensor(graph, res, self=self, other=other)


def complex_aten_div_Scalar(graph: Graph, res: ResultSpec, self: Result, other: Scalar) -> Result:
    """aten::div.Scalar(Tensor self, Scalar other) -> Tensor"""
    return complex_aten_div_Tensor(graph, res, self=self, other=other)


def complex_aten_div_Scalar_mode(graph: Graph, res: ResultSpec, self: Result, other: Scalar, *, rounding_mode: Str | None) -> Result:
    """aten::div.Scalar_mode(Tensor self, Scalar other, *, str? rounding_mode) -> Tensor"""
    dtype = opmath_beside(graph, other, dtype_of(graph, res))
    if rounding_mode is None:
        graph.case = 4
        dtype = dtype_of(graph, res)
        return c_div(graph, as_complex(graph, self, dtype), as_complex(graph, other, dtype))
    graph.case = 5
    raise UnsupportedCase('aten::div.Scalar_mode: torch rounds no complex quotient')


def complex_aten_div_Tensor(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::div.Tensor(Tensor self, Tensor other) -> Tensor"""
    self, other = promote_complex(graph, 'int_to_float', [self, other], other)
    graph.case = 2
    return c_div(graph, self, other)


def complex_aten_div_Tensor_mode(graph: Graph, res: ResultSpec, self: Result, other: Result, *, rounding_mode: Str | None) -> Result:
    """aten::div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor"""
    dtype = opmath_beside(graph, other, dtype_of(graph, res))
    if rounding_mode is None:
        graph.case = 4
        dtype = dtype_of(graph, res)
        return c_div(graph, as_complex(graph, self, dtype), as_complex(graph, other, dtype))
    graph.case = 5
    raise UnsupportedCase('aten::div.Tensor_mode: torch rounds no complex quotient')


def complex_aten_divide_Tensor(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::divide.Tensor(Tensor self, Tensor other) -> Tensor"""
    return complex_aten_div_Tensor(graph, res, self=self, other=other)


def complex_aten_divide_Tensor_mode(graph: Graph, res: ResultSpec, self: Result, other: Result, *, rounding_mode: Str | None) -> Result:
    """aten::divide.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor"""
    return complex_aten_div_Tensor_mode(graph, res, self=self, other=other, rounding_mode=rounding_mode)


def complex_aten_true_divide_Scalar(graph: Graph, res: ResultSpec, self: Result, other: Scalar) -> Result:
    """aten::true_divide.Scalar(Tensor self, Scalar other) -> Tensor"""
    return complex_aten_div_Tensor(graph, res, self=self, other=other)


def complex_aten_true_divide_Tensor(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::true_divide.Tensor(Tensor self, Tensor other) -> Tensor"""
    return complex_aten_div_Tensor(graph, res, self=self, other=other)


def rule_aten_div_Scalar(graph: Graph, self: Result, other: Scalar) -> Rules:
    return rule_aten_div_Tensor(graph, self=self, other=other)


def rule_aten_div_Scalar_mode(graph: Graph, self: Result, other: Scalar, *, rounding_mode: Str | None) -> Rules:
    return ((promoted_dtype(graph, 'default', self, other) if rounding_mode else promote_to_float(dtype_or_none(graph, self)), shape_or_none(graph, self)),)


def rule_aten_div_Tensor(graph: Graph, self: Result, other: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self, other), broadcast(shape_or_none(graph, self), shape_or_none(graph, other))),)


def rule_aten_div_Tensor_mode(graph: Graph, self: Result, other: Result, *, rounding_mode: Str | None) -> Rules:
    return ((promoted_dtype(graph, 'default', self, other) if rounding_mode else promoted_dtype(graph, 'int_to_float', self, other), broadcast(shape_or_none(graph, self), shape_or_none(graph, other))),)


def rule_aten_divide_Tensor(graph: Graph, self: Result, other: Result) -> Rules:
    return rule_aten_div_Tensor(graph, self=self, other=other)


def rule_aten_divide_Tensor_mode(graph: Graph, self: Result, other: Result, *, rounding_mode: Str | None) -> Rules:
    return rule_aten_div_Tensor_mode(graph, self=self, other=other, rounding_mode=rounding_mode)


def rule_aten_floor_divide(graph: Graph, self: Result, other: Result) -> Rules:
    return ((promoted_dtype(graph, 'default', self, other), broadcast(shape_or_none(graph, self), shape_or_none(graph, other))),)


def rule_aten_floor_divide_Scalar(graph: Graph, self: Result, other: Scalar) -> Rules:
    return rule_aten_floor_divide(graph, self=self, other=other)


def rule_aten_fmod_Scalar(graph: Graph, self: Result, other: Scalar) -> Rules:
    return rule_aten_fmod_Tensor(graph, self=self, other=other)


def rule_aten_fmod_Tensor(graph: Graph, self: Result, other: Result) -> Rules:
    return ((promoted_dtype(graph, 'default', self, other), broadcast(shape_or_none(graph, self), shape_or_none(graph, other))),)


def rule_aten_remainder_Scalar(graph: Graph, self: Result, other: Scalar) -> Rules:
    return rule_aten_remainder_Tensor(graph, self=self, other=other)


def rule_aten_remainder_Scalar_Tensor(graph: Graph, self: Scalar, other: Result) -> Rules:
    return rule_aten_remainder_Tensor(graph, self=self, other=other)


def rule_aten_remainder_Tensor(graph: Graph, self: Result, other: Result) -> Rules:
    return ((promoted_dtype(graph, 'default', self, other), broadcast(shape_or_none(graph, self), shape_or_none(graph, other))),)


def rule_aten_true_divide_Scalar(graph: Graph, self: Result, other: Scalar) -> Rules:
    return rule_aten_div_Tensor(graph, self=self, other=other)


def rule_aten_true_divide_Tensor(graph: Graph, self: Result, other: Result) -> Rules:
    return rule_aten_div_Tensor(graph, self=self, other=other)
