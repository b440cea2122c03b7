"""Bounds of integer results. In come a graph and a name, out goes a number or None. Called by the
analyses of masks, and by the backend, which checks no index whose bounds are known."""

from __future__ import annotations

from typing import Any

from ortable import dtypes
from ortable.dims import Dim
from ortable.ir import Graph, Node
from ortable_generated.onnx.traits import GATHERS, MOVES_ELEMENTS

from .constants import small_constant
from .dataflow import Transfer, Traversal, by_operator, same_as_input


def lower_bound(graph: Graph, x: str) -> int | None:
    """A number that no element of an integer result is below."""
    return _LOWER.of(graph, x)


def upper_bound(graph: Graph, x: str) -> Dim | None:
    """A number, or an expression over sizes, that no element of an integer result is above."""
    return _UPPER.of(graph, x)


def first_column_bound(graph: Graph, x: str) -> int | None:
    """A number that no element at the first index of the last axis of a result is above."""
    return _FIRST_COLUMN.of(graph, x)


def adds_last_axis(graph: Graph, node: Node) -> bool:
    """Whether an Unsqueeze puts an axis behind the others."""
    axes = small_constant(graph, node.inputs[1])
    if axes is None or not graph.has_rank(node.outputs[0]):
        return True
    rank = graph.get_rank(node.outputs[0])
    return any(int(axis) % rank == rank - 1 for axis in axes.reshape(-1))


def _least(graph: Graph, x: str) -> int | None:
    array = small_constant(graph, x)
    if array is None or not array.size or array.dtype.kind not in "iu":
        return None if _last_position(graph, x) is None else 0
    return int(array.min())


def _largest(graph: Graph, x: str) -> Dim | None:
    array = small_constant(graph, x)
    if array is None or not array.size or array.dtype.kind not in "iu":
        return _last_position(graph, x)
    return int(array.max())


def _largest_first(graph: Graph, x: str) -> int | None:
    array = small_constant(graph, x)
    if array is None or not array.size or array.dtype.kind not in "iu":
        return None
    return int(array.max() if array.ndim == 0 else array[..., 0].max())


def _start(walk: Traversal[str, int | None], node: Node) -> int | None:
    """Where a Range that goes up begins, if that is known."""
    start, step = (small_constant(walk.graph, node.inputs[index]) for index in (0, 2))
    if start is None or step is None or start.dtype.kind not in "iu" or step.flat[0] <= 0:
        return None
    return int(start.flat[0])


def _last_position(graph: Graph, x: str) -> Dim | None:
    """The last position along the axis of which a result of TopK or ArgMax holds positions."""
    info = graph.values.get(x) if x else None
    node = None if info is None else info.producer
    if node is None or x != node.outputs[-1] or not graph.has_shape(node.inputs[0]):
        return None
    axis = _POSITIONS.get(node.key)
    shape = graph.get_shape(node.inputs[0])
    return None if axis is None or not shape else shape[int(node.attrs.get("axis", axis))] - 1


def _end(walk: Traversal[str, Dim | None], node: Node) -> Dim | None:
    """The last number of a Range in steps of 1."""
    step = small_constant(walk.graph, node.inputs[2])
    last = None if step is None or step.flat[0] != 1 else walk.fact(node.inputs[1])
    return None if last is None else last - 1


def _sum(walk: Traversal[str, Any], node: Node) -> Any:
    total: Dim = 0
    for name in node.inputs:
        bound = walk.fact(name)
        if bound is None:
            return None
        total += bound
    return total


def _lower_of_both(walk: Traversal[str, int | None], node: Node) -> int | None:
    left, right = walk.fact(node.inputs[1]), walk.fact(node.inputs[2])
    return None if left is None or right is None else min(left, right)


def _upper_of_both(walk: Traversal[str, Dim | None], node: Node) -> Dim | None:
    left, right = walk.fact(node.inputs[1]), walk.fact(node.inputs[2])
    if isinstance(left, int) and isinstance(right, int):
        return max(left, right)
    return left if left == right else None


def _least_cast(walk: Traversal[str, int | None], node: Node) -> int | None:
    return 0 if _is_cast_bool(walk.graph, node) else None


def _largest_cast(walk: Traversal[str, Dim | None], node: Node) -> Dim | None:
    return 1 if _is_cast_bool(walk.graph, node) else None


def _is_cast_bool(graph: Graph, node: Node) -> bool:
    return graph.get_type(node.inputs[0]) == dtypes.boolean


def _unsqueezed(walk: Traversal[str, int | None], node: Node) -> int | None:
    return None if adds_last_axis(walk.graph, node) else walk.fact(node.inputs[0])


_LOWER_TRANSFERS: dict[str, Transfer[int | None]] = {
    **dict.fromkeys(MOVES_ELEMENTS | GATHERS, same_as_input),
    "Add": _sum,
    "Cast": _least_cast,
    "Range": _start,
    "Shape": lambda walk, node: 0,
    "Where": _lower_of_both,
}
_UPPER_TRANSFERS: dict[str, Transfer[Dim | None]] = {
    **dict.fromkeys(MOVES_ELEMENTS | GATHERS, same_as_input),
    "Add": _sum,
    "Cast": _largest_cast,
    "Range": _end,
    "Where": _upper_of_both,
}
_POSITIONS = {"ArgMax": 0, "ArgMin": 0, "TopK": -1}  # operators, with the axis if none is given
_FIRST_COLUMN_TRANSFERS: dict[str, Transfer[int | None]] = {
    "Add": _sum,
    "Expand": same_as_input,
    "Identity": same_as_input,
    "Range": _start,
    "Unsqueeze": _unsqueezed,
}
_LOWER = by_operator(None, _least, _LOWER_TRANSFERS)
_UPPER = by_operator(None, _largest, _UPPER_TRANSFERS)
_FIRST_COLUMN = by_operator(None, _largest_first, _FIRST_COLUMN_TRANSFERS)
