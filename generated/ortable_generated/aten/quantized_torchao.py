# Generated from specs/aten/quantized_torchao.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.dtypes import float32, int32, int8, uint8
from ortable.errors import UnsupportedCase
from ortable.lowerings.quantize import as_nibbles, block_axes, block_shape, channel_axis, known_as
from ortable.prelude.facts import differs, dim_of, dtype_max, dtype_min, dtype_of, is_static, rank_of, shape_of, static
from ortable.prelude.metadata import dtype_or_none, shape_or_none
from ortable.prelude.promotion import common_dtype
from ortable.prelude.quantized import fits, zero_codes
from ortable.prelude.reductions import reduced_extreme
from ortable.prelude.values import cast, cast_all, const, filled, reshape_to

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Bool, Dtype, Float, Result, Scalar, Str, SymInts


def rule_torchao_choose_qparams_affine(graph: Graph, input: Result | None, mapping_type: Str, block_size: SymInts, target_dtype: Dtype, quant_min: Scalar | None = None, quant_max: Scalar | None = None, eps: Float | None = None, scale_dtype: Dtype | None = None, zero_point_dtype: Dtype | None = None, keepdim: Bool = False) -> Rules:
    return ((dtype_or_none(graph, input) if scale_dtype is None else scale_dtype, None), (int32 if zero_point_dtype is None else zero_point_dtype, None),)


def rule_torchao_dequantize_affine(graph: Graph, input: Result, block_size: SymInts, scale: Result, zero_point: Result | None, input_dtype: Dtype, quant_min: Scalar | None = None, quant_max: Scalar | None = None, output_dtype: Dtype = 1) -> Rules:
    return ((output_dtype, shape_or_none(graph, input)),)


def rule_torchao_quantize_affine(graph: Graph, input: Result, block_size: SymInts, scale: Result, zero_point: Result | None, output_dtype: Dtype, quant_min: Scalar | None = None, quant_max: Scalar | None = None) -> Rules:
    return ((output_dtype, shape_or_none(graph, input)),)


def torchao_choose_qparams_affine(graph: Graph, res: ResultSpec, input: Result | None, mapping_type: Str, block_size: SymInts, target_dtype: Dtype, quant_min: Scalar | None = None, quant_max: Scalar | None = None, eps: Float | None = None, scale_dtype: Dtype | None = None, zero_point_dtype: Dtype | None = None, keepdim: Bool = False) -> Any:
    """torchao::choose_qparams_affine(Tensor? input, str mapping_type, SymInt[] block_size, ScalarType target_dtype, Scalar? quant_min=None, Scalar? quant_max=None, float? eps=None, ScalarType? scale_dtype=None, ScalarType? zero_point_dtype=None, bool keepdim=False) -> (Tensor, Tensor)"""
    low = dtype_min(target_dtype) if quant_min is None else quant_min
    high = dtype_max(target_dtype) if quant_max is None else quant_max
    least = 1.1754943508222875e-38 if eps is None else eps
    if input is None or dtype_of(graph, input) != float32:
        graph.case = 1
        raise UnsupportedCase('torchao::choose_qparams_affine: the parameters of a quantization are chosen of float32 tensors only')
    if mapping_type == 'SYMMETRIC':
        graph.case = 2
        zero = const(graph, 0, float32)
        axes = block_axes(graph, input, block_size)
        groups = reshape_to(graph, input, block_shape(graph, input, block_size))
        below = graph.make_node('Min', [reduced_extreme(graph, groups, axes, True, False), zero])
        above = graph.make_node('Max', [reduced_extreme(graph, groups, axes, True, True), zero])
        reach = graph.make_node('Max', [graph.make_node('Neg', [below]), above])
        scale = graph.make_node('Max', [graph.make_node('Div', [reach, const(graph, (high - low) / 2, float32)]), const(graph, least, float32)])
        result = cast(graph, reshape_to(graph, scale, shape_of(graph, res)), dtype_of(graph, res))
        return (result, filled(graph, shape_of(graph, res[1]), int((high + low + 1) / 2), dtype_of(graph, res[1])))
    if mapping_type == 'ASYMMETRIC':
        graph.case = 3
        zero = const(graph, 0, float32)
        axes = block_axes(graph, input, block_size)
        groups = reshape_to(graph, input, block_shape(graph, input, block_size))
        below = graph.make_node('Min', [reduced_extreme(graph, groups, axes, True, False), zero])
        above = graph.make_node('Max', [reduced_extreme(graph, groups, axes, True, True), zero])
        steps = graph.make_node('Div', [graph.make_node('Sub', [above, below]), const(graph, high - low, float32)])
        scale = graph.make_node('Max', [steps, const(graph, least, float32)])
        point = graph.make_node('Sub', [const(graph, low, float32), graph.make_node('Round', [graph.make_node('Div', [below, scale])])])
        point = graph.make_node('Clip', [point, const(graph, low, float32), const(graph, high, float32)])
        result = cast(graph, reshape_to(graph, scale, shape_of(graph, res)), dtype_of(graph, res))
        return (result, cast(graph, reshape_to(graph, point, shape_of(graph, res[1])), dtype_of(graph, res[1])))
    graph.case = 4
    raise UnsupportedCase('torchao::choose_qparams_affine: a way to choose the parameters that torchao uses for weights only')


