"""Meshes of two dimensions, four processes: tensor parallelism within FSDP2, FSDP2 within
replicas, sequence parallelism, and tensor parallelism over steps and sizes."""

from __future__ import annotations

import copy

import torch
from collectives import FeedForward
from fsdp import Model
from harness import assert_same_state, run_cases
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)


def train(model, single, run, batches, rows=slice(None)):
    """Steps of Adam, equal to those of one process over all rows, with answers in between."""
    mine = torch.optim.Adam(model.parameters(), lr=0.01, eps=1e-4)
    theirs = torch.optim.Adam(single.parameters(), lr=0.01, eps=1e-4)
    for x in batches:
        mine.zero_grad()
        theirs.zero_grad()
        run(x[rows]).square().mean().backward()
        single(x).square().mean().backward()
        mine.step()
        theirs.step()
        assert_same_state(single, model, rtol=2e-3, atol=1e-4)
        with torch.no_grad():
            torch.testing.assert_close(run(x), single(x), rtol=1e-3, atol=1e-4)


def tensor_parallel_steps(rank, world):
    """Batches that differ in size, the whole module in one graph."""
    mesh = init_device_mesh("cpu", (world,))
    plan = {"up": ColwiseParallel(), "down": RowwiseParallel()}
    single = FeedForward()
    model = parallelize_module(copy.deepcopy(single), mesh, plan)
    run = torch.compile(model, backend="ortable", fullgraph=True)
    train(model, single, run, [torch.randn(rows, 8) for rows in (8, 8, 6, 8, 3)])


class Sequence(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.inner = FeedForward()

    def forward(self, x):
        return self.inner(self.norm(x))


def sequence_parallel(rank, world):
    """The norm sees a part of the positions; they are gathered before the products."""
    mesh = init_device_mesh("cpu", (world,))
    plan = {
        "norm": SequenceParallel(),
        "inner.up": ColwiseParallel(input_layouts=Shard(1)),
        "inner.down": RowwiseParallel(output_layouts=Replicate()),
    }
    single = Sequence()
    parts = PrepareModuleInput(input_layouts=Replicate(), desired_input_layouts=Shard(1))
    model = parallelize_module(copy.deepcopy(single), mesh, plan)
    parallelize_module(model, mesh, parts)
    run = torch.compile(model, backend="ortable")
    train(model, single, run, [torch.randn(2, 4, 8) for _ in range(3)])


def tensor_parallel_in_fsdp(rank, world):
    """Two replicas of the data, each of them over two processes: shards of shards."""
    mesh = init_device_mesh("cpu", (2, world // 2), mesh_dim_names=("data", "tensor"))
    single = Model()
    model = copy.deepcopy(single)
    for block in model.blocks:
        plan = {"up": ColwiseParallel(), "down": RowwiseParallel()}
        parallelize_module(block, mesh["tensor"], plan)
        block.compile(backend="ortable")
        fully_shard(block, mesh=mesh["data"])
    fully_shard(model, mesh=mesh["data"])
    half = mesh["data"].get_local_rank()
    train(
        model, single, model,
        [torch.randn(8, 8) for _ in range(3)],
        slice(4 * half, 4 * half + 4),
    )  # fmt: skip


def shards_in_replicas(rank, world):
    """HSDP: gradients are reduced over shards, then over replicas."""
    mesh = init_device_mesh("cpu", (2, world // 2), mesh_dim_names=("replicas", "shards"))
    single = Model()
    model = copy.deepcopy(single)
    for block in model.blocks:
        block.compile(backend="ortable")
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    train(
        model, single, model,
        [torch.randn(8, 8) for _ in range(3)],
        slice(2 * rank, 2 * rank + 2),
    )  # fmt: skip


CASES = [
    tensor_parallel_steps,
    sequence_parallel,
    tensor_parallel_in_fsdp,
    shards_in_replicas,
]

if __name__ == "__main__":
    run_cases(CASES)
