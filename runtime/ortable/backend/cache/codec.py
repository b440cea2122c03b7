"""A CompiledGraph without its model as JSON and back: dataclasses of roles by their fields,
dimensions as exact polynomials, view operators by name. Nothing that is read is executed or
imported: names are looked up in fixed tables, and view operators among torch's own; fields of
roles have the types that roles declare, since some become source text."""

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
from onnx import ModelProto, TensorProto

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
    """A node of a graph, among the arguments of another: its position."""

    number: int


_RECORDS: dict[str, type] = {
    kind.__name__: kind
    for kind in (
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
_ENUMS: dict[str, type[enum.Enum]] = {
    kind.__name__: kind for kind in (InputRoleKind, OutputRoleKind)
}
_TORCH: dict[str, Any] = {
    str(value): value
    for value in vars(torch).values()
    if isinstance(value, torch.dtype | torch.memory_format | torch.layout)
}
_OMITTED = frozenset({"model", "timings", "key", "cache", "label"})
_VIEW = re.compile(r"aten::(\w+)(?:\.(\w+))?")


class Unserializable(Exception):
    """A value of a CompiledGraph that the file format has no form for; the message names it."""


def encode(compiled: CompiledGraph) -> dict[str, Any]:
    """The fields of `compiled`, without model and timings, as plain JSON.

    :raises Unserializable: a Python constant or a view operator that has no form in a file
    """
    return {
        f.name: encode_value(getattr(compiled, f.name))
        for f in dataclasses.fields(compiled)
        if f.name not in _OMITTED
    }


def decode(fields: Mapping[str, Any], **others: Any) -> CompiledGraph:
    """The CompiledGraph of what `encode` returned; `others` are the fields that it left out.

    :raises Exception: any, when `fields` were not made by `encode`
    """
    return CompiledGraph(**_fitting(CompiledGraph, fields), **others)


def encode_whole(compiled: CompiledGraph) -> tuple[dict[str, Any], bytes]:
    """The fields of `compiled`, and its model as bytes.

    :raises Unserializable: the message says why no file can have it
    """
    try:
        fields = encode(compiled)
        model = compiled.model.SerializeToString()
    except Unserializable as exc:
        raise Unserializable(f"it holds {exc}") from None
    except Exception as exc:  # protobuf: more than it holds
        raise Unserializable(f"its model cannot be serialized: {exc}") from None
    if not _is_self_contained(compiled.model):
        raise Unserializable("its model keeps tensors in files of its own")
    return fields, model


def decode_whole(fields: Mapping[str, Any], content: Any, **others: Any) -> CompiledGraph:
    """The inverse of `encode_whole`, with `others`; any exception for what that did not make."""
    model = ModelProto.FromString(bytes(content))
    if not _is_self_contained(model):
        raise ValueError("it reads other files")
    return decode(fields, model=model, cache="disk", **others)


def _is_self_contained(model: ModelProto) -> bool:
    """Whether no tensor of the model stands in another file."""
    tensors: list[TensorProto] = list(model.graph.initializer)
    tensors += [part for s in model.graph.sparse_initializer for part in (s.values, s.indices)]
    stack = [*model.graph.node, *(node for each in model.functions for node in each.node)]
    while stack:
        for att in stack.pop().attribute:
            tensors += [att.t, *att.tensors]
            for inner in (att.g, *att.graphs):
                tensors += inner.initializer
                stack += inner.node
    return all(tensor.data_location != TensorProto.EXTERNAL for tensor in tensors)


def encode_value(value: Any) -> Any:
    """A field of a role, or an argument of an operator, as plain JSON.

    :raises Unserializable: it has no form in a file
    """
    kind: type = value.__class__
    if kind in (bool, int, str) or value is None:
        return value
    if kind is tuple or kind is torch.Size:
        return [encode_value(item) for item in value]
    if isinstance(value, enum.Enum) and kind.__name__ in _ENUMS:
        return {kind.__name__: value.value}
    if kind in _RECORDS.values():
        return {kind.__name__: _encode_record(value)}
    if kind is SymDim:
        return {"dim": to_picklable(value)}
    if kind is float:
        return {"float": value.hex()}
    if isinstance(value, list):
        return {"list": [encode_value(item) for item in value]}
    if isinstance(value, Mapping):
        return {"dict": [[encode_value(k), encode_value(v)] for k, v in value.items()]}
    if kind is frozenset:
        return {"set": sorted(map(encode_value, value))}
    if kind in (torch.dtype, torch.memory_format, torch.layout):
        return {"torch": str(value)}
    if kind is torch.device:
        return {"device": str(value)}
    return {"view": _view_name(value)}


def _encode_record(value: Any) -> dict[str, Any]:
    """The fields of a role that differ from their defaults."""
    return {
        f.name: encode_value(item)
        for f in dataclasses.fields(value)
        if (item := getattr(value, f.name)) is not f.default
    }


def _is_view(op: Any) -> bool:
    """Whether `op` may be a step from a tensor to a view of it; an unsafe view is one although
    torch does not count it."""
    overload = isinstance(op, OpOverload)
    return overload and (op.is_view or op.name() in traits.UNSAFE_VIEW)


def _view_name(op: Any) -> str:
    if op is operator.getitem:
        return "getitem"
    if _is_view(op) and _VIEW.fullmatch(op.name()):
        return str(op.name())
    raise Unserializable(f"{op!r}, a {type(op).__name__}")


def _view(name: str) -> Any:
    """The view operator of torch called `name`."""
    if name == "getitem":
        return operator.getitem
    found = _VIEW.fullmatch(name)
    packet = getattr(torch.ops.aten, found[1], None) if found else None
    op = getattr(packet, (found[2] or "default") if found else "", None)
    if not _is_view(op):
        raise ValueError(f"{name!r} is no view operator of torch")
    return op


def _dim(flat: Any) -> Any:
    dim = from_picklable(flat)
    if not isinstance(dim, SymDim):
        raise ValueError("a dimension that is no polynomial")
    return dim


_DECODERS: dict[str, Callable[[Any], Any]] = {
    "dim": _dim,
    "float": float.fromhex,
    "list": lambda items: [decode_value(item) for item in items],
    "dict": lambda items: {decode_value(k): decode_value(v) for k, v in items},
    "set": lambda items: frozenset(decode_value(item) for item in items),
    "torch": lambda name: _TORCH[name],
    "device": torch.device,
    "view": _view,
}


def _fitting(record: type, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The decoded fields of a record, each of the type that the record declares: numbers of these
    become source text that is run, so that a text in the place of one would be code."""
    hints = _hints(record)
    found = {name: decode_value(value) for name, value in fields.items()}
    for name, value in found.items():
        if name not in hints or not _fits(value, hints[name]):
            raise ValueError(f"{record.__name__}.{name} is {value!r:.60}")
    return found


@functools.cache
def _hints(record: type) -> dict[str, Any]:
    return get_type_hints(record)


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is of a type as the roles declare it."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin in (types.UnionType, Union):
        return any(_fits(value, each) for each in inner)
    if origin is tuple:
        return isinstance(value, tuple) and all(_fits(item, inner[0]) for item in value)
    if origin is frozenset:
        return isinstance(value, frozenset) and all(_fits(item, inner[0]) for item in value)
    if origin in (dict, Mapping):
        return isinstance(value, dict) and all(
            _fits(key, inner[0]) and _fits(item, inner[1]) for key, item in value.items()
        )
    if hint is int:  # bool is a class of int, which every place takes
        return type(value) in (int, bool)
    return isinstance(value, hint)


def decode_value(value: Any) -> Any:
    """What `encode_value` was given; raises any exception where nothing was."""
    if isinstance(value, list):
        return tuple(decode_value(item) for item in value)
    if not isinstance(value, dict):
        return value
    ((tag, content),) = value.items()
    if tag in _RECORDS:
        return _RECORDS[tag](**_fitting(_RECORDS[tag], content))
    if tag in _ENUMS:
        return _ENUMS[tag](content)
    return _DECODERS[tag](content)
