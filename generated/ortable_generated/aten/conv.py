# Generated from specs/aten/conv.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.dtypes import bfloat16, float32, float64
from ortable.lowerings.complex.parts import products_of_parts
from ortable.lowerings.convolution import convolution_backward, direct_convolution, direct_transposed, same_padding, wide_transposed
from ortable.lowerings.convolution_gradient import direct_convolution_backward
from ortable.prelude.facts import broadcast_ints, dtype_of, is_float, is_static, rank_of, shape_of, static
from ortable.prelude.metadata import dtype_or_none, shape_or_none
from ortable.prelude.values import as_vec, cast, squeezed, unsqueezed

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Bool, Bools, Ints, Result, Str, SymInt, SymInts


def aten__convolution(graph: Graph, res: ResultSpec, input: Result, weight: Result, bias: Result | None, stride: SymInts, padding: SymInts, dilation: SymInts, transposed: Bool, output_padding: SymInts, groups: SymInt, benchmark: Bool, deterministic: Bool, cudnn_enabled: Bool, allow_tf32: Bool) -> Result:
    """aten::_convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups, bool benchmark, bool deterministic, bool cudnn_enabled, bool allow_tf32) -> Tensor"""
    return aten_convolution(graph, res, input=input, weight=weight, bias=bias, stride=stride, padding=padding, dilation=dilation, transposed=transposed, output_padding=output_padding, groups=groups)


def aten__convolution_deprecated(graph: Graph, res: ResultSpec, input: Result, weight: Result, bias: Result | None, stride: SymInts, padding: SymInts, dilation: SymInts, transposed: Bool, output_padding: Ints, groups: SymInt, benchmark: Bool, deterministic: Bool, cudnn_enabled: Bool) -> Result:
    """aten::_convolution.deprecated(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, int[] output_padding, SymInt groups, bool benchmark, bool deterministic, bool cudnn_enabled) -> Tensor"""
    return aten_convolution(graph, res, input=input, weight=weight, bias=bias, stride=stride, padding=padding, dilation=dilation, transposed=transposed, output_padding=output_padding, groups=groups)


def aten_conv1d(graph: Graph, res: ResultSpec, input: Result, weight: Result, bias: Result | None = None, stride: SymInts = (1,), padding: SymInts = (0,), dilation: SymInts = (1,), groups: SymInt = 1) -> Result:
    """aten::conv1d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], SymInt[1] padding=[0], SymInt[1] dilation=[1], SymInt groups=1) -> Tensor"""
    return aten_convolution(graph, res, input=input, weight=weight, bias=bias, stride=stride, padding=padding, dilation=dilation, transposed=False, output_padding=[0], groups=groups)


def aten_conv1d_padding(graph: Graph, res: ResultSpec, input: Result, weight: Result, bias: Result | None = None, stride: SymInts = (1,), padding: Str = 'valid', dilation: SymInts = (1,), groups: SymInt = 1) -> Result:
    '''aten::conv1d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], str padding="valid", SymInt[1] dilation=[1], SymInt groups=1) -> Tensor'''
    return aten_conv2d_padding(graph, res, input=input, weight=weight, bias=bias, stride=stride, padding=padding, dilation=dilation, groups=groups)


def aten_conv2d(graph: Graph, res: ResultSpec, input: Result, weight: Result, bias: Result | None = None, stride: SymInts = (1, 1), padding: SymInts = (0, 0), dilation: SymInts = (1, 1), groups: SymInt = 1) -> Result:
    """aten::conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], SymInt[2] padding=[0, 0], SymInt[2] dilation=[1, 1], SymInt groups=1) -> Tensor"""
    return aten_convolution(graph, res, input=input, weight=weight, bias=bias, stride=stride, padding=padding, dilation=dilation, transposed=False, output_padding=[0, 0], groups=groups)


