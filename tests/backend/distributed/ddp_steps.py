"""DistributedDataParallel over several optimizer steps, compared with one process: batches that
differ in size, accumulation, buckets, statistics, optimizers and losses of several kinds."""

from __future__ import annotations

import copy

import torch
import torch.distributed as dist
from harness import assert_same_state, gathered, run_cases
from models import SMALL, Tower
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel


def ddp_of_compile(model, dynamic=None, **settings):
    return DistributedDataParallel(
        torch.compile(model, backend="ortable", dynamic=dynamic), **settings
    )


def compile_of_ddp(model, dynamic=None, **settings):
    return torch.compile(
        DistributedDataParallel(model, **settings), backend="ortable", dynamic=dynamic
    )


ORDERS = (ddp_of_compile, compile_of_ddp)


def rows_of(size, rank, world):
    """Where the part of a process begins and ends; the first processes have one row more."""
    base, more = divmod(size, world)
    begin = rank * base + min(rank, more)
    return slice(begin, begin + base + (rank < more))


def together(size, width=400, batches=1):
    torch.manual_seed(1)
    return [(torch.randn(size, width), torch.randn(size, 3)) for _ in range(batches)]


def step_of_one(model, optimizer, x, y):
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()


def step_of_many(model, optimizer, x, y, rank, world):
    """One step over all processes' rows. The mean of the gradients of several processes is that of
    one only if each loss counts the rows that it is of."""
    rows = rows_of(len(x), rank, world)
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x[rows]), y[rows], reduction="sum")
    (loss * world / y.numel()).backward()
    optimizer.step()


def batches_of_many_sizes(rank, world):
    """The last batches are smaller, and not the same for all: other graphs at other times."""
    sizes = (16, 16, 10, 16, 7)
    for wrap in ORDERS:
        for dynamic in (None, True):
            torch._dynamo.reset()
            single = Tower()
            model = copy.deepcopy(single)
            wrapped = wrap(model, dynamic, **SMALL)
            mine = torch.optim.SGD(model.parameters(), lr=0.005, momentum=0.9)
            theirs = torch.optim.SGD(single.parameters(), lr=0.005, momentum=0.9)
            for size in sizes:
                [(x, y)] = together(size)
                step_of_many(wrapped, mine, x, y, rank, world)
                step_of_one(single, theirs, x, y)
                assert_same_state(single, model)


def adam_with_clipped_gradients(rank, world):
    """Gradients that are views of the buckets, clipped in place, weights changed by foreach."""
    for wrap in ORDERS:
        torch._dynamo.reset()
        single = Tower()
        model = copy.deepcopy(single)
        wrapped = wrap(model, gradient_as_bucket_view=True, **SMALL)
        mine = torch.optim.AdamW(model.parameters(), lr=1e-3, eps=1e-3, foreach=True)
        theirs = torch.optim.AdamW(single.parameters(), lr=1e-3, eps=1e-3, foreach=True)
        for x, y in together(8, batches=4):
            rows = rows_of(len(x), rank, world)
            mine.zero_grad()
            theirs.zero_grad()
            nn.functional.mse_loss(wrapped(x[rows]), y[rows]).backward()
            nn.functional.mse_loss(single(x), y).backward()
            norms = [nn.utils.clip_grad_norm_(m.parameters(), 0.5) for m in (model, single)]
            torch.testing.assert_close(*norms, rtol=1e-4, atol=1e-5)
            mine.step()
            theirs.step()
            assert_same_state(single, model, rtol=2e-3)


def accumulated_steps(rank, world):
    """Two batches a step, the first without synchronisation, for several steps."""
    for wrap in ORDERS:
        torch._dynamo.reset()
        single = Tower()
        model = copy.deepcopy(single)
        wrapped = wrap(model, **SMALL)
        outer = wrapped if hasattr(wrapped, "no_sync") else wrapped._orig_mod
        mine = torch.optim.SGD(model.parameters(), lr=0.005)
        theirs = torch.optim.SGD(single.parameters(), lr=0.005)
        for _ in range(3):
            (x, y), (x2, y2) = together(8, batches=2)
            rows = rows_of(len(x), rank, world)
            with outer.no_sync():
                nn.functional.mse_loss(wrapped(x[rows]), y[rows]).backward()
            nn.functional.mse_loss(wrapped(x2[rows]), y2[rows]).backward()
            nn.functional.mse_loss(single(x), y).backward()
            nn.functional.mse_loss(single(x2), y2).backward()
            for each in (mine, theirs):
                each.step()
                each.zero_grad()
            assert_same_state(single, model)


