"""Converts a cell of the matrix and compares what it computes. In comes a cell with an opset and a
set of rules, out goes what was written. Called by the tests beside it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from onnx.reference import ReferenceEvaluator
from torch._ops import OperatorBase

import ortable

from .cells import Cell, Tensors
from .forms import kinds


@dataclass(frozen=True)
class Written:
    """A converted cell: which attention nodes it has, and which rules have fired."""

    model: onnx.ModelProto
    kinds: tuple[str, ...]
    rules: frozenset[str]


def exported(cell: Cell) -> torch.export.ExportedProgram:
    """The cell as torch exports it."""
    with torch.no_grad():
        return torch.export.export(cell.module, cell.draws[0], dynamic_shapes=cell.dynamic)


def converted(
    program: torch.export.ExportedProgram, target: Any, rules: Sequence[str], opset: int
) -> Written:
    """The program at that opset, with these rules."""
    model, builder = ortable.to_onnx(
        program, target=target, rewrites=list(rules), target_opset=opset, return_builder=True
    )
    fired = {name for name, count in builder.record.rewrites.counts().items() if count}
    called = [node.target for node in program.graph.nodes if node.op == "call_function"]
    fired.update(each.name() for each in called if isinstance(each, OperatorBase))
    if "scan" in fired and not any(node.op_type == "Scan" for node in model.graph.node):
        fired.add("passes/scanned_attention.py")
    return Written(model, tuple(kinds(model)), frozenset(fired))


def wanted(cell: Cell) -> list[list[np.ndarray]]:
    """What eager computes of each draw."""
    with torch.no_grad():
        found = [cell.module(*draw) for draw in cell.draws]
    return [[each.numpy() for each in (x if isinstance(x, tuple | list) else (x,))] for x in found]


def compare(cell: Cell, written: Written, eager: list[list[np.ndarray]], reference: bool) -> None:
    """ONNX Runtime with all of its optimizations computes what eager does; so does
    ``onnx.reference``, where it has the operators."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    data = written.model.SerializeToString()
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    names = [each.name for each in written.model.graph.input]
    for draw, told in zip(cell.draws, eager, strict=True):
        feeds = _feeds(names, draw)
        if cell.empty and written.kinds:
            assert all(np.isnan(each).any() for each in told), "no row is empty"
            told = [np.nan_to_num(each, posinf=np.inf, neginf=-np.inf) for each in told]
        _same(cell, "ONNX Runtime", session.run(None, feeds), told)
        if reference and cell.reference:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                found = ReferenceEvaluator(written.model).run(None, feeds)
            _same(cell, "onnx.reference", found, told)


def _feeds(names: Sequence[str], draw: Tensors) -> dict[str, np.ndarray]:
    given = [each.numpy() for each in draw if each is not None]
    return dict(zip(names, given, strict=True))


def _same(cell: Cell, who: str, found: Sequence[Any], told: Sequence[np.ndarray]) -> None:
    for place, (a, b) in enumerate(zip(found, told, strict=True)):
        assert (a.shape, a.dtype) == (b.shape, b.dtype), f"{who}, result {place}"
        np.testing.assert_allclose(
            a, b, cell.tolerance, cell.tolerance, err_msg=f"{who}, result {place}"
        )
