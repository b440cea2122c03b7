"""Two processes train one compiled model, each on its half of the batch.

    torchrun --nproc-per-node 2 examples/ddp.py

You learn the order, ``torch.compile(DistributedDataParallel(model))``, and that the gradients are
those of one process that sees the whole batch. Processes speak over gloo: no GPU is needed.

Ends with status 1 when gradients differ.
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
    """A small network. It is a class of its own because DistributedDataParallel calls it behind a
    graph break, and there dynamo skips the forward of torch's own modules, as of a bare Sequential.
    """

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(16, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 4)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


def largest_difference(mine: nn.Module, theirs: nn.Module) -> float:
    """Of all gradients, parameter by parameter."""
    pairs = zip(mine.parameters(), theirs.parameters(), strict=True)
    return max(float((a.grad - b.grad).abs().max()) for a, b in pairs)


def main() -> int:
    """One step in all processes together, compared with one process; 0 when gradients agree."""
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)  # the same weights in every process
    model = Network()
    alone = copy.deepcopy(model)
    x, y = torch.randn(8, 16), torch.randn(8, 4)  # and the same batch

    storage: dict[str, list] = {}
    fast = torch.compile(
        DistributedDataParallel(model), backend="ortable", options={"storage": storage}
    )
    loss = nn.functional.mse_loss(fast(x.chunk(world)[rank]), y.chunk(world)[rank])
    loss.backward()  # averages the gradients of all processes
    nn.functional.mse_loss(alone(x), y).backward()

    difference = largest_difference(model, alone)
    kinds = ", ".join(record.kind for record in storage["instance"])
    print(
        f"process {rank} of {world}: {len(x) // world} rows, graphs {kinds}, "
        f"gradients differ from those of one process by {difference:.1e}\n",
        end="",
        flush=True,
    )
    # gloo's threads drop their last work now, for which they need Python's lock; the end of the
    # process would wait for them and keep it (torch 2.13).
    time.sleep(0.1)
    dist.destroy_process_group()
    return int(difference > 1e-6)


if __name__ == "__main__":
    if "RANK" not in os.environ:
        sys.exit("start it with: torchrun --nproc-per-node 2 examples/ddp.py")
    sys.exit(main())
