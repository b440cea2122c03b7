"""Elements in order: runs of equal elements, medians, positions in a sorted sequence. The sort
itself is in `prelude.indexing`.
"""

from __future__ import annotations

from ortable import dims, dtypes
from ortable.ir import Graph
from ortable.prelude.facts import Bool, Dtype, Int, Result, dim_of, rank_of, shape_of
from ortable.prelude.indexing import argsort, run_ids
from ortable.prelude.metadata import shape_or_none
from ortable.prelude.op_builder import OpBuilder
from ortable.prelude.reductions import any_true
from ortable.prelude.shapes import as_flat, expanded, iota, other_axes, sliced
from ortable.prelude.values import (
    as_scalar,
    as_vec,
    cast,
    const,
    consts,
    filled,
    reshape_to,
    unsqueezed,
)

__all__ = [
    "compressed",
    "equality_codes",
    "is_among",
    "new_runs",
    "run_lengths",
    "run_starts",
    "searchsorted",
]

_FEW_TESTS = 64  # so many comparisons take no longer than a search


def run_starts(graph: Graph, x: Result, axis: Int) -> Result:
    """A bool vector: True where a slice of ``x`` along one axis differs from the one before it, and
    for the first; NaN differs from NaN."""
    op = OpBuilder(graph)
    size = dim_of(graph, x, axis)
    before = op.Concat(sliced(graph, x, axis, 0, 1), sliced(graph, x, axis, 0, -1), axis=axis)
    graph.set_shape(before, tuple(shape_of(graph, x)))
    others = other_axes(rank_of(graph, x), [axis])
    other = op.Not(op.Equal(x, before))
    if others:
        count = op.ReduceSum(cast(graph, other, dtypes.int64), consts(graph, others, dtypes.int64),
            keepdims=0,
        )  # fmt: skip
        other = cast(graph, count, dtypes.boolean)
    first = op.Equal(iota(graph, 0, size, 1), 0)
    return op.Or(other, first)


def new_runs(graph: Graph, x: Result) -> Result:
    """True where an element differs from the one before it along the last axis, and for the first;
    of the shape of ``x``."""
    op = OpBuilder(graph)
    last = rank_of(graph, x) - 1
    parts = [sliced(graph, x, last, 0, 1), sliced(graph, x, last, 0, -1)]
    before = graph.make_node("Concat", parts, axis=last)
    graph.set_shape(before, tuple(shape_of(graph, x)))
    places = iota(graph, 0, dim_of(graph, x, last), 1)
    first = op.Equal(places, 0)
    other = op.Not(op.Equal(x, before))
    return op.Or(other, first)


def run_lengths(graph: Graph, starts: Result) -> Result:
    """How long each run is, from the marks of ``run_starts``."""
    size = dim_of(graph, starts, 0)
    first = compressed(graph, iota(graph, 0, size, 1), starts, 0)
    ends = [sliced(graph, first, 0, 1, 2**63 - 1), as_vec(graph, size)]
    if shape_or_none(graph, starts) == (0,):
        return first
    return OpBuilder(graph).Sub(graph.make_node("Concat", ends, axis=0), first)


def compressed(graph: Graph, x: Result, marks: Result, axis: Int) -> Result:
    """The slices of ``x`` along one axis where the bool vector ``marks`` is True."""
    dtype = graph.get_type(x)
    compute_dtype = dtypes.float32 if dtype == dtypes.bfloat16 else dtype
    result = OpBuilder(graph).Compress(cast(graph, x, compute_dtype), marks, axis=axis)
    if not graph.has_rank(result):
        graph.set_rank(result, rank_of(graph, x))
    return cast(graph, result, dtype)


def equality_codes(graph: Graph, x: Result) -> Result:
    """int64 numbers of the shape of ``x`` that are equal, and ordered, as its elements are; each
    NaN is a number of its own, after all others."""
    op = OpBuilder(graph)
    dtype = graph.get_type(x)
    if not dtypes.is_float_type(dtype):
        codes = cast(graph, x, dtypes.int64)
        if dtype != dtypes.uint64:
            return codes
        # numbers of 2**63 and more have become the negative ones
        return op.Add(codes, -(2**63))
    flat = reshape_to(graph, x, [dims.product_of(shape_of(graph, x))])
    order = argsort(graph, flat, 0)
    ids = run_ids(graph, run_starts(graph, op.Gather(flat, order), 0))
    codes = op.ScatterElements(order, order, ids, axis=0)
    return reshape_to(graph, codes, shape_of(graph, x))


