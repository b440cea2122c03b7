"""Reset sessions in forked processes, where the threads of ONNX Runtime do not exist.

A session with threads would wait for them forever. The child creates its own sessions, never
destroys the inherited ones, and waits for no threads when it exits.
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
            # Never destroyed: its destructor would join threads that are not there.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(bound_session(session)))


def _exit_without_destructors() -> None:
    """Make the child exit before C++ destroys ONNX Runtime's process-wide state.

    That waits forever for threads of the parent (1.31 and 1.32, as soon as onnxruntime is
    imported). Python has ended by then, and C buffers are flushed.
    """
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "on_exit"):  # of glibc, which gives the exit status to the handler
        return
    libc.on_exit(libc["_exit"], None)
    libc.__cxa_atexit(libc.fflush, None, None)  # the handler that is added last runs first


# When this is imported, so is onnxruntime: a child that compiles its first model must end as well.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_in_child)
