# Generated from specs/aten/activation_backward.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from math import log, sqrt
from ortable.inference import broadcast
from ortable.prelude.complex_arithmetic import as_complex, c_add, c_conj, c_mul
from ortable.prelude.error_functions import erf_of
from ortable.prelude.facts import dtype_of, is_used
from ortable.prelude.metadata import dtype_or_none, shape_or_none
from ortable.prelude.operators import call_operator
from ortable.prelude.pointwise import const_like, scaled
from ortable.prelude.promotion import opmath, promote_values, promoted_dtype
from ortable.prelude.values import cast
from ortable_generated.aten import dispatch

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Bool, Float, Result, Scalar, Str


def aten__prelu_kernel_backward(graph: Graph, res: ResultSpec, grad_output: Result, self: Result, weight: Result) -> Any:
    """aten::_prelu_kernel_backward(Tensor grad_output, Tensor self, Tensor weight) -> (Tensor, Tensor)"""
    zero = const_like(graph, 0, self)
    positive = graph.make_node('Greater', [self, zero])
    grad_self = graph.make_node('Where', [positive, grad_output, graph.make_node('Mul', [weight, grad_output])])
    grad_weight = graph.make_node('Where', [positive, zero, graph.make_node('Mul', [self, grad_output])]) if is_used(res[1]) else None
    return (grad_self, grad_weight)


def aten_elu_backward(graph: Graph, res: ResultSpec, grad_output: Result, alpha: Scalar, scale: Scalar, input_scale: Scalar, is_result: Bool, self_or_result: Result) -> Result:
    """aten::elu_backward(Tensor grad_output, Scalar alpha, Scalar scale, Scalar input_scale, bool is_result, Tensor self_or_result) -> Tensor"""
    if is_result:
        graph.case = 1
        x = opmath(graph, self_or_result)
        grad = opmath(graph, grad_output)
        negative = graph.make_node('Mul', [graph.make_node('Mul', [grad, const_like(graph, input_scale, x)]), graph.make_node('Add', [x, const_like(graph, alpha * scale, x)])])
        flat = graph.make_node('LessOrEqual', [x, const_like(graph, 0, x)])
        result = graph.make_node('Where', [flat, negative, graph.make_node('Mul', [grad, const_like(graph, scale, x)])])
        return cast(graph, result, dtype_of(graph, self_or_result))
    graph.case = 2
    x = opmath(graph, self_or_result)
    grad = opmath(graph, grad_output)
    grown = graph.make_node('Exp', [graph.make_node('Mul', [x, const_like(graph, input_scale, x)])])
    negative = graph.make_node('Mul', [graph.make_node('Mul', [grad, const_like(graph, input_scale * alpha * scale, x)]), grown])
    flat = graph.make_node('LessOrEqual', [x, const_like(graph, 0, x)])
    result = graph.make_node('Where', [flat, negative, graph.make_node('Mul', [grad, const_like(graph, scale, x)])])
    return cast(graph, result, dtype_of(graph, self_or_result))


def aten_gelu_backward(graph: Graph, res: ResultSpec, grad_output: Result, self: Result, *, approximate: Str = 'none') -> Result:
    '''aten::gelu_backward(Tensor grad_output, Tensor self, *, str approximate="none") -> Tensor'''
    if approximate == 'tanh':
        graph.case = 1
        x = opmath(graph, self)
        one, first = (const_like(graph, 1, x), const_like(graph, sqrt(8 / 3.141592653589793), x))
        square = graph.make_node('Mul', [x, x])
        inner = graph.make_node('Mul', [x, graph.make_node('Add', [first, graph.make_node('Mul', [square, const_like(graph, 0.044715 * sqrt(8 / 3.141592653589793), x)])])])
        s = graph.make_node('Sigmoid', [inner])
        turn = graph.make_node('Mul', [x, graph.make_node('Add', [first, graph.make_node('Mul', [square, const_like(graph, 3 * 0.044715 * sqrt(8 / 3.141592653589793), x)])])])
        slope = graph.make_node('Mul', [s, graph.make_node('Add', [one, graph.make_node('Mul', [graph.make_node('Sub', [one, s]), turn])])])
        return cast(graph, graph.make_node('Mul', [opmath(graph, grad_output), slope]), dtype_of(graph, self))
    # with u = x / sqrt(2) the slope is (1 + erf(u) + u exp(c - u u)) / 2, where exp(c) = 2 / sqrt(pi)
    graph.case = 2
    x = opmath(graph, self)
    u = graph.make_node('Mul', [x, const_like(graph, sqrt(0.5), x)])
    bell = graph.make_node('Exp', [graph.make_node('Sub', [const_like(graph, log(2 / sqrt(3.141592653589793)), x), graph.make_node('Mul', [u, u])])])
    twice = graph.make_node('Add', [graph.make_node('Add', [erf_of(graph, u), graph.make_node('Mul', [u, bell])]), const_like(graph, 1, x)])
    return cast(graph, graph.make_node('Mul', [graph.make_node('Mul', [opmath(graph, grad_output), twice]), const_like(graph, 0.5, x)]), dtype_of(graph, self))


