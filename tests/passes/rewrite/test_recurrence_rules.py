"""Rules for models that keep a state: one step of the gated delta rule, and causal convolutions."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from torch.nn import functional as F

import ortable
from benchmarks.models.architectures import ARCHITECTURES, build_architecture
from tests.passes.test_scanned_attention import check, delta, gated, gated_by_key, gated_delta, rows


class Step(torch.nn.Module):
    """Two consecutive recurrence steps, as in token-by-token generation."""

    def __init__(self, step: Any) -> None:
        super().__init__()
        self.step = step

    def forward(self, state: torch.Tensor, *inputs: torch.Tensor) -> Any:
        state, first_output = self.step(state, *(tensor[:, :, 0] for tensor in inputs))
        state, second_output = self.step(state, *(tensor[:, :, 1] for tensor in inputs))
        return state, torch.stack([first_output, second_output], dim=2)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("step", [gated, gated_by_key, delta, gated_delta])
def test_a_step(step: Any, batch: int) -> None:
    """Each step becomes one LinearAttention, whose final state is the input of the next."""
    args = rows(batch, 2)
    model, builder = ortable.to_onnx(
        Step(step), args, target="onnxruntime", target_opset=23, return_builder=True
    )
    op_counts = Counter(node.op_type for node in builder.nodes)
    assert op_counts["LinearAttention"] == 2
    assert not {"MatMul", "ReduceSum"} & set(op_counts)
    check(model, Step(step), args)


class Window(torch.nn.Module):
    """One decoding step of a causal convolution, which keeps the last inputs as its state."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv1d(6, 6, 4, groups=6)

    def forward(self, state: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        window = torch.cat([state, x], dim=-1)
        return F.silu(self.conv(window)[..., -1:]), window[..., 1:]


def test_the_next_place_of_a_convolution() -> None:
    """The decoding step becomes one node that computes only the last position."""
    args = torch.randn(3, 6, 4), torch.randn(3, 6, 1)
    module = Window()
    model, builder = ortable.to_onnx(module, args, target="onnxruntime", return_builder=True)
    assert builder.record.rewrites.counts()["ort_causal_conv_step"] == 1
    check(model, module, args)


class Causal(torch.nn.Module):
    """A short causal convolution per channel, as in Mamba and Qwen3-Next."""

    def __init__(self, kernel: int) -> None:
        super().__init__()
        self.conv = torch.nn.Conv1d(6, 6, kernel, groups=6, padding=kernel - 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor]:
        return (F.silu(self.conv(x)[..., : x.shape[-1]]),)


@pytest.mark.parametrize("length", [1, 2, 9])
@pytest.mark.parametrize("kernel", [2, 4])
def test_causal_convolution(kernel: int, length: int) -> None:
    """Positions that the Slice discards are not computed, even below the kernel length."""
    batch = torch.export.Dim("b")
    module, x = Causal(kernel), torch.randn(2, 6, length)
    model, builder = ortable.to_onnx(
        module, (x,), target="onnxruntime", dynamic_shapes=({0: batch},), return_builder=True
    )
    assert builder.record.rewrites.counts()["conv_slice"] == 1
    assert "Slice" not in {node.op_type for node in builder.nodes}
    for count in (1, 3):
        check(model, module, (torch.randn(count, 6, length),))


def test_causal_convolution_of_any_length() -> None:
    """The Slice stays for a dynamic length: a length of 0 is valid only for the padded Conv."""
    shapes = ({2: torch.export.Dim("n")},)
    _, builder = ortable.to_onnx(
        Causal(4), (torch.randn(2, 6, 5),), dynamic_shapes=shapes, return_builder=True
    )
    assert "Slice" in {node.op_type for node in builder.nodes}


def test_mamba() -> None:
    """The convolutions are rewritten; states with values of width one stay as they are."""
    args, kwargs = ARCHITECTURES["mamba"].call()
    program = torch.export.export(build_architecture("mamba"), args, kwargs, strict=False)
    _, builder = ortable.to_onnx(program, target="onnxruntime", return_builder=True)
    counts = builder.record.rewrites.counts()
    assert counts["conv_slice"] == counts["ort_causal_conv"] == 2
    assert "LinearAttention" not in {node.op_type for node in builder.nodes}
