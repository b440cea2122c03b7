"""Lower recurrent networks to ONNX's LSTM, GRU and RNN, one node for each layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ortable import dims, dtypes
from ortable.dims import Dim
from ortable.ir import Graph, ResultSpec
from ortable.prelude.facts import (
    SymInt,
    dim_of,
    shape_of,
    static,
)
from ortable.prelude.op_builder import OpBuilder
from ortable.prelude.pointwise import const_like
from ortable.prelude.shapes import sliced
from ortable.prelude.values import as_vec, cast, consts, reshape_to, squeezed, unsqueezed

from .recurrent_nan import Padding, RecurrentLayer, propagate_nan

__all__ = []


# Gate order of torch: input, forget, cell, output. Gate order of ONNX: input, output, forget, cell.
_LSTM_GATES = (0, 3, 1, 2)

# Gate order of torch: reset, update, new. Gate order of ONNX: update, reset, hidden.
_GRU_GATES = (1, 0, 2)

# Operator, order of the gates and attributes, by torch's name. For gru, torch resets after the
# product with the hidden state.
_NETWORKS: dict[str, tuple[str, tuple[int, ...], dict[str, Any]]] = {
    "lstm": ("LSTM", _LSTM_GATES, {}),
    "gru": ("GRU", _GRU_GATES, {"linear_before_reset": 1}),
    "rnn_tanh": ("RNN", (0,), {"activations": ["Tanh"]}),
    "rnn_relu": ("RNN", (0,), {"activations": ["Relu"]}),
}


def lower_lstm(
    graph: Graph,
    res: ResultSpec,
    input: str,
    hx: Sequence[str],
    params: Sequence[str],
    has_biases: bool,
    num_layers: int,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[str, str, str]:
    """Lower aten::lstm.input.

    ``hx`` holds h_0 and c_0. ``params`` holds, for each layer and direction, w_ih and w_hh, then
    b_ih and b_hh if ``has_biases``, then w_hr if the hidden state is projected.

    Returns:
        output [T, N, D*H] (or [N, T, D*H]), h_n [L*D, N, H] and c_n [L*D, N, H]. With projections,
        the first two have the projected size P in place of H.
    """
    network = _make_network("lstm", has_biases, num_layers, bidirectional, batch_first)
    output, h_n, c_n = _run_network(graph, network, input, hx, params)
    return output, h_n, c_n


def one_layer_lstm(
    graph: Graph,
    res: ResultSpec,
    input: str,
    weight0: str,
    weight1: str,
    weight2: str,
    weight3: str,
    hx_: str,
    cx_: str,
    reverse: bool,
    has_biases: bool,
) -> tuple[str, str, str, None]:
    """Lower aten::mkldnn_rnn_layer, one direction of one LSTM layer.

    torch's decomposition of lstm may pass states [N, H] instead of [1, N, H]. The fourth result, a
    workspace for the backward, is None, because inference does not use it.

    Returns:
        output [T, N, H], h_n and c_n in the shape of the states, and None.
    """
    direction = "reverse" if reverse else "forward"
    network = _Network("LSTM", _LSTM_GATES, has_biases, 1, False, False, {"direction": direction})
    params = [weight0, weight1, weight2, weight3] if has_biases else [weight0, weight1]
    is_unstacked = graph.get_rank(hx_) == 2
    states = [unsqueezed(graph, state, [0]) if is_unstacked else state for state in (hx_, cx_)]
    output, *last_states = _run_layers(graph, network, input, states, params)
    h_n, c_n = (squeezed(graph, state, [0]) if is_unstacked else state for state in last_states)
    return output, h_n, c_n, None


def lower_gru(
    graph: Graph,
    res: ResultSpec,
    input: str,
    hx: str,
    params: Sequence[str],
    has_biases: bool,
    num_layers: int,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[str, str]:
    """Lower aten::gru.input: return output and h_n."""
    network = _make_network("gru", has_biases, num_layers, bidirectional, batch_first)
    output, h_n = _run_network(graph, network, input, [hx], params)
    return output, h_n


def rnn_tanh(
    graph: Graph,
    res: ResultSpec,
    input: str,
    hx: str,
    params: Sequence[str],
    has_biases: bool,
    num_layers: int,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[str, str]:
    """Lower aten::rnn_tanh.input: return output and h_n."""
    network = _make_network("rnn_tanh", has_biases, num_layers, bidirectional, batch_first)
    output, h_n = _run_network(graph, network, input, [hx], params)
    return output, h_n


def rnn_relu(
    graph: Graph,
    res: ResultSpec,
    input: str,
    hx: str,
    params: Sequence[str],
    has_biases: bool,
    num_layers: int,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[str, str]:
    """Lower aten::rnn_relu.input: return output and h_n."""
    network = _make_network("rnn_relu", has_biases, num_layers, bidirectional, batch_first)
    output, h_n = _run_network(graph, network, input, [hx], params)
    return output, h_n


def run_padded_network(
    graph: Graph,
    name: str,
    input: str,
    states: Sequence[str],
    params: Sequence[str],
    has_biases: bool,
    num_layers: int,
    bidirectional: bool,
    padding: Padding,
) -> list[str]:
    """Run a network over padded sequences [T, N, I]: return the output and the last states.

    ``name`` is lstm, gru, rnn_tanh or rnn_relu. Rows behind the end of a sequence are undefined.
    """
    network = _make_network(name, has_biases, num_layers, bidirectional, False)
    return _run_network(graph, replace(network, padding=padding), input, states, params)


@dataclass(frozen=True)
class _Network:
    """The settings that all layers share."""

    op_type: str
    gates: tuple[int, ...]
    has_biases: bool
    num_layers: int
    bidirectional: bool
    batch_first: bool
    attributes: dict[str, Any] = field(default_factory=dict)
    padding: Padding | None = None

    @property
    def direction_count(self) -> int:
        return 2 if self.bidirectional else 1

    def sequence_lens(self, graph: Graph) -> str | None:
        """Return ONNX's input of this name."""
        return None if self.padding is None else cast(graph, self.padding.lengths, dtypes.int32)


