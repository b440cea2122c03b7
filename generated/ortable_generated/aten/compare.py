# Generated from specs/aten/compare.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING

from ortable.dtypes import boolean, int64
from ortable.inference import broadcast
from ortable.lowerings.complex.arithmetic import promote_complex
from ortable.lowerings.complex.parts import each_part
from ortable.lowerings.pointwise import is_nan
from ortable.prelude.complex_arithmetic import im, re
from ortable.prelude.facts import dtype_of, is_bool, is_float
from ortable.prelude.metadata import dtype_or_none, shape_or_none
from ortable.prelude.pointwise import const_like, larger_of, smaller_of
from ortable.prelude.promotion import in_dtype, promote_values, promoted_dtype
from ortable.prelude.values import cast, const

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Result, Scalar


def aten_clamp(graph: Graph, res: ResultSpec, self: Result, min: Scalar | None = None, max: Scalar | None = None) -> Result:
    """aten::clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor"""
    self, min, max = promote_values(graph, 'default', [self, min, max])
    if is_nan(graph, min) or is_nan(graph, max):
        # torch makes everything NaN, Clip has no bound then
        graph.case = 1
        raised = larger_of(graph, self, min) if min is not None else self
        return smaller_of(graph, raised, max) if max is not None else raised
    if is_float(graph, self):
        # a bound that is left out is the largest finite number, also for infinities
        graph.case = 2
        low = const(graph, -float('inf'), dtype_of(graph, self)) if min is None else min
        high = const(graph, float('inf'), dtype_of(graph, self)) if max is None else max
        return graph.make_node('Clip', [self, low, high], res.outputs)
    if dtype_of(graph, self) != int64:
        graph.case = 3
        return graph.make_node('Clip', [self, min, max], res.outputs)
    graph.case = 4
    raised = larger_of(graph, self, min) if min is not None else self
    return smaller_of(graph, raised, max) if max is not None else raised


def aten_clamp_Tensor(graph: Graph, res: ResultSpec, self: Result, min: Result | None = None, max: Result | None = None) -> Result:
    """aten::clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor"""
    self, min, max = promote_values(graph, 'default', [self, min, max])
    raised = larger_of(graph, self, min) if min is not None else self
    return smaller_of(graph, raised, max) if max is not None else raised


def aten_clamp_max(graph: Graph, res: ResultSpec, self: Result, max: Scalar) -> Result:
    """aten::clamp_max(Tensor self, Scalar max) -> Tensor"""
    return aten_clamp(graph, res, self=self, max=max)


def aten_clamp_max_Tensor(graph: Graph, res: ResultSpec, self: Result, max: Result) -> Result:
    """aten::clamp_max.Tensor(Tensor self, Tensor max) -> Tensor"""
    return aten_minimum(graph, res, self=self, other=max)


def aten_clamp_min(graph: Graph, res: ResultSpec, self: Result, min: Scalar) -> Result:
    """aten::clamp_min(Tensor self, Scalar min) -> Tensor"""
    return aten_clamp(graph, res, self=self, min=min)


def aten_clamp_min_Tensor(graph: Graph, res: ResultSpec, self: Result, min: Result) -> Result:
    """aten::clamp_min.Tensor(Tensor self, Tensor min) -> Tensor"""
    return aten_maximum(graph, res, self=self, other=min)


def aten_clip(graph: Graph, res: ResultSpec, self: Result, min: Scalar | None = None, max: Scalar | None = None) -> Result:
    """aten::clip(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor"""
    return aten_clamp(graph, res, self=self, min=min, max=max)


def aten_clip_Tensor(graph: Graph, res: ResultSpec, self: Result, min: Result | None = None, max: Result | None = None) -> Result:
    """aten::clip.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor"""
    return aten_clamp_Tensor(graph, res, self=self, min=min, max=max)


def aten_eq_Scalar(graph: Graph, res: ResultSpec, self: Result, other: Scalar) -> Result:
    """aten::eq.Scalar(Tensor self, Scalar other) -> Tensor"""
    self, other = promote_values(graph, 'always_bool', [self, other])
    graph.case = 1
    return graph.make_node('Equal', [self, other], res.outputs)


