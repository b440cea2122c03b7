# Generated from specs/aten/quantized.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING

from ortable.dtypes import float32, float64, int16, int32, int64, int8, uint16, uint8
from ortable.lowerings.quantize import codes_of, has_codes, within
from ortable.prelude.facts import axis_of, dtype_of, rank_of
from ortable.prelude.metadata import dtype_or_none, shape_or_none
from ortable.prelude.promotion import common_dtype, opmath_dtype
from ortable.prelude.quantized import fits, one_scale, zero_codes
from ortable.prelude.shapes import along_axis
from ortable.prelude.values import cast, cast_all, const, reshape_to
from ortable_generated.aten.cast import aten__to_copy, complex_aten__to_copy, rule_aten__to_copy

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Dtype, Float, Int, Result


def complex_quantized_decomposed_convert_element_type_no_fuse(graph: Graph, res: ResultSpec, input: Result, dtype: Dtype) -> Result:
    """quantized_decomposed::convert_element_type.no_fuse(Tensor input, ScalarType dtype) -> Tensor"""
    return complex_aten__to_copy(graph, res, self=input, dtype=dtype)


def quantized_decomposed_convert_element_type_no_fuse(graph: Graph, res: ResultSpec, input: Result, dtype: Dtype) -> Result:
    """quantized_decomposed::convert_element_type.no_fuse(Tensor input, ScalarType dtype) -> Tensor"""
    return aten__to_copy(graph, res, self=input, dtype=dtype)


def quantized_decomposed_dequantize_per_channel(graph: Graph, res: ResultSpec, input: Result, scales: Result, zero_points: Result | None, axis: Int, quant_min: Int, quant_max: Int, dtype: Dtype, *, out_dtype: Dtype | None = None) -> Result:
    """quantized_decomposed::dequantize_per_channel(Tensor input, Tensor scales, Tensor? zero_points, int axis, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor"""
    place = axis_of(graph, input, axis)
    rank = rank_of(graph, input)
    plain = dtype_of(graph, scales) == float32 and dtype_of(graph, res) == float32
    if dtype_of(graph, input) in (int8, uint8) and plain and fits(graph, zero_points, dtype_of(graph, input)):
        graph.case = 1
        codes = zero_codes(graph, zero_points, dtype_of(graph, input))
        return graph.make_node('DequantizeLinear', [input, scales, codes], res.outputs, axis=place)
    if zero_points is None:
        graph.case = 2
        factor = along_axis(graph, scales, place, rank)
        return cast(graph, graph.make_node('Mul', [*cast_all(graph, [input, factor], common_dtype(graph, [input, factor]))]), dtype_of(graph, res))
    if graph.target == 'onnxruntime' and plain and dtype_of(graph, input) in (int8, uint8) and (dtype_of(graph, zero_points) in (int32, int64)):
        # zero points that become known with the weights; one that is no code makes NaN
        graph.case = 3
        codes = cast(graph, zero_points, dtype_of(graph, input))
        same = graph.make_node('Equal', [cast(graph, codes, dtype_of(graph, zero_points)), zero_points])
        factor = graph.make_node('Where', [same, scales, const(graph, float('nan'), float32)])
        return graph.make_node('DequantizeLinear', [input, factor, codes], res.outputs, axis=place)
    graph.case = 4
    zero, factor = (along_axis(graph, zero_points, place, rank), along_axis(graph, scales, place, rank))
    shifted = graph.make_node('Sub', [*cast_all(graph, [input, zero], common_dtype(graph, [input, zero]))])
    result = graph.make_node('Mul', [*cast_all(graph, [shifted, factor], common_dtype(graph, [shifted, factor]))])
    return cast(graph, result, dtype_of(graph, res))


