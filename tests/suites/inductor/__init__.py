"""Small programs by topic, about what torch's tests of compilers cover; `inductor_check` runs them.

The dict `PROGRAMS` of a topic's module maps a name to a `Program`. Its ``inputs(n)`` returns the
arguments for a size n, of which at least the first run has n = 4; random numbers are seeded before.
An argument may be a module: its parameters and buffers are compared as inputs are.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

TOPICS = (
    "pointwise", "indexing", "reductions", "shapes_views", "layers", "mutation_alias", "dtypes",
    "scalars_symbols", "autograd", "control", "identities", "patterns", "operators", "functions",
    "refusals", "algorithms",
)  # fmt: skip

Run = Callable[..., Any]
Inputs = Callable[[int], tuple[Any, ...]]


@dataclass(frozen=True)
class Program:
    """A function and its arguments for a size.

    ``dynamic``: it also runs with dynamic=True at several sizes; ``gradient``: it also runs with
    gradients of the float inputs, or of those that require them; ``options``: settings of dynamo
    to turn on.
    """

    run: Run
    inputs: Inputs
    dynamic: bool = False
    gradient: bool = False
    options: tuple[str, ...] = ()


def static(run: Run, inputs: Inputs, *options: str) -> Program:
    """Return a program of constant sizes."""
    return Program(run, inputs, options=options)


def dynamic(run: Run, inputs: Inputs, *options: str) -> Program:
    """Return a program that also runs with dynamic sizes."""
    return Program(run, inputs, dynamic=True, options=options)


def train(run: Run, inputs: Inputs, *options: str) -> Program:
    """Return a program of constant sizes that also runs with gradients."""
    return Program(run, inputs, gradient=True, options=options)


def every(run: Run, inputs: Inputs, *options: str) -> Program:
    """Return a program that runs in every mode."""
    return Program(run, inputs, dynamic=True, gradient=True, options=options)


def matrix(n: int) -> tuple[torch.Tensor]:
    """Return a matrix of shape [n, 3]."""
    return (torch.randn(n, 3),)


def two_matrices(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return two matrices of shape [n, 3]."""
    return torch.randn(n, 3), torch.randn(n, 3)


def cube(n: int) -> tuple[torch.Tensor]:
    """Return a tensor of shape [n, 3, 4]."""
    return (torch.randn(n, 3, 4),)


def load_programs() -> dict[str, Program]:
    """Return all programs by `topic/name`."""
    found: dict[str, Program] = {}
    for topic in TOPICS:
        module = importlib.import_module(f"{__name__}.{topic}")
        found |= {f"{topic}/{name}": program for name, program in module.PROGRAMS.items()}
    return found
