"""Convert the output node of an FX graph, and record the roles of inputs and outputs.

`declare_outputs` classifies each leaf of the flattened output and makes ONNX outputs for the leaves
that need one. An Identity node gives each output its name; the identity pass may remove it later.
"""

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
    """Role of a placeholder of the FX graph.

    ``name`` is the ONNX input (roles ``tensor`` and ``dimension``) or the initializer, else None; a
    complex initializer has none. An ``unused`` input is a weight that no node reads. ``value`` is
    the dimension (role ``dimension``), or the number, string or enum member (role ``constant``).
    """

    index: int
    fx_name: str
    role: InputRole
    name: str | None = None
    value: Any = None


@dataclass(frozen=True)
class OutputRecord:
    """Role of leaf ``index`` of the flattened FX output.

    ``name`` is the ONNX output, or None. ``source`` is the returned result, input or initializer
    (for a ``duplicate``, that of an earlier output). ``value`` is the dimension (role
    ``dimension``) or number (role ``constant``). ``fx_name`` names the FX node; None: a literal.
    """

    index: int
    role: OutputRole
    name: str | None = None
    source: str | None = None
    value: Any = None
    fx_name: str | None = None


def flatten_output(value: Any) -> Iterator[Any]:
    """Yield the leaves of nested tuples, lists and dicts: ``(a, [b, {"k": c}])`` has a, b, c."""
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from flatten_output(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from flatten_output(item)
    else:
        yield value


def classify_output(
    graph: Graph, index: int, leaf: Any, value: Any, first_outputs: dict[str, int]
) -> OutputRecord:
    """Return the record of output ``index``, without the name of an ONNX output.

    ``leaf`` is the leaf of the FX output, and ``value`` its converted value. ``first_outputs`` maps
    results to the index of the first output that returns them; ``value`` is added to it. Raises
    ConversionError if an ONNX model cannot return the value.
    """
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
            "can only return tensors and numbers. Do not return it from forward"
        )
    if isinstance(value, (list, tuple)):
        raise ConversionError(
            f"result {index} of the model is a sequence of all {len(value)} results of node "
            f"'{leaf.name}': return them one by one, or give example inputs (`args`)"
        )
    role: OutputRole = "tensor"
    if value in first_outputs:
        role = "duplicate"
    elif value in graph.initializers_dict:
        role = "initializer"
    elif any(info.name == value for info in graph.inputs):
        role = "input"
    first_outputs.setdefault(value, index)
    return OutputRecord(index, role, source=value, fx_name=fx_name)


def emit_output(graph: Graph, record: OutputRecord, name: str) -> str:
    """Make the ONNX output ``name`` for a record, and return its name.

    Numbers become 0-d tensors of bool, int64, float64 or complex128, dimensions of int64.
    """
    result = record.source
    if record.role == "constant":
        # numpy's dtype of an int depends on the platform; that of other numbers does not
        has_fixed_dtype = isinstance(record.value, bool | float | complex)
        dtype = None if has_fixed_dtype else np.int64
        result = graph.make_initializer("", np.array(record.value, dtype))
    elif record.role == "dimension":
        result = as_scalar(graph, record.value)
    graph.make_node("Identity", [result], [name])
    info = graph.values[name]
    graph.make_tensor_output(name, info.dtype, info.shape, indexed=False)
    return name


def is_number(value: Any) -> bool:
    """Whether a value is a Python number or a symbolic number of torch."""
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
    """Classify the leaves of the FX output and declare the ONNX outputs.

    ``values`` are the converted leaves, and ``names`` the names of the outputs for all leaves
    (default: ``output_0``, ...). ``order`` has the indices of the leaves in the order of the ONNX
    outputs (default: that of the leaves). With ``bypass``, only leaves of the role ``tensor``
    become outputs. Returns the records in the order of the leaves. Raises ConversionError if the
    number of names differs from the number of leaves.
    """
    first_outputs: dict[str, int] = {}
    records = [
        classify_output(graph, index, leaf, value, first_outputs)
        for index, (leaf, value) in enumerate(zip(leaves, values, strict=True))
    ]
    output_names = (
        names if names is not None else [f"output_{index}" for index in range(len(records))]
    )
    if len(output_names) != len(records):
        raise ConversionError(
            f"{len(output_names)} output names are given for {len(records)} outputs: "
            f"{list(output_names)}"
        )
    for index in order if order is not None else range(len(records)):
        record = records[index]
        if record.role == "none" or (bypass and record.role != "tensor"):
            continue
        name = output_names[index]
        if graph.has_name(name):
            name = graph.unique_name(name)
        records[index] = replace(record, name=emit_output(graph, record, name))
    return records
