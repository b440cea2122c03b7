# Generated from specs/aten/logical.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING

from ortable.dtypes import boolean
from ortable.inference import broadcast
from ortable.lowerings.bits import shifted_left, shifted_right
from ortable.prelude.complex_arithmetic import c_truth
from ortable.prelude.facts import is_bool
from ortable.prelude.metadata import dtype_or_none, shape_or_none
from ortable.prelude.promotion import in_dtype, promote_values, promoted_dtype

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Result, Scalar


def aten___and___Scalar(graph: Graph, res: ResultSpec, self: Result, other: Scalar) -> Result:
    """aten::__and__.Scalar(Tensor self, Scalar other) -> Tensor"""
    return aten_bitwise_and_Tensor(graph, res, self=self, other=other)


def aten___and___Tensor(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::__and__.Tensor(Tensor self, Tensor other) -> Tensor"""
    return aten_bitwise_and_Tensor(graph, res, self=self, other=other)


def aten___lshift___Scalar(graph: Graph, res: ResultSpec, self: Result, other: Scalar) -> Result:
    """aten::__lshift__.Scalar(Tensor self, Scalar other) -> Tensor"""
    return aten_bitwise_left_shift_Tensor(graph, res, self=self, other=other)


def aten___lshift___Tensor(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::__lshift__.Tensor(Tensor self, Tensor other) -> Tensor"""
    return aten_bitwise_left_shift_Tensor(graph, res, self=self, other=other)


def aten___or___Scalar(graph: Graph, res: ResultSpec, self: Result, other: Scalar) -> Result:
    """aten::__or__.Scalar(Tensor self, Scalar other) -> Tensor"""
    return aten_bitwise_or_Tensor(graph, res, self=self, other=other)


def aten___or___Tensor(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::__or__.Tensor(Tensor self, Tensor other) -> Tensor"""
    return aten_bitwise_or_Tensor(graph, res, self=self, other=other)


def aten___rshift___Scalar(graph: Graph, res: ResultSpec, self: Result, other: Scalar) -> Result:
    """aten::__rshift__.Scalar(Tensor self, Scalar other) -> Tensor"""
    return aten_bitwise_right_shift_Tensor(graph, res, self=self, other=other)


def aten___rshift___Tensor(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::__rshift__.Tensor(Tensor self, Tensor other) -> Tensor"""
    return aten_bitwise_right_shift_Tensor(graph, res, self=self, other=other)


def aten___xor___Scalar(graph: Graph, res: ResultSpec, self: Result, other: Scalar) -> Result:
    """aten::__xor__.Scalar(Tensor self, Scalar other) -> Tensor"""
    return aten_bitwise_xor_Tensor(graph, res, self=self, other=other)


def aten___xor___Tensor(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::__xor__.Tensor(Tensor self, Tensor other) -> Tensor"""
    return aten_bitwise_xor_Tensor(graph, res, self=self, other=other)


def aten_bitwise_and_Scalar(graph: Graph, res: ResultSpec, self: Result, other: Scalar) -> Result:
    """aten::bitwise_and.Scalar(Tensor self, Scalar other) -> Tensor"""
    return aten_bitwise_and_Tensor(graph, res, self=self, other=other)


def aten_bitwise_and_Scalar_Tensor(graph: Graph, res: ResultSpec, self: Scalar, other: Result) -> Result:
    """aten::bitwise_and.Scalar_Tensor(Scalar self, Tensor other) -> Tensor"""
    return aten_bitwise_and_Tensor(graph, res, self=self, other=other)


def aten_bitwise_and_Tensor(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::bitwise_and.Tensor(Tensor self, Tensor other) -> Tensor"""
    self, other = promote_values(graph, 'default', [self, other])
    return graph.make_node('And', [self, other], res.outputs) if is_bool(graph, self) else graph.make_node('BitwiseAnd', [self, other], res.outputs)


def aten_bitwise_left_shift_Scalar_Tensor(graph: Graph, res: ResultSpec, self: Scalar, other: Result) -> Result:
    """aten::bitwise_left_shift.Scalar_Tensor(Scalar self, Tensor other) -> Tensor"""
    return aten_bitwise_left_shift_Tensor(graph, res, self=self, other=other)


def aten_bitwise_left_shift_Tensor(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::bitwise_left_shift.Tensor(Tensor self, Tensor other) -> Tensor"""
    self, other = promote_values(graph, 'default', [self, other])
    return shifted_left(graph, self, other)


def aten_bitwise_left_shift_Tensor_Scalar(graph: Graph, res: ResultSpec, self: Result, other: Scalar) -> Result:
    """aten::bitwise_left_shift.Tensor_Scalar(Tensor self, Scalar other) -> Tensor"""
    return aten_bitwise_left_shift_Tensor(graph, res, self=self, other=other)


def aten_bitwise_not(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::bitwise_not(Tensor self) -> Tensor"""
    return graph.make_node('Not', [self], res.outputs) if is_bool(graph, self) else graph.make_node('BitwiseNot', [self], res.outputs)


def aten_bitwise_or_Scalar(graph: Graph, res: ResultSpec, self: Result, other: Scalar) -> Result:
    """aten::bitwise_or.Scalar(Tensor self, Scalar other) -> Tensor"""
    return aten_bitwise_or_Tensor(graph, res, self=self, other=other)


def aten_bitwise_or_Scalar_Tensor(graph: Graph, res: ResultSpec, self: Scalar, other: Result) -> Result:
    """aten::bitwise_or.Scalar_Tensor(Scalar self, Tensor other) -> Tensor"""
    return aten_bitwise_or_Tensor(graph, res, self=self, other=other)


def aten_bitwise_or_Tensor(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::bitwise_or.Tensor(Tensor self, Tensor other) -> Tensor"""
    self, other = promote_values(graph, 'default', [self, other])
    return graph.make_node('Or', [self, other], res.outputs) if is_bool(graph, self) else graph.make_node('BitwiseOr', [self, other], res.outputs)


def aten_bitwise_right_shift_Scalar_Tensor(graph: Graph, res: ResultSpec, self: Scalar, other: Result) -> Result:
    """aten::bitwise_right_shift.Scalar_Tensor(Scalar self, Tensor other) -> Tensor"""
    return aten_bitwise_right_shift_Tensor(graph, res, self=self, other=other)


def aten_bitwise_right_shift_Tensor(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::bitwise_right_shift.Tensor(Tensor self, Tensor other) -> Tensor"""
    self, other = promote_values(graph, 'default', [self, other])
    return shifted_right(graph, self, other)


def aten_bitwise_right_shift_Tensor_Scalar(graph: Graph, res: ResultSpec, self: Result, other: Scalar) -> Result:
    """aten::bitwise_right_shift.Tensor_Scalar(Tensor self, Scalar other) -> Tensor"""
    return aten_bitwise_right_shift_Tensor(graph, res, self=self, other=other)


def aten_bitwise_xor_Scalar(graph: Graph, res: ResultSpec, self: Result, other: Scalar) -> Result:
    """aten::bitwise_xor.Scalar(Tensor self, Scalar other) -> Tensor"""
    return aten_bitwise_xor_Tensor(graph, res, self=self, other=other)


def aten_bitwise_xor_Scalar_Tensor(graph: Graph, res: ResultSpec, self: Scalar, other: Result) -> Result:
    """aten::bitwise_xor.Scalar_Tensor(Scalar self, Tensor other) -> Tensor"""
    return aten_bitwise_xor_Tensor(graph, res, self=self, other=other)


def aten_bitwise_xor_Tensor(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::bitwise_xor.Tensor(Tensor self, Tensor other) -> Tensor"""
    self, other = promote_values(graph, 'default', [self, other])
    return graph.make_node('Xor', [self, other], res.outputs) if is_bool(graph, self) else graph.make_node('BitwiseXor', [self, other], res.outputs)


def aten_logical_and(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::logical_and(Tensor self, Tensor other) -> Tensor"""
    graph.case = 1
    return graph.make_node('And', [in_dtype(graph, self, boolean), in_dtype(graph, other, boolean)], res.outputs)


def aten_logical_not(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::logical_not(Tensor self) -> Tensor"""
    graph.case = 1
    return graph.make_node('Not', [in_dtype(graph, self, boolean)], res.outputs)


def aten_logical_or(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::logical_or(Tensor self, Tensor other) -> Tensor"""
    graph.case = 1
    return graph.make_node('Or', [in_dtype(graph, self, boolean), in_dtype(graph, other, boolean)], res.outputs)


def aten_logical_xor(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::logical_xor(Tensor self, Tensor other) -> Tensor"""
    graph.case = 1
    return graph.make_node('Xor', [in_dtype(graph, self, boolean), in_dtype(graph, other, boolean)], res.outputs)


def complex_aten_logical_and(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::logical_and(Tensor self, Tensor other) -> Tensor"""
    graph.case = 2
    return graph.make_node('And', [c_truth(graph, self), c_truth(graph, other)], res.outputs)


def complex_aten_logical_not(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::logical_not(Tensor self) -> Tensor"""
    graph.case = 2
    return graph.make_node('Not', [c_truth(graph, self)], res.outputs)


def complex_aten_logical_or(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::logical_or(Tensor self, Tensor other) -> Tensor"""
    graph.case = 2
    return graph.make_node('Or', [c_truth(graph, self), c_truth(graph, other)], res.outputs)


def complex_aten_logical_xor(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::logical_xor(Tensor self, Tensor other) -> Tensor"""
    graph.case = 2
    return graph.make_node('Xor', [c_truth(graph, self), c_truth(graph, other)], res.outputs)


def rule_aten___and___Scalar(graph: Graph, self: Result, other: Scalar) -> Rules:
    return rule_aten_bitwise_and_Tensor(graph, self=self, other=other)


def rule_aten___and___Tensor(graph: Graph, self: Result, other: Result) -> Rules:
    return rule_aten_bitwise_and_Tensor(graph, self=self, other=other)


def rule_aten___lshift___Scalar(graph: Graph, self: Result, other: Scalar) -> Rules:
    return rule_aten_bitwise_left_shift_Tensor(graph, self=self, other=other)


def rule_aten___lshift___Tensor(graph: Graph, self: Result, other: Result) -> Rules:
    return rule_aten_bitwise_left_shift_Tensor(graph, self=self, other=other)


def rule_aten___or___Scalar(graph: Graph, self: Result, other: Scalar) -> Rules:
    return rule_aten_bitwise_or_Tensor(graph, self=self, other=other)


def rule_aten___or___Tensor(graph: Graph, self: Result, other: Result) -> Rules:
    return rule_aten_bitwise_or_Tensor(graph, self=self, other=other)


def rule_aten___rshift___Scalar(graph: Graph, self: Result, other: Scalar) -> Rules:
    return rule_aten_bitwise_right_shift_Tensor(graph, self=self, other=other)


def rule_aten___rshift___Tensor(graph: Graph, self: Result, other: Result) -> Rules:
    return rule_aten_bitwise_right_shift_Tensor(graph, self=self, other=other)


def rule_aten___xor___Scalar(graph: Graph, self: Result, other: Scalar) -> Rules:
    return rule_aten_bitwise_xor_Tensor(graph, self=self, other=other)


def rule_aten___xor___Tensor(graph: Graph, self: Result, other: Result) -> Rules:
    return rule_aten_bitwise_xor_Tensor(graph, self=self, other=other)


def rule_aten_bitwise_and_Scalar(graph: Graph, self: Result, other: Scalar) -> Rules:
    return rule_aten_bitwise_and_Tensor(graph, self=self, other=other)


def rule_aten_bitwise_and_Scalar_Tensor(graph: Graph, self: Scalar, other: Result) -> Rules:
    return rule_aten_bitwise_and_Tensor(graph, self=self, other=other)


def rule_aten_bitwise_and_Tensor(graph: Graph, self: Result, other: Result) -> Rules:
    return ((promoted_dtype(graph, 'default', self, other), broadcast(shape_or_none(graph, self), shape_or_none(graph, other))),)


def rule_aten_bitwise_left_shift_Scalar_Tensor(graph: Graph, self: Scalar, other: Result) -> Rules:
    return rule_aten_bitwise_left_shift_Tensor(graph, self=self, other=other)


def rule_aten_bitwise_left_shift_Tensor(graph: Graph, self: Result, other: Result) -> Rules:
    return ((promoted_dtype(graph, 'default', self, other), broadcast(shape_or_none(graph, self), shape_or_none(graph, other))),)


def rule_aten_bitwise_left_shift_Tensor_Scalar(graph: Graph, self: Result, other: Scalar) -> Rules:
    return rule_aten_bitwise_left_shift_Tensor(graph, self=self, other=other)


def rule_aten_bitwise_not(graph: Graph, self: Result) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_bitwise_or_Scalar(graph: Graph, self: Result, other: Scalar) -> Rules:
    return rule_aten_bitwise_or_Tensor(graph, self=self, other=other)


def rule_aten_bitwise_or_Scalar_Tensor(graph: Graph, self: Scalar, other: Result) -> Rules:
    return rule_aten_bitwise_or_Tensor(graph, self=self, other=other)


def rule_aten_bitwise_or_Tensor(graph: Graph, self: Result, other: Result) -> Rules:
    return ((promoted_dtype(graph, 'default', self, other), broadcast(shape_or_none(graph, self), shape_or_none(graph, other))),)


def rule_aten_bitwise_right_shift_Scalar_Tensor(graph: Graph, self: Scalar, other: Result) -> Rules:
    return rule_aten_bitwise_right_shift_Tensor(graph, self=self, other=other)


def rule_aten_bitwise_right_shift_Tensor(graph: Graph, self: Result, other: Result) -> Rules:
    return ((promoted_dtype(graph, 'default', self, other), broadcast(shape_or_none(graph, self), shape_or_none(graph, other))),)


def rule_aten_bitwise_right_shift_Tensor_Scalar(graph: Graph, self: Result, other: Scalar) -> Rules:
    return rule_aten_bitwise_right_shift_Tensor(graph, self=self, other=other)


def rule_aten_bitwise_xor_Scalar(graph: Graph, self: Result, other: Scalar) -> Rules:
    return rule_aten_bitwise_xor_Tensor(graph, self=self, other=other)


def rule_aten_bitwise_xor_Scalar_Tensor(graph: Graph, self: Scalar, other: Result) -> Rules:
    return rule_aten_bitwise_xor_Tensor(graph, self=self, other=other)


def rule_aten_bitwise_xor_Tensor(graph: Graph, self: Result, other: Result) -> Rules:
    return ((promoted_dtype(graph, 'default', self, other), broadcast(shape_or_none(graph, self), shape_or_none(graph, other))),)


def rule_aten_logical_and(graph: Graph, self: Result, other: Result) -> Rules:
    return ((boolean, broadcast(shape_or_none(graph, self), shape_or_none(graph, other))),)


def rule_aten_logical_not(graph: Graph, self: Result) -> Rules:
    return ((boolean, shape_or_none(graph, self)),)


def rule_aten_logical_or(graph: Graph, self: Result, other: Result) -> Rules:
    return ((boolean, broadcast(shape_or_none(graph, self), shape_or_none(graph, other))),)


def rule_aten_logical_xor(graph: Graph, self: Result, other: Result) -> Rules:
    return ((boolean, broadcast(shape_or_none(graph, self), shape_or_none(graph, other))),)
