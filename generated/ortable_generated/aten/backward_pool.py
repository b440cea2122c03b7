# Generated from specs/aten/backward_pool.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING

from ortable.dtypes import float64
from ortable.errors import UnsupportedCase
from ortable.lowerings.pooling import avg_pool2d_backward, avg_pool3d_backward
from ortable.lowerings.resize import adaptive_weights, mean_weights
from ortable.prelude.facts import dtype_of, is_float, product, shape_of
from ortable.prelude.indexing import put_in_planes
from ortable.prelude.matrices import summed_back
from ortable.prelude.metadata import dtype_or_none, shape_or_none
from ortable.prelude.values import as_vec, const

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Bool, Int, Ints, Result


def aten__adaptive_avg_pool2d_backward(graph: Graph, res: ResultSpec, grad_output: Result, self: Result) -> Result:
    """aten::_adaptive_avg_pool2d_backward(Tensor grad_output, Tensor self) -> Tensor"""
    have = shape_of(graph, self)[-2:]
    want = shape_of(graph, grad_output)[-2:]
    if len(want) == 2 and product(want) == 1:
        graph.case = 1
        count = const(graph, product(have), dtype_of(graph, self))
        return graph.make_node('Expand', [graph.make_node('Div', [grad_output, count]), as_vec(graph, list(shape_of(graph, self)))], res.outputs)
    graph.case = 2
    return summed_back(graph, grad_output, adaptive_weights(graph, have, want, dtype_of(graph, self)))


def aten__adaptive_avg_pool3d_backward(graph: Graph, res: ResultSpec, grad_output: Result, self: Result) -> Result:
    """aten::_adaptive_avg_pool3d_backward(Tensor grad_output, Tensor self) -> Tensor"""
    have = shape_of(graph, self)[-3:]
    want = shape_of(graph, grad_output)[-3:]
    if len(want) == 3 and product(want) == 1:
        graph.case = 1
        count = const(graph, product(have), dtype_of(graph, self))
        return graph.make_node('Expand', [graph.make_node('Div', [grad_output, count]), as_vec(graph, list(shape_of(graph, self)))], res.outputs)
    graph.case = 2
    return summed_back(graph, grad_output, adaptive_weights(graph, have, want, dtype_of(graph, self)))


def aten_adaptive_max_pool2d_backward(graph: Graph, res: ResultSpec, grad_output: Result, self: Result, indices: Result) -> Result:
    """aten::adaptive_max_pool2d_backward(Tensor grad_output, Tensor self, Tensor indices) -> Tensor"""
    return aten_max_pool2d_with_indices_backward(graph, res, grad_output=grad_output, self=self, kernel_size=[1, 1], stride=[], padding=[0, 0], dilation=[1, 1], ceil_mode=False, indices=indices)


def aten_adaptive_max_pool3d_backward(graph: Graph, res: ResultSpec, grad_output: Result, self: Result, indices: Result) -> Result:
    """aten::adaptive_max_pool3d_backward(Tensor grad_output, Tensor self, Tensor indices) -> Tensor"""
    return aten_max_pool3d_with_indices_backward(graph, res, grad_output=grad_output, self=self, kernel_size=[1, 1, 1], stride=[], padding=[0, 0, 0], dilation=[1, 1, 1], ceil_mode=False, indices=indices)


def aten_avg_pool2d_backward(graph: Graph, res: ResultSpec, grad_output: Result, self: Result, kernel_size: Ints, stride: Ints, padding: Ints, ceil_mode: Bool, count_include_pad: Bool, divisor_override: Int | None) -> Result:
    """aten::avg_pool2d_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] stride, int[2] padding, bool ceil_mode, bool count_include_pad, int? divisor_override) -> Tensor"""
    if not is_float(graph, self):
        graph.case = 1
        raise UnsupportedCase('aten::avg_pool2d_backward: the gradient of whole numbers')
    if dtype_of(graph, self) == float64:
        # onnxruntime has no convolution of float64
        graph.case = 2
        sizes, out_sizes = (shape_of(graph, self)[-2:], shape_of(graph, grad_output)[-2:])
        rest = (ceil_mode, count_include_pad, divisor_override)
        weights = mean_weights(graph, sizes, out_sizes, kernel_size, stride, padding, rest, float64)
        return summed_back(graph, grad_output, weights)
    graph.case = 3
    return avg_pool2d_backward(graph, res, grad_output=grad_output, self=self, kernel_size=kernel_size, stride=stride, padding=padding, ceil_mode=ceil_mode, count_include_pad=count_include_pad, divisor_override=divisor_override)


def aten_avg_pool3d_backward(graph: Graph, res: ResultSpec, grad_output: Result, self: Result, kernel_size: Ints, stride: Ints, padding: Ints, ceil_mode: Bool, count_include_pad: Bool, divisor_override: Int | None) -> Result:
    """aten::avg_pool3d_backward(Tensor grad_output, Tensor self, int[3] kernel_size, int[3] stride, int[3] padding, bool ceil_mode, bool count_include_pad, int? divisor_override) -> Tensor"""
    if not is_float(graph, self):
        graph.case = 1
        raise UnsupportedCase('aten::avg_pool3d_backward: the gradient of whole numbers')
    if dtype_of(graph, self) == float64:
        # onnxruntime has no convolution of float64
        graph.case = 2
        sizes, out_sizes = (shape_of(graph, self)[-3:], shape_of(graph, grad_output)[-3:])
        rest = (ceil_mode, count_include_pad, divisor_override)
        weights = mean_weights(graph, sizes, out_sizes, kernel_size, stride, padding, rest, float64)
        return summed_back(graph, grad_output, weights)
    graph.case = 3
    return avg_pool3d_backward(graph, res, grad_output=grad_output, self=self, kernel_size=kernel_size, stride=stride, padding=padding, ceil_mode=ceil_mode, count_include_pad=count_include_pad, divisor_override=divisor_override)