def aten_hardshrink_backward(graph: Graph, res: ResultSpec, grad_out: Result, self: Result, lambd: Scalar) -> Result:
    """aten::hardshrink_backward(Tensor grad_out, Tensor self, Scalar lambd) -> Tensor"""
    stopped = graph.make_node('LessOrEqual', [graph.make_node('Abs', [self]), const_like(graph, lambd, self)])
    return graph.make_node('Where', [stopped, const_like(graph, 0, grad_out), grad_out], res.outputs)


def aten_hardsigmoid_backward(graph: Graph, res: ResultSpec, grad_output: Result, self: Result) -> Result:
    """aten::hardsigmoid_backward(Tensor grad_output, Tensor self) -> Tensor"""
    sixth = 0.1666666716337204
    grad = opmath(graph, grad_output)
    inside = graph.make_node('And', [graph.make_node('Greater', [self, const_like(graph, -3, self)]), graph.make_node('Less', [self, const_like(graph, 3, self)])])
    result = graph.make_node('Where', [inside, graph.make_node('Mul', [grad, const_like(graph, sixth, grad)]), const_like(graph, 0, grad)])
    return cast(graph, result, dtype_of(graph, self))


def aten_hardswish_backward(graph: Graph, res: ResultSpec, grad_output: Result, self: Result) -> Result:
    """aten::hardswish_backward(Tensor grad_output, Tensor self) -> Tensor"""
    x = opmath(graph, self)
    grad = opmath(graph, grad_output)
    middle = graph.make_node('Mul', [grad, graph.make_node('Add', [graph.make_node('Div', [x, const_like(graph, 3, x)]), const_like(graph, 0.5, x)])])
    high = graph.make_node('Where', [graph.make_node('Less', [x, const_like(graph, 3, x)]), middle, grad])
    result = graph.make_node('Where', [graph.make_node('LessOrEqual', [x, const_like(graph, -3, x)]), const_like(graph, 0, x), high])
    return cast(graph, result, dtype_of(graph, self))


def aten_hardtanh_backward(graph: Graph, res: ResultSpec, grad_output: Result, self: Result, min_val: Scalar, max_val: Scalar) -> Result:
    """aten::hardtanh_backward(Tensor grad_output, Tensor self, Scalar min_val, Scalar max_val) -> Tensor"""
    low = graph.make_node('LessOrEqual', [self, const_like(graph, min_val, self)])
    stopped = graph.make_node('Or', [low, graph.make_node('GreaterOrEqual', [self, const_like(graph, max_val, self)])])
    return graph.make_node('Where', [stopped, const_like(graph, 0, grad_output), grad_output], res.outputs)


def aten_leaky_relu_backward(graph: Graph, res: ResultSpec, grad_output: Result, self: Result, negative_slope: Scalar, self_is_result: Bool) -> Result:
    """aten::leaky_relu_backward(Tensor grad_output, Tensor self, Scalar negative_slope, bool self_is_result) -> Tensor"""
    steep = scaled(graph, grad_output, negative_slope)
    return graph.make_node('Where', [graph.make_node('Greater', [self, const_like(graph, 0, self)]), grad_output, steep], res.outputs)


def aten_log_sigmoid_backward(graph: Graph, res: ResultSpec, grad_output: Result, self: Result, buffer: Result) -> Result:
    """aten::log_sigmoid_backward(Tensor grad_output, Tensor self, Tensor buffer) -> Tensor"""
    x = opmath(graph, self)
    return cast(graph, graph.make_node('Mul', [opmath(graph, grad_output), graph.make_node('Sigmoid', [graph.make_node('Neg', [x])])]), dtype_of(graph, self))