def aten_conv2d_padding(graph: Graph, res: ResultSpec, input: Result, weight: Result, bias: Result | None = None, stride: SymInts = (1, 1), padding: Str = 'valid', dilation: SymInts = (1, 1), groups: SymInt = 1) -> Result:
    '''aten::conv2d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], str padding="valid", SymInt[2] dilation=[1, 1], SymInt groups=1) -> Tensor'''
    n = rank_of(graph, weight) - 2
    spacing = broadcast_ints(static(dilation), n)
    sizes = shape_of(graph, weight)[2:]
    window = static(sizes) if is_static(sizes) else None
    pads = same_padding(sizes, spacing) if padding == 'same' else [0] * 2 * n
    extra = [] if rank_of(graph, input) == rank_of(graph, weight) else [0]
    compute_dtype = float32 if dtype_of(graph, input) == bfloat16 else dtype_of(graph, input)
    without_kernel = dtype_of(graph, input) == float64 or not is_float(graph, input) or (not is_static([groups]))
    if without_kernel:
        graph.case = 1
        return direct_convolution(graph, res, input=input, weight=weight, bias=bias, stride=stride, padding=padding, dilation=dilation, groups=groups)
    if not is_static(pads):
        # the pads follow from the sizes of the kernel, and an attribute takes no dynamic size
        graph.case = 2
        steps = broadcast_ints(static(stride), n)
        x = unsqueezed(graph, cast(graph, input, compute_dtype), extra)
        padded = graph.make_node('Pad', [x, as_vec(graph, [0, 0, *pads[:n], 0, 0, *pads[n:]])])
        result = graph.make_node('Conv', [padded, cast(graph, weight, compute_dtype), cast(graph, bias, compute_dtype) if bias is not None else None], strides=steps, dilations=spacing, group=static(groups), kernel_shape=window)
        return cast(graph, squeezed(graph, result, extra), dtype_of(graph, input))
    graph.case = 3
    steps = broadcast_ints(static(stride), n)
    x = unsqueezed(graph, cast(graph, input, compute_dtype), extra)
    result = graph.make_node('Conv', [x, cast(graph, weight, compute_dtype), cast(graph, bias, compute_dtype) if bias is not None else None], strides=steps, pads=static(pads), dilations=spacing, group=static(groups), kernel_shape=window)
    return cast(graph, squeezed(graph, result, extra), dtype_of(graph, input))


def aten_conv3d(graph: Graph, res: ResultSpec, input: Result, weight: Result, bias: Result | None = None, stride: SymInts = (1, 1, 1), padding: SymInts = (0, 0, 0), dilation: SymInts = (1, 1, 1), groups: SymInt = 1) -> Result:
    """aten::conv3d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1], SymInt[3] padding=[0, 0, 0], SymInt[3] dilation=[1, 1, 1], SymInt groups=1) -> Tensor"""
    return aten_convolution(graph, res, input=input, weight=weight, bias=bias, stride=stride, padding=padding, dilation=dilation, transposed=False, output_padding=[0, 0, 0], groups=groups)


def aten_conv3d_padding(graph: Graph, res: ResultSpec, input: Result, weight: Result, bias: Result | None = None, stride: SymInts = (1, 1, 1), padding: Str = 'valid', dilation: SymInts = (1, 1, 1), groups: SymInt = 1) -> Result:
    '''aten::conv3d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1], str padding="valid", SymInt[3] dilation=[1, 1, 1], SymInt groups=1) -> Tensor'''
    return aten_conv2d_padding(graph, res, input=input, weight=weight, bias=bias, stride=stride, padding=padding, dilation=dilation, groups=groups)


def aten_conv_transpose1d(graph: Graph, res: ResultSpec, input: Result, weight: Result, bias: Result | None = None, stride: SymInts = (1,), padding: SymInts = (0,), output_padding: SymInts = (0,), groups: SymInt = 1, dilation: SymInts = (1,)) -> Result:
    """aten::conv_transpose1d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], SymInt[1] padding=[0], SymInt[1] output_padding=[0], SymInt groups=1, SymInt[1] dilation=[1]) -> Tensor"""
    return aten_convolution(graph, res, input=input, weight=weight, bias=bias, stride=stride, padding=padding, dilation=dilation, transposed=True, output_padding=output_padding, groups=groups)


def aten_conv_transpose2d_input(graph: Graph, res: ResultSpec, input: Result, weight: Result, bias: Result | None = None, stride: SymInts = (1, 1), padding: SymInts = (0, 0), output_padding: SymInts = (0, 0), groups: SymInt = 1, dilation: SymInts = (1, 1)) -> Result:
    """aten::conv_transpose2d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], SymInt[2] padding=[0, 0], SymInt[2] output_padding=[0, 0], SymInt groups=1, SymInt[2] dilation=[1, 1]) -> Tensor"""
    return aten_convolution(graph, res, input=input, weight=weight, bias=bias, stride=stride, padding=padding, dilation=dilation, transposed=True, output_padding=output_padding, groups=groups)


