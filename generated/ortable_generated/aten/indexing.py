# Generated from specs/aten/indexing.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING

from ortable.known import known_dtype, known_shape
from ortable.lowerings.indexing import index_put, index_tensor
from ortable.prelude import is_int, one_hot_index

if TYPE_CHECKING:
    from ortable.builder import GraphBuilder, Res
    from ortable.known import Rules
    from ortable.prelude import Bool, Result, Results


def aten_index_Tensor(graph: GraphBuilder, res: Res, self: Result, indices: Results) -> Result:
    """aten::index.Tensor(Tensor self, Tensor?[] indices) -> Tensor"""
    axis = one_hot_index(indices)
    if axis >= 0 and is_int(graph, indices[axis]):
        return graph.make_node('Gather', [self, indices[axis]], res.outputs, axis=axis)
    return index_tensor(graph, res, self=self, indices=indices)


def aten_index_put(graph: GraphBuilder, res: Res, self: Result, indices: Results, values: Result, accumulate: Bool = False) -> Result:
    """aten::index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor"""
    return index_put(graph, res, self=self, indices=indices, values=values, accumulate=accumulate)


def rule_aten_index_Tensor(graph: GraphBuilder, self: Result, indices: Results) -> Rules:
    return ((known_dtype(graph, self), None),)


def rule_aten_index_put(graph: GraphBuilder, self: Result, indices: Results, values: Result, accumulate: Bool = False) -> Rules:
    return ((known_dtype(graph, self), known_shape(graph, self)),)
