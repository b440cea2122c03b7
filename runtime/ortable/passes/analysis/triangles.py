"""Find matrices with one value up to a diagonal and another beyond it, such as causal masks."""

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

from .constants import large_constant, single_number, small_constant
from .dataflow import Transfer, Traversal, make_operator_analysis
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
    """A matrix in the last two axes with one value up to a diagonal and another one beyond it.

    Row i and column j hold ``below`` where j - i <= diagonal, and ``above`` elsewhere; True and
    False are 1 and 0. The two numbers differ and are not NaN.
    """

    diagonal: int
    below: float
    above: float


def triangle_of(graph: Graph, x: str) -> Triangle | None:
    """Return the triangle that a result holds at all leading indices, or None.

    A constant needs at least two rows and columns, as fewer do not determine the diagonal.
    """
    return _TRIANGLE.fact_of(graph, x)


def _make_triangle(diagonal: int, below: float, above: float) -> Triangle | None:
    differ = below == below and above == above and below != above
    return Triangle(diagonal, below, above) if differ else None


def _constant_triangle(graph: Graph, x: str) -> Triangle | None:
    array = large_constant(graph, x)
    if array is None or array.ndim < 2 or min(array.shape[-2:]) < 2 or not array.size:
        return None
    if array.dtype.kind not in "fiub":
        return None
    rows, columns = array.shape[-2:]
    first_matrix = array.reshape(-1, rows, columns)[0]
    below, above = first_matrix[-1, 0], first_matrix[0, -1]
    diagonal = int((first_matrix[0] == below).sum()) - 1
    triangle = _make_triangle(diagonal, float(below), float(above))
    expected = np.where(np.tri(rows, columns, diagonal, dtype=bool), below, above)
    return triangle if triangle is not None and (array == expected).all() else None


# -- comparisons of positions


def _compare_triangle(traversal: Traversal[str, Triangle | None], node: Node) -> Triangle | None:
    """Return the triangle of a comparison of column and row indices, or of a triangle and a number.

    Equal of indices has no triangle.
    """
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
                (side, value) if index == 0 else (value, side)
                for side in (triangle.below, triangle.above)
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
        operand_shape, counter = shape_or_none(graph, name), counter_of(graph, name)
        if operand_shape is None or counter is None:
            return None
        axis = counter.axis - len(operand_shape)
        if axis not in (-1, -2) or not always_equal(counter.length, shape[axis]):
            return None
        starts[axis] = counter.start
        axes.append(axis)
    if len(starts) < 2:
        return None
    # column index j + c and row index i + r are equal on the diagonal j - i = r - c
    equality_diagonal = starts[-2] - starts[-1]
    columns_first = axes[0] == -1
    is_true_left = bool(compare(0, 1) if columns_first else compare(1, 0))  # of the diagonal
    is_true_on_diagonal = bool(compare(0, 0))
    return _make_triangle(
        equality_diagonal if is_true_on_diagonal == is_true_left else equality_diagonal - 1,
        float(is_true_left),
        float(not is_true_left),
    )


# -- operators that produce or preserve triangles


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


def _not_triangle(traversal: Traversal[str, Triangle | None], node: Node) -> Triangle | None:
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
    """Return the triangle of the input of an operator that keeps the last two axes."""
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
    """Return the triangle of a Slice from index 0 in steps of 1 on the last two axes."""
    starts = forward_starts(traversal.graph, node)
    if starts is None or starts.get(-1, 0) or starts.get(-2, 0):
        return None
    return traversal.find_fact(node.inputs[0])


def _keeps_axes(graph: Graph, input_name: str, output_name: str) -> bool:
    """Whether the last two axes of two results have equal sizes."""
    old_shape, new_shape = shape_or_none(graph, input_name), shape_or_none(graph, output_name)
    if old_shape is None or new_shape is None or min(len(old_shape), len(new_shape)) < 2:
        return False
    return all(always_equal(a, b) for a, b in zip(old_shape[-2:], new_shape[-2:], strict=True))


_TRANSFERS: dict[str, Transfer[Triangle | None]] = {
    **dict.fromkeys(_COMPARISONS, _compare_triangle),
    **dict.fromkeys(("Expand", "Identity", "Reshape"), _move_triangle),
    "Cast": _cast_triangle,
    "Not": _not_triangle,
    "Slice": _slice_triangle,
    "Trilu": _trilu_triangle,
    "Unsqueeze": _unsqueeze_triangle,
    "Where": _where_triangle,
}
_TRIANGLE = make_operator_analysis(None, _constant_triangle, _TRANSFERS)
