"""Measure the prompt and the next token of one language model, for every candidate in turns."""

from __future__ import annotations

import gc
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks.measure import band, reason, timed
from ortable.backend.timing import median_ratio, time_interleaved

from .peers import OpenVino, Session
from .sizes import SIZES, VOCABULARY, Lengths, build

__all__ = ["CANDIDATES", "SIZES", "VOCABULARY", "build", "measure"]

CANDIDATES = (
    "eager", "inductor", "torch.onnx", "openvino", "ortable", "ortable int8", "ortable int4",
)  # fmt: skip


class Steps:
    """A forward with a static cache, whose token is always written at the same position."""

    def __init__(self, model: Any, forward: Callable[..., Any], lengths: Lengths) -> None:
        from transformers import StaticCache

        self.forward = forward
        self.cache = StaticCache(model.config, max_cache_len=lengths.total)
        ids = torch.arange(lengths.batch * lengths.prompt) * 7919 % VOCABULARY
        self.ids = ids.reshape(lengths.batch, lengths.prompt)
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
        return OpenVino(model, lengths, folder)
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
    candidates: dict[str, Any] = {}
    first_seconds, errors = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for name in [*names, "eager again"]:
            try:
                candidate = _make_candidate(name, model, lengths, Path(folder))
                prompt_seconds, _ = timed(candidate.prompt)
                token_seconds, _ = timed(candidate.token_again)
            except Exception as error:  # the record names candidates that fail
                errors[name] = reason(error)
                continue
            first_seconds[name] = prompt_seconds + token_seconds
            candidates[name] = candidate
            gc.collect()
        seconds = {
            step: time_interleaved(
                {n: getattr(c, step) for n, c in candidates.items()}, rounds, 0.1
            )
            for step in ("prompt", "token_again")
        }
    return {
        "size": size,
        "parameters": sum(p.numel() for p in model.parameters()),
        "batch": lengths.batch,
        "prompt": lengths.prompt,
        "whole": lengths.total,
        "ms": {
            step: {name: statistics.median(times) * 1e3 for name, times in series.items()}
            for step, series in seconds.items()
        },
        "to_eager": {
            step: {name: median_ratio(series, name, "eager") for name in candidates}
            for step, series in seconds.items()
        },
        "to_float32": {
            name: median_ratio(seconds["token_again"], name, "ortable")
            for name in candidates
            if "ortable" in candidates
        },
        "band": band(seconds["token_again"], "eager", "eager again"),
        "first_seconds": first_seconds,
        "failed": errors,
    }
