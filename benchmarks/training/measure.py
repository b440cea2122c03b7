"""What benchmarks.training measures of one model: seconds of a step, eager's and compiled in turns,
with one choice of rewrites or several; and the profile of its sessions."""

from __future__ import annotations

import gc
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from benchmarks.measure import settle
from benchmarks.models.training import TRAINABLES

__all__ = ["measure", "measure_rewrites", "profile"]


def step(model: Any, arguments: tuple[torch.Tensor, ...], clock: Callable[[], float]) -> float:
    """Seconds of one forward and backward, with fresh gradients."""
    model.zero_grad(set_to_none=True)
    started = clock()
    model(*arguments).backward()
    return clock() - started


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
            settle()
            times.append(statistics.median([step(model, arguments, clock) for _ in range(4)][1:]))
    graphs = [[record.onnx for record in each if record.onnx] for each in records]
    nodes = [sum(len(model.graph.node) for model in each) for each in graphs]
    medians = [statistics.median(times[1:]) * 1e3 for times in taken]
    return list(zip(nodes, medians, strict=True))


def measure(
    name: str, rounds: int, backend: str, clock: Callable[[], float]
) -> tuple[float, float, float]:
    """Median milliseconds of eager and of the compiled step, and seconds of the first one."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    trainable, count = TRAINABLES[name]
    eager = trainable.build().train()
    arguments = trainable.batch(count)
    compiled = torch.compile(eager, backend=backend, dynamic=False)
    seconds = step(compiled, arguments, time.perf_counter)
    taken: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds + 1):  # the first round is not counted
        for model, times in zip((eager, compiled), taken, strict=True):
            settle()
            steps = [step(model, arguments, clock) for _ in range(4)]
            times.append(statistics.median(steps[1:]))
    gc.collect()
    first, second = (statistics.median(times[1:]) * 1e3 for times in taken)
    return first, second, seconds


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