def aten_conv_transpose3d_input(graph: Graph, res: ResultSpec, input: Result, weight: Result, bias: Result | None = None, stride: SymInts = (1, 1, 1), padding: SymInts = (0, 0, 0), output_padding: SymInts = (0, 0, 0), groups: SymInt = 1, dilation: SymInts = (1, 1, 1)) -> Result:
    """aten::conv_transpose3d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1], SymInt[3] padding=[0, 0, 0], SymInt[3] output_padding=[0, 0, 0], SymInt groups=1, SymInt[3] dilation=[1, 1, 1]) -> Tensor"""
    return aten_convolution(graph, res, input=input, weight=weight, bias=bias, stride=stride, padding=padding, dilation=dilation, transposed=True, output_padding=output_padding, groups=groups)


def aten_convolution(graph: Graph, res: ResultSpec, input: Result, weight: Result, bias: Result | None, stride: SymInts, padding: SymInts, dilation: SymInts, transposed: Bool, output_padding: SymInts, groups: SymInt) -> Result:
    """aten::convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor"""
    n = rank_of(graph, weight) - 2
    window = static(shape_of(graph, weight)[2:]) if is_static(shape_of(graph, weight)[2:]) else None
    strides = broadcast_ints(static(stride), n)
    pads = broadcast_ints(static(padding), n) * 2
    dilations = broadcast_ints(static(dilation), n)
    extras = broadcast_ints(static(output_padding), n)
    extra = [] if rank_of(graph, input) == rank_of(graph, weight) else [0]
    compute_dtype = float32 if dtype_of(graph, input) == bfloat16 else dtype_of(graph, input)
    without_kernel = dtype_of(graph, input) == float64 or not is_float(graph, input) or (not is_static([groups]))
    if without_kernel and (not transposed):
        graph.case = 1
        return direct_convolution(graph, res, input=input, weight=weight, bias=bias, stride=stride, padding=padding, dilation=dilation, groups=groups)
    if without_kernel:
        graph.case = 2
        return direct_transposed(graph, res, input=input, weight=weight, bias=bias, stride=stride, padding=padding, dilation=dilation, output_padding=output_padding, groups=groups)
    if transposed and any([more >= step for more, step in zip(extras, strides)]):
        graph.case = 3
        return wide_transposed(graph, res, input=input, weight=weight, bias=bias, stride=stride, padding=padding, dilation=dilation, output_padding=output_padding, groups=groups)
    if transposed:
        graph.case = 4
        x = unsqueezed(graph, cast(graph, input, compute_dtype), extra)
        wide = graph.make_node('ConvTranspose', [x, cast(graph, weight, compute_dtype), cast(graph, bias, compute_dtype) if bias is not None else None], strides=strides, pads=pads, dilations=dilations, group=static(groups), output_padding=extras, kernel_shape=window)
        return cast(graph, squeezed(graph, wide, extra), dtype_of(graph, input))
    graph.case = 5
    x = unsqueezed(graph, cast(graph, input, compute_dtype), extra)
    result = graph.make_node('Conv', [x, cast(graph, weight, compute_dtype), cast(graph, bias, compute_dtype) if bias is not None else None], strides=strides, pads=pads, dilations=dilations, group=static(groups), kernel_shape=window)
    return cast(graph, squeezed(graph, result, extra), dtype_of(graph, input))


def aten_convolution_backward(graph: Graph, res: ResultSpec, grad_output: Result, input: Result, weight: Result, bias_sizes: SymInts | None, stride: SymInts, padding: SymInts, dilation: SymInts, transposed: Bool, output_padding: SymInts, groups: SymInt, output_mask: Bools) -> Any:
    """aten::convolution_backward(Tensor grad_output, Tensor input, Tensor weight, SymInt[]? bias_sizes, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups, bool[3] output_mask) -> (Tensor, Tensor, Tensor)"""
    if dtype_of(graph, input) == float64 or not is_float(graph, input):
        graph.case = 1
        return direct_convolution_backward(graph, res, grad_output=grad_output, input=input, weight=weight, stride=stride, padding=padding, dilation=dilation, transposed=transposed, groups=groups, output_mask=output_mask)
    graph.case = 2
    return convolution_backward(graph, res, grad_output=grad_output, input=input, weight=weight, stride=stride, padding=padding, dilation=dilation, transposed=transposed, groups=groups, output_mask=output_mask)


