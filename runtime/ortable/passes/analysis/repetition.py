"""Results whose last axis is one half twice, as tables of rotary embeddings are. In come a graph
and a name, out goes a bool. Called by rewrite words about rotary embeddings."""

from __future__ import annotations

import numpy as np

from ortable import dims
from ortable.ir import Graph, Node
from ortable_generated.onnx.traits import ELEMENTWISE

from .constants import single_number, whole_constant
from .dataflow import Transfer, Traversal, by_operator
from .ranges import adds_last_axis


def halves_are_equal(graph: Graph, x: str) -> bool:
    """Whether the second half of the last axis of a result is the first half once more."""
    return _EQUAL_HALVES.of(graph, x)


def _known(graph: Graph, x: str) -> bool | None:
    array = whole_constant(graph, x)
    if array is None:
        return None
    if not array.ndim or array.dtype.kind not in "fiub":
        return False
    half = array.shape[-1] // 2
    first, second = array[..., :half], array[..., half:]
    if first.shape != second.shape:
        return False
    same = (first == second).all() or np.array_equal(first, second, equal_nan=True)
    # 0.0 and -0.0 are equal, and quotients show which one it was
    return bool(same and (array.dtype.kind != "f" or _signs_agree(first, second)))


def _signs_agree(first: np.ndarray, second: np.ndarray) -> bool:
    return np.array_equal(np.signbit(first)[first == 0], np.signbit(second)[first == 0])


def _joined(walk: Traversal[str, bool], node: Node) -> bool:
    """A Concat of a result and itself."""
    graph, joined = walk.graph, node.outputs[0]
    axis = node.attrs["axis"]
    last = axis == -1 or (graph.has_rank(joined) and axis == graph.get_rank(joined) - 1)
    return last and len(node.inputs) == 2 and node.inputs[0] == node.inputs[1]


def _elementwise(walk: Traversal[str, bool], node: Node) -> bool:
    """One number for all elements keeps what is equal equal."""
    others = [x for x in node.inputs if x and single_number(walk.graph, x) is None]
    return bool(others) and all(map(walk.fact, others))


def _reshaped(walk: Traversal[str, bool], node: Node) -> bool:
    graph, before, after = walk.graph, node.inputs[0], node.outputs[0]
    if not (graph.has_shape(before) and graph.has_shape(after)):
        return False
    rows, kept = graph.get_shape(before), graph.get_shape(after)
    if not rows or not kept or dims.always_equal(kept[-1], 0):
        return False
    return dims.always_equal(rows[-1], kept[-1]) and walk.fact(before)


def _unsqueezed(walk: Traversal[str, bool], node: Node) -> bool:
    if adds_last_axis(walk.graph, node):
        return _reshaped(walk, node)
    return walk.fact(node.inputs[0])


_TRANSFERS: dict[str, Transfer[bool]] = {
    **dict.fromkeys(ELEMENTWISE, _elementwise),
    "Concat": _joined,
    "Reshape": _reshaped,
    "Unsqueeze": _unsqueezed,
}
_EQUAL_HALVES = by_operator(False, _known, _TRANSFERS)
