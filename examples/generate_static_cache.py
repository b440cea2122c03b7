"""Generates text with a small Llama whose forward is compiled, over a cache of fixed length.

    python examples/generate_static_cache.py          # weights as they are
    python examples/generate_static_cache.py --int8   # weights of 8 bits

You learn why a static cache suits a compiled model: its tensors keep one shape, so that two graphs
are enough (the prompt, and one token), however long the text grows. With float weights the tokens
must be eager's. Rounding to 8 bits changes the model a little, so there the script counts how many
tokens are eager's.

Weights are random: nothing is downloaded. Ends with status 1 when tokens of float weights differ.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import torch
from torch._dynamo.utils import counters
from transformers import LlamaConfig, LlamaForCausalLM

TOKENS = 16


def small_llama() -> LlamaForCausalLM:
    """Two layers of 64, the same random weights each time."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=200,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        bos_token_id=1,
        eos_token_id=None,  # nothing ends a text early
        pad_token_id=0,
    )
    return LlamaForCausalLM(config).eval()


def generate(model: LlamaForCausalLM, prompt: torch.Tensor) -> torch.Tensor:
    """Greedy tokens after the prompt, int64 (batch, TOKENS)."""
    tokens = model.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        max_new_tokens=TOKENS,
        do_sample=False,
        cache_implementation="static",
        disable_compile=True,  # transformers would compile with a backend of its own choice
    )
    return tokens[:, prompt.shape[1] :]


def main(arguments: Sequence[str] | None = None) -> int:
    """Eager, then compiled; 0 when the tokens are equal, or weights were rounded."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--int8", action="store_true", help="weights of 8 bits")
    int8 = parser.parse_args(arguments).int8
    model = small_llama()
    prompt = torch.tensor([[5, 17, 42, 8], [9, 3, 77, 120]])
    expected = generate(model, prompt)

    # groups of 32 weights share a scale; the default, 128, is for layers that are wider than 64
    storage: dict[str, list] = {}
    options: dict[str, object] = {"storage": storage}
    if int8:
        options["weights"] = {"kind": "int8", "group_size": 32}
    counters.clear()
    model.forward = torch.compile(model.forward, backend="ortable", options=options)
    found = generate(model, prompt)

    print(f"eager:    {expected[0].tolist()}")
    print(f"compiled: {found[0].tolist()}")
    print(f"graphs: {counters['stats']['unique_graphs']} for {TOKENS} tokens")
    rounded = len(storage["instance"][-1].weights.get("rounded", ()))
    print(f"weights of 8 bits: {rounded}")
    equal = int((found == expected).sum())
    print(f"{equal} of {expected.numel()} tokens equal eager's")
    return int(not int8 and equal < expected.numel())


if __name__ == "__main__":
    sys.exit(main())