def _make_network(
    name: str, has_biases: bool, num_layers: int, bidirectional: bool, batch_first: bool
) -> _Network:
    op_type, gates, attributes = _NETWORKS[name]
    if "activations" in attributes:
        attributes = {"activations": attributes["activations"] * (2 if bidirectional else 1)}
    return _Network(op_type, gates, has_biases, num_layers, bidirectional, batch_first, attributes)


def _run_network(
    graph: Graph, network: _Network, input: str, states: Sequence[str], params: Sequence[str]
) -> list[str]:
    """Run the network; the hidden state of an LSTM is projected if it is narrower than the cell."""
    if len(states) == 2 and dim_of(graph, states[0], -1) != dim_of(graph, states[1], -1):
        return list(_run_projected_lstm(graph, network, input, states, params))
    return _run_layers(graph, network, input, states, params)


def _run_layers(
    graph: Graph, network: _Network, input: str, states: Sequence[str], params: Sequence[str]
) -> list[str]:
    """Run the stacked layers; return [output, h_n], and c_n of an LSTM."""
    op = OpBuilder(graph)
    per_direction = 4 if network.has_biases else 2
    directions = network.direction_count
    hidden = static(dim_of(graph, params[1], 1))
    x = op.Transpose(input, perm=[1, 0, 2]) if network.batch_first else input
    batch = dim_of(graph, x, 1)
    if network.padding is None:  # torch packs no empty batch
        x, *states = _pad_empty_batch(graph, batch, [x, *states])
    starts = [_split_states(graph, state, network.num_layers, directions) for state in states]
    lengths = network.sequence_lens(graph)
    last_states: list[list[str]] = [[] for _ in states]
    for layer in range(network.num_layers):
        offset = layer * directions * per_direction
        weights = params[offset : offset + directions * per_direction]
        tensors = _onnx_weights(graph, weights, per_direction, directions, hidden, network.gates)
        results = graph.make_node(
            network.op_type,
            [x, *tensors, lengths, *(start[layer] for start in starts)],
            1 + len(states),
            hidden_size=hidden,
            **{"direction": "bidirectional" if network.bidirectional else "forward"}
            | network.attributes,
        )
        layer_states = [start[layer] for start in starts]
        is_backward = (network.attributes.get("direction") == "reverse", True)[:directions]
        operands = RecurrentLayer(
            x, tensors, layer_states, len(network.gates), hidden, is_backward, None, network.padding
        )
        results = propagate_nan(graph, operands, results)
        x = _join_directions(graph, results[0], directions, hidden)
        for collected, state in zip(last_states, results[1:], strict=True):
            collected.append(state)
    final_states = [
        value[0] if len(value) == 1 else graph.make_node("Concat", value, axis=0)
        for value in last_states
    ]
    x, *final_states = (sliced(graph, value, 1, 0, batch) for value in (x, *final_states))
    if network.batch_first:
        x = op.Transpose(x, perm=[1, 0, 2])
    return [x, *final_states]