def aten_fractional_max_pool2d_backward(graph: Graph, res: ResultSpec, grad_output: Result, self: Result, kernel_size: Ints, output_size: Ints, indices: Result) -> Result:
    """aten::fractional_max_pool2d_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] output_size, Tensor indices) -> Tensor"""
    return aten_max_pool2d_with_indices_backward(graph, res, grad_output=grad_output, self=self, kernel_size=kernel_size, stride=[], padding=[0, 0], dilation=[1, 1], ceil_mode=False, indices=indices)


def aten_fractional_max_pool3d_backward(graph: Graph, res: ResultSpec, grad_output: Result, self: Result, kernel_size: Ints, output_size: Ints, indices: Result) -> Result:
    """aten::fractional_max_pool3d_backward(Tensor grad_output, Tensor self, int[3] kernel_size, int[3] output_size, Tensor indices) -> Tensor"""
    return aten_max_pool3d_with_indices_backward(graph, res, grad_output=grad_output, self=self, kernel_size=kernel_size, stride=[], padding=[0, 0, 0], dilation=[1, 1, 1], ceil_mode=False, indices=indices)


def aten_max_pool2d_with_indices_backward(graph: Graph, res: ResultSpec, grad_output: Result, self: Result, kernel_size: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: Bool, indices: Result) -> Result:
    """aten::max_pool2d_with_indices_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] stride, int[2] padding, int[2] dilation, bool ceil_mode, Tensor indices) -> Tensor"""
    return put_in_planes(graph, shape_of(graph, self), 2, indices, grad_output, 'add')


def aten_max_pool3d_with_indices_backward(graph: Graph, res: ResultSpec, grad_output: Result, self: Result, kernel_size: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: Bool, indices: Result) -> Result:
    """aten::max_pool3d_with_indices_backward(Tensor grad_output, Tensor self, int[3] kernel_size, int[3] stride, int[3] padding, int[3] dilation, bool ceil_mode, Tensor indices) -> Tensor"""
    return put_in_planes(graph, shape_of(graph, self), 3, indices, grad_output, 'add')


def rule_aten__adaptive_avg_pool2d_backward(graph: Graph, grad_output: Result, self: Result) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten__adaptive_avg_pool3d_backward(graph: Graph, grad_output: Result, self: Result) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_adaptive_max_pool2d_backward(graph: Graph, grad_output: Result, self: Result, indices: Result) -> Rules:
    return rule_aten_max_pool2d_with_indices_backward(graph, grad_output=grad_output, self=self, kernel_size=[1, 1], stride=[], padding=[0, 0], dilation=[1, 1], ceil_mode=False, indices=indices)


def rule_aten_adaptive_max_pool3d_backward(graph: Graph, grad_output: Result, self: Result, indices: Result) -> Rules:
    return rule_aten_max_pool3d_with_indices_backward(graph, grad_output=grad_output, self=self, kernel_size=[1, 1, 1], stride=[], padding=[0, 0, 0], dilation=[1, 1, 1], ceil_mode=False, indices=indices)


def rule_aten_avg_pool2d_backward(graph: Graph, grad_output: Result, self: Result, kernel_size: Ints, stride: Ints, padding: Ints, ceil_mode: Bool, count_include_pad: Bool, divisor_override: Int | None) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_avg_pool3d_backward(graph: Graph, grad_output: Result, self: Result, kernel_size: Ints, stride: Ints, padding: Ints, ceil_mode: Bool, count_include_pad: Bool, divisor_override: Int | None) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_fractional_max_pool2d_backward(graph: Graph, grad_output: Result, self: Result, kernel_size: Ints, output_size: Ints, indices: Result) -> Rules:
    return rule_aten_max_pool2d_with_indices_backward(graph, grad_output=grad_output, self=self, kernel_size=kernel_size, stride=[], padding=[0, 0], dilation=[1, 1], ceil_mode=False, indices=indices)


def rule_aten_fractional_max_pool3d_backward(graph: Graph, grad_output: Result, self: Result, kernel_size: Ints, output_size: Ints, indices: Result) -> Rules:
    return rule_aten_max_pool3d_with_indices_backward(graph, grad_output=grad_output, self=self, kernel_size=kernel_size, stride=[], padding=[0, 0, 0], dilation=[1, 1, 1], ceil_mode=False, indices=indices)


def rule_aten_max_pool2d_with_indices_backward(graph: Graph, grad_output: Result, self: Result, kernel_size: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: Bool, indices: Result) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_max_pool3d_with_indices_backward(graph: Graph, grad_output: Result, self: Result, kernel_size: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: Bool, indices: Result) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)
