"""Scores of attention: scaling and masking them, heads that queries share, rows that are masked
entirely. Used by the converters of attention and by the lowering of its gradient.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

from ortable import dims, dtypes
from ortable.errors import UnsupportedCase
from ortable.ir import Graph

from .facts import Bool, Float, Result, SymInt, SymInts, dim_of, rank_of, shape_of
from .op_builder import OpBuilder
from .pointwise import scaled
from .values import as_vec, cast, const, consts, filled, reshape_to, unsqueezed

__all__ = [
    "attention_mask",
    "attention_scaled",
    "grouped_product",
    "log_of_sums",
    "shared_heads",
    "zero_where_masked",
]


def attention_scaled(graph: Graph, x: Result, scale: Float | None, width: SymInt) -> Result:
    """Attention scores times ``scale``; by default over the square root of the width of a head.
    Heads without width have scores of 0, where ONNX Runtime's product over nothing leaves what
    was in memory."""
    op = OpBuilder(graph)
    if dims.always_equal(width, 0):
        nothing = const(graph, 0, graph.get_type(x))
        return op.Expand(nothing, op.Shape(x))
    if scale is not None:
        return scaled(graph, x, scale)
    if isinstance(width, dims.SymDim):
        root = op.Sqrt(const(graph, width, graph.get_type(x)))
        return op.Div(x, root)
    return scaled(graph, x, float(width) ** -0.5)


def shared_heads(graph: Graph, x: Result, query: Result, repeat: Bool) -> Result:
    """Keys or values [..., G, S, D] of queries [..., H, L, D]; with ``repeat`` [..., H, S, D], each
    head as often as the queries share it. No node when G is H."""
    if not repeat:
        return x
    heads, own = dim_of(graph, query, -3), dim_of(graph, x, -3)
    if own is heads or own == heads:
        return x
    rank, shape = rank_of(graph, x), list(shape_of(graph, x))
    times = heads // own
    wide = unsqueezed(graph, x, [rank - 2])
    sizes = [*shape[: rank - 2], times, *shape[rank - 2 :]]
    spread_out = OpBuilder(graph).Expand(wide, as_vec(graph, sizes))
    return reshape_to(graph, spread_out, [*shape[: rank - 3], heads, *shape[rank - 2 :]])


def regroup_heads(graph: Graph, x: Result, heads: SymInt) -> Result:
    """[..., H, R, D] -> [..., heads, H R / heads, D]: neighbouring heads as rows of one, or such
    rows as heads again; no node when the numbers are equal.
    """
    if not graph.has_shape(x):
        raise UnsupportedCase("attention heads that share keys, where both numbers are dynamic")
    shape = list(shape_of(graph, x))
    own, rows = shape[-3:-1]
    if own is heads or own == heads:
        return x
    return reshape_to(graph, x, [*shape[:-3], heads, own * rows // heads, shape[-1]])


def grouped_product(graph: Graph, x: Result, y: Result) -> Result:
    """MatMul of heads [..., H, L, S] and heads [..., G, S, D], each of which H / G neighbours of
    the first share: these become rows of one head, so that nothing is copied."""
    rows = regroup_heads(graph, x, dim_of(graph, y, -3))
    product = OpBuilder(graph).MatMul(rows, y)
    if not graph.has_shape(product):  # batches of two names, which torch's kernels take for one
        graph.set_shape(product, (*shape_of(graph, rows)[:-1], dim_of(graph, y, -1)))
    return regroup_heads(graph, product, dim_of(graph, x, -3))


def zero_where_masked(graph: Graph, x: Result, mask: Result | None) -> Result:
    """0 in the rows of an attention output that the mask hides from every key, where a softmax
    alone gives NaN."""
    op = OpBuilder(graph)
    if mask is None:
        return x
    last = consts(graph, [rank_of(graph, mask) - 1], dtypes.int64)
    if graph.get_type(mask) == dtypes.boolean:
        most = op.ReduceMax(cast(graph, mask, dtypes.uint8), last, keepdims=1)
        seen = cast(graph, most, dtypes.boolean)
        return op.Where(seen, x, 0)
    most = op.ReduceMax(mask, last, keepdims=1)
    hidden = op.Equal(most, float("-inf"))
    return op.Where(hidden, 0, x)


def above_lowest(graph: Graph, mask: Result) -> Result:
    """Replace the lowest number of an additive mask's dtype by the next one; bool masks are
    returned.

    A row with nothing else averages all values, but ONNX Runtime's Attention treats it as a row
    without a key, which gives 0.
    """
    op = OpBuilder(graph)
    if graph.get_type(mask) == dtypes.boolean:
        return mask
    dtype = graph.get_type(mask)
    lowest = ml_dtypes.finfo(dtypes.to_numpy(dtype)).min
    higher = np.nextafter(lowest, lowest.dtype.type(0))
    is_lowest = op.Equal(mask, const(graph, lowest, dtype))
    return op.Where(is_lowest, const(graph, higher, dtype), mask)


def log_of_sums(graph: Graph, scores: Result, probs: Result, mask: Result | None) -> Result:
    """The logarithm of the sum of exponentials over the last axis, where ``probs`` is the softmax
    of ``scores``: the largest score less the logarithm of its probability, which takes a tenth of
    ReduceLogSumExp's time. 0 for a row that a mask hides altogether, as torch keeps it."""
    op, last = OpBuilder(graph), consts(graph, [len(shape_of(graph, scores)) - 1], dtypes.int64)
    top, most = (op.ReduceMax(x, last, keepdims=0) for x in (scores, probs))
    sums = op.Sub(top, op.Log(most))
    if mask is None:
        return sums
    return op.Where(op.Equal(top, float("-inf")), 0, sums)


def attention_mask(
    graph: Graph, scores: Result, mask: Result | None, causal: Bool, sizes: SymInts
) -> Result:
    """Attention scores with a bool mask (False is left out), a float mask (added), a causal mask,
    or none of them."""
    op = OpBuilder(graph)
    if causal:
        visible = op.Trilu(filled(graph, sizes, True, dtypes.boolean), upper=0)
        scores = op.Where(visible, scores, const(graph, -np.inf, graph.get_type(scores)))
    if mask is None:
        return scores
    if graph.get_type(mask) == dtypes.boolean:
        return op.Where(mask, scores, const(graph, -np.inf, graph.get_type(scores)))
    return op.Add(scores, cast(graph, mask, graph.get_type(scores)))
