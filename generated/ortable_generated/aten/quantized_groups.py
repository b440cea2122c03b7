# Generated from specs/aten/quantized_groups.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.dtypes import float32, float64, int32, int64, int8, uint8
from ortable.errors import UnsupportedCase
from ortable.lowerings.quantize import as_nibbles, group_length, has_scale_per_group
from ortable.prelude.facts import axes_of, dtype_of, rank_of, shape_of, static
from ortable.prelude.metadata import shape_or_none
from ortable.prelude.pointwise import larger_of, smaller_of
from ortable.prelude.promotion import common_dtype, machine_epsilon, opmath_dtype
from ortable.prelude.quantized import fits, zero_codes
from ortable.prelude.reductions import reduced_extreme
from ortable.prelude.values import cast, cast_all, const, consts, reshape_to, unsqueezed

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Dtype, Float, Int, Result


def quantized_decomposed__choose_qparams_per_token_asymmetric_impl(graph: Graph, res: ResultSpec, input: Result, dtype: Dtype) -> Any:
    """quantized_decomposed::_choose_qparams_per_token_asymmetric_impl(Tensor input, ScalarType dtype) -> (Tensor, Tensor)"""
    own_dtype = dtype_of(graph, input)
    compute_dtype = opmath_dtype(dtype_of(graph, input))
    low = graph.make_node('Min', [reduced_extreme(graph, input, [rank_of(graph, input) - 1], True, False), const(graph, 0, own_dtype)])
    high = graph.make_node('Max', [reduced_extreme(graph, input, [rank_of(graph, input) - 1], True, True), const(graph, 0, own_dtype)])
    least = cast(graph, graph.make_node('Div', [cast(graph, graph.make_node('Sub', [high, low]), compute_dtype), const(graph, 255, compute_dtype)]), own_dtype)
    scale = cast(graph, graph.make_node('Max', [cast(graph, least, compute_dtype), const(graph, machine_epsilon(float32), compute_dtype)]), own_dtype)
    down, up = (graph.make_node('Div', [low, scale]), graph.make_node('Div', [high, scale]))
    sides = [graph.make_node('Sub', [const(graph, -128, own_dtype), down]), graph.make_node('Sub', [const(graph, 127, own_dtype), up])]
    error = graph.make_node('Add', [graph.make_node('Add', [const(graph, -128, own_dtype), down]), graph.make_node('Add', [const(graph, 127, own_dtype), up])])
    result = graph.make_node('Clip', [graph.make_node('Where', [graph.make_node('Greater', [error, const(graph, 0, own_dtype)]), *sides]), const(graph, -128, own_dtype), const(graph, 127, own_dtype)])
    return (cast(graph, scale, float64), cast(graph, graph.make_node('Round', [result]), int64))


def quantized_decomposed_choose_qparams_per_token(graph: Graph, res: ResultSpec, input: Result, dtype: Dtype) -> Any:
    """quantized_decomposed::choose_qparams_per_token(Tensor input, ScalarType dtype) -> (Tensor, Tensor)"""
    raise UnsupportedCase('quantized_decomposed::choose_qparams_per_token: torch exports it with results of other types than it computes')


def quantized_decomposed_choose_qparams_per_token_asymmetric(graph: Graph, res: ResultSpec, input: Result, dtype: Dtype) -> Any:
    """quantized_decomposed::choose_qparams_per_token_asymmetric(Tensor input, ScalarType dtype) -> (Tensor, Tensor)"""
    return quantized_decomposed__choose_qparams_per_token_asymmetric_impl(graph, res, input=input, dtype=dtype)


def quantized_decomposed_choose_qparams_symmetric_tensor(graph: Graph, res: ResultSpec, input: Result, quant_min: Int, quant_max: Int, eps: Float, dtype: Dtype) -> Any:
    """quantized_decomposed::choose_qparams_symmetric.tensor(Tensor input, int quant_min, int quant_max, float eps, ScalarType dtype) -> (Tensor, Tensor)"""
    compute_dtype = opmath_dtype(dtype_of(graph, input))
    axes = axes_of(graph, input, [])
    zero = const(graph, 0, dtype_of(graph, input))
    low = graph.make_node('Min', [reduced_extreme(graph, input, axes, False, False), zero])
    high = graph.make_node('Max', [reduced_extreme(graph, input, axes, False, True), zero])
    reach = graph.make_node('Max', [graph.make_node('Neg', [low]), high])
    least = graph.make_node('Div', [cast(graph, reach, compute_dtype), const(graph, (quant_max - quant_min) / 2, compute_dtype)])
    rounded = cast(graph, cast(graph, least, dtype_of(graph, input)), float32)
    scale = graph.make_node('Max', [unsqueezed(graph, rounded, [0]), consts(graph, [eps], float32)])
    return (cast(graph, scale, float64), consts(graph, [128 if dtype == uint8 else 0], int64))


