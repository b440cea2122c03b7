# Generated from specs/aten/special_polynomial.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING

from ortable.dtypes import float64, int64
from ortable.inference import broadcast
from ortable.lowerings.special.polynomials import chebyshev_wave, recurrence
from ortable.prelude.facts import dtype_of
from ortable.prelude.metadata import shape_or_none
from ortable.prelude.operators import call_operator
from ortable.prelude.pointwise import const_like
from ortable.prelude.promotion import promote_values, promoted_dtype
from ortable.prelude.values import cast
from ortable_generated.aten import dispatch

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Result, Scalar


def aten_special_chebyshev_polynomial_t(graph: Graph, res: ResultSpec, x: Result, n: Result) -> Result:
    """aten::special_chebyshev_polynomial_t(Tensor x, Tensor n) -> Tensor"""
    x, n = promote_values(graph, 'int_to_float', [x, n])
    order = cast(graph, cast(graph, n, int64), dtype_of(graph, n))
    twice = graph.make_node('Add', [x, x])
    turning = graph.make_node('And', [graph.make_node('Greater', [order, const_like(graph, 6, order)]), graph.make_node('Less', [graph.make_node('Abs', [x]), const_like(graph, 1, x)])])
    wave = graph.make_node('Cos', [graph.make_node('Mul', [order, call_operator(graph, dispatch, 'aten::acos', x)])])
    steps_left = graph.make_node('Where', [turning, const_like(graph, 0, order), order])
    result = recurrence(graph, twice, steps_left, x, [0, 0, 1, 0, 0])
    return graph.make_node('Where', [turning, wave, result], res.outputs)


def aten_special_chebyshev_polynomial_t_n_scalar(graph: Graph, res: ResultSpec, x: Result, n: Scalar) -> Result:
    """aten::special_chebyshev_polynomial_t.n_scalar(Tensor x, Scalar n) -> Tensor"""
    return aten_special_chebyshev_polynomial_t(graph, res, x=x, n=n)


def aten_special_chebyshev_polynomial_t_x_scalar(graph: Graph, res: ResultSpec, x: Scalar, n: Result) -> Result:
    """aten::special_chebyshev_polynomial_t.x_scalar(Scalar x, Tensor n) -> Tensor"""
    return aten_special_chebyshev_polynomial_t(graph, res, x=x, n=n)


def aten_special_chebyshev_polynomial_u(graph: Graph, res: ResultSpec, x: Result, n: Result) -> Result:
    """aten::special_chebyshev_polynomial_u(Tensor x, Tensor n) -> Tensor"""
    x, n = promote_values(graph, 'int_to_float', [x, n])
    order = cast(graph, cast(graph, n, int64), dtype_of(graph, n))
    one = const_like(graph, 1, x)
    twice = graph.make_node('Add', [x, x])
    turning = graph.make_node('And', [graph.make_node('Greater', [order, const_like(graph, 8, order)]), graph.make_node('Less', [graph.make_node('Abs', [x]), const_like(graph, 1, x)])])
    angle = call_operator(graph, dispatch, 'aten::acos', x)
    wave = graph.make_node('Div', [graph.make_node('Sin', [graph.make_node('Mul', [graph.make_node('Add', [order, one]), angle])]), graph.make_node('Sin', [angle])])
    steps_left = graph.make_node('Where', [turning, const_like(graph, 0, order), order])
    result = recurrence(graph, twice, steps_left, twice, [0, 0, 1, 0, 0])
    return graph.make_node('Where', [turning, wave, result], res.outputs)


def aten_special_chebyshev_polynomial_u_n_scalar(graph: Graph, res: ResultSpec, x: Result, n: Scalar) -> Result:
    """aten::special_chebyshev_polynomial_u.n_scalar(Tensor x, Scalar n) -> Tensor"""
    return aten_special_chebyshev_polynomial_u(graph, res, x=x, n=n)


def aten_special_chebyshev_polynomial_u_x_scalar(graph: Graph, res: ResultSpec, x: Scalar, n: Result) -> Result:
    """aten::special_chebyshev_polynomial_u.x_scalar(Scalar x, Tensor n) -> Tensor"""
    return aten_special_chebyshev_polynomial_u(graph, res, x=x, n=n)


