"""Lower operators on ordered elements: runs of equal elements and binary search.

`prelude.indexing` has the sort itself.
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

# Up to this number of test elements, comparing with each is not slower than a binary search.
_MAX_COMPARED_TEST_ELEMENTS = 64


def run_starts(graph: Graph, x: Result, axis: Int) -> Result:
    """Return a bool vector, True where a slice along ``axis`` is the first or a new one.

    A slice is new if it differs from the previous slice.
    """
    op = OpBuilder(graph)
    size = dim_of(graph, x, axis)
    previous = op.Concat(sliced(graph, x, axis, 0, 1), sliced(graph, x, axis, 0, -1), axis=axis)
    graph.set_shape(previous, tuple(shape_of(graph, x)))
    reduced_axes = other_axes(rank_of(graph, x), [axis])
    is_different = op.Not(op.Equal(x, previous))
    if reduced_axes:
        count = op.ReduceSum(
            cast(graph, is_different, dtypes.int64),
            consts(graph, reduced_axes, dtypes.int64),
            keepdims=0,
        )
        is_different = cast(graph, count, dtypes.boolean)
    is_first = op.Equal(iota(graph, 0, size, 1), 0)
    return op.Or(is_different, is_first)


def new_runs(graph: Graph, x: Result) -> Result:
    """Return True where an element is the first of the last axis or differs from the previous."""
    op = OpBuilder(graph)
    last = rank_of(graph, x) - 1
    parts = [sliced(graph, x, last, 0, 1), sliced(graph, x, last, 0, -1)]
    previous = graph.make_node("Concat", parts, axis=last)
    graph.set_shape(previous, tuple(shape_of(graph, x)))
    positions = iota(graph, 0, dim_of(graph, x, last), 1)
    is_first = op.Equal(positions, 0)
    is_different = op.Not(op.Equal(x, previous))
    return op.Or(is_different, is_first)


def run_lengths(graph: Graph, starts: Result) -> Result:
    """Return the length of each run from `run_starts`: [True, False, True] gives [2, 1]."""
    size = dim_of(graph, starts, 0)
    begins = compressed(graph, iota(graph, 0, size, 1), starts, 0)
    ends = [sliced(graph, begins, 0, 1, 2**63 - 1), as_vec(graph, size)]
    if shape_or_none(graph, starts) == (0,):
        return begins
    return OpBuilder(graph).Sub(graph.make_node("Concat", ends, axis=0), begins)


def compressed(graph: Graph, x: Result, marks: Result, axis: Int) -> Result:
    """Return the slices of ``x`` along one axis where the bool vector ``marks`` is True."""
    dtype = graph.get_type(x)
    compute_dtype = dtypes.float32 if dtype == dtypes.bfloat16 else dtype
    result = OpBuilder(graph).Compress(cast(graph, x, compute_dtype), marks, axis=axis)
    if not graph.has_rank(result):
        graph.set_rank(result, rank_of(graph, x))
    return cast(graph, result, dtype)


def equality_codes(graph: Graph, x: Result) -> Result:
    """Return int64 codes that compare like the elements; each NaN has a code of its own."""
    op = OpBuilder(graph)
    dtype = graph.get_type(x)
    if not dtypes.is_float_type(dtype):
        codes = cast(graph, x, dtypes.int64)
        if dtype != dtypes.uint64:
            return codes
        # the cast has made numbers from 2**63 negative; this addition wraps around and orders them
        return op.Add(codes, -(2**63))
    flat = reshape_to(graph, x, [dims.product_of(shape_of(graph, x))])
    order = argsort(graph, flat, 0)
    ids = run_ids(graph, run_starts(graph, op.Gather(flat, order), 0))
    codes = op.ScatterElements(order, order, ids, axis=0)
    return reshape_to(graph, codes, shape_of(graph, x))


def searchsorted(graph: Graph, edges: Result, x: Result, after: Bool, dtype: Dtype) -> Result:
    """Return the position of each element of ``x`` in the sorted last axis of ``edges``.

    With ``after``, the position is after equal edges, else before them. NaN belongs at the end.
    The binary search takes torch's steps, so it gives torch's results also for edges that are not
    sorted or end in NaN.
    """
    op = "Greater" if after else "GreaterOrEqual"
    return cast(graph, _binary_search(graph, edges, x, op, False), dtype)


def is_among(graph: Graph, x: Result, test_elements: Result) -> Result:
    """Return whether each element of ``x`` is in the 1-d ``test_elements``.

    Few test elements are compared with each element, more are searched.
    """
    op, count = OpBuilder(graph), dim_of(graph, test_elements, 0)
    if isinstance(count, int) and count <= _MAX_COMPARED_TEST_ELEMENTS:
        equal_pairs = op.Equal(unsqueezed(graph, x, [rank_of(graph, x)]), test_elements)
        return any_true(graph, equal_pairs, [rank_of(graph, x)], False)
    ordered = op.GatherElements(test_elements, argsort(graph, test_elements, 0), axis=0)
    position = as_flat(graph, _binary_search(graph, ordered, x, "Less", True))
    last = const(graph, count - 1, dtypes.int64)
    safe_position = op.Min(position, cast(graph, last, graph.get_type(position)))
    nearest = op.GatherElements(ordered, safe_position, axis=0)
    return op.Equal(x, reshape_to(graph, nearest, shape_of(graph, x)))


def _binary_search(graph: Graph, edges: str, x: str, comparison: str, right_if: bool) -> str:
    """Return the index at which a binary search for each element of ``x`` ends.

    The search continues to the right of an edge if ``comparison`` of edge and element is
    ``right_if``, else to the left.
    """
    last, sizes, shape = rank_of(graph, edges) - 1, list(shape_of(graph, edges)), shape_of(graph, x)
    if last == 0:  # GatherElements needs 1-d x; Gather of single elements takes 7 times as long
        x = as_flat(graph, x)
    size, out_shape = sizes[-1], list(shape_of(graph, x))
    index_dtype = dtypes.int32 if isinstance(size, int) and size < 2**30 else dtypes.int64
    # the position of a finished search may be after the last edge
    padding = filled(graph, [*sizes[:-1], 1], 0, graph.get_type(edges))
    edges = OpBuilder(graph).Concat(edges, padding, axis=last)
    width = cast(graph, as_scalar(graph, size), index_dtype)
    initial_bounds = [filled(graph, out_shape, 0, index_dtype), expanded(graph, width, out_shape)]
    body = graph.subgraph("search")
    body.make_tensor_input(graph.unique_name("round"), dtypes.int64, ())
    body.make_tensor_input(graph.unique_name("going"), dtypes.boolean, ())
    begin, end, max_width = (graph.unique_name(text) for text in ("begin", "end", "max_width"))
    for name, input_shape in ((begin, out_shape), (end, out_shape), (max_width, ())):
        body.make_tensor_input(name, index_dtype, tuple(input_shape))
    body_op, one, two = OpBuilder(body), const(graph, 1, index_dtype), const(graph, 2, index_dtype)
    middle = body_op.Div(body_op.Add(begin, end), two)
    is_right = body_op(comparison, [body_op.GatherElements(edges, middle, axis=last), x])
    is_right = is_right if right_if else body_op.Not(is_right)
    moves_begin = body_op.And(is_right, body_op.Less(begin, end))
    results = [
        body_op.Where(moves_begin, body_op.Add(middle, one), begin),
        body_op.Where(moves_begin, end, middle),
        body_op.Div(max_width, two),
    ]
    for name in (body_op.Greater(results[2], 0), *results):
        body.make_tensor_output(name)
    going = OpBuilder(graph).Greater(width, 0)
    rounds = const(graph, 63, dtypes.int64)
    position = OpBuilder(graph).Loop(rounds, going, *initial_bounds, width, outputs=3, body=body)[0]
    graph.set_shape(position, tuple(out_shape))
    return reshape_to(graph, position, list(shape))