def torchao_dequantize_affine(graph: Graph, res: ResultSpec, input: Result, block_size: SymInts, scale: Result, zero_point: Result | None, input_dtype: Dtype, quant_min: Scalar | None = None, quant_max: Scalar | None = None, output_dtype: Dtype = 1) -> Result:
    """torchao::dequantize_affine(Tensor input, SymInt[] block_size, Tensor scale, Tensor? zero_point, ScalarType input_dtype, Scalar? quant_min=None, Scalar? quant_max=None, ScalarType output_dtype=6) -> Tensor"""
    dtype = dtype_of(graph, input)
    axis = channel_axis(graph, input, block_size)
    plain = dtype in (int8, uint8) and dtype_of(graph, scale) == float32 and (dtype_of(graph, res) == float32)
    last = block_size[-1]
    whole = is_static([last, dim_of(graph, input, -1)]) and dim_of(graph, input, -1) % last == 0
    grouped = rank_of(graph, input) == 2 and block_size[0] == 1 and differs(last, 1) and whole
    nibbles = quant_min is not None and quant_max is not None and (quant_min >= -8) and (quant_max <= 7)
    per_block = block_shape(graph, input, block_size, True)
    if plain and axis >= 0 and fits(graph, zero_point, dtype):
        graph.case = 1
        zero = zero_codes(graph, zero_point, dtype, [-1])
        return graph.make_node('DequantizeLinear', [input, known_as(graph, scale, [-1]), zero], res.outputs, axis=axis)
    if graph.opset >= 21 and plain and grouped and fits(graph, zero_point, dtype):
        graph.case = 2
        codes = as_nibbles(graph, input, zero_point) if nibbles else input
        zero = zero_codes(graph, zero_point, dtype_of(graph, codes))
        return graph.make_node('DequantizeLinear', [codes, scale, zero], res.outputs, axis=1, block_size=static(last))
    graph.case = 3
    groups = reshape_to(graph, input, block_shape(graph, input, block_size))
    factor = reshape_to(graph, scale, per_block)
    zero = const(graph, 0, int32) if zero_point is None else reshape_to(graph, zero_point, per_block)
    apart = graph.make_node('Sub', [*cast_all(graph, [groups, zero], dtype_of(graph, res))])
    result = graph.make_node('Mul', [*cast_all(graph, [apart, factor], common_dtype(graph, [apart, factor]))])
    return cast(graph, reshape_to(graph, result, shape_of(graph, input)), dtype_of(graph, res))


def torchao_quantize_affine(graph: Graph, res: ResultSpec, input: Result, block_size: SymInts, scale: Result, zero_point: Result | None, output_dtype: Dtype, quant_min: Scalar | None = None, quant_max: Scalar | None = None) -> Result:
    """torchao::quantize_affine(Tensor input, SymInt[] block_size, Tensor scale, Tensor? zero_point, ScalarType output_dtype, Scalar? quant_min=None, Scalar? quant_max=None) -> Tensor"""
    low = dtype_min(output_dtype) if quant_min is None else quant_min
    high = dtype_max(output_dtype) if quant_max is None else quant_max
    per_block = block_shape(graph, input, block_size, True)
    groups = reshape_to(graph, input, block_shape(graph, input, block_size))
    inverse = graph.make_node('Div', [const(graph, 1, dtype_of(graph, scale)), reshape_to(graph, scale, per_block)])
    zero = const(graph, 0, int32) if zero_point is None else reshape_to(graph, zero_point, per_block)
    steps = graph.make_node('Round', [graph.make_node('Mul', [*cast_all(graph, [groups, inverse], common_dtype(graph, [groups, inverse]))])])
    shifted = graph.make_node('Add', [*cast_all(graph, [steps, zero], common_dtype(graph, [steps, zero]))])
    least, most = (const(graph, low, dtype_of(graph, shifted)), const(graph, high, dtype_of(graph, shifted)))
    return reshape_to(graph, cast(graph, graph.make_node('Clip', [shifted, least, most]), output_dtype), shape_of(graph, input))
