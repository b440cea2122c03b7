"""What inputs and outputs of an FX graph became, as typed records; and the output node: nested
structures flattened, each entry classified, and ONNX outputs made for those that need one. A result
keeps its own name inside; an Identity gives it the output's, and the identity pass removes that
where it may."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from torch.fx import Node

from ortable.ir import Graph
from ortable.prelude.values import as_scalar

from .. import dims
from ..errors import ConversionError

InputRole = Literal["tensor", "dimension", "constant", "none", "initializer", "unused"]
OutputRole = Literal["tensor", "dimension", "constant", "none", "input", "initializer", "duplicate"]


@dataclass(frozen=True)
class InputRecord:
    """Placeholder number ``index`` of the FX graph.

    ``name`` is the ONNX input (roles ``tensor`` and ``dimension``) or initializer, None when the
    graph has neither; ``value`` is the dimension of a ``dimension`` and the number of a
    ``constant``.
    """

    index: int
    fx_name: str
    role: InputRole
    name: str | None = None
    value: Any = None


@dataclass(frozen=True)
class OutputRecord:
    """Entry number ``index`` of the flattened FX output.

    ``name`` is the ONNX output that holds it, None when the ONNX graph has none; ``source`` is the
    result, input or initializer it comes from (for a ``duplicate``, the first result returned);
    ``value`` is the number of a ``constant`` or the dimension of a ``dimension``; ``fx_name`` is
    the FX node, None for a literal.
    """

    index: int
    role: OutputRole
    name: str | None = None
    source: str | None = None
    value: Any = None
    fx_name: str | None = None


def flatten_output(value: Any) -> Iterator[Any]:
    """Leaves of the argument of an output node: tuples, lists and dicts are opened, everything else
    is a leaf."""
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from flatten_output(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from flatten_output(item)
    else:
        yield value


def classify_output(
    graph: Graph, index: int, leaf: Any, value: Any, seen: dict[str, int]
) -> OutputRecord:
    """The record of output ``index``, before it has an ONNX name."""
    fx_name = leaf.name if isinstance(leaf, Node) else None
    if value is None:
        return OutputRecord(index, "none", fx_name=fx_name)
    if isinstance(value, dims.SymDim):
        return OutputRecord(index, "dimension", value=value, fx_name=fx_name)
    if isinstance(value, (bool, int, float, complex)):
        return OutputRecord(index, "constant", value=value, fx_name=fx_name)
    if not isinstance(leaf, Node):
        raise ConversionError(
            f"result {index} of the model is {leaf!r:.80} ({type(leaf).__name__}): an ONNX model "
            "returns tensors and numbers. Leave it out of what forward returns"
        )
    if isinstance(value, (list, tuple)):
        raise ConversionError(
            f"result {index} of the model is all {len(value)} results of node '{leaf.name}' in "
            "one: return its parts, one by one, or give example inputs (`args`)"
        )
    role: OutputRole = "tensor"
    if value in seen:
        role = "duplicate"
    elif value in graph.initializers_dict:
        role = "initializer"
    elif any(info.name == value for info in graph.inputs):
        role = "input"
    seen.setdefault(value, index)
    return OutputRecord(index, role, source=value, fx_name=fx_name)


def emit_output(graph: Graph, record: OutputRecord, name: str) -> str:
    """Make the ONNX output ``name`` for one record, and return its name.

    Numbers and dimensions are 0-d tensors: int64 for int, bool for bool, float64 for float (torch's
    Python scalars).
    """
    result = record.source
    if record.role == "constant":
        others = isinstance(record.value, bool | float | complex)  # numpy's dtypes are torch's
        dtype = None if others else np.int64
        result = graph.make_initializer("", np.array(record.value, dtype))
    elif record.role == "dimension":
        result = as_scalar(graph, record.value)
    graph.make_node("Identity", [result], [name])
    info = graph.values[name]
    graph.make_tensor_output(name, info.dtype, info.shape, indexed=False)
    return name


def is_number(value: Any) -> bool:
    """Python numbers and torch's symbolic ones."""
    return isinstance(
        value, (bool, int, float, complex, torch.SymInt, torch.SymFloat, torch.SymBool)
    )


def declare_outputs(
    graph: Graph,
    leaves: Sequence[Any],
    values: Sequence[Any],
    names: Sequence[str] | None,
    order: Sequence[int] | None,
    bypass: bool,
) -> list[OutputRecord]:
    """Classify every leaf of the output and declare the ONNX outputs, in ``order``; returns the
    records in FX order.

    With ``bypass`` only computed tensors that were not returned before become ONNX outputs.
    Raises ConversionError when the number of names is another one than that of outputs.
    """
    seen: dict[str, int] = {}
    records = [
        classify_output(graph, index, leaf, value, seen)
        for index, (leaf, value) in enumerate(zip(leaves, values, strict=True))
    ]
    labels = names if names is not None else [f"output_{index}" for index in range(len(records))]
    if len(labels) != len(records):
        raise ConversionError(
            f"{len(labels)} output names were given for {len(records)} outputs: {list(labels)}"
        )
    for index in order if order is not None else range(len(records)):
        record = records[index]
        if record.role == "none" or (bypass and record.role != "tensor"):
            continue
        name = labels[index]
        if graph.has_name(name):
            name = graph.unique_name(name)
        records[index] = replace(record, name=emit_output(graph, record, name))
    return records
