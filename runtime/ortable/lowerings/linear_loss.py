"""Cross entropy of a linear layer: the operators of torch's ``torch_nn`` library, which compute the
loss and, in the same pass, the gradients that its backward scales.

torch processes chunks of the batch to save memory; the sums are the same. Tensors are [batch, in],
[classes, in] and as target [batch] (classes) or, since torch 2.15, [batch, classes] (probs).
"""

from __future__ import annotations

from dataclasses import dataclass

from ortable import dtypes
from ortable.dims import Dim
from ortable.ir import Graph, ResultSpec
from ortable.prelude.facts import Dtype, dim_of, is_float, shape_of
from ortable.prelude.matrices import matrix_product, matrix_transpose, projected
from ortable.prelude.op_builder import OpBuilder
from ortable.prelude.shapes import iota, zeros_of
from ortable.prelude.sums import summed_over
from ortable.prelude.values import cast, const, filled, squeezed, unsqueezed

from .softmax import log_softmax_of


@dataclass(frozen=True)
class _RowLosses:
    """The terms of the loss of each row, in the dtype of the sums."""

    logs: str  # the logarithms of the probs, [batch, classes]
    losses: str  # what each row loses, with its weight, [batch]
    weights: str  # the weight of each row, 0 for ignored targets, [batch]
    target_probs: str  # the target's weighted probs, [batch, classes]


def lower_linear_cross_entropy(
    graph: Graph,
    res: ResultSpec,
    input: str,
    linear_weight: str,
    target: str,
    linear_bias: str | None,
    weight: str | None,
    reduction: str,
    ignore_index: Dim,
    acc_dtype: Dtype,
    compute_input_grad: bool,
    compute_linear_weight_grad: bool,
    compute_linear_bias_grad: bool,
) -> tuple[str, str, str, str]:
    """torch_nn::_linear_cross_entropy_batch_chunked: the loss and three gradients, which are empty
    unless requested.
    """
    op, own = OpBuilder(graph), graph.get_type(input)
    layer = [cast(graph, tensor, acc_dtype) for tensor in (input, linear_weight)]
    bias = cast(graph, linear_bias, acc_dtype) if linear_bias is not None else None
    rows = _row_losses(graph, [*layer, target], bias, weight, ignore_index)
    loss = summed_over(graph, rows.losses, [0], False)
    total = None
    if reduction == "mean":
        total = _mean_divisor(graph, rows, target)
        loss = op.Div(loss, total)  # NaN where no row counts
    grads = [zeros_of(graph, [0, 0], own), zeros_of(graph, [0, 0], own), zeros_of(graph, [0], own)]
    if compute_input_grad or compute_linear_weight_grad or compute_linear_bias_grad:
        slope = _logits_gradient(graph, rows, total)
        if compute_input_grad:
            grads[0] = matrix_product(graph, slope, layer[1])
        if compute_linear_weight_grad:
            grads[1] = matrix_product(graph, matrix_transpose(graph, slope), layer[0])
        if compute_linear_bias_grad:
            grads[2] = summed_over(graph, slope, [0], False)
    first, second, third = (cast(graph, tensor, own) for tensor in grads)
    return cast(graph, loss, own), first, second, third


def lower_linear_cross_entropy_rows(
    graph: Graph,
    res: ResultSpec,
    input: str,
    linear_weight: str,
    target: str,
    linear_bias: str | None,
    weight: str | None,
    ignore_index: Dim,
    acc_dtype: Dtype,
) -> str:
    """torch_nn::_linear_cross_entropy_batch_chunked_no_reduction: the loss of each row."""
    layer = [cast(graph, tensor, acc_dtype) for tensor in (input, linear_weight)]
    bias = cast(graph, linear_bias, acc_dtype) if linear_bias is not None else None
    rows = _row_losses(graph, [*layer, target], bias, weight, ignore_index)
    return cast(graph, rows.losses, graph.get_type(input))


def _row_losses(
    graph: Graph, operands: list[str], bias: str | None, weight: str | None, ignore_index: Dim
) -> _RowLosses:
    op, (x, matrix, target) = OpBuilder(graph), operands
    logs = log_softmax_of(graph, projected(graph, x, matrix, bias), 1)
    if is_float(graph, target):
        return _row_losses_of_probs(graph, logs, target, weight)
    dtype = graph.get_type(x)
    ignored = op.Equal(target, const(graph, ignore_index, dtypes.int64))
    inside = op.Where(ignored, 0, target)
    if weight is None:
        weights = filled(graph, [dim_of(graph, target, 0)], 1, dtype)
    else:
        weights = cast(graph, op.Gather(weight, inside, axis=0), dtype)
    weights = op.Where(ignored, 0, weights)
    picked = op.GatherElements(logs, unsqueezed(graph, inside, [1]), axis=1)
    losses = op.Mul(op.Neg(squeezed(graph, picked, [1])), weights)
    classes = iota(graph, 0, dim_of(graph, matrix, 0), 1)
    at_target = op.Equal(unsqueezed(graph, inside, [1]), classes)
    target_probs = op.Mul(cast(graph, at_target, dtype), unsqueezed(graph, weights, [1]))
    return _RowLosses(logs, losses, weights, target_probs)


def _row_losses_of_probs(graph: Graph, logs: str, target: str, weight: str | None) -> _RowLosses:
    """`_row_losses` for targets that are probs: no class is ignored; the weight of a row is the sum
    of its weighted probs.
    """
    op, dtype = OpBuilder(graph), graph.get_type(logs)
    target_probs = cast(graph, target, dtype)
    if weight is not None:
        target_probs = op.Mul(target_probs, cast(graph, weight, dtype))
    losses = op.Neg(summed_over(graph, op.Mul(target_probs, logs), [1], False))
    return _RowLosses(logs, losses, summed_over(graph, target_probs, [1], False), target_probs)


def _mean_divisor(graph: Graph, rows: _RowLosses, target: str) -> str:
    """The divisor of a mean: the weights of all rows, or the number of rows of probs."""
    if is_float(graph, target):
        return const(graph, dim_of(graph, target, 0), graph.get_type(rows.logs))
    return summed_over(graph, rows.weights, [0], False)


def _logits_gradient(graph: Graph, rows: _RowLosses, total: str | None) -> str:
    """The gradient of the scores: weighted probs, less those of the target, times the share."""
    op = OpBuilder(graph)
    weighted = op.Mul(op.Exp(rows.logs), unsqueezed(graph, rows.weights, [1]))
    away = op.Sub(weighted, rows.target_probs)
    if not graph.has_shape(away):  # the rows of input and target have two names
        graph.set_shape(away, shape_of(graph, rows.logs))
    if total is None:
        return away
    nothing = op.Equal(total, 0)
    total = op.Where(nothing, float("nan"), total)
    return op.Div(away, total)
