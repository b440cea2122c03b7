"""torch.arange between sizes of an input, with steps that count down and steps that are floats."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from ortable import to_onnx

from .helpers import assert_same


class Counts(torch.nn.Module):
    def __init__(self, function: Callable[[int], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x.shape[0])


@pytest.mark.parametrize(
    "function",
    [
        lambda n: torch.arange(n, -n, -1.0),
        lambda n: torch.arange(n, -n, -1.0, dtype=torch.int64),
        lambda n: torch.arange(0, n, 0.5),
        lambda n: torch.arange(0.0, n, 0.3),
        lambda n: torch.arange(n, 0, -2),
        lambda n: torch.arange(n * 0.5),
    ],
    ids=["down", "down in ints", "halves", "thirds", "twos", "float end"],
)
def test_a_range_between_sizes(function) -> None:
    module = Counts(function)
    model = to_onnx(module, (torch.rand(5),), dynamic_shapes={"x": {0: "n"}})
    for size in (5, 2, 8):
        assert_same(model, module, (torch.rand(size),))
