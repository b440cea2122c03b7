"""ONNX Runtime's rules on models that people run: they fire, and the values are torch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from torch.nn import functional as F

import ortable
from benchmarks.models.inference import build

RULES = ["default", "ort_attention"]  # the one without a mask is off by default
# what the attention of each model of the set becomes at an opset with Attention
ATTENTION = {
    "bert": "ort_attention_masked",
    "gpt2": "ort_attention_causal",
    "vit": "ort_attention",
    "t5_encoder": "ort_attention_with_bias",
    "whisper_encoder": "ort_attention",
    "swin": "ort_attention_with_bias",
}


def converted(module: Any, args: tuple[Any, ...], opset: int = 24, **options: Any) -> Any:
    """The model for ONNX Runtime, and its builder."""
    return ortable.to_onnx(
        module,
        args,
        target="onnxruntime",
        target_opset=opset,
        return_builder=True,
        **{"rewrites": RULES, **options},
    )


def same_as_torch(module: Any, args: tuple[Any, ...], model: Any) -> None:
    """The model computes what the module does, at a session with all of the optimizations."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [each.name for each in session.get_inputs()]
    found = session.run(None, {n: x.numpy() for n, x in zip(names, args, strict=True)})[0]
    with torch.no_grad():
        wanted = module(*args).numpy()
    assert not np.isnan(wanted).any()
    assert np.abs(found - wanted).max() <= 1e-5 * np.abs(wanted).max()


@pytest.mark.alternates("opset")
@pytest.mark.parametrize("opset", [18, 24])
@pytest.mark.parametrize("name", [*ATTENTION, "llama"])
def test_models(name: str, opset: int) -> None:
    """Attention becomes one node where its operator is there; values are those of torch."""
    module, args = build(name, small=True)
    model, builder = converted(module, args, opset)
    same_as_torch(module, args, model)
    counts = builder.record.rewrites.counts()
    if opset >= 23 and name in ATTENTION:
        assert counts[ATTENTION[name]] > 0
        assert "Softmax" not in {node.op_type for node in builder.nodes}


def test_padded_sequence_without_a_token() -> None:
    """Rows that see no key are 0, as in torch, without a Where."""
    module, (ids, mask) = build("bert", small=True)
    mask[0, 5:] = 0
    mask[1] = 0
    model, builder = converted(module, (ids, mask))
    same_as_torch(module, (ids, mask), model)
    assert builder.record.rewrites.counts()["ort_attention_masked"] == 2


class Rotated(torch.nn.Module):
    """Causal attention of grouped heads that are turned by their places, as Llama has it."""

    def __init__(self, heads: int = 4, groups: int = 2, width: int = 16, length: int = 6) -> None:
        super().__init__()
        self.heads, self.groups, self.width = heads, groups, width
        self.q = torch.nn.Linear(32, heads * width, bias=False)
        self.k = torch.nn.Linear(32, groups * width, bias=False)
        self.v = torch.nn.Linear(32, groups * width, bias=False)
        places = torch.arange(length)[:, None] / 10 ** (torch.arange(width // 2) / width)
        angles = torch.cat([places, places], -1)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def turned(self, x: torch.Tensor) -> torch.Tensor:
        """Every pair of a half and the other half by its angle."""
        half = x.shape[-1] // 2
        other = torch.cat([-x[..., half:], x[..., :half]], -1)
        return x * self.cos + other * self.sin

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[B, L, 32] -> [B, L, heads * width]."""
        batch, length, _ = x.shape
        q, k, v = (
            layer(x).view(batch, length, -1, self.width).transpose(1, 2)
            for layer in (self.q, self.k, self.v)
        )
        times = self.heads // self.groups
        k, v = self.turned(k), v
        k, v = (
            each[:, :, None]
            .expand(batch, self.groups, times, length, self.width)
            .reshape(batch, self.heads, length, self.width)
            for each in (k, v)
        )
        found = F.scaled_dot_product_attention(self.turned(q), k, v, is_causal=True)
        return found.transpose(1, 2).reshape(batch, length, -1)


@pytest.mark.parametrize("opset", [18, 24])
def test_rotary_attention_of_grouped_heads(opset: int) -> None:
    """Angles, repeated heads and the mask all go into one GroupQueryAttention."""
    torch.manual_seed(0)
    module, args = Rotated().eval(), (torch.randn(2, 6, 32),)
    model, builder = converted(module, args, opset)
    same_as_torch(module, args, model)
    kinds = [node.key for node in builder.nodes]
    assert kinds.count("com.microsoft::GroupQueryAttention") == 1
    assert not {"Softmax", "Expand", "Where", "Slice"} & set(kinds)


@pytest.mark.alternates(parts=2)
@pytest.mark.parametrize("name", ["bert", "gpt2", "vit", "t5_encoder"])
def test_backend(name: str) -> None:
    """Graphs of torch.compile have the same attention, and its values."""
    module, args = build(name, small=True)
    kept: dict[str, Any] = {}
    torch._dynamo.reset()
    with torch.no_grad():
        compiled = torch.compile(
            module, backend="ortable", options={"storage": kept, "rewrites": RULES}
        )
        found, wanted = compiled(*args), module(*args)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    fired = {rule for each in kept["instance"] for rule in each["rewrites"]}
    assert any(rule.startswith("ort_attention") for rule in fired)


def test_dynamic_batch_and_length() -> None:
    """Sizes that are not known are no reason to keep the scores."""
    module, args = build("bert", small=True)
    sizes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("length", max=64)}
    model, builder = converted(module, args, dynamic_shapes=((dict(sizes), dict(sizes)),))
    assert builder.record.rewrites.counts()["ort_attention_masked"] == 2
    ids = torch.randint(0, 100, (3, 11))
    for one in (args, (ids, torch.ones_like(ids))):
        same_as_torch(module, one, model)


@pytest.mark.alternates(parts=2)
@pytest.mark.parametrize("name", ["bert", "gpt2", "llama"])
def test_linear_layers_as_convolutions(name: str) -> None:
    """Rules that are off by default compute the same."""
    module, args = build(name, small=True, batch=3)
    model, builder = converted(module, args, rewrites=["default", "ort_pointwise"])
    same_as_torch(module, args, model)
    assert "Conv" in {node.op_type for node in builder.nodes}
