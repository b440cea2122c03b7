"""Measure one model: the compiled call, the exported program, and every other engine."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch

import ortable
from benchmarks import candidates
from benchmarks.measure import band, reason
from benchmarks.models.inference import build
from benchmarks.packages import use_packages
from ortable.backend.timing import median_ratio, time_interleaved

from .engines import ENGINES, FOLDER

OURS = ("ortable", "ortable, exported program", "ortable, bare session")

OTHERS = ("inductor, freezing", *ENGINES)
MAX_DIFFERENCE = 1e-3  # an engine whose result differs more computes something else


def is_exact(record: Mapping[str, Any], label: str) -> bool:
    """Return whether an engine ran the model and its result is eager's."""
    return record["difference"].get(label, float("inf")) <= MAX_DIFFERENCE


def measure_model(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return ratios to eager of all candidates, and their largest difference from its result."""
    use_packages(FOLDER)
    candidates.prepare(options.threads, with_inductor=candidates.has_compiler())
    model, arguments = build(name, small=options.small)
    with torch.no_grad():
        expected = model(*arguments)
    makers: dict[str, Callable[[], candidates.Candidate]] = {
        OURS[0]: lambda: candidates.ortable(model, arguments),
        OURS[1]: lambda: _exported_program(model, arguments),
        OURS[2]: lambda: candidates.exported(model, arguments, options.threads),
        "inductor, freezing": lambda: candidates.inductor(model, arguments, True),
    }
    makers |= {
        label: partial(engine, model, arguments, options.threads)
        for label, engine in ENGINES.items()
    }
    calls = {"eager": candidates.eager(model, arguments)}
    errors: dict[str, str] = {}
    differences: dict[str, float] = {}
    for label, make in makers.items():
        try:
            call = make()
            result = call()
        except Exception as error:  # the table has a cell for an engine that fails
            errors[label] = reason(error)
            continue
        result = torch.as_tensor(result[0] if isinstance(result, list | tuple) else result)
        scale = expected.abs().max().clamp_min(1e-12)
        differences[label] = float((result.detach() - expected).abs().max() / scale)
        calls[label] = call
    if OURS[0] in calls:
        calls["ortable, again"] = calls[OURS[0]]
    for call in calls.values():
        for _ in range(5):
            call()
    seconds = time_interleaved(calls, options.rounds)
    return {
        "name": name,
        "seconds": {label: statistics.median(times) for label, times in seconds.items()},
        "ratio": {label: median_ratio(seconds, label, "eager") for label in seconds},
        "band": band(seconds, OURS[0], "ortable, again") if OURS[0] in calls else None,
        "difference": differences,
        "errors": errors,
    }


def _exported_program(
    model: torch.nn.Module, arguments: candidates.Arguments
) -> candidates.Candidate:
    with torch.no_grad():
        program = ortable.export(model, arguments, target="onnxruntime")
    return lambda: program(*arguments)
