"""Definition of an architecture: its module, inputs and dynamic dimensions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.export import Dim

Call = tuple[tuple[Any, ...], dict[str, Any]]

BATCH = Dim("batch", max=64)
LENGTH = Dim("length", min=2, max=256)
# Heights and widths are multiples of 32, so that every stage halves them evenly.
ROWS, COLUMNS = 32 * Dim("rows", min=1, max=32), 32 * Dim("columns", min=1, max=32)


@dataclass(frozen=True)
class Architecture:
    """An architecture that is exported and compared with eager.

    `make(small)` returns the module, at the size of the benchmarks or of the tests.
    `inputs(small, **sizes)` returns the arguments of a call, `(args, kwargs)`. `dims` are
    the `dynamic_shapes` of to_onnx and torch.export, or a function of `small` that returns them.
    `sizes` are for benchmarks, `small` for tests, `second` other sizes for the same small module.
    `tolerance` is the largest difference from eager, relative to the largest value.
    """

    name: str
    make: Callable[[bool], nn.Module]
    inputs: Callable[..., Call]
    dims: Mapping[str, Any] | Callable[[bool], Mapping[str, Any]]
    sizes: Mapping[str, int]
    small: Mapping[str, int]
    second: Mapping[str, int]
    tolerance: float = 1e-4

    def call(self, small: bool = True, **sizes: int) -> Call:
        """Return reproducible arguments of the default sizes, or of the given ones."""
        torch.manual_seed(1)
        default_sizes = self.small if small else self.sizes
        return self.inputs(small, **{**default_sizes, **sizes})

    def dynamic_shapes(self, small: bool = True) -> dict[str, Any]:
        """Return the dynamic dimensions, by argument."""
        return dict(self.dims(small) if callable(self.dims) else self.dims)


def named(**tensors: Any) -> Call:
    """Return a call with keyword arguments."""
    return (), tensors
