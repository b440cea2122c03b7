"""Lower-case words that write into tensors, find places, and bring elements into an order; each
adds nodes.

ONNX Runtime's gaps are closed here: reductions of half floats and bools, NaN in maxima and in
sorted sequences.
"""

from __future__ import annotations

from math import inf, nan

import numpy as np

from ortable import dims, dtypes
from ortable.inference import normalize_axis
from ortable.ir import Graph
from ortable.prelude.facts import (
    Bool,
    Dtype,
    Int,
    Result,
    Results,
    Str,
    SymInts,
    dim_of,
    is_static,
    rank_of,
    shape_of,
    static,
)
from ortable.prelude.metadata import shape_or_none
from ortable.prelude.shapes import along_axis, counting, other_axes, stretched
from ortable.prelude.values import (
    as_scalar,
    as_vec,
    at_least_1d,
    cast,
    const,
    consts,
    permuted,
    reshape_to,
    squeezed,
    unsqueezed,
)

__all__ = [
    "edge_pad",
    "gather_dtype",
    "marked_places",
    "names_each_once",
    "nonzero_columns",
    "nonzero_rows",
    "places_in",
    "put_along",
    "put_diagonal",
    "put_elements",
    "repeated_places",
    "scatter_word",
    "sort_keys",
    "taken_along",
    "wrapped_pad",
]


def put_along(
    graph: Graph, x: Result, axis: Int, index: Result, values: Result, how: Str
) -> Result:
    """``x`` with ``values`` written where the 1-d ``index`` points along one axis; ``how`` is
    ScatterND's reduction, for which an index may occur twice."""
    rank = rank_of(graph, x)
    wide = _sum_dtype(graph, x, how)
    base, updates = cast(graph, x, wide), cast(graph, values, wide)
    if how != "none" and not names_each_once(graph, index):
        wanted = graph.make_node("Shape", [updates])
        places = graph.make_node("Expand", [along_axis(graph, index, axis, rank), wanted])
        written = graph.make_node(
            "ScatterElements", [base, places, updates], axis=axis, reduction=how
        )
        return cast(graph, written, graph.get_type(x))
    order = [axis, *(each for each in range(rank) if each != axis)]
    back = [order.index(each) for each in range(rank)]
    rows = unsqueezed(graph, index, [1])
    parts = [permuted(graph, base, order), rows, permuted(graph, updates, order)]
    written = graph.make_node("ScatterND", parts, reduction=how)
    return cast(graph, permuted(graph, written, back), graph.get_type(x))


def names_each_once(graph: Graph, index: Result) -> Bool:
    """Whether an index (or the tuples in the last axis of one) is known to name no place twice.

    ONNX Runtime's ScatterND runs through its updates in several threads, and of two that add to one
    place at a time it loses one; ScatterElements takes one after the other.
    """
    if not graph.is_constant(index):
        return False
    places = graph.get_constant(index)
    rows = places.reshape(-1, places.shape[-1] if places.ndim > 1 else 1)
    return bool((rows >= 0).all()) and len(np.unique(rows, axis=0)) == len(rows)


def put_elements(
    graph: Graph, x: Result, dim_: Int, index: Result, values: Result, how: Str
) -> Result:
    """torch.scatter: ``values`` (of the shape of ``index``, or larger, or 0-d) written into ``x``
    where ``index`` points.

    ``how`` is the reduction of ScatterElements.
    """
    if 0 in shape_of(graph, index):
        return x
    places = cast(graph, at_least_1d(graph, index), gather_dtype(graph, index))
    wanted = list(shape_of(graph, places))
    if rank_of(graph, values):
        short = [
            axis
            for axis, size in enumerate(wanted)
            if not dims.same(size, dim_of(graph, values, axis))
        ]
        if short:
            ends = as_vec(graph, [wanted[axis] for axis in short])
            zeros = consts(graph, [0] * len(short), dtypes.int64)
            values = graph.make_node(
                "Slice", [values, zeros, ends, consts(graph, short, dtypes.int64)]
            )
    else:
        values = stretched(graph, values, wanted)
    base = at_least_1d(graph, x)
    axis = normalize_axis(dim_, rank_of(graph, base))
    found = _reduced(graph, base, places, values, axis, how)
    return squeezed(graph, found, [0]) if rank_of(graph, x) == 0 else found


