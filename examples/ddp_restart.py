"""Train in several processes that restart from a checkpoint when one of them dies.

    export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1
    torchrun --standalone --nproc-per-node 2 --max-restarts 1 examples/ddp_restart.py

You learn what this needs: a checkpoint of the compiled model after each epoch, written with
``torch.distributed.checkpoint`` and loaded at the start if it exists; and a ``cache_dir``, so that
restarted processes convert nothing. As a demonstration, one process kills itself in its third
epoch; torchrun then stops the others, and restarts all of them. (Without the variable, processes
of torch 2.13 reuse the old addresses after a restart: ``connectFullMesh failed``.)

At the end, the training is repeated without a restart. Exits with status 1 if the weights are not
equal bit by bit.
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
KILLED_AT = (1, 2, 1)  # rank, epoch, step


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


class Training:
    """The state in a checkpoint: model, optimizer and the number of completed epochs."""

    def __init__(self, options: dict[str, object]) -> None:
        torch.manual_seed(0)
        self.network = Network()
        parallel = DistributedDataParallel(self.network)
        self.model = torch.compile(parallel, backend="ortable", options=options)
        self.optimizer = torch.optim.AdamW(self.network.parameters(), lr=0.01)
        self.epoch = 0

    def state_dict(self) -> dict[str, object]:
        """Return the state for ``dcp.save``, with the names of the uncompiled network."""
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer, "epoch": self.epoch}

    def load_state_dict(self, state: dict[str, object]) -> None:
        """Restore the state for ``dcp.load``; the next call uses these weights."""
        set_state_dict(
            self.model,
            self.optimizer,
            model_state_dict=state["model"],  # type: ignore[arg-type]
            optim_state_dict=state["optimizer"],  # type: ignore[arg-type]
        )
        self.epoch = state["epoch"]  # type: ignore[assignment]

    def step(self, number: int) -> None:
        """Train one step on the rows of this process; the step number is the seed of the batch."""
        rank, world_size = dist.get_rank(), dist.get_world_size()
        generator = torch.Generator().manual_seed(number)
        x = torch.randn(8 * world_size, 8, generator=generator).chunk(world_size)[rank]
        self.optimizer.zero_grad()
        nn.functional.mse_loss(self.model(x), torch.sin(x).sum(1, keepdim=True)).backward()
        self.optimizer.step()


def find_newest_checkpoint(folder: Path) -> Path | None:
    """Return the newest complete checkpoint; ``.metadata`` is its last file."""
    complete = [file.parent for file in folder.glob("epoch-*/.metadata")]
    return max(complete, key=lambda path: int(path.name.split("-")[1]), default=None)


def train(training: Training, folder: Path | None, may_die: bool) -> None:
    """Train all remaining epochs, with a checkpoint after each if a folder is given."""
    while training.epoch < EPOCHS:
        for step in range(STEPS):
            if may_die and (dist.get_rank(), training.epoch, step) == KILLED_AT:
                os.kill(os.getpid(), signal.SIGKILL)
            training.step(training.epoch * STEPS + step)
        training.epoch += 1
        if folder is not None:
            state = {"training": training}
            dcp.save(state, checkpoint_id=folder / f"epoch-{training.epoch}")


def main() -> int:
    """Train, or continue after a restart; return 0 if the weights equal those without one."""
    dist.init_process_group("gloo")
    rank, restart = dist.get_rank(), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    # A folder that all processes share and that persists; choose a fixed path for your training.
    folder = Path(tempfile.gettempdir()) / f"ddp-restart-{os.environ['TORCHELASTIC_RUN_ID']}"
    storage: dict[str, list] = {}
    options = {"cache_dir": folder / "cache", "storage": storage}

    training = Training(options)
    checkpoint = find_newest_checkpoint(folder)
    if checkpoint is not None:
        dcp.load({"training": training}, checkpoint_id=checkpoint)
    start = training.epoch
    train(training, folder, may_die=restart == 0)
    cache = ", ".join(sorted({record.cache for record in storage["instance"]}))
    reference = Training(options)
    train(reference, None, may_die=False)

    pairs = zip(training.network.parameters(), reference.network.parameters(), strict=True)
    is_equal = all(torch.equal(a, b) for a, b in pairs)
    dist.barrier()
    if rank == 0:
        shutil.rmtree(folder)
    print(
        f"process {rank}, life {restart + 1}: began with epoch {start + 1}, graphs found: {cache}, "
        f"weights are those of a training without a death: {is_equal}\n",
        end="",
        flush=True,
    )
    # gloo's threads need the GIL to release their last work. Without this pause, the exit of the
    # process holds the GIL while it waits for them (torch 2.13).
    time.sleep(0.1)
    dist.destroy_process_group()
    return int(not is_equal)


if __name__ == "__main__":
    if os.environ.get("TORCHELASTIC_RUN_ID", "none") == "none":
        sys.exit("start it with: torchrun --standalone --nproc-per-node 2 --max-restarts 1 ...")
    sys.exit(main())
