"""Collectives inside compiled functions, and tensor parallelism over them: two processes."""

from __future__ import annotations

import copy

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from harness import assert_gradients, run_cases
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)


def equal_to_eager(fn, *args, gradient=False):
    """Results (and gradients) of the compiled function; fails where they differ from eager's, or
    where nothing of the graph ran in ONNX Runtime.  Returns the records."""
    torch._dynamo.reset()
    storage = {}
    compiled = torch.compile(fn, backend="ortable", fullgraph=True, options={"storage": storage})
    mine = [arg.clone().requires_grad_(gradient) for arg in args]
    theirs = [arg.clone().requires_grad_(gradient) for arg in args]
    for _ in range(2):
        got, expected = compiled(*mine), fn(*theirs)
        torch.testing.assert_close(got, expected)
    if gradient:
        got.square().sum().backward()
        expected.square().sum().backward()
        for a, b in zip(mine, theirs, strict=True):
            torch.testing.assert_close(a.grad, b.grad)
    assert any(record["onnx"].graph.node for record in storage["instance"])
    return storage["instance"]


def all_reduce(rank, world):
    def fn(x, y):
        total = funcol.all_reduce(torch.relu(x) * 2, "sum", dist.group.WORLD)
        return total @ y + 1

    equal_to_eager(fn, torch.randn(3, 4) + rank, torch.randn(4, 2))


def all_reduce_in_place(rank, world):
    """Dynamo writes `dist.all_reduce` as a functional collective and a copy."""

    def fn(x):
        y = torch.exp(x)
        dist.all_reduce(y)
        return y / 2

    equal_to_eager(fn, torch.randn(3, 4) + rank)


def gather_scatter(rank, world):
    def fn(x):
        rows = funcol.all_gather_tensor(x * 3, 0, dist.group.WORLD)
        part = funcol.reduce_scatter_tensor(torch.tanh(rows), "sum", 0, dist.group.WORLD)
        return torch.cat([part, rows.sum(0, keepdim=True)])

    equal_to_eager(fn, torch.randn(2, 4) + rank)


def exchange(rank, world):
    def fn(x):
        swapped = funcol.all_to_all_single(x + rank, None, None, dist.group.WORLD)
        return funcol.broadcast(swapped * 2, 0, dist.group.WORLD) - x

    equal_to_eager(fn, torch.randn(4, 3) + rank)


def gradients_through_collectives(rank, world):
    def fn(x):
        rows = funcol.all_gather_tensor_autograd(x.sin(), 0, dist.group.WORLD)
        return funcol.reduce_scatter_tensor_autograd(rows * rows, "sum", 0, dist.group.WORLD).cos()

    equal_to_eager(fn, torch.randn(2, 4) + rank, gradient=True)


def dynamic_sizes(rank, world):
    compiled = torch.compile(
        lambda x: funcol.all_reduce(x.relu(), "sum", dist.group.WORLD).sum(0),
        backend="ortable",
        fullgraph=True,
        dynamic=True,
    )
    for rows in (2, 3, 7):
        x = torch.randn(rows, 4) + rank
        expected = funcol.all_reduce(x.relu(), "sum", dist.group.WORLD).sum(0)
        torch.testing.assert_close(compiled(x), expected + 0)


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(8, 16)
        self.down = nn.Linear(16, 8)

    def forward(self, x):
        return self.down(torch.nn.functional.gelu(self.up(x)))


def tensor_parallel(rank, world):
    """Parameters are sharded DTensors; all_reduce and all_gather stand in the graph."""
    single = FeedForward()
    mesh = init_device_mesh("cpu", (world,))
    plan = {"up": ColwiseParallel(), "down": RowwiseParallel()}
    model = parallelize_module(copy.deepcopy(single), mesh, plan)
    run = torch.compile(model, backend="ortable", fullgraph=True)
    x = torch.randn(4, 8)
    for _ in range(2):
        model.zero_grad()
        single.zero_grad()
        run(x).square().mean().backward()
        single(x).square().mean().backward()
        assert_gradients(single, model)
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(run(x), single(x), rtol=1e-4, atol=1e-5)
        for parameter in (*single.parameters(), *model.parameters()):
            parameter.mul_(1.1)
        torch.testing.assert_close(run(x), single(x), rtol=1e-4, atol=1e-5)


def dtensor_arguments(rank, world):
    mesh = init_device_mesh("cpu", (world,))
    full = torch.randn(4, 6)
    x = DTensor.from_local(full.chunk(world)[rank], mesh, [Shard(0)])

    def fn(x):
        return torch.relu(x).redistribute(mesh, [Replicate()]) * 2

    got = torch.compile(fn, backend="ortable", fullgraph=True)(x)
    assert got.placements == (Replicate(),)
    torch.testing.assert_close(got.to_local(), torch.relu(full) * 2)


CASES = [
    all_reduce,
    all_reduce_in_place,
    gather_scatter,
    exchange,
    gradients_through_collectives,
    dynamic_sizes,
    tensor_parallel,
    dtensor_arguments,
]

if __name__ == "__main__":
    run_cases(CASES)
