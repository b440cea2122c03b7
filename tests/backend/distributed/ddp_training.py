"""DistributedDataParallel over several steps: unused parameters, accumulation, statistics."""

from __future__ import annotations

import copy

import torch
import torch.distributed as dist
from harness import assert_gradients, run_cases, share
from models import SMALL, Halves, Tower
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def find_unused_parameters(rank, world):
    model = Halves()
    x = torch.randn(8, 8)
    for wrap in (
        lambda m: DistributedDataParallel(
            torch.compile(m, backend="ortable"), find_unused_parameters=True
        ),
        lambda m: torch.compile(
            DistributedDataParallel(m, find_unused_parameters=True), backend="ortable"
        ),
    ):
        torch._dynamo.reset()
        wrapped = wrap(copy.deepcopy(model))
        for both in (True, False, True):
            single = copy.deepcopy(model)
            single(x, both).square().mean().backward()
            wrapped.zero_grad()
            wrapped(share(x, rank, world), both).square().mean().backward()
            assert_gradients(single, wrapped)


def accumulation(rank, world):
    """Two batches, the first without synchronisation."""
    model = Tower()
    batches = [(torch.randn(8, 400), torch.randn(8, 3)) for _ in range(2)]
    single = copy.deepcopy(model)
    for x, y in batches:
        nn.functional.mse_loss(single(x), y).backward()
    for wrap in (
        lambda m: DistributedDataParallel(torch.compile(m, backend="ortable"), **SMALL),
        lambda m: torch.compile(DistributedDataParallel(m, **SMALL), backend="ortable"),
    ):
        torch._dynamo.reset()
        wrapped = wrap(copy.deepcopy(model))
        outer = wrapped if hasattr(wrapped, "no_sync") else wrapped._orig_mod
        (x, y), (x2, y2) = batches
        with outer.no_sync():
            out = wrapped(share(x, rank, world))
            nn.functional.mse_loss(out, share(y, rank, world)).backward()
        out = wrapped(share(x2, rank, world))
        nn.functional.mse_loss(out, share(y2, rank, world)).backward()
        assert_gradients(single, wrapped)


def batch_norm(rank, world):
    """Running statistics are those of process 0, as in eager; training goes on from them."""
    model = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 2))
    x = torch.randn(12, 6)
    states = []
    for compiled in (False, True):
        wrapped = DistributedDataParallel(copy.deepcopy(model))
        run = torch.compile(wrapped, backend="ortable") if compiled else wrapped
        optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            run(share(x, rank, world)).square().mean().backward()
            optimizer.step()
        states.append({name: value.clone() for name, value in wrapped.state_dict().items()})
        wrapped.eval()
        with torch.no_grad():
            states[-1]["eval"] = run(x)
    for name, value in states[0].items():
        torch.testing.assert_close(states[1][name], value, rtol=1e-4, atol=1e-5, msg=name)


def evaluation_between_steps(rank, world):
    """Weights frozen for evaluation are seen to change in every training step."""
    model = Tower()
    wrapped = DistributedDataParallel(model)
    run = torch.compile(wrapped, backend="ortable", options={"freeze": "on"})
    optimizer = torch.optim.AdamW(wrapped.parameters(), lr=0.05)
    x, y = torch.randn(8, 400), torch.randn(8, 3)
    for _ in range(4):
        for _ in range(2):
            with torch.no_grad():
                torch.testing.assert_close(run(x), wrapped.module(x), rtol=1e-4, atol=1e-5)
        optimizer.zero_grad()
        out = run(share(x, rank, world))
        nn.functional.mse_loss(out, share(y, rank, world)).backward()
        optimizer.step()
    weights = [torch.empty_like(model.head.weight) for _ in range(world)]
    dist.all_gather(weights, model.head.weight.detach())
    assert torch.equal(weights[0], weights[1])


def broadcast_into_weights(rank, world):
    """Collectives count no version of what they receive into."""
    model = nn.Linear(4, 3)
    storage = {}
    run = torch.compile(model, backend="ortable", options={"storage": storage})
    x = torch.randn(2, 4)
    with torch.no_grad():
        for factor in (1.0, 2.0, 3.0):
            if rank == 0:
                model.weight.mul_(factor)
            dist.broadcast(model.weight.detach(), 0)
            torch.testing.assert_close(run(x), model(x))
    assert "collectives" in storage["instance"][0]["frozen"]


CASES = [
    find_unused_parameters,
    accumulation,
    batch_norm,
    evaluation_between_steps,
    broadcast_into_weights,
]

if __name__ == "__main__":
    run_cases(CASES)
