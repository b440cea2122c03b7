"""attach_weights: a model exported without weights becomes complete, tensor by tensor. Called by
users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from onnx import ModelProto, ValueInfoProto

from ortable.builder import LargeModel
from ortable.exporter.request.fake_weights import named_weights
from ortable.ir import initializers
from ortable.ir.proto.tensor_proto import fill_stub

from .. import dtypes
from ..errors import InputError
from ..interpreter.complex_numbers import real_tensor


def attach_weights(
    model: ModelProto | LargeModel,
    weights: Mapping[str, Any] | torch.nn.Module,
    *,
    partial: bool = False,
) -> LargeModel:
    """A model exported with its weights as inputs, with the weights.

    Args:
        model: what to_onnx returned for a model of fake tensors; it is not changed.
        weights: tensors by name in the state_dict, or a module that has them. Those of a dict are
            kept by reference. Any other mapping is asked for a tensor when it is written, one at a
            time, and nothing is kept: a checkpoint in many files never is in memory as a whole.
        partial: leave inputs for which there is no weight; otherwise they are an error.

    Returns:
        LargeModel; ``save(path)`` writes it, ``to_proto()`` makes it one ModelProto.

    Raises:
        InputError: a weight is missing, or has another type or shape than the model was exported
            with (for a mapping that is no dict, when the model is written).
    """
    if isinstance(weights, torch.nn.Module):
        weights = named_weights(weights)
    old = model.proto if isinstance(model, LargeModel) else model
    proto = ModelProto()
    proto.CopyFrom(old)
    tensors: dict[str, Any] = {}
    if isinstance(model, LargeModel):
        tensors.update(model.tensors)
    left, missing = [], []
    for value in old.graph.input:
        path = next((path for path in _paths(value) if path in weights), None)
        if path is None:
            left.append(value)
            if value.doc_string:
                missing.append(value.doc_string)
            continue
        tensors[value.name] = _tensor(value, path, weights)
        stub = proto.graph.initializer.add()
        fill_stub(stub, value.name, tensors[value.name])
        stub.doc_string = value.doc_string or path
    if missing and not partial:
        raise InputError(
            f"no weight is given for {len(missing)} inputs of the model: "
            f"{', '.join(missing[:10])}{'...' if len(missing) > 10 else ''}. Buffers that are not "
            "in a state_dict must be added to it; partial=True leaves these inputs."
        )
    del proto.graph.input[:]
    proto.graph.input.extend(left)
    nested = dict(model.nested) if isinstance(model, LargeModel) else None
    return LargeModel(proto, tensors, nested)


def _paths(value: ValueInfoProto) -> Sequence[str]:
    """Names in the state_dict that an input may have; several when weights are tied."""
    return value.doc_string.split(", ") if value.doc_string else (value.name,)


def _tensor(value: ValueInfoProto, path: str, weights: Mapping[str, Any]) -> Any:
    tensor_type = value.type.tensor_type
    dtype = tensor_type.elem_type
    shape = tuple(dim.dim_value for dim in tensor_type.shape.dim)

    def load() -> Any:
        return _checked(weights[path], path, dtype, shape)

    return load() if isinstance(weights, dict) else initializers.Deferred(load, dtype, shape)


def _checked(tensor: Any, path: str, dtype: int, shape: tuple[int, ...]) -> Any:
    tensor = real_tensor(tensor)
    found = initializers.dtype_of(tensor), initializers.shape_of(tensor)
    if found != (dtype, shape):
        raise InputError(
            f"the weight '{path}' is {dtypes.name(found[0])} {list(found[1])}, the model was "
            f"exported with {dtypes.name(dtype)} {list(shape)}"
        )
    return tensor
