"""Turns the arguments of an FX node into what converters take: result names, numbers, symbolic
dimensions, ONNX types. One function call per argument, decided by the exact class of the argument;
no reflection."""

from __future__ import annotations

import keyword
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.fx import Node

from ortable.prelude.complex_value import ComplexValue

from .. import dims, dtypes

# Every torch dtype that ONNX can name, looked up once.
ELEMENT_TYPES: dict[torch.dtype, int] = {}
for _name in dir(torch):
    _value = getattr(torch, _name)
    if isinstance(_value, torch.dtype) and _value not in ELEMENT_TYPES:
        try:
            ELEMENT_TYPES[_value] = dtypes.from_torch(_value)
        except ValueError:  # torch has types, such as the quantized ones, that ONNX lacks
            continue
del _name, _value

PLAIN = frozenset(
    {int, float, bool, str, complex, type(None), torch.device, torch.layout, torch.memory_format}
)


def convert_argument(
    value: Any, values: Mapping[Node, Any], rename: Mapping[str, str] | None
) -> Any:
    """One argument: nodes become what they were converted to, torch dtypes become ONNX types,
    containers are rebuilt."""
    kind = value.__class__
    if kind is Node:
        return values[value]
    if kind in PLAIN:
        return value
    if isinstance(value, (list, tuple)):
        items = [convert_argument(item, values, rename) for item in value]
        return items if isinstance(value, list) else tuple(items)
    if kind is torch.dtype:
        return ELEMENT_TYPES.get(value, value)
    if kind is torch.SymInt:
        return dims.from_torch(value, rename)
    if kind is slice:
        return slice(
            convert_argument(value.start, values, rename),
            convert_argument(value.stop, values, rename),
            convert_argument(value.step, values, rename),
        )
    if isinstance(value, dict):
        return {key: convert_argument(item, values, rename) for key, item in value.items()}
    return value


def convert_arguments(
    node: Node, values: Mapping[Node, Any], rename: Mapping[str, str] | None
) -> tuple[list[Any], dict[str, Any]]:
    """Arguments and keyword arguments of ``node`` for a converter; ``from`` is called ``from_``
    there."""
    args = [convert_argument(arg, values, rename) for arg in node.args]
    kwargs = {
        (name + "_" if keyword.iskeyword(name) else name): convert_argument(arg, values, rename)
        for name, arg in node.kwargs.items()
    }
    return args, kwargs


def contains_result(values: Sequence[Any]) -> bool:
    """True when a converted argument is, or holds, the name of a result."""
    return any(
        isinstance(value, (str, ComplexValue))
        or (isinstance(value, (list, tuple)) and contains_result(value))
        for value in values
    )
