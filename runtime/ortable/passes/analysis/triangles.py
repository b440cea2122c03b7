"""Matrices that hold one number up to a diagonal and another one beyond it, as causal masks do. In
come a graph and a name, out goes the diagonal and the two numbers, or None. Called by rewrite words
about masks of attention."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ortable import dtypes
from ortable.dims import always_equal
from ortable.inference.shape import normalize_axis
from ortable.ir import Graph, Node
from ortable.prelude.metadata import shape_or_none

from .constants import single_number, small_constant, whole_constant
from .dataflow import Transfer, Traversal, by_operator
from .iota import counter_of, forward_starts
from .uniformity import uniform_value

_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "Equal": operator.eq,
    "Greater": operator.gt,
    "GreaterOrEqual": operator.ge,
    "Less": operator.lt,
    "LessOrEqual": operator.le,
}


class Triangle(NamedTuple):
    """Row i and column j of the last two axes hold ``below`` where j - i <= diagonal, and ``above``
    beyond that; 1 and 0 for True and False. Both are numbers, and differ."""

    diagonal: int
    below: float
    above: float


def triangle_of(graph: Graph, x: str) -> Triangle | None:
    """The triangles of a result, the same for all leading indices; None when it has none, or nobody
    knows. Of constants only those with two rows and columns at least, which say where the diagonal
    is."""
    return _TRIANGLE.of(graph, x)


def _of_numbers(diagonal: int, below: float, above: float) -> Triangle | None:
    known = below == below and above == above and below != above
    return Triangle(diagonal, below, above) if known else None


def _constant(graph: Graph, x: str) -> Triangle | None:
    array = whole_constant(graph, x)
    if array is None or array.ndim < 2 or min(array.shape[-2:]) < 2 or not array.size:
        return None
    if array.dtype.kind not in "fiub":
        return None
    rows, columns = array.shape[-2:]
    first = array.reshape(-1, rows, columns)[0]
    below, above = first[-1, 0], first[0, -1]
    diagonal = int((first[0] == below).sum()) - 1
    found = _of_numbers(diagonal, float(below), float(above))
    wanted = np.where(np.tri(rows, columns, diagonal, dtype=bool), below, above)
    return found if found is not None and (array == wanted).all() else None


# -- positions that are compared


def _compared(walk: Traversal[str, Triangle | None], node: Node) -> Triangle | None:
    """Positions of columns with those of rows, or a triangle with a number."""
    graph = walk.graph
    compare = _COMPARISONS[node.key]
    for index, name in enumerate(node.inputs):
        number, found = single_number(graph, node.inputs[1 - index]), walk.fact(name)
        if found is not None and number is not None and _keeps_axes(graph, name, node.outputs[0]):
            value = float(number.reshape(-1)[0])
            pairs = [(v, value) if index == 0 else (value, v) for v in (found.below, found.above)]
            return _of_numbers(found.diagonal, *(float(compare(*pair)) for pair in pairs))
    return None if node.key == "Equal" else _ordered(graph, node, compare)


def _ordered(graph: Graph, node: Node, compare: Callable[[Any, Any], Any]) -> Triangle | None:
    shape = shape_or_none(graph, node.outputs[0])
    if shape is None or len(shape) < 2:
        return None
    starts: dict[int, int] = {}
    sides: list[int] = []
    for name in node.inputs:
        own, found = shape_or_none(graph, name), counter_of(graph, name)
        if own is None or found is None:
            return None
        axis = found.axis - len(own)
        if axis not in (-1, -2) or not always_equal(found.length, shape[axis]):
            return None
        starts[axis] = found.start
        sides.append(axis)
    if len(starts) < 2:
        return None
    # column j + c against row i + r: equal on the diagonal j - i = r - c
    equal = starts[-2] - starts[-1]
    columns_first = sides[0] == -1
    before = bool(compare(0, 1) if columns_first else compare(1, 0))  # where columns are smaller
    on = bool(compare(0, 0))
    return _of_numbers(equal if on == before else equal - 1, float(before), float(not before))


# -- triangles that are made and changed


def _trilu(walk: Traversal[str, Triangle | None], node: Node) -> Triangle | None:
    value = uniform_value(walk.graph, node.inputs[0])
    diagonal = 0
    if len(node.inputs) > 1 and node.inputs[1]:
        given = single_number(walk.graph, node.inputs[1])
        if given is None:
            return None
        diagonal = int(given.reshape(-1)[0])
    if node.attrs.get("upper", 1):
        return _of_numbers(diagonal - 1, 0.0, value)
    return _of_numbers(diagonal, value, 0.0)


def _not(walk: Traversal[str, Triangle | None], node: Node) -> Triangle | None:
    found = walk.fact(node.inputs[0])
    return found and _of_numbers(found.diagonal, 1 - found.below, 1 - found.above)


def _cast(walk: Traversal[str, Triangle | None], node: Node) -> Triangle | None:
    found = walk.fact(node.inputs[0])
    if found is None:
        return None
    if node.attrs["to"] == dtypes.boolean:
        return _of_numbers(found.diagonal, float(found.below != 0), float(found.above != 0))
    return found if {found.below, found.above} == {0.0, 1.0} else None


def _chosen(walk: Traversal[str, Triangle | None], node: Node) -> Triangle | None:
    condition, true, false = node.inputs
    found = walk.fact(condition)
    if found is None or not _keeps_axes(walk.graph, condition, node.outputs[0]):
        return None
    values = [uniform_value(walk.graph, name) for name in (false, true)]
    return _of_numbers(found.diagonal, values[int(found.below)], values[int(found.above)])


def _moved(walk: Traversal[str, Triangle | None], node: Node) -> Triangle | None:
    """Operators that may change the leading axes: the last two have the sizes that they had."""
    kept = _keeps_axes(walk.graph, node.inputs[0], node.outputs[0])
    return walk.fact(node.inputs[0]) if kept else None


def _unsqueezed(walk: Traversal[str, Triangle | None], node: Node) -> Triangle | None:
    shape = shape_or_none(walk.graph, node.outputs[0])
    added = small_constant(walk.graph, node.inputs[1])
    if shape is None or added is None:
        return None
    axes = {normalize_axis(int(axis), len(shape)) for axis in added.reshape(-1)}
    return None if axes & {len(shape) - 1, len(shape) - 2} else walk.fact(node.inputs[0])


def _sliced(walk: Traversal[str, Triangle | None], node: Node) -> Triangle | None:
    """A Slice whose last two axes begin with their first index and skip none."""
    starts = forward_starts(walk.graph, node)
    if starts is None or starts.get(-1, 0) or starts.get(-2, 0):
        return None
    return walk.fact(node.inputs[0])


def _keeps_axes(graph: Graph, before: str, after: str) -> bool:
    """Whether the last two axes of two results have the same known sizes."""
    old, new = shape_or_none(graph, before), shape_or_none(graph, after)
    if old is None or new is None or min(len(old), len(new)) < 2:
        return False
    return all(always_equal(a, b) for a, b in zip(old[-2:], new[-2:], strict=True))


_TRANSFERS: dict[str, Transfer[Triangle | None]] = {
    **dict.fromkeys(_COMPARISONS, _compared),
    **dict.fromkeys(("Expand", "Identity", "Reshape"), _moved),
    "Cast": _cast,
    "Not": _not,
    "Slice": _sliced,
    "Trilu": _trilu,
    "Unsqueeze": _unsqueezed,
    "Where": _chosen,
}
_TRIANGLE = by_operator(None, _constant, _TRANSFERS)
