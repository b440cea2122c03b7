"""What benchmarks.decode measures of one language model: seconds of a prompt and of a token behind
it, for every candidate in turns, on caches of their own."""

from __future__ import annotations

import gc
import statistics
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.measure import band, interleave, median_ratio, reason, timed

__all__ = ["CANDIDATES", "SIZES", "measure"]

CANDIDATES = ("eager", "inductor", "torch.onnx", "ortable", "ortable int8", "ortable int4")
# hidden, intermediate, layers, heads, heads of keys
SIZES = {
    "124M": (768, 2048, 12, 12, 4),
    "1B": (2048, 5632, 22, 32, 4),
    "tiny": (64, 128, 2, 4, 2),
}
VOCABULARY = 32000


@dataclass(frozen=True)
class Lengths:
    """How many texts, tokens of a prompt, and tokens of prompt and answer."""

    batch: int
    prompt: int
    whole: int


def build(size: str) -> Any:
    """A model like Llama with random weights, in float32."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    hidden, inner, layers, heads, shared = SIZES[size]
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=hidden, intermediate_size=inner,
        num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=shared,
        max_position_embeddings=2048,
    )  # fmt: skip
    return LlamaForCausalLM(config).eval()


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


class Session:
    """torch.onnx's graph of the same step, in a bare session: caches are inputs and outputs, which
    stay in ONNX Runtime's memory, and grow by a token."""

    def __init__(self, model: Any, lengths: Lengths, folder: Path) -> None:
        import onnxruntime

        self.config, self.lengths = model.config, lengths
        path = folder / "model.onnx"
        _export(model, lengths, path)
        options = onnxruntime.SessionOptions()
        self.session = onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])
        self.names = [each.name for each in self.session.get_inputs()]
        ids = torch.arange(lengths.batch * lengths.prompt) * 7919 % VOCABULARY
        self.ids = ids.reshape(lengths.batch, lengths.prompt).numpy()
        self.past = (lengths.prompt + lengths.whole) // 2
        self.caches = {past: self._values(past) for past in (0, self.past)}

    def _values(self, past: int) -> list[Any]:
        import onnxruntime

        heads = self.config.num_key_value_heads
        shape = (self.lengths.batch, heads, past, self.config.head_dim)
        count = 2 * self.config.num_hidden_layers
        make = onnxruntime.OrtValue.ortvalue_from_numpy
        return [make(np.random.randn(*shape).astype(np.float32)) for _ in range(count)]

    def _run(self, ids: np.ndarray, past: int) -> Any:
        import onnxruntime

        given = [onnxruntime.OrtValue.ortvalue_from_numpy(ids), *self.caches[past]]
        feeds = dict(zip(self.names, given, strict=True))
        return self.session.run_with_ort_values(None, feeds)[0].numpy()

    def prompt(self) -> Any:
        """The scores behind the prompt."""
        return self._run(self.ids, 0)

    def token_again(self) -> Any:
        """The scores behind one more token."""
        return self._run(self.ids[:, :1], self.past)


def _export(model: Any, lengths: Lengths, path: Path) -> None:
    from transformers import DynamicCache

    class Flat(torch.nn.Module):
        """The model with its cache as tensors."""

        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, ids: torch.Tensor, *flat: torch.Tensor) -> Any:
            cache = DynamicCache(list(zip(flat[0::2], flat[1::2], strict=True)))
            found = self.model(input_ids=ids, past_key_values=cache, use_cache=True)
            layers = found.past_key_values.layers
            return (
                found.logits[:, -1:],
                *(t for layer in layers for t in (layer.keys, layer.values)),
            )

    config, dynamic = model.config, torch.export.Dim.DYNAMIC
    ids = torch.zeros(2, 3, dtype=torch.int64)
    shape = (2, config.num_key_value_heads, 5, config.head_dim)
    flat = tuple(torch.randn(shape) for _ in range(2 * config.num_hidden_layers))
    shapes = ({0: dynamic, 1: dynamic}, tuple({0: dynamic, 2: dynamic} for _ in flat))
    torch.onnx.export(Flat(), (ids, *flat), path, dynamo=True, dynamic_shapes=shapes)


def _candidate(name: str, model: Any, lengths: Lengths, folder: Path) -> Any:
    if name.startswith("eager"):
        return Steps(model, model.forward, lengths)
    if name == "torch.onnx":
        return Session(model, lengths, folder)
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
            step: interleave({n: getattr(c, step) for n, c in made.items()}, rounds, 0.1)
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
