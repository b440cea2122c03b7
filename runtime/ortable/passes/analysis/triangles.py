"""Matrices that hold one number up to a diagonal and another one beyond it, as causal masks do.
Called by rewrite helpers about attention masks.
"""

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
    beyond that; 1 and 0 for True and False. Both are numbers, and differ.
    """

    diagonal: int
    below: float
    above: float


def triangle_of(graph: Graph, x: str) -> Triangle | None:
    """The triangle of a result, the same for all leading indices, or None.

    Constants need at least two rows and columns, which determine the diagonal.
    """
    return _TRIANGLE.fact_of(graph, x)


def _make_triangle(diagonal: int, below: float, above: float) -> Triangle | None:
    differ = below == below and above == above and below != above
    return Triangle(diagonal, below, above) if differ else None


def _constant_triangle(graph: Graph, x: str) -> Triangle | None:
    array = whole_constant(graph, x)
    if array is None or array.ndim < 2 or min(array.shape[-2:]) < 2 or not array.size:
        return None
    if array.dtype.kind not in "fiub":
        return None
    rows, columns = array.shape[-2:]
    first = array.reshape(-1, rows, columns)[0]
    below, above = first[-1, 0], first[0, -1]
    diagonal = int((first[0] == below).sum()) - 1
    triangle = _make_triangle(diagonal, float(below), float(above))
    expected = np.where(np.tri(rows, columns, diagonal, dtype=bool), below, above)
    return triangle if triangle is not None and (array == expected).all() else None


# -- positions that are compared


def _compare_triangle(traversal: Traversal[str, Triangle | None], node: Node) -> Triangle | None:
    """Column positions compared with row positions, or a triangle compared with a number."""
    graph = traversal.graph
    compare = _COMPARISONS[node.key]
    for index, name in enumerate(node.inputs):
        number, triangle = single_number(graph, node.inputs[1 - index]), traversal.find_fact(name)
        if (
            triangle is not None
            and number is not None
            and _keeps_axes(graph, name, node.outputs[0])
        ):
            value = float(number.reshape(-1)[0])
            pairs = [
                (v, value) if index == 0 else (value, v) for v in (triangle.below, triangle.above)
            ]
            return _make_triangle(triangle.diagonal, *(float(compare(*pair)) for pair in pairs))
    return None if node.key == "Equal" else _compare_positions(graph, node, compare)


def _compare_positions(
    graph: Graph, node: Node, compare: Callable[[Any, Any], Any]
) -> Triangle | None:
    shape = shape_or_none(graph, node.outputs[0])
    if shape is None or len(shape) < 2:
        return None
    starts: dict[int, int] = {}
    axes: list[int] = []
    for name in node.inputs:
        own, counter = shape_or_none(graph, name), counter_of(graph, name)
        if own is None or counter is None:
            return None
        axis = counter.axis - len(own)
        if axis not in (-1, -2) or not always_equal(counter.length, shape[axis]):
            return None
        starts[axis] = counter.start
        axes.append(axis)
    if len(starts) < 2:
        return None
    # column j + c against row i + r: equal on the diagonal j - i = r - c
    equal = starts[-2] - starts[-1]
    columns_first = axes[0] == -1
    before = bool(compare(0, 1) if columns_first else compare(1, 0))  # where columns are smaller
    on = bool(compare(0, 0))
    return _make_triangle(equal if on == before else equal - 1, float(before), float(not before))


# -- triangles that are made and changed


def _trilu_triangle(traversal: Traversal[str, Triangle | None], node: Node) -> Triangle | None:
    value = uniform_value(traversal.graph, node.inputs[0])
    diagonal = 0
    if len(node.inputs) > 1 and node.inputs[1]:
        number = single_number(traversal.graph, node.inputs[1])
        if number is None:
            return None
        diagonal = int(number.reshape(-1)[0])
    if node.attrs.get("upper", 1):
        return _make_triangle(diagonal - 1, 0.0, value)
    return _make_triangle(diagonal, value, 0.0)


def _negate_triangle(traversal: Traversal[str, Triangle | None], node: Node) -> Triangle | None:
    triangle = traversal.find_fact(node.inputs[0])
    return triangle and _make_triangle(triangle.diagonal, 1 - triangle.below, 1 - triangle.above)


def _cast_triangle(traversal: Traversal[str, Triangle | None], node: Node) -> Triangle | None:
    triangle = traversal.find_fact(node.inputs[0])
    if triangle is None:
        return None
    if node.attrs["to"] == dtypes.boolean:
        return _make_triangle(
            triangle.diagonal, float(triangle.below != 0), float(triangle.above != 0)
        )
    return triangle if {triangle.below, triangle.above} == {0.0, 1.0} else None


def _where_triangle(traversal: Traversal[str, Triangle | None], node: Node) -> Triangle | None:
    condition, true, false = node.inputs
    triangle = traversal.find_fact(condition)
    if triangle is None or not _keeps_axes(traversal.graph, condition, node.outputs[0]):
        return None
    values = [uniform_value(traversal.graph, name) for name in (false, true)]
    return _make_triangle(
        triangle.diagonal, values[int(triangle.below)], values[int(triangle.above)]
    )


def _move_triangle(traversal: Traversal[str, Triangle | None], node: Node) -> Triangle | None:
    """Operators that may change the leading axes, and keep the last two."""
    keeps_axes = _keeps_axes(traversal.graph, node.inputs[0], node.outputs[0])
    return traversal.find_fact(node.inputs[0]) if keeps_axes else None


def _unsqueeze_triangle(traversal: Traversal[str, Triangle | None], node: Node) -> Triangle | None:
    shape = shape_or_none(traversal.graph, node.outputs[0])
    added = small_constant(traversal.graph, node.inputs[1])
    if shape is None or added is None:
        return None
    axes = {normalize_axis(int(axis), len(shape)) for axis in added.reshape(-1)}
    return None if axes & {len(shape) - 1, len(shape) - 2} else traversal.find_fact(node.inputs[0])


def _slice_triangle(traversal: Traversal[str, Triangle | None], node: Node) -> Triangle | None:
    """A Slice whose last two axes begin with their first index and skip none."""
    starts = forward_starts(traversal.graph, node)
    if starts is None or starts.get(-1, 0) or starts.get(-2, 0):
        return None
    return traversal.find_fact(node.inputs[0])


def _keeps_axes(graph: Graph, before: str, after: str) -> bool:
    """Whether the last two axes of two results have the same known sizes."""
    old, new = shape_or_none(graph, before), shape_or_none(graph, after)
    if old is None or new is None or min(len(old), len(new)) < 2:
        return False
    return all(always_equal(a, b) for a, b in zip(old[-2:], new[-2:], strict=True))


_TRANSFERS: dict[str, Transfer[Triangle | None]] = {
    **dict.fromkeys(_COMPARISONS, _compare_triangle),
    **dict.fromkeys(("Expand", "Identity", "Reshape"), _move_triangle),
    "Cast": _cast_triangle,
    "Not": _negate_triangle,
    "Slice": _slice_triangle,
    "Trilu": _trilu_triangle,
    "Unsqueeze": _unsqueeze_triangle,
    "Where": _where_triangle,
}
_TRIANGLE = by_operator(None, _constant_triangle, _TRANSFERS)
