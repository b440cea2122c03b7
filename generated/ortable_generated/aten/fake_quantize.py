# Generated from specs/aten/fake_quantize.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.dispatch import DataCheck
from ortable.dtypes import boolean, float32, int16, int32, int8, uint16, uint8
from ortable.errors import UnsupportedCase
from ortable.lowerings.quantize import codes_dtype_of, fake_quantized, through_codes
from ortable.prelude.facts import axis_of, dtype_of, is_float, is_int, rank_of
from ortable.prelude.metadata import dtype_or_none, shape_or_none
from ortable.prelude.promotion import opmath_dtype
from ortable.prelude.quantized import fits, one_scale
from ortable.prelude.shapes import along_axis
from ortable.prelude.values import cast, const, reshape_to

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Float, Int, Result


def aten__fake_quantize_learnable_per_channel_affine(graph: Graph, res: ResultSpec, self: Result, scale: Result, zero_point: Result, axis: Int, quant_min: Int, quant_max: Int, grad_factor: Float = 1.0) -> Result:
    """aten::_fake_quantize_learnable_per_channel_affine(Tensor self, Tensor scale, Tensor zero_point, int axis, int quant_min, int quant_max, float grad_factor=1.) -> Tensor"""
    place, rank, dtype = (axis_of(graph, self, axis), rank_of(graph, self), dtype_of(graph, zero_point))
    zero = graph.make_node('Clip', [graph.make_node('Round', [zero_point]), const(graph, quant_min, dtype), const(graph, quant_max, dtype)])
    factor, shift = (along_axis(graph, scale, place, rank), along_axis(graph, zero, place, rank))
    return fake_quantized(graph, self, factor, shift, quant_min, quant_max)[0]


def aten__fake_quantize_learnable_per_tensor_affine(graph: Graph, res: ResultSpec, self: Result, scale: Result, zero_point: Result, quant_min: Int, quant_max: Int, grad_factor: Float = 1.0) -> Result:
    """aten::_fake_quantize_learnable_per_tensor_affine(Tensor self, Tensor scale, Tensor zero_point, int quant_min, int quant_max, float grad_factor=1.) -> Tensor"""
    dtype, shift = (dtype_of(graph, zero_point), reshape_to(graph, zero_point, []))
    zero = graph.make_node('Clip', [graph.make_node('Round', [shift]), const(graph, quant_min, dtype), const(graph, quant_max, dtype)])
    return fake_quantized(graph, self, reshape_to(graph, scale, []), zero, quant_min, quant_max)[0]


def aten__fake_quantize_per_tensor_affine_cachemask_tensor_qparams(graph: Graph, res: ResultSpec, self: Result, scale: Result, zero_point: Result, fake_quant_enabled: Result, quant_min: Int, quant_max: Int) -> Any:
    """aten::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams(Tensor self, Tensor scale, Tensor zero_point, Tensor fake_quant_enabled, int quant_min, int quant_max) -> (Tensor output, Tensor mask)"""
    factor, zero = (reshape_to(graph, scale, []), reshape_to(graph, zero_point, []))
    result = fake_quantized(graph, self, factor, zero, quant_min, quant_max, True)
    enabled = cast(graph, reshape_to(graph, fake_quant_enabled, []), boolean)
    return (graph.make_node('Where', [enabled, result[0], self]), graph.make_node('Or', [result[1], graph.make_node('Not', [enabled])]))


def aten_fake_quantize_per_channel_affine(graph: Graph, res: ResultSpec, self: Result, scale: Result, zero_point: Result, axis: Int, quant_min: Int, quant_max: Int) -> Result:
    """aten::fake_quantize_per_channel_affine(Tensor self, Tensor scale, Tensor zero_point, int axis, int quant_min, int quant_max) -> Tensor"""
    place = axis_of(graph, self, axis)
    rank = rank_of(graph, self)
    codes_dtype = codes_dtype_of(quant_min, quant_max)
    plain = dtype_of(graph, zero_point) == int32
    if codes_dtype in (int8, uint8) and plain and fits(graph, zero_point, codes_dtype):
        # the pair that quantized kernels are recognised by; see quantized_decomposed::quantize_per_channel
        graph.case = 1
        return through_codes(graph, self, scale, zero_point, codes_dtype, quant_min, quant_max, place)
    graph.case = 2
    factor, zero = (along_axis(graph, scale, place, rank), along_axis(graph, zero_point, place, rank))
    rounds = is_float(graph, zero_point)
    return fake_quantized(graph, self, factor, zero, quant_min, quant_max, False, rounds)[0]


