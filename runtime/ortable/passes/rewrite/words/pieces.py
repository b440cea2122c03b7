"""Lower-case words of rewrites about pieces of an axis: what a Slice takes, parts of a Concat,
pieces that lie side by side.

They answer for all values of the symbols; a bound that is only known while the model runs is not
known here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ortable import dims, dtypes
from ortable.dims import Dim
from ortable.inference.shape import normalize_axis
from ortable.ir import Graph
from ortable.passes.rewrite.matcher import small_constant
from ortable.prelude.facts import Bool, Int, Ints, Opaque, Result, Results
from ortable.prelude.metadata import shape_or_none
from ortable.prelude.values import const, consts

__all__ = [
    "all_ones",
    "cut",
    "first_axis",
    "first_place",
    "flat_parts",
    "is_found",
    "is_one_place",
    "joined",
    "joined_pieces",
    "part_of",
    "piece_of",
    "piece_of_piece",
    "split_sizes",
]

_TO_END = (1 << 31) - 1  # exporters write "to the end" as the largest int32 or int64
_LAST = (1 << 63) - 1


class Span(NamedTuple):
    """Start and end along an axis, as a Slice has them: negative ones count from the back."""

    start: int
    end: int


class Piece(NamedTuple):
    """What is cut from a result: spans by axis, none for all of it."""

    source: str
    spans: dict[int, Span]


def piece_of(
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
    if not all_ones(graph, steps):
        return None
    spans: dict[int, Span] = {}
    for start, end, axis in zip(first, last, which, strict=True):
        place = normalize_axis(axis, rank)
        spans[place] = Span(start, _LAST if end >= _TO_END else end)
    return Piece(x, spans)


def all_ones(graph: Graph, steps: Result | None) -> Bool:
    """Whether the steps of a Slice are left out, or 1."""
    found = [1] if steps is None else _ints(graph, steps)
    return found is not None and all(step == 1 for step in found)


def is_found(thing: Opaque) -> Bool:
    """Whether a word has given something."""
    return thing is not None


def cut(graph: Graph, piece: Opaque) -> Result:
    """The piece; no node when it is all of its source."""
    if not piece.spans:
        return piece.source
    axes = sorted(piece.spans)
    vectors = (
        [piece.spans[axis].start for axis in axes],
        [piece.spans[axis].end for axis in axes],
        axes,
    )
    inputs = [consts(graph, each, dtypes.int64) for each in vectors]
    return graph.make_node("Slice", [piece.source, *inputs])


def piece_of_piece(graph: Graph, x: Result, inner: Opaque, outer: Opaque) -> Opaque:
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
    return Piece(x, spans)


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
    for place in span:
        bound = size if place == _LAST else place if place >= 0 else size + place
        if not (dims.same(bound, size) or (bound >= 0 and bound <= size)):
            return None
        found.append(bound)
    return (found[0], found[1]) if found[0] <= found[1] else None


# -- one place ------------------------------------------------------------------------------------


def is_one_place(graph: Graph, x: Result, piece: Opaque, y: Result, gone: Ints) -> Bool:
    """Whether ``y``, the piece, has one element along its only axis, which is the one that is
    gone then."""
    shape = shape_or_none(graph, y)
    if piece is None or shape is None or gone is None or len(gone) != 1 or len(piece.spans) != 1:
        return False
    (axis,) = piece.spans
    size, whole = shape[axis], shape_or_none(graph, x)
    if normalize_axis(gone[0], len(shape)) != axis or not (isinstance(size, int) and size == 1):
        return False
    start = piece.spans[axis].start
    if whole is None:
        return False
    # Slice clamps a start that lies outside, Gather refuses it
    return whole[axis] > start if start >= 0 else whole[axis] >= -start


def first_place(graph: Graph, piece: Opaque) -> Result:
    """The start of a piece as a 0-d result."""
    (span,) = piece.spans.values()
    return const(graph, span.start, dtypes.int64)


def first_axis(piece: Opaque) -> Int:
    """The axis of a piece."""
    (axis,) = piece.spans
    return int(axis)


# -- parts that are joined ------------------------------------------------------------------------


def flat_parts(graph: Graph, xs: Results, axis: Int) -> Results:
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


def part_of(graph: Graph, xs: Results, axis: Int, piece: Opaque) -> Opaque:
    """A piece of what a Concat joins as a piece of the one result that holds it; None when there
    is none, or when it is not known which."""
    if piece is None or len(piece.spans) != 1 or not all(map(graph.has_shape, xs)):
        return None
    place = normalize_axis(axis, len(graph.get_shape(xs[0])))
    if place not in piece.spans:
        return None
    sizes = [graph.get_shape(x)[place] for x in xs]
    bounds = _bounds(piece.spans[place], sum(sizes[1:], start=sizes[0]))
    if bounds is None:
        return None
    before: Dim = 0
    for x, size in zip(xs, sizes, strict=True):
        start, end = bounds[0] - before, bounds[1] - before
        if dims.same(start, 0) and dims.same(end, size):
            return Piece(x, {})
        if isinstance(start, int) and isinstance(end, int) and start >= 0 and end <= size:
            return Piece(x, {place: Span(start, end)})
        before = before + size
    return None


def joined_pieces(graph: Graph, xs: Results, axis: Int) -> Opaque:
    """The results that a Concat joins as pieces. Those that lie side by side in one result are
    one piece, where that makes no Slice beside the Concat: the pieces may have other readers."""
    rank = graph.values[xs[0]].rank
    place = normalize_axis(axis, rank) if rank is not None else 0
    groups: list[tuple[list[str], str, tuple[Dim, Dim] | None]] = []
    for x in xs:
        source, bounds = _cut_from(graph, x, place)
        names, before, last = groups[-1] if groups else ([], "", None)
        known = last is not None and bounds is not None and source == before
        if known and dims.same(last[1], bounds[0]):  # type: ignore[index]
            groups[-1] = ([*names, x], source, (last[0], bounds[1]))  # type: ignore[index]
        else:
            groups.append(([x], source, bounds))
    found: list[Piece] = []
    for names, source, bounds in groups:
        piece = None if bounds is None else _between(graph, source, place, bounds)
        if len(names) > 1 and piece is not None and (not piece.spans or len(groups) == 1):
            found.append(piece)
        else:
            found += [Piece(name, {}) for name in names]
    return found


def joined(graph: Graph, parts: Opaque, axis: Int) -> Result:
    """Pieces joined; no Concat for one."""
    made = [cut(graph, piece) for piece in parts]
    return made[0] if len(made) == 1 else graph.make_node("Concat", made, axis=axis)


def _between(graph: Graph, x: str, axis: int, bounds: tuple[Dim, Dim]) -> Piece:
    start, end = bounds
    if dims.same(start, 0) and dims.same(end, graph.get_shape(x)[axis]):
        return Piece(x, {})
    stop = end if isinstance(end, int) else _LAST  # another bound is the end of the axis
    return Piece(x, {axis: Span(int(start), stop)})  # type: ignore[arg-type]


def _cut_from(graph: Graph, x: str, axis: int) -> tuple[str, tuple[Dim, Dim] | None]:
    """The result of which ``x`` is a piece along an axis, and its bounds there; itself without
    bounds when it is no such piece."""
    node = graph.values[x].producer
    if node is None or not node.inputs or not graph.has_shape(node.inputs[0]):
        return x, None
    source, shape = node.inputs[0], graph.get_shape(node.inputs[0])
    bounds = None
    if node.key == "Slice" and len(node.inputs) > 3 and x in node.outputs:
        starts, ends, axes = node.inputs[1:4]
        steps = node.inputs[4] if len(node.inputs) > 4 else None
        piece = piece_of(graph, source, starts, ends, axes, steps)
        if piece is not None and list(piece.spans) == [axis]:
            bounds = _bounds(piece.spans[axis], shape[axis])
    elif node.key == "Split" and normalize_axis(node.attrs.get("axis", 0), len(shape)) == axis:
        bounds = _of_split(graph, node.outputs, node.outputs.index(x), axis)
    if bounds is None or not _is_plain(bounds, shape[axis]):
        return x, None
    return source, bounds


def _is_plain(bounds: tuple[Dim, Dim], size: Dim) -> bool:
    """Whether a Slice can say these bounds: numbers, or the end of the axis."""
    start, end = bounds
    return isinstance(start, int) and (isinstance(end, int) or dims.same(end, size))


def _of_split(
    graph: Graph, outputs: Sequence[str], place: int, axis: int
) -> tuple[Dim, Dim] | None:
    if not all(name and graph.has_shape(name) for name in outputs):
        return None
    sizes = [graph.get_shape(name)[axis] for name in outputs]
    start: Dim = sum(sizes[1:place], start=sizes[0]) if place else 0
    return start, start + sizes[place]


def split_sizes(graph: Graph, x: Result, pieces: Any) -> Ints:
    """The sizes of pieces that are all of ``x`` along one axis, in order; [] when they are
    not."""
    shape = shape_or_none(graph, x)
    if shape is None or any(piece is None or len(piece.spans) != 1 for piece in pieces):
        return []
    axes = {axis for piece in pieces for axis in piece.spans}
    (axis,) = axes if len(axes) == 1 else (-1,)
    size = shape[axis] if axis >= 0 else None
    if not isinstance(size, int):
        return []
    bounds = [_clamped(piece.spans[axis], size) for piece in pieces]
    ends = [0, *(end for _, end in bounds)]
    if ends[-1] != size or any(b[0] != end for b, end in zip(bounds, ends, strict=False)):
        return []
    return [end - start for start, end in bounds]


def _ints(graph: Graph, x: Result) -> list[int] | None:
    """The integers of a constant vector."""
    array = small_constant(graph, x)
    if array is None or array.ndim != 1 or array.dtype.kind not in "iu":
        return None
    return [int(each) for each in array]
