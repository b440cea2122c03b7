# Generated from specs/aten/predicates.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING

from ortable.dtypes import boolean, int64
from ortable.lowerings.complex.parts import each_part
from ortable.lowerings.float_parts import largest_finite
from ortable.prelude.complex_arithmetic import c_abs, c_where, complex_of, im, re
from ortable.prelude.facts import dtype_of, is_bool, is_float
from ortable.prelude.metadata import dtype_or_none, shape_or_none
from ortable.prelude.pointwise import const_like, filled_like, is_sign_set
from ortable.prelude.values import cast

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Float, Result


def aten_isfinite(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::isfinite(Tensor self) -> Tensor"""
    if is_float(graph, self):
        graph.case = 1
        return graph.make_node('Less', [graph.make_node('Abs', [self]), const_like(graph, float('inf'), self)], res.outputs)
    graph.case = 2
    return filled_like(graph, self, True, boolean)


def aten_isinf(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::isinf(Tensor self) -> Tensor"""
    graph.case = 1
    return graph.make_node('IsInf', [self], res.outputs) if is_float(graph, self) else filled_like(graph, self, False, boolean)


def aten_isnan(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::isnan(Tensor self) -> Tensor"""
    graph.case = 1
    return graph.make_node('IsNaN', [self], res.outputs) if is_float(graph, self) else filled_like(graph, self, False, boolean)


def aten_isneginf(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::isneginf(Tensor self) -> Tensor"""
    if is_float(graph, self):
        graph.case = 1
        return graph.make_node('Equal', [self, const_like(graph, -float('inf'), self)], res.outputs)
    graph.case = 2
    return filled_like(graph, self, False, boolean)


def aten_isposinf(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::isposinf(Tensor self) -> Tensor"""
    if is_float(graph, self):
        graph.case = 1
        return graph.make_node('Equal', [self, const_like(graph, float('inf'), self)], res.outputs)
    graph.case = 2
    return filled_like(graph, self, False, boolean)


def aten_nan_to_num(graph: Graph, res: ResultSpec, self: Result, nan: Float | None = None, posinf: Float | None = None, neginf: Float | None = None) -> Result:
    """aten::nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor"""
    if not is_float(graph, self):
        graph.case = 1
        return self
    graph.case = 2
    largest = largest_finite(dtype_of(graph, self))
    top = const_like(graph, posinf if posinf is not None else largest, self)
    bottom = const_like(graph, neginf if neginf is not None else -largest, self)
    number = const_like(graph, nan if nan is not None else 0.0, self)
    finite = graph.make_node('Where', [graph.make_node('IsNaN', [self]), number, self])
    capped = graph.make_node('Where', [graph.make_node('Equal', [self, const_like(graph, float('inf'), self)]), top, finite])
    return graph.make_node('Where', [graph.make_node('Equal', [self, const_like(graph, -float('inf'), self)]), bottom, capped], res.outputs)


def aten_sgn(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::sgn(Tensor self) -> Tensor"""
    return aten_sign(graph, res, self=self)


def aten_sign(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::sign(Tensor self) -> Tensor"""
    if is_bool(graph, self):
        graph.case = 1
        return self
    if is_float(graph, self) or dtype_of(graph, self) == int64:
        # torch's sign of NaN is 0; ONNX Runtime before 1.32 reads the lower half of an int64
        graph.case = 2
        zero = const_like(graph, 0, self)
        above = cast(graph, graph.make_node('Greater', [self, zero]), dtype_of(graph, self))
        return graph.make_node('Sub', [above, cast(graph, graph.make_node('Less', [self, zero]), dtype_of(graph, self))], res.outputs)
    graph.case = 3
    return graph.make_node('Sign', [self], res.outputs)


def aten_signbit(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::signbit(Tensor self) -> Tensor"""
    if is_bool(graph, self):
        graph.case = 1
        return filled_like(graph, self, False, boolean)
    graph.case = 2
    return is_sign_set(graph, self)


def complex_aten_isfinite(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::isfinite(Tensor self) -> Tensor"""
    graph.case = 3
    top = const_like(graph, float('inf'), re(graph, self))
    return graph.make_node('And', [graph.make_node('Less', [graph.make_node('Abs', [re(graph, self)]), top]), graph.make_node('Less', [graph.make_node('Abs', [im(graph, self)]), top])], res.outputs)


def complex_aten_isinf(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::isinf(Tensor self) -> Tensor"""
    graph.case = 2
    return graph.make_node('Or', [graph.make_node('IsInf', [re(graph, self)]), graph.make_node('IsInf', [im(graph, self)])], res.outputs)


def complex_aten_isnan(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::isnan(Tensor self) -> Tensor"""
    graph.case = 2
    return graph.make_node('Or', [graph.make_node('IsNaN', [re(graph, self)]), graph.make_node('IsNaN', [im(graph, self)])], res.outputs)


def complex_aten_nan_to_num(graph: Graph, res: ResultSpec, self: Result, nan: Float | None = None, posinf: Float | None = None, neginf: Float | None = None) -> Result:
    """aten::nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor"""
    return each_part(graph, res, aten_nan_to_num, {'self': self}, nan=nan, posinf=posinf, neginf=neginf)


def complex_aten_sgn(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::sgn(Tensor self) -> Tensor"""
    return complex_aten_sign(graph, res, self=self)


def complex_aten_sign(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::sign(Tensor self) -> Tensor"""
    # only sgn takes complex tensors, which it scales to length 1
    graph.case = 4
    size = c_abs(graph, self)
    zero = graph.make_node('Equal', [size, const_like(graph, 0, size)])
    return c_where(graph, zero, self, complex_of(graph, graph.make_node('Div', [re(graph, self), size]), graph.make_node('Div', [im(graph, self), size])))


def rule_aten_isfinite(graph: Graph, self: Result) -> Rules:
    return ((boolean, shape_or_none(graph, self)),)


def rule_aten_isinf(graph: Graph, self: Result) -> Rules:
    return ((boolean, shape_or_none(graph, self)),)


def rule_aten_isnan(graph: Graph, self: Result) -> Rules:
    return ((boolean, shape_or_none(graph, self)),)


def rule_aten_isneginf(graph: Graph, self: Result) -> Rules:
    return ((boolean, shape_or_none(graph, self)),)


def rule_aten_isposinf(graph: Graph, self: Result) -> Rules:
    return ((boolean, shape_or_none(graph, self)),)


def rule_aten_nan_to_num(graph: Graph, self: Result, nan: Float | None = None, posinf: Float | None = None, neginf: Float | None = None) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_sgn(graph: Graph, self: Result) -> Rules:
    return rule_aten_sign(graph, self=self)


def rule_aten_sign(graph: Graph, self: Result) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_signbit(graph: Graph, self: Result) -> Rules:
    return ((boolean, shape_or_none(graph, self)),)
