"""Convolutions with a group for each sample of a dynamic batch, as StyleGAN2 modulates weights."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional as F

import ortable

Forward = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def modulate_weights(x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    n, channels, height, width = x.shape
    rows = x.reshape(1, n * channels, height, width)
    kernels = weights.reshape(n * 2, channels, 3, 3)
    return F.conv2d(rows, kernels, padding=1, groups=n).reshape(n, 2, height, width)


def upsample_modulated(x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    n, channels, height, width = x.shape
    rows = x.reshape(1, n * channels, height, width)
    kernels = weights.transpose(1, 2).reshape(n * channels, 2, 3, 3)
    return F.conv_transpose2d(rows, kernels, stride=2, groups=n, output_padding=1)


def filter_each_channel(x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    n, channels, height, width = x.shape
    kernels = weights[:, 0, 0].repeat_interleave(channels, 0).unsqueeze(1)
    return F.conv2d(x.reshape(1, -1, height, width), kernels, groups=n * channels, stride=2)


def keep_size(x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    rows = x.reshape(1, -1, *x.shape[2:])
    return F.conv2d(rows, weights.flatten(0, 1), groups=len(x), padding="same", dilation=2)


class Call(torch.nn.Module):
    def __init__(self, function: Forward) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        return self.function(x, weights)


@pytest.mark.parametrize(
    "function", [modulate_weights, upsample_modulated, filter_each_channel, keep_size]
)
def test_groups_of_a_dynamic_batch(function: Forward) -> None:
    def make(n: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.randn(n, 3, 6, 7), torch.randn(n, 2, 3, 3, 3)

    model = Call(function)
    program = ortable.export(model, make(2), dynamic_shapes=({0: "n"}, {0: "n"}))
    for n in (1, 2, 5):
        args = make(n)
        torch.testing.assert_close(program(*args), model(*args), rtol=1e-4, atol=1e-5)
