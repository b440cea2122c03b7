"""Lower-case words for elements in order: runs of equal elements, histograms, reductions of what an
index writes into one place."""

from __future__ import annotations

from typing import Any

import numpy as np

from ortable import dims, dtypes
from ortable.errors import UnsupportedCase
from ortable.inference import broadcast
from ortable.ir import Graph
from ortable.prelude.facts import (
    Bool,
    Dtype,
    Float,
    Int,
    Ints,
    Result,
    Str,
    SymInt,
    SymInts,
    axis_of,
    dim_of,
    dtype_of,
    highest,
    lowest,
    rank_of,
    shape_of,
)
from ortable.prelude.metadata import shape_or_none
from ortable.prelude.pointwise import floor_quotient, in_dtype
from ortable.prelude.shapes import counting, other_axes, replaced_at, sliced, stretched
from ortable.prelude.values import as_vec, at_least_1d, cast, const, consts, reshape_to, unsqueezed

from .nn import wide_dtype
from .scatter import put_elements, scatter_word, sort_keys

__all__ = [
    "alike",
    "close_to",
    "compressed",
    "counted",
    "equality_codes",
    "fold_places",
    "is_half",
    "known_flag",
    "known_number",
    "median_place",
    "new_runs",
    "reordered",
    "run_ids",
    "run_lengths",
    "run_starts",
    "scattered",
    "sorted_places",
    "spaced",
    "spacing_dtype",
    "stretched_axes",
    "summed_dtype",
    "weight_dtype",
    "wide_index",
    "window_count",
    "window_places",
]


def sorted_places(graph: Graph, x: Result, axis: Int) -> Result:
    """The int64 places of the elements in ascending order along one axis (at least 1-d); equal ones
    keep their order, NaN comes last."""
    keys = sort_keys(graph, x)
    parts = [keys, as_vec(graph, dim_of(graph, keys, axis))]
    return graph.make_node("TopK", parts, 2, axis=axis, largest=0)[1]


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
    first = graph.make_node("Equal", [counting(graph, 0, size, 1), const(graph, 0, dtypes.int64)])
    return graph.make_node("Or", [other, first])


def new_runs(graph: Graph, x: Result) -> Result:
    """True where an element differs from the one before it along the last axis, and for the first;
    of the shape of ``x``."""
    last = rank_of(graph, x) - 1
    parts = [sliced(graph, x, last, 0, 1), sliced(graph, x, last, 0, -1)]
    before = graph.make_node("Concat", parts, axis=last)
    graph.set_shape(before, tuple(shape_of(graph, x)))
    places = counting(graph, 0, dim_of(graph, x, last), 1)
    first = graph.make_node("Equal", [places, const(graph, 0, dtypes.int64)])
    other = graph.make_node("Not", [graph.make_node("Equal", [x, before])])
    return graph.make_node("Or", [other, first])


