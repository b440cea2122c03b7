"""Words of the spec language for pooling over windows that ONNX's pools cannot express, or in
dtypes that have none: the elements of every window are gathered, [..., windows, elements], then
reduced.

A table is one axis of the windows: the places of their elements, int64 [windows, elements], and
which of these lie in the input.
"""

from __future__ import annotations

from typing import Any

from ortable import dims, dtypes
from ortable.ir import Graph
from ortable.prelude.facts import (
    Bool,
    Int,
    Ints,
    Result,
    Results,
    SymInt,
    SymInts,
    lowest,
    shape_of,
    spread,
    static,
)
from ortable.prelude.shapes import counting, zeros_of
from ortable.prelude.values import as_vec, cast, const, consts, reshape_to, unsqueezed

from .nn import reduced_extreme
from .resize import settled

__all__ = [
    "even_ends",
    "even_tables",
    "pool_tables",
    "pooled_fractional",
    "reaches",
    "unpooled",
    "window_max",
    "window_mean",
]


def even_tables(graph: Graph, x: Result, sizes: SymInts) -> Any:
    """The windows of adaptive pooling: window i of ``count`` along an axis of ``size`` elements
    goes from floor(i size / count) to ceil((i + 1) size / count)."""
    tables = []
    for size, count in zip(shape_of(graph, x)[-len(sizes) :], sizes, strict=True):
        make, one = graph.make_node, const(graph, 1, dtypes.int64)
        start, end = (unsqueezed(graph, each, [1]) for each in even_ends(graph, size, count))
        longest = dims.ceildiv(size, count) + (0 if _divides(size, count) else 1)
        places = make("Add", [start, counting(graph, 0, longest, 1)])
        inside = make("Less", [places, end])
        last = make("Sub", [end, one])
        tables.append((make("Min", [places, last]), inside, make("Sub", [end, start])))
    return tables


def even_ends(graph: Graph, size: SymInt, count: SymInt) -> Results:
    """Where the ``count`` windows of adaptive pooling begin and end along an axis."""
    make, one = graph.make_node, const(graph, 1, dtypes.int64)
    ramp = counting(graph, 0, count, 1)
    whole, parts = const(graph, size, dtypes.int64), const(graph, count, dtypes.int64)
    start = make("Div", [make("Mul", [ramp, whole]), parts])
    after = make("Mul", [make("Add", [ramp, one]), whole])
    return [start, make("Div", [make("Add", [after, make("Sub", [parts, one])]), parts])]


def _divides(size: SymInt, count: SymInt) -> bool:
    return isinstance(size, int) and isinstance(count, int) and count > 0 and size % count == 0


def pool_tables(
    graph: Graph, x: Result, sizes: SymInts, kernel: Ints, steps: Ints, pads: Ints, spacing: Ints
) -> Any:
    """The windows of a pool that gives ``sizes``; the third part counts elements and padding."""
    n, tables = len(sizes), []
    window = spread(kernel, n)
    strides = spread(steps, n) if steps else window
    have, before, gaps = shape_of(graph, x)[-n:], spread(pads, n), spread(spacing, n)
    given = zip(have, sizes, window, strides, before, gaps,
                strict=True)  # fmt: skip
    for size, count, k, step, pad, gap in given:
        make, zero = graph.make_node, const(graph, 0, dtypes.int64)
        start = unsqueezed(graph, counting(graph, -pad, count, step), [1])
        places = make(
            "Add", [start, consts(graph, [gap * each for each in range(k)], dtypes.int64)]
        )
        inside = make(
            "And",
            [
                make("GreaterOrEqual", [places, zero]),
                make("Less", [places, const(graph, size, dtypes.int64)]),
            ],
        )
        reach = make("Min", [make("Add", [start, const(graph, k, dtypes.int64)]),
                             const(graph, size + pad, dtypes.int64)])  # fmt: skip
        last = const(graph, size - 1, dtypes.int64)
        safe = make("Max", [make("Min", [places, last]), zero])
        tables.append((safe, inside, make("Sub", [reach, start])))
    return tables


def reaches(values: SymInts, limits: Ints) -> Bool:
    """True when one of the known values (one for all, or one a limit) is not below its limit."""
    given = spread(static(values), len(limits))
    return any(value >= limit for value, limit in zip(given, limits, strict=True))


