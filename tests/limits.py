"""A limit of time for a part of a test or of a worker. In come seconds and an error, which is
raised in the block when they are over; called by tests/fuzz and tests/specs, on the main thread."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def at_most(seconds: int, error: type[BaseException]) -> Iterator[None]:
    """Raises ``error`` where the block takes longer."""

    def stop(*_: Any) -> None:
        raise error

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
