"""Measure one model with every candidate, and the overhead of a call of a tiny model."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from typing import Any

import torch

from benchmarks import candidates
from benchmarks.measure import after_pauses, band, reason, timed
from benchmarks.models.inference import build
from ortable.backend.timing import median_ratio, time_interleaved

OVERHEAD = "overhead"
PARAMETERS = 80  # of the second model in measure_overhead


def measure_model(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Measure compilation time, latency and error of every candidate for one model."""
    candidates.prepare(options.threads, not options.no_inductor)
    model, arguments = build(name, small=options.small)
    expected = candidates.eager(model, arguments)()
    makers: dict[str, Callable[[], candidates.Candidate]] = {
        "ortable": lambda: candidates.ortable(model, arguments),
        "ortable, grad on": lambda: candidates.ortable(model, arguments, grad=True),
        "bare session": lambda: candidates.bare(model, arguments, options.threads),
        "bare session, ours": lambda: candidates.exported(model, arguments, options.threads),
    }
    if not options.no_inductor and candidates.has_compiler():
        makers["inductor"] = lambda: candidates.inductor(model, arguments)
        makers["inductor, freezing"] = lambda: candidates.inductor(model, arguments, True)
    calls: dict[str, candidates.Candidate] = {"eager": candidates.eager(model, arguments)}
    record: dict[str, Any] = {"name": name, "compile": {}, "errors": {}, "difference": {}}
    for label, maker in makers.items():
        try:
            record["compile"][label], calls[label] = timed(maker)
        except Exception as exc:  # the table has a cell for a candidate that fails
            record["errors"][label] = reason(exc)
            continue
        result = calls[label]()
        result = torch.as_tensor(result[0] if isinstance(result, list | tuple) else result).detach()
        scale = expected.abs().max().clamp_min(1e-12)
        record["difference"][label] = float((result - expected).abs().max() / scale)
    if "ortable" in calls:
        calls["ortable, again"] = calls["ortable"]
    for call in calls.values():  # finish freezing, tuning and warm-up
        for _ in range(3):
            call()
    seconds = time_interleaved(calls, options.rounds)
    subset = ("ortable", "ortable, again", "bare session, ours")
    paused = after_pauses({n: calls[n] for n in subset if n in calls}, 2 * options.rounds)
    record["seconds"] = {label: statistics.median(times) for label, times in seconds.items()}
    record["ratio"] = {label: median_ratio(seconds, label, "eager") for label in seconds}
    if "ortable" in seconds:
        record["band"] = band(seconds, "ortable", "ortable, again")
        if "bare session" in seconds:
            record["to_bare"] = median_ratio(seconds, "ortable", "bare session")
        if "bare session, ours" in seconds:
            record["to_ours"] = median_ratio(seconds, "ortable", "bare session, ours")
            record["to_ours_paused"] = median_ratio(paused, "ortable", "bare session, ours")
            record["band_paused"] = band(paused, "ortable", "ortable, again")
            calls.clear()
            record["nodes"] = candidates.nodes_as_run(model, arguments, options.threads)
    return record


class _ManyBiases(torch.nn.Module):
    """The tiny MLP with a bias of 78 summed parameters; a frozen graph folds the sum."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = build("tiny_mlp")[0]
        self.more = torch.nn.ParameterList(torch.randn(16) for _ in range(PARAMETERS - 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x + torch.stack(list(self.more)).sum(0))


def measure_overhead(options: argparse.Namespace) -> dict[str, Any]:
    """Measure microseconds per call of a tiny MLP and of one with 80 parameters."""
    candidates.prepare(options.threads, not options.no_inductor)

    tiny, arguments = build("tiny_mlp")
    record: dict[str, Any] = {"name": OVERHEAD, "microseconds": {}, "errors": {}}
    for label, model in (("tiny MLP", tiny), (f"{PARAMETERS} parameters", _ManyBiases().eval())):
        torch._dynamo.reset()
        makers: dict[str, Callable[[], candidates.Candidate]] = {
            "eager": lambda m=model: candidates.eager(m, arguments),
            'backend "eager"': lambda m=model: candidates.named(m, arguments, "eager"),
            'backend "aot_eager"': lambda m=model: candidates.named(m, arguments, "aot_eager"),
            "AOTAutograd floor": lambda m=model: candidates.floor(m, arguments),
            "ortable": lambda m=model: candidates.ortable(m, arguments),
        }
        if not options.no_inductor and candidates.has_compiler():
            makers["inductor"] = lambda m=model: candidates.inductor(m, arguments)
        calls: dict[str, candidates.Candidate] = {}
        for name, maker in makers.items():
            try:
                calls[name] = maker()
            except Exception as exc:  # the table has a cell for it
                record["errors"][name] = reason(exc)
        seconds = time_interleaved(calls, 3 * options.rounds, block=0.01)
        record["microseconds"][label] = {
            name: 1e6 * statistics.median(times) for name, times in seconds.items()
        }
    return record