def aten_fake_quantize_per_channel_affine_cachemask(graph: Graph, res: ResultSpec, self: Result, scale: Result, zero_point: Result, axis: Int, quant_min: Int, quant_max: Int) -> Any:
    """aten::fake_quantize_per_channel_affine_cachemask(Tensor self, Tensor scale, Tensor zero_point, int axis, int quant_min, int quant_max) -> (Tensor output, Tensor mask)"""
    place = axis_of(graph, self, axis)
    rank = rank_of(graph, self)
    factor, zero = (along_axis(graph, scale, place, rank), along_axis(graph, zero_point, place, rank))
    return fake_quantized(graph, self, factor, zero, quant_min, quant_max, False, is_float(graph, zero_point))


def aten_fake_quantize_per_channel_affine_cachemask_backward(graph: Graph, res: ResultSpec, grad: Result, mask: Result) -> Result:
    """aten::fake_quantize_per_channel_affine_cachemask_backward(Tensor grad, Tensor mask) -> Tensor"""
    return graph.make_node('Mul', [grad, cast(graph, mask, dtype_of(graph, grad))], res.outputs)


def aten_fake_quantize_per_tensor_affine(graph: Graph, res: ResultSpec, self: Result, scale: Float, zero_point: Int, quant_min: Int, quant_max: Int) -> Result:
    """aten::fake_quantize_per_tensor_affine(Tensor self, float scale, int zero_point, int quant_min, int quant_max) -> Tensor"""
    compute_dtype = opmath_dtype(dtype_of(graph, self))
    codes_dtype = codes_dtype_of(quant_min, quant_max)
    plain = dtype_of(graph, self) == float32 and 1e-30 < scale
    if zero_point < quant_min or quant_max < zero_point:
        graph.case = 1
        raise UnsupportedCase('aten::fake_quantize_per_tensor_affine: a zero point outside of the range, which torch refuses, too')
    if codes_dtype in (int8, uint8) and plain:
        # the pair that quantized kernels are recognised by; see quantized_decomposed::quantize_per_tensor
        graph.case = 2
        factor, zero = (const(graph, scale, float32), const(graph, zero_point, codes_dtype))
        return through_codes(graph, self, factor, zero, codes_dtype, quant_min, quant_max)
    if graph.opset >= 21 and codes_dtype in (int16, uint16) and plain:
        graph.case = 3
        factor, zero = (const(graph, scale, float32), const(graph, zero_point, codes_dtype))
        return through_codes(graph, self, factor, zero, codes_dtype, quant_min, quant_max)
    graph.case = 4
    factor, zero = (const(graph, scale, float32), const(graph, zero_point, compute_dtype))
    return fake_quantized(graph, self, factor, zero, quant_min, quant_max, True)[0]


def aten_fake_quantize_per_tensor_affine_cachemask(graph: Graph, res: ResultSpec, self: Result, scale: Float, zero_point: Int, quant_min: Int, quant_max: Int) -> Any:
    """aten::fake_quantize_per_tensor_affine_cachemask(Tensor self, float scale, int zero_point, int quant_min, int quant_max) -> (Tensor output, Tensor mask)"""
    compute_dtype = opmath_dtype(dtype_of(graph, self))
    factor, zero = (const(graph, scale, float32), const(graph, zero_point, compute_dtype))
    return fake_quantized(graph, self, factor, zero, quant_min, quant_max, True)


def aten_fake_quantize_per_tensor_affine_cachemask_backward(graph: Graph, res: ResultSpec, grad: Result, mask: Result) -> Result:
    """aten::fake_quantize_per_tensor_affine_cachemask_backward(Tensor grad, Tensor mask) -> Tensor"""
    return graph.make_node('Mul', [grad, cast(graph, mask, dtype_of(graph, grad))], res.outputs)


