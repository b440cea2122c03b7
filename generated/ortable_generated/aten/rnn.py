# Generated from specs/aten/rnn.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.dtypes import float64, uint8
from ortable.errors import UnsupportedCase
from ortable.lowerings.recurrent import lower_gru, lower_lstm, one_layer_lstm, rnn_relu, rnn_tanh
from ortable.prelude.facts import differs, dtype_of, is_used
from ortable.prelude.metadata import dtype_or_none, shape_or_none

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Bool, Float, Int, Ints, Result, Results


def aten_gru_input(graph: Graph, res: ResultSpec, input: Result, hx: Result, params: Results, has_biases: Bool, num_layers: Int, dropout: Float, train: Bool, bidirectional: Bool, batch_first: Bool) -> Any:
    """aten::gru.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)"""
    if train and dropout > 0 and (num_layers > 1):
        graph.case = 1
        raise UnsupportedCase('aten::gru.input: dropout between layers draws random numbers that only torch can draw')
    if dtype_of(graph, input) == float64:
        graph.case = 2
        raise UnsupportedCase('aten::gru.input: recurrent networks in float64, for which ONNX Runtime has no kernel')
    graph.case = 3
    return lower_gru(graph, res, input=input, hx=hx, params=params, has_biases=has_biases, num_layers=num_layers, bidirectional=bidirectional, batch_first=batch_first)


def aten_lstm_input(graph: Graph, res: ResultSpec, input: Result, hx: Results, params: Results, has_biases: Bool, num_layers: Int, dropout: Float, train: Bool, bidirectional: Bool, batch_first: Bool) -> Any:
    """aten::lstm.input(Tensor input, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor, Tensor)"""
    if train and dropout > 0 and (num_layers > 1):
        graph.case = 1
        raise UnsupportedCase('aten::lstm.input: dropout between layers draws random numbers that only torch can draw')
    if dtype_of(graph, input) == float64:
        graph.case = 2
        raise UnsupportedCase('aten::lstm.input: recurrent networks in float64, for which ONNX Runtime has no kernel')
    graph.case = 3
    return lower_lstm(graph, res, input=input, hx=hx, params=params, has_biases=has_biases, num_layers=num_layers, bidirectional=bidirectional, batch_first=batch_first)


def aten_mkldnn_rnn_layer(graph: Graph, res: ResultSpec, input: Result, weight0: Result, weight1: Result, weight2: Result, weight3: Result, hx_: Result, cx_: Result, reverse: Bool, batch_sizes: Ints, mode: Int, hidden_size: Int, num_layers: Int, has_biases: Bool, bidirectional: Bool, batch_first: Bool, train: Bool) -> Any:
    """aten::mkldnn_rnn_layer(Tensor input, Tensor weight0, Tensor weight1, Tensor weight2, Tensor weight3, Tensor hx_, Tensor cx_, bool reverse, int[] batch_sizes, int mode, int hidden_size, int num_layers, bool has_biases, bool bidirectional, bool batch_first, bool train) -> (Tensor, Tensor, Tensor, Tensor)"""
    if differs(mode, 2) or differs(num_layers, 1) or bidirectional or batch_first or (len(batch_sizes) > 0):
        graph.case = 1
        raise UnsupportedCase("aten::mkldnn_rnn_layer: anything but one direction of one LSTM layer, the form in which torch's decomposition of lstm calls it")
    if train or is_used(res[3]):
        graph.case = 2
        raise UnsupportedCase('aten::mkldnn_rnn_layer: the workspace for the backward of oneDNN')
    graph.case = 3
    return one_layer_lstm(graph, res, input=input, weight0=weight0, weight1=weight1, weight2=weight2, weight3=weight3, hx_=hx_, cx_=cx_, reverse=reverse, has_biases=has_biases)


def aten_rnn_relu_input(graph: Graph, res: ResultSpec, input: Result, hx: Result, params: Results, has_biases: Bool, num_layers: Int, dropout: Float, train: Bool, bidirectional: Bool, batch_first: Bool) -> Any:
    """aten::rnn_relu.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)"""
    if train and dropout > 0 and (num_layers > 1):
        graph.case = 1
        raise UnsupportedCase('aten::rnn_relu.input: dropout between layers draws random numbers that only torch can draw')
    if dtype_of(graph, input) == float64:
        graph.case = 2
        raise UnsupportedCase('aten::rnn_relu.input: recurrent networks in float64, for which ONNX Runtime has no kernel')
    graph.case = 3
    return rnn_relu(graph, res, input=input, hx=hx, params=params, has_biases=has_biases, num_layers=num_layers, bidirectional=bidirectional, batch_first=batch_first)


def aten_rnn_tanh_input(graph: Graph, res: ResultSpec, input: Result, hx: Result, params: Results, has_biases: Bool, num_layers: Int, dropout: Float, train: Bool, bidirectional: Bool, batch_first: Bool) -> Any:
    """aten::rnn_tanh.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)"""
    if train and dropout > 0 and (num_layers > 1):
        graph.case = 1
        raise UnsupportedCase('aten::rnn_tanh.input: dropout between layers draws random numbers that only torch can draw')
    if dtype_of(graph, input) == float64:
        graph.case = 2
        raise UnsupportedCase('aten::rnn_tanh.input: recurrent networks in float64, for which ONNX Runtime has no kernel')
    graph.case = 3
    return rnn_tanh(graph, res, input=input, hx=hx, params=params, has_biases=has_biases, num_layers=num_layers, bidirectional=bidirectional, batch_first=batch_first)


def rule_aten_gru_input(graph: Graph, input: Result, hx: Result, params: Results, has_biases: Bool, num_layers: Int, dropout: Float, train: Bool, bidirectional: Bool, batch_first: Bool) -> Rules:
    return ((dtype_or_none(graph, input), None), (dtype_or_none(graph, input), shape_or_none(graph, hx)),)


def rule_aten_lstm_input(graph: Graph, input: Result, hx: Results, params: Results, has_biases: Bool, num_layers: Int, dropout: Float, train: Bool, bidirectional: Bool, batch_first: Bool) -> Rules:
    return ((dtype_or_none(graph, input), None), (dtype_or_none(graph, input), shape_or_none(graph, hx[0])), (dtype_or_none(graph, input), shape_or_none(graph, hx[1])),)


def rule_aten_mkldnn_rnn_layer(graph: Graph, input: Result, weight0: Result, weight1: Result, weight2: Result, weight3: Result, hx_: Result, cx_: Result, reverse: Bool, batch_sizes: Ints, mode: Int, hidden_size: Int, num_layers: Int, has_biases: Bool, bidirectional: Bool, batch_first: Bool, train: Bool) -> Rules:
    return ((dtype_or_none(graph, input), None), (dtype_or_none(graph, input), shape_or_none(graph, hx_)), (dtype_or_none(graph, input), shape_or_none(graph, cx_)), (uint8, None),)


def rule_aten_rnn_relu_input(graph: Graph, input: Result, hx: Result, params: Results, has_biases: Bool, num_layers: Int, dropout: Float, train: Bool, bidirectional: Bool, batch_first: Bool) -> Rules:
    return ((dtype_or_none(graph, input), None), (dtype_or_none(graph, input), shape_or_none(graph, hx)),)


def rule_aten_rnn_tanh_input(graph: Graph, input: Result, hx: Result, params: Results, has_biases: Bool, num_layers: Int, dropout: Float, train: Bool, bidirectional: Bool, batch_first: Bool) -> Rules:
    return ((dtype_or_none(graph, input), None), (dtype_or_none(graph, input), shape_or_none(graph, hx)),)
