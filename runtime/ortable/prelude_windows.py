"""Words of the spec language for pooling over windows that ONNX's pools cannot express, or in dtypes
that have none: the elements of every window are gathered, [..., windows, elements], then reduced.

A table is one axis of the windows: the places of their elements, int64 [windows, elements], and
which of these lie in the input.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable import dims, dtypes
from ortable.prelude import (
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
from ortable.prelude_make import cast, const, consts, reshape_to, unsqueezed
from ortable.prelude_nn import reduced_extreme
from ortable.prelude_resize import settled
from ortable.prelude_shape import counting

if TYPE_CHECKING:
    from ortable.builder import GraphBuilder as Graph


def even_tables(graph: Graph, x: Result, sizes: SymInts) -> Any:
    """The windows of adaptive pooling: window i of ``count`` along an axis of ``size`` elements goes
    from floor(i size / count) to ceil((i + 1) size / count)."""
    tables = []
    for size, count in zip(shape_of(graph, x)[-len(sizes) :], sizes, strict=True):
        make, one = graph.make_node, const(graph, 1, dtypes.int64)
        ramp = unsqueezed(graph, counting(graph, 0, count, 1), [1])
        whole, parts = const(graph, size, dtypes.int64), const(graph, count, dtypes.int64)
        start = make("Div", [make("Mul", [ramp, whole]), parts])
        after = make("Mul", [make("Add", [ramp, one]), whole])
        less = make("Sub", [parts, one])
        end = make("Div", [make("Add", [after, less]), parts])
        longest = dims.ceildiv(size, count) + (0 if _divides(size, count) else 1)
        places = make("Add", [start, counting(graph, 0, longest, 1)])
        inside = make("Less", [places, end])
        last = make("Sub", [end, one])
        tables.append((make("Min", [places, last]), inside, make("Sub", [end, start])))
    return tables


def _divides(size: SymInt, count: SymInt) -> bool:
    return isinstance(size, int) and isinstance(count, int) and count > 0 and size % count == 0


def pool_tables(
    graph: Graph, x: Result, sizes: SymInts, kernel: Ints, steps: Ints, pads: Ints, spacing: Ints
) -> Any:
    """The windows of a pool that gives ``sizes``; the third part counts elements and padding."""
    n, tables = len(sizes), []
    window = spread(kernel, n)
    strides = spread(steps, n) if steps else window
    given = zip(shape_of(graph, x)[-n:], sizes, window, strides, spread(pads, n), spread(spacing, n),
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
    """The mean of every window; ``padded``: padding counts; ``divisor`` replaces the count. Means of
    ints are truncated, as torch's are."""
    dtype, make = graph.get_type(x), graph.make_node
    lead = list(shape_of(graph, x))[: -len(sizes)]
    values, _, inside = _windows(graph, x, tables)
    kept = make("Where", [inside, values, const(graph, 0, dtype)])
    total = make("ReduceSum", [kept, _axes(graph, len(lead) + 1)], keepdims=0)
    if divisor is not None:
        count = const(graph, divisor, dtype)
    elif padded:
        count = cast(graph, make("Reshape", [_crossed(graph, [t[2] for t in tables], "Mul"),
                                             consts(graph, [-1], dtypes.int64)]), dtype)  # fmt: skip
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