def processes_with_fewer_batches(rank, world):
    """`Join`: who is out of batches answers the others' collectives."""
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3))
    results = []
    for compiled in (False, True):
        torch._dynamo.reset()
        each = copy.deepcopy(model)
        wrapped = ddp_of_compile(each) if compiled else DistributedDataParallel(each)
        optimizer = torch.optim.SGD(each.parameters(), lr=0.005)
        with Join([wrapped]):
            for x, y in together(4, 8, batches=3 + rank):
                optimizer.zero_grad()
                nn.functional.mse_loss(wrapped(x), y).backward()
                optimizer.step()
        results.append(each)
    assert_same_state(*results)


def optimizer_in_parts(rank, world):
    """ZeroRedundancyOptimizer: each weight is changed by one process and broadcast to the others,
    which torch does not count as a write; evaluations between the steps see it."""
    single = Tower()
    for wrap in ORDERS:
        torch._dynamo.reset()
        one, model = copy.deepcopy(single), copy.deepcopy(single)
        wrapped = wrap(model, **SMALL)
        mine = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=1e-3, eps=1e-3)
        theirs = torch.optim.Adam(one.parameters(), lr=1e-3, eps=1e-3)
        for x, y in together(8, batches=3):
            step_of_many(wrapped, mine, x, y, rank, world)
            step_of_one(one, theirs, x, y)
            with torch.no_grad():
                for _ in range(2):
                    torch.testing.assert_close(wrapped(x), one(x), rtol=1e-3, atol=1e-4)
        assert_same_state(one, model, rtol=2e-3)


def statistics_of_one_process_are_everybodys(rank, world):
    """Buffers of process 0 are broadcast before each forward: also one that it alone changed."""
    model = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 2))
    x = torch.randn(12, 6)
    states = []
    for compiled in (False, True):
        torch._dynamo.reset()
        wrapped = DistributedDataParallel(copy.deepcopy(model))
        run = torch.compile(wrapped, backend="ortable") if compiled else wrapped
        wrapped.eval()
        answers = []
        for factor in (1.0, 2.0, 3.0):
            if rank == 0:
                wrapped.module[1].running_mean.add_(factor)
            answers.append(run(x).detach())
        assert dict(wrapped.named_buffers())["module.1.num_batches_tracked"].dtype == torch.int64
        states.append(torch.stack(answers))
    torch.testing.assert_close(*states, rtol=1e-4, atol=1e-5)
    for other in gathered(states[1]):
        torch.testing.assert_close(other, states[1], rtol=0, atol=0)


def synchronised_batch_norm(rank, world):
    """torch has none on the CPU, and says so in the same words with and without a compiler."""
    model = nn.SyncBatchNorm.convert_sync_batchnorm(
        nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5))
    )
    for wrap in (DistributedDataParallel, *ORDERS):
        message = what_it_raises(lambda wrap=wrap: wrap(copy.deepcopy(model)))
        assert message == "SyncBatchNorm layers only work with GPU modules"
    for run in (model, torch.compile(model, backend="ortable")):
        message = what_it_raises(lambda run=run: run(torch.randn(4, 6)))
        assert "SyncBatchNorm expected input tensor to be on" in message, message


def what_it_raises(action):
    try:
        action()
    except Exception as error:
        return str(error)
    raise AssertionError("nothing was raised")


def weights_agree_to_the_last_bit(rank, world):
    """After steps in which gradients travelled, all processes have one model, bit for bit."""
    model = Tower()
    wrapped = compile_of_ddp(model, **SMALL)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    for x, y in together(2 * world, batches=3):
        step_of_many(wrapped, optimizer, x, y, rank, world)
    for parameter in model.parameters():
        assert parameter.dtype == parameter.grad.dtype == torch.float32
        assert all(torch.equal(each, parameter) for each in gathered(parameter.detach()))
    assert dist.get_world_size() == world


CASES = [
    batches_of_many_sizes,
    adam_with_clipped_gradients,
    accumulated_steps,
    processes_with_fewer_batches,
    optimizer_in_parts,
    statistics_of_one_process_are_everybodys,
    synchronised_batch_norm,
    weights_agree_to_the_last_bit,
]

if __name__ == "__main__":
    run_cases(CASES)
