"""Small programs by family, each a function and a maker of its inputs; `test_programs` runs them.

A family module has one dict, `PROGRAMS`: name -> `Program`, or `(function, make)` for short, where
`make(n)` gives the arguments for a size n >= 2 that dynamic runs change.
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

    ``make(n)`` gives its arguments. ``dynamic``: whether sizes may change between calls; ``train``:
    whether gradients are compared; ``rtol`` and ``atol`` replace those of the dtype; ``strides``:
    whether the results lie in memory as eager's; ``patches``: settings of dynamo that it needs.
    """

    fn: Callable[..., Any]
    make: Callable[[int], tuple[Any, ...]]
    dynamic: bool = True
    train: bool = True
    rtol: float | None = None
    atol: float | None = None
    strides: bool = True
    patches: tuple[str, ...] = ()


def every_program() -> dict[str, Program]:
    """All programs, by `family/name`."""
    found = {}
    for family in FAMILIES:
        module = importlib.import_module(f"{__name__}.{family}")
        for name, entry in module.PROGRAMS.items():
            program = entry if isinstance(entry, Program) else Program(*entry)
            found[f"{family}/{name}"] = program
    return found


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Normally distributed numbers, the same at every call."""
    generator = torch.Generator().manual_seed(seed + 7 * len(shape))
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def positive(*shape: int, seed: int = 0) -> torch.Tensor:
    """Numbers between 0.1 and 1.1."""
    generator = torch.Generator().manual_seed(seed + 5)
    return torch.rand(shape, generator=generator) + 0.1


def ints(high: int, *shape: int, low: int = 0, seed: int = 0) -> torch.Tensor:
    """int64 from ``low`` up to ``high``, which is not among them."""
    generator = torch.Generator().manual_seed(seed + 3)
    return torch.randint(low, high, shape, generator=generator)


def bools(*shape: int, seed: int = 0) -> torch.Tensor:
    """True and False."""
    return ints(2, *shape, seed=seed + 11).bool()


def special(n: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """NaN, infinities, zeros of both signs, halves, tiny and huge numbers, ``n`` normal ones."""
    corners = [
        torch.nan, torch.inf, -torch.inf, 0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5, 2.5, -2.5,
        1e-45, 1e-30, 3e38, -3e38, 88.0, -88.0,
    ]  # fmt: skip
    return torch.cat([torch.tensor(corners, dtype=torch.float64), normal(n).double()]).to(dtype)
