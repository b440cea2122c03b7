"""Helpers of the rules about slices of an axis, inputs of a Concat, and adjacent padded tensors.

Called by rules of slice, concat, training and rotary. Facts hold for all values of the symbols;
bounds that are computed at run time are unknown.
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

_TO_END = (1 << 31) - 1  # for "to the end", exporters write the largest int32 or int64
_AXIS_END = (1 << 63) - 1  # the end of a `Span` that reaches the end of the axis


class Span(NamedTuple):
    """Start and end along an axis, as in a Slice: negative values count from the end."""

    start: int
    end: int


class Slice(NamedTuple):
    """A slice of a result: spans by axis, empty for the whole result."""

    source: str
    spans: dict[int, Span]


class Adjacent(NamedTuple):
    """Two padded tensors that are adjacent along an axis.

    ``swapped`` is whether the second tensor comes first; ``before`` and ``after`` are the numbers
    of zeros around both.
    """

    axis: int
    swapped: bool
    before: int
    after: int


# -- slices


def slice_of(
    graph: Graph,
    x: Result,
    starts: Result,
    ends: Result,
    axes: Result,
    steps: Result | None,
) -> Opaque:
    """Return the slice of a Slice node; None if bounds are not constants or steps are not 1."""
    first, last, indices = (_int_vector(graph, bound) for bound in (starts, ends, axes))
    rank = graph.values[x].rank
    if first is None or last is None or indices is None or rank is None:
        return None
    if not has_unit_steps(graph, steps):
        return None
    spans: dict[int, Span] = {}
    for start, end, axis in zip(first, last, indices, strict=True):
        index = normalize_axis(axis, rank)
        spans[index] = Span(start, _AXIS_END if end >= _TO_END else end)
    return Slice(x, spans)


def has_unit_steps(graph: Graph, steps: Result | None) -> Bool:
    """Whether the steps of a Slice are omitted or 1."""
    if not steps:
        return True
    values = _int_vector(graph, steps)
    if values is not None:
        return all(step == 1 for step in values)
    return uniform_value(graph, steps) == 1


def slices_half(
    graph: Graph, begin: Result, end: Result, axes: Result, x: Result, which: Int
) -> Bool:
    """Whether constant bounds select half 0 or 1, ``which``, of the last axis of ``x``."""
    if not graph.has_shape(x):
        return False
    shape = graph.get_shape(x)
    size = shape[-1] if shape else 1
    bounds = [small_constant(graph, array) for array in (begin, end, axes)]
    if type(size) is not int or size < 2 or size % 2:
        return False
    if any(array is None or array.size != 1 for array in bounds):
        return False
    start, stop, axis = (int(a.reshape(-1)[0]) for a in bounds)  # type: ignore[union-attr]
    if axis % len(shape) != len(shape) - 1:
        return False
    start, stop = (value + size if value < 0 else min(value, size) for value in (start, stop))
    return (start, stop) == (which * size // 2, (1 + which) * size // 2)


def composed_slice(graph: Graph, x: Result, inner: Opaque, outer: Opaque) -> Opaque:
    """Return the slice ``outer`` of the slice ``inner`` of ``x`` as one slice; None if unknown."""
    shape = shape_or_none(graph, x)
    if inner is None or outer is None or shape is None:
        return None
    spans = dict(inner.spans)
    for axis, span in outer.spans.items():
        inner_span = spans.get(axis)
        composed = span if inner_span is None else _compose_spans(inner_span, span, shape[axis])
        if composed is None:
            return None
        spans[axis] = composed
    return Slice(x, spans)


def _compose_spans(inner: Span, outer: Span, size: Dim) -> Span | None:
    """Return the span ``outer`` of the span ``inner`` of an axis of this size; None if unknown."""
    if isinstance(size, int):
        begin, end = _clamp_span(inner, size)
        start, stop = _clamp_span(outer, max(end - begin, 0))
        return Span(begin + start, begin + max(start, stop))
    if inner.start < 0 or outer.start < 0:
        return None
    start = inner.start + outer.start
    if outer.end == _AXIS_END:
        return Span(start, inner.end)
    if inner.end == _AXIS_END:
        return Span(start, outer.end if outer.end < 0 else inner.start + outer.end)
    if inner.end >= 0 and outer.end >= 0:
        return Span(start, min(inner.end, inner.start + outer.end))
    return None


def _clamp_span(span: Span, size: int) -> tuple[int, int]:
    """Return both bounds counted from the front and clamped to the axis."""
    start, end, _ = slice(span.start, span.end).indices(size)
    return start, end


def _known_bounds(span: Span, size: Dim) -> tuple[Dim, Dim] | None:
    """Return both bounds counted from the front if they are provably inside the axis, else None."""
    if isinstance(size, int):
        start, end = _clamp_span(span, size)
        return start, max(start, end)
    bounds: list[Dim] = []
    for index in span:
        bound = size if index == _AXIS_END else index if index >= 0 else size + index
        if not (dims.always_equal(bound, size) or (bound >= 0 and bound <= size)):
            return None
        bounds.append(bound)
    return (bounds[0], bounds[1]) if bounds[0] <= bounds[1] else None


def split_sizes(graph: Graph, x: Result, slices: Any) -> Ints:
    """Return the sizes of slices that together are ``x``, in order along one axis, else []."""
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
    """Return the integers of a constant vector, else None."""
    array = small_constant(graph, x)
    if array is None or array.ndim != 1 or array.dtype.kind not in "iu":
        return None
    values: list[int] = array.tolist()
    return values


# -- inputs of a Concat


def flattened_concat(graph: Graph, xs: Results, axis: Int) -> Results:
    """Return the inputs of a Concat, with nested Concats along the same axis flattened."""
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
    """Return a slice of a Concat as whole inputs or as a slice of one input, else None."""
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
    offset: Dim = 0
    for position, (x, size) in enumerate(zip(xs, sizes, strict=True)):
        start, end = bounds[0] - offset, bounds[1] - offset
        first = position if first is None and dims.always_equal(start, 0) else first
        if first is not None and dims.always_equal(end, size):
            return [Slice(source, {}) for source in xs[first : position + 1]]
        if isinstance(start, int) and isinstance(end, int) and start >= 0 and end <= size:
            return [Slice(x, {index: Span(start, end)})]
        offset = offset + size
    return None


def concat_slices(graph: Graph, xs: Results, axis: Int) -> Opaque:
    """Return the inputs of a Concat as slices, with adjacent slices of one result merged.

    Slices are merged only if the merge replaces them by a whole result, or the Concat by one Slice,
    because the original slices may have other readers.
    """
    sources = [_first_input(graph, x) for x in xs]
    if not any(a is not None and a == b for a, b in itertools.pairwise(sources)):
        return [Slice(x, {}) for x in xs]
    rank = graph.values[xs[0]].rank
    index = normalize_axis(axis, rank) if rank is not None else 0
    groups: list[tuple[list[str], str, tuple[Dim, Dim] | None]] = []
    for x in xs:
        source, bounds = _find_slice_bounds(graph, x, index)
        group_names, group_source, group_bounds = groups[-1] if groups else ([], "", None)
        is_adjacent = group_bounds is not None and bounds is not None and source == group_source
        if is_adjacent and dims.always_equal(group_bounds[1], bounds[0]):  # type: ignore[index]
            groups[-1] = ([*group_names, x], source, (group_bounds[0], bounds[1]))  # type: ignore[index]
        else:
            groups.append(([x], source, bounds))
    slices: list[Slice] = []
    for group_names, source, bounds in groups:
        piece = None if bounds is None else _slice_between(graph, source, index, bounds)
        if len(group_names) > 1 and piece is not None and (not piece.spans or len(groups) == 1):
            slices.append(piece)
        else:
            slices += [Slice(name, {}) for name in group_names]
    return slices


def make_concat(graph: Graph, slices: Opaque, axis: Int) -> Result:
    """Concatenate slices; a single slice needs no Concat."""
    results = [_slice_node(graph, piece) for piece in slices]
    return results[0] if len(results) == 1 else graph.make_node("Concat", results, axis=axis)


def _slice_node(graph: Graph, piece: Slice) -> str:
    """Return the result of a slice, or its source if it is the whole result."""
    if not piece.spans:
        return piece.source
    axes = sorted(piece.spans)
    starts, ends = zip(*(piece.spans[axis] for axis in axes), strict=True)
    inputs = [consts(graph, list(values), dtypes.int64) for values in (starts, ends, axes)]
    return graph.make_node("Slice", [piece.source, *inputs])


def _slice_between(graph: Graph, x: str, axis: int, bounds: tuple[Dim, Dim]) -> Slice:
    """Return the slice of ``x`` between these bounds along an axis."""
    start, end = bounds
    if dims.always_equal(start, 0) and dims.always_equal(end, graph.get_shape(x)[axis]):
        return Slice(x, {})
    stop = end if isinstance(end, int) else _AXIS_END  # a symbolic bound is the end of the axis
    return Slice(x, {axis: Span(int(start), stop)})  # type: ignore[arg-type]


def _first_input(graph: Graph, x: str) -> str | None:
    """Return the first input of the node that produces ``x``: the source of a Slice or Split."""
    node = graph.values[x].producer
    return node.inputs[0] if node is not None and node.inputs else None


def _find_slice_bounds(graph: Graph, x: str, axis: int) -> tuple[str, tuple[Dim, Dim] | None]:
    """Return source and bounds of ``x``, the result of a Slice or Split, or ``x`` and None."""
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
    """Whether a Slice can express these bounds: they are numbers, or the end of the axis."""
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


# -- adjacent padded tensors


def adjacent_pads(
    graph: Graph,
    first: Result,
    pads: Result,
    axes: Result | None,
    second: Result,
    more: Result,
    others: Result | None,
) -> Opaque:
    """Return how two padded tensors adjoin without overlap, or None if that is not known."""
    first_shape, second_shape = shape_or_none(graph, first), shape_or_none(graph, second)
    first_pads, second_pads = (
        _pads_by_axis(graph, first_shape, pads, axes),
        _pads_by_axis(graph, second_shape, more, others),
    )
    if (
        first_shape is None
        or second_shape is None
        or first_pads is None
        or second_pads is None
        or len(first_shape) != len(second_shape)
    ):
        return None
    padded_axes = sorted({*first_pads, *second_pads})
    if len(padded_axes) != 1:
        return None
    axis = padded_axes[0]
    for index, pair in enumerate(zip(first_shape, second_shape, strict=True)):
        if index != axis and not dims.always_equal(*pair):
            return None
    sizes = first_shape[axis], second_shape[axis]
    (first_low, first_high), (second_low, second_high) = (
        first_pads.get(axis, (0, 0)),
        second_pads.get(axis, (0, 0)),
    )
    if not (isinstance(sizes[0], int) and isinstance(sizes[1], int)):
        return None
    if first_low + sizes[0] + first_high != second_low + sizes[1] + second_high:
        return None
    if first_low + sizes[0] == second_low:
        return Adjacent(axis, False, first_low, second_high)
    return (
        Adjacent(axis, True, second_low, first_high) if second_low + sizes[1] == first_low else None
    )


def _pads_by_axis(
    graph: Graph, shape: tuple[Dim, ...] | None, pads: str, axes: str | None
) -> dict[int, tuple[int, int]] | None:
    """Return zeros before and after each padded axis; None if pads are negative or unknown."""
    amounts = small_constant(graph, pads)
    if shape is None or amounts is None:
        return None
    axis_values = np.arange(len(shape)) if axes is None else small_constant(graph, axes)
    if axis_values is None or amounts.size != 2 * axis_values.size or (amounts < 0).any():
        return None
    padded_axes = [normalize_axis(int(axis), len(shape)) for axis in axis_values.reshape(-1)]
    low, high = amounts.reshape(2, -1).tolist()
    amounts_by_axis = zip(padded_axes, low, high, strict=True)
    return {axis: (before, after) for axis, before, after in amounts_by_axis if before or after}


def concat_padded(graph: Graph, first: Result, second: Result, side: Opaque) -> Result:
    """Concatenate two adjacent tensors, and add the zeros around them."""
    parts = [second, first] if side.swapped else [first, second]
    joined = graph.make_node("Concat", parts, axis=side.axis)
    if not (side.before or side.after):
        return joined
    rank = graph.get_rank(first)
    pads = [0] * (2 * rank)
    pads[side.axis], pads[rank + side.axis] = side.before, side.after
    return graph.make_node("Pad", [joined, consts(graph, pads, dtypes.int64)])
