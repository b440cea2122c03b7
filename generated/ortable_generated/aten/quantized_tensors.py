# Generated from specs/aten/quantized_tensors.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING

from ortable.dtypes import float32
from ortable.errors import UnsupportedCase
from ortable.prelude.metadata import shape_or_none
from ortable.prelude.values import cast

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Dtype, Float, Int, Result


def aten_dequantize_self(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::dequantize.self(Tensor self) -> Tensor"""
    # torch makes a float32 tensor of any float; a quantized tensor has no ONNX type
    return cast(graph, self, float32)


def aten_quantize_per_tensor(graph: Graph, res: ResultSpec, self: Result, scale: Float, zero_point: Int, dtype: Dtype) -> Result:
    """aten::quantize_per_tensor(Tensor self, float scale, int zero_point, ScalarType dtype) -> Tensor"""
    raise UnsupportedCase('aten::quantize_per_tensor: a quantized tensor holds its scale inside; use quantization through torch.export')


def aten_quantize_per_tensor_tensor_qparams(graph: Graph, res: ResultSpec, self: Result, scale: Result, zero_point: Result, dtype: Dtype) -> Result:
    """aten::quantize_per_tensor.tensor_qparams(Tensor self, Tensor scale, Tensor zero_point, ScalarType dtype) -> Tensor"""
    raise UnsupportedCase('aten::quantize_per_tensor.tensor_qparams: a quantized tensor holds its scale inside; use quantization through torch.export')


def rule_aten_dequantize_self(graph: Graph, self: Result) -> Rules:
    return ((float32, shape_or_none(graph, self)),)


def rule_aten_quantize_per_tensor(graph: Graph, self: Result, scale: Float, zero_point: Int, dtype: Dtype) -> Rules:
    return ((dtype, shape_or_none(graph, self)),)


def rule_aten_quantize_per_tensor_tensor_qparams(graph: Graph, self: Result, scale: Result, zero_point: Result, dtype: Dtype) -> Rules:
    return ((dtype, shape_or_none(graph, self)),)
