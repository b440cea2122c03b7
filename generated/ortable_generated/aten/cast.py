# Generated from specs/aten/cast.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.dtypes import float16, float32, float64, int16, int32, int64, int8, uint8
from ortable.lowerings.complex.parts import each_part
from ortable.prelude.complex_arithmetic import c_cast, re
from ortable.prelude.facts import dtype_of
from ortable.prelude.metadata import dtype_or_none, shape_or_none
from ortable.prelude.pointwise import expanded_like, filled_like
from ortable.prelude.promotion import in_dtype
from ortable.prelude.values import cast

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Bool, Dtype, Int, Result, Scalar, Str, SymInts


def aten__assert_async(graph: Graph, res: ResultSpec, self: Result) -> Any:
    """aten::_assert_async(Tensor self) -> ()"""
    return None


def aten__assert_async_msg(graph: Graph, res: ResultSpec, self: Result, assert_msg: Str) -> Any:
    """aten::_assert_async.msg(Tensor self, str assert_msg) -> ()"""
    return None


def aten__assert_scalar(graph: Graph, res: ResultSpec, self: Scalar, assert_msg: Str) -> Any:
    """aten::_assert_scalar(Scalar self, str assert_msg) -> ()"""
    return None


def aten__assert_tensor_metadata(graph: Graph, res: ResultSpec, a: Result, size: SymInts | None = None, stride: SymInts | None = None, dtype: Dtype | None = None, *, device: Any = None, layout: Any = None) -> Any:
    """aten::_assert_tensor_metadata(Tensor a, SymInt[]? size=None, SymInt[]? stride=None, ScalarType? dtype=None, *, Device? device=None, Layout? layout=None) -> ()"""
    return None


def aten__cast_Byte(graph: Graph, res: ResultSpec, self: Result, non_blocking: Bool = False) -> Result:
    """aten::_cast_Byte(Tensor self, bool non_blocking=False) -> Tensor"""
    graph.case = 1
    return cast(graph, self, uint8)


def aten__cast_Char(graph: Graph, res: ResultSpec, self: Result, non_blocking: Bool = False) -> Result:
    """aten::_cast_Char(Tensor self, bool non_blocking=False) -> Tensor"""
    graph.case = 1
    return cast(graph, self, int8)


def aten__cast_Double(graph: Graph, res: ResultSpec, self: Result, non_blocking: Bool = False) -> Result:
    """aten::_cast_Double(Tensor self, bool non_blocking=False) -> Tensor"""
    graph.case = 1
    return cast(graph, self, float64)


def aten__cast_Float(graph: Graph, res: ResultSpec, self: Result, non_blocking: Bool = False) -> Result:
    """aten::_cast_Float(Tensor self, bool non_blocking=False) -> Tensor"""
    graph.case = 1
    return cast(graph, self, float32)


def aten__cast_Half(graph: Graph, res: ResultSpec, self: Result, non_blocking: Bool = False) -> Result:
    """aten::_cast_Half(Tensor self, bool non_blocking=False) -> Tensor"""
    graph.case = 1
    return cast(graph, self, float16)


def aten__cast_Int(graph: Graph, res: ResultSpec, self: Result, non_blocking: Bool = False) -> Result:
    """aten::_cast_Int(Tensor self, bool non_blocking=False) -> Tensor"""
    graph.case = 1
    return cast(graph, self, int32)


def aten__cast_Long(graph: Graph, res: ResultSpec, self: Result, non_blocking: Bool = False) -> Result:
    """aten::_cast_Long(Tensor self, bool non_blocking=False) -> Tensor"""
    graph.case = 1
    return cast(graph, self, int64)


def aten__cast_Short(graph: Graph, res: ResultSpec, self: Result, non_blocking: Bool = False) -> Result:
    """aten::_cast_Short(Tensor self, bool non_blocking=False) -> Tensor"""
    graph.case = 1
    return cast(graph, self, int16)


def aten__functional_assert_async_msg(graph: Graph, res: ResultSpec, self: Result, assert_msg: Str, dep_token: Result) -> Result:
    """aten::_functional_assert_async.msg(Tensor self, str assert_msg, Tensor dep_token) -> Tensor"""
    return dep_token


