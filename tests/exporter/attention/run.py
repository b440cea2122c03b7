"""Convert a cell of the matrix with an opset and rules, and compare its results."""

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
    """A converted cell, its kinds of attention nodes, and the rules that fired."""

    model: onnx.ModelProto
    kinds: tuple[str, ...]
    rules: frozenset[str]


def exported(cell: Cell) -> torch.export.ExportedProgram:
    """Return the exported program of a cell."""
    with torch.no_grad():
        return torch.export.export(cell.module, cell.calls[0], dynamic_shapes=cell.dynamic)


def converted(
    program: torch.export.ExportedProgram, target: Any, rules: Sequence[str], opset: int
) -> Written:
    """Convert the program at an opset with these rules."""
    model, builder = ortable.to_onnx(
        program, target=target, rewrites=list(rules), target_opset=opset, return_builder=True
    )
    fired = {name for name, count in builder.record.rewrites.counts().items() if count}
    targets = [node.target for node in program.graph.nodes if node.op == "call_function"]
    fired.update(overload.name() for overload in targets if isinstance(overload, OperatorBase))
    if "scan" in fired and not any(node.op_type == "Scan" for node in model.graph.node):
        fired.add("passes/scanned_attention.py")
    return Written(model, tuple(kinds(model)), frozenset(fired))


def wanted(cell: Cell) -> list[list[np.ndarray]]:
    """Return the results of eager for each call."""
    with torch.no_grad():
        results = [cell.module(*call) for call in cell.calls]
    return [[t.numpy() for t in (x if isinstance(x, tuple | list) else (x,))] for x in results]


def compare(cell: Cell, written: Written, eager: list[list[np.ndarray]], reference: bool) -> None:
    """Check ONNX Runtime with its optimizations, and ``onnx.reference``, against eager."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    data = written.model.SerializeToString()
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    names = [value.name for value in written.model.graph.input]
    for call, expected in zip(cell.calls, eager, strict=True):
        feeds = _feeds(names, call)
        if cell.empty and written.kinds:
            assert all(np.isnan(array).any() for array in expected), "no row is empty"
            expected = [np.nan_to_num(array, posinf=np.inf, neginf=-np.inf) for array in expected]
        _check(cell, "ONNX Runtime", session.run(None, feeds), expected)
        if reference and cell.reference:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                results = ReferenceEvaluator(written.model).run(None, feeds)
            _check(cell, "onnx.reference", results, expected)


def _feeds(names: Sequence[str], call: Tensors) -> dict[str, np.ndarray]:
    arrays = [tensor.numpy() for tensor in call if tensor is not None]
    return dict(zip(names, arrays, strict=True))


def _check(
    cell: Cell, runtime: str, results: Sequence[Any], expected: Sequence[np.ndarray]
) -> None:
    for index, (a, b) in enumerate(zip(results, expected, strict=True)):
        assert (a.shape, a.dtype) == (b.shape, b.dtype), f"{runtime}, result {index}"
        np.testing.assert_allclose(
            a, b, cell.tolerance, cell.tolerance, err_msg=f"{runtime}, result {index}"
        )