def aten_fake_quantize_per_tensor_affine_tensor_qparams(graph: Graph, res: ResultSpec, self: Result, scale: Result, zero_point: Result, quant_min: Int, quant_max: Int) -> Result:
    """aten::fake_quantize_per_tensor_affine.tensor_qparams(Tensor self, Tensor scale, Tensor zero_point, int quant_min, int quant_max) -> Tensor"""
    codes_dtype = codes_dtype_of(quant_min, quant_max)
    plain = dtype_of(graph, self) == float32 and dtype_of(graph, scale) == float32
    if codes_dtype in (int8, uint8) and plain and fits(graph, zero_point, codes_dtype):
        # the pair that quantized kernels are recognised by; see quantized_decomposed::quantize_per_tensor
        graph.case = 1
        factor, zero = (one_scale(graph, scale), reshape_to(graph, zero_point, []))
        return through_codes(graph, self, factor, zero, codes_dtype, quant_min, quant_max)
    graph.case = 2
    factor, zero = (reshape_to(graph, scale, []), reshape_to(graph, zero_point, []))
    return fake_quantized(graph, self, factor, zero, quant_min, quant_max, True)[0]


def check_aten_fake_quantize_per_channel_affine(graph: Graph, self: Result, scale: Result, zero_point: Result, axis: Int, quant_min: Int, quant_max: Int) -> list[DataCheck]:
    return [
        *([DataCheck(zero_point, quant_min, quant_max + 1, 'RuntimeError', '`zero_point` must be between `quant_min` and `quant_max`.', None)] if is_int(graph, zero_point) else []),
    ]


def check_aten_fake_quantize_per_channel_affine_cachemask(graph: Graph, self: Result, scale: Result, zero_point: Result, axis: Int, quant_min: Int, quant_max: Int) -> list[DataCheck]:
    return [
        *([DataCheck(zero_point, quant_min, quant_max + 1, 'RuntimeError', '`zero_point` must be between `quant_min` and `quant_max`.', None)] if is_int(graph, zero_point) else []),
    ]


def rule_aten__fake_quantize_learnable_per_channel_affine(graph: Graph, self: Result, scale: Result, zero_point: Result, axis: Int, quant_min: Int, quant_max: Int, grad_factor: Float = 1.0) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten__fake_quantize_learnable_per_tensor_affine(graph: Graph, self: Result, scale: Result, zero_point: Result, quant_min: Int, quant_max: Int, grad_factor: Float = 1.0) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten__fake_quantize_per_tensor_affine_cachemask_tensor_qparams(graph: Graph, self: Result, scale: Result, zero_point: Result, fake_quant_enabled: Result, quant_min: Int, quant_max: Int) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)), (boolean, shape_or_none(graph, self)),)


def rule_aten_fake_quantize_per_channel_affine(graph: Graph, self: Result, scale: Result, zero_point: Result, axis: Int, quant_min: Int, quant_max: Int) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_fake_quantize_per_channel_affine_cachemask(graph: Graph, self: Result, scale: Result, zero_point: Result, axis: Int, quant_min: Int, quant_max: Int) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)), (boolean, shape_or_none(graph, self)),)


def rule_aten_fake_quantize_per_channel_affine_cachemask_backward(graph: Graph, grad: Result, mask: Result) -> Rules:
    return ((dtype_or_none(graph, grad), shape_or_none(graph, grad)),)


def rule_aten_fake_quantize_per_tensor_affine(graph: Graph, self: Result, scale: Float, zero_point: Int, quant_min: Int, quant_max: Int) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_fake_quantize_per_tensor_affine_cachemask(graph: Graph, self: Result, scale: Float, zero_point: Int, quant_min: Int, quant_max: Int) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)), (boolean, shape_or_none(graph, self)),)


def rule_aten_fake_quantize_per_tensor_affine_cachemask_backward(graph: Graph, grad: Result, mask: Result) -> Rules:
    return ((dtype_or_none(graph, grad), shape_or_none(graph, grad)),)


def rule_aten_fake_quantize_per_tensor_affine_tensor_qparams(graph: Graph, self: Result, scale: Result, zero_point: Result, quant_min: Int, quant_max: Int) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)