def complex_aten__convolution(graph: Graph, res: ResultSpec, input: Result, weight: Result, bias: Result | None, stride: SymInts, padding: SymInts, dilation: SymInts, transposed: Bool, output_padding: SymInts, groups: SymInt, benchmark: Bool, deterministic: Bool, cudnn_enabled: Bool, allow_tf32: Bool) -> Result:
    """aten::_convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups, bool benchmark, bool deterministic, bool cudnn_enabled, bool allow_tf32) -> Tensor"""
    return complex_aten_convolution(graph, res, input=input, weight=weight, bias=bias, stride=stride, padding=padding, dilation=dilation, transposed=transposed, output_padding=output_padding, groups=groups)


def complex_aten__convolution_deprecated(graph: Graph, res: ResultSpec, input: Result, weight: Result, bias: Result | None, stride: SymInts, padding: SymInts, dilation: SymInts, transposed: Bool, output_padding: Ints, groups: SymInt, benchmark: Bool, deterministic: Bool, cudnn_enabled: Bool) -> Result:
    """aten::_convolution.deprecated(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, int[] output_padding, SymInt groups, bool benchmark, bool deterministic, bool cudnn_enabled) -> Tensor"""
    return complex_aten_convolution(graph, res, input=input, weight=weight, bias=bias, stride=stride, padding=padding, dilation=dilation, transposed=transposed, output_padding=output_padding, groups=groups)


def complex_aten_conv1d(graph: Graph, res: ResultSpec, input: Result, weight: Result, bias: Result | None = None, stride: SymInts = (1,), padding: SymInts = (0,), dilation: SymInts = (1,), groups: SymInt = 1) -> Result:
    """aten::conv1d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], SymInt[1] padding=[0], SymInt[1] dilation=[1], SymInt groups=1) -> Tensor"""
    return complex_aten_convolution(graph, res, input=input, weight=weight, bias=bias, stride=stride, padding=padding, dilation=dilation, transposed=False, output_padding=[0], groups=groups)


def complex_aten_conv1d_padding(graph: Graph, res: ResultSpec, input: Result, weight: Result, bias: Result | None = None, stride: SymInts = (1,), padding: Str = 'valid', dilation: SymInts = (1,), groups: SymInt = 1) -> Result:
    '''aten::conv1d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], str padding="valid", SymInt[1] dilation=[1], SymInt groups=1) -> Tensor'''
    return complex_aten_conv2d_padding(graph, res, input=input, weight=weight, bias=bias, stride=stride, padding=padding, dilation=dilation, groups=groups)


def complex_aten_conv2d(graph: Graph, res: ResultSpec, input: Result, weight: Result, bias: Result | None = None, stride: SymInts = (1, 1), padding: SymInts = (0, 0), dilation: SymInts = (1, 1), groups: SymInt = 1) -> Result:
    """aten::conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], SymInt[2] padding=[0, 0], SymInt[2] dilation=[1, 1], SymInt groups=1) -> Tensor"""
    return complex_aten_convolution(graph, res, input=input, weight=weight, bias=bias, stride=stride, padding=padding, dilation=dilation, transposed=False, output_padding=[0, 0], groups=groups)


def complex_aten_conv2d_padding(graph: Graph, res: ResultSpec, input: Result, weight: Result, bias: Result | None = None, stride: SymInts = (1, 1), padding: Str = 'valid', dilation: SymInts = (1, 1), groups: SymInt = 1) -> Result:
    '''aten::conv2d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], str padding="valid", SymInt[2] dilation=[1, 1], SymInt groups=1) -> Tensor'''
    return products_of_parts(graph, res, aten_conv2d_padding, {'input': input, 'weight': weight, 'bias': bias}, stride=stride, padding=padding, dilation=dilation, groups=groups)


def complex_aten_conv3d(graph: Graph, res: ResultSpec, input: Result, weight: Result, bias: Result | None = None, stride: SymInts = (1, 1, 1), padding: SymInts = (0, 0, 0), dilation: SymInts = (1, 1, 1), groups: SymInt = 1) -> Result:
    """aten::conv3d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1], SymInt[3] padding=[0, 0, 0], SymInt[3] dilation=[1, 1, 1], SymInt groups=1) -> Tensor"""
    return complex_aten_convolution(graph, res, input=input, weight=weight, bias=bias, stride=stride, padding=padding, dilation=dilation, transposed=False, output_padding=[0, 0, 0], groups=groups)


