"""Find results that count up by 1 along one axis and are constant along all other axes."""

from __future__ import annotations

from typing import NamedTuple

from ortable.dims import Dim, always_equal
from ortable.inference.shape import normalize_axis
from ortable.ir import Graph, Node
from ortable.prelude.metadata import shape_or_none

from .constants import single_number, small_constant
from .dataflow import Transfer, Traversal, make_operator_analysis

Iota = tuple[int, Dim]

_MAX_START = 1 << 30  # prevents integer overflow when an index is added to a start


class Counter(NamedTuple):
    """The axis along which a result counts, its length, and the first number."""

    axis: int
    length: Dim
    start: int


def iota_of(graph: Graph, x: str) -> Iota | None:
    """Return the only axis along which a result counts 0, 1, 2, ..., and its length, else None."""
    counter = counter_of(graph, x)
    return None if counter is None or counter.start else (counter.axis, counter.length)


def counter_of(graph: Graph, x: str) -> Counter | None:
    """Return the counter of a result, which may start with any number, else None."""
    return _COUNTER.fact_of(graph, x)


def _range_counter(traversal: Traversal[str, Counter | None], node: Node) -> Counter | None:
    graph = traversal.graph
    length = shape_or_none(graph, node.outputs[0])
    start, step = (_single_integer(graph, node.inputs[index]) for index in (0, 2))
    return None if length is None or start is None or step != 1 else Counter(0, length[0], start)


def _shift_by(sign: int) -> Transfer[Counter | None]:
    """Make the transfer of a counter plus a number, or with sign -1 of a counter minus a number."""

    def shift_counter(traversal: Traversal[str, Counter | None], node: Node) -> Counter | None:
        operand, addend = node.inputs
        if sign > 0 and traversal.find_fact(operand) is None:
            operand, addend = addend, operand
        counter, number = (traversal.find_fact(operand), _single_integer(traversal.graph, addend))
        before, after = (
            shape_or_none(traversal.graph, operand),
            shape_or_none(traversal.graph, node.outputs[0]),
        )
        if counter is None or number is None or before is None or after is None:
            return None
        start = counter.start + sign * number
        axis = counter.axis + len(after) - len(before)  # the number may have a higher rank
        return Counter(axis, counter.length, start) if abs(start) < _MAX_START else None

    return shift_counter


def _single_integer(graph: Graph, x: str) -> int | None:
    array = single_number(graph, x)
    is_integer = array is not None and array.dtype.kind == "i" and array.itemsize >= 4
    value = int(array.reshape(-1)[0]) if is_integer else None  # type: ignore[union-attr]
    return None if value is None or abs(value) >= _MAX_START else value


def forward_starts(graph: Graph, node: Node) -> dict[int, int] | None:
    """Return the start of a Slice for each of its axes; axes are negative, counted from the end.

    Returns None if the Slice has no constant starts and axes, or a step other than 1. Starts may be
    negative.
    """
    shape = shape_or_none(graph, node.inputs[0])
    if shape is None or len(node.inputs) < 4:
        return None
    starts, axes = (small_constant(graph, node.inputs[index]) for index in (1, 3))
    if starts is None or axes is None:
        return None
    if len(node.inputs) > 4 and node.inputs[4]:
        steps = small_constant(graph, node.inputs[4])
        if steps is None or (steps != 1).any():
            return None
    rank = len(shape)
    negative_axes = [normalize_axis(int(axis), rank) - rank for axis in axes.reshape(-1)]
    return dict(zip(negative_axes, map(int, starts.reshape(-1)), strict=True))


def _concat_counter(traversal: Traversal[str, Counter | None], node: Node) -> Counter | None:
    """Return the counter of a Concat of counters, each of which continues the previous one."""
    shape = shape_or_none(traversal.graph, node.outputs[0])
    if shape is None:
        return None
    axis = normalize_axis(node.attrs["axis"], len(shape))
    counters = [traversal.find_fact(name) for name in node.inputs]
    first_counter = counters[0]
    next_start = None if first_counter is None else first_counter.start
    for counter in counters:
        if counter is None or counter.axis != axis or counter.start != next_start:
            return None
        next_start = counter.start + counter.length if isinstance(counter.length, int) else None
    return first_counter and Counter(axis, shape[axis], first_counter.start)


def _slice_counter(traversal: Traversal[str, Counter | None], node: Node) -> Counter | None:
    """Return the counter of a Slice with step 1 and a known start that is not negative."""
    graph, counter = traversal.graph, traversal.find_fact(node.inputs[0])
    shape = shape_or_none(graph, node.outputs[0])
    starts = forward_starts(graph, node)
    if counter is None or shape is None or starts is None:
        return None
    start = starts.get(counter.axis - len(shape), 0)
    first_number = counter.start + (start if 0 <= start < _MAX_START else _MAX_START)
    return (
        Counter(counter.axis, shape[counter.axis], first_number)
        if abs(first_number) < _MAX_START
        else None
    )


def _expand_counter(traversal: Traversal[str, Counter | None], node: Node) -> Counter | None:
    """Return the counter of an Expand that does not change the size of the counter's axis."""
    before, after = _in_and_out_shapes(traversal.graph, node)
    counter = traversal.find_fact(node.inputs[0])
    if counter is None or before is None or after is None:
        return None
    index = counter.axis + len(after) - len(before)
    return (
        counter._replace(axis=index) if always_equal(before[counter.axis], after[index]) else None
    )


def _reshape_counter(traversal: Traversal[str, Counter | None], node: Node) -> Counter | None:
    """Return the counter of a Reshape that only adds or drops axes of size 1."""
    before, after = _in_and_out_shapes(traversal.graph, node)
    counter = traversal.find_fact(node.inputs[0])
    if counter is None or before is None or after is None:
        return None
    other_sizes = [size for axis, size in enumerate(before) if axis != counter.axis]
    wide_axes = [axis for axis, size in enumerate(after) if not always_equal(size, 1)]
    if not all(always_equal(size, 1) for size in other_sizes) or len(wide_axes) != 1:
        return None
    return (
        counter._replace(axis=wide_axes[0])
        if always_equal(after[wide_axes[0]], counter.length)
        else None
    )


def _unsqueeze_counter(traversal: Traversal[str, Counter | None], node: Node) -> Counter | None:
    _, after = _in_and_out_shapes(traversal.graph, node)
    counter, added = (
        traversal.find_fact(node.inputs[0]),
        small_constant(traversal.graph, node.inputs[1]),
    )
    if counter is None or added is None or after is None:
        return None
    new_axes = {normalize_axis(int(axis), len(after)) for axis in added.reshape(-1)}
    old_axes = [index for index in range(len(after)) if index not in new_axes]
    return counter._replace(axis=old_axes[counter.axis])


def _in_and_out_shapes(
    graph: Graph, node: Node
) -> tuple[tuple[Dim, ...] | None, tuple[Dim, ...] | None]:
    return shape_or_none(graph, node.inputs[0]), shape_or_none(graph, node.outputs[0])


_TRANSFERS: dict[str, Transfer[Counter | None]] = {
    "Add": _shift_by(1),
    "Concat": _concat_counter,
    "Expand": _expand_counter,
    "Range": _range_counter,
    "Reshape": _reshape_counter,
    "Slice": _slice_counter,
    "Sub": _shift_by(-1),
    "Unsqueeze": _unsqueeze_counter,
}
_COUNTER = make_operator_analysis(None, lambda graph, x: None, _TRANSFERS)
