# Generated from specs/aten/rnn_cells.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.dtypes import int64
from ortable.errors import UnsupportedCase
from ortable.prelude.facts import dim_of, dtype_of, is_float, is_used, rank_of, static
from ortable.prelude.matrices import projected
from ortable.prelude.metadata import dtype_or_none, shape_or_none
from ortable.prelude.pointwise import relu_of
from ortable.prelude.promotion import opmath
from ortable.prelude.values import cast, consts

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Result, Results


def aten__thnn_fused_gru_cell(graph: Graph, res: ResultSpec, input_gates: Result, hidden_gates: Result, hx: Result, input_bias: Result | None = None, hidden_bias: Result | None = None) -> Any:
    """aten::_thnn_fused_gru_cell(Tensor input_gates, Tensor hidden_gates, Tensor hx, Tensor? input_bias=None, Tensor? hidden_bias=None) -> (Tensor, Tensor)"""
    if not is_float(graph, input_gates):
        graph.case = 1
        raise UnsupportedCase('aten::_thnn_fused_gru_cell: gates that are no floats')
    # what torch chooses on CUDA; its second result is what the gradient needs
    graph.case = 2
    given, held = (opmath(graph, input_gates), opmath(graph, hidden_gates))
    x = given if input_bias is None else graph.make_node('Add', [given, opmath(graph, input_bias)])
    h = held if hidden_bias is None else graph.make_node('Add', [held, opmath(graph, hidden_bias)])
    x_reset, x_update, x_new = graph.make_node('Split', [x], 3, axis=1, num_outputs=3)
    h_reset, h_update, h_new = graph.make_node('Split', [h], 3, axis=1, num_outputs=3)
    reset, update = (graph.make_node('Sigmoid', [graph.make_node('Add', [x_reset, h_reset])]), graph.make_node('Sigmoid', [graph.make_node('Add', [x_update, h_update])]))
    new, before = (graph.make_node('Tanh', [graph.make_node('Add', [x_new, graph.make_node('Mul', [reset, h_new])])]), opmath(graph, hx))
    after = cast(graph, graph.make_node('Add', [new, graph.make_node('Mul', [update, graph.make_node('Sub', [before, new])])]), dtype_of(graph, hx))
    kept = graph.make_node('Concat', [reset, update, new, before, h_new], axis=1) if is_used(res[1]) else None
    return (after, cast(graph, kept, dtype_of(graph, res[1])) if kept is not None else None)


def aten__thnn_fused_lstm_cell(graph: Graph, res: ResultSpec, input_gates: Result, hidden_gates: Result, cx: Result, input_bias: Result | None = None, hidden_bias: Result | None = None) -> Any:
    """aten::_thnn_fused_lstm_cell(Tensor input_gates, Tensor hidden_gates, Tensor cx, Tensor? input_bias=None, Tensor? hidden_bias=None) -> (Tensor, Tensor, Tensor)"""
    if not is_float(graph, input_gates):
        graph.case = 1
        raise UnsupportedCase('aten::_thnn_fused_lstm_cell: gates that are no floats')
    # what torch chooses on CUDA; its third result is what the gradient needs
    graph.case = 2
    given = graph.make_node('Add', [opmath(graph, input_gates), opmath(graph, hidden_gates)])
    some = given if input_bias is None else graph.make_node('Add', [given, opmath(graph, input_bias)])
    gates = some if hidden_bias is None else graph.make_node('Add', [some, opmath(graph, hidden_bias)])
    i_part, f_part, g_part, o_part = graph.make_node('Split', [gates], 4, axis=1, num_outputs=4)
    i, f, g, o = (graph.make_node('Sigmoid', [i_part]), graph.make_node('Sigmoid', [f_part]), graph.make_node('Tanh', [g_part]), graph.make_node('Sigmoid', [o_part]))
    cell = graph.make_node('Add', [graph.make_node('Mul', [f, opmath(graph, cx)]), graph.make_node('Mul', [i, g])])
    after = cast(graph, graph.make_node('Mul', [o, graph.make_node('Tanh', [cell])]), dtype_of(graph, cx))
    kept = cast(graph, graph.make_node('Concat', [i, f, g, o], axis=1), dtype_of(graph, cx)) if is_used(res[2]) else None
    return (after, cast(graph, cell, dtype_of(graph, cx)), kept)


