"""Lower-case words of the rules for ONNX Runtime's attention operators.

Those operators take queries, keys and values as rows [batch, length, heads * width]; graphs hold
them as heads [batch, heads, length, width]. The words look at what made a result, so that a
Transpose and a Reshape on the way are undone and not done again.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ortable import dims, dtypes
from ortable.errors import BuilderError
from ortable.ir import Graph, initializers
from ortable.passes.rewrite.matcher import small_constant
from ortable.passes.rewrite.sources import is_number, maker_of, whole_constant
from ortable.prelude.facts import Bool, Float, Result, dim_of, is_static, shape_of
from ortable.prelude.shapes import expanded
from ortable.prelude.values import as_scalar, cast, consts, filled, permuted, reshape_to

from .common import is_float32, known_rank

__all__ = [
    "are_grouped_rows",
    "are_heads",
    "are_rows",
    "attention_scale",
    "empty_rows_are_zero",
    "heads_before_repeat",
    "is_causal_mask",
    "joined_rows",
    "last_places",
    "masks_scores",
    "sees_itself",
    "total_length",
    "turned_rows",
    "whole_mask",
]

_ROWS = [0, 2, 1, 3]  # [B, L, H, D] <-> [B, H, L, D]
_TURNED = [0, 2, 3, 1]  # [B, L, H, D] -> [B, H, D, L]


# -- sizes


def are_heads(graph: Graph, query: Result, key: Result, value: Result) -> Bool:
    """Whether these are float32 heads of one attention: [B, H, S, D], the keys turned [B, H, D, T],
    [B, H, T, E], with H, D and E known."""
    if not all(is_float32(graph, x) and known_rank(graph, x) == 4 for x in (query, key, value)):
        return False
    q, k, v = (shape_of(graph, x) for x in (query, key, value))
    fixed = is_static([q[1], k[1], v[1], q[3], k[2], v[3]]) and v[1] > 0 and v[3] > 0
    pairs = [(q[0], k[0]), (q[0], v[0]), (q[1], k[1]), (q[1], v[1]), (q[3], k[2]), (k[3], v[2])]
    return fixed and all(dims.same(a, b) for a, b in pairs)


def attention_scale(graph: Graph, factor: Result | None, divisor: Result | None) -> Float:
    """What scores are multiplied by; 0, which the operators take for their own default, when it is
    not known."""
    given = factor if factor is not None else divisor
    if given is None:
        return 1.0
    array = small_constant(graph, given)
    if array is None or array.size != 1:
        return 0.0
    value = float(array.reshape(-1)[0])
    if factor is None:
        value = 1.0 / value if value else 0.0
    return value if math.isfinite(value) else 0.0


# -- rows of heads


def are_rows(graph: Graph, query: Result, turned: Result, value: Result) -> Bool:
    """Whether heads as in ``are_heads`` are rows that were only split and transposed."""
    if not are_heads(graph, query, turned, value):
        return False
    found = _split_rows(graph, query, _ROWS), _key_rows(graph, turned)
    return None not in found and _split_rows(graph, value, _ROWS) is not None


def are_grouped_rows(graph: Graph, query: Result, key: Result, values: Result) -> Bool:
    """Whether heads [B, H, L, D], [B, G, L, D] and [B, H, L, D], repeated from [B, G, L, D],
    are float32 rows that were only split and transposed, with H, G and D known."""
    value = heads_before_repeat(graph, values)
    heads = (query, key, value)
    if not all(is_float32(graph, x) and known_rank(graph, x) == 4 for x in (*heads, values)):
        return False
    q, k, v = (list(shape_of(graph, x)) for x in heads)
    if not is_static([q[1], q[3], k[1]]) or not _all_same(k, v) or q[1] % max(k[1], 1):
        return False
    if not _all_same([q[0], *q[2:]], [k[0], *k[2:]]) or dim_of(graph, values, 1) != q[1]:
        return False
    return all(_split_rows(graph, x, _ROWS) is not None for x in heads)


def heads_before_repeat(graph: Graph, heads: Result) -> Result:
    """[B, G, L, D] where heads [B, H, L, D] repeat each of G heads; the heads themselves where they
    do not."""
    joined = maker_of(graph, heads, "Reshape")
    wide = None if joined is None else maker_of(graph, joined.inputs[0], "Expand")
    single = None if wide is None else maker_of(graph, wide.inputs[0], "Unsqueeze")
    if wide is None or single is None or not graph.has_shape(wide.outputs[0]):
        return heads
    known = [single.inputs[0], single.outputs[0], wide.outputs[0], heads]
    if not all(map(graph.has_shape, known)):
        return heads
    before, _, spread, after = (list(graph.get_shape(x)) for x in known)
    axes = small_constant(graph, single.inputs[1])
    if len(before) != 4 or axes is None or axes.tolist() != [2]:
        return heads
    times = spread[2]
    groups = [before[0], before[1], times, *before[2:]]
    wanted = [before[0], before[1] * times, *before[2:]]
    same = _all_same(spread, groups) and _all_same(after, wanted)
    return known[0] if same and isinstance(times, int) else heads


def _all_same(a: list[Any], b: list[Any]) -> bool:
    return len(a) == len(b) and all(map(dims.same, a, b))


def joined_rows(graph: Graph, heads: Result) -> Result:
    """[B, H, L, D] as rows [B, L, H * D]; those that the heads were made of where there are."""
    split = _split_rows(graph, heads, _ROWS)
    return _joined(graph, permuted(graph, heads, _ROWS) if split is None else split)


def turned_rows(graph: Graph, heads: Result) -> Result:
    """Turned heads [B, H, D, L] as rows [B, L, H * D]."""
    split = _key_rows(graph, heads)
    return _joined(graph, permuted(graph, heads, [0, 3, 1, 2]) if split is None else split)


def _split_rows(graph: Graph, heads: str, perm: list[int]) -> str | None:
    """What a Transpose with this permutation made the heads of: [B, L, H, D]."""
    node = maker_of(graph, heads, "Transpose")
    if node is None or list(node.attrs.get("perm") or ()) != perm:
        return None
    return node.inputs[0]


def _key_rows(graph: Graph, heads: str) -> str | None:
    """[B, L, H, D] of turned heads, through one Transpose or two."""
    found = _split_rows(graph, heads, _TURNED)
    if found is not None:
        return found
    upright = _split_rows(graph, heads, [0, 1, 3, 2])
    return None if upright is None else _split_rows(graph, upright, _ROWS)


def _joined(graph: Graph, split: str) -> str:
    """[B, L, H, D] as [B, L, H * D]; what it was split from where there is such a result."""
    batch, length, heads, width = shape_of(graph, split)
    sizes = [batch, length, heads * width]
    node = maker_of(graph, split, "Reshape")
    if node is not None and graph.has_shape(node.inputs[0]):
        before = graph.get_shape(node.inputs[0])
        if len(before) == 3 and all(map(dims.same, before, sizes)):
            return node.inputs[0]
    kept = consts(graph, [0, 0, heads * width], dtypes.int64)
    found = graph.make_node("Reshape", [split, kept])
    graph.set_shape(found, tuple(sizes))
    return found


# -- masks


def masks_scores(graph: Graph, mask: Result, query: Result, turned: Result) -> Bool:
    """Whether a mask, of bools or added to the scores, has the sizes that the operators take:
    [B or 1, H or 1, S, T], where leading sizes may be missing and S and T may be 1."""
    if not graph.has_shape(mask) or not 2 <= len(graph.get_shape(mask)) <= 4:
        return False
    given = graph.get_shape(mask)
    heads = [dim_of(graph, query, 0), dim_of(graph, query, 1)]
    wanted = [*heads, *_score_sizes(graph, query, turned)][-len(given) :]
    return all(dims.same(a, 1) or dims.same(a, b) for a, b in zip(given, wanted, strict=True))


def whole_mask(graph: Graph, mask: Result, query: Result, turned: Result) -> Result:
    """The mask at its full length and width, which the operators do not broadcast; None for a
    constant that hides nothing."""
    if _hides_nothing(graph, mask):
        return None
    leading = list(shape_of(graph, mask))[:-2]
    return expanded(graph, mask, [*leading, *_score_sizes(graph, query, turned)])


def _hides_nothing(graph: Graph, mask: str) -> bool:
    known = whole_constant(graph, mask)
    if known is None:
        return False
    return bool(known.all() if known.dtype == bool else (known == 0).all())


def _score_sizes(graph: Graph, query: str, turned: str) -> list[Any]:
    return [dim_of(graph, query, -2), dim_of(graph, turned, -1)]


def is_causal_mask(graph: Graph, mask: Result, query: Result, turned: Result) -> Bool:
    """Whether a mask lets every place look at itself and at what is before it, and at nothing
    else, for all heads: a constant, of bools or of 0 and -inf, or Trilu of True."""
    size, keys = _score_sizes(graph, query, turned)
    if not dims.same(size, keys) or not graph.has_shape(mask):
        return False
    shape = graph.get_shape(mask)
    if len(shape) < 2 or not all(dims.same(each, size) for each in shape[-2:]):
        return False
    known = whole_constant(graph, mask)
    if known is not None:
        before = np.tri(known.shape[-1], dtype=bool)
        wanted = before if known.dtype == bool else np.where(before, 0.0, -np.inf)
        return bool(known.size and (known == wanted).all())
    node = maker_of(graph, mask, "Trilu")
    if node is None or node.attrs.get("upper", 1) != 0 or len(node.inputs) > 1:
        return False
    return _is_true(graph, node.inputs[0])


def _is_true(graph: Graph, x: str) -> bool:
    """Whether every element is True: a constant, perhaps expanded to sizes that are not known."""
    node = maker_of(graph, x, "Expand")
    known = whole_constant(graph, x if node is None else node.inputs[0])
    if known is not None:
        return bool(known.all())
    node = maker_of(graph, x, "ConstantOfShape")
    value = None if node is None else node.attrs.get("value")
    if value is None:
        return False
    try:
        return bool(initializers.to_numpy(value, x).all())
    except (BuilderError, AttributeError, TypeError):
        return False


# -- rows that see nothing


def empty_rows_are_zero(graph: Graph, mask: Result, seen: Result | None) -> Bool:
    """Whether the output has 0 where the mask hides every key, and is only changed there.

    ``seen``: what a Where reads that puts 0 there; None without one. Either the Where asks the
    mask, or the mask is a constant and the Where agrees with it."""
    known = whole_constant(graph, mask)
    if known is not None:
        rows = _rows_that_see(known)
        if seen is None:
            return bool(rows.all())
        given = whole_constant(graph, seen)
        if given is not None and graph.get_type(mask) != dtypes.boolean:
            given = ~given
        if given is not None:
            return given.shape == rows.shape and bool((given == rows).all())
    if seen is None:
        return False
    if graph.get_type(mask) != dtypes.boolean:
        node = maker_of(graph, seen, "Equal")
        if node is None or not is_number(graph, node.inputs[1], -math.inf):
            return False
        return _is_row_max(graph, node.inputs[0], mask)
    node = maker_of(graph, seen, "Cast")
    node = None if node is None else maker_of(graph, node.inputs[0], "ReduceMax")
    before = None if node is None else maker_of(graph, node.inputs[0], "Cast")
    if node is None or before is None or before.inputs[0] != mask:
        return False
    return _is_row_max(graph, node.outputs[0], before.outputs[0])


def sees_itself(graph: Graph, mask: Result, seen: Result | None, hidden: Result | None) -> Bool:
    """Whether the Where that puts 0 in rows without a key does nothing beside a causal mask: there
    is none, or it asks the mask. ``seen`` goes with a mask of bools, ``hidden`` with another."""
    if seen is None and hidden is None:
        return True
    if (hidden is None) != (graph.get_type(mask) == dtypes.boolean):
        return False
    return empty_rows_are_zero(graph, mask, seen if hidden is None else hidden)


def _rows_that_see(mask: np.ndarray) -> np.ndarray:
    if mask.dtype == bool:
        return np.asarray(mask.any(axis=-1, keepdims=True))
    return np.asarray(mask.max(axis=-1, keepdims=True) != -np.inf)


def _is_row_max(graph: Graph, x: str, source: str) -> bool:
    """Whether a result is the largest element of each row of another one, as a column."""
    node = maker_of(graph, x, "ReduceMax")
    if node is None or node.inputs[0] != source or not node.attrs.get("keepdims", 1):
        return False
    axes = None if len(node.inputs) < 2 else small_constant(graph, node.inputs[1])
    last = known_rank(graph, source) - 1
    return axes is not None and axes.tolist() in ([-1], [last])


# -- GroupQueryAttention


def last_places(graph: Graph, query: Result) -> Result:
    """The place of the last key of every sequence, int32[B]."""
    batch, length = dim_of(graph, query, 0), dim_of(graph, query, -2)
    if isinstance(length, int):
        return filled(graph, [batch], length - 1, dtypes.int32)
    last = cast(graph, as_scalar(graph, length - 1), dtypes.int32)
    return expanded(graph, reshape_to(graph, last, [1]), [batch])


def total_length(graph: Graph, query: Result) -> Result:
    """The length of sequences, int32."""
    return cast(graph, as_scalar(graph, dim_of(graph, query, -2)), dtypes.int32)
