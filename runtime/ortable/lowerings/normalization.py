"""Batch, layer, group and RMS norms, with fixed statistics or with those of the batch, and their
gradients. Weights and statistics may be None.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ortable import dims, dtypes
from ortable.ir import Graph, ResultSpec
from ortable.prelude.facts import (
    Bool,
    Dtype,
    Float,
    Int,
    Ints,
    Result,
    Results,
    Scalar,
    SymInt,
    SymInts,
    dim_of,
    dtype_of,
    fits_attribute,
    rank_of,
    shape_of,
)
from ortable.prelude.op_builder import OpBuilder
from ortable.prelude.pointwise import scaled
from ortable.prelude.promotion import opmath_dtype
from ortable.prelude.shapes import along_axis, expanded, other_axes
from ortable.prelude.sums import summed_over
from ortable.prelude.values import cast, const, consts, filled, reshape_to, squeezed

from .reductions import centred_over, mean_over, moments_over, shifted_moments

__all__ = [
    "batch_norm_known",
    "group_instances",
    "group_normalized",
    "is_short_group",
    "is_short_layer",
    "or_filled",
    "rms_normalized",
    "rows_normalized",
]


def batch_norm_training(
    graph: Graph,
    res: ResultSpec,
    input: str,
    weight: str | None,
    bias: str | None,
    running_mean: str,
    running_var: str,
    momentum: float,
    eps: float,
) -> tuple[str, str | None, str | None, str | None, str | None]:
    """aten::_native_batch_norm_legit_functional in training: (output, mean, 1/std, new running mean
    and variance).

    torch normalises with the biased variance and keeps the unbiased one in the running statistics.
    """
    op = OpBuilder(graph)
    output, mean, inverse, total = batch_statistics(graph, input, weight, bias, eps)
    compute_dtype = graph.get_type(mean)
    count = count_over(graph, input, other_axes(rank_of(graph, input), [1]))
    new_mean = new_var = None
    if res[3].name != "":
        new_mean = cast(graph, _update_running(graph, running_mean, mean, momentum), res[3].dtype)
    if res[4].name != "":
        less = op.Sub(const(graph, count, compute_dtype), 1)
        unbiased = op.Div(total, less)
        new_var = cast(graph, _update_running(graph, running_var, unbiased, momentum), res[4].dtype)
    return (
        output,
        cast(graph, mean, res[1].dtype),
        cast(graph, inverse, res[2].dtype),
        new_mean,
        new_var,
    )


def batch_norm_update(
    graph: Graph,
    res: ResultSpec,
    input: str,
    weight: str | None,
    bias: str | None,
    running_mean: str,
    running_var: str,
    momentum: float,
    eps: float,
) -> tuple[str | None, ...]:
    """aten::_batch_norm_with_update_functional: `batch_norm_training` with a reserve that only CUDA
    fills.
    """
    result_indices = [0, 1, 2, 4, 5]
    shared = type(res)(
        [res.outputs[index] for index in result_indices],
        [res.dtypes[index] for index in result_indices],
        [res.shapes[index] for index in result_indices],
    )
    result = batch_norm_training(
        graph, shared, input, weight, bias, running_mean, running_var, momentum, eps
    )
    return (*result[:3], consts(graph, [], dtypes.uint8), *result[3:])


def batch_norm_single(
    graph: Graph, res: ResultSpec, input: str, weight: str | None, bias: str | None, eps: float
) -> str:
    """aten::batch_norm with the statistics of the batch and no running ones."""
    return batch_statistics(graph, input, weight, bias, eps)[0]


def batch_norm_of_batch(
    graph: Graph, res: ResultSpec, input: str, weight: str | None, bias: str | None, eps: float
) -> tuple[str, str, str]:
    """aten::_native_batch_norm_legit.no_stats: (output, mean, 1/std) of the batch itself."""
    output, mean, inverse, _ = batch_statistics(graph, input, weight, bias, eps)
    return output, cast(graph, mean, res[1].dtype), cast(graph, inverse, res[2].dtype)


def batch_statistics(
    graph: Graph, input: str, weight: str | None, bias: str | None, eps: float
) -> tuple[str, str, str, str]:
    """(output in the dtype of input, mean [C], 1/sqrt(biased variance + eps) [C], sum of squared
    deviations [C])."""
    op = OpBuilder(graph)
    rank = rank_of(graph, input)
    axes = other_axes(rank, [1])
    compute_dtype = opmath_dtype(dtype_of(graph, input))
    x = cast(graph, input, compute_dtype)
    mean, total = (squeezed(graph, moment, axes) for moment in moments_over(graph, x, axes))
    count = const(graph, count_over(graph, input, axes), compute_dtype)
    variance = op.Div(total, count)
    shape = [dim_of(graph, input, 1)]
    tensors = [
        or_filled(graph, weight, shape, 1, compute_dtype),
        or_filled(graph, bias, shape, 0, compute_dtype),
        mean,
    ]
    spread, least = with_epsilon(graph, variance, eps)
    output = op.BatchNormalization(x, *tensors, spread, epsilon=least)
    spread_out = op.Sqrt(op.Add(variance, const(graph, eps, compute_dtype)))
    return (
        cast(graph, output, graph.get_type(input)),
        mean,
        op.Reciprocal(spread_out),
        total,
    )


def _update_running(graph: Graph, running: str, now: str, momentum: float) -> str:
    """``(1 - momentum) * running + momentum * now``, in float32 for the 16 bit floats."""
    dtype = opmath_dtype(graph.get_type(running))
    fresh = scaled(graph, cast(graph, now, dtype), momentum)
    decayed = scaled(graph, cast(graph, running, dtype), 1 - momentum)
    return OpBuilder(graph).Add(decayed, fresh)


def batch_norm_backward(
    graph: Graph,
    res: ResultSpec,
    grad_out: str,
    input: str,
    weight: str | None,
    running_mean: str | None,
    running_var: str | None,
    save_mean: str | None,
    save_invstd: str | None,
    train: bool,
    eps: float,
    output_mask: Sequence[bool],
) -> tuple[str | None, str | None, str | None]:
    """aten::native_batch_norm_backward: gradients of input, weight and bias; None where the mask is
    False.

    In training the batch's own statistics depend on the input, which takes out of the gradient its
    mean and its part along the normalised input.
    """
    op = OpBuilder(graph)
    rank = rank_of(graph, input)
    axes = other_axes(rank, [1])
    compute_dtype = opmath_dtype(dtype_of(graph, input))
    grad, x = cast(graph, grad_out, compute_dtype), cast(graph, input, compute_dtype)
    mean, inverse = _used_statistics(
        graph, (running_mean, running_var), (save_mean, save_invstd), train, eps, compute_dtype
    )
    away = op.Sub(x, along_axis(graph, mean, 1, rank))
    normal = op.Mul(away, along_axis(graph, inverse, 1, rank))
    total = summed_over(graph, grad, axes, False)
    along = summed_over(graph, op.Mul(grad, normal), axes, False)
    grad_input = None
    if output_mask[0]:
        if train:
            count = const(graph, count_over(graph, input, axes), compute_dtype)
            level = along_axis(graph, op.Div(total, count), 1, rank)
            slope = along_axis(graph, op.Div(along, count), 1, rank)
            left = op.Sub(grad, level)
            grad = op.Sub(left, op.Mul(normal, slope))
        factor = inverse
        if weight is not None:
            factor = op.Mul(inverse, cast(graph, weight, compute_dtype))
        grad_input = cast(graph, op.Mul(grad, along_axis(graph, factor, 1, rank)), res[0].dtype)
    return (
        grad_input,
        cast(graph, along, res[1].dtype) if output_mask[1] else None,
        cast(graph, total, res[2].dtype) if output_mask[2] else None,
    )


def layer_norm_backward(
    graph: Graph,
    res: ResultSpec,
    grad_out: str,
    input: str,
    normalized_shape: Sequence[Any],
    mean: str,
    rstd: str,
    weight: str | None,
    output_mask: Sequence[bool],
) -> tuple[str | None, str | None, str | None]:
    """aten::native_layer_norm_backward: gradients of input, weight and bias; None where the mask is
    False.

    The sums over rows are those of grad * weight and of grad * normal * weight.
    """
    op, rank = OpBuilder(graph), rank_of(graph, input)
    compute_dtype = opmath_dtype(dtype_of(graph, input))
    rows = rank - len(normalized_shape)
    inner = list(range(rows, rank))
    grad, x, middle, inverse = (
        cast(graph, tensor, compute_dtype) for tensor in (grad_out, input, mean, rstd)
    )
    normal = op.Mul(op.Sub(x, middle), inverse)
    along = op.Mul(grad, normal)
    result: list[str | None] = [None, None, None]
    if output_mask[0]:
        gain = None if weight is None else cast(graph, weight, compute_dtype)
        scaled_grad, scaled_along = (
            tensor if gain is None else op.Mul(tensor, gain) for tensor in (grad, along)
        )
        level, slope = (
            mean_over(graph, tensor, inner, True) for tensor in (scaled_grad, scaled_along)
        )
        away = op.Sub(op.Sub(scaled_grad, level), op.Mul(normal, slope))
        result[0] = op.Mul(away, inverse)
    for index, tensor in ((1, along), (2, grad)):
        if output_mask[index]:
            result[index] = summed_over(graph, tensor, list(range(rows)), False) if rows else tensor
    kinds = (res[0].dtype, res[1].dtype, res[2].dtype)
    return tuple(  # type: ignore[return-value]
        None if x is None else cast(graph, x, dtype) for x, dtype in zip(result, kinds, strict=True)
    )


def _used_statistics(
    graph: Graph,
    running: tuple[str | None, str | None],
    saved: tuple[str | None, str | None],
    train: bool,
    eps: float,
    wide: int,
) -> tuple[str, str]:
    """The mean and 1/std with which the forward normalised."""
    op = OpBuilder(graph)
    mean, spread_out = saved if train else running
    assert mean is not None and spread_out is not None, "the forward had these statistics"
    if train:
        return cast(graph, mean, wide), cast(graph, spread_out, wide)
    shifted = op.Add(cast(graph, spread_out, wide), const(graph, eps, wide))
    return cast(graph, mean, wide), op.Reciprocal(op.Sqrt(shifted))


# Up to here the normalising kernels of ONNX Runtime, which add up one by one, are as exact as torch
_MAX_INSTANCE = 2048


_MAX_LAYER = 16384


def or_filled(
    graph: Graph, x: Result | None, shape: SymInts, value: Scalar, dtype: Dtype
) -> Result:
    """``x`` in ``dtype``, or a result of ``shape`` filled with ``value`` if ``x`` is None."""
    if x is not None:
        return cast(graph, x, dtype)
    if len(shape) == 1 and isinstance(shape[0], int):
        return consts(graph, [value] * shape[0], dtype)
    return filled(graph, shape, value, dtype)


def count_over(graph: Graph, x: Result, axes: Ints) -> SymInt:
    """The number of elements that each result of a reduction over ``axes`` sums."""
    return dims.product_of([dim_of(graph, x, axis) for axis in axes])


def batch_norm_known(
    graph: Graph,
    x: Result,
    gain: Result | None,
    shift: Result | None,
    mean: Result,
    variance: Result,
    eps: Float,
) -> Result:
    """Batch norm of [N, C, ...] with known statistics [C]; parameters may have another float dtype
    than ``x``."""
    dtype = opmath_dtype(graph.get_type(x))
    shape = [dim_of(graph, x, 1)]
    parameters = [
        or_filled(graph, gain, shape, 1, dtype),
        or_filled(graph, shift, shape, 0, dtype),
        cast(graph, mean, dtype),
    ]
    spread, least = with_epsilon(graph, cast(graph, variance, dtype), eps)
    tensors = [cast(graph, x, dtype), *parameters, spread]
    result = graph.make_node("BatchNormalization", tensors, epsilon=least)
    return cast(graph, result, graph.get_type(x))


def group_normalized(
    graph: Graph, x: Result, groups: SymInt, gain: Result | None, shift: Result | None, eps: Float
) -> Results:
    """Group norm of [N, C, ...]: the normalised input, mean and 1/std of each group as [N, groups,
    1]. One BatchNormalization of N * C channels scales and shifts, in a single pass."""
    dtype, op = opmath_dtype(graph.get_type(x)), OpBuilder(graph)
    shape = list(shape_of(graph, x))
    groups = 1 if groups == 0 else groups  # no channels: nothing is normalised
    channels = dims.product_of(shape[:2])
    flat = reshape_to(
        graph, cast(graph, x, dtype), [shape[0], groups, dims.product_of(shape[1:]) // groups]
    )
    rough, slip, mean, total = shifted_moments(graph, flat, [2])
    variance = op.Div(total, const(graph, dim_of(graph, flat, 2), dtype))
    inverse = op.Reciprocal(op.Sqrt(op.Add(variance, const(graph, eps, dtype))))

    def of_rows(value: str, sizes: SymInts) -> str:
        return reshape_to(graph, expanded(graph, value, sizes), [channels])

    spread, least = with_epsilon(graph, variance, eps)
    statistics = [of_rows(v, [shape[0], groups, shape[1] // groups]) for v in (slip, spread)]
    parameters = [
        of_rows(or_filled(graph, parameter, [shape[1]], value, dtype), shape[:2])
        for parameter, value in ((gain, 1), (shift, 0))
    ]
    rows = reshape_to(graph, rough, [1, channels, dims.product_of(shape[2:])])
    result = op.BatchNormalization(rows, *parameters, *statistics, epsilon=least)
    return [cast(graph, reshape_to(graph, result, shape), graph.get_type(x)), mean, inverse]


def rows_normalized(
    graph: Graph,
    x: Result,
    normalized: SymInts,
    gain: Result | None,
    shift: Result | None,
    eps: Float,
) -> Results:
    """Layer norm over the last dimensions, in the dtype of ``x``: the normalised input, mean and
    1/std of each row."""
    dtype, node = graph.get_type(x), OpBuilder(graph)
    rank = rank_of(graph, x)
    axes = list(range(rank - len(normalized), rank))
    away, mean, total = centred_over(graph, x, axes)
    variance = node.Div(total, const(graph, dims.product_of(normalized), dtype))
    spread_out = node.Sqrt(node.Add(variance, const(graph, eps, dtype)))
    inverse = node.Reciprocal(spread_out)
    result = node.Mul(away, inverse)
    for op, parameter in (("Mul", gain), ("Add", shift)):
        if parameter is not None:
            result = node(op, [result, cast(graph, parameter, dtype)])
    return [result, mean, inverse]


def is_short_layer(normalized: SymInts) -> Bool:
    """Whether LayerNormalization of so many elements is as exact as torch's; dynamic sizes are
    assumed to be short.
    """
    return not dims.product_of(normalized) > _MAX_LAYER


def is_short_group(graph: Graph, x: Result, groups: SymInt) -> Bool:
    """Whether InstanceNormalization of groups of channels is as exact as torch's; dynamic sizes are
    assumed to be short. False for no elements: InstanceNormalization then ends the process.
    """
    shape = shape_of(graph, x)
    return 0 not in shape and not dims.product_of(shape[1:]) // groups > _MAX_INSTANCE


def group_instances(graph: Graph, x: Result, groups: Int, eps: Float) -> Result:
    """Group norm of float32 [N, C, ...] without its parameters, as an instance norm of the groups:
    one kernel, which computes the mean and then the squares of the differences.
    """
    op = OpBuilder(graph)
    shape = list(shape_of(graph, x))
    rest = dims.product_of(shape[1:]) // groups
    fixed = isinstance(rest, int)
    # 0 takes the size of the batch from x, so only the last size is open
    open_shape = None if fixed else consts(graph, [0, groups, -1], dtypes.int64)
    flat = reshape_to(graph, x, [shape[0], groups, rest]) if fixed else op.Reshape(x, open_shape)
    graph.set_shape(flat, (shape[0], groups, rest))
    ones, zeros = (consts(graph, [value] * groups, dtypes.float32) for value in (1.0, 0.0))
    result = op.InstanceNormalization(flat, ones, zeros, epsilon=eps)
    if fixed:
        return reshape_to(graph, result, shape)
    result = op.Reshape(result, op.Shape(x))
    graph.set_shape(result, tuple(shape))
    return result


def rms_normalized(
    graph: Graph, x: Result, normalized: SymInts, gain: Result | None, eps: Float
) -> Result:
    """``x`` over the root of the mean of its squares along the last dimensions; one node from
    opset 23 on."""
    op = OpBuilder(graph)
    dtype = graph.get_type(x)
    first = rank_of(graph, x) - len(normalized)
    short = is_short_layer(normalized) and fits_attribute(graph, eps, x)
    if graph.opset >= 23 and short:
        factor = or_filled(graph, gain, normalized, 1, dtype)
        return op.RMSNormalization(x, factor, axis=first, epsilon=eps)
    axes = list(range(first, rank_of(graph, x)))
    square = mean_over(graph, op.Mul(x, x), axes, True)
    shifted = op.Add(square, const(graph, eps, dtype))
    result = op.Div(x, op.Sqrt(shifted))
    return result if gain is None else op.Mul(result, cast(graph, gain, dtype))


def with_epsilon(graph: Graph, variance: Result, eps: Scalar) -> tuple[Result, float]:
    """[variance, epsilon] for a BatchNormalization: an epsilon that its attribute cannot represent
    is added to the variance instead.
    """
    if fits_attribute(graph, eps, variance):
        return variance, eps
    dtype = graph.get_type(variance)
    return OpBuilder(graph).Add(variance, const(graph, eps, dtype)), 0.0
