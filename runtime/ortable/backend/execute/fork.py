"""Reset sessions in forked processes, where the threads of ONNX Runtime do not exist.

A session would wait forever for its threads, which only the parent has. The child creates its own
sessions, never destroys the inherited ones, and does not wait for threads when it exits.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from typing import Any

from ortable.compat.onnxruntime import bound_session

from . import weights

_backends: weakref.WeakSet[Any] = weakref.WeakSet()


def register_for_fork(backend: Any) -> None:
    """Call `backend.after_fork()` in every child that is forked while the backend lives."""
    _backends.add(backend)


def _reset_in_child() -> None:
    _exit_without_destructors()
    weights.after_fork()
    for backend in list(_backends):
        for session in backend.after_fork():
            # Leak the session: its destructor would join threads that do not exist.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(bound_session(session)))


def _exit_without_destructors() -> None:
    """Make the child exit before C++ destroys ONNX Runtime's process-wide state.

    The destructors of ONNX Runtime 1.31 and 1.32 wait forever for threads of the parent, which
    exist as soon as onnxruntime is imported. The handlers run after Python has shut down: `fflush`
    writes the buffers of C, then `_exit` ends the process.
    """
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "on_exit"):  # a function of glibc; its handlers get the exit status
        return
    libc.on_exit(libc["_exit"], None)
    libc.__cxa_atexit(libc.fflush, None, None)  # the handler that is added last runs first


# Register on import: onnxruntime is imported too, so every child needs `_exit_without_destructors`.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_in_child)
