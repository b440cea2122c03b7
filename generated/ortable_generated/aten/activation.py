# Generated from specs/aten/activation.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from math import sqrt
from ortable.dtypes import float32, float64, int64
from ortable.errors import UnsupportedCase
from ortable.lowerings.complex.arithmetic import promote_complex
from ortable.lowerings.sampling import random_slopes
from ortable.prelude.complex_arithmetic import as_complex, c_add, c_div, c_exp, c_scaled, complex_of, im, re
from ortable.prelude.error_functions import erf_of
from ortable.prelude.facts import axis_of, dim_of, dtype_of, is_bool, is_float, is_number, is_used, rank_of
from ortable.prelude.metadata import dtype_or_none, shape_or_none
from ortable.prelude.operators import call_operator
from ortable.prelude.pointwise import const_like, larger_of, log1p_of, relu_of, smaller_of
from ortable.prelude.promotion import as_float, opmath, promote_values, promoted_dtype
from ortable.prelude.shapes import along_axis, sliced
from ortable.prelude.values import cast, const, consts
from ortable_generated.aten import dispatch

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Bool, Int, Result, Scalar, Str


def aten__prelu_kernel(graph: Graph, res: ResultSpec, self: Result, weight: Result) -> Result:
    """aten::_prelu_kernel(Tensor self, Tensor weight) -> Tensor"""
    if dtype_of(graph, self) != float64:
        graph.case = 1
        return graph.make_node('PRelu', [self, weight], res.outputs)
    graph.case = 2
    return graph.make_node('Where', [graph.make_node('Greater', [self, const(graph, 0, float64)]), self, graph.make_node('Mul', [weight, self])], res.outputs)


def aten_celu(graph: Graph, res: ResultSpec, self: Result, alpha: Scalar = 1.0) -> Result:
    """aten::celu(Tensor self, Scalar alpha=1.) -> Tensor"""
    if dtype_of(graph, self) == float32 and is_number(alpha):
        graph.case = 1
        return graph.make_node('Celu', [self], res.outputs, alpha=float(alpha))
    graph.case = 2
    x = opmath(graph, self)
    grown = graph.make_node('Sub', [graph.make_node('Exp', [graph.make_node('Div', [x, const_like(graph, alpha, x)])]), const_like(graph, 1, x)])
    negative = graph.make_node('Mul', [grown, const_like(graph, alpha, x)])
    return cast(graph, graph.make_node('Where', [graph.make_node('Greater', [x, const_like(graph, 0, x)]), x, negative]), dtype_of(graph, self))


def aten_elu(graph: Graph, res: ResultSpec, self: Result, alpha: Scalar = 1, scale: Scalar = 1, input_scale: Scalar = 1) -> Result:
    """aten::elu(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor"""
    if scale == 1 and input_scale == 1 and (dtype_of(graph, self) != float64) and is_number(alpha):
        graph.case = 1
        return cast(graph, graph.make_node('Elu', [opmath(graph, self)], alpha=float(alpha)), dtype_of(graph, self))
    # attributes of ONNX are float32, which float64 would see
    graph.case = 2
    x = opmath(graph, self)
    grown = graph.make_node('Sub', [graph.make_node('Exp', [graph.make_node('Mul', [x, const_like(graph, input_scale, x)])]), const_like(graph, 1, x)])
    negative = graph.make_node('Mul', [grown, const_like(graph, alpha * scale, x)])
    result = graph.make_node('Where', [graph.make_node('Greater', [x, const_like(graph, 0, x)]), graph.make_node('Mul', [x, const_like(graph, scale, x)]), negative])
    return cast(graph, result, dtype_of(graph, self))