def quantized_decomposed_dequantize_per_tensor(graph: Graph, res: ResultSpec, input: Result, scale: Float, zero_point: Int, quant_min: Int, quant_max: Int, dtype: Dtype, *, out_dtype: Dtype | None = None) -> Result:
    """quantized_decomposed::dequantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor"""
    plain = dtype_of(graph, res) == float32 and quant_min <= zero_point and (zero_point <= quant_max)
    if dtype in (int8, uint8) and plain:
        # the operator that quantized kernels are recognised by; float32 holds every difference of two codes
        graph.case = 1
        return graph.make_node('DequantizeLinear', [input, const(graph, scale, float32), const(graph, zero_point, dtype)], res.outputs)
    if dtype == int32 and plain and (zero_point == 0):
        # a bias
        graph.case = 2
        return graph.make_node('DequantizeLinear', [input, const(graph, scale, float32)], res.outputs)
    if graph.opset >= 21 and dtype in (int16, uint16) and plain:
        graph.case = 3
        return graph.make_node('DequantizeLinear', [input, const(graph, scale, float32), const(graph, zero_point, dtype)], res.outputs)
    # each step is rounded to the result's dtype
    graph.case = 4
    compute_dtype = opmath_dtype(dtype_of(graph, res))
    difference = graph.make_node('Sub', [cast(graph, cast(graph, input, dtype_of(graph, res)), compute_dtype), const(graph, zero_point, compute_dtype)])
    shifted = cast(graph, cast(graph, difference, dtype_of(graph, res)), compute_dtype)
    return cast(graph, graph.make_node('Mul', [shifted, const(graph, scale, compute_dtype)]), dtype_of(graph, res))


def quantized_decomposed_dequantize_per_tensor_tensor(graph: Graph, res: ResultSpec, input: Result, scale: Result, zero_point: Result, quant_min: Int, quant_max: Int, dtype: Dtype, *, out_dtype: Dtype | None = None) -> Result:
    """quantized_decomposed::dequantize_per_tensor.tensor(Tensor input, Tensor scale, Tensor zero_point, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor"""
    own_dtype = dtype_of(graph, input)
    if own_dtype in (int8, uint8) and dtype_of(graph, res) == float32 and fits(graph, zero_point, own_dtype):
        graph.case = 1
        return graph.make_node('DequantizeLinear', [input, one_scale(graph, scale), zero_codes(graph, zero_point, own_dtype, [])], res.outputs)
    graph.case = 2
    compute_dtype = opmath_dtype(dtype_of(graph, res))
    zero = cast(graph, reshape_to(graph, zero_point, []), compute_dtype)
    difference = graph.make_node('Sub', [cast(graph, cast(graph, input, dtype_of(graph, res)), compute_dtype), zero])
    shifted = cast(graph, cast(graph, difference, dtype_of(graph, res)), compute_dtype)
    return cast(graph, graph.make_node('Mul', [shifted, cast(graph, reshape_to(graph, scale, []), compute_dtype)]), dtype_of(graph, res))


def quantized_decomposed_dequantize_per_tensor_tensor2(graph: Graph, res: ResultSpec, input: Result, scale: Result, zero_point: Result, quant_min: Result, quant_max: Result, dtype: Dtype, *, out_dtype: Dtype | None = None) -> Result:
    """quantized_decomposed::dequantize_per_tensor.tensor2(Tensor input, Tensor scale, Tensor zero_point, Tensor quant_min, Tensor quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor"""
    return quantized_decomposed_dequantize_per_tensor_tensor(graph, res, input=input, scale=scale, zero_point=zero_point, quant_min=0, quant_max=0, dtype=dtype, out_dtype=out_dtype)


def quantized_decomposed_fake_quant_per_channel(graph: Graph, res: ResultSpec, input: Result, scales: Result, zero_points: Result, axis: Int, quant_min: Int, quant_max: Int) -> Result:
    """quantized_decomposed::fake_quant_per_channel(Tensor input, Tensor scales, Tensor zero_points, int axis, int quant_min, int quant_max) -> Tensor"""
    place = axis_of(graph, input, axis)
    rank = rank_of(graph, input)
    factor = cast(graph, along_axis(graph, scales, place, rank), float32)
    zero = cast(graph, cast(graph, along_axis(graph, zero_points, place, rank), int32), float32)
    shifted = graph.make_node('Add', [graph.make_node('Round', [graph.make_node('Mul', [input, graph.make_node('Div', [const(graph, 1, float32), factor])])]), zero])
    codes = graph.make_node('Clip', [shifted, const(graph, quant_min, float32), const(graph, quant_max, float32)])
    return graph.make_node('Mul', [graph.make_node('Sub', [codes, zero]), factor], res.outputs)


