"""Rules on converted networks: computed and preserved weights, and masks without effect."""

from __future__ import annotations

import collections
from typing import Any

import pytest
import torch
from torch import nn

import ortable
from ortable.testing.runs import ModelRunner, check_same_values


class Block(nn.Module):
    """A convolution whose weight exceeds the limit of constant folding."""

    def __init__(self, width: int = 192) -> None:
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(width)
        self.norm.running_var = torch.rand(width) + 0.5
        self.norm.running_mean = torch.randn(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.conv(x)).relu()


class Tied(nn.Module):
    """A large matrix with two readers: one product directly, one scaled."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(96, 96))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x @ self.weight) * 0.3 + torch.tanh(x @ self.weight)


class Masked(nn.Module):
    """Attention with an all-true mask or a causal mask."""

    def __init__(self, causal: bool) -> None:
        super().__init__()
        self.causal = causal

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(x.shape[2])
        mask = positions[None] <= positions[:, None] if self.causal else positions[None] >= 0
        mask = mask.expand(x.shape[0], 1, x.shape[2], x.shape[2])
        return nn.functional.scaled_dot_product_attention(x, x, x, attn_mask=mask)


def convert(module: nn.Module, x: torch.Tensor, **options: Any) -> tuple[Any, Any]:
    """Convert a module with a dynamic batch, check it, and return the model and its builder."""
    module = module.eval().requires_grad_(False)
    model, builder = ortable.to_onnx(
        module, (x,), dynamic_shapes={"x": {0: "batch"}}, return_builder=True, **options
    )
    with torch.no_grad():
        for sample in (x, torch.cat([x, x])):
            proto = model.to_proto() if hasattr(model, "to_proto") else model
            results = ModelRunner(proto)({"x": sample})
            check_same_values([module(sample)], results, tolerance=1e-4)
    return model, builder


def count_operators(builder: Any) -> collections.Counter[str]:
    return collections.Counter(node.op_type for node in builder.nodes)


def test_large_weights_are_stored() -> None:
    """A weight computed by a rule is an initializer of any size, with a derived name."""
    model, builder = convert(Block(), torch.randn(2, 192, 5, 5))
    assert count_operators(builder) == {"Conv": 1, "Relu": 1}
    assert builder.record.rewrites.counts() == {"conv_batch_norm": 1}
    names = {initializer.name: initializer for initializer in model.graph.initializer}
    assert set(names) == {"conv.weight_scaled", "norm.bias_moved"}
    assert len(names["conv.weight_scaled"].raw_data) > 1 << 20


@pytest.mark.parametrize("mode", ["large_model", "folding"])
def test_weights_stay_as_they_are(mode: str) -> None:
    """No rule computes weights where those of the state_dict are preserved."""
    options = {
        "large_model": {"large_model": True, "external_threshold": 1 << 30},
        "folding": {"export_options": ortable.ExportOptions(constant_folding=False)},
    }[mode]
    _, builder = convert(Block(8), torch.randn(2, 8, 5, 5), **options)
    assert count_operators(builder) == {"Conv": 1, "BatchNormalization": 1, "Relu": 1}
    assert any(
        "are_weights" in r for r in builder.record.rewrites.statistics_of("conv_batch_norm").refused
    )


def test_tied_weights_are_not_copied() -> None:
    """A large weight with other readers is not duplicated to absorb a factor."""
    model, builder = convert(Tied(), torch.randn(2, 96))
    assert "matmul_scale" not in builder.record.rewrites.counts()
    large = [t for t in model.graph.initializer if len(t.raw_data) >= 96 * 96 * 4]
    assert len(large) == 1


def test_half_precision_keeps_its_roundings() -> None:
    """In float16, a factor after a layer is a separate rounding."""

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.linear(x) * 0.3

    _, builder = convert(Layer().half(), torch.randn(2, 3, 8).half())
    assert "linear_scale" not in builder.record.rewrites.counts()
    _, builder = convert(Layer(), torch.randn(2, 3, 8))
    assert builder.record.rewrites.counts()["linear_scale"] == 1


def test_masks_that_hide_no_row() -> None:
    """An all-true mask is removed; a causal one needs no fix for fully masked rows."""
    x = torch.randn(2, 3, 5, 8)
    _, builder = convert(Masked(False), x)
    assert not {"Where", "ReduceMax", "Expand"} & set(count_operators(builder))
    _, builder = convert(Masked(True), x)
    assert count_operators(builder)["Where"] == 1
    assert "ReduceMax" not in count_operators(builder)


@pytest.mark.parametrize("opset", [18, 23])
def test_root_mean_square(opset: int) -> None:
    """The norm becomes RMSNormalization where the opset has it."""

    class Norm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(8))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))

    _, builder = convert(Norm(), torch.randn(2, 3, 8), target_opset=opset)
    assert (count_operators(builder) == {"RMSNormalization": 1}) == (opset == 23)
