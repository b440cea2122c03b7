"""Lower packed sequences: the rows of padded sequences, step by step, without the padding.

The recurrent networks of ONNX run over padded sequences and take their lengths (`sequence_lens`).
Each lowering therefore pads the packed rows first; if they were packed in the same graph, it reads
the padded tensor from there. A ``mask`` [T, N] is true where a sequence has a step. Sequences are
sorted, the longest first.
"""

from __future__ import annotations

from typing import Any

from ortable import dims, dtypes
from ortable.ir import Graph, Node, ResultSpec
from ortable.prelude.facts import (
    Bool,
    Int,
    Result,
    Results,
    Str,
    SymInt,
    dim_of,
    rank_of,
    shape_of,
)
from ortable.prelude.op_builder import OpBuilder
from ortable.prelude.shapes import iota, sliced
from ortable.prelude.values import (
    as_scalar,
    as_vec,
    cast,
    const,
    consts,
    permuted,
    reshape_to,
    unsqueezed,
)

from .recurrent import run_padded_network
from .recurrent_nan import Padding

__all__ = ["packed_network"]

# Name of the node that fails in ONNX Runtime for invalid lengths; more nodes get a suffix.
LENGTHS_CHECK = "packed_sequence_lengths"


def pack_sequences(
    graph: Graph, res: ResultSpec, input: str, lengths: str, batch_first: bool
) -> tuple[str, str]:
    """Lower ortable_packed::pack: return the packed rows and the number of sequences per step."""
    x = _swap_leading_axes(graph, input) if batch_first else input
    steps = dim_of(graph, x, 0)
    checked = _check_lengths(graph, lengths, steps)
    counts = unsqueezed(graph, iota(graph, 0, steps, 1), [1])
    mask = OpBuilder(graph).Less(counts, unsqueezed(graph, checked, [0]))
    graph.set_shape(mask, (steps, dim_of(graph, lengths, 0)))
    sizes = _count_true(graph, mask, 1)
    longest = sliced(graph, checked, 0, 0, 1)
    start, axis = consts(graph, [0], dtypes.int64), consts(graph, [0], dtypes.int64)
    batch_sizes = graph.make_node("Slice", [sizes, start, longest, axis])
    return _pack_rows(graph, x, mask), batch_sizes


def pad_sequences(
    graph: Graph,
    res: ResultSpec,
    data: str,
    batch_sizes: str,
    batch: SymInt,
    batch_first: bool,
    padding_value: Any,
    total_length: SymInt,
) -> tuple[str, str]:
    """Lower ortable_packed::pad: return the padded sequences and their lengths."""
    op, dtype = OpBuilder(graph), graph.get_type(data)
    x, mask = _pad_rows(graph, data, batch_sizes, batch)
    value = const(graph, padding_value, dtype)
    x = op.Where(unsqueezed(graph, mask, list(range(2, rank_of(graph, x)))), x, value)
    steps = dim_of(graph, x, 0)
    x = sliced(graph, x, 0, 0, total_length)
    if not dims.always_equal(total_length, dim_of(graph, batch_sizes, 0)):
        missing = dims.max_of(total_length - steps, 0)
        if missing != 0:
            rest = [0] * (rank_of(graph, x) - 1)
            x = op.Pad(x, as_vec(graph, [0, *rest, missing, *rest]), value)
    if batch_first:
        x = _swap_leading_axes(graph, x)
    return x, _count_true(graph, mask, 0)


def packed_network(
    graph: Graph,
    name: Str,
    data: Result,
    batch_sizes: Result,
    states: Results,
    params: Results,
    has_biases: Bool,
    num_layers: Int,
    bidirectional: Bool,
) -> Results:
    """Run a recurrent network over packed rows: return the packed output and the last states."""
    x, mask = _pad_rows(graph, data, batch_sizes, dim_of(graph, states[0], 1))
    padding = Padding(mask, _count_true(graph, mask, 0))
    output, *last_states = run_padded_network(
        graph, name, x, states, params, has_biases, num_layers, bidirectional, padding
    )
    return _pack_rows(graph, output, mask), *last_states


