"""A model in a few lines: its inputs and outputs with dtypes and shapes, opsets, number of nodes,
size of the weights. In comes a ModelProto or LargeModel, out goes the text. Called by
program.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnx import ModelProto, ValueInfoProto

from ortable import dtypes
from ortable.ir import initializers

from .sessions import proto_of

_SHOWN = 8  # inputs and outputs each


def described(model: Any, ranges: Sequence[tuple[str, int | None, int | None]] = ()) -> str:
    """The lines of ``repr(program)``; ``ranges`` are the sizes that the program takes, with None
    where there is no bound."""
    proto = proto_of(model)
    inputs, outputs = list(proto.graph.input), list(proto.graph.output)
    width = max((len(value.name) for value in (*inputs[:_SHOWN], *outputs[:_SHOWN])), default=0)
    lines = [f"OnnxProgram {proto.graph.name}, {_opsets(proto)}"]
    lines += _values("inputs", inputs, width)
    lines += _values("outputs", outputs, width)
    bounds = [
        f"{name} from {lower}" if upper is None else f"{name} {lower or 1} to {upper}"
        for name, lower, upper in ranges
        if (lower or 0) > 1 or upper is not None
    ]
    if bounds:
        lines.append(f"  {'sizes':<8} {', '.join(dict.fromkeys(bounds))}")
    lines.append(f"  {'graph':<8} {_counts(model)}")
    return "\n".join(lines)


def value_text(value: ValueInfoProto) -> str:
    """``float32[batch, 3]``."""
    tensor = value.type.tensor_type
    shape = [dim.dim_param or str(dim.dim_value) for dim in tensor.shape.dim]
    return f"{dtypes.name(tensor.elem_type)}[{', '.join(shape)}]"


def _opsets(proto: ModelProto) -> str:
    found = [f"{each.domain or 'opset'} {each.version}" for each in proto.opset_import]
    return ", ".join(sorted(found, key=lambda text: not text.startswith("opset ")))


def _values(title: str, values: Sequence[ValueInfoProto], width: int) -> list[str]:
    shown = [f"{value.name:<{width}}  {value_text(value)}" for value in values[:_SHOWN]]
    if len(values) > _SHOWN:
        shown.append(f"... and {len(values) - _SHOWN} more")
    heads = [title, *[""] * len(shown)]
    return [f"  {head:<8} {line}" for head, line in zip(heads, shown or ["none"], strict=False)]


def _counts(model: Any) -> str:
    proto = proto_of(model)
    tensors = getattr(model, "tensors", {})
    total = sum(
        initializers.nbytes_of(tensors.get(tensor.name, tensor))
        for tensor in proto.graph.initializer
    )
    parts = [
        _many(len(proto.graph.node), "node"),
        f"{_many(len(proto.graph.initializer), 'initializer')} of {_bytes(total)}",
    ]
    if proto.functions:
        parts.append(_many(len(proto.functions), "local function"))
    outside = len(tensors) + len(getattr(model, "nested", {}))
    if outside:
        parts.append(f"{outside} of them outside of the ModelProto")
    return ", ".join(parts)


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def _bytes(count: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return _many(count, "byte")