def window_max(graph: Graph, x: Result, tables: Any, sizes: SymInts, indexed: Bool) -> Results:
    """[maxima, their places in the flattened plane]; NaN wins, the last one, as in torch. Without
    ``indexed`` the maxima alone."""
    dtype, make = graph.get_type(x), graph.make_node
    lead = list(shape_of(graph, x))[: -len(sizes)]
    values, places, inside = _windows(graph, x, tables)
    values = make("Where", [inside, values, const(graph, lowest(dtype), dtype)])
    if not indexed:
        found = reduced_extreme(graph, values, [len(lead) + 1], False, True)
        return [reshape_to(graph, found, [*lead, *sizes])]
    best = _last_best(graph, values, len(lead) + 1)
    top = make("GatherElements", [values, best], axis=len(lead) + 1)
    each = make("Shape", [places], start=1)
    rows = counting(graph, 0, dims.prod(sizes), 1)
    flat = make(
        "Add", [make("Mul", [rows, each]), make("Squeeze", [best, _axes(graph, len(lead) + 1)])]
    )
    whole = make("Reshape", [places, consts(graph, [-1], dtypes.int64)])
    at = make("Gather", [whole, flat], axis=0)
    return [reshape_to(graph, found, [*lead, *sizes]) for found in (top, at)]


def _last_best(graph: Graph, values: str, axis: int) -> str:
    """Where the first maximum stands, or the last NaN: int64 with ``axis`` kept."""
    dtype, make = graph.get_type(values), graph.make_node
    if not dtypes.is_float_type(dtype):
        one = consts(graph, [1], dtypes.int64)
        return str(make("TopK", [cast(graph, values, dtypes.int64), one], 2, axis=axis)[1])
    wide = values if dtype == dtypes.float64 else cast(graph, values, dtypes.float32)
    first = make("ArgMax", [wide], axis=axis)
    wrong = cast(graph, make("IsNaN", [wide]), dtypes.uint8)
    lost = make("ArgMax", [wrong], axis=axis, select_last_index=1)
    some = make("ReduceMax", [wrong, _axes(graph, axis)], keepdims=1)
    return str(make("Where", [cast(graph, some, dtypes.boolean), lost, first]))


def window_mean(
    graph: Graph, x: Result, tables: Any, sizes: SymInts, padded: Bool, divisor: Int | None
) -> Result:
    """The mean of every window; ``padded``: padding counts; ``divisor`` replaces the count. Means
    of ints are truncated, as torch's are."""
    dtype, make = graph.get_type(x), graph.make_node
    lead = list(shape_of(graph, x))[: -len(sizes)]
    values, _, inside = _windows(graph, x, tables)
    kept = make("Where", [inside, values, const(graph, 0, dtype)])
    total = make("ReduceSum", [kept, _axes(graph, len(lead) + 1)], keepdims=0)
    if divisor is not None:
        count = const(graph, divisor, dtype)
    elif padded:
        counts = _crossed(graph, [table[2] for table in tables], "Mul")
        count = cast(graph, make("Reshape", [counts, consts(graph, [-1], dtypes.int64)]), dtype)
        count = settled(graph, count)
    else:
        marks = cast(graph, inside, dtypes.int64)
        count = cast(graph, make("ReduceSum", [marks, _axes(graph, 1)], keepdims=0), dtype)
    return reshape_to(graph, make("Div", [total, count]), [*lead, *sizes])


def _axes(graph: Graph, axis: int) -> str:
    return consts(graph, [axis], dtypes.int64)


def _windows(graph: Graph, x: str, tables: Any) -> tuple[str, str, str]:
    """(elements [..., windows, elements of one], their places in the flattened plane, whether they
    are in the input)."""
    make, n = graph.make_node, len(tables)
    shape = list(shape_of(graph, x))
    scaled = []
    for axis, (places, _, _) in enumerate(tables):
        inner = dims.prod(shape[len(shape) - n + axis + 1 :])
        scaled.append(make("Mul", [places, const(graph, inner, dtypes.int64)]))
    places = _crossed(graph, scaled, "Add")
    inside = _crossed(graph, [table[1] for table in tables], "And")
    rows = [each[0] for each in tables]
    both = [make("Shape", [row]) for row in rows]
    if n > 1:
        total = both[0]
        for more in both[1:]:
            total = make("Mul", [total, more])
        places, inside = (make("Reshape", [each, total]) for each in (places, inside))
    places, inside = settled(graph, places), settled(graph, inside)
    flat = reshape_to(graph, x, [*shape[: len(shape) - n], dims.prod(shape[len(shape) - n :])])
    return make("Gather", [flat, places], axis=len(shape) - n), places, inside


