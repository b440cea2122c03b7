"""FSDP2 (`fully_shard`) and torch.compile, per block and whole."""

from __future__ import annotations

import copy

import torch
import torch.distributed as dist
from harness import assert_gradients, run_cases, share
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self, width=8, depth=2):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.head = nn.Linear(width, 3)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def sharded(model, compile_blocks=False, **arguments):
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for block in model.blocks:
        if compile_blocks:
            block.compile(backend="ortable")
        fully_shard(block, mesh=mesh, **arguments)
    fully_shard(model, mesh=mesh, **arguments)
    return model


def train_and_check(model, single, run, rank, world, steps=2):
    """Steps of Adam with gradients equal to one process over the joined batch, and an evaluation
    without gradients before each and after all: weights are other tensors at every call."""
    mine = torch.optim.Adam(model.parameters(), lr=0.05)
    theirs = torch.optim.Adam(single.parameters(), lr=0.05)
    x, y = torch.randn(8, 8), torch.randn(8, 3)
    for _ in range(steps):
        evaluate(model, single, run, x)
        mine.zero_grad()
        theirs.zero_grad()
        out = run(share(x, rank, world))
        nn.functional.mse_loss(out, share(y, rank, world)).backward()
        nn.functional.mse_loss(single(x), y).backward()
        assert_gradients(single, model, atol=1e-4)
        mine.step()
        theirs.step()
    evaluate(model, single, run, x)


def evaluate(model, single, run, x):
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(run(x), single(x), rtol=1e-3, atol=1e-3)


def blocks_one_by_one(rank, world):
    single = Model()
    model = sharded(copy.deepcopy(single), compile_blocks=True)
    train_and_check(model, single, model, rank, world)


def whole_model(rank, world):
    single = Model()
    model = sharded(copy.deepcopy(single))
    train_and_check(model, single, torch.compile(model, backend="ortable"), rank, world)


def weights_kept_after_the_forward(rank, world):
    single = Model()
    model = sharded(copy.deepcopy(single), compile_blocks=True, reshard_after_forward=False)
    train_and_check(model, single, model, rank, world, steps=2)


def evaluation_only(rank, world):
    """Weights that FSDP gathers anew at every call, changed in between by `load_state_dict`."""
    single = Model().eval()
    model = sharded(copy.deepcopy(single), compile_blocks=True).eval()
    x = torch.randn(4, 8)
    for step in range(6):
        evaluate(model, single, model, x)
        if step == 3:
            with torch.no_grad():
                for parameter in (*single.parameters(), *model.parameters()):
                    parameter.mul_(1.5)
    evaluate(model, single, model, x)


CASES = [blocks_one_by_one, whole_model, weights_kept_after_the_forward, evaluation_only]

if __name__ == "__main__":
    run_cases(CASES)
