"""A time limit for a block of code on the main thread."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def at_most(seconds: int, error: type[BaseException]) -> Iterator[None]:
    """Raise ``error`` where the block takes longer than ``seconds``."""

    def stop(*_: Any) -> None:
        raise error

    previous = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)
