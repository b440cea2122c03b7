"""Batch norm with the statistics of the batch, and its gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ortable import dtypes
from ortable.ir import Graph, Res
from ortable.prelude.factors import with_epsilon
from ortable.prelude.facts import dim_of, dtype_of, rank_of
from ortable.prelude.sums import mean_over, moments_over, summed_over
from ortable.prelude.values import cast, const, consts, per_channel, squeezed

from .nn import count_over, or_filled, scaled, wide_dtype, without


def batch_norm_training(
    graph: Graph,
    res: Res,
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
    output, mean, inverse, total = batch_statistics(graph, input, weight, bias, eps)
    wide = graph.get_type(mean)
    count = count_over(graph, input, without([1], rank_of(graph, input)))
    new_mean = new_var = None
    if res[3].name != "":
        new_mean = cast(graph, _moved(graph, running_mean, mean, momentum), res[3].dtype)
    if res[4].name != "":
        less = graph.make_node("Sub", [const(graph, count, wide), const(graph, 1, wide)])
        unbiased = graph.make_node("Div", [total, less])
        new_var = cast(graph, _moved(graph, running_var, unbiased, momentum), res[4].dtype)
    return (
        output,
        cast(graph, mean, res[1].dtype),
        cast(graph, inverse, res[2].dtype),
        new_mean,
        new_var,
    )


def batch_norm_update(
    graph: Graph,
    res: Res,
    input: str,
    weight: str | None,
    bias: str | None,
    running_mean: str,
    running_var: str,
    momentum: float,
    eps: float,
) -> tuple[str | None, ...]:
    """aten::_batch_norm_with_update_functional: the same with bytes that only CUDA fills."""
    kept = [0, 1, 2, 4, 5]
    shared = type(res)(
        [res.outputs[place] for place in kept],
        [res.dtypes[place] for place in kept],
        [res.shapes[place] for place in kept],
    )
    found = batch_norm_training(
        graph, shared, input, weight, bias, running_mean, running_var, momentum, eps
    )
    return (*found[:3], consts(graph, [], dtypes.uint8), *found[3:])


def batch_norm_single(
    graph: Graph, res: Res, input: str, weight: str | None, bias: str | None, eps: float
) -> str:
    """aten::batch_norm with the statistics of the batch and no running ones."""
    return batch_statistics(graph, input, weight, bias, eps)[0]


def batch_norm_of_batch(
    graph: Graph, res: Res, input: str, weight: str | None, bias: str | None, eps: float
) -> tuple[str, str, str]:
    """aten::_native_batch_norm_legit.no_stats: (output, mean, 1/std) of the batch itself."""
    output, mean, inverse, _ = batch_statistics(graph, input, weight, bias, eps)
    return output, cast(graph, mean, res[1].dtype), cast(graph, inverse, res[2].dtype)


def batch_statistics(
    graph: Graph, input: str, weight: str | None, bias: str | None, eps: float
) -> tuple[str, str, str, str]:
    """(output in the dtype of input, mean [C], 1/sqrt(biased variance + eps) [C], sum of squared
    deviations [C])."""
    rank = rank_of(graph, input)
    axes = without([1], rank)
    wide = wide_dtype(dtype_of(graph, input))
    x = cast(graph, input, wide)
    mean, total = (squeezed(graph, each, axes) for each in moments_over(graph, x, axes))
    count = const(graph, count_over(graph, input, axes), wide)
    variance = graph.make_node("Div", [total, count])
    shape = [dim_of(graph, input, 1)]
    tensors = [
        or_filled(graph, weight, shape, 1, wide),
        or_filled(graph, bias, shape, 0, wide),
        mean,
    ]
    spread, least = with_epsilon(graph, variance, eps)
    output = graph.make_node("BatchNormalization", [x, *tensors, spread], epsilon=least)
    spread_out = graph.make_node(
        "Sqrt", [graph.make_node("Add", [variance, const(graph, eps, wide)])]
    )
    return (
        cast(graph, output, graph.get_type(input)),
        mean,
        graph.make_node("Reciprocal", [spread_out]),
        total,
    )


def _moved(graph: Graph, running: str, now: str, momentum: float) -> str:
    """``(1 - momentum) * running + momentum * now``, in float32 for the 16 bit floats."""
    dtype = wide_dtype(graph.get_type(running))
    fresh = scaled(graph, cast(graph, now, dtype), momentum)
    kept = scaled(graph, cast(graph, running, dtype), 1 - momentum)
    return graph.make_node("Add", [kept, fresh])


def batch_norm_backward(
    graph: Graph,
    res: Res,
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
    """aten::native_batch_norm_backward: gradients of input, weight and bias; None where the mask
    asks for none.

    In training the batch's own statistics depend on the input, which takes out of the gradient its
    mean and its part along the normalised input.
    """
    rank = rank_of(graph, input)
    axes = without([1], rank)
    wide = wide_dtype(dtype_of(graph, input))
    grad, x = cast(graph, grad_out, wide), cast(graph, input, wide)
    mean, inverse = _used_statistics(
        graph, (running_mean, running_var), (save_mean, save_invstd), train, eps, wide
    )
    away = graph.make_node("Sub", [x, per_channel(graph, mean, rank)])
    normal = graph.make_node("Mul", [away, per_channel(graph, inverse, rank)])
    total = summed_over(graph, grad, axes, False)
    along = summed_over(graph, graph.make_node("Mul", [grad, normal]), axes, False)
    grad_input = None
    if output_mask[0]:
        if train:
            count = const(graph, count_over(graph, input, axes), wide)
            level = per_channel(graph, graph.make_node("Div", [total, count]), rank)
            slope = per_channel(graph, graph.make_node("Div", [along, count]), rank)
            left = graph.make_node("Sub", [grad, level])
            grad = graph.make_node("Sub", [left, graph.make_node("Mul", [normal, slope])])
        factor = inverse
        if weight is not None:
            factor = graph.make_node("Mul", [inverse, cast(graph, weight, wide)])
        grad_input = cast(
            graph, graph.make_node("Mul", [grad, per_channel(graph, factor, rank)]), res[0].dtype
        )
    return (
        grad_input,
        cast(graph, along, res[1].dtype) if output_mask[1] else None,
        cast(graph, total, res[2].dtype) if output_mask[2] else None,
    )


def layer_norm_backward(
    graph: Graph,
    res: Res,
    grad_out: str,
    input: str,
    normalized_shape: Sequence[Any],
    mean: str,
    rstd: str,
    weight: str | None,
    output_mask: Sequence[bool],
) -> tuple[str | None, str | None, str | None]:
    """aten::native_layer_norm_backward: gradients of input, weight and bias; None where the mask
    asks for none. The sums over rows are those of grad * weight and of grad * normal * weight."""
    make, rank = graph.make_node, rank_of(graph, input)
    wide = wide_dtype(dtype_of(graph, input))
    rows = rank - len(normalized_shape)
    inner = list(range(rows, rank))
    grad, x, middle, inverse = (cast(graph, each, wide) for each in (grad_out, input, mean, rstd))
    normal = make("Mul", [make("Sub", [x, middle]), inverse])
    along = make("Mul", [grad, normal])
    found: list[str | None] = [None, None, None]
    if output_mask[0]:
        gain = None if weight is None else cast(graph, weight, wide)
        scaled_grad, scaled_along = (
            each if gain is None else make("Mul", [each, gain]) for each in (grad, along)
        )
        level, slope = (mean_over(graph, each, inner, True) for each in (scaled_grad, scaled_along))
        away = make("Sub", [make("Sub", [scaled_grad, level]), make("Mul", [normal, slope])])
        found[0] = make("Mul", [away, inverse])
    for place, each in ((1, along), (2, grad)):
        if output_mask[place]:
            found[place] = summed_over(graph, each, list(range(rows)), False) if rows else each
    kinds = (res[0].dtype, res[1].dtype, res[2].dtype)
    return tuple(  # type: ignore[return-value]
        None if x is None else cast(graph, x, kind) for x, kind in zip(found, kinds, strict=True)
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
    mean, spread_out = saved if train else running
    assert mean is not None and spread_out is not None, "the forward had these statistics"
    if train:
        return cast(graph, mean, wide), cast(graph, spread_out, wide)
    shifted = graph.make_node("Add", [cast(graph, spread_out, wide), const(graph, eps, wide)])
    return cast(graph, mean, wide), graph.make_node(
        "Reciprocal", [graph.make_node("Sqrt", [shifted])]
    )
