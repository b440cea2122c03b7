"""Words of the rules about rotary embeddings, in ONNX's operator and in ONNX Runtime's: tables of
cosines and sines whose halves are equal. In come tables of a match; out go facts and the caches
that the operators take. Called by rules of rotary and ort_rotary."""

from __future__ import annotations

import numpy as np

from ortable import dims, dtypes
from ortable.ir import Graph
from ortable.passes.analysis.constants import maker_of, whole_constant
from ortable.passes.analysis.equality import same_result
from ortable.passes.analysis.repetition import halves_are_equal as has_equal_halves
from ortable.prelude.facts import Bool, Result, shape_of
from ortable.prelude.values import consts

from .shapes import known_rank

__all__ = [
    "halves_are_equal",
    "is_shared_cache",
    "rotary_cache",
    "same_angles",
    "shared_cache",
]


def halves_are_equal(graph: Graph, table: Result) -> Bool:
    """Whether a table holds the same numbers in both halves of its last axis."""
    return has_equal_halves(graph, table)


# -- ONNX Runtime's operator


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
    if dims.always_equal(shape_of(graph, found)[0], 1):
        return found
    known = whole_constant(graph, found)
    if known is None or not known.size or not bool((known == known[:1]).all()):
        return None
    return found
