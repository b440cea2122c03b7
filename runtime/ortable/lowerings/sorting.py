"""Elements in order: runs of equal elements, medians, places in a sorted sequence.

In come sorted results or sorted places, out go names of results. Called by generated converters of
sort, unique and order statistics; the sort itself is in `prelude.indexing`."""

from __future__ import annotations

from ortable import dims, dtypes
from ortable.ir import Graph
from ortable.prelude.facts import Bool, Dtype, Int, Result, dim_of, rank_of, shape_of
from ortable.prelude.indexing import argsort, run_ids
from ortable.prelude.metadata import shape_or_none
from ortable.prelude.shapes import expanded, iota, other_axes, sliced
from ortable.prelude.values import as_vec, cast, const, consts, reshape_to, unsqueezed

from .shapes import replaced_at

__all__ = [
    "compressed",
    "equality_codes",
    "median_index",
    "new_runs",
    "reordered",
    "run_lengths",
    "run_starts",
    "searchsorted",
]


def run_starts(graph: Graph, x: Result, axis: Int) -> Result:
    """A bool vector: True where a slice of ``x`` along one axis differs from the one before it, and
    for the first; NaN differs from NaN."""
    size = dim_of(graph, x, axis)
    before = graph.make_node(
        "Concat", [sliced(graph, x, axis, 0, 1), sliced(graph, x, axis, 0, -1)], axis=axis
    )
    graph.set_shape(before, tuple(shape_of(graph, x)))
    others = other_axes(rank_of(graph, x), [axis])
    other = graph.make_node("Not", [graph.make_node("Equal", [x, before])])
    if others:
        count = graph.make_node(
            "ReduceSum", [cast(graph, other, dtypes.int64), consts(graph, others, dtypes.int64)],
            keepdims=0,
        )  # fmt: skip
        other = cast(graph, count, dtypes.boolean)
    first = graph.make_node("Equal", [iota(graph, 0, size, 1), const(graph, 0, dtypes.int64)])
    return graph.make_node("Or", [other, first])


def new_runs(graph: Graph, x: Result) -> Result:
    """True where an element differs from the one before it along the last axis, and for the first;
    of the shape of ``x``."""
    last = rank_of(graph, x) - 1
    parts = [sliced(graph, x, last, 0, 1), sliced(graph, x, last, 0, -1)]
    before = graph.make_node("Concat", parts, axis=last)
    graph.set_shape(before, tuple(shape_of(graph, x)))
    places = iota(graph, 0, dim_of(graph, x, last), 1)
    first = graph.make_node("Equal", [places, const(graph, 0, dtypes.int64)])
    other = graph.make_node("Not", [graph.make_node("Equal", [x, before])])
    return graph.make_node("Or", [other, first])


def median_index(graph: Graph, x: Result, axis: Int, skip_nan: Bool) -> Result:
    """Where the lower median stands in the sorted order along one axis, which is kept as 1; the
    first NaN counts as the median unless ``skip_nan``."""
    size = dim_of(graph, x, axis)
    kept = replaced_at(shape_of(graph, x), axis, 1)
    middle = expanded(graph, const(graph, (size - 1) // 2, dtypes.int64), kept)
    if not dtypes.is_float_type(graph.get_type(x)):
        return middle
    make, two = graph.make_node, const(graph, 2, dtypes.int64)
    known = cast(graph, make("Not", [make("IsNaN", [x])]), dtypes.int64)
    valid = make("ReduceSum", [known, as_vec(graph, axis)], keepdims=1)
    if skip_nan:
        half = make("Div", [make("Sub", [valid, const(graph, 1, dtypes.int64)]), two])
        none = make("Equal", [valid, const(graph, 0, dtypes.int64)])
        return make("Where", [none, middle, half])
    return make("Where", [make("Equal", [valid, const(graph, size, dtypes.int64)]), middle, valid])


def run_lengths(graph: Graph, starts: Result) -> Result:
    """How long each run is, from the marks of ``run_starts``."""
    size = dim_of(graph, starts, 0)
    first = compressed(graph, iota(graph, 0, size, 1), starts, 0)
    ends = [sliced(graph, first, 0, 1, 2**63 - 1), as_vec(graph, size)]
    if shape_or_none(graph, starts) == (0,):
        return first
    return graph.make_node("Sub", [graph.make_node("Concat", ends, axis=0), first])


def compressed(graph: Graph, x: Result, marks: Result, axis: Int) -> Result:
    """The slices of ``x`` along one axis where the bool vector ``marks`` is True."""
    dtype = graph.get_type(x)
    compute_dtype = dtypes.float32 if dtype == dtypes.bfloat16 else dtype
    result = graph.make_node("Compress", [cast(graph, x, compute_dtype), marks], axis=axis)
    if not graph.has_rank(result):
        graph.set_rank(result, rank_of(graph, x))
    return cast(graph, result, dtype)


def equality_codes(graph: Graph, x: Result) -> Result:
    """int64 numbers of the shape of ``x`` that are equal, and ordered, as its elements are; each
    NaN is a number of its own, after all others."""
    if not dtypes.is_float_type(graph.get_type(x)):
        return cast(graph, x, dtypes.int64)
    flat = reshape_to(graph, x, [dims.prod(shape_of(graph, x))])
    order = argsort(graph, flat, 0)
    ids = run_ids(graph, run_starts(graph, graph.make_node("Gather", [flat, order]), 0))
    codes = graph.make_node("ScatterElements", [order, order, ids], axis=0)
    return reshape_to(graph, codes, shape_of(graph, x))


def reordered(graph: Graph, x: Result, order: Result | None) -> Result:
    """``x`` along its last axis in the order of the int64 places ``order``, if there are any."""
    if order is None:
        return x
    return graph.make_node("GatherElements", [x, order], axis=rank_of(graph, x) - 1)


def searchsorted(graph: Graph, edges: Result, x: Result, after: Bool, dtype: Dtype) -> Result:
    """Where each element of ``x`` belongs in the sorted last axis of ``edges``: how many stand
    before it.

    ``after``: equal ones count, too. NaN belongs at the end.
    """
    each = unsqueezed(graph, x, [rank_of(graph, x)])
    rows = (
        unsqueezed(graph, edges, [rank_of(graph, edges) - 1])
        if rank_of(graph, edges) > 1
        else edges
    )
    beyond = graph.make_node("Greater" if after else "GreaterOrEqual", [rows, each])
    before = graph.make_node("Cast", [graph.make_node("Not", [beyond])], to=dtype)
    # ONNX Runtime passes over a negative axis of an empty result
    last = consts(graph, [max(rank_of(graph, each), rank_of(graph, rows)) - 1], dtypes.int64)
    return graph.make_node("ReduceSum", [before, last], keepdims=0)
