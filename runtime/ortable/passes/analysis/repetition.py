"""Find results whose last axis repeats its first half, as tables of rotary embeddings do."""

from __future__ import annotations

import numpy as np

from ortable import dims
from ortable.ir import Graph, Node
from ortable_generated.onnx.traits import ELEMENTWISE

from .constants import large_constant, single_number
from .dataflow import Transfer, Traversal, make_operator_analysis
from .ranges import adds_last_axis


def halves_are_equal(graph: Graph, x: str) -> bool:
    """Whether the second half of the last axis of a result equals the first half."""
    return _EQUAL_HALVES.fact_of(graph, x)


def _constant_halves(graph: Graph, x: str) -> bool | None:
    array = large_constant(graph, x)
    if array is None:
        return None
    if not array.ndim or array.dtype.kind not in "fiub":
        return False
    half_width = array.shape[-1] // 2
    first_half, second_half = array[..., :half_width], array[..., half_width:]
    if first_half.shape != second_half.shape:
        return False
    are_equal = (first_half == second_half).all() or np.array_equal(
        first_half, second_half, equal_nan=True
    )
    # 0.0 and -0.0 compare equal, but dividing by them gives different results
    return bool(are_equal and (array.dtype.kind != "f" or _signs_agree(first_half, second_half)))


def _signs_agree(first_half: np.ndarray, second_half: np.ndarray) -> bool:
    return np.array_equal(
        np.signbit(first_half)[first_half == 0], np.signbit(second_half)[first_half == 0]
    )


def _concat_halves(traversal: Traversal[str, bool], node: Node) -> bool:
    """Whether a Concat joins a result with itself along the last axis."""
    graph, output = traversal.graph, node.outputs[0]
    axis = node.attrs["axis"]
    is_last_axis = axis == -1 or (graph.has_rank(output) and axis == graph.get_rank(output) - 1)
    return is_last_axis and len(node.inputs) == 2 and node.inputs[0] == node.inputs[1]


def _elementwise_halves(traversal: Traversal[str, bool], node: Node) -> bool:
    """Whether the operands of an elementwise node have equal halves or are single numbers."""
    tensors = [x for x in node.inputs if x and single_number(traversal.graph, x) is None]
    return bool(tensors) and all(map(traversal.find_fact, tensors))


def _reshape_halves(traversal: Traversal[str, bool], node: Node) -> bool:
    graph, input_name, output_name = traversal.graph, node.inputs[0], node.outputs[0]
    if not (graph.has_shape(input_name) and graph.has_shape(output_name)):
        return False
    input_shape, output_shape = graph.get_shape(input_name), graph.get_shape(output_name)
    if not input_shape or not output_shape or dims.always_equal(output_shape[-1], 0):
        return False
    return dims.always_equal(input_shape[-1], output_shape[-1]) and traversal.find_fact(input_name)


def _unsqueeze_halves(traversal: Traversal[str, bool], node: Node) -> bool:
    if adds_last_axis(traversal.graph, node):
        return _reshape_halves(traversal, node)
    return traversal.find_fact(node.inputs[0])


_TRANSFERS: dict[str, Transfer[bool]] = {
    **dict.fromkeys(ELEMENTWISE, _elementwise_halves),
    "Concat": _concat_halves,
    "Reshape": _reshape_halves,
    "Unsqueeze": _unsqueeze_halves,
}
_EQUAL_HALVES = make_operator_analysis(False, _constant_halves, _TRANSFERS)
