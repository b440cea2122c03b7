"""Types, tensors and attributes as short texts, for the labels of pictures. Called by `read`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from onnx import AttributeProto, TensorProto, TypeProto

from ortable import dtypes
from ortable.errors import BuilderError
from ortable.ir.initializers import proto_to_numpy

__all__ = ["attribute_text", "tensor_type_text", "tensor_value_text", "type_text"]

_DTYPES = ("to", "dtype")  # attributes whose number is an element type
_LONGEST = 36  # characters of a value
_SHOWN = 6  # integers of a constant that are shown in place of its type


def type_text(proto: TypeProto) -> str:
    """``float32[batch, 3]``; empty when nothing is known."""
    kind = proto.WhichOneof("value")
    if kind == "tensor_type":
        tensor = proto.tensor_type
        if not tensor.elem_type:
            return ""
        if not tensor.HasField("shape"):
            return dtypes.name(tensor.elem_type)
        dims = [
            d.dim_value if d.HasField("dim_value") else (d.dim_param or "?")
            for d in tensor.shape.dim
        ]
        return tensor_type_text(tensor.elem_type, dims)
    if kind == "sequence_type":
        return f"sequence of {type_text(proto.sequence_type.elem_type)}"
    if kind == "optional_type":
        return f"optional {type_text(proto.optional_type.elem_type)}"
    return ""


def tensor_type_text(dtype: int, dims: Iterable[int | str]) -> str:
    """``float32[3, 4]``."""
    return f"{dtypes.name(dtype)}[{', '.join(map(str, dims))}]"


def tensor_value_text(tensor: TensorProto) -> str:
    """The value of a number or of a few integers, when it is in the model; otherwise empty."""
    if tensor.data_location == TensorProto.EXTERNAL or tensor.data_type == TensorProto.STRING:
        return ""
    count = math.prod(tensor.dims)
    most = _SHOWN if not dtypes.is_float_type(tensor.data_type) else 1
    if count > most or len(tensor.dims) > 1:
        return ""
    try:
        values = proto_to_numpy(tensor)
    except BuilderError:
        return ""
    return _shortened(_values_text(values.tolist()))


def attribute_text(attribute: AttributeProto) -> str:
    """The value of an attribute."""
    if attribute.ref_attr_name:
        return f"attribute {attribute.ref_attr_name} of the call"
    if attribute.type == AttributeProto.TENSOR:
        tensor = attribute.t
        return tensor_value_text(tensor) or tensor_type_text(tensor.data_type, tensor.dims)
    if attribute.type == AttributeProto.STRING:
        return _shortened(attribute.s.decode(errors="replace"))
    if attribute.type == AttributeProto.STRINGS:
        return _shortened(", ".join(text.decode(errors="replace") for text in attribute.strings))
    if attribute.type == AttributeProto.FLOAT:
        return _values_text(attribute.f)
    if attribute.type == AttributeProto.INT:
        return dtypes.name(attribute.i) if attribute.name in _DTYPES else str(attribute.i)
    if attribute.type == AttributeProto.TYPE_PROTO:
        return type_text(attribute.tp)
    return _shortened(_values_text([*attribute.ints, *attribute.floats]))


def _values_text(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_values_text, value))}]"
    if isinstance(value, float):
        return f"{value:.5g}"
    return str(value)


def _shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}\N{HORIZONTAL ELLIPSIS}"