def aten_logit_backward(graph: Graph, res: ResultSpec, grad_output: Result, self: Result, eps: Float | None = None) -> Result:
    """aten::logit_backward(Tensor grad_output, Tensor self, float? eps=None) -> Tensor"""
    low = 0 if eps is None else max(eps, 0)
    otherwise = float('nan') if eps is None or eps < 0 else 0
    x = opmath(graph, self)
    divisor = graph.make_node('Abs', [graph.make_node('Mul', [x, graph.make_node('Sub', [const_like(graph, 1, x), x])])])
    outside = graph.make_node('Or', [graph.make_node('Less', [x, const_like(graph, low, x)]), graph.make_node('Greater', [x, const_like(graph, 1 - low, x)])])
    slope = graph.make_node('Div', [opmath(graph, grad_output), divisor])
    return cast(graph, graph.make_node('Where', [outside, const_like(graph, otherwise, x), slope]), dtype_of(graph, self))


def aten_mish_backward(graph: Graph, res: ResultSpec, grad_output: Result, self: Result) -> Result:
    """aten::mish_backward(Tensor grad_output, Tensor self) -> Tensor"""
    x = opmath(graph, self)
    t = graph.make_node('Tanh', [call_operator(graph, dispatch, 'aten::softplus', x)])
    slope = graph.make_node('Add', [t, graph.make_node('Mul', [graph.make_node('Mul', [x, graph.make_node('Sigmoid', [x])]), graph.make_node('Sub', [const_like(graph, 1, x), graph.make_node('Mul', [t, t])])])])
    return cast(graph, graph.make_node('Mul', [opmath(graph, grad_output), slope]), dtype_of(graph, self))


def aten_sigmoid_backward(graph: Graph, res: ResultSpec, grad_output: Result, output: Result) -> Result:
    """aten::sigmoid_backward(Tensor grad_output, Tensor output) -> Tensor"""
    graph.case = 1
    y = opmath(graph, output)
    slope = graph.make_node('Mul', [graph.make_node('Sub', [const_like(graph, 1, y), y]), y])
    return cast(graph, graph.make_node('Mul', [opmath(graph, grad_output), slope]), dtype_of(graph, output))


def aten_silu_backward(graph: Graph, res: ResultSpec, grad_output: Result, self: Result) -> Result:
    """aten::silu_backward(Tensor grad_output, Tensor self) -> Tensor"""
    x = opmath(graph, self)
    one = const_like(graph, 1, x)
    gate = graph.make_node('Sigmoid', [x])
    slope = graph.make_node('Mul', [gate, graph.make_node('Add', [one, graph.make_node('Mul', [x, graph.make_node('Sub', [one, gate])])])])
    return cast(graph, graph.make_node('Mul', [opmath(graph, grad_output), slope]), dtype_of(graph, self))


def aten_softplus_backward(graph: Graph, res: ResultSpec, grad_output: Result, self: Result, beta: Scalar, threshold: Scalar) -> Result:
    """aten::softplus_backward(Tensor grad_output, Tensor self, Scalar beta, Scalar threshold) -> Tensor"""
    x = opmath(graph, self)
    grad = opmath(graph, grad_output)
    steep = graph.make_node('Mul', [x, const_like(graph, beta, x)])
    linear = graph.make_node('Greater', [steep, const_like(graph, threshold, x)])
    return cast(graph, graph.make_node('Where', [linear, grad, graph.make_node('Mul', [grad, graph.make_node('Sigmoid', [steep])])]), dtype_of(graph, self))


def aten_softshrink_backward(graph: Graph, res: ResultSpec, grad_output: Result, self: Result, lambd: Scalar) -> Result:
    """aten::softshrink_backward(Tensor grad_output, Tensor self, Scalar lambd) -> Tensor"""
    stopped = graph.make_node('LessOrEqual', [graph.make_node('Abs', [self]), const_like(graph, lambd, self)])
    return graph.make_node('Where', [stopped, const_like(graph, 0, grad_output), grad_output], res.outputs)


