"""Context managers that patch third-party state and always restore it.

Examples are torch's tables, the user's module and a logger.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")


@contextmanager
def restore_on_exit(undo: Callable[[], object]) -> Iterator[None]:
    """Run ``undo`` when the block ends, also after an error; retry it if Ctrl-C interrupts it.

    ``undo`` must have the same effect if it runs twice, or before any change. Make the changes
    inside the block: Ctrl-C may interrupt at the end of any call, so an interrupt between a change
    and a ``try:`` after it would make the change permanent.
    """
    try:
        yield
    finally:
        try:
            undo()
        except BaseException:
            undo()
            raise


def apply_or_undo(change: Callable[[], object], undo: Callable[[], None]) -> Callable[[], None]:
    """Apply a change completely, or undo it if Ctrl-C interrupts it; return ``undo``."""
    try:
        change()
    except BaseException:
        undo()
        raise
    return undo


@contextmanager
def set_context_var(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Set a context variable in the block, in this thread.

    The old value is stored before ``set``, because Ctrl-C could lose the token that ``set``
    returns.
    """
    previous = variable.get()
    with restore_on_exit(lambda: variable.set(previous)):
        variable.set(value)
        yield


@contextmanager
def pause_gc() -> Iterator[None]:
    """Pause Python's cyclic garbage collector for a block that makes many objects and few cycles.

    Reference counting frees the objects of a conversion. Collections would traverse all objects of
    torch, which takes a fourth of the time to convert a BERT of 12 layers.
    """
    if not gc.isenabled():
        yield
        return
    with restore_on_exit(gc.enable):
        gc.disable()
        yield