def complex_aten_conv3d_padding(graph: Graph, res: ResultSpec, input: Result, weight: Result, bias: Result | None = None, stride: SymInts = (1, 1, 1), padding: Str = 'valid', dilation: SymInts = (1, 1, 1), groups: SymInt = 1) -> Result:
    '''aten::conv3d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1], str padding="valid", SymInt[3] dilation=[1, 1, 1], SymInt groups=1) -> Tensor'''
    return complex_aten_conv2d_padding(graph, res, input=input, weight=weight, bias=bias, stride=stride, padding=padding, dilation=dilation, groups=groups)


def complex_aten_conv_transpose1d(graph: Graph, res: ResultSpec, input: Result, weight: Result, bias: Result | None = None, stride: SymInts = (1,), padding: SymInts = (0,), output_padding: SymInts = (0,), groups: SymInt = 1, dilation: SymInts = (1,)) -> Result:
    """aten::conv_transpose1d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], SymInt[1] padding=[0], SymInt[1] output_padding=[0], SymInt groups=1, SymInt[1] dilation=[1]) -> Tensor"""
    return complex_aten_convolution(graph, res, input=input, weight=weight, bias=bias, stride=stride, padding=padding, dilation=dilation, transposed=True, output_padding=output_padding, groups=groups)


def complex_aten_conv_transpose2d_input(graph: Graph, res: ResultSpec, input: Result, weight: Result, bias: Result | None = None, stride: SymInts = (1, 1), padding: SymInts = (0, 0), output_padding: SymInts = (0, 0), groups: SymInt = 1, dilation: SymInts = (1, 1)) -> Result:
    """aten::conv_transpose2d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], SymInt[2] padding=[0, 0], SymInt[2] output_padding=[0, 0], SymInt groups=1, SymInt[2] dilation=[1, 1]) -> Tensor"""
    return complex_aten_convolution(graph, res, input=input, weight=weight, bias=bias, stride=stride, padding=padding, dilation=dilation, transposed=True, output_padding=output_padding, groups=groups)


def complex_aten_conv_transpose3d_input(graph: Graph, res: ResultSpec, input: Result, weight: Result, bias: Result | None = None, stride: SymInts = (1, 1, 1), padding: SymInts = (0, 0, 0), output_padding: SymInts = (0, 0, 0), groups: SymInt = 1, dilation: SymInts = (1, 1, 1)) -> Result:
    """aten::conv_transpose3d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1], SymInt[3] padding=[0, 0, 0], SymInt[3] output_padding=[0, 0, 0], SymInt groups=1, SymInt[3] dilation=[1, 1, 1]) -> Tensor"""
    return complex_aten_convolution(graph, res, input=input, weight=weight, bias=bias, stride=stride, padding=padding, dilation=dilation, transposed=True, output_padding=output_padding, groups=groups)


def complex_aten_convolution(graph: Graph, res: ResultSpec, input: Result, weight: Result, bias: Result | None, stride: SymInts, padding: SymInts, dilation: SymInts, transposed: Bool, output_padding: SymInts, groups: SymInt) -> Result:
    """aten::convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor"""
    return products_of_parts(graph, res, aten_convolution, {'input': input, 'weight': weight, 'bias': bias}, stride=stride, padding=padding, dilation=dilation, transposed=transposed, output_padding=output_padding, groups=groups)


def rule_aten__convolution(graph: Graph, input: Result, weight: Result, bias: Result | None, stride: SymInts, padding: SymInts, dilation: SymInts, transposed: Bool, output_padding: SymInts, groups: SymInt, benchmark: Bool, deterministic: Bool, cudnn_enabled: Bool, allow_tf32: Bool) -> Rules:
    return rule_aten_convolution(graph, input=input, weight=weight, bias=bias, stride=stride, padding=padding, dilation=dilation, transposed=transposed, output_padding=output_padding, groups=groups)


def rule_aten__convolution_deprecated(graph: Graph, input: Result, weight: Result, bias: Result | None, stride: SymInts, padding: SymInts, dilation: SymInts, transposed: Bool, output_padding: Ints, groups: SymInt, benchmark: Bool, deterministic: Bool, cudnn_enabled: Bool) -> Rules:
    return rule_aten_convolution(graph, input=input, weight=weight, bias=bias, stride=stride, padding=padding, dilation=dilation, transposed=transposed, output_padding=output_padding, groups=groups)


def rule_aten_conv1d(graph: Graph, input: Result, weight: Result, bias: Result | None = None, stride: SymInts = (1,), padding: SymInts = (0,), dilation: SymInts = (1,), groups: SymInt = 1) -> Rules:
    return rule_aten_convolution(graph, input=input, weight=weight, bias=bias, stride=stride, padding=padding, dilation=dilation, transposed=False, output_padding=[0], groups=groups)


