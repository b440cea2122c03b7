"""Lower batch, layer, group and RMS norms, and the gradients of batch and layer norm.

Batch norm uses running statistics or those of the batch. Weights and statistics may be None.
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
    """Lower aten::_native_batch_norm_legit_functional in training.

    Returns output, mean, 1/std, new running mean and new running variance (None if unused). torch
    normalizes with the biased variance and stores the unbiased one in the running statistics.
    """
    op = OpBuilder(graph)
    output, mean, inv_std, square_sum = batch_statistics(graph, input, weight, bias, eps)
    compute_dtype = graph.get_type(mean)
    count = count_over(graph, input, other_axes(rank_of(graph, input), [1]))
    new_mean = new_var = None
    if res[3].name != "":
        new_mean = cast(graph, _update_running(graph, running_mean, mean, momentum), res[3].dtype)
    if res[4].name != "":
        degrees_of_freedom = op.Sub(const(graph, count, compute_dtype), 1)
        unbiased = op.Div(square_sum, degrees_of_freedom)
        new_var = cast(graph, _update_running(graph, running_var, unbiased, momentum), res[4].dtype)
    return (
        output,
        cast(graph, mean, res[1].dtype),
        cast(graph, inv_std, res[2].dtype),
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
    """Lower aten::_batch_norm_with_update_functional."""
    # without output 3, the reserve, which torch fills on CUDA only
    result_indices = [0, 1, 2, 4, 5]
    training_spec = type(res)(
        [res.outputs[index] for index in result_indices],
        [res.dtypes[index] for index in result_indices],
        [res.shapes[index] for index in result_indices],
    )
    result = batch_norm_training(
        graph, training_spec, input, weight, bias, running_mean, running_var, momentum, eps
    )
    return (*result[:3], consts(graph, [], dtypes.uint8), *result[3:])


def batch_norm_single(
    graph: Graph, res: ResultSpec, input: str, weight: str | None, bias: str | None, eps: float
) -> str:
    """Lower aten::batch_norm without running statistics, by the statistics of the batch."""
    return batch_statistics(graph, input, weight, bias, eps)[0]


def batch_norm_of_batch(
    graph: Graph, res: ResultSpec, input: str, weight: str | None, bias: str | None, eps: float
) -> tuple[str, str, str]:
    """Lower aten::_native_batch_norm_legit.no_stats: return output, mean and 1/std of the batch."""
    output, mean, inv_std, _ = batch_statistics(graph, input, weight, bias, eps)
    return output, cast(graph, mean, res[1].dtype), cast(graph, inv_std, res[2].dtype)


def batch_statistics(
    graph: Graph, input: str, weight: str | None, bias: str | None, eps: float
) -> tuple[str, str, str, str]:
    """Normalize a batch by its own statistics.

    Returns:
        The output in the dtype of ``input``, the mean [C], 1/sqrt(biased variance + eps) [C], and
        the sum of squared deviations [C].
    """
    op = OpBuilder(graph)
    rank = rank_of(graph, input)
    axes = other_axes(rank, [1])
    compute_dtype = opmath_dtype(dtype_of(graph, input))
    x = cast(graph, input, compute_dtype)
    mean, square_sum = (squeezed(graph, moment, axes) for moment in moments_over(graph, x, axes))
    count = const(graph, count_over(graph, input, axes), compute_dtype)
    variance = op.Div(square_sum, count)
    shape = [dim_of(graph, input, 1)]
    tensors = [
        or_filled(graph, weight, shape, 1, compute_dtype),
        or_filled(graph, bias, shape, 0, compute_dtype),
        mean,
    ]
    shifted_variance, epsilon = with_epsilon(graph, variance, eps)
    output = op.BatchNormalization(x, *tensors, shifted_variance, epsilon=epsilon)
    std = op.Sqrt(op.Add(variance, const(graph, eps, compute_dtype)))
    return (
        cast(graph, output, graph.get_type(input)),
        mean,
        op.Reciprocal(std),
        square_sum,
    )


def _update_running(graph: Graph, running: str, current: str, momentum: float) -> str:
    """Return ``(1 - momentum) * running + momentum * current``, in float32 for 16-bit floats."""
    dtype = opmath_dtype(graph.get_type(running))
    increment = scaled(graph, cast(graph, current, dtype), momentum)
    decayed = scaled(graph, cast(graph, running, dtype), 1 - momentum)
    return OpBuilder(graph).Add(decayed, increment)


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
    """Lower aten::native_batch_norm_backward: return the gradients of input, weight and bias.

    A gradient is None where ``output_mask`` is False. In training, the statistics depend on the
    input, so the mean and the component along the normalized input are removed from the gradient.
    """
    op = OpBuilder(graph)
    rank = rank_of(graph, input)
    axes = other_axes(rank, [1])
    compute_dtype = opmath_dtype(dtype_of(graph, input))
    grad, x = cast(graph, grad_out, compute_dtype), cast(graph, input, compute_dtype)
    mean, inv_std = _forward_statistics(
        graph, (running_mean, running_var), (save_mean, save_invstd), train, eps, compute_dtype
    )
    centered = op.Sub(x, along_axis(graph, mean, 1, rank))
    normalized = op.Mul(centered, along_axis(graph, inv_std, 1, rank))
    grad_sum = summed_over(graph, grad, axes, False)
    weight_grad = summed_over(graph, op.Mul(grad, normalized), axes, False)
    grad_input = None
    if output_mask[0]:
        if train:
            count = const(graph, count_over(graph, input, axes), compute_dtype)
            grad_mean = along_axis(graph, op.Div(grad_sum, count), 1, rank)
            projection = along_axis(graph, op.Div(weight_grad, count), 1, rank)
            centered_grad = op.Sub(grad, grad_mean)
            grad = op.Sub(centered_grad, op.Mul(normalized, projection))
        factor = inv_std
        if weight is not None:
            factor = op.Mul(inv_std, cast(graph, weight, compute_dtype))
        grad_input = cast(graph, op.Mul(grad, along_axis(graph, factor, 1, rank)), res[0].dtype)
    return (
        grad_input,
        cast(graph, weight_grad, res[1].dtype) if output_mask[1] else None,
        cast(graph, grad_sum, res[2].dtype) if output_mask[2] else None,
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
    """Lower native_layer_norm_backward: gradients of input, weight and bias, None if masked out."""
    op, rank = OpBuilder(graph), rank_of(graph, input)
    compute_dtype = opmath_dtype(dtype_of(graph, input))
    leading_rank = rank - len(normalized_shape)
    axes = list(range(leading_rank, rank))
    grad, x, row_mean, inv_std = (
        cast(graph, tensor, compute_dtype) for tensor in (grad_out, input, mean, rstd)
    )
    normalized = op.Mul(op.Sub(x, row_mean), inv_std)
    product = op.Mul(grad, normalized)
    grads: list[str | None] = [None, None, None]
    if output_mask[0]:
        scale = None if weight is None else cast(graph, weight, compute_dtype)
        scaled_grad, scaled_product = (
            tensor if scale is None else op.Mul(tensor, scale) for tensor in (grad, product)
        )
        grad_mean, projection = (
            mean_over(graph, tensor, axes, True) for tensor in (scaled_grad, scaled_product)
        )
        centered_grad = op.Sub(op.Sub(scaled_grad, grad_mean), op.Mul(normalized, projection))
        grads[0] = op.Mul(centered_grad, inv_std)
    for index, tensor in ((1, product), (2, grad)):
        if output_mask[index]:
            grads[index] = (
                summed_over(graph, tensor, list(range(leading_rank)), False)
                if leading_rank
                else tensor
            )
    result_dtypes = (res[0].dtype, res[1].dtype, res[2].dtype)
    return tuple(  # type: ignore[return-value]
        None if x is None else cast(graph, x, dtype)
        for x, dtype in zip(grads, result_dtypes, strict=True)
    )


def _forward_statistics(
    graph: Graph,
    running: tuple[str | None, str | None],
    saved: tuple[str | None, str | None],
    train: bool,
    eps: float,
    dtype: int,
) -> tuple[str, str]:
    """Return the mean and 1/std [C] with which the forward normalized, in ``dtype``."""
    op = OpBuilder(graph)
    mean, invstd_or_var = saved if train else running
    assert mean is not None and invstd_or_var is not None, "the forward had these statistics"
    if train:
        return cast(graph, mean, dtype), cast(graph, invstd_or_var, dtype)
    shifted = op.Add(cast(graph, invstd_or_var, dtype), const(graph, eps, dtype))
    return cast(graph, mean, dtype), op.Reciprocal(op.Sqrt(shifted))


# ONNX Runtime's kernels sum sequentially. Up to these numbers of elements, they are as exact as
# torch.
_MAX_INSTANCE = 2048


_MAX_LAYER = 16384


def or_filled(
    graph: Graph, x: Result | None, shape: SymInts, value: Scalar, dtype: Dtype
) -> Result:
    """Return ``x`` in ``dtype``, or ``value`` broadcast to ``shape`` if ``x`` is None."""
    if x is not None:
        return cast(graph, x, dtype)
    if len(shape) == 1 and isinstance(shape[0], int):
        return consts(graph, [value] * shape[0], dtype)
    return filled(graph, shape, value, dtype)


def count_over(graph: Graph, x: Result, axes: Ints) -> SymInt:
    """Return the number of elements that a reduction over ``axes`` combines into each result."""
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
    """Normalize [N, C, ...] with known statistics [C]; parameters may have another float dtype."""
    dtype = opmath_dtype(graph.get_type(x))
    shape = [dim_of(graph, x, 1)]
    parameters = [
        or_filled(graph, gain, shape, 1, dtype),
        or_filled(graph, shift, shape, 0, dtype),
        cast(graph, mean, dtype),
    ]
    shifted_variance, epsilon = with_epsilon(graph, cast(graph, variance, dtype), eps)
    tensors = [cast(graph, x, dtype), *parameters, shifted_variance]
    result = graph.make_node("BatchNormalization", tensors, epsilon=epsilon)
    return cast(graph, result, graph.get_type(x))


def group_normalized(
    graph: Graph, x: Result, groups: SymInt, gain: Result | None, shift: Result | None, eps: Float
) -> Results:
    """Normalize groups of channels of [N, C, ...].

    For ONNX Runtime one BatchNormalization of N * C channels scales and shifts in a single pass.

    Returns:
        The normalized input, and the mean and 1/std of each group as [N, groups, 1].
    """
    dtype, op = opmath_dtype(graph.get_type(x)), OpBuilder(graph)
    shape = list(shape_of(graph, x))
    groups = 1 if groups == 0 else groups  # without channels, any group count is valid
    channels = dims.product_of(shape[:2])
    flat = reshape_to(
        graph, cast(graph, x, dtype), [shape[0], groups, dims.product_of(shape[1:]) // groups]
    )
    shifted, mean_offset, mean, square_sum = shifted_moments(graph, flat, [2])
    variance = op.Div(square_sum, const(graph, dim_of(graph, flat, 2), dtype))
    inv_std = op.Reciprocal(op.Sqrt(op.Add(variance, const(graph, eps, dtype))))

    def expand_rows(value: str, sizes: SymInts) -> str:
        return reshape_to(graph, expanded(graph, value, sizes), [channels])

    sizes = [shape[0], groups, shape[1] // groups]
    gains, shifts = (
        expand_rows(or_filled(graph, parameter, [shape[1]], value, dtype), shape[:2])
        for parameter, value in ((gain, 1), (shift, 0))
    )
    offsets = expand_rows(mean_offset, sizes)
    rows = reshape_to(graph, shifted, [1, channels, dims.product_of(shape[2:])])
    if graph.target == "onnxruntime":
        shifted_variance, epsilon = with_epsilon(graph, variance, eps)
        tensors = [rows, gains, shifts, offsets, expand_rows(shifted_variance, sizes)]
        result = graph.make_node("BatchNormalization", tensors, epsilon=epsilon)
    else:  # some runtimes have BatchNormalization for constant statistics only
        factors = op.Mul(gains, expand_rows(inv_std, sizes))
        shifts = op.Sub(shifts, op.Mul(offsets, factors))
        factors, shifts = (reshape_to(graph, x, [1, channels, 1]) for x in (factors, shifts))
        result = op.Add(op.Mul(rows, factors), shifts)
    return [cast(graph, reshape_to(graph, result, shape), graph.get_type(x)), mean, inv_std]


def rows_normalized(
    graph: Graph,
    x: Result,
    normalized: SymInts,
    gain: Result | None,
    shift: Result | None,
    eps: Float,
) -> Results:
    """Normalize over the last dimensions ``normalized``; return [result, mean, 1/std]."""
    dtype, builder = graph.get_type(x), OpBuilder(graph)
    rank = rank_of(graph, x)
    axes = list(range(rank - len(normalized), rank))
    centered, mean, square_sum = centred_over(graph, x, axes)
    variance = builder.Div(square_sum, const(graph, dims.product_of(normalized), dtype))
    std = builder.Sqrt(builder.Add(variance, const(graph, eps, dtype)))
    inv_std = builder.Reciprocal(std)
    result = builder.Mul(centered, inv_std)
    for op_type, parameter in (("Mul", gain), ("Add", shift)):
        if parameter is not None:
            result = builder(op_type, [result, cast(graph, parameter, dtype)])
    return [result, mean, inv_std]


def is_short_layer(normalized: SymInts) -> Bool:
    """Whether a norm over ``normalized`` is as exact in ONNX Runtime as in torch.

    Dynamic sizes are assumed to be short.
    """
    return not dims.product_of(normalized) > _MAX_LAYER


def is_short_group(graph: Graph, x: Result, groups: SymInt) -> Bool:
    """Whether InstanceNormalization of groups of channels is as exact as torch's.

    Dynamic sizes are assumed to be short. The result is False for empty inputs, for which
    InstanceNormalization crashes the process.
    """
    shape = shape_of(graph, x)
    return 0 not in shape and not dims.product_of(shape[1:]) // groups > _MAX_INSTANCE


def group_instances(graph: Graph, x: Result, groups: Int, eps: Float) -> Result:
    """Normalize groups of float32 [N, C, ...] by one InstanceNormalization, without parameters."""
    op = OpBuilder(graph)
    shape = list(shape_of(graph, x))
    size = dims.product_of(shape[1:]) // groups
    is_known = isinstance(size, int)
    # Reshape copies the batch size for 0 and infers the last size for -1
    new_shape = None if is_known else consts(graph, [0, groups, -1], dtypes.int64)
    flat = reshape_to(graph, x, [shape[0], groups, size]) if is_known else op.Reshape(x, new_shape)
    graph.set_shape(flat, (shape[0], groups, size))
    ones, zeros = (consts(graph, [value] * groups, dtypes.float32) for value in (1.0, 0.0))
    result = op.InstanceNormalization(flat, ones, zeros, epsilon=eps)
    if is_known:
        return reshape_to(graph, result, shape)
    result = op.Reshape(result, op.Shape(x))
    graph.set_shape(result, tuple(shape))
    return result


def rms_normalized(
    graph: Graph, x: Result, normalized: SymInts, gain: Result | None, eps: Float
) -> Result:
    """Divide ``x`` by sqrt(mean square + eps) over the last dimensions; in one node if exact."""
    op = OpBuilder(graph)
    dtype = graph.get_type(x)
    first_axis = rank_of(graph, x) - len(normalized)
    is_exact = is_short_layer(normalized) and fits_attribute(graph, eps, x)
    if graph.opset >= 23 and is_exact:
        factor = or_filled(graph, gain, normalized, 1, dtype)
        return op.RMSNormalization(x, factor, axis=first_axis, epsilon=eps)
    axes = list(range(first_axis, rank_of(graph, x)))
    mean_square = mean_over(graph, op.Mul(x, x), axes, True)
    shifted = op.Add(mean_square, const(graph, eps, dtype))
    result = op.Div(x, op.Sqrt(shifted))
    return result if gain is None else op.Mul(result, cast(graph, gain, dtype))


def with_epsilon(graph: Graph, variance: Result, eps: Scalar) -> tuple[Result, float]:
    """Return (variance, epsilon) for a BatchNormalization.

    An epsilon that the attribute cannot represent is added to the variance instead.
    """
    if fits_attribute(graph, eps, variance):
        return variance, eps
    dtype = graph.get_type(variance)
    return OpBuilder(graph).Add(variance, const(graph, eps, dtype)), 0.0
