# Generated from specs/aten/rnn.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.errors import UnsupportedCase
from ortable.known import known_dtype, known_shape
from ortable.lowerings.recurrent import lstm

if TYPE_CHECKING:
    from ortable.builder import GraphBuilder, Res
    from ortable.known import Rules
    from ortable.prelude import Bool, Float, Int, Result, Results


def aten_lstm_input(graph: GraphBuilder, res: Res, input: Result, hx: Results, params: Results, has_biases: Bool, num_layers: Int, dropout: Float, train: Bool, bidirectional: Bool, batch_first: Bool) -> Any:
    """aten::lstm.input(Tensor input, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor, Tensor)"""
    if train and dropout > 0 and (num_layers > 1):
        raise UnsupportedCase('aten::lstm.input: dropout between layers draws random numbers that only torch can draw')
    return lstm(graph, res, input=input, hx=hx, params=params, has_biases=has_biases, num_layers=num_layers, bidirectional=bidirectional, batch_first=batch_first)


def rule_aten_lstm_input(graph: GraphBuilder, input: Result, hx: Results, params: Results, has_biases: Bool, num_layers: Int, dropout: Float, train: Bool, bidirectional: Bool, batch_first: Bool) -> Rules:
    return ((known_dtype(graph, input), None), (known_dtype(graph, input), known_shape(graph, hx[0])), (known_dtype(graph, input), known_shape(graph, hx[1])),)
