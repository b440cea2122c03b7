"""Helpers of the rules about attention: the operator Attention, and ONNX Runtime's operators.

They read heads [batch, heads, length, width], and return facts or rows [batch, length,
heads * width], which ONNX Runtime's operators read. If a Reshape and a Transpose made the heads
from such rows, the helpers return the existing rows. Called by rules of attention, ort_attention
and ort_rotary.
"""

from __future__ import annotations

import math
from typing import Any

from ortable import dims, dtypes
from ortable.ir import Graph
from ortable.passes.analysis.constants import find_producer, small_constant
from ortable.passes.rewrite.helpers.numbers import is_float32
from ortable.passes.rewrite.helpers.shapes import known_rank
from ortable.prelude.facts import Bool, Float, Int, Result, dim_of, is_static, shape_of
from ortable.prelude.shapes import expanded
from ortable.prelude.values import as_scalar, cast, const, consts, filled, permuted, reshape_to

__all__ = [
    "are_grouped_split_rows",
    "are_split_rows",
    "attention_scale",
    "head_groups",
    "heads_before_repeat",
    "last_positions",
    "merged_heads",
    "repeats_heads",
    "total_length",
    "untransposed_keys",
]

_SPLIT_PERM = [0, 2, 1, 3]  # [B, L, H, D] <-> [B, H, L, D]
_KEY_PERM = [0, 2, 3, 1]  # [B, L, H, D] -> [B, H, D, L]
_SWAP_LAST_TWO = (0, 1, 3, 2)


# -- sizes


def are_heads(graph: Graph, query: Result, key: Result, value: Result) -> Bool:
    """Whether these are float32 heads of one attention.

    The query is [B, H, S, D], the transposed keys are [B, H, D, T] and the values [B, H, T, E]; H,
    D and E are known.
    """
    if not all(is_float32(graph, x) and known_rank(graph, x) == 4 for x in (query, key, value)):
        return False
    q, k, v = (shape_of(graph, x) for x in (query, key, value))
    is_known = is_static([q[1], k[1], v[1], q[3], k[2], v[3]]) and v[1] > 0 and v[3] > 0
    pairs = [(q[0], k[0]), (q[0], v[0]), (q[1], k[1]), (q[1], v[1]), (q[3], k[2]), (k[3], v[2])]
    return is_known and all(dims.always_equal(a, b) for a, b in pairs)


def attention_scale(graph: Graph, factor: Result | None, divisor: Result | None) -> Float:
    """Return the factor of scores; 0 if it is unknown, which selects the operator's default."""
    scale = factor if factor is not None else divisor
    if scale is None:
        return 1.0
    array = small_constant(graph, scale)
    if array is None or array.size != 1:
        return 0.0
    value = float(array.reshape(-1)[0])
    if factor is None:
        value = 1.0 / value if value else 0.0
    return value if math.isfinite(value) else 0.0


# -- rows of heads


def are_split_rows(graph: Graph, query: Result, transposed: Result, value: Result) -> Bool:
    """Whether three results are heads (`are_heads`) that are rows, only split and transposed."""
    if not are_heads(graph, query, transposed, value):
        return False
    rows = _split_rows(graph, query, _SPLIT_PERM), _key_rows(graph, transposed)
    return None not in rows and _split_rows(graph, value, _SPLIT_PERM) is not None


def are_grouped_split_rows(graph: Graph, query: Result, key: Result, values: Result) -> Bool:
    """Whether heads that share keys are float32 rows that were only split and transposed.

    The heads are [B, H, L, D], [B, G, L, D] and [B, H, L, D], the last repeated from [B, G, L, D];
    H, G and D are known.
    """
    value = heads_before_repeat(graph, values)
    heads = (query, key, value)
    if not all(is_float32(graph, x) and known_rank(graph, x) == 4 for x in (*heads, values)):
        return False
    q, k, v = (list(shape_of(graph, x)) for x in heads)
    if not is_static([q[1], q[3], k[1]]) or not _all_same(k, v) or q[1] % max(k[1], 1):
        return False
    if not _all_same([q[0], *q[2:]], [k[0], *k[2:]]) or dim_of(graph, values, 1) != q[1]:
        return False
    return all(_split_rows(graph, x, _SPLIT_PERM) is not None for x in heads)


def heads_before_repeat(graph: Graph, heads: Result) -> Result:
    """Return the heads [B, G, L, D] that heads [B, H, L, D] repeat, else the heads themselves."""
    reshape = find_producer(graph, heads, "Reshape")
    expand = None if reshape is None else find_producer(graph, reshape.inputs[0], "Expand")
    unsqueeze = None if expand is None else find_producer(graph, expand.inputs[0], "Unsqueeze")
    if expand is None or unsqueeze is None or not graph.has_shape(expand.outputs[0]):
        return heads
    results = [unsqueeze.inputs[0], unsqueeze.outputs[0], expand.outputs[0], heads]
    if not all(map(graph.has_shape, results)):
        return heads
    before, _, expanded_shape, after = (list(graph.get_shape(x)) for x in results)
    axes = small_constant(graph, unsqueeze.inputs[1])
    if len(before) != 4 or axes is None or axes.tolist() != [2]:
        return heads
    repeats = expanded_shape[2]
    expected_expanded = [before[0], before[1], repeats, *before[2:]]
    expected_merged = [before[0], before[1] * repeats, *before[2:]]
    is_repeat = _all_same(expanded_shape, expected_expanded) and _all_same(after, expected_merged)
    return results[0] if is_repeat and isinstance(repeats, int) else heads


