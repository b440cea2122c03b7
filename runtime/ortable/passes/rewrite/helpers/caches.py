"""Helpers of the rules about attention over a KV cache: how much of it is in use, by the mask that
is added to the scores, and the inputs of ONNX Runtime's kernel. Called by rules of ort_decode.

The kernel multiplies the queries of one head with its keys, and reads keys once per head. So
heads that share keys are passed as several queries of one head, and the heads of all sequences
as heads of one sequence, whose mask is then one for every head.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ortable import dims, dtypes
from ortable.ir import Graph
from ortable.passes.analysis.constants import find_producer, small_constant
from ortable.passes.rewrite.helpers.attention import heads_before_repeat
from ortable.prelude.facts import Bool, Float, Int, Result, SymInts, is_static, shape_of
from ortable.prelude.shapes import expanded, iota, zeros_of
from ortable.prelude.values import as_scalar, as_vec, cast, const, consts, permuted, reshape_to
from ortable_generated.onnx.traits import IN_PLACE

from .numbers import divide_or_nan, is_close, is_float32, is_moderate, number_of
from .shapes import known_rank

__all__ = [
    "decode_attention",
    "heads_before_flat",
    "heads_together",
    "is_written_cache",
    "softcap_of",
]

_KERNEL = "com.microsoft::GroupQueryAttention"
_LOWEST = float(np.finfo(np.float32).min)  # hides a place where scores have a bound
_MAX_GROUPED_QUERIES = (
    64  # queries of one head; with more of them, products with each head alone are as fast
)


# -- facts


def is_written_cache(graph: Graph, heads: Result) -> Bool:
    """Whether these heads [B, G, L, D], or those that they repeat, are a cache that new rows were
    just written into, which may hold more positions than a sequence has tokens.
    """
    node = graph.values[heads_before_repeat(graph, heads)].producer
    return node is not None and node.key in IN_PLACE


def heads_together(graph: Graph, query: Result, keys: Result, values: Result, bias: Result) -> Int:
    """How many heads of float32 queries [B, H, S, D] the kernel gets as one, beside caches
    [B, G, L, D]: 1, or H / G. 0 where it does not take them or is not faster.

    For several queries it is faster from twice as many positions on.
    """
    if not all(is_float32(graph, x) and known_rank(graph, x) == 4 for x in (query, keys, values)):
        return 0
    q, k, v = (list(shape_of(graph, x)) for x in (query, keys, values))
    pairs = [(q[0], k[0]), (q[3], k[3]), *zip(k, v, strict=True)]
    if not is_static([q[1], q[3], k[1]]) or not all(dims.always_equal(a, b) for a, b in pairs):
        return 0
    if min(q[1], k[1], q[3]) < 1 or q[1] % k[1] or q[3] % 8:  # the kernel takes no other width
        return 0
    sharing = q[1] // k[1]
    if dims.always_equal(q[2], 1) and sharing == 1:
        return 1
    if not is_static([q[0], q[2], k[2]]):
        return 0
    if q[2] == 1:
        return sharing if sharing <= k[2] else 0
    if q[2] < 1 or not _is_shared_mask(graph, bias, q[0]):
        return 0
    choices = (sharing, 1) if sharing * q[2] <= _MAX_GROUPED_QUERIES else (1,)
    return next((heads for heads in choices if 2 * heads * q[2] <= k[2]), 0)


def _is_shared_mask(graph: Graph, bias: str, batch: int) -> bool:
    """Whether heads and sequences share a mask: for many queries, others would be copied."""
    sizes = list(shape_of(graph, bias))[:-2]
    return all(dims.always_equal(size, 1) for size in (sizes if batch > 1 else sizes[1:]))


def heads_before_flat(graph: Graph, flat: Result, keys: Result) -> Result:
    """The values [B, G, L, D] that flat ones [B * H, L, D] were made from, each head repeated or
    not; the flat ones if there are none. ``keys`` is the cache beside them.
    """
    joined = find_producer(graph, flat, "Reshape")
    if joined is None:
        return flat
    if known_rank(graph, joined.inputs[0]) == 4:
        return heads_before_repeat(graph, joined.inputs[0])
    wide = find_producer(graph, joined.inputs[0], "Expand")
    single = None if wide is None else find_producer(graph, wide.inputs[0], "Unsqueeze")
    if wide is None or single is None or not all(map(graph.has_shape, (keys, wide.outputs[0]))):
        return flat
    axes, spread = small_constant(graph, single.inputs[1]), graph.get_shape(wide.outputs[0])
    batch, groups, *rest = graph.get_shape(keys)
    fits = len(spread) == 5 and all(
        map(dims.always_equal, [*spread[:2], *spread[3:]], [batch, groups, *rest])
    )
    return single.inputs[0] if fits and axes is not None and axes.tolist() == [2] else flat


def softcap_of(
    graph: Graph, cap: Result | None, part: Result | None, limit: Result | None, bias: Result
) -> Float:
    """The bound of scores that a Tanh caps; 0 where they have none and -inf is seen to be added to
    them beside other numbers; else -1.

    Scores are divided by the bound, or multiplied by its inverse, before the Tanh.
    """
    if limit is None:
        node = find_producer(graph, bias, "Where")
        added = () if node is None else node.inputs[1:]
        return 0.0 if any(number_of(graph, term) == -math.inf for term in added) else -1.0
    bound = number_of(graph, limit)
    before = number_of(graph, cap) if cap else divide_or_nan(1.0, number_of(graph, part or limit))
    usual = is_moderate(bound) and bound > 0
    return bound if usual and is_close(bound, before) else -1.0


# -- what is in use


def as_numbers(graph: Graph, mask: Result) -> Result:
    """The bias of scores: 0, and -inf where bools are False."""
    if graph.get_type(mask) != dtypes.boolean:
        return mask
    numbers = [const(graph, value, dtypes.float32) for value in (0.0, -math.inf)]
    return graph.make_node("Where", [mask, *numbers])


def _as_int32(graph: Graph, size: Any) -> str:
    if isinstance(size, int):
        return const(graph, size, dtypes.int32)
    return cast(graph, as_scalar(graph, size), dtypes.int32)


def _count_from_one(graph: Graph, count: Any) -> str:
    """1, 2, ... of int32."""
    if isinstance(count, int):
        return consts(graph, list(range(1, count + 1)), dtypes.int32)
    return cast(graph, iota(graph, 1, count, 1), dtypes.int32)


# -- the kernel


def decode_attention(
    graph: Graph,
    query: Result,
    keys: Result,
    values: Result,
    mask: Result,
    together: Int,
    scale: Float,
    sizes: SymInts,
    softcap: Float = 0.0,
) -> Result:
    """Attention over the used positions of caches [B, G, L, D], as a result with these sizes.

    Queries are [B, H, S, D], of which ``together`` heads are grouped (`heads_together`). Where a
    group has several queries, sequences and heads become heads of one sequence.
    """
    batch, heads, count, width = shape_of(graph, query)
    groups, places = shape_of(graph, keys)[1:3]
    queries = together * count
    folded = not dims.always_equal(queries, 1)
    batch_size, head_count = (1, batch * heads // together) if folded else (batch, heads)
    groups = batch * groups if folded else groups
    bias = as_numbers(graph, mask)
    total = _places_in_use(graph, bias, places, queries, softcap)
    none = zeros_of(graph, [batch_size, 0, groups * width], dtypes.float32)
    if folded:
        query = permuted(graph, reshape_to(graph, query, [head_count, queries, width]), [1, 0, 2])
        keys, values = (
            reshape_to(graph, cache, [1, groups, places, width]) for cache in (keys, values)
        )
    rows = reshape_to(graph, query, [batch_size, queries, head_count * width])
    last = graph.make_node("Sub", [total, const(graph, 1, dtypes.int32)])
    last = expanded(graph, reshape_to(graph, last, [1]), [batch_size])
    added = _bias_in_use(graph, bias, total, [batch, heads, count, places], together)
    domain, _, name = _KERNEL.rpartition("::")
    attended = graph.make_node(
        name,
        [rows, none, none, keys, values, last, total, None, None, None, added],
        domain=domain,
        num_heads=head_count,
        kv_num_heads=groups,
        scale=scale,
        softcap=softcap or None,
        causal=0,
    )
    if folded:
        attended = permuted(
            graph, reshape_to(graph, attended, [queries, head_count, width]), [1, 0, 2]
        )
    return reshape_to(graph, attended, sizes)


def _places_in_use(graph: Graph, bias: str, places: Any, queries: Any, softcap: float) -> str:
    """The number of positions up to the last one that any query sees, an int32 scalar; at least the
    number of queries of a head, as the kernel requires.

    -inf hides a position. Where scores have a bound, the lowest number does as well, and a query
    that sees no position takes the mean of all of them.
    """
    none = const(graph, 0, dtypes.int32)
    hiding = const(graph, _LOWEST if softcap else -math.inf, dtypes.float32)
    hidden = graph.make_node("LessOrEqual", [bias, hiding])
    last = graph.make_node("Where", [hidden, none, _count_from_one(graph, places)])
    if softcap:
        last = graph.make_node("ReduceMax", [last, as_vec(graph, [-1])], keepdims=1)
        empty = graph.make_node("Equal", [last, none])
        last = graph.make_node("Where", [empty, _as_int32(graph, places), last])
    total = graph.make_node("ReduceMax", [last], keepdims=0)
    return graph.make_node("Max", [total, _as_int32(graph, queries)])


def _bias_in_use(graph: Graph, bias: str, total: str, sizes: list[Any], together: int) -> str:
    """The bias of these positions, [B or 1, H or 1, S, positions], or of heads and queries as the
    kernel groups them.
    """
    batch, heads, queries, places = sizes
    outer = list(shape_of(graph, bias))[:-2]
    outer = [1] * (2 - len(outer)) + outer
    wide = expanded(graph, bias, [*outer, queries, places])
    end = reshape_to(graph, cast(graph, total, dtypes.int64), [1])
    part = graph.make_node("Slice", [wide, as_vec(graph, 0), end, as_vec(graph, 3)])
    shared = all(dims.always_equal(size, 1) for size in outer)
    if dims.always_equal(together * queries, 1) or (shared and together == 1):
        return part
    first = [1, together] if shared else [batch, heads]
    many = 1 if shared else batch * heads // together
    part = graph.make_node("Expand", [part, as_vec(graph, [*first, queries, 1])])
    return graph.make_node("Reshape", [part, as_vec(graph, [1, many, together * queries, -1])])