def aten_special_chebyshev_polynomial_v(graph: Graph, res: ResultSpec, x: Result, n: Result) -> Result:
    """aten::special_chebyshev_polynomial_v(Tensor x, Tensor n) -> Tensor"""
    x, n = promote_values(graph, 'int_to_float', [x, n])
    order = cast(graph, cast(graph, n, int64), dtype_of(graph, n))
    one = const_like(graph, 1, x)
    twice = graph.make_node('Add', [x, x])
    turning = graph.make_node('And', [graph.make_node('Greater', [order, const_like(graph, 8, order)]), graph.make_node('Less', [graph.make_node('Abs', [x]), const_like(graph, 1, x)])])
    angle = call_operator(graph, dispatch, 'aten::acos', x)
    wave = chebyshev_wave(graph, order, angle, True)
    steps_left = graph.make_node('Where', [turning, const_like(graph, 0, order), order])
    result = recurrence(graph, twice, steps_left, graph.make_node('Sub', [twice, one]), [0, 0, 1, 0, 0])
    return graph.make_node('Where', [turning, wave, result], res.outputs)


def aten_special_chebyshev_polynomial_v_n_scalar(graph: Graph, res: ResultSpec, x: Result, n: Scalar) -> Result:
    """aten::special_chebyshev_polynomial_v.n_scalar(Tensor x, Scalar n) -> Tensor"""
    return aten_special_chebyshev_polynomial_v(graph, res, x=x, n=n)


def aten_special_chebyshev_polynomial_v_x_scalar(graph: Graph, res: ResultSpec, x: Scalar, n: Result) -> Result:
    """aten::special_chebyshev_polynomial_v.x_scalar(Scalar x, Tensor n) -> Tensor"""
    return aten_special_chebyshev_polynomial_v(graph, res, x=x, n=n)


def aten_special_chebyshev_polynomial_w(graph: Graph, res: ResultSpec, x: Result, n: Result) -> Result:
    """aten::special_chebyshev_polynomial_w(Tensor x, Tensor n) -> Tensor"""
    x, n = promote_values(graph, 'int_to_float', [x, n])
    order = cast(graph, cast(graph, n, int64), dtype_of(graph, n))
    one = const_like(graph, 1, x)
    twice = graph.make_node('Add', [x, x])
    turning = graph.make_node('And', [graph.make_node('Greater', [order, const_like(graph, 8, order)]), graph.make_node('Less', [graph.make_node('Abs', [x]), const_like(graph, 1, x)])])
    angle = call_operator(graph, dispatch, 'aten::acos', x)
    wave = chebyshev_wave(graph, order, angle, False)
    steps_left = graph.make_node('Where', [turning, const_like(graph, 0, order), order])
    result = recurrence(graph, twice, steps_left, graph.make_node('Add', [twice, one]), [0, 0, 1, 0, 0])
    return graph.make_node('Where', [turning, wave, result], res.outputs)


def aten_special_chebyshev_polynomial_w_n_scalar(graph: Graph, res: ResultSpec, x: Result, n: Scalar) -> Result:
    """aten::special_chebyshev_polynomial_w.n_scalar(Tensor x, Scalar n) -> Tensor"""
    return aten_special_chebyshev_polynomial_w(graph, res, x=x, n=n)


def aten_special_chebyshev_polynomial_w_x_scalar(graph: Graph, res: ResultSpec, x: Scalar, n: Result) -> Result:
    """aten::special_chebyshev_polynomial_w.x_scalar(Scalar x, Tensor n) -> Tensor"""
    return aten_special_chebyshev_polynomial_w(graph, res, x=x, n=n)


