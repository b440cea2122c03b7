"""Helpers to export with torch.onnx, to make sessions with equal options, to compare results."""

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
    """Disable warnings and progress lines."""
    warnings.simplefilter("ignore")
    for name in ("torch.onnx", "onnxscript", "transformers", "torch.export"):
        logging.getLogger(name).setLevel(logging.ERROR)


def torch_onnx(
    ep: torch.export.ExportedProgram, opset: int | None = None
) -> torch.onnx.ONNXProgram:
    """Export and optimize with torch.onnx; opset None is the default opset of torch.onnx."""
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(ep, dynamo=True, opset_version=opset, verbose=False)
    assert program is not None
    return program


def session_options(threads: int) -> Any:
    """Return ONNX Runtime's default options, with this number of threads.

    Worker threads spin after a call, so the timing helpers pause between candidates.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    return options


def session(model: Any, threads: int) -> Any:
    """Return a session; weights of 2 GB or more go to an external file."""
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
    """List the operator types of the graph and of its subgraphs."""
    op_types = []
    for node in graph.node:
        op_types.append(node.op_type)
        for attribute in node.attribute:
            for subgraph in (attribute.g, *attribute.graphs):
                op_types += operators(subgraph)
    return op_types


def difference(value: Any, expected: torch.Tensor) -> float:
    """Return the largest absolute error, relative to the largest finite expected value."""
    if not expected.is_floating_point() or not expected.numel():
        return float(not torch.equal(torch.as_tensor(value), expected))
    result = torch.as_tensor(value)
    equal = (result == expected) | (result.isnan() & expected.isnan())
    error = (result - expected).abs().nan_to_num(float("inf")).masked_fill(equal, 0.0)
    finite = expected[expected.isfinite()].abs()
    return float(error.max() / (finite.max().clamp_min(1e-12) if finite.numel() else 1.0))
