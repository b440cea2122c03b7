"""Measure training steps of one model, eager and compiled in turns, and profile its sessions."""

from __future__ import annotations

import functools
import gc
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from benchmarks.measure import band
from benchmarks.models.training import TRAINABLES
from ortable.backend.timing import SETTLE, median_ratio, time_interleaved

_BLOCK = 0.1  # seconds of consecutive steps: threads that spin after one step still run in the next
_MAX_STEPS = 1000
_VALUES: dict[str, Any] = {"autotune": True, "torch_regions": "auto"}  # of options in a label


def step(model: Any, arguments: tuple[torch.Tensor, ...], clock: Callable[[], float]) -> float:
    """Return the seconds of one forward and backward pass, with fresh gradients."""
    model.zero_grad(set_to_none=True)
    start = clock()
    model(*arguments).backward()
    return clock() - start


def _finish_tuning(
    model: Any, arguments: tuple[torch.Tensor, ...], storage: dict[str, Any]
) -> None:
    """Run steps until every graph has a decision of its candidates, or for `_MAX_STEPS`."""
    for _ in range(_MAX_STEPS):
        if not any(tuned.is_open for tuned in storage.get("autotune", ())):
            return
        step(model, arguments, time.perf_counter)


def measure_rewrites(
    name: str, rounds: int, choices: list[str], clock: Callable[[], float]
) -> list[tuple[int, float]]:
    """Measure nodes of all graphs and milliseconds of a step, for each set of rewrites."""
    trainable, count = TRAINABLES[name]
    models, records = [], []
    torch._dynamo.reset()
    for choice in choices:
        torch.manual_seed(0)
        model = trainable.build().train()
        arguments = trainable.batch(count)
        storage: dict[str, Any] = {}
        options = {"rewrites": choice.split("+"), "storage": storage}
        compiled = torch.compile(model, backend="ortable", dynamic=False, options=options)
        step(compiled, arguments, clock)
        models.append(compiled)
        records.append(storage["instance"])
    times_by_choice: list[list[float]] = [[] for _ in choices]
    for _ in range(rounds + 1):  # the first round is a warm-up
        for model, times in zip(models, times_by_choice, strict=True):
            time.sleep(SETTLE)
            times.append(statistics.median([step(model, arguments, clock) for _ in range(4)][1:]))
    graphs = [[record.onnx for record in instances if record.onnx] for instances in records]
    nodes = [sum(len(model.graph.node) for model in instances) for instances in graphs]
    medians = [statistics.median(times[1:]) * 1e3 for times in times_by_choice]
    return list(zip(nodes, medians, strict=True))


def measure(name: str, rounds: int, compilers: list[str]) -> dict[str, Any]:
    """Measure one model: milliseconds of a step, ratios to eager, noise band, first step.

    In a round every candidate runs for about 100 ms; the first one changes from round to round.
    "ortable+autotune" is ortable with option `autotune`, after its decision, and
    "ortable+autotune+torch_regions" also lets inductor take part.
    """
    trainable, count = TRAINABLES[name]
    torch.manual_seed(0)
    torch._dynamo.reset()
    eager = trainable.build().train()
    arguments = trainable.batch(count)
    candidates: dict[str, Any] = {"eager": eager, "eager again": eager}
    first_seconds, choices = {}, {}
    for backend in compilers:
        model = trainable.build().train()
        compiler, *names = backend.split("+")
        storage: dict[str, Any] = {}
        values = {option: _VALUES[option] for option in names}
        options = {"options": {**values, "storage": storage}} if names else {}
        candidates[backend] = torch.compile(model, backend=compiler, dynamic=False, **options)
        first_seconds[backend] = step(candidates[backend], arguments, time.perf_counter)
        _finish_tuning(candidates[backend], arguments, storage)
        choices[backend] = [str(tuned) for tuned in storage.get("autotune", ())]
    step_seconds = {
        candidate: min(step(model, arguments, time.perf_counter) for _ in range(3))
        for candidate, model in candidates.items()
    }
    calls = {
        candidate: functools.partial(step, model, arguments, time.perf_counter)
        for candidate, model in candidates.items()
    }
    seconds = time_interleaved(calls, rounds, _BLOCK, step_seconds)
    return {
        "model": name,
        "ms": {label: statistics.median(times) * 1e3 for label, times in seconds.items()},
        "ratio": {label: median_ratio(seconds, label, "eager") for label in compilers},
        "band": band(seconds, "eager", "eager again"),
        "first_seconds": first_seconds,
        "kept": {backend: decisions for backend, decisions in choices.items() if decisions},
    }


def profile(name: str, rounds: int) -> Iterator[list[dict[str, Any]]]:
    """Yield the profiling events that ONNX Runtime records for each session of the step."""
    torch.manual_seed(0)
    trainable, count = TRAINABLES[name]
    model = trainable.build().train()
    arguments = trainable.batch(count)
    with tempfile.TemporaryDirectory() as folder:
        settings = {"enable_profiling": True, "profile_file_prefix": f"{folder}/profile"}
        options = {"session_options": settings}
        compiled = torch.compile(model, backend="ortable", dynamic=False, options=options)
        for _ in range(rounds):
            step(compiled, arguments, time.perf_counter)
        del compiled
        torch._dynamo.reset()
        gc.collect()
        for path in sorted(Path(folder).iterdir()):
            yield json.loads(path.read_text())