def _crossed(graph: Graph, parts: list[str], op: str) -> str:
    """[o0, o1, ..., k0, k1, ...] from one [o, k] an axis."""
    n, found = len(parts), None
    for axis, part in enumerate(parts):
        others = [place for place in range(2 * n) if place not in (axis, n + axis)]
        wide = unsqueezed(graph, part, others)
        found = wide if found is None else graph.make_node(op, [found, wide])
    assert found is not None
    return found


def pooled_fractional(
    graph: Graph, x: Result, kernel: Ints, sizes: Ints, samples: Result
) -> Results:
    """[maxima, places] of windows that begin at random places: at floor((i + u) step) -
    floor(u step) along each axis, with step = (size - kernel) / (count - 1); the last one ends the
    axis.

    ``samples`` hold u for every plane, [N, C, axes] (Graham, Fractional max-pooling, 2014).
    """
    make, n = graph.make_node, len(sizes)
    shape, kind = list(shape_of(graph, x)), graph.get_type(samples)
    lead = shape[: len(shape) - n]
    planes, area = dims.prod(lead), dims.prod(shape[len(shape) - n :])
    drawn = reshape_to(graph, samples, [planes, n])
    places = None
    for axis, (k, count) in enumerate(zip(kernel, sizes, strict=True)):
        size = shape[len(shape) - n + axis]
        # a plane's samples begin with its last axis, a volume's with its first
        column = axis if n == 3 else n - 1 - axis
        u = make("Gather", [drawn, consts(graph, [column], dtypes.int64)], axis=1)
        end = const(graph, size - k, dtypes.int64)
        starts = make("Expand", [end, consts(graph, [1, 1], dtypes.int64)])
        if count > 1:
            width = make("Sub", [const(graph, size, kind), const(graph, k, kind)])
            step = make("Div", [width, const(graph, count - 1, kind)])
            ramp = consts(graph, list(range(count - 1)), kind)
            first = _whole(graph, make("Mul", [make("Add", [ramp, u]), step]))
            moved = make("Sub", [first, _whole(graph, make("Mul", [u, step]))])
            column_of = make(
                "Concat", [make("Shape", [moved], end=1), consts(graph, [1], dtypes.int64)], axis=0
            )
            starts = make("Concat", [moved, make("Expand", [end, column_of])], axis=1)
        inner = dims.prod(shape[len(shape) - n + axis + 1 :])
        own = make(
            "Add", [unsqueezed(graph, starts, [2]), consts(graph, list(range(k)), dtypes.int64)]
        )
        own = make("Mul", [own, const(graph, inner, dtypes.int64)])
        others = [each for each in range(2 * n) if each not in (axis, n + axis)]
        own = unsqueezed(graph, own, [each + 1 for each in others])
        places = own if places is None else make("Add", [places, own])
    windows, each = dims.prod(sizes), dims.prod(kernel)
    assert places is not None
    wanted = [planes, *sizes, *kernel]
    grown = make("Expand", [places, as_vec(graph, wanted)])
    table = reshape_to(graph, grown, [planes, windows * each])
    values = make("GatherElements", [reshape_to(graph, x, [planes, area]), table], axis=1)
    values, table = (reshape_to(graph, part, [planes, windows, each]) for part in (values, table))
    best = _last_best(graph, values, 2)
    found = [make("GatherElements", [part, best], axis=2) for part in (values, table)]
    return [reshape_to(graph, part, [*lead, *sizes]) for part in found]


def _whole(graph: Graph, x: str) -> str:
    """A float that is not negative, cut to an int."""
    return cast(graph, x, dtypes.int64)


def unpooled(graph: Graph, x: Result, indices: Result, sizes: SymInts) -> Result:
    """Zeros of ``sizes``, with ``x`` where ``indices`` point in the flattened plane."""
    make, n = graph.make_node, len(sizes)
    lead, space = list(shape_of(graph, x))[:-n], list(shape_of(graph, x))[-n:]
    planes = zeros_of(graph, [*lead, dims.prod(sizes)], graph.get_type(x))
    flat = [reshape_to(graph, each, [*lead, dims.prod(space)]) for each in (indices, x)]
    found = make("ScatterElements", [planes, *flat], axis=len(lead))
    return reshape_to(graph, found, [*lead, *sizes])
