"""Measure one layer: milliseconds of every candidate in turns, and operators of ONNX Runtime."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import ortable
from benchmarks.measure import band, reason
from benchmarks.sessions import difference, quiet, session, torch_onnx
from ortable.backend.timing import median_ratio, time_interleaved

from .layers import build
from .operators import OPERATORS

CANDIDATES = ("eager", "ortable", "our session", "torch.onnx", "operator")
_AGAIN = "our session again"

Call = Callable[[], Any]


def measure(name: str, rounds: int, candidates: list[str], threads: int) -> dict[str, Any]:
    """Measure medians in ms, ratios, operators, errors against eager, and failures of one layer."""
    quiet()
    module, args = build(name)
    calls: dict[str, Call] = {}
    failed: dict[str, str] = {}
    exported = _export_layer(module, args)
    makers = {
        "eager": lambda: lambda: module(*args),
        "ortable": lambda: _make_compiled_call(module, args),
        "our session": lambda: _make_session_call(exported, args, threads),
        "torch.onnx": lambda: _make_peer_call(module, args, threads),
        "operator": lambda: OPERATORS[name](module, args, threads),
    }
    expected = module(*args)
    differences = {}
    for candidate in candidates:
        if candidate == "operator" and name not in OPERATORS:
            continue
        try:
            call = makers[candidate]()
            differences[candidate] = _compare_first(call(), expected)
        except Exception as error:
            failed[candidate] = reason(_get_cause(error))
        else:
            calls[candidate] = call
    if "our session" in calls:
        calls[_AGAIN] = calls["our session"]
    seconds = time_interleaved(calls, rounds)
    nodes = Counter(node.op_type for node in exported.graph.node)
    kernels = sorted({n.op_type for n in exported.graph.node if n.domain == "com.microsoft"})
    return {
        "layer": name,
        "ms": {key: float(np.median(value)) * 1e3 for key, value in seconds.items()},
        "ratio": {
            key: median_ratio(seconds, "our session", key)
            for key in seconds
            if "our session" in seconds and key != _AGAIN
        },
        "band": band(seconds, "our session", _AGAIN) if _AGAIN in seconds else None,
        "nodes": sum(nodes.values()),
        "kernels": kernels,
        "differences": differences,
        "failed": failed,
    }


def _export_layer(module: torch.nn.Module, args: tuple[torch.Tensor, ...]) -> Any:
    return ortable.to_onnx(module, args, target="onnxruntime")


def _make_compiled_call(module: torch.nn.Module, args: tuple[torch.Tensor, ...]) -> Call:
    run = torch.compile(module, backend="ortable")
    return lambda: run(*args)


def _make_session_call(model: Any, args: tuple[torch.Tensor, ...], threads: int) -> Call:
    ort_session = session(model, threads)
    inputs = {value.name for value in ort_session.get_inputs()}
    names = [value.name for value in model.graph.input]
    feeds = {name: arg.numpy() for name, arg in zip(names, args, strict=True) if name in inputs}
    return lambda: ort_session.run(None, feeds)


def _make_peer_call(module: torch.nn.Module, args: tuple[torch.Tensor, ...], threads: int) -> Call:
    """Return a call of a session of torch.onnx's graph."""
    program = torch_onnx(torch.export.export(module, args, strict=False))
    return _make_session_call(program.model_proto, args, threads)


def _get_cause(error: Exception) -> Exception:
    """Return the cause of an error, which torch.onnx wraps twice."""
    while isinstance(error.__cause__, Exception):
        error = error.__cause__
    return error


def _compare_first(result: Any, expected: Any) -> float:
    first = result[0] if isinstance(result, (list, tuple)) else result
    return difference(first, expected[0] if isinstance(expected, tuple) else expected)
