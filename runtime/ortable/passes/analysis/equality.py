"""Find results that are equal by construction, such as tables of rotary embeddings."""

from __future__ import annotations

import numpy as np

from ortable.ir import Graph
from ortable_generated.onnx.traits import RANDOM

from .constants import large_constant
from .dataflow import Analysis, Traversal


def same_result(graph: Graph, a: str, b: str) -> bool:
    """Whether two results are the same, equal constants, or computed alike from equal results."""
    return _SAME.fact_of(graph, (a, b))


def _is_same(traversal: Traversal[tuple[str, str], bool], pair: tuple[str, str]) -> bool:
    a, b = pair
    return (
        a == b or _is_same_computation(traversal, a, b) or _is_same_constant(traversal.graph, a, b)
    )


def _is_same_constant(graph: Graph, a: str, b: str) -> bool:
    left, right = large_constant(graph, a), large_constant(graph, b)
    if left is None or right is None:
        return False
    return left.dtype == right.dtype and np.array_equal(left, right)


def _is_same_computation(traversal: Traversal[tuple[str, str], bool], a: str, b: str) -> bool:
    """Whether equal operators compute both from equal inputs; cheaper than comparing values."""
    infos = traversal.graph.values.get(a), traversal.graph.values.get(b)
    first, second = (None if info is None else info.producer for info in infos)
    if first is None or second is None or first.key != second.key or first.key in RANDOM:
        return False
    if str(first.attrs) != str(second.attrs) or len(first.inputs) != len(second.inputs):
        return False
    if list(first.outputs).index(a) != list(second.outputs).index(b):
        return False
    return all(
        traversal.find_fact(inputs) for inputs in zip(first.inputs, second.inputs, strict=True)
    )


_SAME = Analysis(False, _is_same)
