"""Weights as integer codes in a session: those that option `weights` rounds, and those of a
model that arrives quantised."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
from onnx import ModelProto

from ortable import dtypes
from ortable.backend.roles import InputRole
from ortable.compat.onnxruntime import ort_value
from ortable.errors import OptionError
from ortable.ir import initializers
from ortable.passes.weight_quantization import WeightOptions

from .feeds import feed_any, in_order
from .frozen import with_constants

if TYPE_CHECKING:
    from ortable.builder import GraphBuilder

# Codes of weights: a byte each, two in a byte, or eight packed into an int.
_CODES = frozenset({dtypes.int8, dtypes.uint8, dtypes.int32})
# What is told of the codes in a session, as long as it lives.
_told: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()


def has_codes(roles: Iterable[InputRole]) -> bool:
    """Whether weights among these inputs may be integer codes: matrices of small or packed ints."""
    return any(role.elem_type in _CODES and len(role.shape or ()) > 1 for role in roles)


def with_arriving_codes(
    model: ModelProto,
    weights: Mapping[str, tuple[InputRole, torch.Tensor]],
    record: dict[str, Any],
) -> tuple[ModelProto, dict[str, Any]]:
    """What `with_constants` makes, for kernels that read codes where weights are codes of 4 bits.

    :param weights: role and tensor by name of the input
    :param record: is told the model, where kernels read codes
    """
    from ortable.passes.quantize_weights import pack_weight_codes  # of a process that converts

    builder = _with_weights(model, weights)
    if not pack_weight_codes(builder):
        return with_constants(model, weights)
    return _written(builder, weights, record)


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
    from ortable.passes.quantize_weights import pack_weight_codes, quantize_weights

    builder = _with_weights(model, weights)
    if has_codes(role for role, _ in weights.values()):
        pack_weight_codes(builder)
    rounding = quantize_weights(builder, options)
    record["rounded"] = tuple(rounding.rounded.values())
    return _written(builder, weights, record)


def tell_of_shared(session: Any, record: dict[str, Any]) -> None:
    """Write into a graph's record what was rounded for its session, which another graph with the
    same weights may have made.

    :param record: what was written while the session was made; empty if that was for another graph
    """
    told = _told.get(session)
    if told is None:
        _told[session] = dict(record)
    elif told:
        record.update(told)


def _with_weights(
    model: ModelProto, weights: Mapping[str, tuple[InputRole, torch.Tensor]]
) -> GraphBuilder:
    """The graph of a model whose weights are initializers."""
    from ortable.builder import GraphBuilder  # of a process that converts, or rounds

    plain, _ = with_constants(model, weights, values=False)
    builder = GraphBuilder(plain, target="onnxruntime")
    for name, (role, tensor) in weights.items():
        builder.initializers_dict[name] = in_order(role, tensor.data)
    return builder


def _written(
    builder: GraphBuilder,
    weights: Mapping[str, tuple[InputRole, torch.Tensor]],
    record: dict[str, Any],
) -> tuple[ModelProto, dict[str, Any]]:
    """The model of a graph, and its constants."""
    large = builder.to_onnx(large_model=True, optimize=False)
    constants = {
        name: feed_any(weights[name][0], weights[name][1].data)
        if name in weights
        else ort_value(initializers.to_torch(value))
        for name, value in large.tensors.items()
    }
    record["onnx"] = large.proto
    return large.session_proto(), constants


def needs_constants(reason: str) -> OptionError:
    """Why option `weights` cannot do what it says: no weight becomes a constant."""
    return OptionError(
        "Option 'weights' rounds weights that are constants of a session, and those of this graph "
        f"are not: {reason}."
    ).with_advice(
        "What to do: call the model under torch.no_grad(), with weights that nobody changes; or "
        "leave the option out."
    )
