"""Lower losses over classes.

The lowerings handle class indices and probabilities as targets, class weights, ignored targets,
label smoothing and margins.
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


def without_ignored(graph: Graph, target: Result, ignore_index: SymInt, classes: SymInt) -> Result:
    """Replace the targets that equal ``ignore_index`` by the last class: -1 without classes."""
    op = OpBuilder(graph)
    dtype = graph.get_type(target)
    is_ignored = op.Equal(target, const(graph, ignore_index, dtype))
    return op.Where(is_ignored, const(graph, classes - 1, dtype), target)


def nll_loss(
    graph: Graph,
    res: ResultSpec,
    self: str,
    target: str,
    weight: str | None,
    reduction: int,
    ignore_index: Dim,
) -> tuple[str, str]:
    """Lower aten::nll_loss_forward and nll_loss2d_forward: (loss, total weight).

    The total is the sum of the weights of the counted targets; without a reduction, it is 0 for a
    batch, and the weight of the target of a single row.
    """
    if rank_of(graph, self) == 1:
        target = _first_element(graph, target)
    is_counted, safe_target = _split_ignored(graph, target, ignore_index)
    loss, total = _target_class_loss(graph, self, is_counted, safe_target, weight, reduction)
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
    """Lower aten::nll_loss_nd: return the loss without the total weight."""
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
    """Lower aten::nll_loss_backward: -grad * weight at the target's class, 0 at other classes."""
    op = OpBuilder(graph)
    axis = _class_axis(graph, self)
    rank = rank_of(graph, self)
    if rank == 1:
        target, grad_output = _first_element(graph, target), _first_element(graph, grad_output)
    # int32 halves the comparison cost; class -1, which matches none, replaces ignored targets
    classes = cast(graph, iota(graph, 0, shape_of(graph, self)[axis], 1), dtypes.int32)
    classes = unsqueezed(graph, classes, list(range(1, rank - axis)))
    target_classes = cast(graph, target, dtypes.int64)
    is_ignored = op.Equal(target_classes, const(graph, ignore_index, dtypes.int64))
    safe_classes = op.Where(is_ignored, -1, target_classes)
    target_column = unsqueezed(graph, cast(graph, safe_classes, dtypes.int32), [axis])
    is_target = op.Equal(target_column, classes)
    grad = unsqueezed(graph, grad_output, [axis]) if reduction == NONE else grad_output
    if reduction == MEAN:
        grad = op.Div(grad, total_weight)
    if weight is not None:
        grad = op.Mul(grad, _along_classes(graph, weight, rank, axis))
    return op.Where(is_target, op.Neg(grad), 0)


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
    """Lower aten::cross_entropy_loss for class indices and for probabilities (a float target)."""
    op = OpBuilder(graph)
    axis = _class_axis(graph, self)
    logs = log_softmax_of(graph, self, axis)
    if is_float(graph, target):
        return _soft_cross_entropy(graph, logs, target, weight, reduction, label_smoothing)
    is_counted, safe_target = _split_ignored(graph, target, ignore_index)
    hard_loss, total = _target_class_loss(graph, logs, is_counted, safe_target, weight, reduction)
    if label_smoothing == 0:
        return hard_loss
    class_sum = _smooth_loss(graph, logs, is_counted, weight, axis)
    if reduction != NONE:
        class_sum = loss_reduced(graph, class_sum, SUM)
    if reduction == MEAN:
        class_sum = op.Div(class_sum, total)
    smooth_loss = _divide_by_classes(
        graph, scaled(graph, class_sum, label_smoothing), shape_of(graph, self)[axis]
    )
    return op.Add(scaled(graph, hard_loss, 1 - label_smoothing), smooth_loss)


def _divide_by_classes(graph: Graph, x: str, classes: Dim) -> str:
    return OpBuilder(graph).Div(x, const(graph, classes, graph.get_type(x)))


def _class_axis(graph: Graph, x: str) -> int:
    return 0 if rank_of(graph, x) == 1 else 1


def _split_ignored(graph: Graph, target: str, ignore_index: Dim) -> tuple[str, str]:
    """Return a mask of the counted targets, and the targets with ignored ones replaced by 0."""
    op = OpBuilder(graph)
    classes = cast(graph, target, dtypes.int64)
    is_ignored = op.Equal(classes, const(graph, ignore_index, dtypes.int64))
    safe = op.Where(is_ignored, 0, classes)
    return op.Not(is_ignored), safe


def _first_element(graph: Graph, x: str) -> str:
    """Return the first element of a tensor, 0-d: torch reads no other one for a single row."""
    if rank_of(graph, x) == 0:
        return x
    return OpBuilder(graph).Gather(reshape_to(graph, x, [-1]), const(graph, 0, dtypes.int64))


