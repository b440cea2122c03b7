"""Padding that ONNX's Pad has not: circular, with edges cropped, of one dimension.

In come a tensor and torch's pads (last axis first), out goes the name of the result or pads for
ONNX. Called by generated converters of pads and of slices that are written."""

from __future__ import annotations

from ortable import dims, dtypes
from ortable.ir import Graph
from ortable.prelude.facts import (
    Int,
    Result,
    SymInt,
    SymInts,
    dim_of,
    is_static,
    rank_of,
    static,
)
from ortable.prelude.shapes import iota, sliced
from ortable.prelude.values import as_scalar, as_vec, const

__all__ = [
    "edge_pad",
    "full_pads",
    "reflected_pad",
    "wrapped_pad",
]


def wrapped_pad(graph: Graph, x: Result, pads: SymInts) -> Result:
    """``x`` padded with what comes from its other end (torch's circular mode), last axis first in
    ``pads``. Negative pads crop first; torch refuses the others above what is left."""
    for place in range(len(pads) // 2):
        before, after = pads[2 * place], pads[2 * place + 1]
        axis = rank_of(graph, x) - 1 - place
        size = dim_of(graph, x, axis)
        if is_static([before, after, size]):
            low, high = static([before, after])
            x = sliced(graph, x, axis, max(-low, 0), size + min(high, 0))
            left = size + min(low, 0) + min(high, 0)
            ends = [sliced(graph, x, axis, left - low, left)] if low > 0 else []
            ends += [x] + ([sliced(graph, x, axis, 0, high)] if high > 0 else [])
            x = graph.make_node("Concat", ends, axis=axis) if len(ends) > 1 else x
            continue
        cut = -dims.minimum(before, 0)
        size = size - cut + dims.minimum(after, 0)
        before, after = dims.maximum(before, 0), dims.maximum(after, 0)
        ramp = iota(graph, -before, size + before + after, 1)
        index = graph.make_node("Mod", [ramp, as_vec(graph, size)])
        index = graph.make_node("Add", [index, as_vec(graph, cut)])
        x = graph.make_node("Gather", [x, index], axis=axis)
    return x


def edge_pad(graph: Graph, x: Result, pads: SymInts) -> Result:
    """``x`` padded with its first and last elements, cropped where a pad is negative; last axis
    first in ``pads``."""
    for place in range(len(pads) // 2):
        before, after = pads[2 * place], pads[2 * place + 1]
        axis = rank_of(graph, x) - 1 - place
        size = dim_of(graph, x, axis)
        ramp = iota(graph, -before, size + before + after, 1)
        least, most = const(graph, 0, dtypes.int64), as_scalar(graph, size - 1)
        index = graph.make_node("Min", [graph.make_node("Max", [ramp, least]), most])
        x = graph.make_node("Gather", [x, index], axis=axis)
    return x


def reflected_pad(graph: Graph, x: Result, pads: SymInts) -> Result:
    """``x`` padded with its own mirror image, an axis at a time; last axis first in ``pads``, each
    below the size of its axis. A negative pad crops what is there after the other side has
    mirrored the whole axis, as torch does (ONNX Runtime mirrors what is left)."""
    for place in range(len(pads) // 2):
        before, after = pads[2 * place], pads[2 * place + 1]
        axis = rank_of(graph, x) - 1 - place
        if is_static([before, after]) and before == 0 and after == 0:
            continue
        size = dim_of(graph, x, axis)
        last = as_scalar(graph, size - 1)
        ramp = iota(graph, -before, size + before + after, 1)
        index = graph.make_node("Sub", [last, graph.make_node("Abs", [ramp])])
        index = graph.make_node("Sub", [last, graph.make_node("Abs", [index])])
        x = graph.make_node("Gather", [x, index], axis=axis)
    return x


def full_pads(rank: Int, axis: Int, before: SymInt, after: SymInt) -> SymInts:
    """ONNX pads for every axis of a rank that pad one axis only."""
    begins: list[SymInt] = [0] * rank
    ends: list[SymInt] = [0] * rank
    begins[axis], ends[axis] = before, after
    return [*begins, *ends]
