"""Log lines and TORCH_TRACE records of a compilation.

A log line or record is computed only if a handler or TORCH_TRACE receives it.
"""

from __future__ import annotations

import logging
import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ortable.backend.partition.placement import report_placements
from ortable.backend.roles import CompiledGraph, Placement
from ortable.compat.torch_logging import compiled_code, frame_compilation, trace_artifact
from ortable.ir.proto.text import pretty_onnx

_log = logging.getLogger(__name__)
_RESUMED = re.compile(r"torch_dynamo_resume_in_(?P<name>.+)_at_(?P<line>\d+)$")
_CACHE_TEXTS = {"memory": "found in memory", "disk": "found on disk", "miss": "converted"}


@dataclass(frozen=True)
class Origin:
    """The frame that torch compiled: its function (`Model.forward`), file and line.

    The line is that of the `def`, or, after a graph break, the line where the function resumes.
    """

    function: str
    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.function} ({os.path.basename(self.file)}:{self.line})"


def current_origin() -> Origin | None:
    """Return the frame that torch is compiling, or None."""
    code = compiled_code()
    if code is None:
        return None
    match = _RESUMED.search(code.co_qualname)
    if match is None:
        return Origin(code.co_qualname, code.co_filename, code.co_firstlineno)
    line = int(match["line"])
    return Origin(f"{match['name']} after a graph break", code.co_filename, line)


def graph_label(kind: str) -> str:
    """Return a name for the graph that is being compiled and its function, for messages."""
    origin = current_origin()
    return f"the {kind} graph of {origin}" if origin else f"the {kind} graph"


def log_recompile() -> None:
    """Log that a graph of dynamo is compiled again for other arguments."""
    previous_compilations = frame_compilation() if _log.isEnabledFor(logging.INFO) else 0
    if previous_compilations:
        _log.info(
            "compiling %s again, for the %s time: TORCH_LOGS=recompiles names the guard that "
            "failed",
            current_origin() or "a frame",
            {1: "second", 2: "third"}.get(previous_compilations, f"{previous_compilations + 1}th"),
        )


def log_failed_backward(reason: str) -> None:
    """Log that a backward graph will raise when it runs."""
    if _log.isEnabledFor(logging.INFO):
        origin = current_origin() or "a graph"
        _log.info(
            "the backward of %s cannot be compiled and fails when it runs: %s", origin, reason
        )


def log_compiled(
    kind: str,
    parts: Sequence[CompiledGraph],
    callables: Sequence[Any],
    placement: Sequence[Placement],
) -> None:
    """Log a compiled graph, its placement and its weights, and write a record to TORCH_TRACE.

    Args:
        kind: "forward", "backward" or "inference".
        parts: the conversions of its partitions; one conversion for a graph without partitions.
        callables: the callables that run the parts.
        placement: where each operator runs; empty for a graph from torch's cache.
    """
    if _log.isEnabledFor(logging.INFO):
        _log_summary(kind, parts, placement)
        for line in report_placements(placement).splitlines():
            _log.info("%s", line.removeprefix("[ortable]").strip())
        for part, run in zip(parts, callables, strict=True):
            _log_weights(part, run)
    trace_artifact(
        "ortable_report",
        "json",
        lambda: _make_report(kind, parts, callables, placement),
    )
    for part in parts:
        text = _OnnxText(graph_label(kind), part)
        trace_artifact("ortable_onnx_graph", "string", text.__str__)
        _log.debug("%s", text)


def _log_summary(
    kind: str,
    parts: Sequence[CompiledGraph],
    placement: Sequence[Placement],
) -> None:
    seconds = _sum_seconds(parts)
    counts = Counter(_CACHE_TEXTS[part.cache] for part in parts)
    cache_texts = [
        text if len(counts) == 1 else f"{count} {text}" for text, count in counts.items()
    ]
    sessions = sum(bool(part.fetches) for part in parts)
    _log.info(
        "compiled %s: %s -> %d ONNX nodes in %s; %s, %.3f s (%s)",
        graph_label(kind),
        _format_count(len(placement), "operator") if placement else "operators not traced",
        sum(len(part.model.graph.node) for part in parts),
        _format_count(sessions, "session"),
        ", ".join(cache_texts) if parts else "all in torch",
        sum(seconds.values()),
        ", ".join(f"{phase} {duration:.3f}" for phase, duration in seconds.items()),
    )


def _log_weights(part: CompiledGraph, callable_graph: Any) -> None:
    frozen = getattr(callable_graph, "frozen", None)
    weights = sum(role.static and role.name in part.fed for role in part.inputs)
    if isinstance(frozen, tuple):
        _log.info(
            "%s of it become constants at the first call", _format_count(len(frozen), "weight")
        )
    elif frozen is not None and weights and part.kind != "backward":
        _log.info("%s of it stay inputs: %s", _format_count(weights, "weight"), frozen)


def _sum_seconds(parts: Sequence[CompiledGraph]) -> dict[str, float]:
    totals: dict[str, float] = {}
    for part in parts:
        for phase, duration in part.timings.items():
            totals[phase] = totals.get(phase, 0.0) + duration
    return totals


def _make_report(
    kind: str,
    parts: Sequence[CompiledGraph],
    callables: Sequence[Any],
    placement: Sequence[Placement],
) -> dict[str, Any]:
    origin = current_origin()
    return {
        "kind": kind,
        "function": None if origin is None else origin.function,
        "file": None if origin is None else origin.file,
        "line": None if origin is None else origin.line,
        "operators": dict(Counter(call.operator for call in placement)),
        "torch": [
            {"operator": call.operator, "line": call.line, "why": call.why, "by": call.by}
            for call in placement
            if call.where == "torch"
        ],
        "sessions": [
            _describe_session(part, run) for part, run in zip(parts, callables, strict=True)
        ],
        "seconds": _sum_seconds(parts),
    }


def _describe_session(part: CompiledGraph, callable_graph: Any) -> dict[str, Any]:
    frozen = getattr(callable_graph, "frozen", None)
    session = getattr(callable_graph, "session", None)
    return {
        "nodes": dict(Counter(node.op_type for node in part.model.graph.node)),
        "inputs": len(part.inputs),
        "outputs": part.n_results,
        "providers": None if session is None else session.get_providers(),
        "frozen": list(frozen) if isinstance(frozen, tuple) else frozen,
        "cache": part.cache,
        "rewrites": dict(part.rewrites),
        "seconds": dict(part.timings),
    }


@dataclass(frozen=True)
class _OnnxText:
    """The text of an ONNX graph, formatted only if it is logged."""

    label: str
    part: CompiledGraph

    def __str__(self) -> str:
        return f"# {self.label}\n{pretty_onnx(self.part.model)}\n"


def _format_count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
