"""Helpers of the rules about slices of an axis: what a Slice takes, inputs of a Concat, tensors
padded side by side. Called by rules of slice, concat, training and rotary.

Facts hold for all values of the symbols; bounds that are computed at run time are unknown.
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
    "flattened_concat",
    "has_unit_steps",
    "make_concat",
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
    """Two padded tensors that are adjacent along an axis: whether the second one comes first, and
    the zeros before and after both.
    """

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
    """What a Slice takes; None when its bounds are not constants or it skips elements."""
    first, last, which = (_int_vector(graph, bound) for bound in (starts, ends, axes))
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
    values = _int_vector(graph, steps)
    if values is not None:
        return all(step == 1 for step in values)
    return uniform_value(graph, steps) == 1


def slices_half(
    graph: Graph, begin: Result, end: Result, axes: Result, x: Result, which: Int
) -> Bool:
    """Whether the constant bounds and axis of a Slice select the first (0) or second (1) half of
    the last axis of ``x``.
    """
    if not graph.has_shape(x):
        return False
    shape = graph.get_shape(x)
    size = shape[-1] if shape else 1
    bounds = [small_constant(graph, array) for array in (begin, end, axes)]
    if type(size) is not int or size < 2 or size % 2:
        return False
    if any(array is None or array.size != 1 for array in bounds):
        return False
    first, last, axis = (int(a.reshape(-1)[0]) for a in bounds)  # type: ignore[union-attr]
    if axis % len(shape) != len(shape) - 1:
        return False
    first, last = (value + size if value < 0 else min(value, size) for value in (first, last))
    return (first, last) == (which * size // 2, (1 + which) * size // 2)


def composed_slice(graph: Graph, x: Result, inner: Opaque, outer: Opaque) -> Opaque:
    """The slice ``outer`` of the slice ``inner`` of ``x`` as one; None when it is unknown."""
    shape = shape_or_none(graph, x)
    if inner is None or outer is None or shape is None:
        return None
    spans = dict(inner.spans)
    for axis, span in outer.spans.items():
        before = spans.get(axis)
        both = span if before is None else _compose_spans(before, span, shape[axis])
        if both is None:
            return None
        spans[axis] = both
    return Slice(x, spans)


def _compose_spans(first: Span, second: Span, size: Dim) -> Span | None:
    """The second span inside the first one, on an axis of that size."""
    if isinstance(size, int):
        begin, end = _clamp_span(first, size)
        start, stop = _clamp_span(second, max(end - begin, 0))
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


def _clamp_span(span: Span, size: int) -> tuple[int, int]:
    """Both bounds counted from the front, inside the axis."""
    start, end, _ = slice(span.start, span.end).indices(size)
    return start, end


def _known_bounds(span: Span, size: Dim) -> tuple[Dim, Dim] | None:
    """Both bounds counted from the front, where they are provably inside the axis."""
    if isinstance(size, int):
        start, end = _clamp_span(span, size)
        return start, max(start, end)
    bounds: list[Dim] = []
    for index in span:
        bound = size if index == _LAST else index if index >= 0 else size + index
        if not (dims.always_equal(bound, size) or (bound >= 0 and bound <= size)):
            return None
        bounds.append(bound)
    return (bounds[0], bounds[1]) if bounds[0] <= bounds[1] else None


def split_sizes(graph: Graph, x: Result, slices: Any) -> Ints:
    """The sizes of slices that are all of ``x`` along one axis, in order; [] when they are
    not."""
    shape = shape_or_none(graph, x)
    if shape is None or any(piece is None or len(piece.spans) != 1 for piece in slices):
        return []
    axes = {axis for piece in slices for axis in piece.spans}
    (axis,) = axes if len(axes) == 1 else (-1,)
    size = shape[axis] if axis >= 0 else None
    if not isinstance(size, int):
        return []
    bounds = [_clamp_span(piece.spans[axis], size) for piece in slices]
    ends = [0, *(end for _, end in bounds)]
    if ends[-1] != size or any(b[0] != end for b, end in zip(bounds, ends, strict=False)):
        return []
    return [end - start for start, end in bounds]


def _int_vector(graph: Graph, x: Result) -> list[int] | None:
    """The integers of a constant vector."""
    array = small_constant(graph, x)
    if array is None or array.ndim != 1 or array.dtype.kind not in "iu":
        return None
    values: list[int] = array.tolist()
    return values


# -- inputs of a Concat


def flattened_concat(graph: Graph, xs: Results, axis: Int) -> Results:
    """The inputs of a Concat, with those of an input that is a Concat along the same axis in its
    place.
    """
    inputs: list[str] = []
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
            inputs += node.inputs
        else:
            inputs.append(x)
    return inputs


def slice_of_concat(graph: Graph, xs: Results, axis: Int, taken: Opaque) -> Opaque:
    """A slice of a Concat as the inputs that it takes whole, or as a slice of the one input that
    contains it; None where it is neither or unknown.
    """
    if taken is None or len(taken.spans) != 1 or not all(map(graph.has_shape, xs)):
        return None
    index = normalize_axis(axis, len(graph.get_shape(xs[0])))
    if index not in taken.spans:
        return None
    sizes = [graph.get_shape(x)[index] for x in xs]
    bounds = _known_bounds(taken.spans[index], sum(sizes[1:], start=sizes[0]))
    if bounds is None:
        return None
    first: int | None = None
    before: Dim = 0
    for position, (x, size) in enumerate(zip(xs, sizes, strict=True)):
        start, end = bounds[0] - before, bounds[1] - before
        first = position if first is None and dims.always_equal(start, 0) else first
        if first is not None and dims.always_equal(end, size):
            return [Slice(source, {}) for source in xs[first : position + 1]]
        if isinstance(start, int) and isinstance(end, int) and start >= 0 and end <= size:
            return [Slice(x, {index: Span(start, end)})]
        before = before + size
    return None


def concat_slices(graph: Graph, xs: Results, axis: Int) -> Opaque:
    """The inputs of a Concat as slices. Adjacent slices of one result become one slice where that
    leaves no Slice beside the Concat: the slices may have other readers.
    """
    sources = [_first_input(graph, x) for x in xs]
    if not any(a is not None and a == b for a, b in itertools.pairwise(sources)):
        return [Slice(x, {}) for x in xs]
    rank = graph.values[xs[0]].rank
    index = normalize_axis(axis, rank) if rank is not None else 0
    groups: list[tuple[list[str], str, tuple[Dim, Dim] | None]] = []
    for x in xs:
        source, bounds = _cut_from(graph, x, index)
        names, before, last = groups[-1] if groups else ([], "", None)
        is_adjacent = last is not None and bounds is not None and source == before
        if is_adjacent and dims.always_equal(last[1], bounds[0]):  # type: ignore[index]
            groups[-1] = ([*names, x], source, (last[0], bounds[1]))  # type: ignore[index]
        else:
            groups.append(([x], source, bounds))
    slices: list[Slice] = []
    for names, source, bounds in groups:
        piece = None if bounds is None else _slice_between(graph, source, index, bounds)
        if len(names) > 1 and piece is not None and (not piece.spans or len(groups) == 1):
            slices.append(piece)
        else:
            slices += [Slice(name, {}) for name in names]
    return slices


def make_concat(graph: Graph, slices: Opaque, axis: Int) -> Result:
    """Concatenate slices; no Concat for one."""
    results = [_slice_node(graph, piece) for piece in slices]
    return results[0] if len(results) == 1 else graph.make_node("Concat", results, axis=axis)


def _slice_node(graph: Graph, taken: Slice) -> str:
    """The result of a slice; its source when it is all of it."""
    if not taken.spans:
        return taken.source
    axes = sorted(taken.spans)
    starts, ends = zip(*(taken.spans[axis] for axis in axes), strict=True)
    inputs = [consts(graph, list(values), dtypes.int64) for values in (starts, ends, axes)]
    return graph.make_node("Slice", [taken.source, *inputs])


def _slice_between(graph: Graph, x: str, axis: int, bounds: tuple[Dim, Dim]) -> Slice:
    start, end = bounds
    if dims.always_equal(start, 0) and dims.always_equal(end, graph.get_shape(x)[axis]):
        return Slice(x, {})
    stop = end if isinstance(end, int) else _LAST  # a symbolic bound is the end of the axis
    return Slice(x, {axis: Span(int(start), stop)})  # type: ignore[arg-type]


def _first_input(graph: Graph, x: str) -> str | None:
    """The first input of the node that makes ``x``: what a Slice or Split takes it from."""
    node = graph.values[x].producer
    return node.inputs[0] if node is not None and node.inputs else None


def _cut_from(graph: Graph, x: str, axis: int) -> tuple[str, tuple[Dim, Dim] | None]:
    """The result of which ``x`` is a slice along an axis, and its bounds; ``x`` without bounds when
    it is no such slice.
    """
    node = graph.values[x].producer
    if node is None or not node.inputs or not graph.has_shape(node.inputs[0]):
        return x, None
    source, shape = node.inputs[0], graph.get_shape(node.inputs[0])
    bounds = None
    if node.key == "Slice" and len(node.inputs) > 3 and x in node.outputs:
        starts, ends, axes = node.inputs[1:4]
        steps = node.inputs[4] if len(node.inputs) > 4 else None
        piece = slice_of(graph, source, starts, ends, axes, steps)
        if piece is not None and list(piece.spans) == [axis]:
            bounds = _known_bounds(piece.spans[axis], shape[axis])
    elif node.key == "Split" and normalize_axis(node.attrs.get("axis", 0), len(shape)) == axis:
        bounds = _split_bounds(graph, node.outputs, node.outputs.index(x), axis)
    if bounds is None or not _is_sliceable(bounds, shape[axis]):
        return x, None
    return source, bounds


def _is_sliceable(bounds: tuple[Dim, Dim], size: Dim) -> bool:
    """Whether a Slice can express these bounds: numbers, or the end of the axis."""
    start, end = bounds
    return isinstance(start, int) and (isinstance(end, int) or dims.always_equal(end, size))


def _split_bounds(
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
    """How two tensors lie whose pads leave room for one another; None when they overlap, are not
    adjacent, or that is unknown.
    """
    shape, other = shape_or_none(graph, first), shape_or_none(graph, second)
    left, right = _pads_by_axis(graph, shape, pads, axes), _pads_by_axis(graph, other, more, others)
    if shape is None or other is None or left is None or right is None or len(shape) != len(other):
        return None
    long = sorted({*left, *right})
    if len(long) != 1:
        return None
    axis = long[0]
    for index, pair in enumerate(zip(shape, other, strict=True)):
        if index != axis and not dims.always_equal(*pair):
            return None
    sizes = shape[axis], other[axis]
    (low, high), (begin, end) = left.get(axis, (0, 0)), right.get(axis, (0, 0))
    if not (isinstance(sizes[0], int) and isinstance(sizes[1], int)):
        return None
    if low + sizes[0] + high != begin + sizes[1] + end:
        return None
    if low + sizes[0] == begin:
        return Adjacent(axis, False, low, end)
    return Adjacent(axis, True, begin, high) if begin + sizes[1] == low else None


def _pads_by_axis(
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
    amounts_by_axis = zip(named, low, high, strict=True)
    return {axis: (before, after) for axis, before, after in amounts_by_axis if before or after}


def concat_padded(graph: Graph, first: Result, second: Result, side: Opaque) -> Result:
    """Concatenate two adjacent tensors, with the zeros around them."""
    parts = [second, first] if side.swapped else [first, second]
    both = graph.make_node("Concat", parts, axis=side.axis)
    if not (side.before or side.after):
        return both
    rank = graph.get_rank(first)
    around = [0] * (2 * rank)
    around[side.axis], around[rank + side.axis] = side.before, side.after
    return graph.make_node("Pad", [both, consts(graph, around, dtypes.int64)])
