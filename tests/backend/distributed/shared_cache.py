"""All processes compile at once, with one `cache_dir`: each entry is whole, nothing else is left in
the folder, and who comes later converts nothing."""

from __future__ import annotations

import copy
import sys
import warnings
from pathlib import Path

import torch
import torch.distributed as dist
from ddp_steps import step_of_many, step_of_one, together
from harness import assert_same_state, run_cases
from models import SMALL, Tower
from torch.nn.parallel import DistributedDataParallel

from ortable.backend.cache.memory import clear_caches

ENDING = ".ortable"  # of conversions


def train(folder, rank, world):
    """Two steps equal to those of one process, and where each graph's conversion was found. All
    processes begin at the same time, and a warning about the folder is an error."""
    torch._dynamo.reset()
    clear_caches()
    single = Tower()
    model = copy.deepcopy(single)
    storage = {}
    run = torch.compile(
        DistributedDataParallel(model, **SMALL),
        backend="ortable",
        options={"storage": storage, "cache_dir": folder},
    )
    mine = torch.optim.SGD(model.parameters(), lr=0.005)
    theirs = torch.optim.SGD(single.parameters(), lr=0.005)
    dist.barrier()
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="ortable")
        for x, y in together(2 * world, batches=2):
            step_of_many(run, mine, x, y, rank, world)
            step_of_one(single, theirs, x, y)
    assert_same_state(single, model)
    return [record.cache for record in storage["instance"]]


def first_and_later(rank, world):
    folder = Path(sys.argv[1]) / "cache"
    first = train(folder, rank, world)
    assert len(first) >= 4 and set(first) <= {"miss", "disk", "memory"}, first
    dist.barrier()
    entries = sorted(folder.iterdir())
    assert entries and all(entry.name.endswith(ENDING) for entry in entries), entries
    sizes = [entry.stat().st_size for entry in entries]
    later = train(folder, rank, world)
    assert len(later) == len(first) and set(later) <= {"disk", "memory"}, later
    assert "disk" in later
    dist.barrier()
    assert sorted(folder.iterdir()) == entries
    assert [entry.stat().st_size for entry in entries] == sizes


CASES = [first_and_later]

if __name__ == "__main__":
    run_cases(CASES)