def aten__functional_assert_scalar(graph: Graph, res: ResultSpec, self: Scalar, assert_msg: Str, dep_token: Result) -> Result:
    """aten::_functional_assert_scalar(Scalar self, str assert_msg, Tensor dep_token) -> Tensor"""
    return dep_token


def aten__functional_sym_constrain_range(graph: Graph, res: ResultSpec, size: Scalar, min: Int | None, max: Int | None, dep_token: Result) -> Result:
    """aten::_functional_sym_constrain_range(Scalar size, int? min, int? max, Tensor dep_token) -> Tensor"""
    return dep_token


def aten__functional_sym_constrain_range_for_size(graph: Graph, res: ResultSpec, size: Scalar, min: Int | None, max: Int | None, dep_token: Result) -> Result:
    """aten::_functional_sym_constrain_range_for_size(Scalar size, int? min, int? max, Tensor dep_token) -> Tensor"""
    return dep_token


def aten__to_copy(graph: Graph, res: ResultSpec, self: Result, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None, non_blocking: Bool = False, memory_format: Any = None) -> Result:
    """aten::_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, bool non_blocking=False, MemoryFormat? memory_format=None) -> Tensor"""
    graph.case = 1
    return cast(graph, self, dtype)


def aten_clone(graph: Graph, res: ResultSpec, self: Result, *, memory_format: Any = None) -> Result:
    """aten::clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor"""
    return self


def aten_contiguous(graph: Graph, res: ResultSpec, self: Result, *, memory_format: Any = 0) -> Result:
    """aten::contiguous(Tensor(a) self, *, MemoryFormat memory_format=0) -> Tensor(a)"""
    return aten_clone(graph, res, self=self, memory_format=memory_format)


def aten_copy(graph: Graph, res: ResultSpec, self: Result, src: Result, non_blocking: Bool = False) -> Result:
    """aten::copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor"""
    graph.case = 1
    return expanded_like(graph, cast(graph, src, dtype_of(graph, self)), self)


