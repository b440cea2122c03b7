"""DistributedDataParallel around and inside torch.compile: gradients of one step."""

from __future__ import annotations

import torch
from harness import run_cases
from models import SMALL, Tower, check
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def compile_of_ddp(rank, world):
    """DDPOptimizer cuts the graph at the buckets, and each piece is compiled by itself."""
    storage = {}
    wrapped = check(
        Tower(),
        lambda m: torch.compile(
            DistributedDataParallel(m, **SMALL), backend="ortable", options={"storage": storage}
        ),
        rank,
        world,
        torch.randn(8, 400),
        torch.randn(8, 3),
    )
    kinds = [record["kind"] for record in storage["instance"]]
    assert kinds.count("forward") > 1 and kinds.count("forward") == kinds.count("backward"), kinds
    assert isinstance(wrapped, nn.Module)


def compile_of_ddp_in_one_graph(rank, world):
    with torch._dynamo.config.patch(optimize_ddp=False):
        check(
            Tower(),
            lambda m: torch.compile(DistributedDataParallel(m), backend="ortable", fullgraph=False),
            rank,
            world,
            torch.randn(8, 400),
            torch.randn(8, 3),
        )


def ddp_of_compile(rank, world):
    check(
        Tower(),
        lambda m: DistributedDataParallel(torch.compile(m, backend="ortable"), **SMALL),
        rank,
        world,
        torch.randn(8, 400),
        torch.randn(8, 3),
    )


def static_graph(rank, world):
    for order in (
        lambda m: torch.compile(DistributedDataParallel(m, static_graph=True), backend="ortable"),
        lambda m: DistributedDataParallel(
            torch.compile(m, backend="ortable"), static_graph=True, **SMALL
        ),
    ):
        torch._dynamo.reset()
        check(Tower(), order, rank, world, torch.randn(8, 400), torch.randn(8, 3))


def convolutions(rank, world):
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.Flatten(), nn.Linear(64, 3)
    )
    check(
        model,
        lambda m: torch.compile(DistributedDataParallel(m, **SMALL), backend="ortable"),
        rank,
        world,
        torch.randn(4, 3, 8, 8),
        torch.randn(4, 3),
    )


CASES = [
    compile_of_ddp,
    compile_of_ddp_in_one_graph,
    ddp_of_compile,
    static_graph,
    convolutions,
]

if __name__ == "__main__":
    run_cases(CASES)