def aten_special_hermite_polynomial_h(graph: Graph, res: ResultSpec, x: Result, n: Result) -> Result:
    """aten::special_hermite_polynomial_h(Tensor x, Tensor n) -> Tensor"""
    x, n = promote_values(graph, 'int_to_float', [x, n])
    order = cast(graph, cast(graph, n, int64), dtype_of(graph, n))
    result = recurrence(graph, graph.make_node('Add', [x, x]), order, graph.make_node('Add', [x, x]), [0, 0, 0, 2, 0])
    limit = const_like(graph, 512 if dtype_of(graph, x) == float64 else 128, x)
    return graph.make_node('Where', [graph.make_node('Greater', [order, limit]), const_like(graph, float('nan'), x), result], res.outputs)


def aten_special_hermite_polynomial_h_n_scalar(graph: Graph, res: ResultSpec, x: Result, n: Scalar) -> Result:
    """aten::special_hermite_polynomial_h.n_scalar(Tensor x, Scalar n) -> Tensor"""
    return aten_special_hermite_polynomial_h(graph, res, x=x, n=n)


def aten_special_hermite_polynomial_h_x_scalar(graph: Graph, res: ResultSpec, x: Scalar, n: Result) -> Result:
    """aten::special_hermite_polynomial_h.x_scalar(Scalar x, Tensor n) -> Tensor"""
    return aten_special_hermite_polynomial_h(graph, res, x=x, n=n)


def aten_special_hermite_polynomial_he(graph: Graph, res: ResultSpec, x: Result, n: Result) -> Result:
    """aten::special_hermite_polynomial_he(Tensor x, Tensor n) -> Tensor"""
    x, n = promote_values(graph, 'int_to_float', [x, n])
    order = cast(graph, cast(graph, n, int64), dtype_of(graph, n))
    result = recurrence(graph, x, order, x, [0, 0, 0, 1, 0])
    limit = const_like(graph, 512 if dtype_of(graph, x) == float64 else 128, x)
    return graph.make_node('Where', [graph.make_node('Greater', [order, limit]), const_like(graph, float('nan'), x), result], res.outputs)


def aten_special_hermite_polynomial_he_n_scalar(graph: Graph, res: ResultSpec, x: Result, n: Scalar) -> Result:
    """aten::special_hermite_polynomial_he.n_scalar(Tensor x, Scalar n) -> Tensor"""
    return aten_special_hermite_polynomial_he(graph, res, x=x, n=n)


def aten_special_hermite_polynomial_he_x_scalar(graph: Graph, res: ResultSpec, x: Scalar, n: Result) -> Result:
    """aten::special_hermite_polynomial_he.x_scalar(Scalar x, Tensor n) -> Tensor"""
    return aten_special_hermite_polynomial_he(graph, res, x=x, n=n)


def aten_special_laguerre_polynomial_l(graph: Graph, res: ResultSpec, x: Result, n: Result) -> Result:
    """aten::special_laguerre_polynomial_l(Tensor x, Tensor n) -> Tensor"""
    x, n = promote_values(graph, 'int_to_float', [x, n])
    y = graph.make_node('Sub', [const_like(graph, 1, x), x])
    return recurrence(graph, y, cast(graph, cast(graph, n, int64), dtype_of(graph, n)), y, [2, 0, 0, 1, 1])


def aten_special_laguerre_polynomial_l_n_scalar(graph: Graph, res: ResultSpec, x: Result, n: Scalar) -> Result:
    """aten::special_laguerre_polynomial_l.n_scalar(Tensor x, Scalar n) -> Tensor"""
    return aten_special_laguerre_polynomial_l(graph, res, x=x, n=n)


def aten_special_laguerre_polynomial_l_x_scalar(graph: Graph, res: ResultSpec, x: Scalar, n: Result) -> Result:
    """aten::special_laguerre_polynomial_l.x_scalar(Scalar x, Tensor n) -> Tensor"""
    return aten_special_laguerre_polynomial_l(graph, res, x=x, n=n)


def aten_special_legendre_polynomial_p(graph: Graph, res: ResultSpec, x: Result, n: Result) -> Result:
    """aten::special_legendre_polynomial_p(Tensor x, Tensor n) -> Tensor"""
    x, n = promote_values(graph, 'int_to_float', [x, n])
    return recurrence(graph, x, cast(graph, cast(graph, n, int64), dtype_of(graph, n)), x, [0, 2, 0, 1, 1])


