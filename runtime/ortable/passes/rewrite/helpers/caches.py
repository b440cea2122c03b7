"""Helpers of the rules about attention over a KV cache.

They find how much of the cache is in use from the mask that is added to the scores, and build the
inputs of ONNX Runtime's kernel. Called by rules of ort_decode.

The kernel multiplies the queries of one head by its keys, and reads keys once per head. So heads
that share keys are passed as several queries of one head, and the heads of all sequences as heads
of a single sequence, whose mask is the same for every head.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ortable import dims, dtypes
from ortable.ir import Graph
from ortable.passes.analysis.constants import find_producer, small_constant
from ortable.passes.rewrite.helpers.attention import heads_before_repeat, int32_size
from ortable.prelude.facts import Bool, Float, Int, Result, SymInts, is_static, shape_of
from ortable.prelude.shapes import expanded, iota, zeros_of
from ortable.prelude.values import as_vec, cast, const, consts, permuted, reshape_to
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
_LOWEST = float(np.finfo(np.float32).min)  # masks a position if scores are softcapped
# With more queries per head, separate products for each head are as fast.
_MAX_GROUPED_QUERIES = 64


# -- facts


def is_written_cache(graph: Graph, heads: Result) -> Bool:
    """Whether these heads, or the heads that they repeat, are a cache after an in-place write."""
    node = graph.values[heads_before_repeat(graph, heads)].producer
    return node is not None and node.key in IN_PLACE


def heads_together(graph: Graph, query: Result, keys: Result, values: Result, bias: Result) -> Int:
    """Return how many heads of float32 queries [B, H, S, D] form one head of the kernel.

    The caches are [B, G, L, D]. The number is 1 or H / G, and 0 if the kernel does not support the
    sizes or is not faster. With several queries, the kernel is faster if the cache has at least
    twice as many positions as a head of the kernel has queries.
    """
    if not all(is_float32(graph, x) and known_rank(graph, x) == 4 for x in (query, keys, values)):
        return 0
    q, k, v = (list(shape_of(graph, x)) for x in (query, keys, values))
    pairs = [(q[0], k[0]), (q[3], k[3]), *zip(k, v, strict=True)]
    if not is_static([q[1], q[3], k[1]]) or not all(dims.always_equal(a, b) for a, b in pairs):
        return 0
    if min(q[1], k[1], q[3]) < 1 or q[1] % k[1] or q[3] % 8:  # the kernel needs width % 8 == 0
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
    candidates = (sharing, 1) if sharing * q[2] <= _MAX_GROUPED_QUERIES else (1,)
    return next((heads for heads in candidates if 2 * heads * q[2] <= k[2]), 0)


def _is_shared_mask(graph: Graph, bias: str, batch: int) -> bool:
    """Whether heads and sequences share a mask; for many queries, other masks would be copied."""
    sizes = list(shape_of(graph, bias))[:-2]
    return all(dims.always_equal(size, 1) for size in (sizes if batch > 1 else sizes[1:]))


def heads_before_flat(graph: Graph, flat: Result, keys: Result) -> Result:
    """Return the values [B, G, L, D] from which flat values [B * H, L, D] were made.

    Each head may be repeated. Returns the flat values if they were made in another way. ``keys`` is
    the cache of the keys.
    """
    reshape = find_producer(graph, flat, "Reshape")
    if reshape is None:
        return flat
    if known_rank(graph, reshape.inputs[0]) == 4:
        return heads_before_repeat(graph, reshape.inputs[0])
    expand = find_producer(graph, reshape.inputs[0], "Expand")
    unsqueeze = None if expand is None else find_producer(graph, expand.inputs[0], "Unsqueeze")
    if (
        expand is None
        or unsqueeze is None
        or not all(map(graph.has_shape, (keys, expand.outputs[0])))
    ):
        return flat
    axes, spread = (small_constant(graph, unsqueeze.inputs[1]), graph.get_shape(expand.outputs[0]))
    batch, groups, *inner = graph.get_shape(keys)
    is_repeat = len(spread) == 5 and all(
        map(dims.always_equal, [*spread[:2], *spread[3:]], [batch, groups, *inner])
    )
    return unsqueeze.inputs[0] if is_repeat and axes is not None and axes.tolist() == [2] else flat


def softcap_of(
    graph: Graph, cap: Result | None, part: Result | None, limit: Result | None, bias: Result
) -> Float:
    """Return the bound of scores that a Tanh caps, or -1 if the kernel does not support it.

    Scores are divided by the bound, or multiplied by its inverse, before the Tanh. Without a Tanh,
    returns 0 if the mask is known to contain -inf, else -1.
    """
    if limit is None:
        node = find_producer(graph, bias, "Where")
        branches = () if node is None else node.inputs[1:]
        return 0.0 if any(number_of(graph, term) == -math.inf for term in branches) else -1.0
    bound = number_of(graph, limit)
    divisor = number_of(graph, cap) if cap else divide_or_nan(1.0, number_of(graph, part or limit))
    is_valid = is_moderate(bound) and bound > 0
    return bound if is_valid and is_close(bound, divisor) else -1.0


# -- bias and counts


def as_numbers(graph: Graph, mask: Result) -> Result:
    """Return the bias of scores; a bool mask becomes 0 where it is True and -inf elsewhere."""
    if graph.get_type(mask) != dtypes.boolean:
        return mask
    numbers = [const(graph, value, dtypes.float32) for value in (0.0, -math.inf)]
    return graph.make_node("Where", [mask, *numbers])


def _count_from_one(graph: Graph, count: Any) -> str:
    """Return 1, 2, ..., ``count`` as int32."""
    if isinstance(count, int):
        return consts(graph, list(range(1, count + 1)), dtypes.int32)
    return cast(graph, iota(graph, 1, count, 1), dtypes.int32)


# -- the kernel


def scale_operand(graph: Graph, x: str, scale: float) -> str:
    """Multiply a float32 operand of attention, in place of the kernel's factor of scores.

    The kernel's product of one row copies the matrix of the keys unless its factor is 1: scaled
    queries take 0.6 of its time at one token and 1,000 keys.
    """
    return graph.make_node("Mul", [x, const(graph, scale, dtypes.float32)]) if scale != 1 else x


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
    """Make attention over the used positions of caches [B, G, L, D], with a result of ``sizes``.

    Queries are [B, H, S, D]; ``together`` of their heads are grouped (`heads_together`). If a group
    has several queries, sequences and heads become heads of a single sequence.
    """
    batch, heads, count, width = shape_of(graph, query)
    groups, positions = shape_of(graph, keys)[1:3]
    queries = together * count
    is_folded = not dims.always_equal(queries, 1)
    batch_size, head_count = (1, batch * heads // together) if is_folded else (batch, heads)
    groups = batch * groups if is_folded else groups
    bias = as_numbers(graph, mask)
    total = _count_used_positions(graph, bias, positions, queries, softcap)
    empty = zeros_of(graph, [batch_size, 0, groups * width], dtypes.float32)
    if is_folded:
        query = permuted(graph, reshape_to(graph, query, [head_count, queries, width]), [1, 0, 2])
        keys, values = (
            reshape_to(graph, cache, [1, groups, positions, width]) for cache in (keys, values)
        )
    else:
        query, scale = scale_operand(graph, query, scale), 1.0
    rows = reshape_to(graph, query, [batch_size, queries, head_count * width])
    last_key = graph.make_node("Sub", [total, const(graph, 1, dtypes.int32)])
    last_key = expanded(graph, reshape_to(graph, last_key, [1]), [batch_size])
    sliced_bias = _slice_bias(graph, bias, total, [batch, heads, count, positions], together)
    domain, _, name = _KERNEL.rpartition("::")
    attended = graph.make_node(
        name,
        [rows, empty, empty, keys, values, last_key, total, None, None, None, sliced_bias],
        domain=domain,
        num_heads=head_count,
        kv_num_heads=groups,
        scale=scale,
        softcap=softcap or None,
        causal=0,
    )
    if is_folded:
        attended = permuted(
            graph, reshape_to(graph, attended, [queries, head_count, width]), [1, 0, 2]
        )
    return reshape_to(graph, attended, sizes)


def _count_used_positions(
    graph: Graph, bias: str, positions: Any, queries: Any, softcap: float
) -> str:
    """Return the number of positions up to the last one that any query attends to, int32.

    The number is at least the number of queries of a head, as the kernel requires. A bias of -inf
    masks a position. If scores are softcapped, a bias of the lowest float masks a position too, and
    a query without a visible position averages all positions.
    """
    zero = const(graph, 0, dtypes.int32)
    mask_value = const(graph, _LOWEST if softcap else -math.inf, dtypes.float32)
    hidden = graph.make_node("LessOrEqual", [bias, mask_value])
    last = graph.make_node("Where", [hidden, zero, _count_from_one(graph, positions)])
    if softcap:
        last = graph.make_node("ReduceMax", [last, as_vec(graph, [-1])], keepdims=1)
        empty = graph.make_node("Equal", [last, zero])
        last = graph.make_node("Where", [empty, int32_size(graph, positions), last])
    total = graph.make_node("ReduceMax", [last], keepdims=0)
    return graph.make_node("Max", [total, int32_size(graph, queries)])


def _slice_bias(graph: Graph, bias: str, total: str, sizes: list[Any], together: int) -> str:
    """Return the bias of the used positions, grouped like the kernel's heads and queries."""
    batch, heads, queries, positions = sizes
    outer = list(shape_of(graph, bias))[:-2]
    outer = [1] * (2 - len(outer)) + outer
    expanded_bias = expanded(graph, bias, [*outer, queries, positions])
    end = reshape_to(graph, cast(graph, total, dtypes.int64), [1])
    used_bias = graph.make_node("Slice", [expanded_bias, as_vec(graph, 0), end, as_vec(graph, 3)])
    is_shared = all(dims.always_equal(size, 1) for size in outer)
    if dims.always_equal(together * queries, 1) or (is_shared and together == 1):
        return used_bias
    outer_sizes = [1, together] if is_shared else [batch, heads]
    head_count = 1 if is_shared else batch * heads // together
    used_bias = graph.make_node("Expand", [used_bias, as_vec(graph, [*outer_sizes, queries, 1])])
    return graph.make_node(
        "Reshape", [used_bias, as_vec(graph, [1, head_count, together * queries, -1])]
    )
