"""Losses over classes: picking the target's class, class weights, ignored targets, label smoothing,
soft targets, margins.
"""

from __future__ import annotations

import math

from ortable import dtypes
from ortable.dims import Dim
from ortable.ir import Graph, ResultSpec
from ortable.prelude.facts import Int, Result, Results, SymInt, dim_of, is_float, rank_of, shape_of
from ortable.prelude.op_builder import OpBuilder
from ortable.prelude.pointwise import scaled
from ortable.prelude.reductions import any_true, loss_reduced
from ortable.prelude.shapes import iota, other_axes, zeros_of
from ortable.prelude.sums import summed_over
from ortable.prelude.values import cast, const, reshape_to, squeezed, unsqueezed

from .normalization import count_over
from .softmax import log_softmax_of

__all__ = [
    "multilabel_margin",
    "without_ignored",
]


NONE, MEAN, SUM = 0, 1, 2


def without_ignored(graph: Graph, target: Result, ignore_index: SymInt) -> Result:
    """Class indices, with 0 for ignored targets."""
    op = OpBuilder(graph)
    dtype = graph.get_type(target)
    ignored = op.Equal(target, const(graph, ignore_index, dtype))
    return op.Where(ignored, 0, target)


def nll_loss(
    graph: Graph,
    res: ResultSpec,
    self: str,
    target: str,
    weight: str | None,
    reduction: int,
    ignore_index: Dim,
) -> tuple[str, str]:
    """aten::nll_loss_forward and nll_loss2d_forward: (loss, total weight of the targets that
    count)."""
    seen, safe = _split_ignored(graph, target, ignore_index)
    loss, total = _picked_loss(graph, self, seen, safe, weight, reduction)
    return loss, total


def nll_loss_single(
    graph: Graph,
    res: ResultSpec,
    self: str,
    target: str,
    weight: str | None,
    reduction: int,
    ignore_index: Dim,
) -> str:
    """aten::nll_loss_nd: the loss alone."""
    return nll_loss(graph, res, self, target, weight, reduction, ignore_index)[0]


def nll_loss_backward(
    graph: Graph,
    res: ResultSpec,
    grad_output: str,
    self: str,
    target: str,
    weight: str | None,
    reduction: int,
    ignore_index: Dim,
    total_weight: str,
) -> str:
    """aten::nll_loss_backward and nll_loss2d_backward: minus the weight, where the class is the
    target's."""
    op = OpBuilder(graph)
    axis = _class_axis(graph, self)
    rank = rank_of(graph, self)
    # int32: half as much to compare; a class that is none stands for the ignored targets
    numbers = cast(graph, iota(graph, 0, shape_of(graph, self)[axis], 1), dtypes.int32)
    numbers = unsqueezed(graph, numbers, list(range(1, rank - axis)))
    wide = cast(graph, target, dtypes.int64)
    ignored = op.Equal(wide, const(graph, ignore_index, dtypes.int64))
    counted = op.Where(ignored, -1, wide)
    places = unsqueezed(graph, cast(graph, counted, dtypes.int32), [axis])
    hot = op.Equal(places, numbers)
    grad = unsqueezed(graph, grad_output, [axis]) if reduction == NONE else grad_output
    if reduction == MEAN:
        grad = op.Div(grad, total_weight)
    if weight is not None:
        grad = op.Mul(grad, _along_classes(graph, weight, rank, axis))
    return op.Where(hot, op.Neg(grad), 0)


def cross_entropy(
    graph: Graph,
    res: ResultSpec,
    self: str,
    target: str,
    weight: str | None,
    reduction: int,
    ignore_index: Dim,
    label_smoothing: float,
) -> str:
    """aten::cross_entropy_loss for class indices and for probabilities (a float target)."""
    op = OpBuilder(graph)
    axis = _class_axis(graph, self)
    logs = log_softmax_of(graph, self, axis)
    if is_float(graph, target):
        return _soft_cross_entropy(graph, logs, target, weight, reduction, label_smoothing)
    seen, safe = _split_ignored(graph, target, ignore_index)
    hard, total = _picked_loss(graph, logs, seen, safe, weight, reduction)
    if label_smoothing == 0:
        return hard
    every = _smooth_loss(graph, logs, seen, weight, axis)
    if reduction != NONE:
        every = loss_reduced(graph, every, SUM)
    if reduction == MEAN:
        every = op.Div(every, total)
    smooth = _divide_by_classes(
        graph, scaled(graph, every, label_smoothing), shape_of(graph, self)[axis]
    )
    return op.Add(scaled(graph, hard, 1 - label_smoothing), smooth)


def _divide_by_classes(graph: Graph, x: str, classes: Dim) -> str:
    """``x`` divided by the number of classes."""
    return OpBuilder(graph).Div(x, const(graph, classes, graph.get_type(x)))


def _class_axis(graph: Graph, x: str) -> int:
    return 0 if rank_of(graph, x) == 1 else 1


def _split_ignored(graph: Graph, target: str, ignore_index: Dim) -> tuple[str, str]:
    """Which targets count, and the targets with class 0 in place of the ignored ones."""
    op = OpBuilder(graph)
    wide = cast(graph, target, dtypes.int64)
    ignored = op.Equal(wide, const(graph, ignore_index, dtypes.int64))
    safe = op.Where(ignored, 0, wide)
    return op.Not(ignored), safe