def marked_places(graph: Graph, x: Result, dim_: Int, index: Result) -> Result:
    """A bool result that broadcasts against ``x``: True where ``index`` points along one axis."""
    rank = rank_of(graph, x)
    size = dim_of(graph, x, dim_) if rank else 1
    axis = normalize_axis(dim_, rank) if rank else 0
    nowhere = stretched(graph, const(graph, False, dtypes.boolean), [size])
    places = unsqueezed(graph, cast(graph, at_least_1d(graph, index), dtypes.int64), [1])
    count = dim_of(graph, places, 0)
    yes = stretched(graph, const(graph, True, dtypes.boolean), [count])
    found = graph.make_node("ScatterND", [nowhere, places, yes])
    return along_axis(graph, found, axis, rank) if rank else squeezed(graph, found, [0])


def put_diagonal(
    graph: Graph, x: Result, values: Result, offset: Int, row: Int, column_: Int
) -> Result:
    """``x`` with ``values`` (their last axis runs along it) on the diagonal of two axes.

    Raises:
        UnsupportedCase: how long the diagonal is depends on two dynamic sizes.
    """
    count, width = dim_of(graph, values, -1), dim_of(graph, x, column_)
    start = offset if offset >= 0 else -offset * width
    rank = rank_of(graph, x)
    order = [row, column_, *other_axes(rank, [row, column_])]
    turned = permuted(graph, x, order)
    shape = list(shape_of(graph, turned))
    rows = reshape_to(graph, turned, [shape[0] * shape[1], *shape[2:]])
    places = unsqueezed(graph, counting(graph, start, count, width + 1), [1])
    last = rank - 2
    updates = permuted(graph, values, [last, *range(last)])
    written = graph.make_node("ScatterND", [rows, places, updates])
    return permuted(
        graph, reshape_to(graph, written, shape), [order.index(axis) for axis in range(rank)]
    )


def nonzero_rows(graph: Graph, x: Result) -> Result:
    """The coordinates of what is not zero, one row an element (torch.nonzero): int64 [count,
    rank]."""
    found = graph.make_node("NonZero", [cast(graph, at_least_1d(graph, x), dtypes.boolean)])
    if rank_of(graph, x) == 0:
        found = graph.make_node(
            "Slice", [found, as_vec(graph, 0), as_vec(graph, 0), as_vec(graph, 0)]
        )
    return graph.make_node("Transpose", [found], perm=[1, 0])


def nonzero_columns(graph: Graph, x: Result) -> Results:
    """The coordinates of what is not zero, one vector an axis."""
    found = graph.make_node("NonZero", [cast(graph, at_least_1d(graph, x), dtypes.boolean)])
    return [
        graph.make_node("Gather", [found, const(graph, axis, dtypes.int64)], axis=0)
        for axis in range(max(rank_of(graph, x), 1))
    ]


def sort_keys(graph: Graph, x: Result) -> Result:
    """Numbers that sort in torch's order, in which NaN is the largest: at least 1-d, in a dtype
    that TopK knows.

    ONNX leaves open where NaN goes. Here +inf becomes a number that no finite value of the narrower
    dtype of ``x``
    reaches (for float64: the largest one), and NaN becomes +inf.
    """
    wide = at_least_1d(graph, x)
    dtype = graph.get_type(wide)
    if dtype == dtypes.boolean:
        return cast(graph, wide, dtypes.uint8)
    if not dtypes.is_float_type(dtype):
        return wide
    keys = cast(graph, wide, dtypes.float64 if dtypes.itemsize(dtype) > 2 else dtypes.float32)
    large = {dtypes.float64: 1.7976931348623157e308, dtypes.float32: 1e300}.get(dtype, 3.4e38)
    finite = graph.make_node("Min", [keys, const(graph, large, graph.get_type(keys))])
    unordered = graph.make_node("IsNaN", [keys])
    return graph.make_node("Where", [unordered, const(graph, inf, graph.get_type(keys)), finite])


def taken_along(graph: Graph, x: Result, places: Result, axis: Int) -> Result:
    """``x`` taken along one axis at ``places`` (GatherElements), at least 1-d."""
    return graph.make_node("GatherElements", [at_least_1d(graph, x), places], axis=axis)


def places_in(graph: Graph, edges: Result, x: Result, after: Bool, dtype: Dtype) -> Result:
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


