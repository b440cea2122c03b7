"""Exports in several threads take turns. torch.export and torch's tracing replace methods of
``torch.nn.Module`` and of operators for the whole process while they run, and an export replaces
the forward and tensors of its module: two at once would see each other's. In comes a function,
out comes one that waits. to_onnx.py and program.py call it."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from ortable.errors import ExportError

P = ParamSpec("P")
R = TypeVar("R")


class _Turns:
    """torch's lock, once an export has asked for it, and whether a thread had it when this process
    was forked: that thread is not here, and what it had replaced stays replaced."""

    lock: Any = None
    forked_within = False

    def in_child(self) -> None:
        if self.lock is None:
            return
        self.forked_within = not self.lock.acquire(blocking=False)
        if not self.forked_within:
            self.lock.release()


_TURNS = _Turns()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_TURNS.in_child)


def in_turn(function: Callable[P, R]) -> Callable[P, R]:
    """Runs a function while no other thread runs such a one, or has dynamo compile.

    The lock is torch's own of compilations, since these read what an export replaces. A thread may
    take it again: a backend of torch.compile may export the graph that it is given.

    The function raises ExportError in a process that was forked within another thread's turn.
    """

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        from ortable.compat.torch import compile_lock  # imports the compiler, as an export does

        _TURNS.lock = compile_lock
        if _TURNS.forked_within:
            raise ExportError(
                "this process was forked while another thread of its parent exported or compiled, "
                "which leaves torch halfway through: start it with the method 'spawn', or export "
                "before you fork"
            )
        with compile_lock:
            return function(*args, **kwargs)

    return called
