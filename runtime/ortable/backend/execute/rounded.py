"""Weights as integer codes in a session, for option `weights`. In come a model, weights by the
names of its inputs, and `WeightOptions`; out come a model for kernels that read codes, and the
constants of it. Called by `call` where weights become constants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from onnx import ModelProto

from ortable.backend.roles import InputRole
from ortable.compat.onnxruntime import ort_value
from ortable.errors import OptionError
from ortable.passes.weight_codes import WeightOptions

from .feeds import feed_any, in_order
from .frozen import with_constants

__all__ = ["needs_constants", "with_rounded_constants"]


def with_rounded_constants(
    model: ModelProto,
    weights: Mapping[str, tuple[InputRole, torch.Tensor]],
    options: WeightOptions,
    record: dict[str, Any],
) -> tuple[ModelProto, dict[str, Any]]:
    """What `with_constants` makes, with the weights that the options choose as codes.

    :param weights: role and tensor by name of the input
    :param record: is told which were rounded, the operators that read codes, and the model
    """
    from ortable.builder import GraphBuilder  # of a process that converts, or rounds
    from ortable.passes.weight_rounding import round_weights

    plain, _ = with_constants(model, weights, values=False)
    builder = GraphBuilder(plain, target="onnxruntime")
    for name, (role, tensor) in weights.items():
        builder.initializers_dict[name] = in_order(role, tensor.data)
    rounding = round_weights(builder, options)
    large = builder.to_onnx(large_model=True, optimize=False)
    constants = {
        name: feed_any(weights[name][0], weights[name][1].data)
        if name in weights
        else ort_value(torch.from_numpy(value))
        for name, value in large.tensors.items()
    }
    record["rounded"] = tuple(rounding.rounded.values())
    record["onnx"] = large.proto
    return large.session_proto(), constants


def needs_constants(reason: str) -> OptionError:
    """Why option `weights` cannot do what it says: no weight becomes a constant."""
    return OptionError(
        "Option 'weights' rounds weights that are constants of a session, and those of this graph "
        f"are not: {reason}."
    ).advised(
        "What to do: call the model under torch.no_grad(), with weights that nobody changes; or "
        "leave the option out."
    )
