"""Propagate NaN through LSTM, GRU and RNN, whose ONNX Runtime kernels lose it.

The activations of the kernels clip their input to a range, so NaN becomes finite, and a network
that has diverged looks healthy. `recurrent.py` calls `propagate_nan` after each layer. It adds
terms to the results that are 0, or NaN where torch's result is NaN. A row is an element of the
batch, and steps are counted in the direction of the layer. NaN in

- the input of a row at step t makes the row NaN from step t on,
- the hidden state of a row makes the row NaN at all steps,
- the cell state of a row makes the row NaN from the second step on (the kernel itself makes the
  units of the NaN cells NaN at the first step),
- the weights of a unit makes the unit NaN at the first step, and all units from the second on,
- a projection, which the first step does not read, makes all units NaN from the second step on.

ONNX Runtime folds the terms of constant weights when it creates a session.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from ortable import dtypes
from ortable.ir import Graph
from ortable.prelude.facts import dim_of
from ortable.prelude.op_builder import OpBuilder
from ortable.prelude.pointwise import const_like
from ortable.prelude.shapes import iota, sliced
from ortable.prelude.values import const, consts, squeezed, unsqueezed

_END = 2**63 - 1


@dataclass(frozen=True)
class Padding:
    """Where padded sequences end.

    ``mask`` is a bool [T, N], true for the steps of a sequence, and ``lengths`` int64 [N].
    """

    mask: str
    lengths: str

    def last_steps(self, graph: Graph) -> str:
        """Return a bool [T, N] that is true for the last step of each sequence."""
        op = OpBuilder(graph)
        steps = unsqueezed(graph, iota(graph, 0, dim_of(graph, self.mask, 0), 1), [1])
        is_last = op.Equal(steps, unsqueezed(graph, op.Sub(self.lengths, 1), [0]))
        graph.set_shape(is_last, graph.get_shape(self.mask))
        return str(is_last)


@dataclass(frozen=True)
class RecurrentLayer:
    """The operands of one ONNX layer.

    ``input`` is [T, N, I]; ``weights`` are [D, G*H, I], [D, G*H, H], and [D, 2*G*H] or None;
    ``states`` are [D, N, H]. ``backward`` holds, for each direction, whether it runs backward.
    ``later`` [D, G*H, H] holds weights that only steps after the first read, or None. ``padding``
    says where the sequences end, if they have different lengths.
    """

    input: str
    weights: Sequence[str | None]
    states: Sequence[str]
    gates: int
    hidden: int
    backward: tuple[bool, ...]
    later: str | None = None
    padding: Padding | None = None


def propagate_nan(graph: Graph, layer: RecurrentLayer, results: Sequence[str]) -> list[str]:
    """Add eager's NaN to ``results``: the outputs [T, D, N, H] and the last states [D, N, H]."""
    op = OpBuilder(graph)
    gates = _gate_nan_terms(graph, layer)
    units = op.ReduceSum(gates, consts(graph, [1], dtypes.int64), keepdims=1)
    unit_axis = consts(graph, [2], dtypes.int64)
    start, *cells = [_nan_terms(graph, state) for state in layer.states]
    # NaN in a cell or in the weights of a unit affects all units at later steps
    later = _add_all(graph, [op.ReduceSum(units, unit_axis, keepdims=1), *cells])
    if layer.later is not None:
        later_terms = [_nan_terms(graph, layer.later), consts(graph, [1], dtypes.int64)]
        later = _add_all(graph, [later, graph.make_node("ReduceSum", later_terms, keepdims=1)])
    steps, last = _step_nan_terms(graph, layer, start, later)
    outputs = [_add_all(graph, [results[0], steps, units])]
    for index, state in enumerate(results[1:]):
        unit_terms = units if index == 0 else _cell_nan_terms(graph, gates)
        outputs.append(_add_all(graph, [state, last, unit_terms]))
    return outputs


def _add_all(graph: Graph, parts: Sequence[str]) -> str:
    return reduce(lambda left, right: str(OpBuilder(graph).Add(left, right)), parts)


