"""Propagate NaN through LSTM, GRU and RNN. ONNX Runtime's kernels lose it: their activations clip
their input to a range, so that NaN becomes finite, and a network that has diverged looks healthy.

`recurrent.py` calls this after each layer. The terms added to the results are 0, or NaN where torch
has it: from step t on, in the order of the direction, for a row of the batch whose input at t has
NaN; everywhere for a row whose state has it; for NaN in the weights of a unit, in this unit at the
first step, and everywhere from the second on; for NaN in a projection, which the first step does
not read, everywhere from the second on. Terms of constants are computed when a session starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from ortable import dtypes
from ortable.ir import Graph
from ortable.prelude.op_builder import OpBuilder
from ortable.prelude.pointwise import const_like
from ortable.prelude.shapes import sliced
from ortable.prelude.values import const, consts, squeezed, unsqueezed

_END = 2**63 - 1


@dataclass(frozen=True)
class RecurrentLayer:
    """The operands of one ONNX layer.

    ``input`` is [T, N, I], ``weights`` [D, G*H, I], [D, G*H, H], and [D, 2*G*H] or None, ``states``
    [D, N, H]; ``backward`` says which directions run backward, and ``later`` [D, G*H, H] holds
    weights that only steps after the first read, where these differ.
    """

    input: str
    weights: Sequence[str | None]
    states: Sequence[str]
    gates: int
    hidden: int
    backward: tuple[bool, ...]
    later: str | None = None


def propagate_nan(graph: Graph, layer: RecurrentLayer, results: Sequence[str]) -> list[str]:
    """Add eager's NaN to ``results``: all steps [T, D, N, H] and the last states [D, N, H]."""
    op = OpBuilder(graph)
    gates = _gate_traces(graph, layer)
    units = op.ReduceSum(gates, consts(graph, [1], dtypes.int64), keepdims=1)
    over = consts(graph, [2], dtypes.int64)
    start, *cells = [_nan_traces(graph, state) for state in layer.states]
    # a cell with NaN, which the kernel carries on in its own unit, and a unit spoil the next step
    later = _add_all(graph, [op.ReduceSum(units, over, keepdims=1), *cells])
    if layer.later is not None:
        rows = [_nan_traces(graph, layer.later), consts(graph, [1], dtypes.int64)]
        later = _add_all(graph, [later, graph.make_node("ReduceSum", rows, keepdims=1)])
    steps, last = _step_traces(graph, layer, start, later)
    result = [_add_all(graph, [results[0], steps, units])]
    for index, state in enumerate(results[1:]):
        own = units if index == 0 else _without_output_gate(graph, gates)
        result.append(_add_all(graph, [state, last, own]))
    return result


def _add_all(graph: Graph, parts: Sequence[str]) -> str:
    return reduce(lambda left, right: str(OpBuilder(graph).Add(left, right)), parts)


def _nan_traces(graph: Graph, x: str) -> str:
    """NaN where a row of the last of three axes has NaN, else 0; infinities are no NaN."""
    op = OpBuilder(graph)
    zero = const_like(graph, 0, x)
    over = consts(graph, [2], dtypes.int64)
    return str(op.ReduceSum(op.Clip(x, zero, zero), over, keepdims=1))


def _gate_traces(graph: Graph, layer: RecurrentLayer) -> str:
    """[D, G, H]: NaN for a gate of a unit that has NaN among its weights, else 0."""
    op, directions = OpBuilder(graph), len(layer.backward)
    sizes = [directions, layer.gates, layer.hidden]
    rows = [_nan_traces(graph, weight) for weight in layer.weights[:2] if weight is not None]
    result = op.Reshape(_add_all(graph, rows), consts(graph, sizes, dtypes.int64))
    bias = layer.weights[2]
    if bias is None:
        return str(result)
    zero = const_like(graph, 0, bias)
    pairs = op.Reshape(
        op.Clip(bias, zero, zero), consts(graph, [directions, 2, *sizes[1:]], dtypes.int64)
    )  # fmt: skip
    both = op.ReduceSum(pairs, consts(graph, [1], dtypes.int64), keepdims=0)
    return str(op.Add(result, both))


def _without_output_gate(graph: Graph, gates: str) -> str:
    """[D, 1, H]: a cell reads all gates of its own step but the output gate, the second one."""
    op = OpBuilder(graph)
    read_gates = op.Gather(gates, consts(graph, [0, 2, 3], dtypes.int64), axis=1)
    over = consts(graph, [1], dtypes.int64)
    return str(op.ReduceSum(read_gates, over, keepdims=1))


def _step_traces(graph: Graph, layer: RecurrentLayer, start: str, later: str) -> tuple[str, str]:
    """[T, D, N, 1] and, of the last step, [D, N, 1]: what input and states add to each row."""
    op, axis = OpBuilder(graph), const(graph, 0, dtypes.int64)
    seen = unsqueezed(graph, _nan_traces(graph, layer.input), [1])
    steps, ends = [], []
    for direction, backward in enumerate(layer.backward):
        own = [
            trace if len(layer.backward) == 1 else sliced(graph, trace, 0, direction, direction + 1)
            for trace in (start, later)
        ]
        turn = int(backward)
        summed = [
            op.CumSum(op.Add(seen, trace), axis, exclusive=exclusive, reverse=turn)
            for exclusive, trace in enumerate(own)
        ]
        result = op("Add", summed)
        steps.append(result)
        edges = (0, 1) if backward else (-1, _END)
        ends.append(squeezed(graph, sliced(graph, result, 0, *edges), [0]))
    if len(steps) == 1:
        return str(steps[0]), str(ends[0])
    return str(op("Concat", steps, axis=1)), str(op("Concat", ends, axis=0))
