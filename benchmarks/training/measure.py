"""What benchmarks.training measures of one model: seconds of a step, eager's and compiled in turns,
with one choice of rewrites or several; and the profile of its sessions."""

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

_BLOCK = 0.1  # seconds of steps in a row: threads that wait after one are there in the next
_MOST_STEPS = 1000


def step(model: Any, arguments: tuple[torch.Tensor, ...], clock: Callable[[], float]) -> float:
    """Seconds of one forward and backward, with fresh gradients."""
    model.zero_grad(set_to_none=True)
    started = clock()
    model(*arguments).backward()
    return clock() - started


def _decide(model: Any, arguments: tuple[torch.Tensor, ...], storage: dict[str, Any]) -> None:
    """Steps until everything that option `autotune` measures is decided, or for long enough."""
    for _ in range(_MOST_STEPS):
        if not any(tuned.is_open for tuned in storage.get("autotune", ())):
            return
        step(model, arguments, time.perf_counter)


def measure_rewrites(
    name: str, rounds: int, choices: list[str], clock: Callable[[], float]
) -> list[tuple[int, float]]:
    """For each choice of rewrites: nodes of all graphs, and median milliseconds of a step; the
    compiled models step in turn."""
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
    taken: list[list[float]] = [[] for _ in choices]
    for _ in range(rounds + 1):  # the first round is not counted
        for model, times in zip(models, taken, strict=True):
            time.sleep(SETTLE)
            times.append(statistics.median([step(model, arguments, clock) for _ in range(4)][1:]))
    graphs = [[record.onnx for record in each if record.onnx] for each in records]
    nodes = [sum(len(model.graph.node) for model in each) for each in graphs]
    medians = [statistics.median(times[1:]) * 1e3 for times in taken]
    return list(zip(nodes, medians, strict=True))


def measure(name: str, rounds: int, compilers: list[str]) -> dict[str, Any]:
    """A record of one model: milliseconds of eager's step and of the step of each compiler, their
    ratios to eager, the A/A band of eager with itself, and seconds of the first steps.

    In a round every candidate steps for about 100 ms; the first one changes from round to round.
    "ortable+autotune" is ortable with option `autotune`, once that has decided.
    """
    trainable, count = TRAINABLES[name]
    torch.manual_seed(0)
    torch._dynamo.reset()
    eager = trainable.build().train()
    arguments = trainable.batch(count)
    candidates: dict[str, Any] = {"eager": eager, "eager again": eager}
    seconds, kept = {}, {}
    for backend in compilers:
        model = trainable.build().train()
        compiler, _, option = backend.partition("+")
        storage: dict[str, Any] = {}
        options = {"options": {option: True, "storage": storage}} if option else {}
        candidates[backend] = torch.compile(model, backend=compiler, dynamic=False, **options)
        seconds[backend] = step(candidates[backend], arguments, time.perf_counter)
        _decide(candidates[backend], arguments, storage)
        kept[backend] = [str(tuned) for tuned in storage.get("autotune", ())]
    once = {
        candidate: min(step(model, arguments, time.perf_counter) for _ in range(3))
        for candidate, model in candidates.items()
    }
    calls = {
        candidate: functools.partial(step, model, arguments, time.perf_counter)
        for candidate, model in candidates.items()
    }
    found = time_interleaved(calls, rounds, _BLOCK, once)
    return {
        "model": name,
        "ms": {each: statistics.median(times) * 1e3 for each, times in found.items()},
        "ratio": {each: median_ratio(found, each, "eager") for each in compilers},
        "band": band(found, "eager", "eager again"),
        "first_seconds": seconds,
        "kept": {backend: decisions for backend, decisions in kept.items() if decisions},
    }


def profile(name: str, rounds: int) -> Iterator[list[dict[str, Any]]]:
    """The events of each session of the compiled step, as ONNX Runtime records them."""
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
