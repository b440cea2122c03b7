"""Lower the cross entropy of a linear layer, from torch's ``torch_nn`` library.

These operators compute the loss and, in the same pass, the gradients that the backward scales.
torch processes chunks of the batch to save memory; the lowering does not, and the sums are the
same. The input is [batch, in] and the weight [classes, in]; the target is [batch] (classes) or,
since torch 2.15, [batch, classes] (probabilities).
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
    """The losses of the rows and what their gradient needs, in the dtype of the sums."""

    logs: str  # the log probabilities, [batch, classes]
    losses: str  # the weighted loss of each row, [batch]
    weights: str  # the weight of each row, 0 for ignored targets, [batch]
    target_probs: str  # the target probabilities times class weights, [batch, classes]


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
    """Lower torch_nn::_linear_cross_entropy_batch_chunked.

    Returns:
        The loss, and the gradients of the input, weight and bias, empty if they are not requested.
    """
    op, dtype = OpBuilder(graph), graph.get_type(input)
    layer = [cast(graph, tensor, acc_dtype) for tensor in (input, linear_weight)]
    bias = cast(graph, linear_bias, acc_dtype) if linear_bias is not None else None
    rows = _row_losses(graph, [*layer, target], bias, weight, ignore_index)
    loss = summed_over(graph, rows.losses, [0], False)
    mean_divisor = None
    if reduction == "mean":
        mean_divisor = _mean_divisor(graph, rows, target)
        loss = op.Div(loss, mean_divisor)  # NaN if all targets are ignored, as in torch
    grads = [
        zeros_of(graph, [0, 0], dtype),
        zeros_of(graph, [0, 0], dtype),
        zeros_of(graph, [0], dtype),
    ]
    if compute_input_grad or compute_linear_weight_grad or compute_linear_bias_grad:
        logits_grad = _logits_gradient(graph, rows, mean_divisor)
        if compute_input_grad:
            grads[0] = matrix_product(graph, logits_grad, layer[1])
        if compute_linear_weight_grad:
            grads[1] = matrix_product(graph, matrix_transpose(graph, logits_grad), layer[0])
        if compute_linear_bias_grad:
            grads[2] = summed_over(graph, logits_grad, [0], False)
    input_grad, weight_grad, bias_grad = (cast(graph, tensor, dtype) for tensor in grads)
    return cast(graph, loss, dtype), input_grad, weight_grad, bias_grad


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
    """Lower torch_nn::_linear_cross_entropy_batch_chunked_no_reduction: the loss of each row."""
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
    safe_target = op.Where(ignored, 0, target)
    if weight is None:
        weights = filled(graph, [dim_of(graph, target, 0)], 1, dtype)
    else:
        weights = cast(graph, op.Gather(weight, safe_target, axis=0), dtype)
    weights = op.Where(ignored, 0, weights)
    target_logs = op.GatherElements(logs, unsqueezed(graph, safe_target, [1]), axis=1)
    losses = op.Mul(op.Neg(squeezed(graph, target_logs, [1])), weights)
    classes = iota(graph, 0, dim_of(graph, matrix, 0), 1)
    at_target = op.Equal(unsqueezed(graph, safe_target, [1]), classes)
    target_probs = op.Mul(cast(graph, at_target, dtype), unsqueezed(graph, weights, [1]))
    return _RowLosses(logs, losses, weights, target_probs)


def _row_losses_of_probs(graph: Graph, logs: str, target: str, weight: str | None) -> _RowLosses:
    """Return the row losses for a target of probabilities, which ignores no class.

    The weight of a row is the sum of its weighted target probabilities.
    """
    op, dtype = OpBuilder(graph), graph.get_type(logs)
    target_probs = cast(graph, target, dtype)
    if weight is not None:
        target_probs = op.Mul(target_probs, cast(graph, weight, dtype))
    losses = op.Neg(summed_over(graph, op.Mul(target_probs, logs), [1], False))
    return _RowLosses(logs, losses, summed_over(graph, target_probs, [1], False), target_probs)


def _mean_divisor(graph: Graph, rows: _RowLosses, target: str) -> str:
    """Return the divisor of a mean: the sum of row weights, or the row count for probabilities."""
    if is_float(graph, target):
        return const(graph, dim_of(graph, target, 0), graph.get_type(rows.logs))
    return summed_over(graph, rows.weights, [0], False)


def _logits_gradient(graph: Graph, rows: _RowLosses, divisor: str | None) -> str:
    """Return the gradient of the logits: (probs * row weight - target_probs) / divisor."""
    op = OpBuilder(graph)
    weighted = op.Mul(op.Exp(rows.logs), unsqueezed(graph, rows.weights, [1]))
    difference = op.Sub(weighted, rows.target_probs)
    if not graph.has_shape(difference):  # input and target may name their row dimension differently
        graph.set_shape(difference, shape_of(graph, rows.logs))
    if divisor is None:
        return difference
    is_zero = op.Equal(divisor, 0)
    divisor = op.Where(is_zero, float("nan"), divisor)
    return op.Div(difference, divisor)
