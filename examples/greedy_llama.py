"""Export a small Llama with its cache, and decode greedily with ONNX Runtime.

One ONNX graph computes both the prompt (no past, several tokens) and each next token (a past, one
token). The tokens are compared with those of transformers' ``generate``; exits with status 1 if
they differ.
"""

from __future__ import annotations

import sys

import numpy as np
import onnxruntime
import torch
from onnxruntime import OrtValue
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

import ortable

CONFIG = LlamaConfig(
    hidden_size=64,
    intermediate_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    vocab_size=200,
    max_position_embeddings=128,
    bos_token_id=1,
    eos_token_id=None,  # without an end token, all texts have the same length
    pad_token_id=0,
)


class WithFlatCache(torch.nn.Module):
    """The model with its cache as a list of tensors: keys and values of each layer in turn."""

    def __init__(self, model: LlamaForCausalLM) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, past: list[torch.Tensor]
    ) -> tuple[torch.Tensor, list[torch.Tensor]]:
        cache = DynamicCache(list(zip(past[::2], past[1::2], strict=True)))
        out = self.model(input_ids, attention_mask=attention_mask, past_key_values=cache)
        layers = out.past_key_values.layers
        return out.logits, [tensor for layer in layers for tensor in (layer.keys, layer.values)]


def export(model: LlamaForCausalLM) -> onnxruntime.InferenceSession:
    """Export the model, and return a session with dynamic batch, sequence and past.

    The example sizes are at least 2, because torch makes sizes 0 and 1 constants. The graph is
    valid for 0 and 1, too.
    """
    batch, sequence, past = 2, 3, 4
    heads, width = CONFIG.num_key_value_heads, CONFIG.hidden_size // CONFIG.num_attention_heads
    cache = [torch.zeros(batch, heads, past, width) for _ in range(2 * CONFIG.num_hidden_layers)]
    names = [f"{kind}_{i}" for i in range(CONFIG.num_hidden_layers) for kind in ("key", "value")]
    onnx_model = ortable.to_onnx(
        WithFlatCache(model),
        (
            torch.zeros(batch, sequence, dtype=torch.int64),
            torch.ones(batch, past + sequence, dtype=torch.int64),
            cache,
        ),
        dynamic_shapes={
            "input_ids": {0: "batch", 1: "sequence"},
            "attention_mask": {0: "batch", 1: torch.export.Dim.DYNAMIC},
            "past": [{0: "batch", 2: "past"}] * len(cache),
        },
        input_names=["input_ids", "attention_mask", *(f"past_{name}" for name in names)],
        output_names=["logits", *names],
    )
    return onnxruntime.InferenceSession(
        onnx_model.SerializeToString(), providers=["CPUExecutionProvider"]
    )


def greedy(
    session: onnxruntime.InferenceSession, prompt: np.ndarray, new_tokens: int
) -> np.ndarray:
    """Return the prompts (batch, sequence), each followed by ``new_tokens`` tokens.

    Keys and values are passed to the next step as OrtValues, and never copied to numpy.
    """
    outputs = [output.name for output in session.get_outputs()]
    shapes = [
        (spec.name, [len(prompt), spec.shape[1], 0, spec.shape[3]])
        for spec in session.get_inputs()
        if spec.name.startswith("past_")
    ]
    past = {
        name: OrtValue.ortvalue_from_numpy(np.zeros(shape, np.float32)) for name, shape in shapes
    }
    tokens, next_tokens = prompt, prompt
    for _ in range(new_tokens):
        feeds = {
            "input_ids": OrtValue.ortvalue_from_numpy(next_tokens),
            "attention_mask": OrtValue.ortvalue_from_numpy(np.ones_like(tokens)),
            **past,
        }
        result = dict(zip(outputs, session.run_with_ort_values(outputs, feeds), strict=True))
        past = {f"past_{name}": result[name] for name in outputs[1:]}
        next_tokens = result["logits"].numpy()[:, -1].argmax(-1, keepdims=True)
        tokens = np.concatenate([tokens, next_tokens], axis=1)
    return tokens


def main() -> int:
    """Print the tokens of ONNX Runtime and of torch; return 0 if they are equal."""
    torch.manual_seed(0)
    model = LlamaForCausalLM(CONFIG).eval()
    prompt = torch.randint(3, CONFIG.vocab_size, (2, 6))
    new_tokens = 12
    expected = model.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        do_sample=False,
        max_new_tokens=new_tokens,
    ).numpy()
    generated = greedy(export(model), prompt.numpy(), new_tokens)
    for row, expected_row in zip(generated, expected, strict=True):
        print("ONNX Runtime:", *row)
        print("torch:       ", *expected_row)
    equal = np.array_equal(generated, expected)
    print("equal" if equal else "DIFFERENT")
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
