"""Results that count upwards by 1 along one axis, and grids of them. In come a graph and a name,
out goes the axis and how far it counts, or None. Called by rewrite words about indices and by the
analysis of triangles."""

from __future__ import annotations

from typing import NamedTuple

from ortable.dims import Dim, always_equal
from ortable.inference.shape import normalize_axis
from ortable.ir import Graph, Node
from ortable.prelude.metadata import shape_or_none

from .constants import single_number, small_constant
from .dataflow import Transfer, Traversal, by_operator

Iota = tuple[int, Dim]

_FARTHEST = 1 << 30  # of a start, so that no sum with a position wraps around


class Counter(NamedTuple):
    """The axis along which a result counts, how far, and from which number."""

    axis: int
    length: Dim
    start: int


def iota_of(graph: Graph, x: str) -> Iota | None:
    """The only axis along which a result counts 0, 1, 2, ..., and how far; None when it does
    something else, or nobody knows."""
    found = counter_of(graph, x)
    return None if found is None or found.start else (found.axis, found.length)


def counter_of(graph: Graph, x: str) -> Counter | None:
    """The same of results that begin with any number."""
    return _COUNTER.of(graph, x)


def _range(walk: Traversal[str, Counter | None], node: Node) -> Counter | None:
    graph = walk.graph
    length = shape_or_none(graph, node.outputs[0])
    start, step = (_integer(graph, node.inputs[index]) for index in (0, 2))
    return None if length is None or start is None or step != 1 else Counter(0, length[0], start)


def _shifted(sign: int) -> Transfer[Counter | None]:
    """A counter and one number: their sum, or with sign -1 the counter without the number."""

    def transfer(walk: Traversal[str, Counter | None], node: Node) -> Counter | None:
        first, second = node.inputs
        if sign > 0 and walk.fact(first) is None:
            first, second = second, first
        found, number = walk.fact(first), _integer(walk.graph, second)
        before, after = shape_or_none(walk.graph, first), shape_or_none(walk.graph, node.outputs[0])
        if found is None or number is None or before is None or after is None:
            return None
        start = found.start + sign * number
        axis = found.axis + len(after) - len(before)  # one number may have more axes
        return Counter(axis, found.length, start) if abs(start) < _FARTHEST else None

    return transfer


def _integer(graph: Graph, x: str) -> int | None:
    array = single_number(graph, x)
    known = array is not None and array.dtype.kind == "i" and array.itemsize >= 4
    value = int(array.reshape(-1)[0]) if known else None  # type: ignore[union-attr]
    return None if value is None or abs(value) >= _FARTHEST else value


def forward_starts(graph: Graph, node: Node) -> dict[int, int] | None:
    """Where a Slice begins on each axis that it names, the axes counted from the end; None if it
    names none, or does not take every element from there on. Starts may be negative."""
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
    places = [normalize_axis(int(axis), rank) - rank for axis in axes.reshape(-1)]
    return dict(zip(places, map(int, starts.reshape(-1)), strict=True))


def _joined(walk: Traversal[str, Counter | None], node: Node) -> Counter | None:
    """A Concat of counters of which each goes on where the one before it ends."""
    shape = shape_or_none(walk.graph, node.outputs[0])
    if shape is None:
        return None
    axis = normalize_axis(node.attrs["axis"], len(shape))
    found = [walk.fact(name) for name in node.inputs]
    first = found[0]
    goes_on = None if first is None else first.start
    for each in found:
        if each is None or each.axis != axis or each.start != goes_on:
            return None
        goes_on = each.start + each.length if isinstance(each.length, int) else None
    return first and Counter(axis, shape[axis], first.start)


def _sliced(walk: Traversal[str, Counter | None], node: Node) -> Counter | None:
    """A Slice that begins at a known place of the axis and skips nothing."""
    graph, found = walk.graph, walk.fact(node.inputs[0])
    shape = shape_or_none(graph, node.outputs[0])
    starts = forward_starts(graph, node)
    if found is None or shape is None or starts is None:
        return None
    start = starts.get(found.axis - len(shape), 0)
    first = found.start + (start if 0 <= start < _FARTHEST else _FARTHEST)
    return Counter(found.axis, shape[found.axis], first) if abs(first) < _FARTHEST else None


def _expanded(walk: Traversal[str, Counter | None], node: Node) -> Counter | None:
    """An Expand that does not stretch the axis."""
    before, after = _shapes(walk.graph, node)
    found = walk.fact(node.inputs[0])
    if found is None or before is None or after is None:
        return None
    index = found.axis + len(after) - len(before)
    return found._replace(axis=index) if always_equal(before[found.axis], after[index]) else None


def _reshaped(walk: Traversal[str, Counter | None], node: Node) -> Counter | None:
    """A Reshape that only adds or drops axes of size 1."""
    before, after = _shapes(walk.graph, node)
    found = walk.fact(node.inputs[0])
    if found is None or before is None or after is None:
        return None
    rest = [size for axis, size in enumerate(before) if axis != found.axis]
    wide = [axis for axis, size in enumerate(after) if not always_equal(size, 1)]
    if not all(always_equal(size, 1) for size in rest) or len(wide) != 1:
        return None
    return found._replace(axis=wide[0]) if always_equal(after[wide[0]], found.length) else None


def _unsqueezed(walk: Traversal[str, Counter | None], node: Node) -> Counter | None:
    _, after = _shapes(walk.graph, node)
    found, added = walk.fact(node.inputs[0]), small_constant(walk.graph, node.inputs[1])
    if found is None or added is None or after is None:
        return None
    new = {normalize_axis(int(axis), len(after)) for axis in added.reshape(-1)}
    kept = [index for index in range(len(after)) if index not in new]
    return found._replace(axis=kept[found.axis])


def _shapes(graph: Graph, node: Node) -> tuple[tuple[Dim, ...] | None, tuple[Dim, ...] | None]:
    return shape_or_none(graph, node.inputs[0]), shape_or_none(graph, node.outputs[0])


_TRANSFERS: dict[str, Transfer[Counter | None]] = {
    "Add": _shifted(1),
    "Concat": _joined,
    "Expand": _expanded,
    "Range": _range,
    "Reshape": _reshaped,
    "Slice": _sliced,
    "Sub": _shifted(-1),
    "Unsqueeze": _unsqueezed,
}
_COUNTER = by_operator(None, lambda graph, x: None, _TRANSFERS)
