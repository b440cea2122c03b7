"""Words of the rules about rotary embeddings, in ONNX's operator and in ONNX Runtime's: tables of
cosines and sines whose halves are equal. In come tables of a match; out go facts and the caches
that the operators take. Called by rules of rotary and ort_rotary."""

from __future__ import annotations

import numpy as np

from ortable import dims, dtypes
from ortable.ir import Graph
from ortable.passes.analysis.constants import is_number, maker_of, whole_constant
from ortable.passes.analysis.equality import same_result
from ortable.passes.analysis.repetition import halves_are_equal
from ortable.prelude.facts import Bool, Result, shape_of
from ortable.prelude.values import as_vec, consts

from .numbers import is_float32
from .shapes import known_rank
from .slices import slices_half

__all__ = [
    "half_table",
    "is_rotary_table",
    "is_shared_cache",
    "repeats_halves",
    "rotary_cache",
    "same_angles",
    "shared_cache",
    "slices_half_of_heads",
    "starts_at_zero",
]


# -- ONNX's operator


def is_rotary_table(graph: Graph, table: Result, x: Result) -> Bool:
    """Whether a table of cosines or sines of rank 4 has a row for each position of ``x``, one
    for all heads, with equal halves."""
    if not (graph.has_shape(table) and graph.has_shape(x)):
        return False
    own, wanted = graph.get_shape(table), graph.get_shape(x)
    if len(own) != 4 or len(wanted) != 4 or own[1] != 1:
        return False
    batch = dims.same(own[0], 1) or dims.same(own[0], wanted[0])
    same = all(map(dims.same, own[2:], wanted[2:]))
    return batch and same and not dims.same(own[3], 0) and halves_are_equal(graph, table)


def half_table(graph: Graph, table: Result, x: Result) -> Result:
    """The first half of a table of rank 4 without its axis for heads, one for each sample of
    ``x``: a cache of RotaryEmbedding."""
    shape = graph.get_shape(x)
    half = shape[-1] // 2
    bounds = [consts(graph, [value], dtypes.int64) for value in (0, half, 3)]
    cut = graph.make_node("Slice", [table, *bounds])
    flat = graph.make_node("Squeeze", [cut, consts(graph, [1], dtypes.int64)])
    if dims.same(graph.get_shape(table)[0], shape[0]):
        return flat
    return graph.make_node("Expand", [flat, as_vec(graph, [shape[0], shape[2], half])])


# -- ONNX Runtime's operator


def slices_half_of_heads(
    graph: Graph, x: Result, first: Bool, starts: Result, ends: Result, axes: Result
) -> Bool:
    """Whether a Slice of heads [B, H, L, D] with these inputs takes the first, or the second, half
    of D."""
    return known_rank(graph, x) == 4 and slices_half(
        graph, starts, ends, axes, x, 0 if first else 1
    )


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
    return halves_are_equal(graph, table)


def rotary_cache(graph: Graph, table: Result) -> Result:
    """The first half of such a table, [L, D / 2]."""
    length, width = shape_of(graph, table)[-2:]
    known = whole_constant(graph, table)
    if known is not None:
        stored = known[..., : width // 2].reshape(length, width // 2)
        return _stored(graph, f"{table}_half", stored)
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


# -- positions and caches


def starts_at_zero(graph: Graph, positions: Result) -> Bool:
    """Whether the positions of a RotaryEmbedding are 0, 1, 2... for all sequences."""
    return known_rank(graph, positions) == 1 and is_number(graph, positions, 0)


def same_angles(graph: Graph, a: Result, b: Result) -> Bool:
    """Whether two tables of angles are one: a result, equal constants, or computed in the same way
    from such results."""
    return same_result(graph, a, b)


def is_shared_cache(graph: Graph, cache: Result) -> Bool:
    """Whether a cache of RotaryEmbedding, [B, L, D / 2], is the same for all sequences."""
    return _one_cache(graph, cache) is not None


def shared_cache(graph: Graph, cache: Result) -> Result:
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
