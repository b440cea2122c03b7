"""Lower-case words of the rules for rotary embeddings in ONNX Runtime's operators."""

from __future__ import annotations

import numpy as np

from ortable import dims, dtypes
from ortable.ir import Graph
from ortable.passes.rewrite.matcher import small_constant
from ortable.passes.rewrite.sources import is_number, maker_of, whole_constant
from ortable.prelude.facts import Bool, Result, dim_of, shape_of
from ortable.prelude.values import consts
from ortable_generated.onnx.traits import RANDOM

from .common import is_float32, known_rank
from .masks import is_half

__all__ = [
    "cache_of_all",
    "one_cache",
    "repeats_halves",
    "rotary_cache",
    "same_angles",
    "starts_at_zero",
    "takes_half",
]

_DEEP = 8  # how far above a table of angles its halves are looked for


def takes_half(
    graph: Graph, x: Result, first: Bool, starts: Result, ends: Result, axes: Result
) -> Bool:
    """Whether a Slice of heads [B, H, L, D] with these inputs takes the first, or the second, half
    of D."""
    return known_rank(graph, x) == 4 and is_half(graph, starts, ends, axes, x, 0 if first else 1)


def repeats_halves(graph: Graph, table: Result, x: Result) -> Bool:
    """Whether a table that heads [B, H, L, D] are multiplied with is [L, D], perhaps with sizes of
    1 before, and holds the same numbers in both halves of D."""
    if not is_float32(graph, table) or known_rank(graph, x) != 4 or not graph.has_shape(table):
        return False
    shape, wanted = shape_of(graph, table), shape_of(graph, x)[2:]
    if not 2 <= len(shape) <= 4 or not all(map(dims.same, shape[-2:], wanted)):
        return False
    if not all(dims.same(each, 1) for each in shape[:-2]):
        return False
    known = whole_constant(graph, table)
    if known is None:
        return _is_doubled(graph, table, _DEEP)
    half = known.shape[-1] // 2
    return np.array_equal(known[..., :half], known[..., half:])


def rotary_cache(graph: Graph, table: Result) -> Result:
    """The first half of such a table, [L, D / 2]."""
    length, width = shape_of(graph, table)[-2:]
    known = whole_constant(graph, table)
    if known is not None:
        half = known[..., : width // 2].reshape(length, width // 2)
        return _stored(graph, f"{table}_half", half)
    ends = [consts(graph, [each], dtypes.int64) for each in (0, width // 2, -1)]
    half = graph.make_node("Slice", [table, *ends])
    flat = consts(graph, [-1, width // 2], dtypes.int64)
    found = graph.make_node("Reshape", [half, flat])
    graph.set_shape(found, (length, width // 2))
    return found


def _stored(graph: Graph, name: str, array: np.ndarray) -> str:
    """An initializer with this value: that of another layer, if it has the name already."""
    stored = graph.initializers_dict.get(name)
    if isinstance(stored, np.ndarray) and np.array_equal(stored, array):
        return name
    return graph.make_initializer(graph.unique_name(name), np.ascontiguousarray(array))


def _is_doubled(graph: Graph, x: str, depth: int) -> bool:
    """Whether the last axis is one half twice: a Concat of a result and itself, and what treats all
    elements alike after it."""
    if depth == 0:
        return False
    info = graph.values.get(x)
    node = None if info is None else info.producer
    if node is None:
        return False
    if node.key == "Concat":
        last = node.attrs.get("axis") in (-1, known_rank(graph, x) - 1)
        return last and len(node.inputs) == 2 and node.inputs[0] == node.inputs[1]
    if node.key in ("Cos", "Sin", "Cast"):
        return _is_doubled(graph, node.inputs[0], depth - 1)
    if node.key == "Mul":
        one = [_is_scalar(graph, each) for each in node.inputs]
        if True not in one:
            return False
        return _is_doubled(graph, node.inputs[0 if one[1] else 1], depth - 1)
    if node.key in ("Unsqueeze", "Reshape"):
        sizes = [graph.has_shape(each) and dim_of(graph, each, -1) for each in (x, node.inputs[0])]
        same = bool(sizes[0] and sizes[1]) and dims.same(sizes[0], sizes[1])
        return same and _is_doubled(graph, node.inputs[0], depth - 1)
    return False


def _is_scalar(graph: Graph, x: str) -> bool:
    array = small_constant(graph, x)
    return array is not None and array.size == 1 and array.ndim == 0


def starts_at_zero(graph: Graph, positions: Result) -> Bool:
    """Whether the places of a RotaryEmbedding are 0, 1, 2... for all sequences."""
    return known_rank(graph, positions) == 1 and is_number(graph, positions, 0)


def same_angles(graph: Graph, a: Result, b: Result) -> Bool:
    """Whether two tables of angles are one: a result, equal constants, or computed in the same way
    from such results."""
    return _same_result(graph, a, b, _DEEP)


def _same_result(graph: Graph, a: str, b: str, depth: int) -> bool:
    if a == b:
        return True
    left, right = whole_constant(graph, a), whole_constant(graph, b)
    if left is not None and right is not None:
        return left.dtype == right.dtype and np.array_equal(left, right)
    info = graph.values.get(a), graph.values.get(b)
    first, second = (None if each is None else each.producer for each in info)
    if first is None or second is None or depth == 0 or first.key != second.key:
        return False
    if first.key in RANDOM:
        return False
    if str(first.attrs) != str(second.attrs) or len(first.inputs) != len(second.inputs):
        return False
    if list(first.outputs).index(a) != list(second.outputs).index(b):
        return False
    pairs = zip(first.inputs, second.inputs, strict=True)
    return all(_same_result(graph, x, y, depth - 1) for x, y in pairs)


def one_cache(graph: Graph, cache: Result) -> Bool:
    """Whether a cache of RotaryEmbedding, [B, L, D / 2], is the same for all sequences."""
    return _one_cache(graph, cache) is not None


def cache_of_all(graph: Graph, cache: Result) -> Result:
    """Such a cache for one sequence, [L, D / 2]."""
    single = _one_cache(graph, cache)
    assert single is not None
    length, width = shape_of(graph, single)[-2:]
    known = whole_constant(graph, single)
    if known is not None:
        return _stored(graph, f"{single}_rows", known.reshape(-1, *known.shape[-2:])[0])
    found = graph.make_node("Squeeze", [single, consts(graph, [0], dtypes.int64)])
    graph.set_shape(found, (length, width))
    return found


def _one_cache(graph: Graph, cache: str) -> str | None:
    """[1, L, D / 2], or a constant that repeats it."""
    node = maker_of(graph, cache, "Expand")
    found = cache if node is None else node.inputs[0]
    if known_rank(graph, found) != 3 or not graph.has_shape(found):
        return None
    if dims.same(shape_of(graph, found)[0], 1):
        return found
    known = whole_constant(graph, found)
    if known is None or not known.size or not bool((known == known[:1]).all()):
        return None
    return found
