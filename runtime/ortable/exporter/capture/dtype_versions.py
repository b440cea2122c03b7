"""Element types that only newer opsets of ONNX have (float8 from 19 on, float8_e8m0fnu from 24 on):
a conversion that fails over one says which opset to ask for. to_onnx converts inside
``needing_opset``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.fx import GraphModule, Node

from ortable import dtypes
from ortable.errors import ExportError, OrtableError, UnsupportedDtype
from ortable.exporter.request.program import Program
from ortable.ir.schemas import find_schema, versions_of


@contextmanager
def needing_opset(program: Program, opset: int) -> Iterator[None]:
    """Raise ExportError in place of an error of the conversion, which is its cause, when the graph
    has a tensor of a dtype that ONNX does not have at ``opset``."""
    try:
        yield
    except OrtableError as error:
        found = _newer(program, opset)
        if found is None:
            raise
        node, dtype, first = found
        spelled = str(dtype).removeprefix("torch.")
        where = str(node.meta.get("stack_trace") or "").strip().splitlines()
        raise ExportError(
            f"the model computes with {spelled} (node '{node.name}'), which ONNX has from opset "
            f"{first} on, and the target is opset {opset}: give target_opset={first} or a later one"
            + "".join(f"\n    {line.strip()}" for line in where[-2:])
        ) from error


def _newer(program: Program, opset: int) -> tuple[Node, torch.dtype, int] | None:
    """The first node with a dtype newer than ``opset``, the dtype, and the opset that has it."""
    seen: set[torch.dtype] = set()
    for module in program.graph_module.modules():
        if not isinstance(module, GraphModule):
            continue
        for node in module.graph.nodes:
            value = node.meta.get("val")
            for each in value if isinstance(value, (list, tuple)) else (value,):
                if not isinstance(each, torch.Tensor) or each.dtype in seen:
                    continue
                seen.add(each.dtype)
                first = _first_opset(each.dtype)
                if first is not None and first > opset:
                    return node, each.dtype, first
    return None


def _first_opset(dtype: torch.dtype) -> int | None:
    """The first opset whose Cast takes ``dtype``, None when there is none."""
    try:
        element = dtypes.from_torch(dtype)
    except UnsupportedDtype:  # complex32, quantized types: the conversion's own error says so
        return None
    for version in versions_of("Cast"):
        schema = find_schema("Cast", "", version)
        if schema is not None and element in schema.legal["T1"]:
            return version
    return None
