# Generated from specs/aten/random.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from math import sqrt
from ortable.dispatch import RngCall
from ortable.dtypes import boolean
from ortable.errors import UnsupportedCase
from ortable.inference import promote_to_float
from ortable.lowerings.sampling import random_dropout, random_features
from ortable.prelude.facts import dtype_of, shape_of
from ortable.prelude.metadata import dtype_or_none, shape_or_none
from ortable.prelude.pointwise import scaled
from ortable.prelude.promotion import opmath
from ortable.prelude.values import cast, const, filled

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Bool, Float, Result


def aten_alpha_dropout(graph: Graph, res: ResultSpec, input: Result, p: Float, train: Bool) -> Result:
    """aten::alpha_dropout(Tensor input, float p, bool train) -> Tensor"""
    if p == 0 or not train:
        graph.case = 1
        return input
    if p == 1:
        # nothing is drawn, and torch multiplies by 0, so NaN stays
        graph.case = 2
        return graph.make_node('Mul', [input, const(graph, 0, dtype_of(graph, input))], res.outputs)
    # mean and variance stay (Klambauer et al., Self-Normalizing Neural Networks)
    graph.case = 3
    alpha, dtype, mask = (1.7580993408473766, dtype_of(graph, input), random_dropout(graph, input, p)[1])
    scale = 1 / sqrt((alpha * alpha * p + 1) * (1 - p))
    lift = alpha * scale * p
    factor = opmath(graph, graph.make_node('Where', [mask, const(graph, scale, dtype), const(graph, 0, dtype)]))
    shift = opmath(graph, graph.make_node('Where', [mask, const(graph, lift, dtype), const(graph, lift - alpha * scale, dtype)]))
    return cast(graph, graph.make_node('Add', [graph.make_node('Mul', [opmath(graph, input), factor]), shift]), dtype)


def aten_dropout(graph: Graph, res: ResultSpec, input: Result, p: Float, train: Bool) -> Result:
    """aten::dropout(Tensor input, float p, bool train) -> Tensor"""
    if p == 0 or not train:
        graph.case = 1
        return input
    if p == 1:
        # nothing is drawn, and torch multiplies by 0, so NaN stays
        graph.case = 2
        return graph.make_node('Mul', [input, const(graph, 0, dtype_of(graph, input))], res.outputs)
    graph.case = 3
    return random_dropout(graph, input, p)[0]


def aten_feature_alpha_dropout(graph: Graph, res: ResultSpec, input: Result, p: Float, train: Bool) -> Result:
    """aten::feature_alpha_dropout(Tensor input, float p, bool train) -> Tensor"""
    if p == 0 or not train:
        graph.case = 1
        return input
    if p == 1:
        # nothing is drawn, and torch multiplies by 0, so NaN stays
        graph.case = 2
        return graph.make_node('Mul', [input, const(graph, 0, dtype_of(graph, input))], res.outputs)
    # mean and variance stay (Klambauer et al., Self-Normalizing Neural Networks)
    graph.case = 3
    alpha, dtype, mask = (1.7580993408473766, dtype_of(graph, input), random_features(graph, input, p))
    scale = 1 / sqrt((alpha * alpha * p + 1) * (1 - p))
    lift = alpha * scale * p
    factor = opmath(graph, graph.make_node('Where', [mask, const(graph, scale, dtype), const(graph, 0, dtype)]))
    shift = opmath(graph, graph.make_node('Where', [mask, const(graph, lift, dtype), const(graph, lift - alpha * scale, dtype)]))
    return cast(graph, graph.make_node('Add', [graph.make_node('Mul', [opmath(graph, input), factor]), shift]), dtype)


def aten_feature_dropout(graph: Graph, res: ResultSpec, input: Result, p: Float, train: Bool) -> Result:
    """aten::feature_dropout(Tensor input, float p, bool train) -> Tensor"""
    if p == 0 or not train:
        graph.case = 1
        return input
    if p == 1:
        # nothing is drawn, and torch multiplies by 0, so NaN stays
        graph.case = 2
        return graph.make_node('Mul', [input, const(graph, 0, dtype_of(graph, input))], res.outputs)
    graph.case = 3
    dtype, wide = (dtype_of(graph, input), opmath(graph, input))
    kept = cast(graph, graph.make_node('Div', [const(graph, 1, dtype_of(graph, wide)), const(graph, 1 - p, dtype_of(graph, wide))]), dtype)
    factor = graph.make_node('Where', [random_features(graph, input, p), kept, const(graph, 0, dtype)])
    return cast(graph, graph.make_node('Mul', [wide, opmath(graph, factor)]), dtype)


