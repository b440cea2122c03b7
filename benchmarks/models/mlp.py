"""A multilayer perceptron: two linear layers with a ReLU between them."""

from __future__ import annotations

import torch


class MLP(torch.nn.Module):
    """``Linear(n_in, hidden) -> ReLU -> Linear(hidden, n_out)`` on float32[batch, n_in]."""

    def __init__(self, n_in: int = 10, hidden: int = 32, n_out: int = 1) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(n_in, hidden),
            torch.nn.ReLU(),
            torch.nn.Linear(hidden, n_out),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)
