"""The models of the DistributedDataParallel cases, and the comparison with one process."""

from __future__ import annotations

import copy

import torch
from harness import assert_gradients, share
from torch import nn

SMALL = {"bucket_cap_mb": 1}


class Tower(nn.Module):
    """Layers large enough to fall into several buckets of 1 MiB, the smallest that torch has."""

    def __init__(self, width=400, depth=3):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.head = nn.Linear(width, 3)

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x)) + x
        return self.head(x)


class Halves(nn.Module):
    """A module whose second half the forward does not use when it is asked not to."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 8)

    def forward(self, x, both):
        x = torch.tanh(self.first(x))
        return self.second(x) if both else x


def joined(model, x, y):
    """Gradients of one process that sees the whole batch."""
    single = copy.deepcopy(model)
    nn.functional.mse_loss(single(x), y).backward()
    return single


def check(model, wrap, rank, world, x, y):
    expected = joined(model, x, y)
    wrapped = wrap(copy.deepcopy(model))
    for _ in range(2):  # the second call rebuilds the buckets
        wrapped.zero_grad()
        loss = nn.functional.mse_loss(wrapped(share(x, rank, world)), share(y, rank, world))
        loss.backward()
        assert_gradients(expected, wrapped)
    return wrapped
