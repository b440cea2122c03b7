"""Checkpoints that this script writes and loads again with as many processes: the training goes on
as without an interruption, bit for bit. What it writes is for `checkpoints_later.py`."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from checkpointing import (
    KINDS,
    STEPS,
    STOP,
    Training,
    assert_same,
    compiled,
    everything,
    load,
    steps,
)
from fsdp import Model
from harness import run_cases
from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
from torch.nn.parallel import DistributedDataParallel

import ortable

FOLDER = Path(sys.argv[1]).parent


def goes_on_exactly(rank, world):
    """Losses, weights and the optimizer's state after a load are those of the same training without
    a stop. While it is saved in the background, it goes on: what is saved travels in a group of its
    own, or collectives of the training and of the checkpoint would wait for each other."""
    background = dist.new_group()
    for kind in KINDS:
        model, optimizer = compiled(kind)
        steps(model, optimizer, rank, world, 0, STOP)
        state = {"training": Training(model, optimizer)}
        dcp.save(state, checkpoint_id=FOLDER / kind)
        saved = dcp.async_save(
            state, checkpoint_id=FOLDER / f"{kind}_async", process_group=background
        )
        losses = steps(model, optimizer, rank, world, STOP)
        saved.result()
        undisturbed = everything(model, optimizer)
        dist.barrier()
        for folder in (kind, f"{kind}_async"):
            again, its_optimizer = load(FOLDER / folder, kind)
            assert_same(steps(again, its_optimizer, rank, world, STOP), losses)
            assert_same(everything(again, its_optimizer), undisturbed)
        if rank == 0:
            torch.save(undisturbed, FOLDER / f"{kind}.pt")
        dist.barrier()


def names_are_those_of_the_model(rank, world):
    """Without what DistributedDataParallel and torch.compile put in front."""
    for kind in KINDS:
        model, optimizer = compiled(kind)
        steps(model, optimizer, rank, world, 0, 1)
        state = Training(model, optimizer).state_dict()
        names = set(Model().state_dict())
        groups = state["optimizer"]["param_groups"]
        assert set(state["model"]) == set(get_model_state_dict(model)) == names
        assert set(state["optimizer"]["state"]) == names
        assert {name for group in groups for name in group["params"]} == names


def calls_use_what_was_loaded(rank, world):
    """Into a model that has answered already: with weights as inputs, as constants, and as
    constants that are trusted, for which `ortable.refresh` says that they are new."""
    x = torch.randn(4, 8)
    for freeze in ("auto", "on", "trust"):
        torch._dynamo.reset()
        torch.manual_seed(3)
        plain, other = Model().eval(), Model().eval()
        wrapped = DistributedDataParallel(plain)
        run = torch.compile(wrapped, backend="ortable", options={"freeze": freeze})
        with torch.no_grad():
            for _ in range(6):
                run(x)
            dcp.save(
                {"model": get_model_state_dict(other)}, checkpoint_id=FOLDER / f"other_{freeze}"
            )
            state = {"model": get_model_state_dict(run)}
            dcp.load(state, checkpoint_id=FOLDER / f"other_{freeze}")
            set_model_state_dict(run, state["model"])
            if freeze == "trust":
                ortable.refresh(run)
            for _ in range(6):
                torch.testing.assert_close(run(x), other(x), rtol=1e-4, atol=1e-5)
        dist.barrier()


CASES = [goes_on_exactly, names_are_those_of_the_model, calls_use_what_was_loaded]

if __name__ == "__main__":
    assert STOP < STEPS
    run_cases(CASES)
