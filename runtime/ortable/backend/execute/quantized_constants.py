"""Make quantized weights constants of a session.

Either option `weights` quantizes the weights, or the model already has quantized weights.
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
from ortable.passes.weight_quantization import QuantizationRun, WeightOptions

from .feeds import feed_any, to_input_layout
from .frozen import embed_weights

if TYPE_CHECKING:
    from ortable.builder import GraphBuilder

# Storage types of quantized weights. A byte holds one 8-bit or two 4-bit integers (codes), an int32
# holds eight 4-bit codes.
_CODE_DTYPES = frozenset({dtypes.int8, dtypes.uint8, dtypes.int32})
# The quantization records of the live sessions.
_session_records: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()


def has_codes(roles: Iterable[InputRole]) -> bool:
    """Whether an input may be a quantized weight: a matrix of 8-bit or packed integers."""
    return any(role.elem_type in _CODE_DTYPES and len(role.shape or ()) > 1 for role in roles)


def embed_prequantized_weights(
    model: ModelProto,
    weights: Mapping[str, tuple[InputRole, torch.Tensor]],
    record: dict[str, Any],
) -> tuple[ModelProto, dict[str, Any]]:
    """Make a model and its constants as `embed_weights` does, and repack codes for 4-bit kernels.

    Args:
        model: the model.
        weights: role and tensor by name of the input.
        record: receives the model if any weight was repacked.
    """
    from ortable.passes.quantize_weights import pack_weight_codes  # lazy: only conversion needs it

    builder = _make_builder(model, weights)
    if not pack_weight_codes(builder):
        return embed_weights(model, weights)
    return _make_session_model(builder, weights, record)


def embed_quantized_weights(
    model: ModelProto,
    weights: Mapping[str, tuple[InputRole, torch.Tensor]],
    options: WeightOptions,
    record: dict[str, Any],
) -> tuple[ModelProto, dict[str, Any]]:
    """Make a model and its constants as `embed_weights` does, and quantize the selected weights.

    Args:
        model: the model.
        weights: role and tensor by name of the input.
        options: which weights to quantize, and how.
        record: receives the names of the quantized weights, and the model.
    """
    from ortable.passes.quantize_weights import pack_weight_codes, quantize_weights

    builder = _make_builder(model, weights)
    if has_codes(role for role, _ in weights.values()):
        pack_weight_codes(builder)
    quantization = quantize_weights(builder, QuantizationRun(options))
    record["rounded"] = tuple(quantization.rounded.values())
    return _make_session_model(builder, weights, record)


def record_shared_session(session: Any, record: dict[str, Any]) -> None:
    """Share the quantization record of a session with each graph that uses the session.

    Args:
        session: the session, created for this graph or for another graph with the same weights.
        record: the record of this graph: complete if the session was created for this graph,
            otherwise empty and filled here.
    """
    session_record = _session_records.get(session)
    if session_record is None:
        _session_records[session] = dict(record)
    elif session_record:
        record.update(session_record)


def _make_builder(
    model: ModelProto, weights: Mapping[str, tuple[InputRole, torch.Tensor]]
) -> GraphBuilder:
    from ortable.builder import GraphBuilder  # lazy: only conversion needs it

    without_values, _ = embed_weights(model, weights, values=False)
    builder = GraphBuilder(without_values, target="onnxruntime")
    for name, (role, tensor) in weights.items():
        builder.initializers_dict[name] = to_input_layout(role, tensor.data)
    return builder


def _make_session_model(
    builder: GraphBuilder,
    weights: Mapping[str, tuple[InputRole, torch.Tensor]],
    record: dict[str, Any],
) -> tuple[ModelProto, dict[str, Any]]:
    """Convert a graph to a session model and its constants; store the model in ``record``."""
    from ortable.passes.join_products import join_products  # lazy: only conversion needs it

    join_products(builder)
    exported = builder.to_onnx(large_model=True, optimize=False)
    constants = {
        name: feed_any(weights[name][0], weights[name][1].data)
        if name in weights
        else ort_value(initializers.to_torch(value))
        for name, value in exported.tensors.items()
    }
    record["onnx"] = exported.proto
    return exported.session_proto(), constants


def make_missing_constants_error(reason: str) -> OptionError:
    """Make the error for option `weights` on a graph whose weights cannot become constants.

    Args:
        reason: why they cannot, as the end of a sentence.
    """
    return OptionError(
        "Option 'weights' quantizes or casts weights that are constants of a session, but the "
        f"weights of this graph are not constants: {reason}."
    ).with_advice(
        "What to do: call the model under torch.no_grad(), with weights that do not change, or "
        "remove the option."
    )