def aten_tanh_backward(graph: Graph, res: ResultSpec, grad_output: Result, output: Result) -> Result:
    """aten::tanh_backward(Tensor grad_output, Tensor output) -> Tensor"""
    graph.case = 1
    y = opmath(graph, output)
    slope = graph.make_node('Sub', [const_like(graph, 1, y), graph.make_node('Mul', [y, y])])
    return cast(graph, graph.make_node('Mul', [opmath(graph, grad_output), slope]), dtype_of(graph, output))


def aten_threshold_backward(graph: Graph, res: ResultSpec, grad_output: Result, self: Result, threshold: Scalar) -> Result:
    """aten::threshold_backward(Tensor grad_output, Tensor self, Scalar threshold) -> Tensor"""
    grad_output, self = promote_values(graph, 'default', [grad_output, self])
    stopped = graph.make_node('LessOrEqual', [self, const_like(graph, threshold, self)])
    return graph.make_node('Where', [stopped, const_like(graph, 0, grad_output), grad_output], res.outputs)


def complex_aten_sigmoid_backward(graph: Graph, res: ResultSpec, grad_output: Result, output: Result) -> Result:
    """aten::sigmoid_backward(Tensor grad_output, Tensor output) -> Tensor"""
    graph.case = 2
    one = as_complex(graph, 1, dtype_of(graph, output))
    return c_mul(graph, grad_output, c_conj(graph, c_mul(graph, c_add(graph, one, output, -1), output)))


def complex_aten_tanh_backward(graph: Graph, res: ResultSpec, grad_output: Result, output: Result) -> Result:
    """aten::tanh_backward(Tensor grad_output, Tensor output) -> Tensor"""
    graph.case = 2
    one = as_complex(graph, 1, dtype_of(graph, output))
    return c_mul(graph, grad_output, c_conj(graph, c_add(graph, one, c_mul(graph, output, output), -1)))


def rule_aten__prelu_kernel_backward(graph: Graph, grad_output: Result, self: Result, weight: Result) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)), (dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_elu_backward(graph: Graph, grad_output: Result, alpha: Scalar, scale: Scalar, input_scale: Scalar, is_result: Bool, self_or_result: Result) -> Rules:
    return ((dtype_or_none(graph, self_or_result), shape_or_none(graph, self_or_result)),)


def rule_aten_gelu_backward(graph: Graph, grad_output: Result, self: Result, *, approximate: Str = 'none') -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_hardshrink_backward(graph: Graph, grad_out: Result, self: Result, lambd: Scalar) -> Rules:
    return ((dtype_or_none(graph, grad_out), shape_or_none(graph, self)),)


def rule_aten_hardsigmoid_backward(graph: Graph, grad_output: Result, self: Result) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_hardswish_backward(graph: Graph, grad_output: Result, self: Result) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_hardtanh_backward(graph: Graph, grad_output: Result, self: Result, min_val: Scalar, max_val: Scalar) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_leaky_relu_backward(graph: Graph, grad_output: Result, self: Result, negative_slope: Scalar, self_is_result: Bool) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_log_sigmoid_backward(graph: Graph, grad_output: Result, self: Result, buffer: Result) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_logit_backward(graph: Graph, grad_output: Result, self: Result, eps: Float | None = None) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_mish_backward(graph: Graph, grad_output: Result, self: Result) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_sigmoid_backward(graph: Graph, grad_output: Result, output: Result) -> Rules:
    return ((dtype_or_none(graph, output), shape_or_none(graph, output)),)


def rule_aten_silu_backward(graph: Graph, grad_output: Result, self: Result) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_softplus_backward(graph: Graph, grad_output: Result, self: Result, beta: Scalar, threshold: Scalar) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_softshrink_backward(graph: Graph, grad_output: Result, self: Result, lambd: Scalar) -> Rules:
    return ((dtype_or_none(graph, grad_output), shape_or_none(graph, self)),)


def rule_aten_tanh_backward(graph: Graph, grad_output: Result, output: Result) -> Rules:
    return ((dtype_or_none(graph, output), shape_or_none(graph, output)),)


def rule_aten_threshold_backward(graph: Graph, grad_output: Result, self: Result, threshold: Scalar) -> Rules:
    return ((promoted_dtype(graph, 'default', grad_output, self), broadcast(shape_or_none(graph, grad_output), shape_or_none(graph, self))),)
