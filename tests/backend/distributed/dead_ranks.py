"""A process that dies, stops or is refused at one place of its training, and the others, which wait
for its gradients.

    dead_ranks.py FOLDER

forks two processes for each place, with no launcher above them that would end the rest, as on
several machines, and writes to `FOLDER/outcomes.json` what became of each. Under torchrun,

    dead_ranks.py FOLDER PLACE

is one of the processes. Which one dies follows from the place (`PLACES`)."""

from __future__ import annotations

import datetime
import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path

import torch
import torch.distributed as dist
from ddp_steps import together
from harness import _register
from models import Tower
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import ortable.backend.aot.build  # noqa: F401

# Where, and the rank of the process that dies there: 0 is the one that keeps the store.
PLACES = {
    "convert_forward": 1,
    "convert_backward": 0,
    "forward": 0,
    "backward": 1,
    "optimizer_step": 0,
    "stopped": 1,
    "refused_forward": 1,
    "refused_backward": 0,
}
WORLD = 2
GROUP_TIMEOUT = 4  # seconds
DEADLINE = 40  # after which a process counts as one that waits for ever
STEP = 2  # the step in which a process dies, unless it dies in a conversion


class Death:
    """What happens to this process at one place."""

    def __init__(self, place, rank):
        self.place, self.mine, self.conversions = place, rank == PLACES[place], 0

    def at(self, place):
        if self.mine and place == self.place:
            os.kill(os.getpid(), signal.SIGSTOP if place == "stopped" else signal.SIGKILL)

    def transform(self, model):
        """Called by ortable in the middle of each conversion: of the forward, of the backward."""
        self.conversions += 1
        self.at("convert_forward" if self.conversions == 1 else "convert_backward")

    def options(self):
        refused = {"refused_forward": "aten::relu", "refused_backward": "aten::threshold_backward"}
        if self.mine and self.place in refused:
            return {"raise_on": [refused[self.place]]}
        return {"pre_ort_model_transforms": [self.transform]}


class Passing(torch.autograd.Function):
    """The identity; its backward comes before those of the layers, and before any gradient goes."""

    @staticmethod
    def forward(ctx, x, death):
        ctx.death = death
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        if ctx.death is not None:
            ctx.death.at("backward")
        return gradient, None


def train(death):
    compiled = torch.compile(Tower(), backend="ortable", options=death.options())
    wrapped = DistributedDataParallel(compiled)
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.005)
    for number, (x, y) in enumerate(together(2, batches=4)):
        dies = number == STEP
        if dies:
            death.at("forward")
            death.at("stopped")
        out = Passing.apply(wrapped(x), death if dies else None)
        optimizer.zero_grad()
        nn.functional.mse_loss(out, y).backward()
        if dies:
            death.at("optimizer_step")
        optimizer.step()
    dist.barrier()


def work(folder, place, rank, world, store=None):
    """The life of one process; its error is written down and raised on."""
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        store=store,
        rank=rank,
        world_size=world,
        timeout=datetime.timedelta(seconds=GROUP_TIMEOUT),
    )
    _register()
    try:
        train(Death(place, rank))
    except BaseException as error:
        (folder / f"{place}-{rank}.txt").write_text(f"{type(error).__name__}: {error}")
        raise


def store_of(file, rank):
    """The store through which processes find each other: process 0 keeps it."""
    if rank == 0:
        store = dist.TCPStore("localhost", 0, WORLD, is_master=True, wait_for_workers=False)
        file.with_suffix(".new").write_text(str(store.port))
        file.with_suffix(".new").rename(file)
        return store
    while not file.exists():
        time.sleep(0.01)
    return dist.TCPStore("localhost", int(file.read_text()), WORLD, is_master=False)


def forked(folder, place, rank):
    """The process number of a new process that works, and ends as a program ends."""
    process = os.fork()
    if process:
        return process
    with open(folder / f"{place}-{rank}.log", "w") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    status = 0
    try:
        work(folder, place, rank, WORLD, store_of(folder / f"{place}.port", rank))
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.exit(status)


def ends(processes, place):
    """The exit status of each process, None of those that wait for ever; none is left. One that was
    stopped is left out of the wait."""
    found = {}
    end = time.monotonic() + DEADLINE
    waiting = dict(enumerate(processes))
    stopped = {PLACES[place]} if place == "stopped" else set()
    while time.monotonic() < end and waiting.keys() - stopped:
        for rank, process in list(waiting.items()):
            done, status = os.waitpid(process, os.WNOHANG)
            if done:
                found[rank] = os.waitstatus_to_exitcode(status)
                del waiting[rank]
        time.sleep(0.02)
    for process in waiting.values():
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
    return [found.get(rank) for rank in range(WORLD)]


def main():
    folder = Path(sys.argv[1])
    if len(sys.argv) > 2:
        work(folder, sys.argv[2], int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
        return
    # Much of a first compilation is imports: they are done once, for all that are forked.
    torch.compile(Tower(), backend="aot_eager")(together(2)[0][0])
    torch._dynamo.reset()
    outcomes = {}
    for place in PLACES:
        began = time.monotonic()
        statuses = ends([forked(folder, place, rank) for rank in range(WORLD)], place)
        errors = [folder / f"{place}-{rank}.txt" for rank in range(WORLD)]
        outcomes[place] = {
            "statuses": statuses,
            "errors": [file.read_text() if file.exists() else "" for file in errors],
            "logs": [(folder / f"{place}-{rank}.log").read_text()[-2000:] for rank in range(WORLD)],
            "seconds": round(time.monotonic() - began, 1),
        }
    (folder / "outcomes.json").write_text(json.dumps(outcomes))


if __name__ == "__main__":
    main()