def _all_same(a: list[Any], b: list[Any]) -> bool:
    return len(a) == len(b) and all(map(dims.always_equal, a, b))


def merged_heads(graph: Graph, heads: Result, transposed: Bool = False) -> Result:
    """Return heads [B, H, L, D], or ``transposed`` [B, H, D, L], as rows [B, L, H * D]."""
    split = _key_rows(graph, heads) if transposed else _split_rows(graph, heads, _SPLIT_PERM)
    order = [0, 3, 1, 2] if transposed else _SPLIT_PERM
    return _merge_rows(graph, permuted(graph, heads, order) if split is None else split)


def _split_rows(graph: Graph, heads: str, perm: list[int]) -> str | None:
    """Return the rows [B, L, H, D] that a Transpose with this permutation turned into heads."""
    node = find_producer(graph, heads, "Transpose")
    if node is None or list(node.attrs.get("perm") or ()) != perm:
        return None
    return node.inputs[0]


def _key_rows(graph: Graph, heads: str) -> str | None:
    """Return the rows [B, L, H, D] of transposed heads, looking through one or two Transposes."""
    rows = _split_rows(graph, heads, _KEY_PERM)
    if rows is not None:
        return rows
    upright = _split_rows(graph, heads, [0, 1, 3, 2])
    return None if upright is None else _split_rows(graph, upright, _SPLIT_PERM)


def _merge_rows(graph: Graph, split: str) -> str:
    """Return [B, L, H, D] as [B, L, H * D]; reuse the input of a Reshape that split that."""
    batch, length, heads, width = shape_of(graph, split)
    sizes = [batch, length, heads * width]
    node = find_producer(graph, split, "Reshape")
    if node is not None and graph.has_shape(node.inputs[0]):
        input_shape = graph.get_shape(node.inputs[0])
        if len(input_shape) == 3 and all(map(dims.always_equal, input_shape, sizes)):
            return node.inputs[0]
    target = consts(graph, [0, 0, heads * width], dtypes.int64)
    merged = graph.make_node("Reshape", [split, target])
    graph.set_shape(merged, tuple(sizes))
    return merged


# -- GroupQueryAttention


def last_positions(graph: Graph, query: Result) -> Result:
    """Return the position of the last key of every sequence, int32[B]."""
    batch, length = dim_of(graph, query, 0), dim_of(graph, query, -2)
    if isinstance(length, int):
        return filled(graph, [batch], length - 1, dtypes.int32)
    last_position = cast(graph, as_scalar(graph, length - 1), dtypes.int32)
    return expanded(graph, reshape_to(graph, last_position, [1]), [batch])


def total_length(graph: Graph, query: Result) -> Result:
    """Return the length of sequences as an int32 scalar."""
    return int32_size(graph, dim_of(graph, query, -2))


def int32_size(graph: Graph, size: Any) -> str:
    """Return a size as an int32 scalar; ONNX Runtime infers shapes from it where it is constant."""
    if isinstance(size, int):
        return const(graph, size, dtypes.int32)
    return cast(graph, as_scalar(graph, size), dtypes.int32)


# -- the operator Attention


def untransposed_keys(graph: Graph, keys: Result) -> Result:
    """Return keys with their features last; an existing Transpose is merged with the new one."""
    node = graph.values[keys].producer
    if node is None or node.op_type != "Transpose" or node.domain:
        return permuted(graph, keys, list(_SWAP_LAST_TWO))
    order = list(node.attrs["perm"])
    return permuted(graph, node.inputs[0], [order[axis] for axis in _SWAP_LAST_TWO])


def head_groups(graph: Graph, x: Result, shared: Result) -> Int:
    """Return the heads of ``x`` [B, H, N, D] per head of ``shared`` [B, G, L, E]; 0 if unknown."""
    if not all(graph.has_shape(result) and graph.get_rank(result) == 4 for result in (x, shared)):
        return 0
    shape, shared_shape = graph.get_shape(x), graph.get_shape(shared)
    heads, groups = shape[1], shared_shape[1]
    if (
        type(heads) is not int
        or type(groups) is not int
        or not dims.always_equal(shape[0], shared_shape[0])
    ):
        return 0
    return heads // groups if groups > 0 and heads % groups == 0 else 0


def repeats_heads(graph: Graph, x: Result, repeated: Result) -> Bool:
    """Whether ``repeated`` repeats each head of ``x`` consecutively and no other axis changes."""
    if not (graph.has_shape(x) and graph.has_shape(repeated)):
        return False
    shape, target = graph.get_shape(x), graph.get_shape(repeated)
    if (
        len(shape) != 4
        or len(target) != 4
        or type(shape[1]) is not int
        or type(target[1]) is not int
    ):
        return False
    other_axes = zip((shape[0], *shape[2:]), (target[0], *target[2:]), strict=True)
    repeated_evenly = shape[1] > 0 and target[1] % shape[1] == 0
    return repeated_evenly and all(dims.always_equal(a, b) for a, b in other_axes)
