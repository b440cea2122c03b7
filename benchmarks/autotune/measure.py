"""What benchmarks.autotune measures of one model, in a process of its own: calls of eager, of
dynamo's graph in eager, of the backend, and of the backend with `autotune`; and what the first
calls cost with it."""

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

FIRST = 16  # calls, after which graphs of more than 5 ms are decided
_ENOUGH = 30.0  # seconds that a decision may take; calls of microseconds take hundreds

Call = Callable[[], Any]


def measure_model(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """The record of one model; ``name`` ends in ``, small`` for the size of the tests."""
    candidates = backend_measure.candidates
    candidates.prepare(options.threads, with_inductor=False)
    model, arguments = build(name.removesuffix(", small"), small=name.endswith(", small"))
    first: dict[bool, list[float]] = {False: [], True: []}
    for turn in range(3):
        for autotune in (False, True) if turn % 2 else (True, False):
            first[autotune].append(_first_calls(model, arguments, autotune))
    _forget()
    storage: dict[str, Any] = {}
    eager = candidates.eager(model, arguments)
    calls = {
        "eager": eager,
        "eager, again": eager,
        "dynamo's graph": _compiled(model, arguments, "eager"),
        "ortable": _compiled(model, arguments, "ortable"),
        "autotune": _compiled(model, arguments, "ortable", {"autotune": True, "storage": storage}),
    }
    _decide(calls["autotune"], storage)
    for call in calls.values():
        for _ in range(3):
            call()
    found = time_interleaved(calls, options.rounds)
    compared = [each for each in calls if each not in ("eager", "eager, again")]
    return {
        "name": name,
        "ms": 1e3 * statistics.median(found["eager"]),
        "ratio": {each: median_ratio(found, each, "eager") for each in compared},
        "to_floor": median_ratio(found, "autotune", "dynamo's graph"),
        "band": band(found, "eager", "eager, again"),
        "kept": sorted({_kept(each) for each in storage.get("autotune", [])}),
        "first": {
            "without": statistics.median(first[False]), "with": statistics.median(first[True])
        },
    }  # fmt: skip


def _compiled(
    model: torch.nn.Module, arguments: Any, backend: str, settings: dict[str, Any] | None = None
) -> Call:
    compiled = torch.compile(model, backend=backend, fullgraph=True, options=settings)

    def call() -> Any:
        with torch.no_grad():
            return compiled(*arguments)

    call()
    return call


def _first_calls(model: torch.nn.Module, arguments: Any, autotune: bool) -> float:
    """Seconds of the first calls, with nothing compiled or decided before."""
    _forget()
    begin = time.perf_counter()
    call = _compiled(model, arguments, "ortable", {"autotune": autotune})
    for _ in range(FIRST - 1):
        call()
    return time.perf_counter() - begin


def _forget() -> None:
    """What a new process does not have."""
    from ortable.backend.autotune import decisions
    from ortable.backend.cache.memory import conversions

    torch._dynamo.reset()
    gc.collect()
    conversions.clear()
    decisions.STORE.clear()


def _kept(graph: Any) -> str:
    return "undecided" if graph.is_open else str(graph.kept)


def _decide(call: Call, storage: dict[str, Any]) -> None:
    """Calls until every graph is decided."""
    end = time.perf_counter() + _ENOUGH
    while time.perf_counter() < end and any(each.is_open for each in storage.get("autotune", [])):
        call()
