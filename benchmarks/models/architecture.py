"""One architecture of the set: how its module and its inputs are made, and what may vary."""

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
    """One model of the set.

    `make(small)` returns the module, at the size of the benchmark or at that of the tests.
    `inputs(small, **sizes)` returns the arguments of a call, `(args, kwargs)`. `dims` is what
    to_onnx and torch.export take as `dynamic_shapes`, or a function of `small`. `sizes` are those
    of the benchmark, `small` those of the tests, `second` other ones for the same small module.
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
        """Arguments of the usual size, or of other ones; the same numbers for the same sizes."""
        torch.manual_seed(1)
        usual = self.small if small else self.sizes
        return self.inputs(small, **{**usual, **sizes})

    def dynamic_shapes(self, small: bool = True) -> dict[str, Any]:
        """The dimensions that may vary, by argument."""
        return dict(self.dims(small) if callable(self.dims) else self.dims)


def named(**tensors: Any) -> Call:
    """A call by keyword."""
    return (), tensors
