# Generated from specs/aten/jagged.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING

from ortable.dtypes import int64
from ortable.errors import UnsupportedCase
from ortable.prelude.facts import dim_of, dtype_of, shape_of
from ortable.prelude.metadata import dtype_or_none
from ortable.prelude.shapes import iota, sliced
from ortable.prelude.values import cast, const, consts, filled, reshape_to

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Float, Result, Results, SymInt, SymInts


def aten__jagged_to_padded_dense_forward(graph: Graph, res: ResultSpec, values: Result, offsets: Results, max_lengths: SymInts, padding_value: Float = 0.0) -> Result:
    """aten::_jagged_to_padded_dense_forward(Tensor values, Tensor[] offsets, SymInt[] max_lengths, float padding_value=0.) -> Tensor"""
    if len(offsets) != 1:
        graph.case = 1
        raise UnsupportedCase('aten::_jagged_to_padded_dense_forward: several jagged dimensions, which torch has on CUDA alone')
    # a row of padding stands behind the values, where places past the end of a row point
    graph.case = 2
    bounds = graph.make_node('Unsqueeze', [cast(graph, offsets[0], int64), consts(graph, [1], int64)])
    starts, ends = (sliced(graph, bounds, 0, 0, -1), sliced(graph, bounds, 0, 1, dim_of(graph, bounds, 0)))
    places = graph.make_node('Add', [starts, graph.make_node('Unsqueeze', [iota(graph, 0, max_lengths[0], 1), consts(graph, [0], int64)])])
    inside = graph.make_node('Where', [graph.make_node('Less', [places, ends]), places, const(graph, dim_of(graph, values, 0), int64)])
    padding = filled(graph, [1, *shape_of(graph, values)[1:]], padding_value, dtype_of(graph, values))
    return graph.make_node('Gather', [graph.make_node('Concat', [values, padding], axis=0), inside], res.outputs, axis=0)


def aten__padded_dense_to_jagged_forward(graph: Graph, res: ResultSpec, dense: Result, offsets: Results, total_L: SymInt | None = None) -> Result:
    """aten::_padded_dense_to_jagged_forward(Tensor dense, Tensor[] offsets, SymInt? total_L=None) -> Tensor"""
    if len(offsets) != 1:
        graph.case = 1
        raise UnsupportedCase('aten::_padded_dense_to_jagged_forward: several jagged dimensions, which torch has on CUDA alone')
    graph.case = 2
    starts = sliced(graph, offsets[0], 0, 0, -1)
    lengths = graph.make_node('Sub', [sliced(graph, offsets[0], 0, 1, dim_of(graph, offsets[0], 0)), starts])
    places = cast(graph, iota(graph, 0, dim_of(graph, dense, 1), 1), dtype_of(graph, lengths))
    inside = graph.make_node('Less', [graph.make_node('Unsqueeze', [places, consts(graph, [0], int64)]), graph.make_node('Unsqueeze', [lengths, consts(graph, [1], int64)])])
    rows = reshape_to(graph, dense, [-1, *shape_of(graph, dense)[2:]])
    return graph.make_node('Compress', [rows, reshape_to(graph, inside, [-1])], res.outputs, axis=0)


def rule_aten__jagged_to_padded_dense_forward(graph: Graph, values: Result, offsets: Results, max_lengths: SymInts, padding_value: Float = 0.0) -> Rules:
    return ((dtype_or_none(graph, values), None),)


def rule_aten__padded_dense_to_jagged_forward(graph: Graph, dense: Result, offsets: Results, total_L: SymInt | None = None) -> Rules:
    return ((dtype_or_none(graph, dense), None),)
