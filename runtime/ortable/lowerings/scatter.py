"""Lower writes into tensors: scatter reductions, diagonals, and the bounds of assigned slices.

`prelude.indexing` has the scatter operators themselves.
"""

from __future__ import annotations

from ortable import dims, dtypes
from ortable.ir import Graph
from ortable.prelude.facts import (
    Bool,
    Int,
    Result,
    Str,
    SymInt,
    dim_of,
    dtype_max,
    dtype_min,
    rank_of,
    shape_of,
)
from ortable.prelude.indexing import scatter_elements
from ortable.prelude.op_builder import OpBuilder
from ortable.prelude.pointwise import floor_quotient
from ortable.prelude.shapes import expanded, iota, is_open_end, other_axes
from ortable.prelude.values import cast, const, permuted, reshape_to, unsqueezed

__all__ = [
    "clamped_bound",
    "put_diagonal",
    "scatter_reduce",
]


def put_diagonal(
    graph: Graph, x: Result, values: Result, offset: Int, row: Int, column: Int
) -> Result:
    """Write ``values`` to the diagonal ``offset`` of the axes ``row`` and ``column`` of ``x``.

    The last axis of ``values`` is along the diagonal, as in torch.diagonal.
    """
    count, width = dim_of(graph, values, -1), dim_of(graph, x, column)
    start = offset if offset >= 0 else -offset * width
    rank = rank_of(graph, x)
    order = [row, column, *other_axes(rank, [row, column])]
    transposed = permuted(graph, x, order)
    shape = list(shape_of(graph, transposed))
    rows = reshape_to(graph, transposed, [shape[0] * shape[1], *shape[2:]])
    indices = unsqueezed(graph, iota(graph, start, count, width + 1), [1])
    last = rank - 2
    updates = permuted(graph, values, [last, *range(last)])
    written = OpBuilder(graph).ScatterND(rows, indices, updates)
    return permuted(
        graph, reshape_to(graph, written, shape), [order.index(axis) for axis in range(rank)]
    )


def onnx_reduction(reduction: Str) -> Str:
    """Return ONNX's name for a reduction of torch.scatter_reduce.

    The result is "none" for a mean, which ONNX lacks, and for names that torch lacks.
    """
    return {"sum": "add", "prod": "mul", "amax": "max", "amin": "min"}.get(reduction, "none")


def scatter_reduce(
    graph: Graph, x: Result, dim: Int, index: Result, values: Result, how: Str, with_self: Bool
) -> Result:
    """Lower torch.scatter_reduce: reduce ``values`` into ``x`` at ``index``.

    ``how`` is torch's name of the reduction. Without ``with_self``, the reduction at ``index``
    starts from its neutral element, not from ``x``. The mean of ints is rounded down.
    """
    dtype = graph.get_type(x)
    if how == "mean":
        compute_dtype = dtypes.float32 if dtype in (dtypes.float16, dtypes.bfloat16) else dtype
        result = _scatter_mean(graph, cast(graph, x, compute_dtype), dim, index, values, with_self)
        return cast(graph, result, dtype)
    if not with_self:
        neutral = {"sum": 0, "prod": 1, "amax": dtype_min(dtype), "amin": dtype_max(dtype)}[how]
        x = scatter_elements(graph, x, dim, index, const(graph, neutral, dtype), "none")
    return scatter_elements(graph, x, dim, index, values, onnx_reduction(how))


def _scatter_mean(
    graph: Graph, x: Result, dim: int, index: Result, values: Result, with_self: bool
) -> Result:
    dtype = graph.get_type(x)
    base = x
    counts = expanded(graph, const(graph, 1, dtypes.int64), shape_of(graph, x))
    if not with_self:
        base = scatter_elements(graph, x, dim, index, const(graph, 0, dtype), "none")
        counts = scatter_elements(graph, counts, dim, index, const(graph, 0, dtypes.int64), "none")
    total = scatter_elements(graph, base, dim, index, cast(graph, values, dtype), "add")
    count = scatter_elements(graph, counts, dim, index, const(graph, 1, dtypes.int64), "add")
    count = cast(graph, count, dtype)
    if dtypes.is_float_type(dtype):
        return OpBuilder(graph).Div(total, count)
    return floor_quotient(graph, total, count, positive=True)


def clamped_bound(bound: SymInt | None, size: SymInt, default: SymInt) -> SymInt:
    """Return a slice bound clamped to ``[0, size]``: -1 is size - 1, None is ``default``."""
    if bound is None:
        return default
    if bound >= 0:
        return size if is_open_end(bound) else dims.min_of(bound, size)
    if bound <= -1:
        return dims.max_of(bound + size, 0)
    # clamped to -size..size; the quotient is -1 for a negative bound, else 0
    clamped = dims.max_of(dims.min_of(bound, size), -size)
    return clamped - size * dims.floor_div(clamped, size + 1)
