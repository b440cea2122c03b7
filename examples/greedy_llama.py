"""Exports a small Llama with its cache, decodes greedily with ONNX Runtime, and compares the tokens
with transformers' own ``generate``. One ONNX graph does both steps: the prompt (no past, several
tokens) and each further token (a past, one token). Ends with status 1 when the tokens differ."""

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
    eos_token_id=None,  # nothing ends a text early
    pad_token_id=0,
)


class WithFlatCache(torch.nn.Module):
    """The model with its cache as a list of tensors: keys and values of layer 0, of layer 1..."""

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
    """The model as a session with dynamic batch, sequence and past.

    The sizes of the example are 2 and more: torch takes sizes 0 and 1 for constants. The graph
    holds for them all the same.
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
    """The prompts (batch, sequence) followed by ``new_tokens`` tokens each.

    Keys and values go from one step to the next as OrtValues: they are never copied to numpy.
    """
    outputs = [output.name for output in session.get_outputs()]
    empty = [
        (spec.name, [len(prompt), spec.shape[1], 0, spec.shape[3]])
        for spec in session.get_inputs()
        if spec.name.startswith("past_")
    ]
    past = {
        name: OrtValue.ortvalue_from_numpy(np.zeros(shape, np.float32)) for name, shape in empty
    }
    tokens, step = prompt, prompt
    for _ in range(new_tokens):
        feeds = {
            "input_ids": OrtValue.ortvalue_from_numpy(step),
            "attention_mask": OrtValue.ortvalue_from_numpy(np.ones_like(tokens)),
            **past,
        }
        found = dict(zip(outputs, session.run_with_ort_values(outputs, feeds), strict=True))
        past = {f"past_{name}": found[name] for name in outputs[1:]}
        step = found["logits"].numpy()[:, -1].argmax(-1, keepdims=True)
        tokens = np.concatenate([tokens, step], axis=1)
    return tokens


def main() -> int:
    """Print the tokens of ONNX Runtime and of torch; 0 when they are equal."""
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
    found = greedy(export(model), prompt.numpy(), new_tokens)
    for row, wanted in zip(found, expected, strict=True):
        print("ONNX Runtime:", *row)
        print("torch:       ", *wanted)
    equal = np.array_equal(found, expected)
    print("equal" if equal else "DIFFERENT")
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
