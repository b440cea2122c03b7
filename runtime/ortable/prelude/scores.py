"""Scale and mask attention scores, and share key heads among query heads.

Used by the converters of attention and by the lowering of its gradient.
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
    """Multiply attention scores by ``scale``, by default 1 / sqrt(width of a head).

    Heads of width 0 have scores of 0; ONNX Runtime's product over nothing returns uninitialized
    memory.
    """
    op = OpBuilder(graph)
    if dims.always_equal(width, 0):
        zero = const(graph, 0, graph.get_type(x))
        return op.Expand(zero, op.Shape(x))
    if scale is not None:
        return scaled(graph, x, scale)
    if isinstance(width, dims.SymDim):
        root = op.Sqrt(const(graph, width, graph.get_type(x)))
        return op.Div(x, root)
    return scaled(graph, x, float(width) ** -0.5)


def shared_heads(graph: Graph, x: Result, query: Result, repeat: Bool) -> Result:
    """Repeat keys or values [..., G, S, D] for queries [..., H, L, D] that share heads.

    With ``repeat``, the result is [..., H, S, D], each head repeated H / G times. Without
    ``repeat``, and if G equals H, the result is ``x`` itself.
    """
    if not repeat:
        return x
    heads, kv_heads = dim_of(graph, query, -3), dim_of(graph, x, -3)
    if kv_heads is heads or kv_heads == heads:
        return x
    rank, shape = rank_of(graph, x), list(shape_of(graph, x))
    repeats = heads // kv_heads
    unsqueezed_heads = unsqueezed(graph, x, [rank - 2])
    sizes = [*shape[: rank - 2], repeats, *shape[rank - 2 :]]
    repeated = OpBuilder(graph).Expand(unsqueezed_heads, as_vec(graph, sizes))
    return reshape_to(graph, repeated, [*shape[: rank - 3], heads, *shape[rank - 2 :]])


def regroup_heads(graph: Graph, x: Result, heads: SymInt, rows: SymInt | None = None) -> Result:
    """Reshape [..., H, R, D] to [..., heads, H * R / heads, D]; no node if H equals ``heads``.

    Adjacent heads become rows of one head, or rows become heads again. ``rows`` is H * R / heads
    where a name is known for it: the quotient of symbols may not simplify to that name.
    """
    if not graph.has_shape(x):
        raise UnsupportedCase("attention heads that share keys, where both numbers are dynamic")
    shape = list(shape_of(graph, x))
    current_heads, current_rows = shape[-3:-1]
    if current_heads is heads or current_heads == heads:
        return x
    if rows is None:
        rows = current_heads * current_rows // heads
    return reshape_to(graph, x, [*shape[:-3], heads, rows, shape[-1]])


def grouped_product(graph: Graph, x: Result, y: Result) -> Result:
    """Multiply heads [..., H, L, S] by heads [..., G, S, D] that H / G adjacent heads share.

    The adjacent heads become rows of one head, so that nothing is copied.
    """
    rows = regroup_heads(graph, x, dim_of(graph, y, -3))
    product = OpBuilder(graph).MatMul(rows, y)
    if not graph.has_shape(product):  # batch sizes of different names, which torch treats as equal
        graph.set_shape(product, (*shape_of(graph, rows)[:-1], dim_of(graph, y, -1)))
    return regroup_heads(graph, product, *shape_of(graph, x)[-3:-1])


def zero_where_masked(graph: Graph, x: Result, mask: Result | None) -> Result:
    """Set rows of an attention output to 0 if the mask hides all keys, where softmax gives NaN."""
    op = OpBuilder(graph)
    if mask is None:
        return x
    last = consts(graph, [rank_of(graph, mask) - 1], dtypes.int64)
    if graph.get_type(mask) == dtypes.boolean:
        largest = op.ReduceMax(cast(graph, mask, dtypes.uint8), last, keepdims=1)
        is_visible = cast(graph, largest, dtypes.boolean)
        return op.Where(is_visible, x, 0)
    largest = op.ReduceMax(mask, last, keepdims=1)
    is_hidden = op.Equal(largest, float("-inf"))
    return op.Where(is_hidden, 0, x)


def above_lowest(graph: Graph, mask: Result) -> Result:
    """Replace the lowest number of an additive mask's dtype by the next one.

    In torch, a row that has only the lowest number averages all values, but ONNX Runtime's
    Attention treats such a row as a row without keys, which gives 0. Bool masks are unchanged.
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
    """Return the logarithm of the sum of exponentials of ``scores`` over the last axis.

    ``probs`` is the softmax of ``scores``: the result is the largest score minus the logarithm of
    its probability, which takes a tenth of the time of ReduceLogSumExp. The result is 0 for a row
    that the mask hides completely, as in torch.
    """
    op, last = OpBuilder(graph), consts(graph, [len(shape_of(graph, scores)) - 1], dtypes.int64)
    largest_score, largest_prob = (op.ReduceMax(x, last, keepdims=0) for x in (scores, probs))
    sums = op.Sub(largest_score, op.Log(largest_prob))
    if mask is None:
        return sums
    return op.Where(op.Equal(largest_score, float("-inf")), 0, sums)


def attention_mask(
    graph: Graph, scores: Result, mask: Result | None, causal: Bool, sizes: SymInts
) -> Result:
    """Apply a mask to attention scores.

    ``mask`` is a bool mask (False hides a key), a float mask (added) or None; ``causal`` adds a
    causal mask of the shape ``sizes``.
    """
    op = OpBuilder(graph)
    if causal:
        visible = op.Trilu(filled(graph, sizes, True, dtypes.boolean), upper=0)
        scores = op.Where(visible, scores, const(graph, -np.inf, graph.get_type(scores)))
    if mask is None:
        return scores
    if graph.get_type(mask) == dtypes.boolean:
        return op.Where(mask, scores, const(graph, -np.inf, graph.get_type(scores)))
    return op.Add(scores, cast(graph, mask, graph.get_type(scores)))
