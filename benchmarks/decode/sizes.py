"""The models that benchmarks.decode measures, and how many tokens of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

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
