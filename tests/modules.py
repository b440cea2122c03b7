"""Modules for export in tests of several topics; `FunctionOfX` has one input named x.

They have no docstrings, which would become docstrings of the exported models.
"""

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
