# Generated from specs/aten/rnn_cells.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.lowerings.recurrent import gate_parts
from ortable.prelude.matrices import projected
from ortable.prelude.metadata import dtype_or_none, shape_or_none
from ortable.prelude.pointwise import relu_of

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Result, Results


def aten_gru_cell(graph: Graph, res: ResultSpec, input: Result, hx: Result, w_ih: Result, w_hh: Result, b_ih: Result | None = None, b_hh: Result | None = None) -> Result:
    """aten::gru_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> Tensor"""
    reset, update, new = gate_parts(graph, projected(graph, input, w_ih, b_ih), 3)
    reset_h, update_h, new_h = gate_parts(graph, projected(graph, hx, w_hh, b_hh), 3)
    opened = graph.make_node('Sigmoid', [graph.make_node('Add', [reset, reset_h])])
    kept = graph.make_node('Sigmoid', [graph.make_node('Add', [update, update_h])])
    fresh = graph.make_node('Tanh', [graph.make_node('Add', [new, graph.make_node('Mul', [opened, new_h])])])
    return graph.make_node('Add', [graph.make_node('Mul', [graph.make_node('Sub', [hx, fresh]), kept]), fresh], res.outputs)


def aten_lstm_cell(graph: Graph, res: ResultSpec, input: Result, hx: Results, w_ih: Result, w_hh: Result, b_ih: Result | None = None, b_hh: Result | None = None) -> Any:
    """aten::lstm_cell(Tensor input, Tensor[] hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> (Tensor, Tensor)"""
    total = graph.make_node('Add', [projected(graph, input, w_ih, b_ih), projected(graph, hx[0], w_hh, b_hh)])
    first, forget, cell, last = gate_parts(graph, total, 4)
    kept = graph.make_node('Add', [graph.make_node('Mul', [graph.make_node('Sigmoid', [forget]), hx[1]]), graph.make_node('Mul', [graph.make_node('Sigmoid', [first]), graph.make_node('Tanh', [cell])])])
    return (graph.make_node('Mul', [graph.make_node('Sigmoid', [last]), graph.make_node('Tanh', [kept])]), kept)


def aten_rnn_relu_cell(graph: Graph, res: ResultSpec, input: Result, hx: Result, w_ih: Result, w_hh: Result, b_ih: Result | None = None, b_hh: Result | None = None) -> Result:
    """aten::rnn_relu_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> Tensor"""
    return relu_of(graph, graph.make_node('Add', [projected(graph, input, w_ih, b_ih), projected(graph, hx, w_hh, b_hh)]))


def aten_rnn_tanh_cell(graph: Graph, res: ResultSpec, input: Result, hx: Result, w_ih: Result, w_hh: Result, b_ih: Result | None = None, b_hh: Result | None = None) -> Result:
    """aten::rnn_tanh_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> Tensor"""
    return graph.make_node('Tanh', [graph.make_node('Add', [projected(graph, input, w_ih, b_ih), projected(graph, hx, w_hh, b_hh)])], res.outputs)


def rule_aten_gru_cell(graph: Graph, input: Result, hx: Result, w_ih: Result, w_hh: Result, b_ih: Result | None = None, b_hh: Result | None = None) -> Rules:
    return ((dtype_or_none(graph, hx), shape_or_none(graph, hx)),)


def rule_aten_lstm_cell(graph: Graph, input: Result, hx: Results, w_ih: Result, w_hh: Result, b_ih: Result | None = None, b_hh: Result | None = None) -> Rules:
    return ((dtype_or_none(graph, hx[0]), shape_or_none(graph, hx[0])), (dtype_or_none(graph, hx[1]), shape_or_none(graph, hx[1])),)


def rule_aten_rnn_relu_cell(graph: Graph, input: Result, hx: Result, w_ih: Result, w_hh: Result, b_ih: Result | None = None, b_hh: Result | None = None) -> Rules:
    return ((dtype_or_none(graph, hx), shape_or_none(graph, hx)),)


def rule_aten_rnn_tanh_cell(graph: Graph, input: Result, hx: Result, w_ih: Result, w_hh: Result, b_ih: Result | None = None, b_hh: Result | None = None) -> Rules:
    return ((dtype_or_none(graph, hx), shape_or_none(graph, hx)),)
