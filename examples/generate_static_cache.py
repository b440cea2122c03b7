"""Generate text with a small compiled Llama and a static cache.

    python examples/generate_static_cache.py          # float weights
    python examples/generate_static_cache.py --int8   # weights of 8 bits

You learn why a static cache suits a compiled model: its shapes do not change, so two graphs (for
the prompt, and for one token) are enough for any length of text. With float weights the tokens must
equal eager's. Rounding to 8 bits changes the model slightly, so the script counts equal tokens.

Weights are random. Exits with status 1 if tokens with float weights differ.
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
    """Build a Llama of two layers; the random weights are the same each time."""
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
        eos_token_id=None,  # without an end token, all texts have the same length
        pad_token_id=0,
    )
    return LlamaForCausalLM(config).eval()


def generate(model: LlamaForCausalLM, prompt: torch.Tensor) -> torch.Tensor:
    """Return greedy tokens after the prompt, int64 (batch, TOKENS)."""
    tokens = model.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        max_new_tokens=TOKENS,
        do_sample=False,
        cache_implementation="static",
        disable_compile=True,  # transformers would compile with its default backend
    )
    return tokens[:, prompt.shape[1] :]


def main(arguments: Sequence[str] | None = None) -> int:
    """Generate eagerly and compiled; return 0 if tokens are equal or weights have 8 bits."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--int8", action="store_true", help="weights of 8 bits")
    is_int8 = parser.parse_args(arguments).int8
    model = small_llama()
    prompt = torch.tensor([[5, 17, 42, 8], [9, 3, 77, 120]])
    expected = generate(model, prompt)

    # 32 weights share a scale; the default, 128, is for layers wider than 64
    storage: dict[str, list] = {}
    options: dict[str, object] = {"storage": storage}
    if is_int8:
        options["weights"] = {"kind": "int8", "group_size": 32}
    counters.clear()
    model.forward = torch.compile(model.forward, backend="ortable", options=options)
    generated = generate(model, prompt)

    print(f"eager:    {expected[0].tolist()}")
    print(f"compiled: {generated[0].tolist()}")
    print(f"graphs: {counters['stats']['unique_graphs']} for {TOKENS} tokens")
    quantized_count = len(storage["instance"][-1].weights.get("rounded", ()))
    print(f"weights of 8 bits: {quantized_count}")
    equal_count = int((generated == expected).sum())
    print(f"{equal_count} of {expected.numel()} tokens equal eager's")
    return int(not is_int8 and equal_count < expected.numel())


if __name__ == "__main__":
    sys.exit(main())
