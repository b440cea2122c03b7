"""Models and lengths of benchmarks.decode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

# hidden size, intermediate size, layers, heads, key-value heads
SIZES = {
    "124M": (768, 2048, 12, 12, 4),
    "1B": (2048, 5632, 22, 32, 4),
    "tiny": (64, 128, 2, 4, 2),
}
VOCABULARY = 32000


@dataclass(frozen=True)
class Lengths:
    """The batch, the tokens of the prompt, and the tokens of prompt and answer together."""

    batch: int
    prompt: int
    total: int

    def describe(self) -> dict[str, int]:
        """Return the lengths as values of a record."""
        return {"batch": self.batch, "prompt": self.prompt, "whole": self.total}

    def make_ids(self) -> torch.Tensor:
        """Return token ids of the prompt, int64 [batch, prompt]."""
        ids = torch.arange(self.batch * self.prompt) * 7919 % VOCABULARY
        return ids.reshape(self.batch, self.prompt)


def make_config(size: str) -> Any:
    """Return the configuration of a Llama-like model."""
    from transformers import LlamaConfig

    hidden, intermediate, layers, heads, kv_heads = SIZES[size]
    return LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=hidden, intermediate_size=intermediate,
        num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=kv_heads,
        max_position_embeddings=8192,
    )  # fmt: skip


def build(size: str) -> Any:
    """Build a Llama-like model with random float32 weights."""
    from transformers import LlamaForCausalLM

    torch.manual_seed(0)
    return LlamaForCausalLM(make_config(size)).eval()
