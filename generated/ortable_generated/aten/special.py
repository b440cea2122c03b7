# Generated from specs/aten/special.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING

from ortable.known import known_shape
from ortable.prelude import dtype_of
from ortable.prelude_make import const
from ortable.promotion import promote_values, promoted_dtype

if TYPE_CHECKING:
    from ortable.builder import GraphBuilder, Res
    from ortable.known import Rules
    from ortable.prelude import Result


def aten_special_entr(graph: GraphBuilder, res: Res, self: Result) -> Result:
    """aten::special_entr(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    zero = const(graph, 0, dtype_of(graph, self))
    inside = graph.make_node('Neg', [graph.make_node('Mul', [self, graph.make_node('Log', [self])])])
    outside = graph.make_node('Where', [graph.make_node('Less', [self, zero]), const(graph, -float('inf'), dtype_of(graph, self)), zero])
    return graph.make_node('Where', [graph.make_node('Or', [graph.make_node('Greater', [self, zero]), graph.make_node('IsNaN', [self])]), inside, outside], res.outputs)


def rule_aten_special_entr(graph: GraphBuilder, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), known_shape(graph, self)),)
