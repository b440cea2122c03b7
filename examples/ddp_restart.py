"""A training of several processes that goes on by itself when one of them dies.

    export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1
    torchrun --standalone --nproc-per-node 2 --max-restarts 1 examples/ddp_restart.py

You learn what a training needs for that: a checkpoint after each epoch, written with
``torch.distributed.checkpoint`` through the compiled model, which is loaded at the start if there
is one; and a ``cache_dir``, so that processes that start again convert nothing. To show it, one
process kills itself in the third epoch of its first life. torchrun notices, ends the others, and
starts all of them once more. (Without the variable, torch 2.13 lets them look for each other where
those of their first life were, and the second life ends in ``connectFullMesh failed``.)

At the end the training is repeated without a death. Ends with status 1 when the weights differ in
a single bit.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.nn.parallel import DistributedDataParallel

EPOCHS, STEPS = 4, 3
DIES = (1, 2, 1)  # rank, epoch, step


class Network(nn.Module):
    """A small network."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


class Training:
    """Model, optimizer and how far they are: what a checkpoint holds."""

    def __init__(self, options: dict[str, object]) -> None:
        torch.manual_seed(0)
        self.network = Network()
        parallel = DistributedDataParallel(self.network)
        self.model = torch.compile(parallel, backend="ortable", options=options)
        self.optimizer = torch.optim.AdamW(self.network.parameters(), lr=0.01)
        self.epoch = 0

    def state_dict(self) -> dict[str, object]:
        """Called by ``dcp.save``; names of weights are those of the network."""
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer, "epoch": self.epoch}

    def load_state_dict(self, state: dict[str, object]) -> None:
        """Called by ``dcp.load``; the next call uses these weights."""
        set_state_dict(
            self.model,
            self.optimizer,
            model_state_dict=state["model"],  # type: ignore[arg-type]
            optim_state_dict=state["optimizer"],  # type: ignore[arg-type]
        )
        self.epoch = state["epoch"]  # type: ignore[assignment]

    def step(self, number: int) -> None:
        """One step of this process, over its rows of a batch that follows from the step."""
        rank, world = dist.get_rank(), dist.get_world_size()
        made = torch.Generator().manual_seed(number)
        x = torch.randn(8 * world, 8, generator=made).chunk(world)[rank]
        self.optimizer.zero_grad()
        nn.functional.mse_loss(self.model(x), torch.sin(x).sum(1, keepdim=True)).backward()
        self.optimizer.step()


def newest(folder: Path) -> Path | None:
    """The last checkpoint that is whole: ``.metadata`` is written when all else is there."""
    whole = [file.parent for file in folder.glob("epoch-*/.metadata")]
    return max(whole, key=lambda path: int(path.name.split("-")[1]), default=None)


def train(training: Training, folder: Path | None, may_die: bool) -> None:
    """All epochs that are left, with a checkpoint after each if there is a folder for them."""
    while training.epoch < EPOCHS:
        for step in range(STEPS):
            if may_die and (dist.get_rank(), training.epoch, step) == DIES:
                os.kill(os.getpid(), signal.SIGKILL)
            training.step(training.epoch * STEPS + step)
        training.epoch += 1
        if folder is not None:
            state = {"training": training}
            dcp.save(state, checkpoint_id=folder / f"epoch-{training.epoch}")


def main() -> int:
    """Trains; after a death it goes on; 0 when nothing of the death is seen in the weights."""
    dist.init_process_group("gloo")
    rank, lives = dist.get_rank(), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    # A folder that all processes see, and that outlives them; yours has a name of your own.
    folder = Path(tempfile.gettempdir()) / f"ddp-restart-{os.environ['TORCHELASTIC_RUN_ID']}"
    storage: dict[str, list] = {}
    options = {"cache_dir": folder / "cache", "storage": storage}

    training = Training(options)
    checkpoint = newest(folder)
    if checkpoint is not None:
        dcp.load({"training": training}, checkpoint_id=checkpoint)
    begin = training.epoch
    train(training, folder, may_die=lives == 0)
    found = ", ".join(sorted({record.cache for record in storage["instance"]}))
    again = Training(options)
    train(again, None, may_die=False)

    pairs = zip(training.network.parameters(), again.network.parameters(), strict=True)
    same = all(torch.equal(mine, theirs) for mine, theirs in pairs)
    dist.barrier()
    if rank == 0:
        shutil.rmtree(folder)
    print(
        f"process {rank}, life {lives + 1}: began with epoch {begin + 1}, graphs found: {found}, "
        f"weights are those of a training without a death: {same}\n",
        end="",
        flush=True,
    )
    # gloo's threads drop their last work now, for which they need Python's lock; the end of the
    # process would wait for them and keep it (torch 2.13).
    time.sleep(0.1)
    dist.destroy_process_group()
    return int(not same)


if __name__ == "__main__":
    if os.environ.get("TORCHELASTIC_RUN_ID", "none") == "none":
        sys.exit("start it with: torchrun --standalone --nproc-per-node 2 --max-restarts 1 ...")
    sys.exit(main())