def aten_special_legendre_polynomial_p_n_scalar(graph: Graph, res: ResultSpec, x: Result, n: Scalar) -> Result:
    """aten::special_legendre_polynomial_p.n_scalar(Tensor x, Scalar n) -> Tensor"""
    return aten_special_legendre_polynomial_p(graph, res, x=x, n=n)


def aten_special_legendre_polynomial_p_x_scalar(graph: Graph, res: ResultSpec, x: Scalar, n: Result) -> Result:
    """aten::special_legendre_polynomial_p.x_scalar(Scalar x, Tensor n) -> Tensor"""
    return aten_special_legendre_polynomial_p(graph, res, x=x, n=n)


def aten_special_shifted_chebyshev_polynomial_t(graph: Graph, res: ResultSpec, x: Result, n: Result) -> Result:
    """aten::special_shifted_chebyshev_polynomial_t(Tensor x, Tensor n) -> Tensor"""
    x, n = promote_values(graph, 'int_to_float', [x, n])
    y = graph.make_node('Sub', [graph.make_node('Add', [x, x]), const_like(graph, 1, x)])
    order = cast(graph, cast(graph, n, int64), dtype_of(graph, n))
    twice = graph.make_node('Add', [y, y])
    turning = graph.make_node('And', [graph.make_node('Greater', [order, const_like(graph, 6, order)]), graph.make_node('Less', [graph.make_node('Abs', [y]), const_like(graph, 1, y)])])
    wave = graph.make_node('Cos', [graph.make_node('Mul', [order, call_operator(graph, dispatch, 'aten::acos', y)])])
    steps_left = graph.make_node('Where', [turning, const_like(graph, 0, order), order])
    result = recurrence(graph, twice, steps_left, y, [0, 0, 1, 0, 0])
    return graph.make_node('Where', [turning, wave, result], res.outputs)


def aten_special_shifted_chebyshev_polynomial_t_n_scalar(graph: Graph, res: ResultSpec, x: Result, n: Scalar) -> Result:
    """aten::special_shifted_chebyshev_polynomial_t.n_scalar(Tensor x, Scalar n) -> Tensor"""
    return aten_special_shifted_chebyshev_polynomial_t(graph, res, x=x, n=n)


def aten_special_shifted_chebyshev_polynomial_t_x_scalar(graph: Graph, res: ResultSpec, x: Scalar, n: Result) -> Result:
    """aten::special_shifted_chebyshev_polynomial_t.x_scalar(Scalar x, Tensor n) -> Tensor"""
    return aten_special_shifted_chebyshev_polynomial_t(graph, res, x=x, n=n)


def aten_special_shifted_chebyshev_polynomial_u(graph: Graph, res: ResultSpec, x: Result, n: Result) -> Result:
    """aten::special_shifted_chebyshev_polynomial_u(Tensor x, Tensor n) -> Tensor"""
    x, n = promote_values(graph, 'int_to_float', [x, n])
    y = graph.make_node('Sub', [graph.make_node('Add', [x, x]), const_like(graph, 1, x)])
    order = cast(graph, cast(graph, n, int64), dtype_of(graph, n))
    one = const_like(graph, 1, y)
    twice = graph.make_node('Add', [y, y])
    turning = graph.make_node('And', [graph.make_node('Greater', [order, const_like(graph, 6, order)]), graph.make_node('Less', [graph.make_node('Abs', [y]), const_like(graph, 1, y)])])
    angle = call_operator(graph, dispatch, 'aten::acos', y)
    wave = graph.make_node('Div', [graph.make_node('Sin', [graph.make_node('Mul', [graph.make_node('Add', [order, one]), angle])]), graph.make_node('Sin', [angle])])
    steps_left = graph.make_node('Where', [turning, const_like(graph, 0, order), order])
    result = recurrence(graph, twice, steps_left, twice, [0, 0, 1, 0, 0])
    return graph.make_node('Where', [turning, wave, result], res.outputs)


