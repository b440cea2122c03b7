"""Encode a CompiledGraph without its model as JSON, and decode it.

Role dataclasses are encoded by their fields, dimensions as exact polynomials, view operators by
name. Decoding executes and imports nothing: names are looked up in fixed tables, and view operators
among torch's own. The fields of roles must have the declared types, because some become source
text.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import operator
import re
import types
from collections.abc import Callable, Mapping
from typing import Any, Union, get_args, get_origin, get_type_hints

import torch
from onnx import AttributeProto, ModelProto, TensorProto

from ortable.backend.roles import (
    Check,
    CompiledGraph,
    DimSource,
    Fetch,
    InputRole,
    InputRoleKind,
    Mutation,
    OutputRole,
    OutputRoleKind,
    RangeCheck,
    ViewStep,
)
from ortable.compat.torch import OpOverload
from ortable.dims import SymDim
from ortable.dims.expression import from_picklable, to_picklable
from ortable_generated.aten import traits


@dataclasses.dataclass(frozen=True)
class NodeRef:
    """A reference to a node among the arguments of another node: its position in the graph."""

    number: int


_RECORDS: dict[str, type] = {
    cls.__name__: cls
    for cls in (
        Check,
        DimSource,
        Fetch,
        InputRole,
        Mutation,
        NodeRef,
        OutputRole,
        RangeCheck,
        ViewStep,
    )
}
_ENUMS: dict[str, type[enum.Enum]] = {cls.__name__: cls for cls in (InputRoleKind, OutputRoleKind)}
_TORCH_VALUES: dict[str, Any] = {
    str(value): value
    for value in vars(torch).values()
    if isinstance(value, torch.dtype | torch.memory_format | torch.layout)
}
_OMITTED_FIELDS = frozenset({"model", "timings", "key", "cache", "label"})
_OVERLOAD_NAME = re.compile(r"aten::(\w+)(?:\.(\w+))?")


class Unserializable(Exception):
    """A value of a CompiledGraph that the file format cannot represent; the message names it."""


def encode_graph(compiled: CompiledGraph) -> dict[str, Any]:
    """Return the fields of `compiled`, except `_OMITTED_FIELDS`, as values that JSON represents.

    Raises:
        Unserializable: if the format cannot represent a Python constant or a view operator.
    """
    return {
        field.name: encode_value(getattr(compiled, field.name))
        for field in dataclasses.fields(compiled)
        if field.name not in _OMITTED_FIELDS
    }


def decode_graph(fields: Mapping[str, Any], **others: Any) -> CompiledGraph:
    """Return the CompiledGraph that `encode_graph` encoded; `others` are omitted fields.

    Raises:
        Exception: any type, if `encode_graph` did not create `fields`.
    """
    return CompiledGraph(**_decode_fields(CompiledGraph, fields), **others)


def encode_with_model(compiled: CompiledGraph) -> tuple[dict[str, Any], bytes]:
    """Return the fields of `compiled`, and its model as bytes.

    Raises:
        Unserializable: if a file cannot represent it; the message gives the reason.
    """
    try:
        fields = encode_graph(compiled)
        model = compiled.model.SerializeToString()
    except Unserializable as exc:
        raise Unserializable(f"it contains {exc}") from None
    except Exception as exc:  # protobuf raises several types for large models
        raise Unserializable(f"its model cannot be serialized: {exc}") from None
    if not _is_self_contained(compiled.model):
        raise Unserializable("its model stores tensors in other files")
    return fields, model


def decode_with_model(fields: Mapping[str, Any], content: Any, **others: Any) -> CompiledGraph:
    """Return the graph that `encode_with_model` encoded, with the fields `others`.

    Raises:
        Exception: any type, if `encode_with_model` did not create `fields` and `content`.
    """
    model = ModelProto.FromString(bytes(content))
    if not _is_self_contained(model):
        raise ValueError("its model reads other files")
    return decode_graph(fields, model=model, cache="disk", **others)


def _is_self_contained(model: ModelProto) -> bool:
    """Whether no tensor of the model is in another file."""
    graphs, tensors, sparse_tensors = [model.graph], [], []
    attributes = [a for function in model.functions for a in function.attribute_proto]
    attributes += [
        a for function in model.functions for node in function.node for a in node.attribute
    ]
    while graphs or attributes:
        if graphs:
            graph = graphs.pop()
            tensors += graph.initializer
            sparse_tensors += graph.sparse_initializer
            attributes += [a for node in graph.node for a in node.attribute]
        for attribute in attributes:
            tensors += [attribute.t, *attribute.tensors]
            sparse_tensors += [attribute.sparse_tensor, *attribute.sparse_tensors]
            graphs += [attribute.g, *attribute.graphs] if _has_graph(attribute) else []
        attributes = []
    tensors += [part for sparse in sparse_tensors for part in (sparse.values, sparse.indices)]
    return all(tensor.data_location != TensorProto.EXTERNAL for tensor in tensors)


def _has_graph(attribute: AttributeProto) -> bool:
    return attribute.HasField("g") or len(attribute.graphs) > 0


def encode_value(value: Any) -> Any:
    """Return a field of a role, or an argument of an operator, as a value that JSON represents.

    Raises:
        Unserializable: if the format cannot represent it.
    """
    cls: type = value.__class__
    if cls in (bool, int, str) or value is None:
        return value
    if cls is tuple or cls is torch.Size:
        return [encode_value(item) for item in value]
    if isinstance(value, enum.Enum) and cls.__name__ in _ENUMS:
        return {cls.__name__: value.value}
    if cls in _RECORDS.values():
        return {cls.__name__: _encode_record(value)}
    if cls is SymDim:
        return {"dim": to_picklable(value)}
    if cls is float:
        return {"float": value.hex()}
    if isinstance(value, list):
        return {"list": [encode_value(item) for item in value]}
    if isinstance(value, Mapping):
        return {"dict": [[encode_value(k), encode_value(v)] for k, v in value.items()]}
    if cls is frozenset:
        return {"set": sorted(map(encode_value, value))}
    if cls in (torch.dtype, torch.memory_format, torch.layout):
        return {"torch": str(value)}
    if cls is torch.device:
        return {"device": str(value)}
    return {"view": _view_name(value)}


def _encode_record(value: Any) -> dict[str, Any]:
    """Encode the fields of a record that differ from their defaults."""
    return {
        field.name: encode_value(item)
        for field in dataclasses.fields(value)
        if (item := getattr(value, field.name)) is not field.default
    }


def _is_view(op: Any) -> bool:
    """Whether `op` returns a view of its first argument; torch's unsafe views count, too."""
    is_overload = isinstance(op, OpOverload)
    return is_overload and (op.is_view or op.name() in traits.UNSAFE_VIEW)


