"""Convolution gradients with groups or for transposed convolutions, which need a loop over blocks of channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ortable import dtypes
from ortable.errors import UnsupportedCase
from ortable.prelude import rank_of, shape_of, spread, static, swapped
from ortable.prelude_make import as_vec, consts, cropped
from ortable.prelude_types import conv_output_padding

if TYPE_CHECKING:
    from ortable.builder import GraphBuilder, Res


def convolution_backward(
    graph: GraphBuilder,
    res: Res,
    grad_output: str,
    input: str,
    weight: str,
    stride: Sequence[Any],
    padding: Sequence[Any],
    dilation: Sequence[Any],
    transposed: bool,
    groups: Any,
    output_mask: Sequence[bool],
) -> tuple[str | None, str | None, str | None]:
    """Gradients of ``aten::convolution`` for input, weight and bias; None where the mask says so.

    The gradient of the input is the transposed convolution of grad_output (the convolution when the forward was
    transposed). That of the weight is, group by group, the convolution of the input with grad_output, channels and
    batch exchanged (Dumoulin and Visin, A guide to convolution arithmetic, 2016).
    """
    n = rank_of(graph, weight) - 2
    window = {
        "strides": spread(static(stride), n),
        "pads": spread(static(padding), n) * 2,
        "dilations": spread(static(dilation), n),
    }
    grad_input = grad_weight = grad_bias = None
    if output_mask[0]:
        grad_input = _input_gradient(
            graph, grad_output, input, weight, window, transposed, static(groups)
        )
    if output_mask[1]:
        large, small = (grad_output, input) if transposed else (input, grad_output)
        grad_weight = _weight_gradient(graph, large, small, weight, window, static(groups))
    if output_mask[2]:
        axes = consts(graph, [0, *range(2, n + 2)], dtypes.int64)
        grad_bias = graph.make_node("ReduceSum", [grad_output, axes], keepdims=0)
    return grad_input, grad_weight, grad_bias


def _input_gradient(
    graph: GraphBuilder,
    grad: str,
    input: str,
    weight: str,
    window: dict[str, Any],
    transposed: bool,
    groups: int,
) -> str:
    if transposed:
        return graph.make_node("Conv", [grad, weight], group=groups, **window)
    back = conv_output_padding(
        graph,
        input,
        grad,
        weight,
        window["strides"],
        window["pads"][: len(window["strides"])],
        window["dilations"],
    )
    return graph.make_node(
        "ConvTranspose", [grad, weight], group=groups, output_padding=back, **window
    )


def _weight_gradient(
    graph: GraphBuilder, large: str, small: str, weight: str, window: dict[str, Any], groups: int
) -> str:
    """The kernel that, slid over ``large`` (channels of dim 1 of weight), gives ``small`` (channels of dim 0)."""
    turned = swapped(rank_of(graph, weight), 0, 1)
    larges, smalls = _channel_blocks(graph, large, groups), _channel_blocks(graph, small, groups)
    blocks = []
    for one, other in zip(larges, smalls, strict=True):
        wide = graph.make_node(
            "Conv",
            [
                graph.make_node("Transpose", [one], perm=turned),
                graph.make_node("Transpose", [other], perm=turned),
            ],
            strides=window["dilations"],
            dilations=window["strides"],
            pads=window["pads"],
        )
        kernel = cropped(graph, wide, shape_of(graph, weight)[2:])
        blocks.append(graph.make_node("Transpose", [kernel], perm=turned))
    return blocks[0] if groups == 1 else graph.make_node("Concat", blocks, axis=0)


def _channel_blocks(graph: GraphBuilder, x: str, groups: int) -> list[str]:
    if groups == 1:
        return [x]
    channels = shape_of(graph, x)[1]
    if not isinstance(channels, int):
        raise UnsupportedCase(
            "the weight gradient of a grouped convolution needs a known number of channels"
        )
    sizes = as_vec(graph, [channels // groups] * groups)
    return list(graph.make_node("Split", [x, sizes], groups, axis=1))