def aten_special_shifted_chebyshev_polynomial_u_n_scalar(graph: Graph, res: ResultSpec, x: Result, n: Scalar) -> Result:
    """aten::special_shifted_chebyshev_polynomial_u.n_scalar(Tensor x, Scalar n) -> Tensor"""
    return aten_special_shifted_chebyshev_polynomial_u(graph, res, x=x, n=n)


def aten_special_shifted_chebyshev_polynomial_u_x_scalar(graph: Graph, res: ResultSpec, x: Scalar, n: Result) -> Result:
    """aten::special_shifted_chebyshev_polynomial_u.x_scalar(Scalar x, Tensor n) -> Tensor"""
    return aten_special_shifted_chebyshev_polynomial_u(graph, res, x=x, n=n)


def aten_special_shifted_chebyshev_polynomial_v(graph: Graph, res: ResultSpec, x: Result, n: Result) -> Result:
    """aten::special_shifted_chebyshev_polynomial_v(Tensor x, Tensor n) -> Tensor"""
    x, n = promote_values(graph, 'int_to_float', [x, n])
    y = graph.make_node('Sub', [graph.make_node('Add', [x, x]), const_like(graph, 1, x)])
    order = cast(graph, cast(graph, n, int64), dtype_of(graph, n))
    one = const_like(graph, 1, y)
    twice = graph.make_node('Add', [y, y])
    turning = graph.make_node('And', [graph.make_node('Greater', [order, const_like(graph, 6, order)]), graph.make_node('Less', [graph.make_node('Abs', [y]), const_like(graph, 1, y)])])
    angle = call_operator(graph, dispatch, 'aten::acos', y)
    wave = chebyshev_wave(graph, order, angle, True)
    steps_left = graph.make_node('Where', [turning, const_like(graph, 0, order), order])
    result = recurrence(graph, twice, steps_left, graph.make_node('Sub', [twice, one]), [0, 0, 1, 0, 0])
    return graph.make_node('Where', [turning, wave, result], res.outputs)


def aten_special_shifted_chebyshev_polynomial_v_n_scalar(graph: Graph, res: ResultSpec, x: Result, n: Scalar) -> Result:
    """aten::special_shifted_chebyshev_polynomial_v.n_scalar(Tensor x, Scalar n) -> Tensor"""
    return aten_special_shifted_chebyshev_polynomial_v(graph, res, x=x, n=n)


def aten_special_shifted_chebyshev_polynomial_v_x_scalar(graph: Graph, res: ResultSpec, x: Scalar, n: Result) -> Result:
    """aten::special_shifted_chebyshev_polynomial_v.x_scalar(Scalar x, Tensor n) -> Tensor"""
    return aten_special_shifted_chebyshev_polynomial_v(graph, res, x=x, n=n)


def aten_special_shifted_chebyshev_polynomial_w(graph: Graph, res: ResultSpec, x: Result, n: Result) -> Result:
    """aten::special_shifted_chebyshev_polynomial_w(Tensor x, Tensor n) -> Tensor"""
    x, n = promote_values(graph, 'int_to_float', [x, n])
    y = graph.make_node('Sub', [graph.make_node('Add', [x, x]), const_like(graph, 1, x)])
    order = cast(graph, cast(graph, n, int64), dtype_of(graph, n))
    one = const_like(graph, 1, y)
    twice = graph.make_node('Add', [y, y])
    turning = graph.make_node('And', [graph.make_node('Greater', [order, const_like(graph, 4, order)]), graph.make_node('Less', [graph.make_node('Abs', [y]), const_like(graph, 1, y)])])
    angle = call_operator(graph, dispatch, 'aten::acos', y)
    wave = chebyshev_wave(graph, order, angle, False)
    steps_left = graph.make_node('Where', [turning, const_like(graph, 0, order), order])
    result = recurrence(graph, twice, steps_left, graph.make_node('Add', [twice, one]), [0, 0, 1, 0, 0])
    return graph.make_node('Where', [turning, wave, result], res.outputs)


def aten_special_shifted_chebyshev_polynomial_w_n_scalar(graph: Graph, res: ResultSpec, x: Result, n: Scalar) -> Result:
    """aten::special_shifted_chebyshev_polynomial_w.n_scalar(Tensor x, Scalar n) -> Tensor"""
    return aten_special_shifted_chebyshev_polynomial_w(graph, res, x=x, n=n)