def _view_name(op: Any) -> str:
    if op is operator.getitem:
        return "getitem"
    if _is_view(op) and _OVERLOAD_NAME.fullmatch(op.name()):
        return str(op.name())
    raise Unserializable(f"{op!r}, a {type(op).__name__}")


def _find_view_op(name: str) -> Any:
    if name == "getitem":
        return operator.getitem
    match = _OVERLOAD_NAME.fullmatch(name)
    packet = getattr(torch.ops.aten, match[1], None) if match else None
    op = getattr(packet, (match[2] or "default") if match else "", None)
    if not _is_view(op):
        raise ValueError(f"{name!r} is not a view operator of torch")
    return op


def _decode_dim(encoded: Any) -> Any:
    dim = from_picklable(encoded)
    if not isinstance(dim, SymDim):
        raise ValueError("a dimension is not a polynomial")
    return dim


_DECODERS: dict[str, Callable[[Any], Any]] = {
    "dim": _decode_dim,
    "float": float.fromhex,
    "list": lambda items: [decode_value(item) for item in items],
    "dict": lambda items: {decode_value(k): decode_value(v) for k, v in items},
    "set": lambda items: frozenset(decode_value(item) for item in items),
    "torch": lambda name: _TORCH_VALUES[name],
    "device": torch.device,
    "view": _find_view_op,
}


def _decode_fields(record: type, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Decode the fields of a record and check that each has the declared type.

    Otherwise a string in place of a number could become source text that is executed.
    """
    hints = _declared_types(record)
    values = {name: decode_value(value) for name, value in fields.items()}
    for name, value in values.items():
        if name not in hints or not _has_type(value, hints[name]):
            raise ValueError(f"{record.__name__}.{name} has an unexpected value: {value!r:.60}")
    return values


@functools.cache
def _declared_types(record: type) -> dict[str, Any]:
    return get_type_hints(record)


def _has_type(value: Any, hint: Any) -> bool:
    """Whether a value has the declared type of a field."""
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin in (types.UnionType, Union):
        return any(_has_type(value, option) for option in args)
    if origin is tuple:
        return isinstance(value, tuple) and all(_has_type(item, args[0]) for item in value)
    if origin is frozenset:
        return isinstance(value, frozenset) and all(_has_type(item, args[0]) for item in value)
    if origin in (dict, Mapping):
        return isinstance(value, dict) and all(
            _has_type(key, args[0]) and _has_type(item, args[1]) for key, item in value.items()
        )
    if hint is int:  # bool is a subclass of int
        return type(value) in (int, bool)
    return isinstance(value, hint)


def decode_value(value: Any) -> Any:
    """Return the value that `encode_value` encoded; invalid contents raise any exception."""
    if isinstance(value, list):
        return tuple(decode_value(item) for item in value)
    if not isinstance(value, dict):
        return value
    ((tag, content),) = value.items()
    if tag in _RECORDS:
        return _RECORDS[tag](**_decode_fields(_RECORDS[tag], content))
    if tag in _ENUMS:
        return _ENUMS[tag](content)
    return _DECODERS[tag](content)
