"""Quantized weights as constants of a session.

Option `weights` quantizes them, or the model has quantized weights already.
"""

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

from .feeds import feed_any, to_input_layout
from .frozen import with_constants

if TYPE_CHECKING:
    from ortable.builder import GraphBuilder

# Codes of weights: a byte each, two in a byte, or eight packed into an int.
_CODES = frozenset({dtypes.int8, dtypes.uint8, dtypes.int32})
# What was quantized for each living session.
_session_records: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()


def has_codes(roles: Iterable[InputRole]) -> bool:
    """Whether weights among these inputs may be integer codes: matrices of small or packed ints."""
    return any(role.elem_type in _CODES and len(role.shape or ()) > 1 for role in roles)


def with_prequantized_codes(
    model: ModelProto,
    weights: Mapping[str, tuple[InputRole, torch.Tensor]],
    record: dict[str, Any],
) -> tuple[ModelProto, dict[str, Any]]:
    """Like `with_constants`, with kernels that read codes for weights of 4-bit codes.

    Args:
        model: the model.
        weights: role and tensor by name of the input.
        record: gets the model, if kernels read codes.
    """
    from ortable.passes.quantize_weights import pack_weight_codes  # only in a process that converts

    builder = _with_weights(model, weights)
    if not pack_weight_codes(builder):
        return with_constants(model, weights)
    return _to_session_model(builder, weights, record)


def with_quantized_constants(
    model: ModelProto,
    weights: Mapping[str, tuple[InputRole, torch.Tensor]],
    options: WeightOptions,
    record: dict[str, Any],
) -> tuple[ModelProto, dict[str, Any]]:
    """Like `with_constants`, with the weights that the options select as codes.

    Args:
        model: the model.
        weights: role and tensor by name of the input.
        options: of the quantization.
        record: gets the names of the quantized weights and the model.
    """
    from ortable.passes.quantize_weights import pack_weight_codes, quantize_weights

    builder = _with_weights(model, weights)
    if has_codes(role for role, _ in weights.values()):
        pack_weight_codes(builder)
    quantization = quantize_weights(builder, options)
    record["rounded"] = tuple(quantization.rounded.values())
    return _to_session_model(builder, weights, record)


def record_shared_session(session: Any, record: dict[str, Any]) -> None:
    """Copy what was quantized for a session into the record of a graph that shares it.

    Args:
        session: created for this graph, or for another with the same weights.
        record: filled while the session was created; empty if that was for another graph.
    """
    recorded = _session_records.get(session)
    if recorded is None:
        _session_records[session] = dict(record)
    elif recorded:
        record.update(recorded)


def _with_weights(
    model: ModelProto, weights: Mapping[str, tuple[InputRole, torch.Tensor]]
) -> GraphBuilder:
    from ortable.builder import GraphBuilder  # only in a process that converts or quantizes

    plain, _ = with_constants(model, weights, values=False)
    builder = GraphBuilder(plain, target="onnxruntime")
    for name, (role, tensor) in weights.items():
        builder.initializers_dict[name] = to_input_layout(role, tensor.data)
    return builder


def _to_session_model(
    builder: GraphBuilder,
    weights: Mapping[str, tuple[InputRole, torch.Tensor]],
    record: dict[str, Any],
) -> tuple[ModelProto, dict[str, Any]]:
    large = builder.to_onnx(large_model=True, optimize=False)
    constants = {
        name: feed_any(weights[name][0], weights[name][1].data)
        if name in weights
        else ort_value(initializers.to_torch(value))
        for name, value in large.tensors.items()
    }
    record["onnx"] = large.proto
    return large.session_proto(), constants


def needs_constants_error(reason: str) -> OptionError:
    """The error for option `weights` of a graph whose weights do not become constants."""
    return OptionError(
        "Option 'weights' rounds weights that are constants of a session, and those of this graph "
        f"are not: {reason}."
    ).with_advice(
        "What to do: call the model under torch.no_grad(), with weights that do not change; or "
        "leave the option out."
    )
