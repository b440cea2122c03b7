"""bypass_export_some_errors: a region of code in which to_onnx tries more before it gives up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_BYPASS: ContextVar[bool] = ContextVar("ortable_bypass_export_errors", default=False)


@contextmanager
def bypass_export_some_errors() -> Iterator[None]:
    """Inside, to_onnx works as with ``ExportOptions(fallback=True)``: when torch.export fails, it
    is tried again in its other mode, and the model's metadata say so."""
    token = _BYPASS.set(True)
    try:
        yield
    finally:
        _BYPASS.reset(token)


def bypassing() -> bool:
    """True inside bypass_export_some_errors."""
    return _BYPASS.get()
