"""Cross entropy of a linear layer, as torch's operators of its own library compute it: the loss,
and in the same pass the gradients that its backward scales. torch goes over chunks of the batch to
save memory; the sums are the same.

In come tensors [batch, in], [classes, in] and as target [batch] (classes) or, since torch 2.15,
[batch, classes] (their probs), out go names of results. Called by the generated converters of
torch_nn."""

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
class _Rows:
    """What the loss of each row consists of, in the dtype of the sums."""

    logs: str  # the logarithms of the probs, [batch, classes]
    losses: str  # what each row loses, with its weight, [batch]
    weights: str  # the weight of each row, 0 for ignored targets, [batch]
    wanted: str  # the target's weighted probs, [batch, classes]


def chunked(
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
    where nobody asks for them."""
    op, own = OpBuilder(graph), graph.get_type(input)
    layer = [cast(graph, each, acc_dtype) for each in (input, linear_weight)]
    bias = cast(graph, linear_bias, acc_dtype) if linear_bias is not None else None
    rows = _rows(graph, [*layer, target], bias, weight, ignore_index)
    loss = summed_over(graph, rows.losses, [0], False)
    total = None
    if reduction == "mean":
        total = _divisor(graph, rows, target)
        loss = op.Div(loss, total)  # NaN where no row counts
    grads = [zeros_of(graph, [0, 0], own), zeros_of(graph, [0, 0], own), zeros_of(graph, [0], own)]
    if compute_input_grad or compute_linear_weight_grad or compute_linear_bias_grad:
        slope = _slope(graph, rows, total)
        if compute_input_grad:
            grads[0] = matrix_product(graph, slope, layer[1])
        if compute_linear_weight_grad:
            grads[1] = matrix_product(graph, matrix_transpose(graph, slope), layer[0])
        if compute_linear_bias_grad:
            grads[2] = summed_over(graph, slope, [0], False)
    first, second, third = (cast(graph, each, own) for each in grads)
    return cast(graph, loss, own), first, second, third


def chunked_rows(
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
    layer = [cast(graph, each, acc_dtype) for each in (input, linear_weight)]
    bias = cast(graph, linear_bias, acc_dtype) if linear_bias is not None else None
    rows = _rows(graph, [*layer, target], bias, weight, ignore_index)
    return cast(graph, rows.losses, graph.get_type(input))


def _rows(
    graph: Graph, given: list[str], bias: str | None, weight: str | None, ignore_index: Dim
) -> _Rows:
    op, (x, matrix, target) = OpBuilder(graph), given
    logs = log_softmax_of(graph, projected(graph, x, matrix, bias), 1)
    if is_float(graph, target):
        return _rows_of_probs(graph, logs, target, weight)
    kind = graph.get_type(x)
    ignored = op.Equal(target, const(graph, ignore_index, dtypes.int64))
    inside = op.Where(ignored, 0, target)
    if weight is None:
        weights = filled(graph, [dim_of(graph, target, 0)], 1, kind)
    else:
        weights = cast(graph, op.Gather(weight, inside, axis=0), kind)
    weights = op.Where(ignored, 0, weights)
    picked = op.GatherElements(logs, unsqueezed(graph, inside, [1]), axis=1)
    losses = op.Mul(op.Neg(squeezed(graph, picked, [1])), weights)
    classes = iota(graph, 0, dim_of(graph, matrix, 0), 1)
    at_target = op.Equal(unsqueezed(graph, inside, [1]), classes)
    wanted = op.Mul(cast(graph, at_target, kind), unsqueezed(graph, weights, [1]))
    return _Rows(logs, losses, weights, wanted)


def _rows_of_probs(graph: Graph, logs: str, target: str, weight: str | None) -> _Rows:
    """No class is ignored; the weight of a row is the sum of its weighted probs."""
    op, kind = OpBuilder(graph), graph.get_type(logs)
    wanted = cast(graph, target, kind)
    if weight is not None:
        wanted = op.Mul(wanted, cast(graph, weight, kind))
    losses = op.Neg(summed_over(graph, op.Mul(wanted, logs), [1], False))
    return _Rows(logs, losses, summed_over(graph, wanted, [1], False), wanted)


def _divisor(graph: Graph, rows: _Rows, target: str) -> str:
    """What a mean divides by: the weights of all rows, or the number of rows of probs."""
    if is_float(graph, target):
        return const(graph, dim_of(graph, target, 0), graph.get_type(rows.logs))
    return summed_over(graph, rows.weights, [0], False)


def _slope(graph: Graph, rows: _Rows, total: str | None) -> str:
    """The gradient of the scores: weighted probs, less those of the target, times the share."""
    op = OpBuilder(graph)
    weighted = op.Mul(op.Exp(rows.logs), unsqueezed(graph, rows.weights, [1]))
    away = op.Sub(weighted, rows.wanted)
    if not graph.has_shape(away):  # the rows of input and target have two names
        graph.set_shape(away, shape_of(graph, rows.logs))
    if total is None:
        return away
    nothing = op.Equal(total, 0)
    total = op.Where(nothing, float("nan"), total)
    return op.Div(away, total)
