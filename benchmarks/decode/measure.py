"""Measure the prompt and the next token of one language model, for every candidate in turns."""

from __future__ import annotations

import gc
import statistics
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from benchmarks.measure import band, reason, timed
from benchmarks.packages import use_packages
from ortable.backend.timing import median_ratio, time_interleaved

from .files import FILES, FOLDER, MODELS, count_bytes, write_file
from .peers import OpenVino, Session, export_step
from .sizes import SIZES, VOCABULARY, Lengths, build, make_config

__all__ = ["CANDIDATES", "SIZES", "VOCABULARY", "build", "measure", "measure_files"]

CANDIDATES = (
    "eager", "inductor", "torch.onnx", "openvino", "ortable", "ortable int8", "ortable int4",
)  # fmt: skip
_AGAIN = " again"  # the candidate that is measured twice


class Steps:
    """A forward with a static cache, whose token is always written at the same position."""

    def __init__(self, model: Any, forward: Callable[..., Any], lengths: Lengths) -> None:
        from transformers import StaticCache

        self.forward = forward
        self.cache = StaticCache(model.config, max_cache_len=lengths.total)
        self.ids = lengths.make_ids()
        self.token = self.ids[:, :1].clone()
        self.middle = (lengths.prompt + lengths.total) // 2

    def _set_position(self, position: int) -> None:
        """Set the number of tokens in the cache."""
        for layer in self.cache.layers:
            if layer.is_initialized:
                layer.cumulative_length.fill_(position)

    def prompt(self) -> torch.Tensor:
        """Return the logits after the prompt."""
        with torch.no_grad():
            self._set_position(0)
            output = self.forward(input_ids=self.ids, past_key_values=self.cache, logits_to_keep=1)
            return output.logits

    def token_again(self) -> torch.Tensor:
        """Return the logits after one more token."""
        with torch.no_grad():
            self._set_position(self.middle)
            output = self.forward(input_ids=self.token, past_key_values=self.cache)
            return output.logits


def _make_candidate(name: str, model: Any, lengths: Lengths, folder: Path) -> Any:
    if name.startswith("eager"):
        return Steps(model, model.forward, lengths)
    if name == "torch.onnx":
        return Session(model, lengths, folder)
    if name == "openvino":
        export_step(model, folder / "openvino" / "model.onnx")
        return OpenVino(folder / "openvino" / "model.onnx", model.config, lengths)
    if name == "inductor":
        return Steps(model, torch.compile(model.forward, dynamic=False), lengths)
    weights = name.removeprefix("ortable").strip() or None
    options = {"weights": weights} if weights else {}
    compiled = torch.compile(model.forward, backend="ortable", dynamic=False, options=options)
    return Steps(model, compiled, lengths)


def measure(size: str, lengths: Lengths, rounds: int, names: list[str]) -> dict[str, Any]:
    """Measure milliseconds of a prompt and of a token, their ratios, and the first calls."""
    torch._dynamo.config.recompile_limit = 64  # all candidates compile the same forward
    model = build(size)
    with tempfile.TemporaryDirectory() as folder:
        makers = {
            name: lambda name=name: _make_candidate(name, model, lengths, Path(folder))
            for name in [*names, f"eager{_AGAIN}"]
        }
        record = _measure_in_turns(makers, rounds, "eager")
    parameters = sum(p.numel() for p in model.parameters())
    return {"size": size, "parameters": parameters, **lengths.describe(), **record}


def measure_files(kind: str, size: str, lengths: Lengths, rounds: int) -> dict[str, Any]:
    """Measure the files of one kind of weights like ``measure``, and errors, bytes and memory.

    The error is that of the logits after the prompt, relative to eager float32: the norm of the
    difference over the norm.
    """
    use_packages(FOLDER)
    model = build(size)
    parameters, config = sum(p.numel() for p in model.parameters()), model.config
    paths, bytes_, failed = {}, {}, {}
    for name, file in FILES[kind].items():
        try:
            paths[name] = write_file(size, model, file)
            bytes_[name] = count_bytes(paths[name])
        except Exception as error:  # the record names candidates that fail
            failed[name] = reason(error)
    with torch.no_grad():
        expected = model(input_ids=lengths.make_ids(), logits_to_keep=1).logits.flatten()
    del model
    makers = {
        name: lambda name=name: FILES[kind][name].open(paths[name], config, lengths)
        for name in paths
    }
    makers[f"ortable{_AGAIN}"] = makers["ortable"]
    record = _measure_in_turns(makers, rounds, "ortable")
    record["failed"] |= failed
    errors = {
        name: float((torch.from_numpy(logits).flatten() - expected).norm() / expected.norm())
        for name, logits in record.pop("logits").items()
    }
    return {
        "size": size, "kind": kind, "parameters": parameters, **lengths.describe(), **record,
        "errors": errors, "bytes": bytes_,
    }  # fmt: skip


def measure_peak(kind: str, size: str, lengths: Lengths, name: str) -> float | None:
    """Return the megabytes that this process grows by at most, for a prompt and some tokens.

    Returns None where the system does not tell the peak.
    """
    use_packages(FOLDER)
    status, reset = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    if not reset.exists():
        return None

    def read_kilobytes(field: str) -> int:
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(lines[field].split()[0])

    file = FILES[kind][name]
    reset.write_text("5")  # the peak becomes the resident memory
    before = read_kilobytes("VmRSS")
    candidate = file.open(MODELS / size / file.name, make_config(size), lengths)
    candidate.prompt()
    for _ in range(8):
        candidate.token_again()
    return (read_kilobytes("VmHWM") - before) * 1024 / 1e6


def _measure_in_turns(
    makers: Mapping[str, Callable[[], Any]], rounds: int, base: str
) -> dict[str, Any]:
    """Make and warm all candidates, and measure their steps in turns."""
    candidates: dict[str, Any] = {}
    first_seconds, errors, logits = {}, {}, {}
    for name, make in makers.items():
        try:
            candidate = make()
            prompt_seconds, result = timed(candidate.prompt)
            token_seconds, _ = timed(candidate.token_again)
        except Exception as error:  # the record names candidates that fail
            errors[name] = reason(error)
            continue
        first_seconds[name] = prompt_seconds + token_seconds
        candidates[name], logits[name] = candidate, result
        gc.collect()
    seconds = {
        step: time_interleaved({n: getattr(c, step) for n, c in candidates.items()}, rounds, 0.1)
        for step in ("prompt", "token_again")
    }
    return {
        "ms": {
            step: {name: statistics.median(times) * 1e3 for name, times in series.items()}
            for step, series in seconds.items()
        },
        "base": base,
        "to_base": {
            step: {name: median_ratio(series, name, base) for name in candidates}
            for step, series in seconds.items()
        },
        "to_float32": {
            name: median_ratio(seconds["token_again"], name, "ortable")
            for name in candidates
            if "ortable" in candidates
        },
        "band": band(seconds["token_again"], base, f"{base}{_AGAIN}"),
        "first_seconds": first_seconds,
        "failed": errors,
        "logits": logits,
    }
