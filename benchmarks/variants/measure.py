"""What benchmarks.variants measures of one layer: milliseconds of a call, for every candidate in
turns; which operators of ONNX Runtime stand in our graph."""

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
    """The record of one layer: medians in ms, ratios of our session to the others, operators,
    differences to eager; and why a candidate has no figures."""
    quiet()
    module, args = build(name)
    calls: dict[str, Call] = {}
    failed: dict[str, str] = {}
    ours = _export(module, args)
    makers = {
        "eager": lambda: lambda: module(*args),
        "ortable": lambda: _compiled(module, args),
        "our session": lambda: _session(ours, args, threads),
        "torch.onnx": lambda: _torch_onnx(module, args, threads),
        "operator": lambda: OPERATORS[name](module, args, threads),
    }
    wanted = module(*args)
    differences = {}
    for candidate in candidates:
        if candidate == "operator" and name not in OPERATORS:
            continue
        try:
            call = makers[candidate]()
            differences[candidate] = _difference(call(), wanted)
        except Exception as error:
            failed[candidate] = reason(_first(error))
        else:
            calls[candidate] = call
    if "our session" in calls:
        calls[_AGAIN] = calls["our session"]
    seconds = time_interleaved(calls, rounds)
    nodes = Counter(node.op_type for node in ours.graph.node)
    kernels = sorted({n.op_type for n in ours.graph.node if n.domain == "com.microsoft"})
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


def _export(module: torch.nn.Module, args: tuple[torch.Tensor, ...]) -> Any:
    return ortable.to_onnx(module, args, target="onnxruntime")


def _compiled(module: torch.nn.Module, args: tuple[torch.Tensor, ...]) -> Call:
    run = torch.compile(module, backend="ortable")
    return lambda: run(*args)


def _session(model: Any, args: tuple[torch.Tensor, ...], threads: int) -> Call:
    run = session(model, threads)
    given = {each.name for each in run.get_inputs()}
    names = [each.name for each in model.graph.input]
    feeds = {name: arg.numpy() for name, arg in zip(names, args, strict=True) if name in given}
    return lambda: run.run(None, feeds)


def _torch_onnx(module: torch.nn.Module, args: tuple[torch.Tensor, ...], threads: int) -> Call:
    program = torch_onnx(torch.export.export(module, args, strict=False))
    return _session(program.model_proto, args, threads)


def _first(error: Exception) -> Exception:
    """What an error came of: torch.onnx wraps it twice."""
    while isinstance(error.__cause__, Exception):
        error = error.__cause__
    return error


def _difference(found: Any, wanted: Any) -> float:
    first = found[0] if isinstance(found, (list, tuple)) else found
    return difference(first, wanted[0] if isinstance(wanted, tuple) else wanted)
