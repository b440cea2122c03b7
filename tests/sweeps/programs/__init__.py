"""Small programs by family, each a function and a factory of its inputs; `test_programs` runs them.

The dict `PROGRAMS` of a family module maps a name to a `Program` or to its `(fn, make)`. `make(n)`
returns the arguments for a size n >= 2, which changes in dynamic runs.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

FAMILIES = (
    "pointwise", "numbers", "reductions", "indexing", "shapes", "orders", "matrices", "layers",
    "images", "losses", "mutations", "results",
)  # fmt: skip


@dataclass(frozen=True)
class Program:
    """A function of tensors and numbers.

    ``make(n)`` returns the arguments. ``dynamic``: whether sizes vary between calls; ``train``:
    whether gradients are compared; ``rtol`` and ``atol`` replace those of the dtype; ``strides``:
    whether the strides of results equal eager's; ``patches``: settings of dynamo to turn on.
    """

    fn: Callable[..., Any]
    make: Callable[[int], tuple[Any, ...]]
    dynamic: bool = True
    train: bool = True
    rtol: float | None = None
    atol: float | None = None
    strides: bool = True
    patches: tuple[str, ...] = ()


def load_programs() -> dict[str, Program]:
    """Return all programs by `family/name`."""
    programs = {}
    for family in FAMILIES:
        module = importlib.import_module(f"{__name__}.{family}")
        for name, entry in module.PROGRAMS.items():
            program = entry if isinstance(entry, Program) else Program(*entry)
            programs[f"{family}/{name}"] = program
    return programs


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return normally distributed numbers, which are the same in every call."""
    generator = torch.Generator().manual_seed(seed + 7 * len(shape))
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def positive(*shape: int, seed: int = 0) -> torch.Tensor:
    """Return uniformly distributed numbers between 0.1 and 1.1."""
    generator = torch.Generator().manual_seed(seed + 5)
    return torch.rand(shape, generator=generator) + 0.1


def ints(high: int, *shape: int, low: int = 0, seed: int = 0) -> torch.Tensor:
    """Return random int64 in the half-open range from ``low`` to ``high``."""
    generator = torch.Generator().manual_seed(seed + 3)
    return torch.randint(low, high, shape, generator=generator)


def bools(*shape: int, seed: int = 0) -> torch.Tensor:
    """Return random booleans."""
    return ints(2, *shape, seed=seed + 11).bool()


def special(n: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return NaN, infinities, signed zeros, halves, tiny and huge numbers, ``n`` normal numbers."""
    corners = [
        torch.nan, torch.inf, -torch.inf, 0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5, 2.5, -2.5,
        1e-45, 1e-30, 3e38, -3e38, 88.0, -88.0,
    ]  # fmt: skip
    return torch.cat([torch.tensor(corners, dtype=torch.float64), normal(n).double()]).to(dtype)
