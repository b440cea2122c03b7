"""Results that are computed in the same way. In come a graph and two names, out goes a bool. Called
by rewrite words about tables of angles."""

from __future__ import annotations

import numpy as np

from ortable.ir import Graph
from ortable_generated.onnx.traits import RANDOM

from .constants import whole_constant
from .dataflow import Analysis, Traversal


def same_result(graph: Graph, a: str, b: str) -> bool:
    """Whether two results are one: a result, equal constants, or computed in the same way from
    such results."""
    return _SAME.of(graph, (a, b))


def _step(walk: Traversal[tuple[str, str], bool], pair: tuple[str, str]) -> bool:
    a, b = pair
    return a == b or _same_way(walk, a, b) or _same_constant(walk.graph, a, b)


def _same_constant(graph: Graph, a: str, b: str) -> bool:
    left, right = whole_constant(graph, a), whole_constant(graph, b)
    if left is None or right is None:
        return False
    return left.dtype == right.dtype and np.array_equal(left, right)


def _same_way(walk: Traversal[tuple[str, str], bool], a: str, b: str) -> bool:
    """Whether nodes of one operator make both of the same: cheaper than to compute constants."""
    infos = walk.graph.values.get(a), walk.graph.values.get(b)
    first, second = (None if info is None else info.producer for info in infos)
    if first is None or second is None or first.key != second.key or first.key in RANDOM:
        return False
    if str(first.attrs) != str(second.attrs) or len(first.inputs) != len(second.inputs):
        return False
    if list(first.outputs).index(a) != list(second.outputs).index(b):
        return False
    return all(walk.fact(each) for each in zip(first.inputs, second.inputs, strict=True))


_SAME = Analysis(False, _step)
