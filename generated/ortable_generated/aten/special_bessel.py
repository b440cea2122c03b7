# Generated from specs/aten/special_bessel.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING

from ortable.lowerings.special.bessel import airy_ai, bessel_k, bessel_series, bessel_tail
from ortable.prelude.error_functions import ratio_of
from ortable.prelude.facts import dtype_of
from ortable.prelude.metadata import shape_or_none
from ortable.prelude.operators import call_operator
from ortable.prelude.pointwise import const_like, polynomial
from ortable.prelude.promotion import opmath, promote_values, promoted_dtype
from ortable.prelude.values import cast
from ortable_generated.aten import dispatch

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Result


def aten_i0(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::i0(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    size = graph.make_node('Abs', [opmath(graph, self)])
    return cast(graph, graph.make_node('Mul', [graph.make_node('Exp', [size]), bessel_series(graph, size, 'i0')]), dtype_of(graph, self))


def aten_special_airy_ai(graph: Graph, res: ResultSpec, x: Result) -> Result:
    """aten::special_airy_ai(Tensor x) -> Tensor"""
    x, = promote_values(graph, 'int_to_float', [x])
    return airy_ai(graph, res, x=x)


def aten_special_bessel_j0(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::special_bessel_j0(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    # Cephes j0.c, absolute error 4e-16
    size, square = (graph.make_node('Abs', [self]), graph.make_node('Mul', [self, self]))
    first = graph.make_node('Sub', [square, const_like(graph, 5.783185962946784, self)])
    second = graph.make_node('Sub', [square, const_like(graph, 30.471262343662087, self)])
    near = graph.make_node('Mul', [graph.make_node('Mul', [first, second]), ratio_of(graph, square, 'j0_rp', 'j0_rq')])
    tail = bessel_tail(graph, size, 'j0', 3.141592653589793 / 4, False)
    return graph.make_node('Where', [graph.make_node('LessOrEqual', [size, const_like(graph, 5, self)]), near, tail], res.outputs)


def aten_special_bessel_j1(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::special_bessel_j1(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    # Cephes j1.c, absolute error 3e-16
    size, square = (graph.make_node('Abs', [self]), graph.make_node('Mul', [self, self]))
    first = graph.make_node('Sub', [square, const_like(graph, 14.681970642123893, self)])
    second = graph.make_node('Sub', [square, const_like(graph, 49.2184563216946, self)])
    near = graph.make_node('Mul', [graph.make_node('Mul', [graph.make_node('Mul', [ratio_of(graph, square, 'j1_rp', 'j1_rq'), self]), first]), second])
    tail = bessel_tail(graph, size, 'j1', 3 * 3.141592653589793 / 4, False)
    tail = graph.make_node('Where', [graph.make_node('Less', [self, const_like(graph, 0, self)]), graph.make_node('Neg', [tail]), tail])
    return graph.make_node('Where', [graph.make_node('LessOrEqual', [size, const_like(graph, 5, self)]), near, tail], res.outputs)


def aten_special_bessel_y0(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::special_bessel_y0(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    near = ratio_of(graph, graph.make_node('Mul', [self, self]), 'y0_yp', 'y0_yq')
    wave = graph.make_node('Mul', [graph.make_node('Mul', [const_like(graph, 2 / 3.141592653589793, self), graph.make_node('Log', [self])]), call_operator(graph, dispatch, 'aten::special_bessel_j0', self)])
    tail = bessel_tail(graph, self, 'j0', 3.141592653589793 / 4, True)
    result = graph.make_node('Where', [graph.make_node('LessOrEqual', [self, const_like(graph, 5, self)]), graph.make_node('Add', [near, wave]), tail])
    return graph.make_node('Where', [graph.make_node('Equal', [self, const_like(graph, 0, self)]), const_like(graph, -float('inf'), self), result], res.outputs)


def aten_special_bessel_y1(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::special_bessel_y1(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    near = graph.make_node('Mul', [self, ratio_of(graph, graph.make_node('Mul', [self, self]), 'y1_yp', 'y1_yq')])
    wave = graph.make_node('Sub', [graph.make_node('Mul', [call_operator(graph, dispatch, 'aten::special_bessel_j1', self), graph.make_node('Log', [self])]), graph.make_node('Reciprocal', [self])])
    wave = graph.make_node('Mul', [const_like(graph, 2 / 3.141592653589793, self), wave])
    tail = bessel_tail(graph, self, 'j1', 3 * 3.141592653589793 / 4, True)
    result = graph.make_node('Where', [graph.make_node('LessOrEqual', [self, const_like(graph, 5, self)]), graph.make_node('Add', [near, wave]), tail])
    return graph.make_node('Where', [graph.make_node('Equal', [self, const_like(graph, 0, self)]), const_like(graph, -float('inf'), self), result], res.outputs)


def aten_special_i0(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::special_i0(Tensor self) -> Tensor"""
    return aten_i0(graph, res, self=self)


def aten_special_i0e(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::special_i0e(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    return cast(graph, bessel_series(graph, graph.make_node('Abs', [opmath(graph, self)]), 'i0'), dtype_of(graph, self))


def aten_special_i1(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::special_i1(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    x = opmath(graph, self)
    size = graph.make_node('Abs', [x])
    result = graph.make_node('Mul', [graph.make_node('Exp', [size]), bessel_series(graph, size, 'i1')])
    return cast(graph, graph.make_node('Where', [graph.make_node('Less', [x, const_like(graph, 0, x)]), graph.make_node('Neg', [result]), result]), dtype_of(graph, self))


def aten_special_i1e(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::special_i1e(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    x = opmath(graph, self)
    result = bessel_series(graph, graph.make_node('Abs', [x]), 'i1')
    return cast(graph, graph.make_node('Where', [graph.make_node('Less', [x, const_like(graph, 0, x)]), graph.make_node('Neg', [result]), result]), dtype_of(graph, self))


def aten_special_modified_bessel_i0(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::special_modified_bessel_i0(Tensor self) -> Tensor"""
    return aten_i0(graph, res, self=self)


def aten_special_modified_bessel_i1(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::special_modified_bessel_i1(Tensor self) -> Tensor"""
    return aten_special_i1(graph, res, self=self)


def aten_special_modified_bessel_k0(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::special_modified_bessel_k0(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    return bessel_k(graph, self, 'k0', False)


def aten_special_modified_bessel_k1(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::special_modified_bessel_k1(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    return bessel_k(graph, self, 'k1', False)


def aten_special_scaled_modified_bessel_k0(graph: Graph, res: ResultSpec, x: Result) -> Result:
    """aten::special_scaled_modified_bessel_k0(Tensor x) -> Tensor"""
    x, = promote_values(graph, 'int_to_float', [x])
    return bessel_k(graph, x, 'k0', True)


def aten_special_scaled_modified_bessel_k1(graph: Graph, res: ResultSpec, x: Result) -> Result:
    """aten::special_scaled_modified_bessel_k1(Tensor x) -> Tensor"""
    x, = promote_values(graph, 'int_to_float', [x])
    return bessel_k(graph, x, 'k1', True)


def aten_special_spherical_bessel_j0(graph: Graph, res: ResultSpec, x: Result) -> Result:
    """aten::special_spherical_bessel_j0(Tensor x) -> Tensor"""
    x, = promote_values(graph, 'int_to_float', [x])
    series = [1 / 6227020800, -1 / 39916800, 1 / 362880, -1 / 5040, 1 / 120, -1 / 6, 1.0]
    near = polynomial(graph, graph.make_node('Mul', [x, x]), series)
    far = graph.make_node('Where', [graph.make_node('IsInf', [x]), const_like(graph, 0, x), graph.make_node('Div', [graph.make_node('Sin', [x]), x])])
    return graph.make_node('Where', [graph.make_node('Less', [graph.make_node('Abs', [x]), const_like(graph, 0.5, x)]), near, far], res.outputs)


def rule_aten_i0(graph: Graph, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), shape_or_none(graph, self)),)


def rule_aten_special_airy_ai(graph: Graph, x: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', x), shape_or_none(graph, x)),)


def rule_aten_special_bessel_j0(graph: Graph, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), shape_or_none(graph, self)),)


def rule_aten_special_bessel_j1(graph: Graph, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), shape_or_none(graph, self)),)


def rule_aten_special_bessel_y0(graph: Graph, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), shape_or_none(graph, self)),)


def rule_aten_special_bessel_y1(graph: Graph, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), shape_or_none(graph, self)),)


def rule_aten_special_i0(graph: Graph, self: Result) -> Rules:
    return rule_aten_i0(graph, self=self)


def rule_aten_special_i0e(graph: Graph, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), shape_or_none(graph, self)),)


def rule_aten_special_i1(graph: Graph, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), shape_or_none(graph, self)),)


def rule_aten_special_i1e(graph: Graph, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), shape_or_none(graph, self)),)


def rule_aten_special_modified_bessel_i0(graph: Graph, self: Result) -> Rules:
    return rule_aten_i0(graph, self=self)


def rule_aten_special_modified_bessel_i1(graph: Graph, self: Result) -> Rules:
    return rule_aten_special_i1(graph, self=self)


def rule_aten_special_modified_bessel_k0(graph: Graph, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), shape_or_none(graph, self)),)


def rule_aten_special_modified_bessel_k1(graph: Graph, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), shape_or_none(graph, self)),)


def rule_aten_special_scaled_modified_bessel_k0(graph: Graph, x: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', x), shape_or_none(graph, x)),)


def rule_aten_special_scaled_modified_bessel_k1(graph: Graph, x: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', x), shape_or_none(graph, x)),)


def rule_aten_special_spherical_bessel_j0(graph: Graph, x: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', x), shape_or_none(graph, x)),)
