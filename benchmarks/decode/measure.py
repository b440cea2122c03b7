"""What benchmarks.decode measures of one language model: seconds of a prompt and of a token behind
it, for every candidate in turns, on caches of their own."""

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
    """A forward with a static cache: a prompt, and a token in the middle of the answer. The token
    is written at the same place again and again, so that each call does the same."""

    def __init__(self, model: Any, forward: Callable[..., Any], lengths: Lengths) -> None:
        from transformers import StaticCache

        self.forward = forward
        self.cache = StaticCache(model.config, max_cache_len=lengths.whole)
        ids = torch.arange(lengths.batch * lengths.prompt) * 7919 % VOCABULARY
        self.ids = ids.reshape(lengths.batch, lengths.prompt)
        self.token = self.ids[:, :1].clone()
        self.middle = (lengths.prompt + lengths.whole) // 2

    def _at(self, position: int) -> None:
        """The cache as it is with so many tokens in it."""
        for layer in self.cache.layers:
            if layer.is_initialized:
                layer.cumulative_length.fill_(position)

    def prompt(self) -> torch.Tensor:
        """The scores behind the prompt."""
        with torch.no_grad():
            self._at(0)
            found = self.forward(input_ids=self.ids, past_key_values=self.cache, logits_to_keep=1)
            return found.logits

    def token_again(self) -> torch.Tensor:
        """The scores behind one more token."""
        with torch.no_grad():
            self._at(self.middle)
            found = self.forward(input_ids=self.token, past_key_values=self.cache)
            return found.logits


def _candidate(name: str, model: Any, lengths: Lengths, folder: Path) -> Any:
    if name.startswith("eager"):
        return Steps(model, model.forward, lengths)
    if name == "torch.onnx":
        return Session(model, lengths, folder)
    if name == "openvino":
        return OpenVino(model, lengths, folder)
    if name == "inductor":
        return Steps(model, torch.compile(model.forward, dynamic=False), lengths)
    kind = name.removeprefix("ortable").strip() or None
    options = {"weights": kind} if kind else {}
    compiled = torch.compile(model.forward, backend="ortable", dynamic=False, options=options)
    return Steps(model, compiled, lengths)


def measure(size: str, lengths: Lengths, rounds: int, names: list[str]) -> dict[str, Any]:
    """A record: milliseconds of a prompt and of a token of every candidate, ratios to eager and to
    ortable's float32, and seconds of the first calls."""
    torch._dynamo.config.recompile_limit = 64  # all candidates compile one forward
    model = build(size)
    made: dict[str, Any] = {}
    first, failed = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for name in [*names, "eager again"]:
            try:
                candidate = _candidate(name, model, lengths, Path(folder))
                seconds, _ = timed(candidate.prompt)
                more, _ = timed(candidate.token_again)
            except Exception as error:  # a candidate that cannot run is part of the record
                failed[name] = reason(error)
                continue
            first[name] = seconds + more
            made[name] = candidate
            gc.collect()
        found = {
            step: time_interleaved({n: getattr(c, step) for n, c in made.items()}, rounds, 0.1)
            for step in ("prompt", "token_again")
        }
    return {
        "size": size,
        "parameters": sum(p.numel() for p in model.parameters()),
        "batch": lengths.batch,
        "prompt": lengths.prompt,
        "whole": lengths.whole,
        "ms": {
            step: {name: statistics.median(times) * 1e3 for name, times in each.items()}
            for step, each in found.items()
        },
        "to_eager": {
            step: {name: median_ratio(each, name, "eager") for name in made}
            for step, each in found.items()
        },
        "to_float32": {
            name: median_ratio(found["token_again"], name, "ortable")
            for name in made
            if "ortable" in made
        },
        "band": band(found["token_again"], "eager", "eager again"),
        "first_seconds": first,
        "failed": failed,
    }
