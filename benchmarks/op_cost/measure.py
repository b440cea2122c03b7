"""Measure one operator call: torch's kernel, ortable's nodes in a session, compiled functions.

Times are the minimum processor time of several calls on one thread, so that other work on the
machine affects them little. Memory is the growth of the resident set in the first call.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.fx import GraphModule, Node

import ortable
from ortable.compat.onnxruntime import bound_session, ort_value
from ortable.interpreter.complex_numbers import real_tensor
from ortable.testing import entries as harness
from ortablegen.schemas.onnx import CEILING

from .scaling import Entry, ScaledCall, scale_sample

CANDIDATES = ("session", "ortable", "inductor", "training ortable", "training inductor")
_MAX_EAGER_S = 0.03  # slower operators are measured at a smaller size
_BUDGET_S = 0.1  # of one candidate

Call = Callable[[], Any]


def measure_sample(
    entry: Entry, number: int, elements: int, candidates: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Measure a sample call at about `elements` elements, or fewer where eager is slow.

    Yields:
        After each candidate, the record so far: the shapes, and per candidate milliseconds (`ms`),
        peak memory in MB (`mb`), or the error (`failed`). Nothing where no scaled call is
        valid in eager.
    """
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    size = elements
    while size >= elements / 4096:
        call = _find_valid_call(entry, number, size)
        if call is None:
            return
        seconds, _ = _time_call(partial(_run_eager, call), 0.0)
        if seconds <= _MAX_EAGER_S:
            yield from _measure_call(call, candidates)
            return
        size //= 4


def _find_valid_call(entry: Entry, number: int, elements: int) -> ScaledCall | None:
    """Return the first scaled call that eager accepts."""
    for call in scale_sample(entry, number, elements):
        try:
            _run_eager(call)
        except Exception:
            continue
        return call
    return None


def _run_eager(call: ScaledCall) -> Any:
    return harness.call_eager(call.entry.schema, call.values, call.tensors)


def _measure_call(call: ScaledCall, candidates: Sequence[str]) -> Iterator[dict[str, Any]]:
    record: dict[str, Any] = {
        "shapes": [f"{str(t.dtype)[6:]}{list(t.shape)}" for t in call.tensors],
        "elements": max(tensor.numel() for tensor in call.tensors),
        "ms": {},
        "mb": {},
        "failed": {},
    }
    has_training = any(name.startswith("training") for name in candidates)
    names = ["eager", *(["training eager"] if has_training else []), *candidates]
    for name in names:
        try:
            seconds, megabytes = _measure_candidate(name, call)
        except Exception as error:
            record["failed"][name] = f"{type(error).__name__}: {str(error).splitlines()[:1]}"[:200]
        else:
            record["ms"][name] = round(1e3 * seconds, 4)
            record["mb"][name] = round(megabytes, 1)
        yield record


def _measure_candidate(name: str, call: ScaledCall) -> tuple[float, float]:
    if name == "session":
        return _time_call(_make_session_call(call))
    if name == "eager":
        return _time_call(partial(_run_eager, call))
    kind, _, backend = name.rpartition(" ")
    make_call = _make_training_call if kind else _make_inference_call
    return _time_call(make_call(call, None if backend == "eager" else backend))


def _make_session_call(call: ScaledCall) -> Call:
    """Make a session of the exported call, and return its call on prepared inputs."""
    module, _ = _make_graph(call)
    model = ortable.to_onnx(module, tuple(call.tensors), target_opset=CEILING, target="onnxruntime")
    session = harness.make_session(model.SerializeToString())
    names = [node.name for node in module.graph.find_nodes(op="placeholder")]
    values = dict(zip(names, call.tensors, strict=True))
    tensors = {value.name: real_tensor(values[value.name]) for value in session.get_inputs()}
    feeds = {name: ort_value(x.detach().contiguous()) for name, x in tensors.items()}
    outputs = [output.name for output in session.get_outputs()]
    bound = bound_session(session)
    return lambda: bound.run_with_ort_values(feeds, outputs, None)


def _make_graph(call: ScaledCall) -> tuple[GraphModule, Node]:
    return harness.graph_of_call(call.entry.schema, call.values, call.tensors, call.unread)


def _make_inference_call(call: ScaledCall, backend: str | None) -> Call:
    """Make a call of the operator without gradients, compiled if `backend` is given."""
    run = _compile(call, backend)

    def infer() -> Any:
        with torch.no_grad():
            return run(*call.tensors)

    return infer


def _make_training_call(call: ScaledCall, backend: str | None) -> Call:
    """Make a call of the operator and of its gradient.

    Raises:
        ValueError: no argument of the operator has a gradient.
    """
    run = _compile(call, backend)
    leaves = [
        tensor.clone().requires_grad_(tensor.is_floating_point() or tensor.is_complex())
        for tensor in call.tensors
    ]
    inputs = [leaf for leaf in leaves if leaf.requires_grad]
    if not inputs or not any(result.requires_grad for result in _flatten(run(*leaves))):
        raise ValueError("no gradient")

    def train() -> Any:
        outputs = [result for result in _flatten(run(*leaves)) if result.requires_grad]
        ones = [torch.ones_like(output) for output in outputs]
        return torch.autograd.grad(outputs, inputs, ones, allow_unused=True)

    return train


def _compile(call: ScaledCall, backend: str | None) -> Any:
    module, _ = _make_graph(call)
    if backend is None:
        return module
    torch._dynamo.reset()
    return torch.compile(module, backend=backend, dynamic=False)


def _flatten(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for item in value for t in _flatten(item)] if isinstance(value, list | tuple) else []


def _time_call(run: Call, budget: float = _BUDGET_S) -> tuple[float, float]:
    """Return the minimum processor seconds of a call, and the MB that the first call took."""
    before = _reset_peak()
    run()
    growth = _read_peak() - before
    seconds, total = float("inf"), 0.0
    while True:
        start = time.process_time()
        run()
        elapsed = time.process_time() - start
        seconds, total = min(seconds, elapsed), total + elapsed
        if total >= budget:
            return seconds, growth


def _reset_peak() -> float:
    """Reset the peak of the resident memory; return the current resident memory in MB."""
    Path("/proc/self/clear_refs").write_text("5")
    return _read_memory("VmRSS")


def _read_peak() -> float:
    return _read_memory("VmHWM")


def _read_memory(field: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1024
