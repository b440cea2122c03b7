"""Export models whose weights have no data (fake tensors, the meta device).

This module prepares such models for torch.export, makes their weights inputs of the ONNX model, and
later supplies the real weights by name: as feeds, or attached to the model one by one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from onnx import ModelProto, ValueInfoProto

from ortable import dtypes
from ortable.builder import LargeModel
from ortable.compat.torch import FakeTensorMode, pytree
from ortable.errors import InputError
from ortable.exporter.frontend.export_request import Program, Request
from ortable.exporter.frontend.module_state import module_tensors, named_tensors, substitute_tensors
from ortable.interpreter.complex_numbers import real_tensor
from ortable.ir import initializers
from ortable.ir.proto.tensor_proto import fill_stub


@contextmanager
def replace_meta_tensors(request: Request) -> Iterator[Request]:
    """Replace tensors on the meta device by fake tensors of one device in the block.

    torch does not allow mixed devices, and code of a model on the meta device may create CPU
    tensors. The device is that of the first tensor with data, or the CPU if there is none. The
    module is restored when the block ends.
    """
    leaves = pytree.tree_leaves((request.args, request.kwargs))
    tensors = [*leaves, *(tensor for _, _, tensor in module_tensors(request.model))]
    devices = (
        leaf.device for leaf in tensors if isinstance(leaf, torch.Tensor) and not leaf.is_meta
    )
    device = next(devices, torch.device("cpu"))
    mode = FakeTensorMode() if any(getattr(leaf, "is_meta", False) for leaf in tensors) else None

    def make_fake(tensor: torch.Tensor) -> torch.Tensor:
        assert mode is not None
        with mode:
            return torch.empty_strided(
                tensor.shape, tensor.stride(), dtype=tensor.dtype, device=device
            )

    # tensors that forward creates must have data, also under ``with torch.device("meta")``
    is_default_meta = torch.get_default_device().type == "meta"
    with (
        substitute_tensors(request, lambda tensor: tensor.is_meta, make_fake) as substituted,
        torch.device("cpu") if is_default_meta else nullcontext(),
    ):
        yield substituted


def convert_weights_to_inputs(builder: Any, program: Program) -> None:
    """Turn initializers without data into inputs, after the user's inputs.

    ``program.fake_weight_inputs`` then maps each new input to the weight's names in the state_dict;
    tied weights are one input with several names.
    """
    initializer_dict = builder.initializers_dict
    fakes = [name for name, value in initializer_dict.items() if initializers.is_fake(value)]
    if not fakes:
        return
    paths: dict[Any, list[str]] = {}
    for placeholder, tensor in program.weights.items():
        paths.setdefault(initializers.storage_key(tensor), []).append(program.paths[placeholder])
    for name in fakes:
        key = initializers.storage_key(initializer_dict.pop(name))
        builder.inputs.append(builder.values[name])
        program.fake_weight_inputs[name] = paths.get(key) or [program.paths.get(name, name)]


def possible_weight_names(prefix: str, path: str) -> tuple[str, str, str]:
    """Return the names that a weight may have in a model.

    These are the name in the state_dict, torch.export's name of the input (``p_linear_weight``),
    and the latter without the prefix.
    """
    identifier = re.sub(r"[^a-zA-Z0-9]", "_", path)
    return path, f"{prefix}_{identifier.lower()}", identifier


def named_weights(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return parameters, buffers and other tensors of a module by path; tied ones by all paths."""
    tensors: dict[str, torch.Tensor] = dict(module.named_parameters(remove_duplicate=False))
    tensors.update(module.named_buffers(remove_duplicate=False))
    for prefix, submodule in module.named_modules(remove_duplicate=False):
        for name, value in named_tensors(vars(submodule)):
            tensors[f"{prefix}.{name}" if prefix else name] = value
    return tensors


