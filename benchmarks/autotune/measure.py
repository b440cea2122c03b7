"""Measure one model: eager, dynamo's graph in eager, the backend without and with `autotune`."""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from benchmarks.backend import measure as backend_measure
from benchmarks.measure import band
from benchmarks.models.inference import build
from ortable.backend.timing import median_ratio, time_interleaved

FIRST = 16  # calls; autotune decides graphs of more than 5 ms within these
_MAX_SECONDS = 30.0  # of a decision; graphs of microseconds need hundreds of calls

Call = Callable[[], Any]


def measure_model(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Measure one model; ``name`` ends in ``, small`` for the size of the tests."""
    candidates = backend_measure.candidates
    candidates.prepare(options.threads, with_inductor=False)
    model, arguments = build(name.removesuffix(", small"), small=name.endswith(", small"))
    first_seconds: dict[bool, list[float]] = {False: [], True: []}
    for turn in range(3):
        for autotune in (False, True) if turn % 2 else (True, False):
            first_seconds[autotune].append(_time_first_calls(model, arguments, autotune))
    _clear_caches()
    storage: dict[str, Any] = {}
    eager = candidates.eager(model, arguments)
    calls = {
        "eager": eager,
        "eager, again": eager,
        "dynamo's graph": _compile(model, arguments, "eager"),
        "ortable": _compile(model, arguments, "ortable"),
        "autotune": _compile(model, arguments, "ortable", {"autotune": True, "storage": storage}),
    }
    _finish_tuning(calls["autotune"], storage)
    for call in calls.values():
        for _ in range(3):
            call()
    seconds = time_interleaved(calls, options.rounds)
    compared = [label for label in calls if label not in ("eager", "eager, again")]
    return {
        "name": name,
        "ms": 1e3 * statistics.median(seconds["eager"]),
        "ratio": {label: median_ratio(seconds, label, "eager") for label in compared},
        "to_floor": median_ratio(seconds, "autotune", "dynamo's graph"),
        "band": band(seconds, "eager", "eager, again"),
        "kept": sorted({_format_choice(graph) for graph in storage.get("autotune", [])}),
        "first": {
            "without": statistics.median(first_seconds[False]),
            "with": statistics.median(first_seconds[True]),
        },
    }  # fmt: skip


def _compile(
    model: torch.nn.Module, arguments: Any, backend: str, settings: dict[str, Any] | None = None
) -> Call:
    compiled = torch.compile(model, backend=backend, fullgraph=True, options=settings)

    def call() -> Any:
        with torch.no_grad():
            return compiled(*arguments)

    call()
    return call


def _time_first_calls(model: torch.nn.Module, arguments: Any, autotune: bool) -> float:
    """Measure the seconds of the first calls, with empty caches."""
    _clear_caches()
    start = time.perf_counter()
    call = _compile(model, arguments, "ortable", {"autotune": autotune})
    for _ in range(FIRST - 1):
        call()
    return time.perf_counter() - start


def _clear_caches() -> None:
    """Clear all compiled graphs and decisions of this process."""
    from ortable.backend.autotune import decisions
    from ortable.backend.cache.memory import conversions

    torch._dynamo.reset()
    gc.collect()
    conversions.clear()
    decisions.STORE.clear()


def _format_choice(graph: Any) -> str:
    return "undecided" if graph.is_open else str(graph.kept)


def _finish_tuning(call: Call, storage: dict[str, Any]) -> None:
    """Call until option `autotune` has decided every graph, or for `_MAX_SECONDS`."""
    end = time.perf_counter() + _MAX_SECONDS
    while time.perf_counter() < end and any(graph.is_open for graph in storage.get("autotune", [])):
        call()
