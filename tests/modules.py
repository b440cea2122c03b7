"""Modules that tests of several topics export. They have no docstrings, which would be those of the
models. `FunctionOfX` has one input, whose name is x."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


class Function(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


class FunctionOfX(Function):
    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


class Neuron(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.linear(x))
