"""Changes of what belongs to others, for a block: torch's tables, the user's module, a logger."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")


@contextmanager
def undone(undo: Callable[[], object]) -> Iterator[None]:
    """Runs ``undo`` when the block ends, with an error too, and once more where a Ctrl-C ended it
    halfway: it has to leave the same when it runs twice, or before anything was changed.

    The changes belong into the block. A Ctrl-C comes at the end of any call, so that one between a
    change and a ``try:`` behind it would leave the change for good.
    """
    try:
        yield
    finally:
        try:
            undo()
        except BaseException:
            undo()
            raise


def whole(change: Callable[[], object], undo: Callable[[], None]) -> Callable[[], None]:
    """Changes something, or nothing where a Ctrl-C comes meanwhile; returns how to undo it."""
    try:
        change()
    except BaseException:
        undo()
        raise
    return undo


@contextmanager
def value_set(variable: ContextVar[T], value: T) -> Iterator[None]:
    """In the block the variable has the value, in this thread. (A token would be lost where a
    Ctrl-C comes as ``set`` returns.)"""
    before = variable.get()
    with undone(lambda: variable.set(before)):
        variable.set(value)
        yield


@contextmanager
def collections_paused() -> Iterator[None]:
    """Pause Python's cyclic garbage collector for a block that makes many objects and few cycles.

    The objects of a conversion die with their last reference. A collection meanwhile walks over
    all of torch's, which takes as long as a fourth of the conversion of a BERT of 12 layers.
    """
    if not gc.isenabled():
        yield
        return
    with undone(gc.enable):
        gc.disable()
        yield
