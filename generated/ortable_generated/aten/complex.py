# Generated from specs/aten/complex.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING

from ortable.dtypes import boolean, int64
from ortable.inference import broadcast, keep_leading
from ortable.lowerings.complex.arithmetic import promote_complex
from ortable.lowerings.complex.parts import each_part
from ortable.prelude.complex_arithmetic import c_conj, complex_of, im, re
from ortable.prelude.complex_value import complex_type, part_type
from ortable.prelude.facts import is_complex, rank_of
from ortable.prelude.metadata import dtype_or_none, shape_or_none
from ortable.prelude.pointwise import atan2_of, const_like, filled_like
from ortable.prelude.promotion import promote_values, promoted_dtype
from ortable.prelude.values import const, consts

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Result


def aten__conj_physical(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::_conj_physical(Tensor self) -> Tensor"""
    graph.case = 1
    return self


def aten__neg_view(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::_neg_view(Tensor(a) self) -> Tensor(a)"""
    return graph.make_node('Neg', [self], res.outputs)


def aten__neg_view_copy(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::_neg_view_copy(Tensor self) -> Tensor"""
    return aten__neg_view(graph, res, self=self)


def aten_angle(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::angle(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    graph.case = 1
    zero = const_like(graph, 0, self)
    side = graph.make_node('Where', [graph.make_node('Less', [self, zero]), const_like(graph, 3.141592653589793, self), zero])
    return graph.make_node('Where', [graph.make_node('IsNaN', [self]), self, side], res.outputs)


def aten_conj(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::conj(Tensor(a) self) -> Tensor(a)"""
    graph.case = 1
    return self


def aten_conj_physical(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::conj_physical(Tensor self) -> Tensor"""
    return aten_conj(graph, res, self=self)


def aten_isreal(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::isreal(Tensor self) -> Tensor"""
    graph.case = 1
    return filled_like(graph, self, True, boolean)


def aten_real(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::real(Tensor(a) self) -> Tensor(a)"""
    graph.case = 1
    return self


def aten_resolve_conj(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::resolve_conj(Tensor(a) self) -> Tensor(a)"""
    return self


def aten_resolve_neg(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::resolve_neg(Tensor(a) self) -> Tensor(a)"""
    return aten_resolve_conj(graph, res, self=self)


def complex_aten__conj(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::_conj(Tensor(a) self) -> Tensor(a)"""
    return c_conj(graph, self)


def complex_aten__conj_copy(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::_conj_copy(Tensor self) -> Tensor"""
    return complex_aten__conj(graph, res, self=self)


def complex_aten__conj_physical(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::_conj_physical(Tensor self) -> Tensor"""
    graph.case = 2
    return c_conj(graph, self)


def complex_aten__neg_view(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::_neg_view(Tensor(a) self) -> Tensor(a)"""
    return each_part(graph, res, aten__neg_view, {'self': self})


def complex_aten__neg_view_copy(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::_neg_view_copy(Tensor self) -> Tensor"""
    return complex_aten__neg_view(graph, res, self=self)


def complex_aten_angle(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::angle(Tensor self) -> Tensor"""
    self, = promote_complex(graph, 'int_to_float', [self])
    graph.case = 2
    return atan2_of(graph, im(graph, self), re(graph, self))


def complex_aten_complex(graph: Graph, res: ResultSpec, real: Result, imag: Result) -> Result:
    """aten::complex(Tensor real, Tensor imag) -> Tensor"""
    return complex_of(graph, re(graph, real), re(graph, imag))


def complex_aten_conj(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::conj(Tensor(a) self) -> Tensor(a)"""
    graph.case = 2
    return c_conj(graph, self)


def complex_aten_conj_physical(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::conj_physical(Tensor self) -> Tensor"""
    return complex_aten_conj(graph, res, self=self)


def complex_aten_imag(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::imag(Tensor(a) self) -> Tensor(a)"""
    return im(graph, self)


def complex_aten_isreal(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::isreal(Tensor self) -> Tensor"""
    graph.case = 2
    return graph.make_node('Equal', [im(graph, self), const_like(graph, 0, im(graph, self))], res.outputs)


def complex_aten_polar(graph: Graph, res: ResultSpec, abs: Result, angle: Result) -> Result:
    """aten::polar(Tensor abs, Tensor angle) -> Tensor"""
    return complex_of(graph, graph.make_node('Mul', [re(graph, abs), graph.make_node('Cos', [re(graph, angle)])]), graph.make_node('Mul', [re(graph, abs), graph.make_node('Sin', [re(graph, angle)])]))


def complex_aten_real(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::real(Tensor(a) self) -> Tensor(a)"""
    graph.case = 2
    return re(graph, self)


def complex_aten_resolve_conj(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::resolve_conj(Tensor(a) self) -> Tensor(a)"""
    return each_part(graph, res, aten_resolve_conj, {'self': self})


def complex_aten_resolve_neg(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::resolve_neg(Tensor(a) self) -> Tensor(a)"""
    return complex_aten_resolve_conj(graph, res, self=self)


def complex_aten_view_as_complex(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::view_as_complex(Tensor(a) self) -> Tensor(a)"""
    x = re(graph, self)
    return complex_of(graph, graph.make_node('Gather', [x, const(graph, 0, int64)], axis=-1), graph.make_node('Gather', [x, const(graph, 1, int64)], axis=-1))


def complex_aten_view_as_complex_copy(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::view_as_complex_copy(Tensor self) -> Tensor"""
    return complex_aten_view_as_complex(graph, res, self=self)


def complex_aten_view_as_real(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::view_as_real(Tensor(a) self) -> Tensor(a)"""
    last = consts(graph, [-1], int64)
    return graph.make_node('Concat', [graph.make_node('Unsqueeze', [re(graph, self), last]), graph.make_node('Unsqueeze', [im(graph, self), last])], res.outputs, axis=-1)


def complex_aten_view_as_real_copy(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::view_as_real_copy(Tensor self) -> Tensor"""
    return complex_aten_view_as_real(graph, res, self=self)


def rule_aten__conj(graph: Graph, self: Result) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten__conj_copy(graph: Graph, self: Result) -> Rules:
    return rule_aten__conj(graph, self=self)


def rule_aten__conj_physical(graph: Graph, self: Result) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten__neg_view(graph: Graph, self: Result) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten__neg_view_copy(graph: Graph, self: Result) -> Rules:
    return rule_aten__neg_view(graph, self=self)


def rule_aten_angle(graph: Graph, self: Result) -> Rules:
    return ((part_type(dtype_or_none(graph, self)) if is_complex(graph, self) else promoted_dtype(graph, 'int_to_float', self), shape_or_none(graph, self)),)


def rule_aten_complex(graph: Graph, real: Result, imag: Result) -> Rules:
    return ((complex_type(dtype_or_none(graph, real)), broadcast(shape_or_none(graph, real), shape_or_none(graph, imag))),)


def rule_aten_conj(graph: Graph, self: Result) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_conj_physical(graph: Graph, self: Result) -> Rules:
    return rule_aten_conj(graph, self=self)


def rule_aten_imag(graph: Graph, self: Result) -> Rules:
    return ((part_type(dtype_or_none(graph, self)), shape_or_none(graph, self)),)


def rule_aten_isreal(graph: Graph, self: Result) -> Rules:
    return ((boolean, shape_or_none(graph, self)),)


def rule_aten_polar(graph: Graph, abs: Result, angle: Result) -> Rules:
    return ((complex_type(dtype_or_none(graph, abs)), broadcast(shape_or_none(graph, abs), shape_or_none(graph, angle))),)


def rule_aten_real(graph: Graph, self: Result) -> Rules:
    return ((part_type(dtype_or_none(graph, self)), shape_or_none(graph, self)),)


def rule_aten_resolve_conj(graph: Graph, self: Result) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_resolve_neg(graph: Graph, self: Result) -> Rules:
    return rule_aten_resolve_conj(graph, self=self)


def rule_aten_view_as_complex(graph: Graph, self: Result) -> Rules:
    return ((complex_type(dtype_or_none(graph, self)), keep_leading(shape_or_none(graph, self), rank_of(graph, self) - 1, ())),)


def rule_aten_view_as_complex_copy(graph: Graph, self: Result) -> Rules:
    return rule_aten_view_as_complex(graph, self=self)


def rule_aten_view_as_real(graph: Graph, self: Result) -> Rules:
    return ((part_type(dtype_or_none(graph, self)), keep_leading(shape_or_none(graph, self), rank_of(graph, self), (2,))),)


def rule_aten_view_as_real_copy(graph: Graph, self: Result) -> Rules:
    return rule_aten_view_as_real(graph, self=self)