def aten_gru_cell(graph: Graph, res: ResultSpec, input: Result, hx: Result, w_ih: Result, w_hh: Result, b_ih: Result | None = None, b_hh: Result | None = None) -> Result:
    """aten::gru_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> Tensor"""
    axis, sizes = (rank_of(graph, hx) - 1, consts(graph, [static(dim_of(graph, hx, -1))] * 3, int64))
    reset, update, new = graph.make_node('Split', [projected(graph, input, w_ih, b_ih), sizes], 3, axis=axis)
    reset_h, update_h, new_h = graph.make_node('Split', [projected(graph, hx, w_hh, b_hh), sizes], 3, axis=axis)
    opened = graph.make_node('Sigmoid', [graph.make_node('Add', [reset, reset_h])])
    kept = graph.make_node('Sigmoid', [graph.make_node('Add', [update, update_h])])
    fresh = graph.make_node('Tanh', [graph.make_node('Add', [new, graph.make_node('Mul', [opened, new_h])])])
    return graph.make_node('Add', [graph.make_node('Mul', [graph.make_node('Sub', [hx, fresh]), kept]), fresh], res.outputs)


def aten_lstm_cell(graph: Graph, res: ResultSpec, input: Result, hx: Results, w_ih: Result, w_hh: Result, b_ih: Result | None = None, b_hh: Result | None = None) -> Any:
    """aten::lstm_cell(Tensor input, Tensor[] hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> (Tensor, Tensor)"""
    total = graph.make_node('Add', [projected(graph, input, w_ih, b_ih), projected(graph, hx[0], w_hh, b_hh)])
    sizes = consts(graph, [static(dim_of(graph, hx[0], -1))] * 4, int64)
    first, forget, cell, last = graph.make_node('Split', [total, sizes], 4, axis=rank_of(graph, total) - 1)
    kept = graph.make_node('Add', [graph.make_node('Mul', [graph.make_node('Sigmoid', [forget]), hx[1]]), graph.make_node('Mul', [graph.make_node('Sigmoid', [first]), graph.make_node('Tanh', [cell])])])
    return (graph.make_node('Mul', [graph.make_node('Sigmoid', [last]), graph.make_node('Tanh', [kept])]), kept)


def aten_rnn_relu_cell(graph: Graph, res: ResultSpec, input: Result, hx: Result, w_ih: Result, w_hh: Result, b_ih: Result | None = None, b_hh: Result | None = None) -> Result:
    """aten::rnn_relu_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> Tensor"""
    return relu_of(graph, graph.make_node('Add', [projected(graph, input, w_ih, b_ih), projected(graph, hx, w_hh, b_hh)]))


def aten_rnn_tanh_cell(graph: Graph, res: ResultSpec, input: Result, hx: Result, w_ih: Result, w_hh: Result, b_ih: Result | None = None, b_hh: Result | None = None) -> Result:
    """aten::rnn_tanh_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> Tensor"""
    if not is_float(graph, hx):
        graph.case = 1
        raise UnsupportedCase('aten::rnn_tanh_cell: states that are no floats')
    graph.case = 2
    return graph.make_node('Tanh', [graph.make_node('Add', [projected(graph, input, w_ih, b_ih), projected(graph, hx, w_hh, b_hh)])], res.outputs)


def rule_aten__thnn_fused_gru_cell(graph: Graph, input_gates: Result, hidden_gates: Result, hx: Result, input_bias: Result | None = None, hidden_bias: Result | None = None) -> Rules:
    return ((dtype_or_none(graph, hx), shape_or_none(graph, hx)), (dtype_or_none(graph, hx), None),)


def rule_aten__thnn_fused_lstm_cell(graph: Graph, input_gates: Result, hidden_gates: Result, cx: Result, input_bias: Result | None = None, hidden_bias: Result | None = None) -> Rules:
    return ((dtype_or_none(graph, cx), shape_or_none(graph, cx)), (dtype_or_none(graph, cx), shape_or_none(graph, cx)), (dtype_or_none(graph, input_gates), shape_or_none(graph, input_gates)),)


def rule_aten_gru_cell(graph: Graph, input: Result, hx: Result, w_ih: Result, w_hh: Result, b_ih: Result | None = None, b_hh: Result | None = None) -> Rules:
    return ((dtype_or_none(graph, hx), shape_or_none(graph, hx)),)


def rule_aten_lstm_cell(graph: Graph, input: Result, hx: Results, w_ih: Result, w_hh: Result, b_ih: Result | None = None, b_hh: Result | None = None) -> Rules:
    return ((dtype_or_none(graph, hx[0]), shape_or_none(graph, hx[0])), (dtype_or_none(graph, hx[1]), shape_or_none(graph, hx[1])),)


def rule_aten_rnn_relu_cell(graph: Graph, input: Result, hx: Result, w_ih: Result, w_hh: Result, b_ih: Result | None = None, b_hh: Result | None = None) -> Rules:
    return ((dtype_or_none(graph, hx), shape_or_none(graph, hx)),)


def rule_aten_rnn_tanh_cell(graph: Graph, input: Result, hx: Result, w_ih: Result, w_hh: Result, b_ih: Result | None = None, b_hh: Result | None = None) -> Rules:
    return ((dtype_or_none(graph, hx), shape_or_none(graph, hx)),)
