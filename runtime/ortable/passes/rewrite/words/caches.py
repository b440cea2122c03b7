"""Words of the rules about attention over a cache of keys and values: how much of it is in use, by
the mask that is added to the scores, and what ONNX Runtime's kernel takes. In come results of a
match; out go facts and inputs of the kernel. Called by rules of ort_decode.

The kernel multiplies the queries of one head with its keys, and knows of one text what it has to.
So heads that share keys are given as several queries of one head, which reads the keys once; and
the heads of all texts as heads of one text, whose mask is then one for every head."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ortable import dims, dtypes
from ortable.ir import Graph
from ortable.passes.analysis.constants import maker_of, small_constant
from ortable.prelude.facts import Bool, Float, Int, Result, dim_of, is_static, shape_of
from ortable.prelude.shapes import expanded, iota, zeros_of
from ortable.prelude.values import as_scalar, as_vec, cast, const, consts, permuted, reshape_to
from ortable_generated.onnx.traits import IN_PLACE

from .attention import heads_before_repeat
from .numbers import is_close, is_float32, is_moderate, number_of, quotient
from .shapes import known_rank

__all__ = [
    "are_flat_heads",
    "are_rows_of_groups",
    "as_numbers",
    "bias_in_use",
    "cache_for_kernel",
    "either_mask",
    "empty_rows",
    "fits_scores",
    "heads_before_flat",
    "heads_from_kernel",
    "heads_of_kernel",
    "heads_together",
    "hides_by_infinity",
    "is_written_cache",
    "last_in_use",
    "places_in_use",
    "queries_for_kernel",
    "softcap_of",
]

_LOWEST = float(np.finfo(np.float32).min)  # hides a place where scores have a bound
_FEW = 64  # queries of one head; with more of them, products with each head alone are as fast


# -- facts


def is_written_cache(graph: Graph, heads: Result) -> Bool:
    """Whether new rows have just been written into these heads [B, G, L, D], or into those that
    they repeat: a cache that may hold more places than a text has tokens."""
    node = graph.values[heads_before_repeat(graph, heads)].producer
    return node is not None and node.key in IN_PLACE


def heads_together(graph: Graph, query: Result, keys: Result, values: Result, bias: Result) -> Int:
    """How many heads of float32 queries [B, H, S, D] are given to the kernel as one, beside caches
    [B, G, L, D]: 1, or H / G. 0 where the kernel does not take them, or would not be faster: for
    several queries, with less than twice as many places."""
    if not all(is_float32(graph, x) and known_rank(graph, x) == 4 for x in (query, keys, values)):
        return 0
    q, k, v = (list(shape_of(graph, x)) for x in (query, keys, values))
    pairs = [(q[0], k[0]), (q[3], k[3]), *zip(k, v, strict=True)]
    if not is_static([q[1], q[3], k[1]]) or not all(dims.same(a, b) for a, b in pairs):
        return 0
    if min(q[1], k[1], q[3]) < 1 or q[1] % k[1] or q[3] % 8:  # the kernel takes no other width
        return 0
    sharing = q[1] // k[1]
    if dims.same(q[2], 1) and sharing == 1:
        return 1
    if not is_static([q[0], q[2], k[2]]):
        return 0
    if q[2] == 1:
        return sharing if sharing <= k[2] else 0
    if q[2] < 1 or not _is_one_for_all(graph, bias, q[0]):
        return 0
    choices = (sharing, 1) if sharing * q[2] <= _FEW else (1,)
    return next((each for each in choices if 2 * each * q[2] <= k[2]), 0)


def _is_one_for_all(graph: Graph, bias: str, batch: int) -> bool:
    """Whether a mask is one for all heads and texts: for many queries, others would be copied."""
    sizes = list(shape_of(graph, bias))[:-2]
    return all(dims.same(size, 1) for size in (sizes if batch > 1 else sizes[1:]))


def are_rows_of_groups(
    graph: Graph, query: Result, keys: Result, rows: Result, product: Result, probs: Result
) -> Bool:
    """Whether queries [B, H, S, D] are rows [B, G, H / G * S, D] beside keys [B, G, L, D], with the
    product [B, H, S, L] and the rows of probs [B, G, H / G * S, L]."""
    if not all(known_rank(graph, x) == 4 for x in (query, keys, rows, product, probs)):
        return False
    q, k = shape_of(graph, query), shape_of(graph, keys)
    if not is_static([q[1], k[1]]) or not 0 < k[1] <= q[1]:
        return False
    many = q[1] // k[1] * q[2]
    wanted = {
        rows: [q[0], k[1], many, q[3]],
        product: [*q[:3], k[2]],
        probs: [q[0], k[1], many, k[2]],
    }
    return all(all(map(dims.same, shape_of(graph, x), sizes)) for x, sizes in wanted.items())


def are_flat_heads(
    graph: Graph,
    query: Result,
    keys: Result,
    rows: Result,
    product: Result,
    probs: Result,
    flat: Result,
) -> Bool:
    """Whether queries [B, H, S, D] are rows [B * H, S, D] beside keys [B, H, L, D], with the
    product [B, H, S, L], rows of probs [B * H, S, L] and values [B * H, L, D]."""
    if not all(known_rank(graph, x) == 4 for x in (query, keys, product)):
        return False
    q, k = shape_of(graph, query), shape_of(graph, keys)
    many = q[0] * q[1]
    wanted = {
        keys: [q[0], q[1], k[2], q[3]],
        rows: [many, q[2], q[3]],
        product: [*q[:3], k[2]],
        probs: [many, q[2], k[2]],
        flat: [many, k[2], q[3]],
    }
    return all(
        known_rank(graph, x) == len(sizes) and all(map(dims.same, shape_of(graph, x), sizes))
        for x, sizes in wanted.items()
    )


def heads_before_flat(graph: Graph, flat: Result, keys: Result) -> Result:
    """Values [B, G, L, D] that flat ones [B * H, L, D] are made of, each head repeated or not; the
    flat ones where they are made of something else. ``keys`` are the cache beside them."""
    joined = maker_of(graph, flat, "Reshape")
    if joined is None:
        return flat
    if known_rank(graph, joined.inputs[0]) == 4:
        return heads_before_repeat(graph, joined.inputs[0])
    wide = maker_of(graph, joined.inputs[0], "Expand")
    single = None if wide is None else maker_of(graph, wide.inputs[0], "Unsqueeze")
    if wide is None or single is None or not all(map(graph.has_shape, (keys, wide.outputs[0]))):
        return flat
    axes, spread = small_constant(graph, single.inputs[1]), graph.get_shape(wide.outputs[0])
    batch, groups, *rest = graph.get_shape(keys)
    fits = len(spread) == 5 and all(
        map(dims.same, [*spread[:2], *spread[3:]], [batch, groups, *rest])
    )
    return single.inputs[0] if fits and axes is not None and axes.tolist() == [2] else flat


def softcap_of(
    graph: Graph, cap: Result | None, part: Result | None, limit: Result | None
) -> Float:
    """The bound of scores that are divided by it, or multiplied with the inverse, and multiplied
    with it after a Tanh; 0 where they have none, -1 where that is no bound."""
    if limit is None:
        return 0.0
    bound = number_of(graph, limit)
    before = number_of(graph, cap) if cap else quotient(1.0, number_of(graph, part or limit))
    usual = is_moderate(bound) and bound > 0
    return bound if usual and is_close(bound, before) else -1.0


def fits_scores(graph: Graph, bias: Result, query: Result, keys: Result) -> Bool:
    """Whether a mask, bools or float32 that is added to scores, broadcasts to [B, H, S, L] without
    making them larger."""
    kind = graph.get_type(bias) if graph.has_type(bias) else 0
    if kind not in (dtypes.float32, dtypes.boolean) or not 1 <= known_rank(graph, bias) <= 4:
        return False
    own, wanted = shape_of(graph, bias), _score_sizes(graph, query, keys)
    pairs = zip(own, wanted[-len(own) :], strict=True)
    return all(dims.same(a, 1) or dims.same(a, b) for a, b in pairs)


def _score_sizes(graph: Graph, query: str, keys: str) -> list[Any]:
    return [*shape_of(graph, query)[:3], dim_of(graph, keys, 2)]


# -- what is in use


def either_mask(graph: Graph, bias: Result | None, mask: Result | None) -> Result:
    """Of numbers that are added to scores and bools that hide them, the one that there is."""
    found = bias or mask
    assert found is not None  # the pattern has one of them
    return found


def hides_by_infinity(graph: Graph, bias: Result) -> Bool:
    """Whether -inf in what is added to scores is seen while converting, beside other numbers."""
    node = maker_of(graph, bias, "Where")
    return node is not None and any(number_of(graph, each) == -math.inf for each in node.inputs[1:])


def as_numbers(graph: Graph, mask: Result) -> Result:
    """What is added to scores: 0, and -inf where bools hide a place."""
    if graph.get_type(mask) != dtypes.boolean:
        return mask
    numbers = [const(graph, each, dtypes.float32) for each in (0.0, -math.inf)]
    return graph.make_node("Where", [mask, *numbers])


def places_in_use(
    graph: Graph, bias: Result, query: Result, keys: Result, together: Int, softcap: Float = 0.0
) -> Result:
    """The number of places up to the last one that any query sees, int32 without dimensions, and no
    less than a head has queries, as the kernel wants it.

    -inf hides a place. Where scores have a bound, the lowest number does as well, and a query that
    sees no place takes the mean of all of them.
    """
    places, queries = dim_of(graph, keys, 2), together * dim_of(graph, query, 2)
    none = const(graph, 0, dtypes.int32)
    hiding = const(graph, _LOWEST if softcap else -math.inf, dtypes.float32)
    hidden = graph.make_node("LessOrEqual", [bias, hiding])
    last = graph.make_node("Where", [hidden, none, _numbers(graph, places)])
    if softcap:
        last = graph.make_node("ReduceMax", [last, as_vec(graph, [-1])], keepdims=1)
        empty = graph.make_node("Equal", [last, none])
        last = graph.make_node("Where", [empty, _int32(graph, places), last])
    total = graph.make_node("ReduceMax", [last], keepdims=0)
    return graph.make_node("Max", [total, _int32(graph, queries)])


def _int32(graph: Graph, size: Any) -> str:
    if isinstance(size, int):
        return const(graph, size, dtypes.int32)
    return cast(graph, as_scalar(graph, size), dtypes.int32)


def _numbers(graph: Graph, count: Any) -> str:
    """1, 2, ... of int32."""
    if isinstance(count, int):
        return consts(graph, list(range(1, count + 1)), dtypes.int32)
    return cast(graph, iota(graph, 1, count, 1), dtypes.int32)


def last_in_use(graph: Graph, total: Result, query: Result, together: Int) -> Result:
    """The last of these places, int32, for every text that the kernel sees."""
    last = graph.make_node("Sub", [total, const(graph, 1, dtypes.int32)])
    batch = 1 if _is_folded(graph, query, together) else dim_of(graph, query, 0)
    return expanded(graph, reshape_to(graph, last, [1]), [batch])


def bias_in_use(
    graph: Graph, bias: Result, total: Result, query: Result, keys: Result, together: Int
) -> Result:
    """What is added to the scores of these places, [B or 1, H or 1, S, places], or of heads and
    queries as the kernel sees them."""
    batch, heads, queries, places = _score_sizes(graph, query, keys)
    outer = list(shape_of(graph, bias))[:-2]
    outer = [1] * (2 - len(outer)) + outer
    wide = expanded(graph, bias, [*outer, queries, places])
    end = reshape_to(graph, cast(graph, total, dtypes.int64), [1])
    part = graph.make_node("Slice", [wide, as_vec(graph, 0), end, as_vec(graph, 3)])
    if not _is_folded(graph, query, together):
        return part
    if all(dims.same(size, 1) for size in outer):
        if together == 1:
            return part
        sizes, folded = [1, together, queries, 1], [1, 1, together * queries, -1]
    else:
        sizes = [batch, heads, queries, 1]
        folded = [1, batch * heads // together, together * queries, -1]
    part = graph.make_node("Expand", [part, as_vec(graph, sizes)])
    return graph.make_node("Reshape", [part, as_vec(graph, folded)])


# -- what the kernel takes


def _is_folded(graph: Graph, query: str, together: int) -> bool:
    """Whether texts and heads are heads of one text: where a head has several queries."""
    return not dims.same(together * dim_of(graph, query, 2), 1)


def heads_of_kernel(graph: Graph, heads: Result, query: Result, together: Int) -> Int:
    """How many heads the kernel sees of the queries, or of a cache [B, G, L, D]."""
    batch, count = shape_of(graph, heads)[:2]
    if not _is_folded(graph, query, together):
        return count
    return batch * count // together if heads == query else batch * count


def queries_for_kernel(graph: Graph, query: Result, together: Int) -> Result:
    """Heads [B, H, S, D] as rows [B, S, H * D], or those of one text."""
    batch, heads, count, width = shape_of(graph, query)
    if not _is_folded(graph, query, together):
        return reshape_to(graph, query, [batch, count, heads * width])
    many, rows = batch * heads // together, together * count
    split = reshape_to(graph, query, [many, rows, width])
    return reshape_to(graph, permuted(graph, split, [1, 0, 2]), [1, rows, many * width])


def cache_for_kernel(graph: Graph, heads: Result, query: Result, together: Int) -> Result:
    """A cache [B, G, L, D], or that of one text [1, B * G, L, D]."""
    if not _is_folded(graph, query, together):
        return heads
    batch, count, places, width = shape_of(graph, heads)
    return reshape_to(graph, heads, [1, batch * count, places, width])


def empty_rows(graph: Graph, keys: Result, query: Result, together: Int) -> Result:
    """No keys and values beside those of the cache: [B, 0, G * D]."""
    batch, heads, _, width = shape_of(graph, keys)
    sizes = [batch, 0, heads * width]
    if _is_folded(graph, query, together):
        sizes = [1, 0, batch * heads * width]
    return zeros_of(graph, sizes, dtypes.float32)


def heads_from_kernel(
    graph: Graph, rows: Result, query: Result, together: Int, like: Result
) -> Result:
    """The kernel's rows as heads [B, H, S, D], in the shape of another result of them."""
    batch, heads, count, width = shape_of(graph, query)
    if _is_folded(graph, query, together):
        many, each = batch * heads // together, together * count
        rows = permuted(graph, reshape_to(graph, rows, [each, many, width]), [1, 0, 2])
    return reshape_to(graph, rows, shape_of(graph, like))
