"""Helpers of the rules about rotary embeddings: cosine and sine tables with equal halves."""

from __future__ import annotations

import numpy as np

from ortable import dims, dtypes
from ortable.ir import Graph
from ortable.passes.analysis.constants import find_producer, large_constant
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
    """Whether both halves of the last axis of a table are equal."""
    return has_equal_halves(graph, table)


# -- ONNX Runtime's operator


def rotary_cache(graph: Graph, table: Result) -> Result:
    """Return the first half, [L, D / 2], of a table with equal halves."""
    length, width = shape_of(graph, table)[-2:]
    values = large_constant(graph, table)
    if values is not None:
        half_table = values[..., : width // 2].reshape(length, width // 2)
        return _shared_initializer(graph, f"{table}_half", half_table)
    slice_inputs = [consts(graph, [bound], dtypes.int64) for bound in (0, width // 2, -1)]
    half = graph.make_node("Slice", [table, *slice_inputs])
    flat = consts(graph, [-1, width // 2], dtypes.int64)
    cache = graph.make_node("Reshape", [half, flat])
    graph.set_shape(cache, (length, width // 2))
    return cache


def _shared_initializer(graph: Graph, name: str, array: np.ndarray) -> str:
    """Return an initializer with this value; reuse an existing one with the same name and value."""
    stored = graph.initializers_dict.get(name)
    if isinstance(stored, np.ndarray) and np.array_equal(stored, array):
        return name
    return graph.make_initializer(graph.unique_name(name), np.ascontiguousarray(array))


# -- positions and caches


def same_angles(graph: Graph, a: Result, b: Result) -> Bool:
    """Whether two tables of angles are equal by construction; see `same_result`."""
    return same_result(graph, a, b)


def is_shared_cache(graph: Graph, cache: Result) -> Bool:
    """Whether a cache of RotaryEmbedding, [B, L, D / 2], is the same for all sequences."""
    return _single_cache(graph, cache) is not None


def shared_cache(graph: Graph, cache: Result) -> Result:
    """Return the part for one sequence, [L, D / 2], of a cache that all sequences share."""
    single_cache = _single_cache(graph, cache)
    assert single_cache is not None
    length, width = shape_of(graph, single_cache)[-2:]
    values = large_constant(graph, single_cache)
    if values is not None:
        return _shared_initializer(
            graph, f"{single_cache}_rows", values.reshape(-1, *values.shape[-2:])[0]
        )
    squeezed = graph.make_node("Squeeze", [single_cache, consts(graph, [0], dtypes.int64)])
    graph.set_shape(squeezed, (length, width))
    return squeezed


def _single_cache(graph: Graph, cache: str) -> str | None:
    """Return the cache of one sequence, [1, L, D / 2], or a constant that repeats it, else None."""
    node = find_producer(graph, cache, "Expand")
    source = cache if node is None else node.inputs[0]
    if known_rank(graph, source) != 3 or not graph.has_shape(source):
        return None
    if dims.always_equal(shape_of(graph, source)[0], 1):
        return source
    values = large_constant(graph, source)
    if values is None or not values.size or not bool((values == values[:1]).all()):
        return None
    return source