def quantized_decomposed_choose_qparams_tensor(graph: Graph, res: ResultSpec, input: Result, quant_min: Int, quant_max: Int, eps: Float, dtype: Dtype) -> Any:
    """quantized_decomposed::choose_qparams.tensor(Tensor input, int quant_min, int quant_max, float eps, ScalarType dtype) -> (Tensor, Tensor)"""
    compute_dtype = opmath_dtype(dtype_of(graph, input))
    axes = axes_of(graph, input, [])
    codes = dtype == uint8 and quant_min == 0 and (quant_max == 255)
    if graph.target == 'onnxruntime' and codes and dtype_of(graph, input) == float32 and (eps <= 0.000245):
        # without eps (2**-12 at most), so that a range below 255 * eps has finer codes than in torch
        graph.case = 1
        _, scale, zero = graph.make_node('DynamicQuantizeLinear', [input], 3)
        return (reshape_to(graph, cast(graph, scale, float64), [1]), reshape_to(graph, cast(graph, zero, int64), [1]))
    graph.case = 2
    zero = const(graph, 0, dtype_of(graph, input))
    low = graph.make_node('Min', [reduced_extreme(graph, input, axes, False, False), zero])
    high = graph.make_node('Max', [reduced_extreme(graph, input, axes, False, True), zero])
    least = graph.make_node('Div', [cast(graph, graph.make_node('Sub', [high, low]), compute_dtype), const(graph, quant_max - quant_min, compute_dtype)])
    scale = graph.make_node('Max', [cast(graph, cast(graph, least, dtype_of(graph, input)), float32), const(graph, eps, float32)])
    below = cast(graph, graph.make_node('Round', [graph.make_node('Div', [cast(graph, low, float32), scale])]), int64)
    wanted = larger_of(graph, graph.make_node('Sub', [const(graph, quant_min, int64), below]), const(graph, quant_min, int64))
    point = smaller_of(graph, wanted, const(graph, quant_max, int64))
    return (reshape_to(graph, cast(graph, scale, float64), [1]), reshape_to(graph, cast(graph, point, int64), [1]))


def quantized_decomposed_dequantize_per_channel_group(graph: Graph, res: ResultSpec, input: Result, scales: Result, zero_points: Result | None, quant_min: Int, quant_max: Int, dtype: Dtype, group_size: Int, output_dtype: Dtype) -> Result:
    """quantized_decomposed::dequantize_per_channel_group(Tensor input, Tensor scales, Tensor? zero_points, int quant_min, int quant_max, ScalarType dtype, int group_size, ScalarType output_dtype) -> Tensor"""
    size = group_length(graph, input, scales, group_size)
    own_dtype = dtype_of(graph, input)
    plain = own_dtype in (int8, uint8) and dtype_of(graph, scales) == float32 and (output_dtype == float32)
    nibbles = quant_min >= -8 and quant_max <= 7
    own_scales = has_scale_per_group(graph, input, scales, zero_points, size)
    if graph.opset >= 21 and plain and own_scales and fits(graph, zero_points, own_dtype):
        graph.case = 1
        codes = as_nibbles(graph, input, zero_points) if nibbles else input
        zero = zero_codes(graph, zero_points, dtype_of(graph, codes))
        return graph.make_node('DequantizeLinear', [codes, scales, zero], res.outputs, axis=1, block_size=static(size))
    graph.case = 2
    groups, factor = (reshape_to(graph, input, [-1, size]), reshape_to(graph, scales, [-1, 1]))
    zero = const(graph, 0, int32) if zero_points is None else reshape_to(graph, zero_points, [-1, 1])
    shifted = graph.make_node('Sub', [*cast_all(graph, [groups, zero], common_dtype(graph, [groups, zero]))])
    result = graph.make_node('Mul', [*cast_all(graph, [shifted, factor], common_dtype(graph, [groups, zero, factor]))])
    return cast(graph, reshape_to(graph, result, shape_of(graph, input)), output_dtype)


def quantized_decomposed_dequantize_per_token(graph: Graph, res: ResultSpec, input: Result, scales: Result, zero_points: Result, quant_min: Int, quant_max: Int, dtype: Dtype, output_dtype: Dtype) -> Result:
    """quantized_decomposed::dequantize_per_token(Tensor input, Tensor scales, Tensor zero_points, int quant_min, int quant_max, ScalarType dtype, ScalarType output_dtype) -> Tensor"""
    shifted = graph.make_node('Sub', [*cast_all(graph, [input, zero_points], common_dtype(graph, [input, zero_points]))])
    result = graph.make_node('Mul', [*cast_all(graph, [shifted, scales], common_dtype(graph, [shifted, scales]))])
    return cast(graph, result, output_dtype)


