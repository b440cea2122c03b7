"""Programs of the zoo: a model of a library, and the arguments of its calls."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from . import fields

MODES = ("compile", "train", "export")
LEFT_OUT = "left out"  # the place in the record of a mode that a program leaves out


@dataclass(frozen=True)
class Program:
    """A model and how it is called.

    ``make`` returns the arguments for a number of samples. ``modes`` leaves out what a user cannot
    do with the model: train it, or export it because its arguments are no tensors. ``dynamic``:
    whether the number of samples may change from call to call. ``loss`` takes what the model
    returns; by default it is the mean of the squares of all floating tensors.
    """

    model: torch.nn.Module
    make: Callable[[int], tuple[Any, ...]]
    modes: tuple[str, ...] = MODES
    dynamic: bool = True
    loss: Callable[[Any], torch.Tensor] | None = None


def read_builders() -> dict[str, Callable[[], Program]]:
    """Return the function that builds each program, by ``package/program``.

    The modules of ``fields`` have them as functions ``package__program`` and import a library
    inside of the function, so that a missing one fails alone.
    """
    builders = {}
    for info in pkgutil.iter_modules(fields.__path__, f"{fields.__name__}."):
        for name, value in vars(importlib.import_module(info.name)).items():
            if "__" in name.strip("_") and callable(value):
                assert name.replace("__", "/") not in builders, f"two programs {name}"
                builders[name.replace("__", "/")] = value
    return builders
