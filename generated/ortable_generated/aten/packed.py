# Generated from specs/aten/packed.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.dtypes import float64, int64
from ortable.errors import UnsupportedCase
from ortable.lowerings.packed_rows import pack_sequences, packed_network, pad_sequences
from ortable.prelude.facts import dtype_of
from ortable.prelude.metadata import dtype_or_none, shape_or_none

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Bool, Float, Int, Result, Results, Scalar, SymInt


def ortable_packed_gru(graph: Graph, res: ResultSpec, data: Result, batch_sizes: Result, hx: Result, params: Results, has_biases: Bool, num_layers: Int, dropout: Float, train: Bool, bidirectional: Bool) -> Any:
    """ortable_packed::gru(Tensor data, Tensor batch_sizes, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional) -> (Tensor, Tensor)"""
    if train and dropout > 0 and (num_layers > 1):
        graph.case = 1
        raise UnsupportedCase('ortable_packed::gru: dropout between layers draws random numbers that only torch can draw')
    if dtype_of(graph, data) == float64:
        graph.case = 2
        raise UnsupportedCase('ortable_packed::gru: recurrent networks in float64, for which ONNX Runtime has no kernel')
    graph.case = 3
    results = packed_network(graph, 'gru', data, batch_sizes, [hx], params, has_biases, num_layers, bidirectional)
    return (results[0], results[1])


def ortable_packed_lstm(graph: Graph, res: ResultSpec, data: Result, batch_sizes: Result, hx: Results, params: Results, has_biases: Bool, num_layers: Int, dropout: Float, train: Bool, bidirectional: Bool) -> Any:
    """ortable_packed::lstm(Tensor data, Tensor batch_sizes, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional) -> (Tensor, Tensor, Tensor)"""
    if train and dropout > 0 and (num_layers > 1):
        graph.case = 1
        raise UnsupportedCase('ortable_packed::lstm: dropout between layers draws random numbers that only torch can draw')
    if dtype_of(graph, data) == float64:
        graph.case = 2
        raise UnsupportedCase('ortable_packed::lstm: recurrent networks in float64, for which ONNX Runtime has no kernel')
    graph.case = 3
    results = packed_network(graph, 'lstm', data, batch_sizes, hx, params, has_biases, num_layers, bidirectional)
    return (results[0], results[1], results[2])


def ortable_packed_pack(graph: Graph, res: ResultSpec, input: Result, lengths: Result, batch_first: Bool) -> Any:
    """ortable_packed::pack(Tensor input, Tensor lengths, bool batch_first) -> (Tensor, Tensor)"""
    return pack_sequences(graph, res, input=input, lengths=lengths, batch_first=batch_first)


def ortable_packed_pad(graph: Graph, res: ResultSpec, data: Result, batch_sizes: Result, batch: SymInt, batch_first: Bool, padding_value: Scalar, total_length: SymInt) -> Any:
    """ortable_packed::pad(Tensor data, Tensor batch_sizes, SymInt batch, bool batch_first, Scalar padding_value, SymInt total_length) -> (Tensor, Tensor)"""
    return pad_sequences(graph, res, data=data, batch_sizes=batch_sizes, batch=batch, batch_first=batch_first, padding_value=padding_value, total_length=total_length)


def ortable_packed_rnn_relu(graph: Graph, res: ResultSpec, data: Result, batch_sizes: Result, hx: Result, params: Results, has_biases: Bool, num_layers: Int, dropout: Float, train: Bool, bidirectional: Bool) -> Any:
    """ortable_packed::rnn_relu(Tensor data, Tensor batch_sizes, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional) -> (Tensor, Tensor)"""
    if train and dropout > 0 and (num_layers > 1):
        graph.case = 1
        raise UnsupportedCase('ortable_packed::rnn_relu: dropout between layers draws random numbers that only torch can draw')
    if dtype_of(graph, data) == float64:
        graph.case = 2
        raise UnsupportedCase('ortable_packed::rnn_relu: recurrent networks in float64, for which ONNX Runtime has no kernel')
    graph.case = 3
    results = packed_network(graph, 'rnn_relu', data, batch_sizes, [hx], params, has_biases, num_layers, bidirectional)
    return (results[0], results[1])


def ortable_packed_rnn_tanh(graph: Graph, res: ResultSpec, data: Result, batch_sizes: Result, hx: Result, params: Results, has_biases: Bool, num_layers: Int, dropout: Float, train: Bool, bidirectional: Bool) -> Any:
    """ortable_packed::rnn_tanh(Tensor data, Tensor batch_sizes, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional) -> (Tensor, Tensor)"""
    if train and dropout > 0 and (num_layers > 1):
        graph.case = 1
        raise UnsupportedCase('ortable_packed::rnn_tanh: dropout between layers draws random numbers that only torch can draw')
    if dtype_of(graph, data) == float64:
        graph.case = 2
        raise UnsupportedCase('ortable_packed::rnn_tanh: recurrent networks in float64, for which ONNX Runtime has no kernel')
    graph.case = 3
    results = packed_network(graph, 'rnn_tanh', data, batch_sizes, [hx], params, has_biases, num_layers, bidirectional)
    return (results[0], results[1])


def rule_ortable_packed_gru(graph: Graph, data: Result, batch_sizes: Result, hx: Result, params: Results, has_biases: Bool, num_layers: Int, dropout: Float, train: Bool, bidirectional: Bool) -> Rules:
    return ((dtype_or_none(graph, data), None), (dtype_or_none(graph, data), shape_or_none(graph, hx)),)


def rule_ortable_packed_lstm(graph: Graph, data: Result, batch_sizes: Result, hx: Results, params: Results, has_biases: Bool, num_layers: Int, dropout: Float, train: Bool, bidirectional: Bool) -> Rules:
    return ((dtype_or_none(graph, data), None), (dtype_or_none(graph, data), shape_or_none(graph, hx[0])), (dtype_or_none(graph, data), shape_or_none(graph, hx[1])),)


def rule_ortable_packed_pack(graph: Graph, input: Result, lengths: Result, batch_first: Bool) -> Rules:
    return ((dtype_or_none(graph, input), None), (int64, None),)


def rule_ortable_packed_pad(graph: Graph, data: Result, batch_sizes: Result, batch: SymInt, batch_first: Bool, padding_value: Scalar, total_length: SymInt) -> Rules:
    return ((dtype_or_none(graph, data), None), (int64, None),)


def rule_ortable_packed_rnn_relu(graph: Graph, data: Result, batch_sizes: Result, hx: Result, params: Results, has_biases: Bool, num_layers: Int, dropout: Float, train: Bool, bidirectional: Bool) -> Rules:
    return ((dtype_or_none(graph, data), None), (dtype_or_none(graph, data), shape_or_none(graph, hx)),)


def rule_ortable_packed_rnn_tanh(graph: Graph, data: Result, batch_sizes: Result, hx: Result, params: Results, has_biases: Bool, num_layers: Int, dropout: Float, train: Bool, bidirectional: Bool) -> Rules:
    return ((dtype_or_none(graph, data), None), (dtype_or_none(graph, data), shape_or_none(graph, hx)),)