def aten_gelu(graph: Graph, res: ResultSpec, self: Result, *, approximate: Str = 'none') -> Result:
    '''aten::gelu(Tensor self, *, str approximate="none") -> Tensor'''
    if graph.opset >= 20 and dtype_of(graph, self) != float64:
        graph.case = 1
        return graph.make_node('Gelu', [self], res.outputs, approximate=approximate)
    if approximate == 'tanh':
        graph.case = 2
        x = opmath(graph, self)
        cube = graph.make_node('Mul', [graph.make_node('Mul', [x, x]), graph.make_node('Mul', [x, const_like(graph, 0.044715, x)])])
        inner = graph.make_node('Mul', [graph.make_node('Add', [x, cube]), const_like(graph, sqrt(2 / 3.141592653589793), x)])
        half = graph.make_node('Mul', [x, const_like(graph, 0.5, x)])
        return cast(graph, graph.make_node('Mul', [half, graph.make_node('Add', [graph.make_node('Tanh', [inner]), const_like(graph, 1, x)])]), dtype_of(graph, self))
    # onnxruntime finds the fused kernel by this Div
    graph.case = 3
    x = opmath(graph, self)
    curve = erf_of(graph, graph.make_node('Div', [x, const_like(graph, sqrt(2), x)]))
    half = graph.make_node('Mul', [x, const_like(graph, 0.5, x)])
    return cast(graph, graph.make_node('Mul', [half, graph.make_node('Add', [curve, const_like(graph, 1, x)])]), dtype_of(graph, self))


def aten_glu(graph: Graph, res: ResultSpec, self: Result, dim: Int = -1) -> Result:
    """aten::glu(Tensor self, int dim=-1) -> Tensor"""
    axis = axis_of(graph, self, dim)
    half = dim_of(graph, self, dim) // 2
    first = sliced(graph, self, axis, 0, half)
    second = sliced(graph, self, axis, half, dim_of(graph, self, dim))
    return graph.make_node('Mul', [first, graph.make_node('Sigmoid', [second])], res.outputs)


def aten_hardshrink(graph: Graph, res: ResultSpec, self: Result, lambd: Scalar = 0.5) -> Result:
    """aten::hardshrink(Tensor self, Scalar lambd=0.5) -> Tensor"""
    zero = graph.make_node('LessOrEqual', [graph.make_node('Abs', [self]), const_like(graph, lambd, self)])
    return graph.make_node('Where', [zero, const_like(graph, 0, self), self], res.outputs)


