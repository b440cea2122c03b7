"""Words of the rules about slices of an axis: what a Slice takes, inputs of a Concat, tensors that
are padded side by side.

In come the inputs of a Slice, Concat or Pad of a match; out go slices as values, and the nodes that
take them. They answer for all values of the symbols; a bound that is only known while the model
runs is not known here. Called by rules of slice, concat, training and rotary.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ortable import dims, dtypes
from ortable.dims import Dim
from ortable.inference.shape import normalize_axis
from ortable.ir import Graph
from ortable.passes.analysis.constants import small_constant
from ortable.passes.analysis.uniformity import uniform_value
from ortable.prelude.facts import Bool, Int, Ints, Opaque, Result, Results
from ortable.prelude.metadata import shape_or_none
from ortable.prelude.values import consts

__all__ = [
    "adjacent_pads",
    "composed_slice",
    "concat_padded",
    "concat_slices",
    "concatenated",
    "flattened_concat",
    "has_unit_steps",
    "slice_of",
    "slice_of_concat",
    "slices_half",
    "split_sizes",
]

_TO_END = (1 << 31) - 1  # exporters write "to the end" as the largest int32 or int64
_LAST = (1 << 63) - 1


class Span(NamedTuple):
    """Start and end along an axis, as a Slice has them: negative ones count from the back."""

    start: int
    end: int


class Slice(NamedTuple):
    """What is cut from a result: spans by axis, none for all of it."""

    source: str
    spans: dict[int, Span]


class Adjacent(NamedTuple):
    """Two padded tensors that lie side by side along an axis: whether the second one comes first,
    and the zeros before and after both."""

    axis: int
    swapped: bool
    before: int
    after: int


# -- what a Slice takes


def slice_of(
    graph: Graph,
    x: Result,
    starts: Result,
    ends: Result,
    axes: Result,
    steps: Result | None,
) -> Opaque:
    """What a Slice takes; None when its bounds are not constants or it leaves elements out."""
    first, last, which = (_ints(graph, each) for each in (starts, ends, axes))
    rank = graph.values[x].rank
    if first is None or last is None or which is None or rank is None:
        return None
    if not has_unit_steps(graph, steps):
        return None
    spans: dict[int, Span] = {}
    for start, end, axis in zip(first, last, which, strict=True):
        index = normalize_axis(axis, rank)
        spans[index] = Span(start, _LAST if end >= _TO_END else end)
    return Slice(x, spans)


def has_unit_steps(graph: Graph, steps: Result | None) -> Bool:
    """Whether the steps of a Slice are left out, or 1."""
    if not steps:
        return True
    known = _ints(graph, steps)
    if known is not None:
        return all(step == 1 for step in known)
    return uniform_value(graph, steps) == 1


def slices_half(
    graph: Graph, begin: Result, end: Result, axes: Result, x: Result, which: Int
) -> Bool:
    """Whether bounds and axis of a Slice, all constant, are those of the first (0) or second (1)
    half of the last axis of ``x``."""
    if not graph.has_shape(x):
        return False
    shape = graph.get_shape(x)
    size = shape[-1] if shape else 1
    given = [small_constant(graph, each) for each in (begin, end, axes)]
    if type(size) is not int or size < 2 or size % 2:
        return False
    if any(each is None or each.size != 1 for each in given):
        return False
    first, last, axis = (int(a.reshape(-1)[0]) for a in given)  # type: ignore[union-attr]
    if axis % len(shape) != len(shape) - 1:
        return False
    first, last = (value + size if value < 0 else min(value, size) for value in (first, last))
    return (first, last) == (which * size // 2, (1 + which) * size // 2)


def composed_slice(graph: Graph, x: Result, inner: Opaque, outer: Opaque) -> Opaque:
    """What is taken from ``x`` by ``inner``, and from that by ``outer``; None when it is not
    known."""
    shape = shape_or_none(graph, x)
    if inner is None or outer is None or shape is None:
        return None
    spans = dict(inner.spans)
    for axis, span in outer.spans.items():
        before = spans.get(axis)
        both = span if before is None else _within(before, span, shape[axis])
        if both is None:
            return None
        spans[axis] = both
    return Slice(x, spans)


def _within(first: Span, second: Span, size: Dim) -> Span | None:
    """The second span inside the first one, on an axis of that size."""
    if isinstance(size, int):
        begin, end = _clamped(first, size)
        start, stop = _clamped(second, max(end - begin, 0))
        return Span(begin + start, begin + max(start, stop))
    if first.start < 0 or second.start < 0:
        return None
    start = first.start + second.start
    if second.end == _LAST:
        return Span(start, first.end)
    if first.end == _LAST:
        return Span(start, second.end if second.end < 0 else first.start + second.end)
    if first.end >= 0 and second.end >= 0:
        return Span(start, min(first.end, first.start + second.end))
    return None


def _clamped(span: Span, size: int) -> tuple[int, int]:
    """Both bounds counted from the front, inside the axis."""
    start, end, _ = slice(span.start, span.end).indices(size)
    return start, end


def _bounds(span: Span, size: Dim) -> tuple[Dim, Dim] | None:
    """Both bounds counted from the front, where they are provably inside the axis."""
    if isinstance(size, int):
        start, end = _clamped(span, size)
        return start, max(start, end)
    found: list[Dim] = []
    for index in span:
        bound = size if index == _LAST else index if index >= 0 else size + index
        if not (dims.always_equal(bound, size) or (bound >= 0 and bound <= size)):
            return None
        found.append(bound)
    return (found[0], found[1]) if found[0] <= found[1] else None


def split_sizes(graph: Graph, x: Result, slices: Any) -> Ints:
    """The sizes of slices that are all of ``x`` along one axis, in order; [] when they are
    not."""
    shape = shape_or_none(graph, x)
    if shape is None or any(taken is None or len(taken.spans) != 1 for taken in slices):
        return []
    axes = {axis for taken in slices for axis in taken.spans}
    (axis,) = axes if len(axes) == 1 else (-1,)
    size = shape[axis] if axis >= 0 else None
    if not isinstance(size, int):
        return []
    bounds = [_clamped(taken.spans[axis], size) for taken in slices]
    ends = [0, *(end for _, end in bounds)]
    if ends[-1] != size or any(b[0] != end for b, end in zip(bounds, ends, strict=False)):
        return []
    return [end - start for start, end in bounds]


def _ints(graph: Graph, x: Result) -> list[int] | None:
    """The integers of a constant vector."""
    array = small_constant(graph, x)
    if array is None or array.ndim != 1 or array.dtype.kind not in "iu":
        return None
    found: list[int] = array.tolist()
    return found


# -- inputs of a Concat


def flattened_concat(graph: Graph, xs: Results, axis: Int) -> Results:
    """The results that a Concat joins, with those of another Concat along the same axis in its
    place."""
    found: list[str] = []
    for x in xs:
        node = graph.values[x].producer
        rank = graph.values[x].rank
        if (
            node is not None
            and node.key == "Concat"
            and rank is not None
            and node.outputs == [x]
            and normalize_axis(node.attrs["axis"], rank) == normalize_axis(axis, rank)
        ):
            found += node.inputs
        else:
            found.append(x)
    return found


def slice_of_concat(graph: Graph, xs: Results, axis: Int, taken: Opaque) -> Opaque:
    """A slice of what a Concat joins as the results that it takes whole, or as a slice of the one
    result that holds it; None where it is neither, or not known."""
    if taken is None or len(taken.spans) != 1 or not all(map(graph.has_shape, xs)):
        return None
    index = normalize_axis(axis, len(graph.get_shape(xs[0])))
    if index not in taken.spans:
        return None
    sizes = [graph.get_shape(x)[index] for x in xs]
    bounds = _bounds(taken.spans[index], sum(sizes[1:], start=sizes[0]))
    if bounds is None:
        return None
    first: int | None = None
    before: Dim = 0
    for place, (x, size) in enumerate(zip(xs, sizes, strict=True)):
        start, end = bounds[0] - before, bounds[1] - before
        first = place if first is None and dims.always_equal(start, 0) else first
        if first is not None and dims.always_equal(end, size):
            return [Slice(each, {}) for each in xs[first : place + 1]]
        if isinstance(start, int) and isinstance(end, int) and start >= 0 and end <= size:
            return [Slice(x, {index: Span(start, end)})]
        before = before + size
    return None


def concat_slices(graph: Graph, xs: Results, axis: Int) -> Opaque:
    """The results that a Concat joins as slices. Those that lie side by side in one result are
    one slice, where that makes no Slice beside the Concat: the slices may have other readers."""
    sources = [_pieces_source(graph, x) for x in xs]
    if not any(a is not None and a == b for a, b in itertools.pairwise(sources)):
        return [Slice(x, {}) for x in xs]
    rank = graph.values[xs[0]].rank
    index = normalize_axis(axis, rank) if rank is not None else 0
    groups: list[tuple[list[str], str, tuple[Dim, Dim] | None]] = []
    for x in xs:
        source, bounds = _cut_from(graph, x, index)
        names, before, last = groups[-1] if groups else ([], "", None)
        known = last is not None and bounds is not None and source == before
        if known and dims.always_equal(last[1], bounds[0]):  # type: ignore[index]
            groups[-1] = ([*names, x], source, (last[0], bounds[1]))  # type: ignore[index]
        else:
            groups.append(([x], source, bounds))
    found: list[Slice] = []
    for names, source, bounds in groups:
        taken = None if bounds is None else _between(graph, source, index, bounds)
        if len(names) > 1 and taken is not None and (not taken.spans or len(groups) == 1):
            found.append(taken)
        else:
            found += [Slice(name, {}) for name in names]
    return found


def concatenated(graph: Graph, slices: Opaque, axis: Int) -> Result:
    """Slices joined; no Concat for one."""
    made = [_slice_node(graph, taken) for taken in slices]
    return made[0] if len(made) == 1 else graph.make_node("Concat", made, axis=axis)


def _slice_node(graph: Graph, taken: Slice) -> str:
    """The slice; no node when it is all of its source."""
    if not taken.spans:
        return taken.source
    axes = sorted(taken.spans)
    starts, ends = zip(*(taken.spans[axis] for axis in axes), strict=True)
    inputs = [consts(graph, list(each), dtypes.int64) for each in (starts, ends, axes)]
    return graph.make_node("Slice", [taken.source, *inputs])


def _between(graph: Graph, x: str, axis: int, bounds: tuple[Dim, Dim]) -> Slice:
    start, end = bounds
    if dims.always_equal(start, 0) and dims.always_equal(end, graph.get_shape(x)[axis]):
        return Slice(x, {})
    stop = end if isinstance(end, int) else _LAST  # another bound is the end of the axis
    return Slice(x, {axis: Span(int(start), stop)})  # type: ignore[arg-type]


def _pieces_source(graph: Graph, x: str) -> str | None:
    """The first of what ``x`` is made of, which is what a Slice or Split takes it from."""
    node = graph.values[x].producer
    return node.inputs[0] if node is not None and node.inputs else None


def _cut_from(graph: Graph, x: str, axis: int) -> tuple[str, tuple[Dim, Dim] | None]:
    """The result of which ``x`` is a slice along an axis, and its bounds there; itself without
    bounds when it is no such slice."""
    node = graph.values[x].producer
    if node is None or not node.inputs or not graph.has_shape(node.inputs[0]):
        return x, None
    source, shape = node.inputs[0], graph.get_shape(node.inputs[0])
    bounds = None
    if node.key == "Slice" and len(node.inputs) > 3 and x in node.outputs:
        starts, ends, axes = node.inputs[1:4]
        steps = node.inputs[4] if len(node.inputs) > 4 else None
        taken = slice_of(graph, source, starts, ends, axes, steps)
        if taken is not None and list(taken.spans) == [axis]:
            bounds = _bounds(taken.spans[axis], shape[axis])
    elif node.key == "Split" and normalize_axis(node.attrs.get("axis", 0), len(shape)) == axis:
        bounds = _of_split(graph, node.outputs, node.outputs.index(x), axis)
    if bounds is None or not _is_plain(bounds, shape[axis]):
        return x, None
    return source, bounds


def _is_plain(bounds: tuple[Dim, Dim], size: Dim) -> bool:
    """Whether a Slice can say these bounds: numbers, or the end of the axis."""
    start, end = bounds
    return isinstance(start, int) and (isinstance(end, int) or dims.always_equal(end, size))


def _of_split(
    graph: Graph, outputs: Sequence[str], index: int, axis: int
) -> tuple[Dim, Dim] | None:
    if not all(name and graph.has_shape(name) for name in outputs):
        return None
    sizes = [graph.get_shape(name)[axis] for name in outputs]
    start: Dim = sum(sizes[1:index], start=sizes[0]) if index else 0
    return start, start + sizes[index]


# -- padded tensors side by side


def adjacent_pads(
    graph: Graph,
    first: Result,
    pads: Result,
    axes: Result | None,
    second: Result,
    more: Result,
    others: Result | None,
) -> Opaque:
    """How two tensors lie whose pads leave room for one another; None when they overlap, do not
    touch, or that is not known."""
    shape, other = shape_or_none(graph, first), shape_or_none(graph, second)
    one, two = _padded(graph, shape, pads, axes), _padded(graph, other, more, others)
    if shape is None or other is None or one is None or two is None or len(shape) != len(other):
        return None
    long = sorted({*one, *two})
    if len(long) != 1:
        return None
    axis = long[0]
    for index, pair in enumerate(zip(shape, other, strict=True)):
        if index != axis and not dims.always_equal(*pair):
            return None
    sizes = shape[axis], other[axis]
    (low, high), (begin, end) = one.get(axis, (0, 0)), two.get(axis, (0, 0))
    if not (isinstance(sizes[0], int) and isinstance(sizes[1], int)):
        return None
    if low + sizes[0] + high != begin + sizes[1] + end:
        return None
    if low + sizes[0] == begin:
        return Adjacent(axis, False, low, end)
    return Adjacent(axis, True, begin, high) if begin + sizes[1] == low else None


def _padded(
    graph: Graph, shape: tuple[Dim, ...] | None, pads: str, axes: str | None
) -> dict[int, tuple[int, int]] | None:
    """Zeros before and after by axis, without axes that have none; None where elements are cut."""
    amounts = small_constant(graph, pads)
    if shape is None or amounts is None:
        return None
    which = np.arange(len(shape)) if axes is None else small_constant(graph, axes)
    if which is None or amounts.size != 2 * which.size or (amounts < 0).any():
        return None
    named = [normalize_axis(int(axis), len(shape)) for axis in which.reshape(-1)]
    low, high = amounts.reshape(2, -1).tolist()
    found = zip(named, low, high, strict=True)
    return {axis: (before, after) for axis, before, after in found if before or after}


def concat_padded(graph: Graph, first: Result, second: Result, side: Opaque) -> Result:
    """Two tensors side by side, with the zeros around them."""
    parts = [second, first] if side.swapped else [first, second]
    both = graph.make_node("Concat", parts, axis=side.axis)
    if not (side.before or side.after):
        return both
    rank = graph.get_rank(first)
    around = [0] * (2 * rank)
    around[side.axis], around[rank + side.axis] = side.before, side.after
    return graph.make_node("Pad", [both, consts(graph, around, dtypes.int64)])