def searchsorted(graph: Graph, edges: Result, x: Result, after: Bool, dtype: Dtype) -> Result:
    """The position of each element of ``x`` in the sorted last axis of ``edges``, as torch finds
    it.

    ``after``: behind equal ones. NaN belongs at the end. The binary search takes torch's steps, so
    it gives torch's results also for edges that are not sorted, or end in NaN.
    """
    op = "Greater" if after else "GreaterOrEqual"
    return cast(graph, _binary_search(graph, edges, x, op, False), dtype)


def is_among(graph: Graph, x: Result, tests: Result) -> Result:
    """Whether each element of ``x`` equals an element of the 1-d ``tests``: these are sorted and
    searched; few are compared one by one. NaN equals nothing.
    """
    op, count = OpBuilder(graph), dim_of(graph, tests, 0)
    if isinstance(count, int) and count <= _FEW_TESTS:
        pairs = op.Equal(unsqueezed(graph, x, [rank_of(graph, x)]), tests)
        return any_true(graph, pairs, [rank_of(graph, x)], False)
    ordered = op.GatherElements(tests, argsort(graph, tests, 0), axis=0)
    position = as_flat(graph, _binary_search(graph, ordered, x, "Less", True))
    last = const(graph, count - 1, dtypes.int64)
    near = op.Min(position, cast(graph, last, graph.get_type(position)))
    nearest = op.GatherElements(ordered, near, axis=0)
    return op.Equal(x, reshape_to(graph, nearest, shape_of(graph, x)))


def _binary_search(graph: Graph, edges: str, x: str, op: str, passes: bool) -> str:
    """The index at which a binary search for each element of ``x`` ends, in a Loop. It moves past
    an edge for which ``op`` of edge and element is ``passes``.
    """
    last, sizes, shape = rank_of(graph, edges) - 1, list(shape_of(graph, edges)), shape_of(graph, x)
    if last == 0:  # ONNX Runtime's Gather of single elements takes 7 times as long
        x = as_flat(graph, x)
    size, out_shape = sizes[-1], list(shape_of(graph, x))
    index = dtypes.int32 if isinstance(size, int) and size < 2**30 else dtypes.int64
    # where a search is over, its place may be behind the last edge
    nothing = filled(graph, [*sizes[:-1], 1], 0, graph.get_type(edges))
    edges = OpBuilder(graph).Concat(edges, nothing, axis=last)
    width = cast(graph, as_scalar(graph, size), index)
    starts = [filled(graph, out_shape, 0, index), expanded(graph, width, out_shape)]
    body = graph.subgraph("search")
    body.make_tensor_input(graph.unique_name("round"), dtypes.int64, ())
    body.make_tensor_input(graph.unique_name("going"), dtypes.boolean, ())
    first, end, most = (graph.unique_name(text) for text in ("first", "end", "most"))
    for name, size_ in ((first, out_shape), (end, out_shape), (most, ())):
        body.make_tensor_input(name, index, tuple(size_))
    node, one, two = OpBuilder(body), const(graph, 1, index), const(graph, 2, index)
    middle = node.Div(node.Add(first, end), two)
    beyond = node(op, [node.GatherElements(edges, middle, axis=last), x])
    beyond = beyond if passes else node.Not(beyond)
    moved = node.And(beyond, node.Less(first, end))
    results = [
        node.Where(moved, node.Add(middle, one), first),
        node.Where(moved, end, middle),
        node.Div(most, two),
    ]
    for name in (node.Greater(results[2], 0), *results):
        body.make_tensor_output(name)
    going = OpBuilder(graph).Greater(width, 0)
    rounds = const(graph, 63, dtypes.int64)
    position = OpBuilder(graph).Loop(rounds, going, *starts, width, outputs=3, body=body)[0]
    graph.set_shape(position, tuple(out_shape))
    return reshape_to(graph, position, list(shape))