def repeated_places(graph: Graph, counts: Result) -> Result:
    """The int64 vector in which each place ``i`` of the 1-d ``counts`` stands ``counts[i]``
    times."""
    if shape_or_none(graph, counts) == (0,):
        return consts(graph, [], dtypes.int64)
    most = graph.make_node("ReduceMax", [cast(graph, counts, dtypes.int64)], keepdims=0)
    ramp = graph.make_node(
        "Range", [const(graph, 0, dtypes.int64), most, const(graph, 1, dtypes.int64)]
    )
    rows = unsqueezed(graph, cast(graph, counts, dtypes.int64), [1])
    found = graph.make_node("NonZero", [graph.make_node("Less", [ramp, rows])])
    return graph.make_node("Gather", [found, const(graph, 0, dtypes.int64)], axis=0)


def gather_dtype(graph: Graph, x: Result) -> Dtype:
    """The dtype in which ONNX takes the indices ``x``: int32 stays, everything else becomes
    int64."""
    return dtypes.int32 if graph.get_type(x) == dtypes.int32 else dtypes.int64


def scatter_word(reduce_: Str) -> Str:
    """ONNX's word for a reduction of torch.scatter_reduce."""
    return {"sum": "add", "prod": "mul", "amax": "max", "amin": "min"}.get(reduce_, "none")


def _sum_dtype(graph: Graph, x: str, how: str) -> int:
    """Where ONNX Runtime has no reduction: half floats are reduced in float32, bool (torch's or,
    and) in int32."""
    dtype = graph.get_type(x)
    if how == "none":
        return dtype
    if dtype == dtypes.boolean:
        return dtypes.int32
    return dtypes.float32 if dtype in (dtypes.float16, dtypes.bfloat16) else dtype


def _reduced(graph: Graph, base: str, places: str, values: str, axis: int, how: str) -> str:
    """ScatterElements in a dtype that ONNX Runtime reduces, NaN included: there max and min pass
    over it."""
    dtype = graph.get_type(base)
    wide = _sum_dtype(graph, base, how)
    base, values = cast(graph, base, wide), cast(graph, values, wide)
    found = graph.make_node("ScatterElements", [base, places, values], axis=axis, reduction=how)
    if how in ("max", "min") and dtypes.is_float_type(wide):
        flags = [
            cast(graph, graph.make_node("IsNaN", [each]), dtypes.int32) for each in (base, values)
        ]
        marks = graph.make_node(
            "ScatterElements", [flags[0], places, flags[1]], axis=axis, reduction="max"
        )
        found = graph.make_node(
            "Where", [cast(graph, marks, dtypes.boolean), const(graph, nan, wide), found]
        )
    return cast(graph, found, dtype)


def wrapped_pad(graph: Graph, x: Result, pads: SymInts) -> Result:
    """``x`` padded with what comes from its other end (torch's circular mode), last axis first in
    ``pads``. Negative pads crop first; the others repeat what is left."""
    for place in range(len(pads) // 2):
        before, after = pads[2 * place], pads[2 * place + 1]
        axis = rank_of(graph, x) - 1 - place
        if is_static([before, after]) and before == 0 and after == 0:
            continue
        cut = -dims.minimum(before, 0)
        size = dim_of(graph, x, axis) - cut + dims.minimum(after, 0)
        before, after = dims.maximum(before, 0), dims.maximum(after, 0)
        if is_static([before, after, cut, size]):
            low, have, high, less = static([before, size, after, cut])
            span = [each % have + less for each in range(-low, have + high)]
            index = consts(graph, span, dtypes.int64)
        else:
            ramp = counting(graph, -before, size + before + after, 1)
            index = graph.make_node("Mod", [ramp, as_vec(graph, size)])
            index = graph.make_node("Add", [index, as_vec(graph, cut)])
        x = graph.make_node("Gather", [x, index], axis=axis)
    return x


def edge_pad(graph: Graph, x: Result, pads: SymInts) -> Result:
    """``x`` padded with its first and last elements, cropped where a pad is negative; last axis
    first in ``pads``."""
    for place in range(len(pads) // 2):
        before, after = pads[2 * place], pads[2 * place + 1]
        axis = rank_of(graph, x) - 1 - place
        size = dim_of(graph, x, axis)
        ramp = counting(graph, -before, size + before + after, 1)
        least, most = const(graph, 0, dtypes.int64), as_scalar(graph, size - 1)
        index = graph.make_node("Min", [graph.make_node("Max", [ramp, least]), most])
        x = graph.make_node("Gather", [x, index], axis=axis)
    return x