def aten_detach(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::detach(Tensor(a) self) -> Tensor(a)"""
    return aten_clone(graph, res, self=self)


def aten_fill_Scalar(graph: Graph, res: ResultSpec, self: Result, value: Scalar) -> Result:
    """aten::fill.Scalar(Tensor self, Scalar value) -> Tensor"""
    return filled_like(graph, self, value, dtype_of(graph, self))


def aten_fill_Tensor(graph: Graph, res: ResultSpec, self: Result, value: Result) -> Result:
    """aten::fill.Tensor(Tensor self, Tensor value) -> Tensor"""
    return expanded_like(graph, in_dtype(graph, value, dtype_of(graph, self)), self)


def aten_lift(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::lift(Tensor self) -> Tensor"""
    return aten_clone(graph, res, self=self)


def aten_lift_fresh(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::lift_fresh(Tensor(a) self) -> Tensor(a)"""
    return aten_clone(graph, res, self=self)


def aten_sym_constrain_range(graph: Graph, res: ResultSpec, size: Scalar, *, min: Int | None = None, max: Int | None = None) -> Any:
    """aten::sym_constrain_range(Scalar size, *, int? min=None, int? max=None) -> ()"""
    return None


def aten_sym_constrain_range_for_size(graph: Graph, res: ResultSpec, size: Scalar, *, min: Int | None = None, max: Int | None = None) -> Any:
    """aten::sym_constrain_range_for_size(Scalar size, *, int? min=None, int? max=None) -> ()"""
    return None


def aten_to_device(graph: Graph, res: ResultSpec, self: Result, device: Any, dtype: Dtype, non_blocking: Bool = False, copy: Bool = False, memory_format: Any = None) -> Result:
    """aten::to.device(Tensor(a) self, Device device, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)"""
    graph.case = 1
    return cast(graph, self, dtype)


def aten_to_dtype(graph: Graph, res: ResultSpec, self: Result, dtype: Dtype, non_blocking: Bool = False, copy: Bool = False, memory_format: Any = None) -> Result:
    """aten::to.dtype(Tensor(a) self, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)"""
    graph.case = 1
    return cast(graph, self, dtype)


def aten_to_dtype_layout(graph: Graph, res: ResultSpec, self: Result, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None, non_blocking: Bool = False, copy: Bool = False, memory_format: Any = None) -> Result:
    """aten::to.dtype_layout(Tensor(a) self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)"""
    graph.case = 1
    return cast(graph, self, dtype)


def aten_to_other(graph: Graph, res: ResultSpec, self: Result, other: Result, non_blocking: Bool = False, copy: Bool = False, memory_format: Any = None) -> Result:
    """aten::to.other(Tensor(a) self, Tensor other, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)"""
    graph.case = 1
    return cast(graph, self, dtype_of(graph, other))


def aten_type_as(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::type_as(Tensor self, Tensor other) -> Tensor"""
    graph.case = 1
    return cast(graph, self, dtype_of(graph, other))


def complex_aten__cast_Byte(graph: Graph, res: ResultSpec, self: Result, non_blocking: Bool = False) -> Result:
    """aten::_cast_Byte(Tensor self, bool non_blocking=False) -> Tensor"""
    graph.case = 2
    return c_cast(graph, self, uint8)


def complex_aten__cast_Char(graph: Graph, res: ResultSpec, self: Result, non_blocking: Bool = False) -> Result:
    """aten::_cast_Char(Tensor self, bool non_blocking=False) -> Tensor"""
    graph.case = 2
    return c_cast(graph, self, int8)


def complex_aten__cast_Double(graph: Graph, res: ResultSpec, self: Result, non_blocking: Bool = False) -> Result:
    """aten::_cast_Double(Tensor self, bool non_blocking=False) -> Tensor"""
    graph.case = 2
    return c_cast(graph, self, float64)


def complex_aten__cast_Float(graph: Graph, res: ResultSpec, self: Result, non_blocking: Bool = False) -> Result:
    """aten::_cast_Float(Tensor self, bool non_blocking=False) -> Tensor"""
    graph.case = 2
    return c_cast(graph, self, float32)


def complex_aten__cast_Half(graph: Graph, res: ResultSpec, self: Result, non_blocking: Bool = False) -> Result:
    """aten::_cast_Half(Tensor self, bool non_blocking=False) -> Tensor"""
    graph.case = 2
    return c_cast(graph, self, float16)


def complex_aten__cast_Int(graph: Graph, res: ResultSpec, self: Result, non_blocking: Bool = False) -> Result:
    """aten::_cast_Int(Tensor self, bool non_blocking=False) -> Tensor"""
    graph.case = 2
    return c_cast(graph, self, int32)


def complex_aten__cast_Long(graph: Graph, res: ResultSpec, self: Result, non_blocking: Bool = False) -> Result:
    """aten::_cast_Long(Tensor self, bool non_blocking=False) -> Tensor"""
    graph.case = 2
    return c_cast(graph, self, int64)


def complex_aten__cast_Short(graph: Graph, res: ResultSpec, self: Result, non_blocking: Bool = False) -> Result:
    """aten::_cast_Short(Tensor self, bool non_blocking=False) -> Tensor"""
    graph.case = 2
    return c_cast(graph, self, int16)


def complex_aten__to_copy(graph: Graph, res: ResultSpec, self: Result, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None, non_blocking: Bool = False, memory_format: Any = None) -> Result:
    """aten::_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, bool non_blocking=False, MemoryFormat? memory_format=None) -> Tensor"""
    graph.case = 2
    return c_cast(graph, self, dtype)


def complex_aten_clone(graph: Graph, res: ResultSpec, self: Result, *, memory_format: Any = None) -> Result:
    """aten::clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor"""
    return each_part(graph, res, aten_clone, {'self': self}, memory_format=memory_format)


def complex_aten_contiguous(graph: Graph, res: ResultSpec, self: Result, *, memory_format: Any = 0) -> Result:
    """aten::contiguous(Tensor(a) self, *, MemoryFormat memory_format=0) -> Tensor(a)"""
    return complex_aten_clone(graph, res, self=self, memory_format=memory_format)


def complex_aten_copy(graph: Graph, res: ResultSpec, self: Result, src: Result, non_blocking: Bool = False) -> Result:
    """aten::copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor"""
    graph.case = 2
    return expanded_like(graph, c_cast(graph, src, dtype_of(graph, self)), re(graph, self))


def complex_aten_detach(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::detach(Tensor(a) self) -> Tensor(a)"""
    return complex_aten_clone(graph, res, self=self)


def complex_aten_fill_Scalar(graph: Graph, res: ResultSpec, self: Result, value: Scalar) -> Result:
    """aten::fill.Scalar(Tensor self, Scalar value) -> Tensor"""
    return each_part(graph, res, aten_fill_Scalar, {'self': self, 'value': value})


def complex_aten_fill_Tensor(graph: Graph, res: ResultSpec, self: Result, value: Result) -> Result:
    """aten::fill.Tensor(Tensor self, Tensor value) -> Tensor"""
    return each_part(graph, res, aten_fill_Tensor, {'self': self, 'value': value})


def complex_aten_lift(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::lift(Tensor self) -> Tensor"""
    return complex_aten_clone(graph, res, self=self)


def complex_aten_lift_fresh(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::lift_fresh(Tensor(a) self) -> Tensor(a)"""
    return complex_aten_clone(graph, res, self=self)


def complex_aten_to_device(graph: Graph, res: ResultSpec, self: Result, device: Any, dtype: Dtype, non_blocking: Bool = False, copy: Bool = False, memory_format: Any = None) -> Result:
    """aten::to.device(Tensor(a) self, Device device, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)"""
    graph.case = 2
    return c_cast(graph, self, dtype)


def complex_aten_to_dtype(graph: Graph, res: ResultSpec, self: Result, dtype: Dtype, non_blocking: Bool = False, copy: Bool = False, memory_format: Any = None) -> Result:
    """aten::to.dtype(Tensor(a) self, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)"""
    graph.case = 2
    return c_cast(graph, self, dtype)


def complex_aten_to_dtype_layout(graph: Graph, res: ResultSpec, self: Result, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None, non_blocking: Bool = False, copy: Bool = False, memory_format: Any = None) -> Result:
    """aten::to.dtype_layout(Tensor(a) self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)"""
    graph.case = 2
    return c_cast(graph, self, dtype)


def complex_aten_to_other(graph: Graph, res: ResultSpec, self: Result, other: Result, non_blocking: Bool = False, copy: Bool = False, memory_format: Any = None) -> Result:
    """aten::to.other(Tensor(a) self, Tensor other, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)"""
    graph.case = 2
    return c_cast(graph, self, dtype_of(graph, other))


def complex_aten_type_as(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::type_as(Tensor self, Tensor other) -> Tensor"""
    graph.case = 2
    return c_cast(graph, self, dtype_of(graph, other))


def rule_aten__assert_async(graph: Graph, self: Result) -> Rules:
    return ()


def rule_aten__assert_async_msg(graph: Graph, self: Result, assert_msg: Str) -> Rules:
    return ()


def rule_aten__assert_scalar(graph: Graph, self: Scalar, assert_msg: Str) -> Rules:
    return ()


def rule_aten__assert_tensor_metadata(graph: Graph, a: Result, size: SymInts | None = None, stride: SymInts | None = None, dtype: Dtype | None = None, *, device: Any = None, layout: Any = None) -> Rules:
    return ()


def rule_aten__cast_Byte(graph: Graph, self: Result, non_blocking: Bool = False) -> Rules:
    return ((uint8, shape_or_none(graph, self)),)


def rule_aten__cast_Char(graph: Graph, self: Result, non_blocking: Bool = False) -> Rules:
    return ((int8, shape_or_none(graph, self)),)


def rule_aten__cast_Double(graph: Graph, self: Result, non_blocking: Bool = False) -> Rules:
    return ((float64, shape_or_none(graph, self)),)


def rule_aten__cast_Float(graph: Graph, self: Result, non_blocking: Bool = False) -> Rules:
    return ((float32, shape_or_none(graph, self)),)


def rule_aten__cast_Half(graph: Graph, self: Result, non_blocking: Bool = False) -> Rules:
    return ((float16, shape_or_none(graph, self)),)


def rule_aten__cast_Int(graph: Graph, self: Result, non_blocking: Bool = False) -> Rules:
    return ((int32, shape_or_none(graph, self)),)


def rule_aten__cast_Long(graph: Graph, self: Result, non_blocking: Bool = False) -> Rules:
    return ((int64, shape_or_none(graph, self)),)


def rule_aten__cast_Short(graph: Graph, self: Result, non_blocking: Bool = False) -> Rules:
    return ((int16, shape_or_none(graph, self)),)


def rule_aten__functional_assert_async_msg(graph: Graph, self: Result, assert_msg: Str, dep_token: Result) -> Rules:
    return ((dtype_or_none(graph, dep_token), shape_or_none(graph, dep_token)),)


def rule_aten__functional_assert_scalar(graph: Graph, self: Scalar, assert_msg: Str, dep_token: Result) -> Rules:
    return ((dtype_or_none(graph, dep_token), shape_or_none(graph, dep_token)),)


def rule_aten__functional_sym_constrain_range(graph: Graph, size: Scalar, min: Int | None, max: Int | None, dep_token: Result) -> Rules:
    return ((dtype_or_none(graph, dep_token), shape_or_none(graph, dep_token)),)


def rule_aten__functional_sym_constrain_range_for_size(graph: Graph, size: Scalar, min: Int | None, max: Int | None, dep_token: Result) -> Rules:
    return ((dtype_or_none(graph, dep_token), shape_or_none(graph, dep_token)),)


def rule_aten__to_copy(graph: Graph, self: Result, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None, non_blocking: Bool = False, memory_format: Any = None) -> Rules:
    return ((dtype_or_none(graph, self) if dtype is None else dtype, shape_or_none(graph, self)),)


def rule_aten_clone(graph: Graph, self: Result, *, memory_format: Any = None) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_contiguous(graph: Graph, self: Result, *, memory_format: Any = 0) -> Rules:
    return rule_aten_clone(graph, self=self, memory_format=memory_format)


def rule_aten_copy(graph: Graph, self: Result, src: Result, non_blocking: Bool = False) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_detach(graph: Graph, self: Result) -> Rules:
    return rule_aten_clone(graph, self=self)


def rule_aten_fill_Scalar(graph: Graph, self: Result, value: Scalar) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_fill_Tensor(graph: Graph, self: Result, value: Result) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_lift(graph: Graph, self: Result) -> Rules:
    return rule_aten_clone(graph, self=self)


def rule_aten_lift_fresh(graph: Graph, self: Result) -> Rules:
    return rule_aten_clone(graph, self=self)


def rule_aten_sym_constrain_range(graph: Graph, size: Scalar, *, min: Int | None = None, max: Int | None = None) -> Rules:
    return ()


def rule_aten_sym_constrain_range_for_size(graph: Graph, size: Scalar, *, min: Int | None = None, max: Int | None = None) -> Rules:
    return ()


def rule_aten_to_device(graph: Graph, self: Result, device: Any, dtype: Dtype, non_blocking: Bool = False, copy: Bool = False, memory_format: Any = None) -> Rules:
    return ((dtype_or_none(graph, self) if dtype is None else dtype, shape_or_none(graph, self)),)


def rule_aten_to_dtype(graph: Graph, self: Result, dtype: Dtype, non_blocking: Bool = False, copy: Bool = False, memory_format: Any = None) -> Rules:
    return ((dtype_or_none(graph, self) if dtype is None else dtype, shape_or_none(graph, self)),)


def rule_aten_to_dtype_layout(graph: Graph, self: Result, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None, non_blocking: Bool = False, copy: Bool = False, memory_format: Any = None) -> Rules:
    return ((dtype_or_none(graph, self) if dtype is None else dtype, shape_or_none(graph, self)),)


def rule_aten_to_other(graph: Graph, self: Result, other: Result, non_blocking: Bool = False, copy: Bool = False, memory_format: Any = None) -> Rules:
    return ((dtype_or_none(graph, other), shape_or_none(graph, self)),)


def rule_aten_type_as(graph: Graph, self: Result, other: Result) -> Rules:
    return ((dtype_or_none(graph, other), shape_or_none(graph, self)),)