def rule_aten_conv1d_padding(graph: Graph, input: Result, weight: Result, bias: Result | None = None, stride: SymInts = (1,), padding: Str = 'valid', dilation: SymInts = (1,), groups: SymInt = 1) -> Rules:
    return rule_aten_conv2d_padding(graph, input=input, weight=weight, bias=bias, stride=stride, padding=padding, dilation=dilation, groups=groups)


def rule_aten_conv2d(graph: Graph, input: Result, weight: Result, bias: Result | None = None, stride: SymInts = (1, 1), padding: SymInts = (0, 0), dilation: SymInts = (1, 1), groups: SymInt = 1) -> Rules:
    return rule_aten_convolution(graph, input=input, weight=weight, bias=bias, stride=stride, padding=padding, dilation=dilation, transposed=False, output_padding=[0, 0], groups=groups)


def rule_aten_conv2d_padding(graph: Graph, input: Result, weight: Result, bias: Result | None = None, stride: SymInts = (1, 1), padding: Str = 'valid', dilation: SymInts = (1, 1), groups: SymInt = 1) -> Rules:
    return ((dtype_or_none(graph, input), None),)


def rule_aten_conv3d(graph: Graph, input: Result, weight: Result, bias: Result | None = None, stride: SymInts = (1, 1, 1), padding: SymInts = (0, 0, 0), dilation: SymInts = (1, 1, 1), groups: SymInt = 1) -> Rules:
    return rule_aten_convolution(graph, input=input, weight=weight, bias=bias, stride=stride, padding=padding, dilation=dilation, transposed=False, output_padding=[0, 0, 0], groups=groups)


def rule_aten_conv3d_padding(graph: Graph, input: Result, weight: Result, bias: Result | None = None, stride: SymInts = (1, 1, 1), padding: Str = 'valid', dilation: SymInts = (1, 1, 1), groups: SymInt = 1) -> Rules:
    return rule_aten_conv2d_padding(graph, input=input, weight=weight, bias=bias, stride=stride, padding=padding, dilation=dilation, groups=groups)


def rule_aten_conv_transpose1d(graph: Graph, input: Result, weight: Result, bias: Result | None = None, stride: SymInts = (1,), padding: SymInts = (0,), output_padding: SymInts = (0,), groups: SymInt = 1, dilation: SymInts = (1,)) -> Rules:
    return rule_aten_convolution(graph, input=input, weight=weight, bias=bias, stride=stride, padding=padding, dilation=dilation, transposed=True, output_padding=output_padding, groups=groups)


def rule_aten_conv_transpose2d_input(graph: Graph, input: Result, weight: Result, bias: Result | None = None, stride: SymInts = (1, 1), padding: SymInts = (0, 0), output_padding: SymInts = (0, 0), groups: SymInt = 1, dilation: SymInts = (1, 1)) -> Rules:
    return rule_aten_convolution(graph, input=input, weight=weight, bias=bias, stride=stride, padding=padding, dilation=dilation, transposed=True, output_padding=output_padding, groups=groups)


def rule_aten_conv_transpose3d_input(graph: Graph, input: Result, weight: Result, bias: Result | None = None, stride: SymInts = (1, 1, 1), padding: SymInts = (0, 0, 0), output_padding: SymInts = (0, 0, 0), groups: SymInt = 1, dilation: SymInts = (1, 1, 1)) -> Rules:
    return rule_aten_convolution(graph, input=input, weight=weight, bias=bias, stride=stride, padding=padding, dilation=dilation, transposed=True, output_padding=output_padding, groups=groups)


def rule_aten_convolution(graph: Graph, input: Result, weight: Result, bias: Result | None, stride: SymInts, padding: SymInts, dilation: SymInts, transposed: Bool, output_padding: SymInts, groups: SymInt) -> Rules:
    return ((dtype_or_none(graph, input), None),)


def rule_aten_convolution_backward(graph: Graph, grad_output: Result, input: Result, weight: Result, bias_sizes: SymInts | None, stride: SymInts, padding: SymInts, dilation: SymInts, transposed: Bool, output_padding: SymInts, groups: SymInt, output_mask: Bools) -> Rules:
    return ((dtype_or_none(graph, input), shape_or_none(graph, input)), (dtype_or_none(graph, weight), shape_or_none(graph, weight)), (dtype_or_none(graph, weight), None),)
