"""Whether this thread is inside bypass_export_some_errors, and which of its patches count there.
Written by `capture.bypass`, read by the patched functions and by the options."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

Undo = Callable[[], None]


# The names of the patches that count in this thread; None outside of the region.
ACTIVE: ContextVar[tuple[str, ...] | None] = ContextVar("ortable_bypass_patches", default=None)


def bypassing() -> bool:
    """True inside bypass_export_some_errors, in this thread."""
    return ACTIVE.get() is not None


def active_patches() -> tuple[str, ...]:
    """The patches that count in this thread, in the order of the documentation."""
    return ACTIVE.get() or ()