def quantized_decomposed_quantize_per_channel_group(graph: Graph, res: ResultSpec, input: Result, scales: Result, zero_points: Result, quant_min: Int, quant_max: Int, dtype: Dtype, group_size: Int) -> Result:
    """quantized_decomposed::quantize_per_channel_group(Tensor input, Tensor scales, Tensor zero_points, int quant_min, int quant_max, ScalarType dtype, int group_size) -> Tensor"""
    size = group_length(graph, input, scales, group_size)
    groups = reshape_to(graph, input, [-1, size])
    factor, zero = (reshape_to(graph, scales, [-1, 1]), reshape_to(graph, zero_points, [-1, 1]))
    inverse = graph.make_node('Div', [const(graph, 1, dtype_of(graph, factor)), factor])
    steps = graph.make_node('Mul', [*cast_all(graph, [groups, inverse], common_dtype(graph, [groups, inverse]))])
    compute_dtype = common_dtype(graph, [groups, factor, zero])
    shifted = graph.make_node('Round', [graph.make_node('Add', [*cast_all(graph, [steps, zero], compute_dtype)])])
    low, high = (const(graph, quant_min, dtype_of(graph, shifted)), const(graph, quant_max, dtype_of(graph, shifted)))
    return reshape_to(graph, cast(graph, graph.make_node('Clip', [shifted, low, high]), dtype), shape_of(graph, input))


def quantized_decomposed_quantize_per_token(graph: Graph, res: ResultSpec, input: Result, scales: Result, zero_points: Result, quant_min: Int, quant_max: Int, dtype: Dtype) -> Result:
    """quantized_decomposed::quantize_per_token(Tensor input, Tensor scales, Tensor zero_points, int quant_min, int quant_max, ScalarType dtype) -> Tensor"""
    inverse = graph.make_node('Div', [const(graph, 1, dtype_of(graph, scales)), scales])
    steps = graph.make_node('Mul', [*cast_all(graph, [input, inverse], common_dtype(graph, [input, inverse]))])
    shifted = graph.make_node('Round', [graph.make_node('Add', [*cast_all(graph, [steps, zero_points], common_dtype(graph, [steps, zero_points]))])])
    low, high = (const(graph, quant_min, dtype_of(graph, shifted)), const(graph, quant_max, dtype_of(graph, shifted)))
    return cast(graph, graph.make_node('Clip', [shifted, low, high]), dtype)


def rule_quantized_decomposed__choose_qparams_per_token_asymmetric_impl(graph: Graph, input: Result, dtype: Dtype) -> Rules:
    return ((float64, None), (int64, None),)


def rule_quantized_decomposed_choose_qparams_per_token(graph: Graph, input: Result, dtype: Dtype) -> Rules:
    return ((float64, None), (int64, None),)


def rule_quantized_decomposed_choose_qparams_per_token_asymmetric(graph: Graph, input: Result, dtype: Dtype) -> Rules:
    return rule_quantized_decomposed__choose_qparams_per_token_asymmetric_impl(graph, input=input, dtype=dtype)


def rule_quantized_decomposed_choose_qparams_symmetric_tensor(graph: Graph, input: Result, quant_min: Int, quant_max: Int, eps: Float, dtype: Dtype) -> Rules:
    return ((float64, None), (int64, None),)


def rule_quantized_decomposed_choose_qparams_tensor(graph: Graph, input: Result, quant_min: Int, quant_max: Int, eps: Float, dtype: Dtype) -> Rules:
    return ((float64, None), (int64, None),)


def rule_quantized_decomposed_dequantize_per_channel_group(graph: Graph, input: Result, scales: Result, zero_points: Result | None, quant_min: Int, quant_max: Int, dtype: Dtype, group_size: Int, output_dtype: Dtype) -> Rules:
    return ((output_dtype, shape_or_none(graph, input)),)


def rule_quantized_decomposed_dequantize_per_token(graph: Graph, input: Result, scales: Result, zero_points: Result, quant_min: Int, quant_max: Int, dtype: Dtype, output_dtype: Dtype) -> Rules:
    return ((output_dtype, shape_or_none(graph, input)),)


def rule_quantized_decomposed_quantize_per_channel_group(graph: Graph, input: Result, scales: Result, zero_points: Result, quant_min: Int, quant_max: Int, dtype: Dtype, group_size: Int) -> Rules:
    return ((dtype, shape_or_none(graph, input)),)


def rule_quantized_decomposed_quantize_per_token(graph: Graph, input: Result, scales: Result, zero_points: Result, quant_min: Int, quant_max: Int, dtype: Dtype) -> Rules:
    return ((dtype, shape_or_none(graph, input)),)
