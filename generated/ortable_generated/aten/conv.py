# Generated from specs/aten/conv.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.dtypes import int64
from ortable.known import known_dtype, known_shape
from ortable.lowerings.convolution import convolution_backward
from ortable.prelude import differs, rank_of, shape_of, spread, static, swapped
from ortable.prelude_make import consts, cropped
from ortable.prelude_types import conv_output_padding

if TYPE_CHECKING:
    from ortable.builder import GraphBuilder, Res
    from ortable.known import Rules
    from ortable.prelude import Bool, Bools, Result, SymInt, SymInts


def aten_convolution(graph: GraphBuilder, res: Res, input: Result, weight: Result, bias: Result | None, stride: SymInts, padding: SymInts, dilation: SymInts, transposed: Bool, output_padding: SymInts, groups: SymInt) -> Result:
    """aten::convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor"""
    n = rank_of(graph, weight) - 2
    strides = spread(static(stride), n)
    pads = spread(static(padding), n) * 2
    dilations = spread(static(dilation), n)
    if transposed:
        return graph.make_node('ConvTranspose', [input, weight, bias], res.outputs, strides=strides, pads=pads, dilations=dilations, group=static(groups), output_padding=spread(static(output_padding), n))
    return graph.make_node('Conv', [input, weight, bias], res.outputs, strides=strides, pads=pads, dilations=dilations, group=static(groups))


def aten_convolution_backward(graph: GraphBuilder, res: Res, grad_output: Result, input: Result, weight: Result, bias_sizes: SymInts | None, stride: SymInts, padding: SymInts, dilation: SymInts, transposed: Bool, output_padding: SymInts, groups: SymInt, output_mask: Bools) -> Any:
    """aten::convolution_backward(Tensor grad_output, Tensor input, Tensor weight, SymInt[]? bias_sizes, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups, bool[3] output_mask) -> (Tensor, Tensor, Tensor)"""
    n = rank_of(graph, weight) - 2
    strides = spread(static(stride), n)
    pads = spread(static(padding), n)
    dilations = spread(static(dilation), n)
    turned = swapped(n + 2, 0, 1)
    others = [0] + list(range(2, n + 2))
    if transposed or differs(groups, 1):
        return convolution_backward(graph, res, grad_output=grad_output, input=input, weight=weight, stride=stride, padding=padding, dilation=dilation, transposed=transposed, groups=groups, output_mask=output_mask)
    both = pads * 2
    back = conv_output_padding(graph, input, grad_output, weight, strides, pads, dilations) if output_mask[0] else []
    grad_input = graph.make_node('ConvTranspose', [grad_output, weight], strides=strides, pads=both, dilations=dilations, output_padding=back) if output_mask[0] else None
    wide = graph.make_node('Conv', [graph.make_node('Transpose', [input], perm=turned), graph.make_node('Transpose', [grad_output], perm=turned)], strides=dilations, dilations=strides, pads=both) if output_mask[1] else None
    kernel = cropped(graph, wide, shape_of(graph, weight)[2:]) if wide is not None else None
    grad_weight = graph.make_node('Transpose', [kernel], perm=turned) if kernel is not None else None
    axes = consts(graph, others, int64)
    grad_bias = graph.make_node('ReduceSum', [grad_output, axes], keepdims=0) if output_mask[2] else None
    return (grad_input, grad_weight, grad_bias)


def rule_aten_convolution(graph: GraphBuilder, input: Result, weight: Result, bias: Result | None, stride: SymInts, padding: SymInts, dilation: SymInts, transposed: Bool, output_padding: SymInts, groups: SymInt) -> Rules:
    return ((known_dtype(graph, input), None),)


def rule_aten_convolution_backward(graph: GraphBuilder, grad_output: Result, input: Result, weight: Result, bias_sizes: SymInts | None, stride: SymInts, padding: SymInts, dilation: SymInts, transposed: Bool, output_padding: SymInts, groups: SymInt, output_mask: Bools) -> Rules:
    return ((known_dtype(graph, input), known_shape(graph, input)), (known_dtype(graph, weight), known_shape(graph, weight)), (known_dtype(graph, weight), None),)
