"""What benchmarks.backend measures of one model, in a process of its own: seconds of compilation,
latency of every candidate, difference from eager; and the overhead of a call."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from typing import Any

import torch

from benchmarks.measure import after_pauses, band, reason, timed
from benchmarks.models.inference import build
from ortable.backend.timing import median_ratio, time_interleaved

from . import candidates

OVERHEAD = "overhead"
PARAMETERS = 80  # of the second model of the overhead


def measure_model(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """One model: seconds of compilation, latency of every candidate, difference from eager."""
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
        except Exception as exc:  # one candidate that fails is a cell of the table
            record["errors"][label] = reason(exc)
            continue
        got = calls[label]()
        got = torch.as_tensor(got[0] if isinstance(got, list | tuple) else got).detach()
        scale = expected.abs().max().clamp_min(1e-12)
        record["difference"][label] = float((got - expected).abs().max() / scale)
    if "ortable" in calls:
        calls["ortable, again"] = calls["ortable"]
    for call in calls.values():  # what refreezes, tunes or warms up after the first calls
        for _ in range(3):
            call()
    found = time_interleaved(calls, options.rounds)
    single = ("ortable", "ortable, again", "bare session, ours")
    paused = after_pauses({n: calls[n] for n in single if n in calls}, 2 * options.rounds)
    record["seconds"] = {label: statistics.median(times) for label, times in found.items()}
    record["ratio"] = {label: median_ratio(found, label, "eager") for label in found}
    if "ortable" in found:
        record["band"] = band(found, "ortable", "ortable, again")
        if "bare session" in found:
            record["to_bare"] = median_ratio(found, "ortable", "bare session")
        if "bare session, ours" in found:
            record["to_ours"] = median_ratio(found, "ortable", "bare session, ours")
            record["to_ours_paused"] = median_ratio(paused, "ortable", "bare session, ours")
            record["band_paused"] = band(paused, "ortable", "ortable, again")
            calls.clear()
            record["nodes"] = candidates.nodes_as_run(model, arguments, options.threads)
    return record


class _Many(torch.nn.Module):
    """The tiny MLP with a bias made of 78 more parameters, which a frozen graph folds."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = build("tiny_mlp")[0]
        self.more = torch.nn.ParameterList(torch.randn(16) for _ in range(PARAMETERS - 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x + torch.stack(list(self.more)).sum(0))


def measure_overhead(options: argparse.Namespace) -> dict[str, Any]:
    """Microseconds per call of a tiny MLP, and of one with 80 parameters that does the same."""
    candidates.prepare(options.threads, not options.no_inductor)

    tiny, arguments = build("tiny_mlp")
    record: dict[str, Any] = {"name": OVERHEAD, "microseconds": {}, "errors": {}}
    for label, model in (("tiny MLP", tiny), (f"{PARAMETERS} parameters", _Many().eval())):
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
            except Exception as exc:  # a cell of the table
                record["errors"][name] = reason(exc)
        found = time_interleaved(calls, 3 * options.rounds, block=0.01)
        record["microseconds"][label] = {
            name: 1e6 * statistics.median(times) for name, times in found.items()
        }
    return record
