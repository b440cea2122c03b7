"""Bounds of integer results. In come a graph and a name, out goes a number or None. Called by the
analyses of masks."""

from __future__ import annotations

from ortable.ir import Graph, Node
from ortable_generated.onnx.traits import GATHERS, MOVES_ELEMENTS

from .constants import small_constant
from .memo import Transfer, Walk, by_operator, same_as_input


def lower_bound(graph: Graph, x: str) -> int | None:
    """A number that no element of an integer result is below."""
    return _LOWER.of(graph, x)


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
    known = array is not None and array.size and array.dtype.kind in "iu"
    return int(array.min()) if known else None  # type: ignore[union-attr]


def _largest_first(graph: Graph, x: str) -> int | None:
    array = small_constant(graph, x)
    if array is None or not array.size or array.dtype.kind not in "iu":
        return None
    return int(array.max() if array.ndim == 0 else array[..., 0].max())


def _start(walk: Walk[str, int | None], node: Node) -> int | None:
    """Where a Range that goes up begins, if that is known."""
    start, step = (small_constant(walk.graph, node.inputs[index]) for index in (0, 2))
    if start is None or step is None or start.dtype.kind not in "iu" or step.flat[0] <= 0:
        return None
    return int(start.flat[0])


def _sum(walk: Walk[str, int | None], node: Node) -> int | None:
    total = 0
    for name in node.inputs:
        bound = walk.fact(name)
        if bound is None:
            return None
        total += bound
    return total


def _unsqueezed(walk: Walk[str, int | None], node: Node) -> int | None:
    return None if adds_last_axis(walk.graph, node) else walk.fact(node.inputs[0])


_LOWER_TRANSFERS: dict[str, Transfer[int | None]] = {
    **dict.fromkeys(MOVES_ELEMENTS | GATHERS, same_as_input),
    "Add": _sum,
    "Range": _start,
    "Shape": lambda walk, node: 0,
}
_FIRST_COLUMN_TRANSFERS: dict[str, Transfer[int | None]] = {
    "Add": _sum,
    "Expand": same_as_input,
    "Identity": same_as_input,
    "Range": _start,
    "Unsqueeze": _unsqueezed,
}
_LOWER = by_operator(None, _least, _LOWER_TRANSFERS)
_FIRST_COLUMN = by_operator(None, _largest_first, _FIRST_COLUMN_TRANSFERS)
