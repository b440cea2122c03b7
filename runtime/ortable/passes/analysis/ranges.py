"""Bounds of integer results.

Analyses of masks read them, and the backend, which skips bounds checks of bounded indices.
"""

from __future__ import annotations

from typing import Any

from ortable import dtypes
from ortable.dims import Dim
from ortable.ir import Graph, Node
from ortable_generated.onnx.traits import GATHERS, MOVES_ELEMENTS

from .constants import small_constant
from .dataflow import Transfer, Traversal, make_operator_analysis, same_as_input


def lower_bound(graph: Graph, x: str) -> int | None:
    """Return a number that is at most every element of an integer result, or None."""
    return _LOWER.fact_of(graph, x)


def upper_bound(graph: Graph, x: str) -> Dim | None:
    """Return a number or size that is at least every element of an integer result, or None."""
    return _UPPER.fact_of(graph, x)


def first_column_bound(graph: Graph, x: str) -> int | None:
    """Return a number that is at least every element at index 0 of the last axis, or None."""
    return _FIRST_COLUMN.fact_of(graph, x)


def adds_last_axis(graph: Graph, node: Node) -> bool:
    """Whether an Unsqueeze appends an axis, or may do so."""
    axes = small_constant(graph, node.inputs[1])
    if axes is None or not graph.has_rank(node.outputs[0]):
        return True
    rank = graph.get_rank(node.outputs[0])
    return any(int(axis) % rank == rank - 1 for axis in axes.reshape(-1))


def _constant_min(graph: Graph, x: str) -> int | None:
    """Return the minimum of a constant, or 0 for indices from TopK, ArgMax or ArgMin."""
    array = small_constant(graph, x)
    if array is None or not array.size or array.dtype.kind not in "iu":
        return None if _last_index(graph, x) is None else 0
    return int(array.min())


def _constant_max(graph: Graph, x: str) -> Dim | None:
    array = small_constant(graph, x)
    if array is None or not array.size or array.dtype.kind not in "iu":
        return _last_index(graph, x)
    return int(array.max())


def _constant_first_max(graph: Graph, x: str) -> int | None:
    array = small_constant(graph, x)
    if array is None or not array.size or array.dtype.kind not in "iu":
        return None
    return int(array.max() if array.ndim == 0 else array[..., 0].max())


def _range_start(traversal: Traversal[str, int | None], node: Node) -> int | None:
    """Return the start of an ascending Range if it is known, else None."""
    start, step = (small_constant(traversal.graph, node.inputs[index]) for index in (0, 2))
    if start is None or step is None or start.dtype.kind not in "iu" or step.flat[0] <= 0:
        return None
    return int(start.flat[0])


def _last_index(graph: Graph, x: str) -> Dim | None:
    """Return the last index of the axis whose indices TopK, ArgMax or ArgMin returns, else None."""
    info = graph.values.get(x) if x else None
    node = None if info is None else info.producer
    if node is None or x != node.outputs[-1] or not graph.has_shape(node.inputs[0]):
        return None
    default_axis = _INDEX_OPERATORS.get(node.key)
    shape = graph.get_shape(node.inputs[0])
    return (
        None
        if default_axis is None or not shape
        else shape[int(node.attrs.get("axis", default_axis))] - 1
    )


def _range_end(traversal: Traversal[str, Dim | None], node: Node) -> Dim | None:
    """Return the limit of a Range with step 1, minus 1."""
    step = small_constant(traversal.graph, node.inputs[2])
    last = None if step is None or step.flat[0] != 1 else traversal.find_fact(node.inputs[1])
    return None if last is None else last - 1


def _sum_bounds(traversal: Traversal[str, Any], node: Node) -> Any:
    total: Dim = 0
    for name in node.inputs:
        bound = traversal.find_fact(name)
        if bound is None:
            return None
        total += bound
    return total


def _lower_of_branches(traversal: Traversal[str, int | None], node: Node) -> int | None:
    left, right = traversal.find_fact(node.inputs[1]), traversal.find_fact(node.inputs[2])
    return None if left is None or right is None else min(left, right)


def _upper_of_branches(traversal: Traversal[str, Dim | None], node: Node) -> Dim | None:
    left, right = traversal.find_fact(node.inputs[1]), traversal.find_fact(node.inputs[2])
    if isinstance(left, int) and isinstance(right, int):
        return max(left, right)
    return left if left == right else None


def _cast_min(traversal: Traversal[str, int | None], node: Node) -> int | None:
    return 0 if _is_cast_bool(traversal.graph, node) else None


def _cast_max(traversal: Traversal[str, Dim | None], node: Node) -> Dim | None:
    return 1 if _is_cast_bool(traversal.graph, node) else None


def _is_cast_bool(graph: Graph, node: Node) -> bool:
    return graph.get_type(node.inputs[0]) == dtypes.boolean


def _unsqueeze_bound(traversal: Traversal[str, int | None], node: Node) -> int | None:
    return None if adds_last_axis(traversal.graph, node) else traversal.find_fact(node.inputs[0])


_LOWER_TRANSFERS: dict[str, Transfer[int | None]] = {
    **dict.fromkeys(MOVES_ELEMENTS | GATHERS, same_as_input),
    "Add": _sum_bounds,
    "Cast": _cast_min,
    "Range": _range_start,
    "Shape": lambda traversal, node: 0,
    "Where": _lower_of_branches,
}
_UPPER_TRANSFERS: dict[str, Transfer[Dim | None]] = {
    **dict.fromkeys(MOVES_ELEMENTS | GATHERS, same_as_input),
    "Add": _sum_bounds,
    "Cast": _cast_max,
    "Range": _range_end,
    "Where": _upper_of_branches,
}
_INDEX_OPERATORS = {"ArgMax": 0, "ArgMin": 0, "TopK": -1}  # operator -> default axis
_FIRST_COLUMN_TRANSFERS: dict[str, Transfer[int | None]] = {
    "Add": _sum_bounds,
    "Expand": same_as_input,
    "Identity": same_as_input,
    "Range": _range_start,
    "Unsqueeze": _unsqueeze_bound,
}
_LOWER = make_operator_analysis(None, _constant_min, _LOWER_TRANSFERS)
_UPPER = make_operator_analysis(None, _constant_max, _UPPER_TRANSFERS)
_FIRST_COLUMN = make_operator_analysis(None, _constant_first_max, _FIRST_COLUMN_TRANSFERS)