def quantized_decomposed_quantize_per_channel(graph: Graph, res: ResultSpec, input: Result, scales: Result, zero_points: Result, axis: Int, quant_min: Int, quant_max: Int, dtype: Dtype) -> Result:
    """quantized_decomposed::quantize_per_channel(Tensor input, Tensor scales, Tensor zero_points, int axis, int quant_min, int quant_max, ScalarType dtype) -> Tensor"""
    place = axis_of(graph, input, axis)
    rank = rank_of(graph, input)
    if dtype in (int8, uint8) and dtype_of(graph, scales) == float32 and fits(graph, zero_points, dtype):
        # torch multiplies by 1 / scale, which can differ right at the border of two codes
        graph.case = 1
        codes = zero_codes(graph, zero_points, dtype)
        result = graph.make_node('QuantizeLinear', [cast(graph, input, float32), scales, codes], axis=place)
        return within(graph, result, quant_min, quant_max)
    graph.case = 2
    wide = cast(graph, input, float32)
    inverse = along_axis(graph, graph.make_node('Div', [const(graph, 1, dtype_of(graph, scales)), scales]), place, rank)
    steps = graph.make_node('Round', [graph.make_node('Mul', [*cast_all(graph, [wide, inverse], common_dtype(graph, [wide, inverse]))])])
    zero = along_axis(graph, zero_points, place, rank)
    shifted = graph.make_node('Add', [*cast_all(graph, [steps, zero], common_dtype(graph, [steps, zero]))])
    low, high = (const(graph, quant_min, dtype_of(graph, shifted)), const(graph, quant_max, dtype_of(graph, shifted)))
    return cast(graph, graph.make_node('Clip', [shifted, low, high]), dtype)


def quantized_decomposed_quantize_per_tensor(graph: Graph, res: ResultSpec, input: Result, scale: Float, zero_point: Int, quant_min: Int, quant_max: Int, dtype: Dtype) -> Result:
    """quantized_decomposed::quantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype) -> Tensor"""
    inside = quant_min <= zero_point and zero_point <= quant_max and (1e-30 < scale)
    if dtype in (int8, uint8) and inside:
        # torch multiplies by 1 / scale, which can differ right at the border of two codes
        graph.case = 1
        codes = [const(graph, scale, float32), const(graph, zero_point, dtype)]
        return within(graph, graph.make_node('QuantizeLinear', [cast(graph, input, float32), *codes]), quant_min, quant_max)
    if graph.opset >= 21 and dtype in (int16, uint16) and inside:
        graph.case = 2
        codes = [const(graph, scale, float32), const(graph, zero_point, dtype)]
        return within(graph, graph.make_node('QuantizeLinear', [cast(graph, input, float32), *codes]), quant_min, quant_max)
    graph.case = 3
    steps = graph.make_node('Round', [graph.make_node('Mul', [cast(graph, input, float32), const(graph, 1.0 / scale, float32)])])
    shifted = graph.make_node('Add', [steps, const(graph, zero_point, float32)])
    return cast(graph, graph.make_node('Clip', [shifted, const(graph, quant_min, float32), const(graph, quant_max, float32)]), dtype)


def quantized_decomposed_quantize_per_tensor_tensor(graph: Graph, res: ResultSpec, input: Result, scale: Result, zero_point: Result, quant_min: Int, quant_max: Int, dtype: Dtype) -> Result:
    """quantized_decomposed::quantize_per_tensor.tensor(Tensor input, Tensor scale, Tensor zero_point, int quant_min, int quant_max, ScalarType dtype) -> Tensor"""
    if has_codes(graph, input, zero_point) and quant_min == 0 and (quant_max == 255):
        # DynamicQuantizeLinear, which chose the parameters, has made them
        graph.case = 1
        return codes_of(graph, zero_point)
    if dtype in (int8, uint8) and fits(graph, zero_point, dtype):
        # torch multiplies by 1 / scale, which can differ right at the border of two codes
        graph.case = 2
        codes = [one_scale(graph, scale), zero_codes(graph, zero_point, dtype, [])]
        return within(graph, graph.make_node('QuantizeLinear', [cast(graph, input, float32), *codes]), quant_min, quant_max)
    graph.case = 3
    inverse = graph.make_node('Div', [const(graph, 1, float64), cast(graph, reshape_to(graph, scale, []), float64)])
    steps = graph.make_node('Round', [graph.make_node('Mul', [cast(graph, input, float32), cast(graph, inverse, float32)])])
    shifted = graph.make_node('Add', [steps, cast(graph, reshape_to(graph, zero_point, []), float32)])
    return cast(graph, graph.make_node('Clip', [shifted, const(graph, quant_min, float32), const(graph, quant_max, float32)]), dtype)


