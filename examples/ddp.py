"""Train one compiled model in two processes, each with half of the batch.

    torchrun --nproc-per-node 2 examples/ddp.py

You learn the order, ``torch.compile(DistributedDataParallel(model))``, and that the gradients equal
those of a single process with the whole batch. The processes communicate with gloo, without a GPU.

Exits with status 1 if gradients differ.
"""

from __future__ import annotations

import copy
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Network(nn.Module):
    """A small network; a plain Sequential would not be compiled.

    DistributedDataParallel calls the model after a graph break, where dynamo skips torch's modules.
    """

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(16, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 4)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


def largest_difference(model: nn.Module, reference: nn.Module) -> float:
    """Return the largest difference of the gradients."""
    pairs = zip(model.parameters(), reference.parameters(), strict=True)
    return max(float((a.grad - b.grad).abs().max()) for a, b in pairs)


def main() -> int:
    """Compare a step in all processes with one in a single process; return 0 if equal."""
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)  # the same weights in every process
    model = Network()
    single = copy.deepcopy(model)
    x, y = torch.randn(8, 16), torch.randn(8, 4)  # the same batch, too

    storage: dict[str, list] = {}
    compiled = torch.compile(
        DistributedDataParallel(model), backend="ortable", options={"storage": storage}
    )
    loss = nn.functional.mse_loss(compiled(x.chunk(world_size)[rank]), y.chunk(world_size)[rank])
    loss.backward()  # averages the gradients of all processes
    nn.functional.mse_loss(single(x), y).backward()

    difference = largest_difference(model, single)
    kinds = ", ".join(record.kind for record in storage["instance"])
    print(
        f"process {rank} of {world_size}: {len(x) // world_size} rows, graphs {kinds}, "
        f"gradients differ from those of one process by {difference:.1e}\n",
        end="",
        flush=True,
    )
    # gloo's threads need the GIL to release their last work. Without this pause, the exit of the
    # process holds the GIL while it waits for them (torch 2.13).
    time.sleep(0.1)
    dist.destroy_process_group()
    return int(difference > 1e-6)


if __name__ == "__main__":
    if "RANK" not in os.environ:
        sys.exit("start it with: torchrun --nproc-per-node 2 examples/ddp.py")
    sys.exit(main())
