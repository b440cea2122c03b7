"""ONNX graphs of both exporters in ONNX Runtime: torch.onnx's graph of an ExportedProgram, sessions
that all have the same options, operators of a graph, how far results lie apart. The `measure`
modules of the topics call it."""

from __future__ import annotations

import contextlib
import io
import logging
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch


def quiet() -> None:
    """No warnings and no progress lines: they are not what is measured."""
    warnings.simplefilter("ignore")
    for name in ("torch.onnx", "onnxscript", "transformers", "torch.export"):
        logging.getLogger(name).setLevel(logging.ERROR)


def torch_onnx(
    ep: torch.export.ExportedProgram, opset: int | None = None
) -> torch.onnx.ONNXProgram:
    """``torch.onnx.export(ep, dynamo=True)`` with its optimizer, without its progress lines; None
    is the opset that torch takes by default."""
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(ep, dynamo=True, opset_version=opset, verbose=False)
    assert program is not None
    return program


def session_options(threads: int) -> Any:
    """So many threads, and else what ONNX Runtime does by itself, as its users run it. Its threads
    wait busily after a call; `settle` waits for their end before the next candidate runs."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    return options


def session(model: Any, threads: int) -> Any:
    """A session; weights beside the model in a file, when
    they do not fit into one."""
    import onnx
    import onnxruntime

    options = session_options(threads)
    providers = ["CPUExecutionProvider"]
    if model.ByteSize() < 2**31:
        return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=providers)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model.onnx")
        onnx.save(model, path, save_as_external_data=True, convert_attribute=False)
        return onnxruntime.InferenceSession(path, options, providers=providers)


def operators(graph: Any) -> list[str]:
    """Operators of the graph and of the graphs inside its nodes."""
    found = []
    for node in graph.node:
        found.append(node.op_type)
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                found += operators(inner)
    return found


def difference(value: Any, wanted: torch.Tensor) -> float:
    """Largest difference, relative to the largest value."""
    if not wanted.is_floating_point() or not wanted.numel():
        return float(not torch.equal(torch.as_tensor(value), wanted))
    given = torch.as_tensor(value)
    same = (given == wanted) | (given.isnan() & wanted.isnan())
    gap = (given - wanted).abs().nan_to_num(float("inf")).masked_fill(same, 0.0)
    finite = wanted[wanted.isfinite()].abs()
    return float(gap.max() / (finite.max().clamp_min(1e-12) if finite.numel() else 1.0))
