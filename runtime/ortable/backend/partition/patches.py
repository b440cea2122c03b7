"""Convolutions whose kernels never overlap: each element of the input lies in one patch, so that
forward and gradients are products of matrices, as in the embedding of a vision transformer. In
comes a node of a convolution or of its gradient, out goes a bool; called by `placement`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node

from ortable.compat.torch import OpOverload

__all__ = ["takes_patches"]


def takes_patches(node: Node) -> bool:
    """Whether a convolution cuts its input into patches, all of it, and its weight alone, no input,
    needs a gradient. False for any other operator."""
    target = node.target
    if not isinstance(target, OpOverload):
        return False
    names = [argument.name for argument in target._schema.arguments]
    call: dict[str, Any] = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    if not {"input", "weight", "stride", "padding", "dilation", "groups"} <= call.keys():
        return False
    kernel = _sizes(call["weight"])[2:]
    plain = not call.get("transposed") and call["groups"] == 1
    apart = _all(call["stride"], kernel) and not any(call["padding"])
    dense = all(step == 1 for step in call["dilation"])
    fits = all(_divides(k, size) for k, size in zip(kernel, _sizes(call["input"])[2:], strict=True))
    return plain and apart and dense and fits and not call.get("output_mask", [False])[0]


def _sizes(node: Any) -> Sequence[Any]:
    value = node.meta["val"]
    assert isinstance(value, torch.Tensor)
    return value.shape


def _all(values: Sequence[Any], wanted: Sequence[Any]) -> bool:
    """Whether the numbers, one for all axes or one for each, are the wanted ones."""
    given = list(values) * (len(wanted) if len(values) == 1 else 1)
    return all(isinstance(k, int) for k in wanted) and given == list(wanted)


def _divides(kernel: Any, size: Any) -> bool:
    return isinstance(size, int) and size % kernel == 0