def _target_class_loss(
    graph: Graph, logs: str, is_counted: str, target: str, weight: str | None, reduction: int
) -> tuple[str, str]:
    """Return (reduced loss, total weight) of the log probabilities of the target classes."""
    op = OpBuilder(graph)
    axis = _class_axis(graph, logs)
    dtype = graph.get_type(logs)
    zero = const(graph, 0, dtype)
    if dim_of(graph, logs, axis) == 0:
        # without classes, every target is ignored and Gather has no element to read
        terms, weight = zeros_of(graph, shape_of(graph, target), dtype), None
    else:
        class_column = unsqueezed(graph, target, [axis])
        terms = op.GatherElements(logs, class_column, axis=axis)
        terms = squeezed(graph, terms, [axis])
    weights = op.Gather(weight, target, axis=0) if weight is not None else const(graph, 1, dtype)
    if weight is not None:
        terms = op.Mul(terms, weights)
    terms = op.Where(is_counted, op.Neg(terms), zero)
    if reduction == NONE and axis > 0:
        return terms, zero
    total = loss_reduced(graph, op.Where(is_counted, weights, zero), SUM)
    loss = loss_reduced(graph, terms, SUM)
    return (op.Div(loss, total) if reduction == MEAN else loss), total


def _smooth_loss(graph: Graph, logs: str, is_counted: str, weight: str | None, axis: int) -> str:
    """Return minus the sum over classes of weighted log probabilities, 0 for ignored targets."""
    op = OpBuilder(graph)
    terms = _apply_class_weight(graph, logs, weight, axis)
    total = summed_over(graph, terms, [axis], False)
    zero = const(graph, 0, graph.get_type(logs))
    return op.Where(is_counted, op.Neg(total), zero)


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
        return const(graph, math.nan, graph.get_type(logs))  # torch divides by the 0 classes
    probs = cast(graph, target, graph.get_type(logs))
    if smoothing > 0:
        smoothing_total = const(graph, smoothing, graph.get_type(logs))
        share = _divide_by_classes(graph, smoothing_total, shape_of(graph, logs)[axis])
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
    """Reshape [C] to [C, 1, ...], to broadcast along the class axis of a tensor of ``rank``."""
    return unsqueezed(graph, weight, list(range(1, rank - axis)))


def at_class(graph: Graph, target: Result, classes: SymInt) -> Result:
    """Return a bool result with one more axis, true at the class of ``target``."""
    class_indices = iota(graph, 0, classes, 1)
    target_column = unsqueezed(graph, cast(graph, target, dtypes.int64), [rank_of(graph, target)])
    return OpBuilder(graph).Equal(target_column, class_indices)


def multilabel_margin(graph: Graph, x: Result, target: Result, reduction: Int) -> Results:
    """Return [loss, target mask]; the mask is 1 where a class is a target.

    The targets of a row end at the first negative one. For each target, every class that is no
    target adds 1 - (x[target] - x[class]) to the loss, if that is positive. The loss of a row is
    divided by the number of classes.
    """
    op, dtype, rank = OpBuilder(graph), graph.get_type(x), rank_of(graph, x)
    rows = dim_of(graph, x, 0) if rank > 1 else 1
    count = dim_of(graph, x, -1) if rank else 1
    values, targets = (reshape_to(graph, tensor, [rows, count]) for tensor in (x, target))
    before_end = _before_end(graph, targets)
    is_listed = unsqueezed(graph, before_end, [2])
    is_target_class = op.And(at_class(graph, targets, count), is_listed)
    is_target = any_true(graph, is_target_class, [1], False)
    safe_indices = op.Where(before_end, targets, 0)
    target_values = unsqueezed(graph, op.GatherElements(values, safe_indices, axis=1), [2])
    one, zero = const(graph, 1, dtype), const(graph, 0, dtype)
    margin = op.Add(op.Sub(one, target_values), unsqueezed(graph, values, [1]))
    is_counted = op.And(is_listed, unsqueezed(graph, op.Not(is_target), [1]))
    is_counted = op.And(is_counted, op.Greater(margin, zero))
    row_losses = summed_over(graph, op.Where(is_counted, margin, zero), [1, 2], False)
    loss = loss_reduced(graph, op.Div(row_losses, const(graph, count, dtype)), reduction)
    return [loss, reshape_to(graph, cast(graph, is_target, dtype), list(shape_of(graph, target)))]


def _before_end(graph: Graph, target: str) -> str:
    """Return a mask that is true along the last axis until the first negative element."""
    op, zero = OpBuilder(graph), const(graph, 0, dtypes.int64)
    is_end = cast(graph, op.Less(target, zero), dtypes.int64)
    return op.Equal(op.CumSum(is_end, const(graph, 1, dtypes.int64)), zero)