def _check_lengths(graph: Graph, lengths: str, steps: SymInt) -> str:
    """Return ``lengths``, read by a Gather that fails for lengths that torch refuses.

    These are lengths below 1, above the number of steps, or above the length before them. The index
    of such a length is that behind the last one.
    """
    op, batch = OpBuilder(graph), dim_of(graph, lengths, 0)
    previous = op.Concat(as_vec(graph, steps), sliced(graph, lengths, 0, 0, -1), axis=0)
    is_wrong = op.Or(op.Greater(lengths, previous), op.Less(lengths, 1))
    index = op.Where(is_wrong, as_vec(graph, batch), iota(graph, 0, batch, 1))
    return graph.make_node("Gather", [lengths, index], name=LENGTHS_CHECK, axis=0)


def _pack_rows(graph: Graph, x: str, mask: str) -> str:
    """Return the rows of ``x`` [T, N, ...] where the mask is true."""
    rows = reshape_to(graph, x, [-1, *shape_of(graph, x)[2:]])
    return str(OpBuilder(graph).Compress(rows, reshape_to(graph, mask, [-1]), axis=0))


def _pad_rows(graph: Graph, data: str, batch_sizes: str, batch: SymInt) -> tuple[str, str]:
    """Return ``batch`` padded sequences [T, N, ...] and their mask.

    The rows behind the ends of sequences are undefined.
    """
    packed = _find_padded(graph, data, batch_sizes)
    if packed is not None:
        return packed
    op = OpBuilder(graph)
    numbers = iota(graph, 0, batch, 1)
    mask = op.Less(unsqueezed(graph, numbers, [0]), unsqueezed(graph, batch_sizes, [1]))
    starts = op.CumSum(batch_sizes, const(graph, 0, dtypes.int64), exclusive=1)
    index = op.Add(unsqueezed(graph, starts, [1]), unsqueezed(graph, numbers, [0]))
    steps = dim_of(graph, batch_sizes, 0)
    for outer in (mask, index):
        graph.set_shape(outer, (steps, batch))
    last = as_scalar(graph, dim_of(graph, data, 0) - 1)
    x = op.Gather(data, op.Min(index, last), axis=0)
    graph.set_shape(x, (steps, batch, *shape_of(graph, data)[1:]))
    return str(x), str(mask)


def _find_padded(graph: Graph, data: str, batch_sizes: str) -> tuple[str, str] | None:
    """Return the padded sequences and the mask that `_pack_rows` packed, if this graph did so."""
    compress = _find_producer(graph, data, "Compress")
    sliced_sizes = _find_producer(graph, batch_sizes, "Slice")
    if compress is None or sliced_sizes is None:
        return None
    rows = _find_producer(graph, compress.inputs[0], "Reshape")
    marks = _find_producer(graph, compress.inputs[1], "Reshape")
    total = _find_producer(graph, sliced_sizes.inputs[0], "ReduceSum")
    ones = None if total is None else _find_producer(graph, total.inputs[0], "Cast")
    if rows is None or marks is None or ones is None or marks.inputs[0] != ones.inputs[0]:
        return None
    return rows.inputs[0], marks.inputs[0]


def _find_producer(graph: Graph, name: str, op_type: str) -> Node | None:
    node = graph.values[name].producer
    return node if node is not None and node.op_type == op_type else None


def _count_true(graph: Graph, mask: str, axis: int) -> str:
    ones = cast(graph, mask, dtypes.int64)
    return str(OpBuilder(graph).ReduceSum(ones, consts(graph, [axis], dtypes.int64), keepdims=0))


def _swap_leading_axes(graph: Graph, x: str) -> str:
    return str(permuted(graph, x, [1, 0, *range(2, rank_of(graph, x))]))
