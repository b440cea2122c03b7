"""What the checkpoint scripts share: one training that stops after some steps and goes on, the same
batches for any number of processes, and what is compared."""

from __future__ import annotations

import copy

import torch
import torch.distributed.checkpoint as dcp
from ddp_steps import rows_of, together
from fsdp import Model, sharded
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_state_dict,
    set_state_dict,
)
from torch.nn.parallel import DistributedDataParallel

KINDS = ("ddp", "fsdp_blocks", "fsdp_whole")
STEPS = 6
STOP = 3  # after this many steps a checkpoint is written


def compiled(kind, seed=0):
    """A model of a kind, compiled, and its optimizer."""
    torch._dynamo.reset()
    torch.manual_seed(seed)
    model = Model()
    if kind == "ddp":
        model = torch.compile(DistributedDataParallel(model), backend="ortable")
    else:
        model = sharded(model, compile_blocks=kind == "fsdp_blocks")
        model = torch.compile(model, backend="ortable") if kind == "fsdp_whole" else model
    return model, torch.optim.AdamW(model.parameters(), lr=0.01, eps=1e-4)


def steps(model, optimizer, rank, world, begin=0, end=STEPS):
    """The losses of some of the steps."""
    losses = []
    for x, y in together(8, 8, STEPS)[begin:end]:
        rows = rows_of(len(x), rank, world)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x[rows]), y[rows])
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses)


class Training:
    """Model and optimizer, as torch.distributed.checkpoint takes them from any `Stateful`."""

    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer

    def state_dict(self):
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer}

    def load_state_dict(self, state):
        set_state_dict(
            self.model,
            self.optimizer,
            model_state_dict=state["model"],
            optim_state_dict=state["optimizer"],
        )


def load(folder, kind, seed=7):
    """A model with other weights than those of the training, into which the checkpoint came."""
    model, optimizer = compiled(kind, seed)
    dcp.load({"training": Training(model, optimizer)}, checkpoint_id=folder)
    return model, optimizer


def everything(model, optimizer):
    """Model and optimizer, gathered, by the names that checkpoints have."""
    options = StateDictOptions(full_state_dict=True)
    states = get_state_dict(model, optimizer, options=options)
    return copy.deepcopy(dict(zip(("model", "optimizer"), states, strict=True)))


def assert_same(got, expected, rtol=0.0, atol=0.0):
    """Trees of tensors and numbers are equal, dtypes and names included."""
    if isinstance(expected, torch.Tensor):
        torch.testing.assert_close(got, expected, rtol=rtol, atol=atol)
    elif isinstance(expected, dict):
        assert got.keys() == expected.keys()
        for name in expected:
            assert_same(got[name], expected[name], rtol, atol)
    else:
        assert got == expected
