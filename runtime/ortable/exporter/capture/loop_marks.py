"""Two operators that stand in a graph while loops over free sizes are captured: where a step of a
loop begins, and where the values of all steps are put together. free_loops.py calls them while the
forward runs, rolling.py finds them in the graph; none is left in a program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


@torch.library.custom_op("ortable_loops::step", mutates_args=())
def step(made: Sequence[torch.Tensor], length: int, loop: int, number: int) -> torch.Tensor:
    """Where step ``number`` of a loop begins: its index, int64 [].

    ``made`` are the tensors of the step before; that the graph reads them here keeps them, and
    what was written into them, in front of the mark.
    """
    return torch.full((), number, dtype=torch.int64)


@step.register_fake
def _step(made: Sequence[torch.Tensor], length: int, loop: int, number: int) -> torch.Tensor:
    return torch.empty((), dtype=torch.int64)


@torch.library.custom_op("ortable_loops::collect", mutates_args=())
def collect(items: Sequence[torch.Tensor], length: int, loop: int, dim: int) -> torch.Tensor:
    """The tensors of ``length`` steps, stacked along ``dim``; ``items`` are those of the steps that
    were captured."""
    return torch.stack(list(items), dim)


@collect.register_fake
def _collect(items: Sequence[torch.Tensor], length: int, loop: int, dim: int) -> torch.Tensor:
    shape = list(items[0].shape)
    shape.insert(dim, length)
    return items[0].new_empty(shape)


STEP: Any = torch.ops.ortable_loops.step.default
COLLECT: Any = torch.ops.ortable_loops.collect.default
