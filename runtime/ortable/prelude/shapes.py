"""Lower-case words about pieces of tensors: sizes of views, places of indices, pads, permutations.

The first group answers while converting and adds no node; the second one gives results of the
graph.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from ortable import dims, dtypes
from ortable.dims import SymDim
from ortable.errors import BuilderError, UnsupportedCase
from ortable.inference import normalize_axis
from ortable.inference.shape import broadcast
from ortable.ir import Graph

from .facts import (
    Bool,
    Dtype,
    Int,
    Ints,
    Result,
    Results,
    SymInt,
    SymInts,
    dim_of,
    is_static,
    rank_of,
    shape_of,
)
from .metadata import shape_or_none
from .promotion import result_type
from .values import as_scalar, as_vec, at_least_1d, cast, const, consts, reshape_to, unsqueezed

__all__ = [
    "all_but",
    "along_axis",
    "as_column",
    "as_flat",
    "at_least_2d",
    "at_least_3d",
    "cat_list",
    "chunk_count",
    "clamped_bound",
    "common_sizes",
    "counting",
    "diagonal_length",
    "even_sizes",
    "flat_sizes",
    "flipped_along",
    "full_pads",
    "grown_sizes",
    "insert_at",
    "moved_axes",
    "neighbours",
    "no_crop",
    "numbered",
    "on_grid",
    "ones_axes",
    "other_axes",
    "replaced_at",
    "rolled_along",
    "sizes_but",
    "sliced",
    "stretch_end",
    "stretched",
    "stretches",
    "torch_pads",
    "unflat_sizes",
    "wrapped_index",
    "zeros_of",
]

# -- sizes ----------------------------------------------------------------------------------------


def flat_sizes(graph: Graph, x: Result, first: Int, last: Int) -> SymInts:
    """The shape of ``x`` with the dimensions from ``first`` to ``last`` (included) made one; [1]
    for a 0-d result."""
    shape = list(shape_of(graph, x))
    if not shape:
        return [1]
    start, end = normalize_axis(first, len(shape)), normalize_axis(last, len(shape))
    return [*shape[:start], dims.prod(shape[start : end + 1]), *shape[end + 1 :]]


def unflat_sizes(graph: Graph, x: Result, axis: Int, sizes: SymInts) -> SymInts:
    """The shape of ``x`` with one dimension replaced by ``sizes``, of which one may be -1."""
    shape = list(shape_of(graph, x))
    place = normalize_axis(axis, len(shape))
    rest = dims.prod([size for size in sizes if not _is_hole(size)])
    found = [shape[place] // rest if _is_hole(size) else size for size in sizes]
    return [*shape[:place], *found, *shape[place + 1 :]]


def grown_sizes(graph: Graph, x: Result, sizes: SymInts) -> SymInts:
    """The shape that torch.expand gives: ``sizes`` with -1 replaced by the dimension of ``x`` that
    stands there."""
    shape = list(shape_of(graph, x))
    lead = len(sizes) - len(shape)
    if lead < 0:
        raise BuilderError(
            f"a result of rank {len(shape)} cannot be expanded to {len(sizes)} sizes: {list(sizes)}"
        )
    return [shape[place - lead] if _is_hole(size) else size for place, size in enumerate(sizes)]


def stretches(graph: Graph, x: Result, sizes: SymInts) -> SymInts:
    """What Expand must be told to give ``x`` these sizes: 1 where the dimension of ``x`` has that
    size anyway."""
    shape = list(shape_of(graph, x))
    lead = len(sizes) - len(shape)
    return [
        1 if place >= lead and dims.same(shape[place - lead], size) else size
        for place, size in enumerate(grown_sizes(graph, x, sizes))
    ]


def all_but(values: SymInts, axes: Ints) -> SymInts:
    """The values that do not stand at ``axes`` (counted from the front)."""
    return [value for place, value in enumerate(values) if place not in axes]


def other_axes(rank: Int, axes: Ints) -> Ints:
    """The axes of ``rank`` that are not among ``axes``, in order."""
    return [axis for axis in range(rank) if axis not in axes]


def replaced_at(values: SymInts, axis: Int, value: SymInt) -> SymInts:
    """``values`` with another one at ``axis``."""
    found = list(values)
    found[axis] = value
    return found


def insert_at(values: SymInts, place: Int, value: SymInt) -> SymInts:
    """``values`` with one more before the one at ``place``."""
    return [*values[:place], value, *values[place:]]


def ones_axes(graph: Graph, x: Result, axes: Ints) -> Ints:
    """Those of ``axes`` that have size 1. A dynamic dimension is never squeezed: torch makes a size
    of 1 static."""
    shape = shape_of(graph, x)
    return [axis for axis in axes if type(shape[axis]) is int and shape[axis] == 1]


def chunk_count(graph: Graph, x: Result, axis: Int, size: SymInt, otherwise: Int) -> Int:
    """How many pieces of ``size`` an axis gives; ``otherwise`` (torch's own count) when a size is
    dynamic."""
    have = dim_of(graph, x, axis)
    if not (isinstance(have, int) and isinstance(size, int)):
        return otherwise
    return max(-(-have // size), 1) if size else 1


def even_sizes(graph: Graph, x: Result, axis: Int, count: Int) -> SymInts:
    """Sizes of ``count`` parts of an axis that differ by at most one, the longer ones first."""
    have = dim_of(graph, x, axis)
    return [(have + (count - 1 - place)) // count for place in range(count)]


def diagonal_length(graph: Graph, x: Result, first: Int, second: Int, offset: Int) -> SymInt:
    """How many elements the diagonal ``offset`` of two axes has."""
    rows, columns = dim_of(graph, x, first), dim_of(graph, x, second)
    if offset >= 0:
        columns = columns - offset
    else:
        rows = rows + offset
    return dims.maximum(dims.minimum(rows, columns), 0)


# -- places ---------------------------------------------------------------------------------------


def wrapped_index(index: SymInt, size: SymInt) -> SymInt:
    """``index`` counted from the front of an axis of ``size``; torch lets a negative one count from
    the end."""
    if index >= 0:
        return index
    return index + size if index <= -1 else index % size


def clamped_bound(place: SymInt | None, size: SymInt, otherwise: SymInt) -> SymInt:
    """A start or end of a slice, counted from the front and clamped to ``[0, size]``; ``otherwise``
    for None."""
    if place is None:
        return otherwise
    if place >= 0:
        return size if _is_end(place) else dims.minimum(place, size)
    if place <= -1:
        return dims.maximum(place + size, 0)
    # from -size to size; the quotient is -1 for a place that counts from the end, else 0
    near = dims.maximum(dims.minimum(place, size), -size)
    return near - size * dims.floordiv(near, size + 1)


def stretch_end(start: SymInt, end: SymInt) -> SymInt:
    """``end``, but not before ``start``: a slice whose end comes first is empty."""
    return dims.maximum(start, end)


def moved_axes(rank: Int, source: Ints, destination: Ints) -> Ints:
    """The permutation of torch.movedim: axes ``source`` come to stand at ``destination``, the
    others keep their order."""
    given = [
        normalize_axis(axis, rank) for axis in ([source] if isinstance(source, int) else source)
    ]
    wanted = [
        normalize_axis(axis, rank)
        for axis in ([destination] if isinstance(destination, int) else destination)
    ]
    others = iter(axis for axis in range(rank) if axis not in given)
    return [
        given[wanted.index(place)] if place in wanted else next(others) for place in range(rank)
    ]


def neighbours(values: SymInts) -> Any:
    """Neighbours: (first, second), (second, third), ..."""
    return list(pairwise(values))


def numbered(items: Any) -> Any:
    """(0, first), (1, second), ...: Python's enumerate."""
    return list(enumerate(items))


def torch_pads(rank: Int, pads: SymInts) -> SymInts:
    """torch's pads, [before, after] of the last axis first, as ONNX's of every axis: all begins,
    then all ends, first axis first.

    Pad has an input ``axes`` that would spare the zeros, but ONNX Runtime's transpose optimizer
    permutes ``pads`` without a look at it.
    """
    rest: list[SymInt] = [0] * (rank - len(pads) // 2)
    begins, ends = list(pads[0::2])[::-1], list(pads[1::2])[::-1]
    return [*rest, *begins, *rest, *ends]


def full_pads(rank: Int, axis: Int, before: SymInt, after: SymInt) -> SymInts:
    """ONNX pads for every axis of a rank that pad one axis only."""
    begins: list[SymInt] = [0] * rank
    ends: list[SymInt] = [0] * rank
    begins[axis], ends[axis] = before, after
    return [*begins, *ends]


def cat_list(graph: Graph, xs: Results) -> Results:
    """The results that torch.cat joins, in their common dtype: empty 1-d ones are skipped next to
    others."""
    wanted = result_type(graph, xs)
    kept = [x for x in xs if shape_or_none(graph, x) != (0,)]
    return [cast(graph, x, wanted) for x in kept or xs[:1]]


def sizes_but(graph: Graph, x: Result, y: Result, axis: Int) -> SymInts:
    """The shape of ``x`` broadcast against that of ``y`` (one rank) along every axis but one."""
    own = list(shape_of(graph, x))
    found = broadcast(tuple(all_but(own, [axis])), tuple(all_but(shape_of(graph, y), [axis])))
    if found is None:
        raise UnsupportedCase("shapes whose common shape depends on which dynamic size is 1")
    return insert_at(list(found), axis, own[axis])


def common_sizes(graph: Graph, xs: Results) -> SymInts:
    """The shape to which results broadcast together.

    Raises:
        UnsupportedCase: two dynamic sizes meet of which either could be the 1 that stretches.
    """
    found = broadcast(*(tuple(shape_of(graph, x)) for x in xs))
    if found is None:
        raise UnsupportedCase("shapes whose common shape depends on which dynamic size is 1")
    return list(found)


# -- results --------------------------------------------------------------------------------------


def counting(graph: Graph, start: SymInt, count: SymInt, step: SymInt) -> Result:
    """The int64 vector start, start + step, ... of ``count`` elements; a constant when all are
    known."""
    if isinstance(count, int) and is_static([start, step]):
        return consts(graph, [start + place * step for place in range(count)], dtypes.int64)
    ramp = graph.make_node("Range", [as_scalar(graph, each) for each in (0, count, 1)])
    if step != 1 or isinstance(step, SymDim):
        ramp = graph.make_node("Mul", [ramp, as_vec(graph, step)])
    return (
        ramp
        if isinstance(start, int) and start == 0
        else graph.make_node("Add", [ramp, as_vec(graph, start)])
    )


def sliced(
    graph: Graph, x: Result, axis: Int, start: SymInt, end: SymInt, step: SymInt = 1
) -> Result:
    """``x[start:end:step]`` along one axis, with ONNX's clamping; no node when it takes the whole
    axis."""
    # sys.maxsize and its like mean the end, also of an axis whose size is not known
    whole = _is_end(end) or (graph.has_shape(x) and end >= dim_of(graph, x, axis))
    if isinstance(start, int) and start == 0 and isinstance(step, int) and step == 1 and whole:
        return x
    steps = None if isinstance(step, int) and step == 1 else as_vec(graph, step)
    return graph.make_node(
        "Slice", [x, as_vec(graph, start), as_vec(graph, end), as_vec(graph, axis), steps]
    )


def stretched(graph: Graph, x: Result, sizes: SymInts) -> Result:
    """``x`` broadcast to ``sizes``; no node when it has them."""
    shape = shape_or_none(graph, x)
    if shape is not None and len(shape) == len(sizes) and all(map(dims.same, shape, sizes)):
        return x
    if is_static(list(sizes)) and 0 in sizes:
        # ONNX Runtime's optimizer drops an Expand to a size of 0
        return zeros_of(graph, sizes, graph.get_type(x))
    found = graph.make_node("Expand", [x, as_vec(graph, stretches(graph, x, sizes))])
    graph.set_shape(found, tuple(sizes))
    return found


def flipped_along(graph: Graph, x: Result, axes: Ints) -> Result:
    """``x`` with the order of the elements along ``axes`` (counted from the front) turned round."""
    count = len(axes)
    return graph.make_node(
        "Slice",
        [
            x,
            *(
                consts(graph, each, dtypes.int64)
                for each in ([-1] * count, [-(2**63)] * count, list(axes), [-1] * count)
            ),
        ],
    )


def at_least_2d(graph: Graph, x: Result) -> Result:
    """A 0-d or 1-d result as one row; others as they are."""
    return unsqueezed(graph, x, list(range(2 - min(rank_of(graph, x), 2))))


def at_least_3d(graph: Graph, x: Result) -> Result:
    """torch.atleast_3d: [] as [1,1,1], [n] as [1,n,1], [n,m] as [n,m,1]; others as they are."""
    return unsqueezed(graph, x, {0: [0, 1, 2], 1: [0, 2], 2: [2]}.get(rank_of(graph, x), []))


def as_column(graph: Graph, x: Result) -> Result:
    """A 0-d or 1-d result as one column; others as they are."""
    return reshape_to(graph, x, [*flat_sizes(graph, x, 0, -1), 1]) if rank_of(graph, x) < 2 else x


def on_grid(graph: Graph, x: Result, xs: Results, place: Int, turned: Bool) -> Result:
    """One result of torch.meshgrid: the vector ``x`` along axis ``place``, the same along those of
    the others.

    ``turned`` exchanges the first two axes (``indexing="xy"``).
    """
    axes = list(range(len(xs)))
    if turned and len(xs) > 1:
        axes[:2] = [1, 0]
    sizes = [flat_sizes(graph, xs[axis], 0, -1)[0] for axis in axes]
    wide = unsqueezed(
        graph, at_least_1d(graph, x), [axis for axis in range(len(xs)) if axis != axes[place]]
    )
    return stretched(graph, wide, sizes)


def along_axis(graph: Graph, vector: Result, axis: Int, rank: Int) -> Result:
    """A vector of values for one axis as a result that broadcasts against others of ``rank``."""
    return unsqueezed(graph, vector, list(range(1, rank - axis)))


def rolled_along(graph: Graph, x: Result, shifts: SymInts, axes: Ints) -> Result:
    """``x`` with the elements of each axis moved by its shift; what leaves at one end comes back at
    the other."""
    for shift, axis in zip(shifts, axes, strict=True):
        size = dim_of(graph, x, axis)
        if isinstance(size, int) and size == 0:
            continue
        cut = -shift % size
        if isinstance(cut, int) and cut == 0:
            continue
        place = normalize_axis(axis, rank_of(graph, x))
        parts = [sliced(graph, x, place, cut, 2**63 - 1), sliced(graph, x, place, 0, cut)]
        shape = tuple(shape_of(graph, x))
        x = graph.make_node("Concat", parts, axis=place)
        graph.set_shape(x, shape)
    return x


def no_crop(pads: SymInts) -> Bool:
    """True when no pad can be negative."""
    return all(pad >= 0 for pad in pads)


def as_flat(graph: Graph, x: Result) -> Result:
    """``x`` as a 1-d result."""
    return reshape_to(graph, x, flat_sizes(graph, x, 0, -1))


def zeros_of(graph: Graph, sizes: SymInts, dtype: Dtype) -> Result:
    """A result of zeros."""
    if is_static(list(sizes)) and dims.prod(sizes) == 0:
        return reshape_to(graph, consts(graph, [], dtype), list(sizes))
    zero = const(graph, 0, dtype)
    return zero if not sizes else graph.make_node("Expand", [zero, as_vec(graph, list(sizes))])


def _is_end(place: SymInt) -> bool:
    return isinstance(place, int) and place >= 2**31


def _is_hole(size: SymInt) -> bool:
    return type(size) is int and size == -1