def _picked_loss(
    graph: Graph, logs: str, seen: str, safe: str, weight: str | None, reduction: int
) -> tuple[str, str]:
    op = OpBuilder(graph)
    axis = _class_axis(graph, logs)
    dtype = graph.get_type(logs)
    zero = const(graph, 0, dtype)
    if dim_of(graph, logs, axis) == 0:
        # without classes every target is ignored, and nothing can be picked
        terms, weight = zeros_of(graph, shape_of(graph, safe), dtype), None
    else:
        places = unsqueezed(graph, safe, [axis])
        terms = op.GatherElements(logs, places, axis=axis)
        terms = squeezed(graph, terms, [axis])
    own = op.Gather(weight, safe, axis=0) if weight is not None else const(graph, 1, dtype)
    if weight is not None:
        terms = op.Mul(terms, own)
    terms = op.Where(seen, op.Neg(terms), zero)
    if reduction == NONE:
        return terms, zero
    total = loss_reduced(graph, op.Where(seen, own, zero), SUM)
    loss = loss_reduced(graph, terms, SUM)
    return (op.Div(loss, total) if reduction == MEAN else loss), total


def _smooth_loss(graph: Graph, logs: str, seen: str, weight: str | None, axis: int) -> str:
    """Minus the (weighted) sum of the log probabilities of all classes, 0 for ignored targets."""
    op = OpBuilder(graph)
    terms = _apply_class_weight(graph, logs, weight, axis)
    total = summed_over(graph, terms, [axis], False)
    zero = const(graph, 0, graph.get_type(logs))
    return op.Where(seen, op.Neg(total), zero)


def _soft_cross_entropy(
    graph: Graph,
    logs: str,
    target: str,
    weight: str | None,
    reduction: int,
    smoothing: float,
) -> str:
    op = OpBuilder(graph)
    axis = _class_axis(graph, logs)
    if reduction == MEAN and dim_of(graph, logs, axis) == 0:
        return const(graph, math.nan, graph.get_type(logs))  # torch counts rows by dividing by 0
    probs = cast(graph, target, graph.get_type(logs))
    if smoothing > 0:
        whole = const(graph, smoothing, graph.get_type(logs))
        share = _divide_by_classes(graph, whole, shape_of(graph, logs)[axis])
        probs = op.Add(scaled(graph, probs, 1 - smoothing), share)
    terms = _apply_class_weight(graph, op.Mul(logs, probs), weight, axis)
    total = summed_over(graph, terms, [axis], False)
    loss = loss_reduced(graph, op.Neg(total), SUM if reduction == MEAN else reduction)
    if reduction != MEAN:
        return loss
    count = count_over(graph, logs, other_axes(rank_of(graph, logs), [axis]))
    return op.Div(loss, const(graph, count, graph.get_type(loss)))


def _apply_class_weight(graph: Graph, x: str, weight: str | None, axis: int) -> str:
    if weight is None:
        return x
    return OpBuilder(graph).Mul(x, _along_classes(graph, weight, rank_of(graph, x), axis))


def _along_classes(graph: Graph, weight: str, rank: int, axis: int) -> str:
    """[C] as [C, 1, ...], to broadcast along the class axis of a tensor of ``rank``."""
    return unsqueezed(graph, weight, list(range(1, rank - axis)))


def at_class(graph: Graph, target: Result, classes: SymInt) -> Result:
    """A bool result with one more axis, True where the class is that of ``target``."""
    numbers = iota(graph, 0, classes, 1)
    wide = unsqueezed(graph, cast(graph, target, dtypes.int64), [rank_of(graph, target)])
    return OpBuilder(graph).Equal(wide, numbers)


def multilabel_margin(graph: Graph, x: Result, target: Result, reduction: Int) -> Results:
    """[loss, 1 where a class is a target]: the targets of a row end at the first negative one;
    every class that is none costs 1 - (x[target] - x[class]), if that is positive."""
    op, dtype, rank = OpBuilder(graph), graph.get_type(x), rank_of(graph, x)
    rows = dim_of(graph, x, 0) if rank > 1 else 1
    count = dim_of(graph, x, -1) if rank else 1
    values, places = (reshape_to(graph, tensor, [rows, count]) for tensor in (x, target))
    before_end = _before_end(graph, places)
    column = unsqueezed(graph, before_end, [2])
    hits = op.And(at_class(graph, places, count), column)
    is_target = any_true(graph, hits, [1], False)
    safe = op.Where(before_end, places, 0)
    own = unsqueezed(graph, op.GatherElements(values, safe, axis=1), [2])
    one, zero = const(graph, 1, dtype), const(graph, 0, dtype)
    gap = op.Add(op.Sub(one, own), unsqueezed(graph, values, [1]))
    counts = op.And(column, unsqueezed(graph, op.Not(is_target), [1]))
    counts = op.And(counts, op.Greater(gap, zero))
    lost = summed_over(graph, op.Where(counts, gap, zero), [1, 2], False)
    loss = loss_reduced(graph, op.Div(lost, const(graph, count, dtype)), reduction)
    return [loss, reshape_to(graph, cast(graph, is_target, dtype), list(shape_of(graph, target)))]


def _before_end(graph: Graph, target: str) -> str:
    """True along the last of two axes until the first negative element."""
    op, zero = OpBuilder(graph), const(graph, 0, dtypes.int64)
    ends = cast(graph, op.Less(target, zero), dtypes.int64)
    return op.Equal(op.CumSum(ends, const(graph, 1, dtypes.int64)), zero)
