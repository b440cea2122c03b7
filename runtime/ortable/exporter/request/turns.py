"""Exports in several threads take turns. torch.export and torch's tracing replace methods of
``torch.nn.Module`` and of operators for the whole process while they run, and an export replaces
the forward and tensors of its module: two at once would see each other's. In comes a function,
out comes one that waits. to_onnx.py and program.py call it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def in_turn(function: Callable[P, R]) -> Callable[P, R]:
    """Runs a function while no other thread runs such a one, or has dynamo compile.

    The lock is torch's own of compilations, since these read what an export replaces. A thread may
    take it again: a backend of torch.compile may export the graph that it is given.
    """

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        from ortable.compat.torch import compile_lock  # imports the compiler, as an export does

        with compile_lock:
            return function(*args, **kwargs)

    return called
