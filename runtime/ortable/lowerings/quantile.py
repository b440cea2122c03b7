"""Quantiles: interpolated elements at fractional positions of the sorted order."""

from __future__ import annotations

from ortable import dtypes
from ortable.ir import Graph, ResultSpec
from ortable.prelude.facts import axis_of, dim_of, rank_of, shape_of
from ortable.prelude.indexing import argsort
from ortable.prelude.op_builder import OpBuilder
from ortable.prelude.shapes import as_flat, expanded
from ortable.prelude.values import (
    as_vec,
    at_least_1d,
    cast,
    const,
    consts,
    permuted,
    squeezed,
    unsqueezed,
)


def lower_quantile(
    graph: Graph,
    res: ResultSpec,
    self: str,
    q: str | float,
    dim: int | None,
    keepdim: bool,
    interpolation: str,
) -> str:
    """aten::quantile: NaN where the input has one."""
    return _select_quantile(graph, self, q, dim, keepdim, interpolation, False)


def lower_nanquantile(
    graph: Graph,
    res: ResultSpec,
    self: str,
    q: str | float,
    dim: int | None,
    keepdim: bool,
    interpolation: str,
) -> str:
    """aten::nanquantile: of the elements that are not NaN."""
    return _select_quantile(graph, self, q, dim, keepdim, interpolation, True)


def _select_quantile(
    graph: Graph,
    x: str,
    q: str | float,
    dim: int | None,
    keepdim: bool,
    how: str,
    skip_nan: bool,
) -> str:
    op, dtype, rank = OpBuilder(graph), graph.get_type(x), rank_of(graph, x)
    axis = 0 if dim is None else axis_of(graph, x, dim)
    rows = as_flat(graph, x) if dim is None else at_least_1d(graph, x)
    order = [other for other in range(rank_of(graph, rows)) if other != axis] + [axis]
    rows = permuted(graph, rows, order)
    last = len(order) - 1
    ordered = op.GatherElements(rows, argsort(graph, rows, last), axis=last)
    single = not isinstance(q, str) or rank_of(graph, q) == 0
    quantiles = at_least_1d(graph, q) if isinstance(q, str) else consts(graph, [q], dtype)
    places = _fractional_positions(graph, ordered, quantiles, skip_nan)
    result = _interpolate_positions(graph, ordered, places, how)
    # [others, quantiles]
    if dim is None:
        result = unsqueezed(graph, result, list(range(rank))) if keepdim else result
    elif keepdim and rank:
        result = unsqueezed(graph, result, [axis])
    wide = rank_of(graph, result)
    if single:
        return squeezed(graph, result, [wide - 1])
    return permuted(graph, result, [wide - 1, *range(wide - 1)])


def _fractional_positions(graph: Graph, ordered: str, q: str, skip_nan: bool) -> str:
    """The fractional positions [others, quantiles]; the last one where there is a NaN."""
    op, dtype = OpBuilder(graph), graph.get_type(ordered)
    last = rank_of(graph, ordered) - 1
    final = const(graph, dim_of(graph, ordered, last) - 1, dtype)
    unknown = cast(graph, op.IsNaN(ordered), dtypes.int64)
    count = op.ReduceSum(unknown, as_vec(graph, last), keepdims=1)
    if skip_nan:
        places = op.Mul(q, op.Sub(final, cast(graph, count, dtype)))
        return op.Max(places, 0)
    some = cast(graph, count, dtypes.boolean)
    return op.Where(some, final, op.Mul(q, final))


def _interpolate_positions(graph: Graph, ordered: str, places: str, how: str) -> str:
    op, dtype = OpBuilder(graph), graph.get_type(ordered)
    last = rank_of(graph, ordered) - 1
    sizes = [*shape_of(graph, ordered)[:-1], dim_of(graph, places, -1)]
    places = expanded(graph, places, sizes)
    rounding = {"lower": "Floor", "higher": "Ceil", "nearest": "Round"}.get(how, "Floor")
    first = op(rounding, [places])
    below = op.GatherElements(ordered, cast(graph, first, dtypes.int64), axis=last)
    if how not in ("linear", "midpoint"):
        return below
    ceiling = cast(graph, op.Ceil(places), dtypes.int64)
    above = op.GatherElements(ordered, ceiling, axis=last)
    weight = const(graph, 0.5, dtype) if how == "midpoint" else op.Sub(places, first)
    # torch.lerp goes from the nearer end
    step = op.Sub(above, below)
    near = op.Add(below, op.Mul(weight, step))
    rest = op.Sub(1, weight)
    far = op.Sub(above, op.Mul(step, rest))
    return op.Where(op.Less(weight, 0.5), near, far)