def _pad_empty_batch(graph: Graph, batch: SymInt, tensors: Sequence[str]) -> list[str]:
    """Pad a possibly empty batch (axis 1) to one row; GRU and LSTM crash without rows."""
    padding = dims.max_of(1 - batch, 0)
    if isinstance(padding, int) and padding == 0:
        return list(tensors)
    pads = as_vec(graph, [0, 0, 0, 0, padding, 0])
    return [OpBuilder(graph).Pad(tensor, pads) for tensor in tensors]


def _run_projected_lstm(
    graph: Graph, network: _Network, input: str, hx: Sequence[str], params: Sequence[str]
) -> tuple[str, str, str]:
    """Run an LSTM with a projected hidden state and return output, h_n and c_n.

    The hidden state is h = W_hr m with m = o tanh(c). ONNX's LSTM has no projection. Its recurrent
    state is therefore m, with the recurrent weight W_hh W_hr, because the gates read h only in the
    product W_hh h. One product with W_hr projects the outputs of all steps. The initial h has no m.
    It is an additional input of the first step, beside x, with the weight W_hh.
    """
    op = OpBuilder(graph)
    per_direction = 5 if network.has_biases else 3
    directions = network.direction_count
    x = op.Transpose(input, perm=[1, 0, 2]) if network.batch_first else input
    batch = dim_of(graph, x, 1)
    if network.padding is None:
        x, *hx = _pad_empty_batch(graph, batch, [x, *hx])
    starts = [_split_states(graph, state, network.num_layers * directions, 1) for state in hx]
    last_states: list[list[str]] = [[], []]
    for layer in range(network.num_layers):
        outputs = []
        for direction in range(directions):
            index = layer * directions + direction
            weights = params[index * per_direction : (index + 1) * per_direction]
            start = starts[0][index], starts[1][index]
            output, *states = _run_projected_direction(graph, network, x, start, weights, direction)
            outputs.append(output)
            for collected, state in zip(last_states, states, strict=True):
                collected.append(state)
        x = outputs[0] if directions == 1 else graph.make_node("Concat", outputs, axis=2)
    final_states = [
        value[0] if len(value) == 1 else graph.make_node("Concat", value, axis=0)
        for value in last_states
    ]
    x, h_n, c_n = (sliced(graph, value, 1, 0, batch) for value in (x, *final_states))
    if network.batch_first:
        x = op.Transpose(x, perm=[1, 0, 2])
    return x, h_n, c_n


def _run_projected_direction(
    graph: Graph,
    network: _Network,
    x: str,
    start: tuple[str, str],
    weights: Sequence[str],
    direction: int,
) -> tuple[str, str, str]:
    """Run one direction (1 is backward) of one layer.

    Return the output [T, N, P], h_n [1, N, P] and c_n [1, N, H].
    """
    op = OpBuilder(graph)
    w_ih, w_hh, *biases, w_hr = weights
    hidden = static(dim_of(graph, w_hr, 1))
    padded_input = op.Concat(x, _start_rows(graph, network, x, start[0], direction), axis=2)
    recurrent_weight = op.MatMul(w_hh, w_hr)
    tensors = _onnx_weights(
        graph,
        [
            op.Concat(w_ih, w_hh, axis=1),
            _replace_nan(graph, recurrent_weight),
            *biases,
        ],
        len(weights) - 1,
        1,
        hidden,
        network.gates,
    )
    result = graph.make_node(
        network.op_type,
        [padded_input, *tensors, network.sequence_lens(graph), None, start[1]],
        3,
        hidden_size=hidden,
        direction="reverse" if direction else "forward",
    )
    layer = RecurrentLayer(
        x,
        [tensors[0], None, tensors[2]],
        start,
        len(network.gates),
        hidden,
        (direction == 1,),
        _stack_tensors(graph, [recurrent_weight]),
        network.padding,
    )
    result = propagate_nan(graph, layer, result)
    projection = op.Transpose(w_hr, perm=[1, 0])
    output = op.Squeeze(result[0], consts(graph, [1], dtypes.int64))
    h_n = op.MatMul(result[1], projection)
    return op.MatMul(output, projection), h_n, result[2]