def aten_native_dropout(graph: Graph, res: ResultSpec, input: Result, p: Float, train: Bool | None, *, drawn: Result | None = None) -> Any:
    """aten::native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)"""
    if p == 0 or (train is not None and (not train)):
        graph.case = 1
        return (input, filled(graph, shape_of(graph, input), True, boolean))
    if p == 1:
        # nothing is drawn, and torch multiplies by 0, so NaN stays
        graph.case = 2
        return (graph.make_node('Mul', [input, const(graph, 0, dtype_of(graph, input))]), filled(graph, shape_of(graph, input), False, boolean))
    if drawn is not None:
        # the quotient is rounded as torch rounds it
        graph.case = 3
        dtype, wide = (dtype_of(graph, input), opmath(graph, input))
        kept = cast(graph, graph.make_node('Div', [const(graph, 1, dtype_of(graph, wide)), const(graph, 1 - p, dtype_of(graph, wide))]), dtype)
        factor = graph.make_node('Where', [drawn, kept, const(graph, 0, dtype)])
        return (cast(graph, graph.make_node('Mul', [wide, opmath(graph, factor)]), dtype), drawn)
    graph.case = 4
    return random_dropout(graph, input, p)


def aten_native_dropout_backward(graph: Graph, res: ResultSpec, grad_output: Result, mask: Result, scale: Float) -> Result:
    """aten::native_dropout_backward(Tensor grad_output, Tensor mask, float scale) -> Tensor"""
    dtype = dtype_of(graph, res)
    return scaled(graph, graph.make_node('Mul', [cast(graph, grad_output, dtype), cast(graph, mask, dtype)]), scale)


def complex_aten_alpha_dropout(graph: Graph, res: ResultSpec, input: Result, p: Float, train: Bool) -> Result:
    """aten::alpha_dropout(Tensor input, float p, bool train) -> Tensor"""
    if p == 0 or not train:
        graph.case = 4
        return input
    graph.case = 5
    raise UnsupportedCase('aten::alpha_dropout: alpha dropout of complex numbers in training')


def complex_aten_feature_alpha_dropout(graph: Graph, res: ResultSpec, input: Result, p: Float, train: Bool) -> Result:
    """aten::feature_alpha_dropout(Tensor input, float p, bool train) -> Tensor"""
    if p == 0 or not train:
        graph.case = 4
        return input
    graph.case = 5
    raise UnsupportedCase('aten::feature_alpha_dropout: feature alpha dropout of complex numbers in training')


def complex_aten_feature_dropout(graph: Graph, res: ResultSpec, input: Result, p: Float, train: Bool) -> Result:
    """aten::feature_dropout(Tensor input, float p, bool train) -> Tensor"""
    if p == 0 or not train:
        graph.case = 4
        return input
    graph.case = 5
    raise UnsupportedCase('aten::feature_dropout: feature dropout of complex numbers in training')


def draw_aten_native_dropout(res: Any, input: Result, p: Float, train: Bool | None) -> RngCall | None:
    return RngCall('bernoulli_.float', input, boolean, (1 - p,), False) if p > 0 and p < 1 and (train is not False) else None


def rule_aten_alpha_dropout(graph: Graph, input: Result, p: Float, train: Bool) -> Rules:
    return ((dtype_or_none(graph, input), shape_or_none(graph, input)),)


def rule_aten_dropout(graph: Graph, input: Result, p: Float, train: Bool) -> Rules:
    return ((dtype_or_none(graph, input), shape_or_none(graph, input)),)


def rule_aten_feature_alpha_dropout(graph: Graph, input: Result, p: Float, train: Bool) -> Rules:
    return ((dtype_or_none(graph, input), shape_or_none(graph, input)),)


def rule_aten_feature_dropout(graph: Graph, input: Result, p: Float, train: Bool) -> Rules:
    return ((dtype_or_none(graph, input), shape_or_none(graph, input)),)


def rule_aten_native_dropout(graph: Graph, input: Result, p: Float, train: Bool | None) -> Rules:
    return ((dtype_or_none(graph, input), shape_or_none(graph, input)), (boolean, shape_or_none(graph, input)),)


def rule_aten_native_dropout_backward(graph: Graph, grad_output: Result, mask: Result, scale: Float) -> Rules:
    return ((promote_to_float(dtype_or_none(graph, grad_output)), shape_or_none(graph, grad_output)),)
