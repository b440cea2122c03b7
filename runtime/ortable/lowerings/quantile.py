"""Lower quantiles: interpolate elements at fractional positions of the sorted order."""

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
    """Lower aten::quantile, which is NaN if the input has a NaN."""
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
    """Lower aten::nanquantile, which ignores NaN."""
    return _select_quantile(graph, self, q, dim, keepdim, interpolation, True)


def _select_quantile(
    graph: Graph,
    x: str,
    q: str | float,
    dim: int | None,
    keepdim: bool,
    interpolation: str,
    skip_nan: bool,
) -> str:
    op, dtype, rank = OpBuilder(graph), graph.get_type(x), rank_of(graph, x)
    axis = 0 if dim is None else axis_of(graph, x, dim)
    rows = as_flat(graph, x) if dim is None else at_least_1d(graph, x)
    order = [index for index in range(rank_of(graph, rows)) if index != axis] + [axis]
    rows = permuted(graph, rows, order)
    last = len(order) - 1
    ordered = op.GatherElements(rows, argsort(graph, rows, last), axis=last)
    is_scalar = not isinstance(q, str) or rank_of(graph, q) == 0
    quantiles = at_least_1d(graph, q) if isinstance(q, str) else consts(graph, [q], dtype)
    positions = _fractional_positions(graph, ordered, quantiles, skip_nan)
    result = _interpolate_positions(graph, ordered, positions, interpolation)
    # shape: [other dims, quantiles]
    if dim is None:
        result = unsqueezed(graph, result, list(range(rank))) if keepdim else result
    elif keepdim and rank:
        result = unsqueezed(graph, result, [axis])
    result_rank = rank_of(graph, result)
    if is_scalar:
        return squeezed(graph, result, [result_rank - 1])
    return permuted(graph, result, [result_rank - 1, *range(result_rank - 1)])


def _fractional_positions(graph: Graph, ordered: str, q: str, skip_nan: bool) -> str:
    """Return the fractional position of each quantile in ``ordered``, where NaN is last.

    Without ``skip_nan``, a row with NaN has the last position, so its quantiles are NaN.
    """
    op, dtype = OpBuilder(graph), graph.get_type(ordered)
    last = rank_of(graph, ordered) - 1
    last_position = const(graph, dim_of(graph, ordered, last) - 1, dtype)
    is_nan = cast(graph, op.IsNaN(ordered), dtypes.int64)
    count = op.ReduceSum(is_nan, as_vec(graph, last), keepdims=1)
    if skip_nan:
        positions = op.Mul(q, op.Sub(last_position, cast(graph, count, dtype)))
        return op.Max(positions, 0)
    has_nan = cast(graph, count, dtypes.boolean)
    return op.Where(has_nan, last_position, op.Mul(q, last_position))


def _interpolate_positions(graph: Graph, ordered: str, positions: str, interpolation: str) -> str:
    op, dtype = OpBuilder(graph), graph.get_type(ordered)
    last = rank_of(graph, ordered) - 1
    sizes = [*shape_of(graph, ordered)[:-1], dim_of(graph, positions, -1)]
    positions = expanded(graph, positions, sizes)
    rounding = {"lower": "Floor", "higher": "Ceil", "nearest": "Round"}.get(interpolation, "Floor")
    rounded = op(rounding, [positions])
    below = op.GatherElements(ordered, cast(graph, rounded, dtypes.int64), axis=last)
    if interpolation not in ("linear", "midpoint"):
        return below
    ceiling = cast(graph, op.Ceil(positions), dtypes.int64)
    above = op.GatherElements(ordered, ceiling, axis=last)
    weight = const(graph, 0.5, dtype) if interpolation == "midpoint" else op.Sub(positions, rounded)
    # like torch.lerp, interpolate from the nearer end
    step = op.Sub(above, below)
    from_below = op.Add(below, op.Mul(weight, step))
    complement = op.Sub(1, weight)
    from_above = op.Sub(above, op.Mul(step, complement))
    return op.Where(op.Less(weight, 0.5), from_below, from_above)
