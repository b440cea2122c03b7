"""What a compilation tells those who listen: lines of logging, and records in TORCH_TRACE. The
loggers are those of the modules, below "ortable". All of it is free while nobody listens."""

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
_FOUND = {"memory": "found in memory", "disk": "found on disk", "miss": "converted"}


@dataclass(frozen=True)
class Origin:
    """The frame that torch compiled: a function (`Model.forward`), its file, and the line of its
    `def`, or, for what follows a graph break, the line that it goes on with."""

    function: str
    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.function} ({os.path.basename(self.file)}:{self.line})"


def current_origin() -> Origin | None:
    """The frame that torch compiles now; None where it compiles none."""
    code = compiled_code()
    if code is None:
        return None
    resumed = _RESUMED.search(code.co_qualname)
    if resumed is None:
        return Origin(code.co_qualname, code.co_filename, code.co_firstlineno)
    line = int(resumed["line"])
    return Origin(f"{resumed['name']} after a graph break", code.co_filename, line)


def graph_label(kind: str) -> str:
    """Which graph of which function is compiled now, for people."""
    origin = current_origin()
    return f"the {kind} graph of {origin}" if origin else f"the {kind} graph"


def tell_recompiled() -> None:
    """A line for a graph of dynamo that was compiled before, for other arguments."""
    before = frame_compilation() if _log.isEnabledFor(logging.INFO) else 0
    if before:
        _log.info(
            "compiling %s again, for the %s time: TORCH_LOGS=recompiles names the guard that "
            "failed",
            current_origin() or "a frame",
            {1: "second", 2: "third"}.get(before, f"{before + 1}th"),
        )


def tell_failed_backward(why: str) -> None:
    """A line for a backward graph that is an error when it runs."""
    if _log.isEnabledFor(logging.INFO):
        origin = current_origin() or "a graph"
        _log.info("the backward of %s cannot be compiled, and fails when it runs: %s", origin, why)


def tell_compiled(
    kind: str,
    parts: Sequence[CompiledGraph],
    callables: Sequence[Any],
    placement: Sequence[Placement],
) -> None:
    """A compiled graph: a line, lines for what torch runs and for its weights, a record.

    :param parts: the conversions of its partitions, or the one of the whole
    :param callables: what runs them
    :param placement: what runs where; empty for a graph that was found in torch's cache
    """
    if _log.isEnabledFor(logging.INFO):
        _log_compiled(kind, parts, placement)
        for line in report_placements(placement).splitlines():
            _log.info("%s", line.removeprefix("[ortable]").strip())
        for part, run in zip(parts, callables, strict=True):
            _log_weights(part, run)
    trace_artifact(
        "ortable_report",
        "json",
        lambda: _report(kind, parts, callables, placement),
    )
    for part in parts:
        text = _OnnxText(graph_label(kind), part)
        trace_artifact("ortable_onnx_graph", "string", text.__str__)
        _log.debug("%s", text)


def _log_compiled(
    kind: str,
    parts: Sequence[CompiledGraph],
    placement: Sequence[Placement],
) -> None:
    seconds = _seconds(parts)
    found = Counter(_FOUND[part.cache] for part in parts)
    where = [each if len(found) == 1 else f"{count} {each}" for each, count in found.items()]
    sessions = sum(bool(part.fetches) for part in parts)
    _log.info(
        "compiled %s: %s -> %d ONNX nodes in %s; %s, %.3f s (%s)",
        graph_label(kind),
        _counted(len(placement), "operator") if placement else "operators not traced",
        sum(len(part.model.graph.node) for part in parts),
        _counted(sessions, "session"),
        ", ".join(where) if parts else "all in torch",
        sum(seconds.values()),
        ", ".join(f"{phase} {taken:.3f}" for phase, taken in seconds.items()),
    )


def _log_weights(part: CompiledGraph, run: Any) -> None:
    frozen = getattr(run, "frozen", None)
    weights = sum(role.static and role.name in part.fed for role in part.inputs)
    if isinstance(frozen, tuple):
        _log.info("%s of it become constants at the first call", _counted(len(frozen), "weight"))
    elif frozen is not None and weights and part.kind != "backward":
        _log.info("%s of it stay inputs: %s", _counted(weights, "weight"), frozen)


def _seconds(parts: Sequence[CompiledGraph]) -> dict[str, float]:
    """Seconds by phase, of all partitions."""
    found: dict[str, float] = {}
    for part in parts:
        for phase, taken in part.timings.items():
            found[phase] = found.get(phase, 0.0) + taken
    return found


def _report(
    kind: str,
    parts: Sequence[CompiledGraph],
    callables: Sequence[Any],
    placement: Sequence[Placement],
) -> dict[str, Any]:
    """What TORCH_TRACE keeps of a compiled graph, as plain values."""
    origin = current_origin()
    return {
        "kind": kind,
        "function": None if origin is None else origin.function,
        "file": None if origin is None else origin.file,
        "line": None if origin is None else origin.line,
        "operators": dict(Counter(each.operator for each in placement)),
        "torch": [
            {"operator": each.operator, "line": each.line, "why": each.why, "by": each.by}
            for each in placement
            if each.where == "torch"
        ],
        "sessions": [_session(part, run) for part, run in zip(parts, callables, strict=True)],
        "seconds": _seconds(parts),
    }


def _session(part: CompiledGraph, run: Any) -> dict[str, Any]:
    frozen = getattr(run, "frozen", None)
    session = getattr(run, "session", None)
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
    """The text of an ONNX graph, made when somebody wants it."""

    label: str
    part: CompiledGraph

    def __str__(self) -> str:
        return f"# {self.label}\n{pretty_onnx(self.part.model)}\n"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
