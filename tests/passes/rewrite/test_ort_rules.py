"""ONNX Runtime's rules fire on common models and preserve torch's results."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from torch.nn import functional as F

import ortable
from benchmarks.models.inference import build

RULES = ["default", "ort_attention"]  # the rule for attention without a mask is off by default
# the rule that rewrites the attention of each model at an opset with Attention
ATTENTION = {
    "bert": "ort_attention_masked",
    "gpt2": "ort_attention_causal",
    "vit": "ort_attention",
    "t5_encoder": "ort_attention_with_bias",
    "whisper_encoder": "ort_attention",
    "swin": "ort_attention_with_bias",
}


def convert_for_runtime(module: Any, args: tuple[Any, ...], opset: int = 24, **options: Any) -> Any:
    """Return the model for ONNX Runtime and its builder."""
    return ortable.to_onnx(
        module,
        args,
        target="onnxruntime",
        target_opset=opset,
        return_builder=True,
        **{"rewrites": RULES, **options},
    )


def check_same_as_torch(module: Any, args: tuple[Any, ...], model: Any) -> None:
    """Compare the module with a session that has all graph optimizations."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [info.name for info in session.get_inputs()]
    result = session.run(None, {n: x.numpy() for n, x in zip(names, args, strict=True)})[0]
    with torch.no_grad():
        expected = module(*args).numpy()
    assert not np.isnan(expected).any()
    assert np.abs(result - expected).max() <= 1e-5 * np.abs(expected).max()


@pytest.mark.alternates("opset")
@pytest.mark.parametrize("opset", [18, 24])
@pytest.mark.parametrize("name", [*ATTENTION, "llama"])
def test_models(name: str, opset: int) -> None:
    """Attention becomes one node if the opset has the operator; results equal torch's."""
    module, args = build(name, small=True)
    model, builder = convert_for_runtime(module, args, opset)
    check_same_as_torch(module, args, model)
    counts = builder.record.rewrites.counts()
    if opset >= 23 and name in ATTENTION:
        assert counts[ATTENTION[name]] > 0
        assert "Softmax" not in {node.op_type for node in builder.nodes}


def test_padded_sequence_without_a_token() -> None:
    """Rows without a visible key are 0, as in torch, without a Where."""
    module, (ids, mask) = build("bert", small=True)
    mask[0, 5:] = 0
    mask[1] = 0
    model, builder = convert_for_runtime(module, (ids, mask))
    check_same_as_torch(module, (ids, mask), model)
    assert builder.record.rewrites.counts()["ort_attention_masked"] == 2


class Rotated(torch.nn.Module):
    """Causal grouped-query attention with rotary embeddings, as in Llama."""

    def __init__(self, heads: int = 4, groups: int = 2, width: int = 16, length: int = 6) -> None:
        super().__init__()
        self.heads, self.groups, self.width = heads, groups, width
        self.q = torch.nn.Linear(32, heads * width, bias=False)
        self.k = torch.nn.Linear(32, groups * width, bias=False)
        self.v = torch.nn.Linear(32, groups * width, bias=False)
        position_angles = torch.arange(length)[:, None] / 10 ** (torch.arange(width // 2) / width)
        angles = torch.cat([position_angles, position_angles], -1)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def apply_rotary(self, x: torch.Tensor) -> torch.Tensor:
        """Rotate each pair of elements of the two halves by its angle."""
        half = x.shape[-1] // 2
        swapped = torch.cat([-x[..., half:], x[..., :half]], -1)
        return x * self.cos + swapped * self.sin

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[B, L, 32] -> [B, L, heads * width]."""
        batch, length, _ = x.shape
        q, k, v = (
            layer(x).view(batch, length, -1, self.width).transpose(1, 2)
            for layer in (self.q, self.k, self.v)
        )
        repeats = self.heads // self.groups
        k, v = self.apply_rotary(k), v
        k, v = (
            tensor[:, :, None]
            .expand(batch, self.groups, repeats, length, self.width)
            .reshape(batch, self.heads, length, self.width)
            for tensor in (k, v)
        )
        output = F.scaled_dot_product_attention(self.apply_rotary(q), k, v, is_causal=True)
        return output.transpose(1, 2).reshape(batch, length, -1)


@pytest.mark.parametrize("opset", [18, 24])
def test_rotary_attention_of_grouped_heads(opset: int) -> None:
    """Angles, repeated heads and the mask are fused into one GroupQueryAttention."""
    torch.manual_seed(0)
    module, args = Rotated().eval(), (torch.randn(2, 6, 32),)
    model, builder = convert_for_runtime(module, args, opset)
    check_same_as_torch(module, args, model)
    op_keys = [node.key for node in builder.nodes]
    assert op_keys.count("com.microsoft::GroupQueryAttention") == 1
    assert not {"Softmax", "Expand", "Where", "Slice"} & set(op_keys)


@pytest.mark.alternates(parts=2)
@pytest.mark.parametrize("name", ["bert", "gpt2", "vit", "t5_encoder"])
def test_backend(name: str) -> None:
    """Graphs of torch.compile have the same fused attention and equal results."""
    module, args = build(name, small=True)
    storage: dict[str, Any] = {}
    torch._dynamo.reset()
    with torch.no_grad():
        compiled = torch.compile(
            module, backend="ortable", options={"storage": storage, "rewrites": RULES}
        )
        result, expected = compiled(*args), module(*args)
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5)
    fired_rules = {rule_name for record in storage["instance"] for rule_name in record["rewrites"]}
    assert any(rule_name.startswith("ort_attention") for rule_name in fired_rules)


def test_dynamic_batch_and_length() -> None:
    """The attention rule also fires for dynamic sizes."""
    module, args = build("bert", small=True)
    sizes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("length", max=64)}
    model, builder = convert_for_runtime(module, args, dynamic_shapes=((dict(sizes), dict(sizes)),))
    assert builder.record.rewrites.counts()["ort_attention_masked"] == 2
    ids = torch.randint(0, 100, (3, 11))
    for inputs in (args, (ids, torch.ones_like(ids))):
        check_same_as_torch(module, inputs, model)


@pytest.mark.alternates(parts=2)
@pytest.mark.parametrize("name", ["bert", "gpt2", "llama"])
def test_linear_layers_as_convolutions(name: str) -> None:
    """The rule `ort_pointwise`, which is off by default, preserves results."""
    module, args = build(name, small=True, batch=3)
    model, builder = convert_for_runtime(module, args, rewrites=["default", "ort_pointwise"])
    check_same_as_torch(module, args, model)
    assert "Conv" in {node.op_type for node in builder.nodes}