def quantized_decomposed_quantize_per_tensor_tensor2(graph: Graph, res: ResultSpec, input: Result, scale: Result, zero_point: Result, quant_min: Result, quant_max: Result, dtype: Dtype) -> Result:
    """quantized_decomposed::quantize_per_tensor.tensor2(Tensor input, Tensor scale, Tensor zero_point, Tensor quant_min, Tensor quant_max, ScalarType dtype) -> Tensor"""
    inverse = graph.make_node('Div', [const(graph, 1, float64), cast(graph, reshape_to(graph, scale, []), float64)])
    steps = graph.make_node('Round', [graph.make_node('Mul', [cast(graph, input, float32), cast(graph, inverse, float32)])])
    shifted = graph.make_node('Add', [steps, cast(graph, reshape_to(graph, zero_point, []), float32)])
    low, high = (reshape_to(graph, quant_min, []), reshape_to(graph, quant_max, []))
    return cast(graph, graph.make_node('Clip', [shifted, cast(graph, low, float32), cast(graph, high, float32)]), dtype)


def rule_quantized_decomposed_convert_element_type_no_fuse(graph: Graph, input: Result, dtype: Dtype) -> Rules:
    return rule_aten__to_copy(graph, self=input, dtype=dtype)


def rule_quantized_decomposed_dequantize_per_channel(graph: Graph, input: Result, scales: Result, zero_points: Result | None, axis: Int, quant_min: Int, quant_max: Int, dtype: Dtype, *, out_dtype: Dtype | None = None) -> Rules:
    return ((float32 if out_dtype is None else out_dtype, shape_or_none(graph, input)),)


def rule_quantized_decomposed_dequantize_per_tensor(graph: Graph, input: Result, scale: Float, zero_point: Int, quant_min: Int, quant_max: Int, dtype: Dtype, *, out_dtype: Dtype | None = None) -> Rules:
    return ((float32 if out_dtype is None else out_dtype, shape_or_none(graph, input)),)


def rule_quantized_decomposed_dequantize_per_tensor_tensor(graph: Graph, input: Result, scale: Result, zero_point: Result, quant_min: Int, quant_max: Int, dtype: Dtype, *, out_dtype: Dtype | None = None) -> Rules:
    return ((float32 if out_dtype is None else out_dtype, shape_or_none(graph, input)),)


def rule_quantized_decomposed_dequantize_per_tensor_tensor2(graph: Graph, input: Result, scale: Result, zero_point: Result, quant_min: Result, quant_max: Result, dtype: Dtype, *, out_dtype: Dtype | None = None) -> Rules:
    return rule_quantized_decomposed_dequantize_per_tensor_tensor(graph, input=input, scale=scale, zero_point=zero_point, quant_min=0, quant_max=0, dtype=dtype, out_dtype=out_dtype)


def rule_quantized_decomposed_fake_quant_per_channel(graph: Graph, input: Result, scales: Result, zero_points: Result, axis: Int, quant_min: Int, quant_max: Int) -> Rules:
    return ((dtype_or_none(graph, input), shape_or_none(graph, input)),)


def rule_quantized_decomposed_quantize_per_channel(graph: Graph, input: Result, scales: Result, zero_points: Result, axis: Int, quant_min: Int, quant_max: Int, dtype: Dtype) -> Rules:
    return ((dtype, shape_or_none(graph, input)),)


def rule_quantized_decomposed_quantize_per_tensor(graph: Graph, input: Result, scale: Float, zero_point: Int, quant_min: Int, quant_max: Int, dtype: Dtype) -> Rules:
    return ((dtype, shape_or_none(graph, input)),)


def rule_quantized_decomposed_quantize_per_tensor_tensor(graph: Graph, input: Result, scale: Result, zero_point: Result, quant_min: Int, quant_max: Int, dtype: Dtype) -> Rules:
    return ((dtype, shape_or_none(graph, input)),)


def rule_quantized_decomposed_quantize_per_tensor_tensor2(graph: Graph, input: Result, scale: Result, zero_point: Result, quant_min: Result, quant_max: Result, dtype: Dtype) -> Rules:
    return ((dtype, shape_or_none(graph, input)),)
