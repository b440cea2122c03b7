"""Context managers that patch third-party state and always restore it.

Used for torch's tables, the user's module, a logger.
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
    """Run ``undo`` when the block ends, also with an error; again if Ctrl-C interrupts it.

    It must have the same effect when it runs twice, or before anything was changed. Make the
    changes inside the block: Ctrl-C may come at the end of any call, so one between a change and a
    ``try:`` after it would leave the change for good.
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

    A token would be lost if Ctrl-C comes as ``set`` returns.
    """
    before = variable.get()
    with restore_on_exit(lambda: variable.set(before)):
        variable.set(value)
        yield


@contextmanager
def pause_gc() -> Iterator[None]:
    """Pause Python's cyclic garbage collector for a block that makes many objects and few cycles.

    The objects of a conversion die with their last reference. A collection meanwhile traverses all
    of torch's, which takes as long as a fourth of the conversion of a BERT of 12 layers.
    """
    if not gc.isenabled():
        yield
        return
    with restore_on_exit(gc.enable):
        gc.disable()
        yield
