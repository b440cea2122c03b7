"""Lower padding that ONNX's Pad lacks: circular padding, and padding of cropped edges.

torch's pads begin with the last axis: [left, right, top, bottom, ...].
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
    """Pad ``x`` with its own elements by torch's ``mode``, one axis at a time.

    ``mode`` is circular, replicate or reflect. As in torch, a negative pad crops before the other
    side is padded if the mode is circular, else after it; the padding may then copy elements that
    are cropped.
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
            index = op.Sub(last, op.Abs(index))  # reflect at 0, and count from the end
            index = op.Sub(last, op.Abs(index))  # reflect at the last element, and count back
        x = op.Gather(x, index, axis=axis)
    return x


def _pad_circular(graph: Graph, x: str, axis: int, before: SymInt, after: SymInt) -> str:
    """Pad one axis with elements of its other end, after cropping by negative pads."""
    op = OpBuilder(graph)
    size = dim_of(graph, x, axis)
    if is_static([before, after, size]):
        low, high = static([before, after])
        x = sliced(graph, x, axis, max(-low, 0), size + min(high, 0))
        kept_size = size + min(low, 0) + min(high, 0)
        parts = [sliced(graph, x, axis, kept_size - low, kept_size)] if low > 0 else []
        parts += [x] + ([sliced(graph, x, axis, 0, high)] if high > 0 else [])
        return graph.make_node("Concat", parts, axis=axis) if len(parts) > 1 else x
    cropped = -dims.min_of(before, 0)
    size = size - cropped + dims.min_of(after, 0)
    before, after = dims.max_of(before, 0), dims.max_of(after, 0)
    positions = iota(graph, -before, size + before + after, 1)
    index = op.Mod(positions, as_vec(graph, size))
    index = op.Add(index, as_vec(graph, cropped))
    return op.Gather(x, index, axis=axis)


def full_pads(rank: Int, axis: Int, before: SymInt, after: SymInt) -> SymInts:
    """Return the ONNX pads of all axes, nonzero only for ``axis``."""
    begins: list[SymInt] = [0] * rank
    ends: list[SymInt] = [0] * rank
    begins[axis], ends[axis] = before, after
    return [*begins, *ends]