def median_place(graph: Graph, x: Result, axis: Int, skip_nan: Bool) -> Result:
    """Where the lower median stands in the sorted order along one axis, which is kept as 1; the
    first NaN counts as the median unless ``skip_nan``."""
    size = dim_of(graph, x, axis)
    kept = replaced_at(shape_of(graph, x), axis, 1)
    middle = stretched(graph, const(graph, (size - 1) // 2, dtypes.int64), kept)
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


def run_ids(graph: Graph, starts: Result) -> Result:
    """The number of the run in which each place stands, from the marks of ``run_starts``; along the
    last axis."""
    axis = const(graph, rank_of(graph, starts) - 1, dtypes.int64)
    count = graph.make_node("CumSum", [cast(graph, starts, dtypes.int64), axis])
    return graph.make_node("Sub", [count, const(graph, 1, dtypes.int64)])


def run_lengths(graph: Graph, starts: Result) -> Result:
    """How long each run is, from the marks of ``run_starts``."""
    size = dim_of(graph, starts, 0)
    first = compressed(graph, counting(graph, 0, size, 1), starts, 0)
    ends = [sliced(graph, first, 0, 1, 2**63 - 1), as_vec(graph, size)]
    if shape_or_none(graph, starts) == (0,):
        return first
    return graph.make_node("Sub", [graph.make_node("Concat", ends, axis=0), first])


def compressed(graph: Graph, x: Result, marks: Result, axis: Int) -> Result:
    """The slices of ``x`` along one axis where the bool vector ``marks`` is True."""
    dtype = graph.get_type(x)
    wide = dtypes.float32 if dtype == dtypes.bfloat16 else dtype
    found = graph.make_node("Compress", [cast(graph, x, wide), marks], axis=axis)
    if not graph.has_rank(found):
        graph.set_rank(found, rank_of(graph, x))
    return cast(graph, found, dtype)


def equality_codes(graph: Graph, x: Result) -> Result:
    """int64 numbers of the shape of ``x`` that are equal, and ordered, as its elements are; each
    NaN is a number of its own, after all others."""
    if not dtypes.is_float_type(graph.get_type(x)):
        return cast(graph, x, dtypes.int64)
    flat = reshape_to(graph, x, [dims.prod(shape_of(graph, x))])
    order = sorted_places(graph, flat, 0)
    ids = run_ids(graph, run_starts(graph, graph.make_node("Gather", [flat, order]), 0))
    codes = graph.make_node("ScatterElements", [order, order, ids], axis=0)
    return reshape_to(graph, codes, shape_of(graph, x))


def wide_index(graph: Graph, index: Result, x: Result, dim_: Int) -> Result:
    """A vector of places along one axis as an int64 index of the shape of ``x``."""
    axis = axis_of(graph, x, dim_)
    places = cast(graph, at_least_1d(graph, index), dtypes.int64)
    column_ = unsqueezed(graph, places, list(range(1, max(rank_of(graph, x), 1) - axis)))
    return stretched(graph, column_, shape_of(graph, at_least_1d(graph, x)))


def scattered(
    graph: Graph, x: Result, dim_: Int, index: Result, values: Result, how: Str, with_self: Bool
) -> Result:
    """torch.scatter_reduce, by torch's word ``how``: ``values`` reduced into ``x`` where ``index``
    points.

    Without ``with_self`` what is written over starts from the neutral element. The mean of ints is
    rounded down.
    """
    dtype = graph.get_type(x)
    if how == "mean":
        wide = dtypes.float32 if dtype in (dtypes.float16, dtypes.bfloat16) else dtype
        found = _mean_of(graph, cast(graph, x, wide), dim_, index, values, with_self)
        return cast(graph, found, dtype)
    if not with_self:
        neutral = {"sum": 0, "prod": 1, "amax": lowest(dtype), "amin": highest(dtype)}[how]
        x = put_elements(graph, x, dim_, index, const(graph, neutral, dtype), "none")
    return put_elements(graph, x, dim_, index, values, scatter_word(how))


def _mean_of(
    graph: Graph, x: Result, dim_: int, index: Result, values: Result, with_self: bool
) -> Result:
    dtype = graph.get_type(x)
    kept = x
    ones = stretched(graph, const(graph, 1, dtypes.int64), shape_of(graph, x))
    if not with_self:
        kept = put_elements(graph, x, dim_, index, const(graph, 0, dtype), "none")
        ones = put_elements(graph, ones, dim_, index, const(graph, 0, dtypes.int64), "none")
    total = put_elements(graph, kept, dim_, index, cast(graph, values, dtype), "add")
    count = put_elements(graph, ones, dim_, index, const(graph, 1, dtypes.int64), "add")
    count = cast(graph, count, dtype)
    if dtypes.is_float_type(dtype):
        return graph.make_node("Div", [total, count])
    return floor_quotient(graph, total, count)


def weight_dtype(graph: Graph, weights: Result | None) -> Dtype | None:
    """The dtype in which weights are added up: float32 stays, everything else becomes float64."""
    if weights is None:
        return None
    return dtypes.float32 if graph.get_type(weights) == dtypes.float32 else dtypes.float64


def counted(
    graph: Graph, places: Result, weights: Result | None, size: Result, dtype: Dtype
) -> Result:
    """How often each number from 0 to ``size`` - 1 (an int64[1] result) stands in ``places``, or
    the sum of the ``weights`` that stand there."""
    wide = wide_dtype(dtype)
    zeros = graph.make_node("Expand", [const(graph, 0, wide), size])
    if not graph.has_rank(zeros):
        graph.set_rank(zeros, 1)
    each = const(graph, 1, wide) if weights is None else cast(graph, weights, wide)
    added = graph.make_node("Expand", [each, graph.make_node("Shape", [places])])
    parts = [zeros, places, added]
    return cast(graph, graph.make_node("ScatterElements", parts, axis=0, reduction="add"), dtype)


def stretched_axes(graph: Graph, x: Result, sizes: SymInts) -> Ints:
    """The axes over which ``x`` must be added up to have ``sizes`` again, after it was broadcast
    from them."""
    shape = list(shape_of(graph, x))
    lead = len(shape) - len(sizes)
    kept = [
        lead + place for place, size in enumerate(sizes) if dims.same(size, shape[lead + place])
    ]
    return [axis for axis in range(len(shape)) if axis not in kept]


def summed_dtype(graph: Graph, x: Result, sizes: SymInts) -> Dtype | None:
    """int64 for ints and bools that torch.sum_to_size adds up; None where the dtype stays."""
    dtype = dtype_of(graph, x)
    if (
        dtypes.is_float_type(dtype)
        or dtypes.is_complex_type(dtype)
        or (sizes and not stretched_axes(graph, x, sizes))
    ):
        return None
    return dtypes.int64


# -- windows --------------------------------------------------------------------------------------


def window_count(size: SymInt, window: Int, step: Int, spacing: Int, pad: Int) -> SymInt:
    """How many windows of ``window`` elements, ``spacing`` apart, fit into an axis that is padded
    at both ends."""
    return (size + 2 * pad - spacing * (window - 1) - 1) // step + 1


def window_places(graph: Graph, count: SymInt, window: Int, step: Int, spacing: Int) -> Result:
    """The int64 matrix [count, window] of the places in each of ``count`` windows."""
    inner = np.arange(window) * spacing
    if isinstance(count, int):
        return graph.make_initializer("", (np.arange(count)[:, None] * step + inner))
    starts = unsqueezed(graph, counting(graph, 0, count, step), [1])
    return graph.make_node("Add", [starts, consts(graph, inner, dtypes.int64)])


def fold_places(sizes: Ints, kernel: Ints, counts: Ints, steps: Ints, gaps: Ints) -> Ints:
    """Where each element of a column of windows lies in an image of ``sizes``: kernel rows, kernel
    columns, window rows, window columns."""
    high, wide = (
        (np.arange(kernel[axis])[:, None] * gaps[axis] + np.arange(counts[axis]) * steps[axis])
        for axis in (0, 1)
    )
    places = high[:, None, :, None] * sizes[1] + wide[None, :, None, :]
    return [int(place) for place in places.reshape(-1)]


def is_half(graph: Graph, x: Result) -> Bool:
    """True for float16 and bfloat16."""
    return graph.get_type(x) in (dtypes.float16, dtypes.bfloat16)


def known_number(graph: Graph) -> SymInt:
    """The number that metadata gives for the node that is being converted.

    Raises:
        UnsupportedCase: there is no metadata.
    """
    found = getattr(graph.origin, "meta", {}).get("val")
    if found is None:
        raise UnsupportedCase("where the elements lie in memory; give example inputs (args)")
    return dims.from_torch(found)


def known_flag(graph: Graph) -> Bool:
    """The bool that metadata gives for the node that is being converted.

    Raises:
        UnsupportedCase: there is no metadata, or it depends on a dynamic size.
    """
    found = getattr(graph.origin, "meta", {}).get("val")
    if not isinstance(found, bool):
        raise UnsupportedCase("how the elements lie in memory, which no metadata says")
    return found


def close_to(graph: Graph, x: Result, y: Result, rtol: Float, atol: Float, nan_too: Bool) -> Result:
    """torch.isclose of two results of one dtype: equal, or ``|x - y| <= atol + rtol * |y|``, both
    finite."""
    make, dtype = graph.make_node, graph.get_type(x)
    wide = dtype if dtypes.is_float_type(dtype) else dtypes.float64
    a, b = cast(graph, x, wide), cast(graph, y, wide)
    gap = make("Abs", [make("Sub", [a, b])])
    slack = make("Mul", [const(graph, rtol, wide), make("Abs", [b])])
    near = make("LessOrEqual", [gap, make("Add", [const(graph, atol, wide), slack])])
    finite = make("Not", [make("IsInf", [gap])])
    found = make("Or", [make("Equal", [x, y]), make("And", [near, finite])])
    if not nan_too:
        return found
    both = make("And", [make("IsNaN", [a]), make("IsNaN", [b])])
    return make("Or", [found, both])


def reordered(graph: Graph, x: Result, order: Result | None) -> Result:
    """``x`` along its last axis in the order of the int64 places ``order``, if there are any."""
    if order is None:
        return x
    return graph.make_node("GatherElements", [x, order], axis=rank_of(graph, x) - 1)


def spacing_dtype(dtype: Dtype) -> Dtype:
    """The dtype in which torch.linspace counts: float32 for half floats, float64 for ints."""
    if not dtypes.is_float_type(dtype):
        return dtypes.float64
    return dtypes.float64 if dtype == dtypes.float64 else dtypes.float32


def spaced(graph: Graph, start: Any, end: Any, steps: Int, dtype: Dtype) -> Result:
    """``torch.linspace`` between numbers or 0-d results, counted from the nearer end."""
    make, wide = graph.make_node, spacing_dtype(dtype)
    low, high = (in_dtype(graph, in_dtype(graph, each, dtype), wide) for each in (start, end))
    if steps < 2:
        return stretched(graph, cast(graph, low, dtype), [steps])
    half = steps // 2
    step = make("Div", [make("Sub", [high, low]), const(graph, steps - 1, wide)])
    up = make("Mul", [consts(graph, np.arange(half), wide), step])
    down = make("Mul", [consts(graph, np.arange(steps - half - 1, -1, -1), wide), step])
    found = make("Concat", [make("Add", [low, up]), make("Sub", [high, down])], axis=0)
    return cast(graph, found, dtype)


def alike(graph: Graph, x: Result, other: Result) -> Result:
    """``x`` broadcast against ``other``; by their shapes at run time, where which of two dynamic
    sizes is the 1 that stretches cannot be told."""
    sizes = broadcast(tuple(shape_of(graph, x)), tuple(shape_of(graph, other)))
    if sizes is not None:
        return stretched(graph, x, list(sizes))
    found = graph.make_node("Expand", [x, graph.make_node("Shape", [other])])
    if not graph.has_rank(found):
        graph.set_rank(found, max(rank_of(graph, x), rank_of(graph, other)))
    return found
