"""Silence loggers of torch for a block whose errors are handled. Called by strategies.py and
fake_runs.py."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from ortable.compat.undone import undone

GUARDS = "torch._guards"  # dimensions that cannot vary
TRACING = "torch.export._trace"  # errors of a capture
FAKES = "torch._subclasses.fake_tensor"  # shapes that do not fit


@contextmanager
def quiet(*names: str) -> Iterator[None]:
    """In the block these loggers write nothing."""
    loggers = [logging.getLogger(name) for name in names]
    before = [logger.disabled for logger in loggers]

    def undo() -> None:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled

    with undone(undo):
        for logger in loggers:
            logger.disabled = True
        yield
