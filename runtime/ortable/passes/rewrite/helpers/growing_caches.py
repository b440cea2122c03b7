"""Helpers of the rules about attention whose new keys and values are appended to a cache.

ONNX Runtime's GroupQueryAttention appends and attends in one node, and writes in place where the
cache of the result is the one of the input. Called by rules of ort_cached_attention.
"""

from __future__ import annotations

from typing import Any

from ortable import dims, dtypes
from ortable.ir import Graph
from ortable.passes.analysis.constants import find_producer
from ortable.prelude.facts import Bool, Float, Result, Results, dim_of, is_static, shape_of
from ortable.prelude.shapes import expanded
from ortable.prelude.values import const, reshape_to

from .attention import int32_size, merged_heads
from .caches import as_numbers, scale_operand
from .masks import empty_rows_are_zero
from .numbers import is_float32
from .shapes import known_rank

__all__ = ["append_and_attend", "are_appended_heads", "zeroes_empty_rows"]

_KERNEL = "com.microsoft::GroupQueryAttention"


def are_appended_heads(
    graph: Graph, query: Result, key: Result, value: Result, past_key: Result, past_value: Result
) -> Bool:
    """Whether float32 queries [B, H, S, D] may attend to caches [B, G, P, D] of the kernel.

    The key and the value, [B, G, S, D], are what the caches grow by. H, G and D are known, and D is
    a multiple of 8, as the kernel requires.
    """
    results = (query, key, value, past_key, past_value)
    if not all(is_float32(graph, x) and known_rank(graph, x) == 4 for x in results):
        return False
    q, k, v, old_k, old_v = (list(shape_of(graph, x)) for x in results)
    if not is_static([q[1], q[3], k[1]]) or min(q[1], k[1], q[3]) < 1 or q[1] % k[1] or q[3] % 8:
        return False
    same = [(q[0], k[0]), (q[2], k[2]), (q[3], k[3]), *zip(k, v, strict=True)]
    same += [(k[axis], old_k[axis]) for axis in (0, 1, 3)] + list(zip(old_k, old_v, strict=True))
    return all(dims.always_equal(a, b) for a, b in same)


def zeroes_empty_rows(graph: Graph, mask: Result, attended: Result | None) -> Bool:
    """Whether the Where that zeroes rows without a key is absent or computed from a bool mask.

    A mask of numbers may hide a whole row by the lowest float, whose average torch returns. The
    mask has to be the same for all heads.
    """
    if attended is None:
        return True
    heads = list(shape_of(graph, attended))[-3:-2]
    is_bool = graph.get_type(mask) == dtypes.boolean
    return is_bool and heads in ([], [1]) and empty_rows_are_zero(graph, mask, attended)


def append_and_attend(
    graph: Graph,
    query: Result,
    key: Result,
    value: Result,
    past_key: Result,
    past_value: Result,
    mask: Result,
    attended: Result | None,
    scale: Float,
    softcap: Float,
) -> Results:
    """Return rows [B, S, H * D] of the attention over the caches and the new heads, and the caches.

    A ``softcap`` above 0 bounds scores to softcap * tanh(score / softcap) before the mask is added.
    With ``attended``, queries to which the mask shows no key give 0, and not NaN. The kernel's
    sink for heads gives 0, too, but takes 15 % of its time at one token and 1,000 keys.

    The queries are scaled before the kernel (`scale_operand`).
    """
    batch, heads, length, width = shape_of(graph, query)
    groups = dim_of(graph, key, 1)
    total = dim_of(graph, past_key, 2) + length
    rows = [_merge_rotated_heads(graph, query, scale)]
    rows += [_merge_rotated_heads(graph, x, 1.0) for x in (key, value)]
    total_size = int32_size(graph, total)
    last_key = graph.make_node("Sub", [total_size, const(graph, 1, dtypes.int32)])
    last_keys = expanded(graph, reshape_to(graph, last_key, [1]), [batch])
    bias = as_numbers(graph, mask)
    outer = list(shape_of(graph, bias))[:-2]
    bias = expanded(graph, bias, [*[1] * (2 - len(outer)), *outer, length, total])
    inputs: list[Any] = [*rows, past_key, past_value, last_keys, total_size, None, None, None, bias]
    domain, _, name = _KERNEL.rpartition("::")
    results = graph.make_node(
        name,
        inputs,
        3,
        domain=domain,
        num_heads=heads,
        kv_num_heads=groups,
        scale=1.0,
        softcap=softcap or None,
        causal=0,
    )
    graph.set_shape(results[0], (batch, length, heads * width))
    for cache in results[1:]:
        graph.set_shape(cache, (batch, groups, total, width))
    if attended is None:
        return list(results)
    sizes = list(shape_of(graph, attended))
    flags = reshape_to(graph, attended, [*sizes[:-3], *sizes[-2:]])
    attending_rows = graph.make_node(
        "Where", [flags, results[0], const(graph, 0.0, dtypes.float32)]
    )
    return [attending_rows, *results[1:]]


def _merge_rotated_heads(graph: Graph, heads: str, scale: float) -> str:
    """Return scaled heads [B, H, L, D] as rows; a RotaryEmbedding of heads becomes one of rows.

    The tables of a rotation, which the layers share, are scaled where it rotates whole heads.
    """
    node = find_producer(graph, heads, "RotaryEmbedding")
    if node is None or len(node.inputs) > 3:
        return scale_operand(graph, _merge_heads(graph, heads), scale)
    batch, count, length, width = shape_of(graph, heads)
    rows, tables = _merge_heads(graph, node.inputs[0]), node.inputs[1:]
    is_whole = node.attrs.get("rotary_embedding_dim", 0) in (0, width)
    if is_whole:
        tables = [scale_operand(graph, table, scale) for table in tables]
    attributes = {**node.attrs, "num_heads": count}
    rotated = graph.make_node("RotaryEmbedding", [rows, *tables], **attributes)
    graph.set_shape(rotated, (batch, length, count * width))
    return rotated if is_whole else scale_operand(graph, rotated, scale)


def _merge_heads(graph: Graph, heads: str) -> str:
    batch, count, length, width = shape_of(graph, heads)
    if dims.always_equal(count, 1) and find_producer(graph, heads, "Transpose") is None:
        return reshape_to(graph, heads, [batch, length, width])
    return merged_heads(graph, heads)
