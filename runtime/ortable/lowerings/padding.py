"""Padding that ONNX's Pad lacks: circular, with edges cropped, of one dimension. torch's pads begin
with the last axis.
"""

from __future__ import annotations

from ortable import dims
from ortable.ir import Graph
from ortable.prelude.facts import (
    Int,
    Result,
    Str,
    SymInt,
    SymInts,
    dim_of,
    is_static,
    rank_of,
    static,
)
from ortable.prelude.op_builder import OpBuilder
from ortable.prelude.shapes import iota, sliced
from ortable.prelude.values import as_scalar, as_vec

__all__ = [
    "full_pads",
    "gathered_pad",
]


def gathered_pad(graph: Graph, x: Result, pads: SymInts, mode: Str) -> Result:
    """Pad ``x`` with its own elements by torch's ``mode``, an axis at a time, last axis first in
    ``pads``.

    A negative pad crops: before the padding where the mode is circular, otherwise after the other
    side has read the whole axis, as in torch.
    """
    for from_end in range(len(pads) // 2):
        before, after = pads[2 * from_end], pads[2 * from_end + 1]
        axis = rank_of(graph, x) - 1 - from_end
        size = dim_of(graph, x, axis)
        if mode == "circular":
            x = _pad_circular(graph, x, axis, before, after)
            continue
        if mode == "reflect" and is_static([before, after]) and before == 0 and after == 0:
            continue
        op, last = OpBuilder(graph), as_scalar(graph, size - 1)
        index = iota(graph, -before, size + before + after, 1)
        if mode == "replicate":
            index = op.Min(op.Max(index, 0), last)
        else:
            index = op.Sub(last, op.Abs(index))
            index = op.Sub(last, op.Abs(index))
        x = op.Gather(x, index, axis=axis)
    return x


def _pad_circular(graph: Graph, x: str, axis: int, before: SymInt, after: SymInt) -> str:
    """Pad one axis with elements of its other end; torch rejects pads larger than the rest of the
    axis.
    """
    op = OpBuilder(graph)
    size = dim_of(graph, x, axis)
    if is_static([before, after, size]):
        low, high = static([before, after])
        x = sliced(graph, x, axis, max(-low, 0), size + min(high, 0))
        left = size + min(low, 0) + min(high, 0)
        ends = [sliced(graph, x, axis, left - low, left)] if low > 0 else []
        ends += [x] + ([sliced(graph, x, axis, 0, high)] if high > 0 else [])
        return graph.make_node("Concat", ends, axis=axis) if len(ends) > 1 else x
    cut = -dims.min_of(before, 0)
    size = size - cut + dims.min_of(after, 0)
    before, after = dims.max_of(before, 0), dims.max_of(after, 0)
    ramp = iota(graph, -before, size + before + after, 1)
    index = op.Mod(ramp, as_vec(graph, size))
    index = op.Add(index, as_vec(graph, cut))
    return op.Gather(x, index, axis=axis)


def full_pads(rank: Int, axis: Int, before: SymInt, after: SymInt) -> SymInts:
    """ONNX pads for every axis of a rank that pad one axis only."""
    begins: list[SymInt] = [0] * rank
    ends: list[SymInt] = [0] * rank
    begins[axis], ends[axis] = before, after
    return [*begins, *ends]