def aten_hardsigmoid(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::hardsigmoid(Tensor self) -> Tensor"""
    if dtype_of(graph, self) != float64:
        graph.case = 1
        return cast(graph, graph.make_node('HardSigmoid', [opmath(graph, self)], alpha=1 / 6, beta=0.5), dtype_of(graph, self))
    graph.case = 2
    gate = graph.make_node('Clip', [graph.make_node('Add', [self, const(graph, 3, float64)]), const(graph, 0, float64), const(graph, 6, float64)])
    return graph.make_node('Div', [gate, const(graph, 6, float64)], res.outputs)


def aten_hardswish(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::hardswish(Tensor self) -> Tensor"""
    if dtype_of(graph, self) != float64:
        graph.case = 1
        return cast(graph, graph.make_node('HardSwish', [opmath(graph, self)]), dtype_of(graph, self))
    graph.case = 2
    gate = graph.make_node('Clip', [graph.make_node('Add', [self, const(graph, 3, float64)]), const(graph, 0, float64), const(graph, 6, float64)])
    return graph.make_node('Div', [graph.make_node('Mul', [self, gate]), const(graph, 6, float64)], res.outputs)


def aten_hardtanh(graph: Graph, res: ResultSpec, self: Result, min_val: Scalar = -1, max_val: Scalar = 1) -> Result:
    """aten::hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor"""
    if dtype_of(graph, self) != int64:
        graph.case = 1
        return graph.make_node('Clip', [self, const_like(graph, min_val, self), const_like(graph, max_val, self)], res.outputs)
    graph.case = 2
    return smaller_of(graph, larger_of(graph, self, const(graph, min_val, int64)), const(graph, max_val, int64))


def aten_leaky_relu(graph: Graph, res: ResultSpec, self: Result, negative_slope: Scalar = 0.01) -> Result:
    """aten::leaky_relu(Tensor self, Scalar negative_slope=0.01) -> Tensor"""
    if dtype_of(graph, self) != float64 and is_number(negative_slope):
        graph.case = 1
        return graph.make_node('LeakyRelu', [self], res.outputs, alpha=float(negative_slope))
    graph.case = 2
    x = opmath(graph, self)
    negative = graph.make_node('Mul', [x, const_like(graph, negative_slope, x)])
    return cast(graph, graph.make_node('Where', [graph.make_node('Greater', [x, const_like(graph, 0, x)]), x, negative]), dtype_of(graph, self))


def aten_log_sigmoid(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::log_sigmoid(Tensor self) -> Tensor"""
    x = opmath(graph, self)
    result = graph.make_node('Sub', [graph.make_node('Min', [x, const_like(graph, 0, x)]), log1p_of(graph, graph.make_node('Exp', [graph.make_node('Neg', [graph.make_node('Abs', [x])])]))])
    return cast(graph, result, dtype_of(graph, self))


def aten_log_sigmoid_forward(graph: Graph, res: ResultSpec, self: Result) -> Any:
    """aten::log_sigmoid_forward(Tensor self) -> (Tensor output, Tensor buffer)"""
    x = opmath(graph, self)
    buffer = graph.make_node('Exp', [graph.make_node('Neg', [graph.make_node('Abs', [x])])])
    output = graph.make_node('Sub', [graph.make_node('Min', [x, const_like(graph, 0, x)]), log1p_of(graph, buffer)])
    return (cast(graph, output, dtype_of(graph, self)), cast(graph, buffer, dtype_of(graph, self)) if is_used(res[1]) else None)


def aten_mish(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::mish(Tensor self) -> Tensor"""
    x = opmath(graph, self)
    e = graph.make_node('Exp', [graph.make_node('Min', [x, const_like(graph, 40, x)])])
    n = graph.make_node('Mul', [e, graph.make_node('Add', [e, const_like(graph, 2, x)])])
    return cast(graph, graph.make_node('Mul', [x, graph.make_node('Div', [n, graph.make_node('Add', [n, const_like(graph, 2, x)])])]), dtype_of(graph, self))


def aten_prelu(graph: Graph, res: ResultSpec, self: Result, weight: Result) -> Result:
    """aten::prelu(Tensor self, Tensor weight) -> Tensor"""
    single = rank_of(graph, self) < 2 or rank_of(graph, weight) == 0
    longer = rank_of(graph, self) == 0 and rank_of(graph, weight) == 1
    slope = weight if single else along_axis(graph, weight, 1, rank_of(graph, self))
    fitting = graph.make_node('Squeeze', [slope, consts(graph, [0], int64)]) if longer else slope
    return graph.make_node('Where', [graph.make_node('Greater', [self, const_like(graph, 0, self)]), self, graph.make_node('Mul', [fitting, self])], res.outputs)


def aten_relu(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::relu(Tensor self) -> Tensor"""
    if is_bool(graph, self):
        graph.case = 1
        raise UnsupportedCase('aten::relu: the positive part of a bool, which torch refuses')
    graph.case = 2
    return relu_of(graph, self)


def aten_relu6(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::relu6(Tensor self) -> Tensor"""
    return aten_hardtanh(graph, res, self=self, min_val=0, max_val=6)


def aten_rrelu(graph: Graph, res: ResultSpec, self: Result, lower: Scalar = 0.125, upper: Scalar = 0.3333333333333333, training: Bool = False, generator: Any = None) -> Result:
    """aten::rrelu(Tensor self, Scalar lower=0.125, Scalar upper=0.33333333333333331, bool training=False, Generator? generator=None) -> Tensor"""
    if training:
        graph.case = 1
        slopes = random_slopes(graph, self, as_float(lower), as_float(upper))
        return graph.make_node('Where', [graph.make_node('LessOrEqual', [self, const(graph, 0, dtype_of(graph, self))]), graph.make_node('Mul', [self, slopes]), self], res.outputs)
    if dtype_of(graph, self) != float64:
        graph.case = 2
        return graph.make_node('LeakyRelu', [self], res.outputs, alpha=(as_float(lower) + as_float(upper)) / 2)
    graph.case = 3
    low = graph.make_node('Mul', [self, const(graph, (as_float(lower) + as_float(upper)) / 2, float64)])
    return graph.make_node('Where', [graph.make_node('Greater', [self, const(graph, 0, float64)]), self, low], res.outputs)


def aten_rrelu_with_noise_functional(graph: Graph, res: ResultSpec, self: Result, noise: Result, lower: Scalar = 0.125, upper: Scalar = 0.3333333333333333, training: Bool = False, generator: Any = None) -> Any:
    """aten::rrelu_with_noise_functional(Tensor self, Tensor noise, Scalar lower=0.125, Scalar upper=0.33333333333333331, bool training=False, Generator? generator=None) -> (Tensor, Tensor noise_out)"""
    if training:
        graph.case = 1
        raise UnsupportedCase('aten::rrelu_with_noise_functional: slopes in training are random numbers that only torch can draw')
    if dtype_of(graph, self) != float64:
        graph.case = 2
        return (graph.make_node('LeakyRelu', [self], alpha=(as_float(lower) + as_float(upper)) / 2), noise)
    graph.case = 3
    low = graph.make_node('Mul', [self, const(graph, (as_float(lower) + as_float(upper)) / 2, float64)])
    return (graph.make_node('Where', [graph.make_node('Greater', [self, const(graph, 0, float64)]), self, low]), noise)


def aten_selu(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::selu(Tensor self) -> Tensor"""
    if dtype_of(graph, self) != float64:
        graph.case = 1
        return cast(graph, graph.make_node('Selu', [opmath(graph, self)]), dtype_of(graph, self))
    graph.case = 2
    grown = graph.make_node('Sub', [graph.make_node('Exp', [self]), const(graph, 1, float64)])
    negative = graph.make_node('Mul', [grown, const(graph, 1.6732632423543772 * 1.0507009873554805, float64)])
    positive = graph.make_node('Mul', [self, const(graph, 1.0507009873554805, float64)])
    return graph.make_node('Where', [graph.make_node('Greater', [self, const(graph, 0, float64)]), positive, negative], res.outputs)


def aten_sigmoid(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::sigmoid(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    graph.case = 1
    return graph.make_node('Sigmoid', [self], res.outputs)


def aten_silu(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::silu(Tensor self) -> Tensor"""
    graph.case = 1
    x = opmath(graph, self)
    return cast(graph, graph.make_node('Mul', [x, graph.make_node('Sigmoid', [x])]), dtype_of(graph, self))


def aten_softplus(graph: Graph, res: ResultSpec, self: Result, beta: Scalar = 1, threshold: Scalar = 20) -> Result:
    """aten::softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor"""
    if beta == 1 and threshold == 20:
        # above 20 it is the argument in any case
        graph.case = 1
        x = opmath(graph, self)
        curve = graph.make_node('Add', [graph.make_node('Max', [x, const_like(graph, 0, x)]), log1p_of(graph, graph.make_node('Exp', [graph.make_node('Neg', [graph.make_node('Abs', [x])])]))])
        return cast(graph, curve, dtype_of(graph, self))
    graph.case = 2
    x = opmath(graph, self)
    steep = graph.make_node('Mul', [x, const_like(graph, beta, x)])
    curve = graph.make_node('Div', [call_operator(graph, dispatch, 'aten::softplus', steep), const_like(graph, beta, x)])
    result = graph.make_node('Where', [graph.make_node('Greater', [steep, const_like(graph, threshold, x)]), x, curve])
    return cast(graph, result, dtype_of(graph, self))


def aten_softshrink(graph: Graph, res: ResultSpec, self: Result, lambd: Scalar = 0.5) -> Result:
    """aten::softshrink(Tensor self, Scalar lambd=0.5) -> Tensor"""
    bound = const_like(graph, lambd, self)
    low = graph.make_node('Where', [graph.make_node('Less', [self, graph.make_node('Neg', [bound])]), graph.make_node('Add', [self, bound]), graph.make_node('Mul', [self, const_like(graph, 0, self)])])
    return graph.make_node('Where', [graph.make_node('Greater', [self, bound]), graph.make_node('Sub', [self, bound]), low], res.outputs)


def aten_tanh(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::tanh(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    graph.case = 1
    return graph.make_node('Tanh', [self], res.outputs)


def aten_threshold(graph: Graph, res: ResultSpec, self: Result, threshold: Scalar, value: Scalar) -> Result:
    """aten::threshold(Tensor self, Scalar threshold, Scalar value) -> Tensor"""
    if threshold >= 0 and value == 0 and is_float(graph, self):
        # ONNX Runtime's Where keeps the sign of a zero of its last choice alone
        graph.case = 1
        kept = graph.make_node('Or', [graph.make_node('Greater', [self, const_like(graph, threshold, self)]), graph.make_node('IsNaN', [self])])
        return graph.make_node('Where', [kept, self, const_like(graph, value, self)], res.outputs)
    graph.case = 2
    low = graph.make_node('LessOrEqual', [self, const_like(graph, threshold, self)])
    return graph.make_node('Where', [low, const_like(graph, value, self), self], res.outputs)


def complex_aten_sigmoid(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::sigmoid(Tensor self) -> Tensor"""
    self, = promote_complex(graph, 'int_to_float', [self])
    graph.case = 2
    one = as_complex(graph, 1, dtype_of(graph, self))
    return c_div(graph, one, c_add(graph, one, c_exp(graph, c_scaled(graph, self, -1))))


def complex_aten_silu(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::silu(Tensor self) -> Tensor"""
    graph.case = 2
    one = as_complex(graph, 1, dtype_of(graph, self))
    return c_div(graph, self, c_add(graph, one, c_exp(graph, c_scaled(graph, self, -1))))


def complex_aten_tanh(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::tanh(Tensor self) -> Tensor"""
    self, = promote_complex(graph, 'int_to_float', [self])
    # Kahan's formula; it is 1 to the last digit beyond 22
    graph.case = 2
    limit, one = (const_like(graph, 22, re(graph, self)), const_like(graph, 1, re(graph, self)))
    x = graph.make_node('Clip', [re(graph, self), graph.make_node('Neg', [limit]), limit])
    s = call_operator(graph, dispatch, 'aten::sinh', x)
    t = graph.make_node('Div', [graph.make_node('Sin', [im(graph, self)]), graph.make_node('Cos', [im(graph, self)])])
    beta = graph.make_node('Add', [one, graph.make_node('Mul', [t, t])])
    below = graph.make_node('Add', [one, graph.make_node('Mul', [graph.make_node('Mul', [beta, s]), s])])
    return complex_of(graph, graph.make_node('Div', [graph.make_node('Mul', [graph.make_node('Mul', [beta, call_operator(graph, dispatch, 'aten::cosh', x)]), s]), below]), graph.make_node('Div', [t, below]))


def rule_aten__prelu_kernel(graph: Graph, self: Result, weight: Result) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_celu(graph: Graph, self: Result, alpha: Scalar = 1.0) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_elu(graph: Graph, self: Result, alpha: Scalar = 1, scale: Scalar = 1, input_scale: Scalar = 1) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_gelu(graph: Graph, self: Result, *, approximate: Str = 'none') -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_glu(graph: Graph, self: Result, dim: Int = -1) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_hardshrink(graph: Graph, self: Result, lambd: Scalar = 0.5) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_hardsigmoid(graph: Graph, self: Result) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_hardswish(graph: Graph, self: Result) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_hardtanh(graph: Graph, self: Result, min_val: Scalar = -1, max_val: Scalar = 1) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_leaky_relu(graph: Graph, self: Result, negative_slope: Scalar = 0.01) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_log_sigmoid(graph: Graph, self: Result) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_log_sigmoid_forward(graph: Graph, self: Result) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)), (dtype_or_none(graph, self), None),)


def rule_aten_mish(graph: Graph, self: Result) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_prelu(graph: Graph, self: Result, weight: Result) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_relu(graph: Graph, self: Result) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_relu6(graph: Graph, self: Result) -> Rules:
    return rule_aten_hardtanh(graph, self=self, min_val=0, max_val=6)


def rule_aten_rrelu(graph: Graph, self: Result, lower: Scalar = 0.125, upper: Scalar = 0.3333333333333333, training: Bool = False, generator: Any = None) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_rrelu_with_noise_functional(graph: Graph, self: Result, noise: Result, lower: Scalar = 0.125, upper: Scalar = 0.3333333333333333, training: Bool = False, generator: Any = None) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)), (dtype_or_none(graph, noise), shape_or_none(graph, noise)),)


def rule_aten_selu(graph: Graph, self: Result) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_sigmoid(graph: Graph, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), shape_or_none(graph, self)),)


def rule_aten_silu(graph: Graph, self: Result) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_softplus(graph: Graph, self: Result, beta: Scalar = 1, threshold: Scalar = 20) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_softshrink(graph: Graph, self: Result, lambd: Scalar = 0.5) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_tanh(graph: Graph, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), shape_or_none(graph, self)),)


def rule_aten_threshold(graph: Graph, self: Result, threshold: Scalar, value: Scalar) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)