def _nan_terms(graph: Graph, x: str) -> str:
    """Return [..., 1]: NaN where 3-d ``x`` has a NaN along its last axis, else 0."""
    op = OpBuilder(graph)
    zero = const_like(graph, 0, x)
    last_axis = consts(graph, [2], dtypes.int64)
    return str(op.ReduceSum(op.Clip(x, zero, zero), last_axis, keepdims=1))  # Clip keeps NaN


def _gate_nan_terms(graph: Graph, layer: RecurrentLayer) -> str:
    """Return [D, G, H]: NaN for each gate of a unit that has NaN in its weights, else 0."""
    op, directions = OpBuilder(graph), len(layer.backward)
    sizes = [directions, layer.gates, layer.hidden]
    rows = [_nan_terms(graph, weight) for weight in layer.weights[:2] if weight is not None]
    result = op.Reshape(_add_all(graph, rows), consts(graph, sizes, dtypes.int64))
    bias = layer.weights[2]
    if bias is None:
        return str(result)
    zero = const_like(graph, 0, bias)
    pairs = op.Reshape(
        op.Clip(bias, zero, zero), consts(graph, [directions, 2, *sizes[1:]], dtypes.int64)
    )  # fmt: skip
    bias_terms = op.ReduceSum(pairs, consts(graph, [1], dtypes.int64), keepdims=0)
    return str(op.Add(result, bias_terms))


def _cell_nan_terms(graph: Graph, gates: str) -> str:
    """Return [D, 1, H]: the NaN terms of the gates that a cell reads, all but the output gate."""
    op = OpBuilder(graph)
    read_gates = op.Gather(gates, consts(graph, [0, 2, 3], dtypes.int64), axis=1)
    gate_axis = consts(graph, [1], dtypes.int64)
    return str(op.ReduceSum(read_gates, gate_axis, keepdims=1))


def _step_nan_terms(graph: Graph, layer: RecurrentLayer, start: str, later: str) -> tuple[str, str]:
    """Return the NaN terms of all steps [T, D, N, 1] and of the last step [D, N, 1].

    ``start`` counts from the first step on, ``later`` from the second. Steps behind the end of a
    sequence do not count, and their terms are undefined.
    """
    op, axis = OpBuilder(graph), const(graph, 0, dtypes.int64)
    input_terms = unsqueezed(graph, _nan_terms(graph, layer.input), [1])
    steps, last_terms = [], []
    for direction, backward in enumerate(layer.backward):
        direction_terms = [
            term if len(layer.backward) == 1 else sliced(graph, term, 0, direction, direction + 1)
            for term in (start, later)
        ]
        reverse = int(backward)
        sums = [
            op.CumSum(
                _keep_steps(graph, layer.padding, op.Add(input_terms, term)),
                axis,
                exclusive=exclusive,
                reverse=reverse,
            )
            for exclusive, term in enumerate(direction_terms)
        ]
        terms = op("Add", sums)
        steps.append(terms)
        if layer.padding is not None and not backward:
            is_last = unsqueezed(graph, layer.padding.last_steps(graph), [1, 3])
            terms = op.Where(is_last, terms, const_like(graph, 0, terms))
            first_axis = consts(graph, [0], dtypes.int64)
            last_terms.append(op.ReduceSum(terms, first_axis, keepdims=0))
            continue
        bounds = (0, 1) if backward else (-1, _END)
        last_terms.append(squeezed(graph, sliced(graph, terms, 0, *bounds), [0]))
    if len(steps) == 1:
        return str(steps[0]), str(last_terms[0])
    return str(op("Concat", steps, axis=1)), str(op("Concat", last_terms, axis=0))


def _keep_steps(graph: Graph, padding: Padding | None, terms: str) -> str:
    """Set terms [T, 1, N, 1] behind the ends of sequences to 0."""
    if padding is None:
        return terms
    mask = unsqueezed(graph, padding.mask, [1, 3])
    return str(OpBuilder(graph).Where(mask, terms, const_like(graph, 0, terms)))