def match_input_parameters(
    model: torch.nn.Module, names: Sequence[str], args: Sequence[Any] | None = None
) -> dict[str, Any]:
    """Return the tensors to feed to an ONNX model that was exported with its weights as inputs.

    A name that is a parameter or buffer of ``model`` (``linear.weight``, or torch.export's
    ``p_linear_weight`` and ``b_count``) gets that tensor; the remaining names get ``args`` in
    order.

    Args:
        model: the module that was exported, with its weights.
        names: names of the inputs of the ONNX model, in order.
        args: values of the inputs that are not weights, in order.

    Returns:
        name -> tensor, in the order of ``names``; complex weights as ``torch.view_as_real``.

    Raises:
        InputError: the number of arguments differs from the number of remaining names.
    """
    tensors = _tensors_by_name(model)
    inputs = list(args or ())
    input_names = [name for name in names if name not in tensors]
    if len(input_names) != len(inputs):
        raise InputError(
            f"{len(inputs)} arguments were given for {len(input_names)} inputs that are not "
            f"parameters of the model: {input_names}"
        )
    values = dict(zip(input_names, inputs, strict=True))
    return {name: values[name] if name in values else real_tensor(tensors[name]) for name in names}


def _tensors_by_name(model: torch.nn.Module) -> dict[str, Any]:
    parameters = {path for path, _ in model.named_parameters(remove_duplicate=False)}
    buffers = {path for path, _ in model.named_buffers(remove_duplicate=False)}
    tensors: dict[str, Any] = dict(named_weights(model))
    for path, tensor in list(tensors.items()):
        prefix = "p" if path in parameters else "b" if path in buffers else "c"
        _, exported_name, unprefixed = possible_weight_names(prefix, path)
        tensors[unique_weight_name(exported_name, tensors)] = tensor
        tensors.setdefault(unprefixed, tensor)
    return tensors


def unique_weight_name(name: str, used_names: Iterable[str]) -> str:
    """Return a name that is not used, with a number if necessary, as torch.export does."""
    number, candidate = 0, name
    while candidate in used_names:
        number += 1
        candidate = f"{name}_{number}"
    return candidate


def attach_weights(
    model: ModelProto | LargeModel,
    weights: Mapping[str, Any] | torch.nn.Module,
    *,
    partial: bool = False,
) -> LargeModel:
    """Attach weights to a model that was exported with its weights as inputs.

    Args:
        model: the result of to_onnx for a model of fake tensors; it is not changed.
        weights: tensors by name in the state_dict, or a module that has them. Tensors of a dict are
            kept by reference. Any other mapping is read when the model is written, one tensor at a
            time, so that a checkpoint in many files is never in memory as a whole.
        partial: keep inputs for which no weight is given; otherwise they are an error.

    Returns:
        LargeModel; ``save(path)`` writes it, ``to_proto()`` converts it to a ModelProto.

    Raises:
        InputError: a weight is missing, or its type or shape differs from the export (for a mapping
            that is not a dict, raised when the model is written).
    """
    if isinstance(weights, torch.nn.Module):
        weights = named_weights(weights)
    source_proto = model.proto if isinstance(model, LargeModel) else model
    proto = ModelProto()
    proto.CopyFrom(source_proto)
    tensors: dict[str, Any] = {}
    if isinstance(model, LargeModel):
        tensors.update(model.tensors)
    remaining, missing = [], []
    for value in source_proto.graph.input:
        path = next((path for path in _weight_paths(value) if path in weights), None)
        if path is None:
            remaining.append(value)
            if value.doc_string:
                missing.append(value.doc_string)
            continue
        tensors[value.name] = _weight_tensor(value, path, weights)
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
    proto.graph.input.extend(remaining)
    nested = dict(model.nested) if isinstance(model, LargeModel) else None
    return LargeModel(proto, tensors, nested)


def _weight_paths(value: ValueInfoProto) -> Sequence[str]:
    return value.doc_string.split(", ") if value.doc_string else (value.name,)


def _weight_tensor(value: ValueInfoProto, path: str, weights: Mapping[str, Any]) -> Any:
    tensor_type = value.type.tensor_type
    dtype = tensor_type.elem_type
    shape = tuple(dim.dim_value for dim in tensor_type.shape.dim)

    def load_tensor() -> Any:
        return _check_weight(weights[path], path, dtype, shape)

    return (
        load_tensor()
        if isinstance(weights, dict)
        else initializers.Deferred(load_tensor, dtype, shape)
    )


def _check_weight(tensor: Any, path: str, dtype: int, shape: tuple[int, ...]) -> Any:
    tensor = real_tensor(tensor)
    actual = initializers.dtype_of(tensor), initializers.shape_of(tensor)
    if actual != (dtype, shape):
        raise InputError(
            f"the weight '{path}' is {dtypes.name(actual[0])} {list(actual[1])}, the model was "
            f"exported with {dtypes.name(dtype)} {list(shape)}"
        )
    return tensor