def _start_rows(graph: Graph, network: _Network, x: str, state: str, direction: int) -> str:
    """Return rows [T, N, P] that have the state [1, N, P] at the first step, and 0 at others."""
    op = OpBuilder(graph)
    if direction and network.padding is not None:  # the first step is the end of the sequence
        is_first = unsqueezed(graph, network.padding.last_steps(graph), [2])
        return str(op.Where(is_first, state, const_like(graph, 0, state)))
    step_padding = dim_of(graph, x, 0) - 1
    begin_pad, end_pad = (step_padding, 0) if direction else (0, step_padding)
    return str(op.Pad(state, as_vec(graph, [begin_pad, 0, 0, end_pad, 0, 0])))


def _replace_nan(graph: Graph, weight: str) -> str:
    """Replace NaN by 0: the kernel multiplies the weight by a zero state first, unlike torch."""
    op = OpBuilder(graph)
    zero = const_like(graph, 0, weight)
    return op.Where(op.IsNaN(weight), zero, weight)


def _split_states(graph: Graph, state: str, layers: int, directions: int) -> list[str]:
    if layers == 1:
        return [state]
    sizes = consts(graph, [directions] * layers, dtypes.int64)
    return list(OpBuilder(graph).Split(state, sizes, outputs=layers, axis=0))


def _onnx_weights(
    graph: Graph,
    weights: Sequence[str],
    per_direction: int,
    directions: int,
    hidden: int,
    gates: Sequence[int],
) -> list[str | None]:
    """Return W [D, G*H, I], R [D, G*H, H] and B [D, 2*G*H] or None, with gates in ONNX's order."""
    parts: list[list[str]] = [[], [], []]
    for direction in range(directions):
        reordered = [
            _reorder_gates(graph, weight, hidden, gates)
            for weight in weights[direction * per_direction : (direction + 1) * per_direction]
        ]
        parts[0].append(reordered[0])
        parts[1].append(reordered[1])
        if per_direction == 4:
            parts[2].append(graph.make_node("Concat", reordered[2:], axis=0))
    return [_stack_tensors(graph, matrices) if matrices else None for matrices in parts]


def _reorder_gates(graph: Graph, weight: str, hidden: int, gates: Sequence[int]) -> str:
    if len(gates) == 1:
        return weight
    sizes = consts(graph, [hidden] * len(gates), dtypes.int64)
    blocks = OpBuilder(graph).Split(weight, sizes, outputs=len(gates), axis=0)
    return graph.make_node("Concat", [blocks[gate] for gate in gates], axis=0)


def _stack_tensors(graph: Graph, tensors: Sequence[str]) -> str:
    rows = [
        OpBuilder(graph).Unsqueeze(tensor, consts(graph, [0], dtypes.int64)) for tensor in tensors
    ]
    return rows[0] if len(rows) == 1 else graph.make_node("Concat", rows, axis=0)


def _join_directions(graph: Graph, output: str, directions: int, hidden: Dim) -> str:
    """Reshape [T, D, N, H] to [T, N, D*H]."""
    op = OpBuilder(graph)
    if directions == 1:
        return op.Squeeze(output, consts(graph, [1], dtypes.int64))
    steps, _, batch, _ = shape_of(graph, output)
    transposed = op.Transpose(output, perm=[0, 2, 1, 3])
    if isinstance(steps, int) and isinstance(batch, int):
        return reshape_to(graph, transposed, [steps, batch, hidden * directions])
    return op.Reshape(transposed, as_vec(graph, [0, 0, -1]))
