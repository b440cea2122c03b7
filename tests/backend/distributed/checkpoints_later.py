"""Checkpoints of another number of processes, `argv[2]` (their folders' ending): the training goes
on from them as the undisturbed one did, up to the order of sums. Writes its own, with the ending of
`argv[3]`."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from checkpointing import KINDS, STOP, Training, assert_same, everything, load, steps
from harness import run_cases

FOLDER = Path(sys.argv[1]).parent
THEIRS, OURS = sys.argv[2:4]


def goes_on_with_other_processes(rank, world):
    for kind in KINDS:
        model, optimizer = load(FOLDER / (kind + THEIRS), kind)
        state = {"training": Training(model, optimizer)}
        dcp.save(state, checkpoint_id=FOLDER / (kind + OURS))
        steps(model, optimizer, rank, world, STOP)
        expected = torch.load(FOLDER / f"{kind}.pt")
        assert_same(everything(model, optimizer), expected, rtol=2e-3, atol=1e-4)
        dist.barrier()


CASES = [goes_on_with_other_processes]

if __name__ == "__main__":
    run_cases(CASES)