def aten_special_shifted_chebyshev_polynomial_w_x_scalar(graph: Graph, res: ResultSpec, x: Scalar, n: Result) -> Result:
    """aten::special_shifted_chebyshev_polynomial_w.x_scalar(Scalar x, Tensor n) -> Tensor"""
    return aten_special_shifted_chebyshev_polynomial_w(graph, res, x=x, n=n)


def rule_aten_special_chebyshev_polynomial_t(graph: Graph, x: Result, n: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', x, n), broadcast(shape_or_none(graph, x), shape_or_none(graph, n))),)


def rule_aten_special_chebyshev_polynomial_t_n_scalar(graph: Graph, x: Result, n: Scalar) -> Rules:
    return rule_aten_special_chebyshev_polynomial_t(graph, x=x, n=n)


def rule_aten_special_chebyshev_polynomial_t_x_scalar(graph: Graph, x: Scalar, n: Result) -> Rules:
    return rule_aten_special_chebyshev_polynomial_t(graph, x=x, n=n)


def rule_aten_special_chebyshev_polynomial_u(graph: Graph, x: Result, n: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', x, n), broadcast(shape_or_none(graph, x), shape_or_none(graph, n))),)


def rule_aten_special_chebyshev_polynomial_u_n_scalar(graph: Graph, x: Result, n: Scalar) -> Rules:
    return rule_aten_special_chebyshev_polynomial_u(graph, x=x, n=n)


def rule_aten_special_chebyshev_polynomial_u_x_scalar(graph: Graph, x: Scalar, n: Result) -> Rules:
    return rule_aten_special_chebyshev_polynomial_u(graph, x=x, n=n)


def rule_aten_special_chebyshev_polynomial_v(graph: Graph, x: Result, n: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', x, n), broadcast(shape_or_none(graph, x), shape_or_none(graph, n))),)


def rule_aten_special_chebyshev_polynomial_v_n_scalar(graph: Graph, x: Result, n: Scalar) -> Rules:
    return rule_aten_special_chebyshev_polynomial_v(graph, x=x, n=n)


def rule_aten_special_chebyshev_polynomial_v_x_scalar(graph: Graph, x: Scalar, n: Result) -> Rules:
    return rule_aten_special_chebyshev_polynomial_v(graph, x=x, n=n)


def rule_aten_special_chebyshev_polynomial_w(graph: Graph, x: Result, n: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', x, n), broadcast(shape_or_none(graph, x), shape_or_none(graph, n))),)


def rule_aten_special_chebyshev_polynomial_w_n_scalar(graph: Graph, x: Result, n: Scalar) -> Rules:
    return rule_aten_special_chebyshev_polynomial_w(graph, x=x, n=n)


def rule_aten_special_chebyshev_polynomial_w_x_scalar(graph: Graph, x: Scalar, n: Result) -> Rules:
    return rule_aten_special_chebyshev_polynomial_w(graph, x=x, n=n)


def rule_aten_special_hermite_polynomial_h(graph: Graph, x: Result, n: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', x, n), broadcast(shape_or_none(graph, x), shape_or_none(graph, n))),)


def rule_aten_special_hermite_polynomial_h_n_scalar(graph: Graph, x: Result, n: Scalar) -> Rules:
    return rule_aten_special_hermite_polynomial_h(graph, x=x, n=n)


def rule_aten_special_hermite_polynomial_h_x_scalar(graph: Graph, x: Scalar, n: Result) -> Rules:
    return rule_aten_special_hermite_polynomial_h(graph, x=x, n=n)


def rule_aten_special_hermite_polynomial_he(graph: Graph, x: Result, n: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', x, n), broadcast(shape_or_none(graph, x), shape_or_none(graph, n))),)


def rule_aten_special_hermite_polynomial_he_n_scalar(graph: Graph, x: Result, n: Scalar) -> Rules:
    return rule_aten_special_hermite_polynomial_he(graph, x=x, n=n)


def rule_aten_special_hermite_polynomial_he_x_scalar(graph: Graph, x: Scalar, n: Result) -> Rules:
    return rule_aten_special_hermite_polynomial_he(graph, x=x, n=n)


def rule_aten_special_laguerre_polynomial_l(graph: Graph, x: Result, n: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', x, n), broadcast(shape_or_none(graph, x), shape_or_none(graph, n))),)


def rule_aten_special_laguerre_polynomial_l_n_scalar(graph: Graph, x: Result, n: Scalar) -> Rules:
    return rule_aten_special_laguerre_polynomial_l(graph, x=x, n=n)


def rule_aten_special_laguerre_polynomial_l_x_scalar(graph: Graph, x: Scalar, n: Result) -> Rules:
    return rule_aten_special_laguerre_polynomial_l(graph, x=x, n=n)


def rule_aten_special_legendre_polynomial_p(graph: Graph, x: Result, n: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', x, n), broadcast(shape_or_none(graph, x), shape_or_none(graph, n))),)


def rule_aten_special_legendre_polynomial_p_n_scalar(graph: Graph, x: Result, n: Scalar) -> Rules:
    return rule_aten_special_legendre_polynomial_p(graph, x=x, n=n)


def rule_aten_special_legendre_polynomial_p_x_scalar(graph: Graph, x: Scalar, n: Result) -> Rules:
    return rule_aten_special_legendre_polynomial_p(graph, x=x, n=n)


def rule_aten_special_shifted_chebyshev_polynomial_t(graph: Graph, x: Result, n: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', x, n), broadcast(shape_or_none(graph, x), shape_or_none(graph, n))),)


def rule_aten_special_shifted_chebyshev_polynomial_t_n_scalar(graph: Graph, x: Result, n: Scalar) -> Rules:
    return rule_aten_special_shifted_chebyshev_polynomial_t(graph, x=x, n=n)


def rule_aten_special_shifted_chebyshev_polynomial_t_x_scalar(graph: Graph, x: Scalar, n: Result) -> Rules:
    return rule_aten_special_shifted_chebyshev_polynomial_t(graph, x=x, n=n)


def rule_aten_special_shifted_chebyshev_polynomial_u(graph: Graph, x: Result, n: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', x, n), broadcast(shape_or_none(graph, x), shape_or_none(graph, n))),)


def rule_aten_special_shifted_chebyshev_polynomial_u_n_scalar(graph: Graph, x: Result, n: Scalar) -> Rules:
    return rule_aten_special_shifted_chebyshev_polynomial_u(graph, x=x, n=n)


def rule_aten_special_shifted_chebyshev_polynomial_u_x_scalar(graph: Graph, x: Scalar, n: Result) -> Rules:
    return rule_aten_special_shifted_chebyshev_polynomial_u(graph, x=x, n=n)


def rule_aten_special_shifted_chebyshev_polynomial_v(graph: Graph, x: Result, n: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', x, n), broadcast(shape_or_none(graph, x), shape_or_none(graph, n))),)


def rule_aten_special_shifted_chebyshev_polynomial_v_n_scalar(graph: Graph, x: Result, n: Scalar) -> Rules:
    return rule_aten_special_shifted_chebyshev_polynomial_v(graph, x=x, n=n)


def rule_aten_special_shifted_chebyshev_polynomial_v_x_scalar(graph: Graph, x: Scalar, n: Result) -> Rules:
    return rule_aten_special_shifted_chebyshev_polynomial_v(graph, x=x, n=n)


def rule_aten_special_shifted_chebyshev_polynomial_w(graph: Graph, x: Result, n: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', x, n), broadcast(shape_or_none(graph, x), shape_or_none(graph, n))),)


def rule_aten_special_shifted_chebyshev_polynomial_w_n_scalar(graph: Graph, x: Result, n: Scalar) -> Rules:
    return rule_aten_special_shifted_chebyshev_polynomial_w(graph, x=x, n=n)


def rule_aten_special_shifted_chebyshev_polynomial_w_x_scalar(graph: Graph, x: Scalar, n: Result) -> Rules:
    return rule_aten_special_shifted_chebyshev_polynomial_w(graph, x=x, n=n)