def aten_eq_Tensor(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::eq.Tensor(Tensor self, Tensor other) -> Tensor"""
    self, other = promote_values(graph, 'always_bool', [self, other])
    graph.case = 1
    return graph.make_node('Equal', [self, other], res.outputs)


def aten_fmax(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::fmax(Tensor self, Tensor other) -> Tensor"""
    self, other = promote_values(graph, 'default', [self, other])
    if is_float(graph, res):
        graph.case = 1
        best = graph.make_node('Where', [graph.make_node('IsNaN', [other]), self, graph.make_node('Max', [self, other])])
        return graph.make_node('Where', [graph.make_node('IsNaN', [self]), other, best], res.outputs)
    graph.case = 2
    return larger_of(graph, self, other)


def aten_fmin(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::fmin(Tensor self, Tensor other) -> Tensor"""
    self, other = promote_values(graph, 'default', [self, other])
    if is_float(graph, res):
        graph.case = 1
        best = graph.make_node('Where', [graph.make_node('IsNaN', [other]), self, graph.make_node('Min', [self, other])])
        return graph.make_node('Where', [graph.make_node('IsNaN', [self]), other, best], res.outputs)
    graph.case = 2
    return smaller_of(graph, self, other)


def aten_ge_Scalar(graph: Graph, res: ResultSpec, self: Result, other: Scalar) -> Result:
    """aten::ge.Scalar(Tensor self, Scalar other) -> Tensor"""
    self, other = promote_values(graph, 'always_bool', [self, other])
    return graph.make_node('Or', [self, graph.make_node('Not', [other])], res.outputs) if is_bool(graph, self) else graph.make_node('GreaterOrEqual', [self, other], res.outputs)


def aten_ge_Tensor(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::ge.Tensor(Tensor self, Tensor other) -> Tensor"""
    self, other = promote_values(graph, 'always_bool', [self, other])
    return graph.make_node('Or', [self, graph.make_node('Not', [other])], res.outputs) if is_bool(graph, self) else graph.make_node('GreaterOrEqual', [self, other], res.outputs)


def aten_gt_Scalar(graph: Graph, res: ResultSpec, self: Result, other: Scalar) -> Result:
    """aten::gt.Scalar(Tensor self, Scalar other) -> Tensor"""
    self, other = promote_values(graph, 'always_bool', [self, other])
    return graph.make_node('And', [self, graph.make_node('Not', [other])], res.outputs) if is_bool(graph, self) else graph.make_node('Greater', [self, other], res.outputs)


def aten_gt_Tensor(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::gt.Tensor(Tensor self, Tensor other) -> Tensor"""
    self, other = promote_values(graph, 'always_bool', [self, other])
    return graph.make_node('And', [self, graph.make_node('Not', [other])], res.outputs) if is_bool(graph, self) else graph.make_node('Greater', [self, other], res.outputs)


def aten_le_Scalar(graph: Graph, res: ResultSpec, self: Result, other: Scalar) -> Result:
    """aten::le.Scalar(Tensor self, Scalar other) -> Tensor"""
    self, other = promote_values(graph, 'always_bool', [self, other])
    return graph.make_node('Or', [graph.make_node('Not', [self]), other], res.outputs) if is_bool(graph, self) else graph.make_node('LessOrEqual', [self, other], res.outputs)


def aten_le_Tensor(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::le.Tensor(Tensor self, Tensor other) -> Tensor"""
    self, other = promote_values(graph, 'always_bool', [self, other])
    return graph.make_node('Or', [graph.make_node('Not', [self]), other], res.outputs) if is_bool(graph, self) else graph.make_node('LessOrEqual', [self, other], res.outputs)


def aten_lt_Scalar(graph: Graph, res: ResultSpec, self: Result, other: Scalar) -> Result:
    """aten::lt.Scalar(Tensor self, Scalar other) -> Tensor"""
    self, other = promote_values(graph, 'always_bool', [self, other])
    return graph.make_node('And', [graph.make_node('Not', [self]), other], res.outputs) if is_bool(graph, self) else graph.make_node('Less', [self, other], res.outputs)


def aten_lt_Tensor(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::lt.Tensor(Tensor self, Tensor other) -> Tensor"""
    self, other = promote_values(graph, 'always_bool', [self, other])
    return graph.make_node('And', [graph.make_node('Not', [self]), other], res.outputs) if is_bool(graph, self) else graph.make_node('Less', [self, other], res.outputs)


def aten_masked_fill_Scalar(graph: Graph, res: ResultSpec, self: Result, mask: Result, value: Scalar) -> Result:
    """aten::masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor"""
    return graph.make_node('Where', [mask, const_like(graph, value, self), self], res.outputs)


def aten_masked_fill_Tensor(graph: Graph, res: ResultSpec, self: Result, mask: Result, value: Result) -> Result:
    """aten::masked_fill.Tensor(Tensor self, Tensor mask, Tensor value) -> Tensor"""
    return graph.make_node('Where', [mask, in_dtype(graph, value, dtype_of(graph, self)), self], res.outputs)


def aten_maximum(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::maximum(Tensor self, Tensor other) -> Tensor"""
    self, other = promote_values(graph, 'default', [self, other])
    if dtype_of(graph, res) == boolean:
        graph.case = 1
        return graph.make_node('Or', [self, other], res.outputs)
    graph.case = 2
    return larger_of(graph, self, other)


def aten_minimum(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::minimum(Tensor self, Tensor other) -> Tensor"""
    self, other = promote_values(graph, 'default', [self, other])
    if dtype_of(graph, res) == boolean:
        graph.case = 1
        return graph.make_node('And', [self, other], res.outputs)
    graph.case = 2
    return smaller_of(graph, self, other)


def aten_ne_Scalar(graph: Graph, res: ResultSpec, self: Result, other: Scalar) -> Result:
    """aten::ne.Scalar(Tensor self, Scalar other) -> Tensor"""
    self, other = promote_values(graph, 'always_bool', [self, other])
    graph.case = 1
    return graph.make_node('Not', [graph.make_node('Equal', [self, other])], res.outputs)


def aten_ne_Tensor(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::ne.Tensor(Tensor self, Tensor other) -> Tensor"""
    self, other = promote_values(graph, 'always_bool', [self, other])
    graph.case = 1
    return graph.make_node('Not', [graph.make_node('Equal', [self, other])], res.outputs)


def aten_where_Scalar(graph: Graph, res: ResultSpec, condition: Result, self: Scalar, other: Scalar) -> Result:
    """aten::where.Scalar(Tensor condition, Scalar self, Scalar other) -> Tensor"""
    return aten_where_self(graph, res, condition=condition, self=self, other=other)


def aten_where_ScalarOther(graph: Graph, res: ResultSpec, condition: Result, self: Result, other: Scalar) -> Result:
    """aten::where.ScalarOther(Tensor condition, Tensor self, Scalar other) -> Tensor"""
    return aten_where_self(graph, res, condition=condition, self=self, other=other)


def aten_where_ScalarSelf(graph: Graph, res: ResultSpec, condition: Result, self: Scalar, other: Result) -> Result:
    """aten::where.ScalarSelf(Tensor condition, Scalar self, Tensor other) -> Tensor"""
    return aten_where_self(graph, res, condition=condition, self=self, other=other)


def aten_where_self(graph: Graph, res: ResultSpec, condition: Result, self: Result, other: Result) -> Result:
    """aten::where.self(Tensor condition, Tensor self, Tensor other) -> Tensor"""
    self, other = promote_values(graph, 'no_opmath', [self, other])
    return graph.make_node('Where', [cast(graph, condition, boolean), self, other], res.outputs)


def complex_aten_eq_Scalar(graph: Graph, res: ResultSpec, self: Result, other: Scalar) -> Result:
    """aten::eq.Scalar(Tensor self, Scalar other) -> Tensor"""
    self, other = promote_complex(graph, 'always_bool', [self, other])
    graph.case = 2
    return graph.make_node('And', [graph.make_node('Equal', [re(graph, self), re(graph, other)]), graph.make_node('Equal', [im(graph, self), im(graph, other)])], res.outputs)


def complex_aten_eq_Tensor(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::eq.Tensor(Tensor self, Tensor other) -> Tensor"""
    self, other = promote_complex(graph, 'always_bool', [self, other])
    graph.case = 2
    return graph.make_node('And', [graph.make_node('Equal', [re(graph, self), re(graph, other)]), graph.make_node('Equal', [im(graph, self), im(graph, other)])], res.outputs)


def complex_aten_masked_fill_Scalar(graph: Graph, res: ResultSpec, self: Result, mask: Result, value: Scalar) -> Result:
    """aten::masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor"""
    return each_part(graph, res, aten_masked_fill_Scalar, {'self': self, 'value': value}, mask=mask)


def complex_aten_masked_fill_Tensor(graph: Graph, res: ResultSpec, self: Result, mask: Result, value: Result) -> Result:
    """aten::masked_fill.Tensor(Tensor self, Tensor mask, Tensor value) -> Tensor"""
    return each_part(graph, res, aten_masked_fill_Tensor, {'self': self, 'value': value}, mask=mask)


def complex_aten_ne_Scalar(graph: Graph, res: ResultSpec, self: Result, other: Scalar) -> Result:
    """aten::ne.Scalar(Tensor self, Scalar other) -> Tensor"""
    self, other = promote_complex(graph, 'always_bool', [self, other])
    graph.case = 2
    return graph.make_node('Not', [graph.make_node('And', [graph.make_node('Equal', [re(graph, self), re(graph, other)]), graph.make_node('Equal', [im(graph, self), im(graph, other)])])], res.outputs)


def complex_aten_ne_Tensor(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::ne.Tensor(Tensor self, Tensor other) -> Tensor"""
    self, other = promote_complex(graph, 'always_bool', [self, other])
    graph.case = 2
    return graph.make_node('Not', [graph.make_node('And', [graph.make_node('Equal', [re(graph, self), re(graph, other)]), graph.make_node('Equal', [im(graph, self), im(graph, other)])])], res.outputs)


def complex_aten_where_Scalar(graph: Graph, res: ResultSpec, condition: Result, self: Scalar, other: Scalar) -> Result:
    """aten::where.Scalar(Tensor condition, Scalar self, Scalar other) -> Tensor"""
    return complex_aten_where_self(graph, res, condition=condition, self=self, other=other)


def complex_aten_where_ScalarOther(graph: Graph, res: ResultSpec, condition: Result, self: Result, other: Scalar) -> Result:
    """aten::where.ScalarOther(Tensor condition, Tensor self, Scalar other) -> Tensor"""
    return complex_aten_where_self(graph, res, condition=condition, self=self, other=other)


def complex_aten_where_ScalarSelf(graph: Graph, res: ResultSpec, condition: Result, self: Scalar, other: Result) -> Result:
    """aten::where.ScalarSelf(Tensor condition, Scalar self, Tensor other) -> Tensor"""
    return complex_aten_where_self(graph, res, condition=condition, self=self, other=other)


def complex_aten_where_self(graph: Graph, res: ResultSpec, condition: Result, self: Result, other: Result) -> Result:
    """aten::where.self(Tensor condition, Tensor self, Tensor other) -> Tensor"""
    return each_part(graph, res, aten_where_self, {'self': self, 'other': other}, condition=condition)


def rule_aten_clamp(graph: Graph, self: Result, min: Scalar | None = None, max: Scalar | None = None) -> Rules:
    return ((promoted_dtype(graph, 'default', self, min, max), shape_or_none(graph, self)),)


def rule_aten_clamp_Tensor(graph: Graph, self: Result, min: Result | None = None, max: Result | None = None) -> Rules:
    return ((promoted_dtype(graph, 'default', self, min, max), None),)


def rule_aten_clamp_max(graph: Graph, self: Result, max: Scalar) -> Rules:
    return rule_aten_clamp(graph, self=self, max=max)


def rule_aten_clamp_max_Tensor(graph: Graph, self: Result, max: Result) -> Rules:
    return rule_aten_minimum(graph, self=self, other=max)


def rule_aten_clamp_min(graph: Graph, self: Result, min: Scalar) -> Rules:
    return rule_aten_clamp(graph, self=self, min=min)


def rule_aten_clamp_min_Tensor(graph: Graph, self: Result, min: Result) -> Rules:
    return rule_aten_maximum(graph, self=self, other=min)


def rule_aten_clip(graph: Graph, self: Result, min: Scalar | None = None, max: Scalar | None = None) -> Rules:
    return rule_aten_clamp(graph, self=self, min=min, max=max)


def rule_aten_clip_Tensor(graph: Graph, self: Result, min: Result | None = None, max: Result | None = None) -> Rules:
    return rule_aten_clamp_Tensor(graph, self=self, min=min, max=max)


def rule_aten_eq_Scalar(graph: Graph, self: Result, other: Scalar) -> Rules:
    return ((boolean, shape_or_none(graph, self)),)


def rule_aten_eq_Tensor(graph: Graph, self: Result, other: Result) -> Rules:
    return ((boolean, broadcast(shape_or_none(graph, self), shape_or_none(graph, other))),)


def rule_aten_fmax(graph: Graph, self: Result, other: Result) -> Rules:
    return ((promoted_dtype(graph, 'default', self, other), broadcast(shape_or_none(graph, self), shape_or_none(graph, other))),)


def rule_aten_fmin(graph: Graph, self: Result, other: Result) -> Rules:
    return ((promoted_dtype(graph, 'default', self, other), broadcast(shape_or_none(graph, self), shape_or_none(graph, other))),)


def rule_aten_ge_Scalar(graph: Graph, self: Result, other: Scalar) -> Rules:
    return ((boolean, shape_or_none(graph, self)),)


def rule_aten_ge_Tensor(graph: Graph, self: Result, other: Result) -> Rules:
    return ((boolean, broadcast(shape_or_none(graph, self), shape_or_none(graph, other))),)


def rule_aten_gt_Scalar(graph: Graph, self: Result, other: Scalar) -> Rules:
    return ((boolean, shape_or_none(graph, self)),)


def rule_aten_gt_Tensor(graph: Graph, self: Result, other: Result) -> Rules:
    return ((boolean, broadcast(shape_or_none(graph, self), shape_or_none(graph, other))),)


def rule_aten_le_Scalar(graph: Graph, self: Result, other: Scalar) -> Rules:
    return ((boolean, shape_or_none(graph, self)),)


def rule_aten_le_Tensor(graph: Graph, self: Result, other: Result) -> Rules:
    return ((boolean, broadcast(shape_or_none(graph, self), shape_or_none(graph, other))),)


def rule_aten_lt_Scalar(graph: Graph, self: Result, other: Scalar) -> Rules:
    return ((boolean, shape_or_none(graph, self)),)


def rule_aten_lt_Tensor(graph: Graph, self: Result, other: Result) -> Rules:
    return ((boolean, broadcast(shape_or_none(graph, self), shape_or_none(graph, other))),)


def rule_aten_masked_fill_Scalar(graph: Graph, self: Result, mask: Result, value: Scalar) -> Rules:
    return ((dtype_or_none(graph, self), broadcast(shape_or_none(graph, self), shape_or_none(graph, mask))),)


def rule_aten_masked_fill_Tensor(graph: Graph, self: Result, mask: Result, value: Result) -> Rules:
    return ((dtype_or_none(graph, self), broadcast(shape_or_none(graph, self), shape_or_none(graph, mask))),)


def rule_aten_maximum(graph: Graph, self: Result, other: Result) -> Rules:
    return ((promoted_dtype(graph, 'default', self, other), broadcast(shape_or_none(graph, self), shape_or_none(graph, other))),)


def rule_aten_minimum(graph: Graph, self: Result, other: Result) -> Rules:
    return ((promoted_dtype(graph, 'default', self, other), broadcast(shape_or_none(graph, self), shape_or_none(graph, other))),)


def rule_aten_ne_Scalar(graph: Graph, self: Result, other: Scalar) -> Rules:
    return ((boolean, shape_or_none(graph, self)),)


def rule_aten_ne_Tensor(graph: Graph, self: Result, other: Result) -> Rules:
    return ((boolean, broadcast(shape_or_none(graph, self), shape_or_none(graph, other))),)


def rule_aten_where_Scalar(graph: Graph, condition: Result, self: Scalar, other: Scalar) -> Rules:
    return rule_aten_where_self(graph, condition=condition, self=self, other=other)


def rule_aten_where_ScalarOther(graph: Graph, condition: Result, self: Result, other: Scalar) -> Rules:
    return rule_aten_where_self(graph, condition=condition, self=self, other=other)


def rule_aten_where_ScalarSelf(graph: Graph, condition: Result, self: Scalar, other: Result) -> Rules:
    return rule_aten_where_self(graph, condition=condition, self=self, other=other)


def rule_aten_where_self(graph: Graph, condition: Result, self: Result, other: Result) -> Rules:
    return ((promoted_dtype(graph, 'no_opmath', self, other), broadcast(shape_or_none(graph, condition), shape_or_none(graph, self), shape_or_none(graph, other))),)
