"""Forked processes: the threads of ONNX Runtime do not exist in the child, where a session that
has some would wait for them for ever. The child makes its own sessions, leaves those it
inherited alone, and waits for no threads when it exits."""

from __future__ import annotations

import ctypes
import os
import weakref
from typing import Any

from ortable.compat.onnxruntime import bound_session

from . import weights

_alive: weakref.WeakSet[Any] = weakref.WeakSet()


def protect(backend: Any) -> None:
    """Calls `backend.after_fork()` in every child that is forked while the backend lives."""
    _alive.add(backend)


def _in_child() -> None:
    _exit_without_destructors()
    weights.after_fork()
    for backend in list(_alive):
        for session in backend.after_fork():
            # Never destroyed: its destructor would join threads that are not there.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(bound_session(session)))


def _exit_without_destructors() -> None:
    """When the child ends with `sys.exit`, it is gone before C++ destroys what ONNX Runtime keeps
    for a process: that waits for threads of the parent, for ever (1.31 and 1.32, as soon as
    onnxruntime is imported). Python has ended by then, and what C has buffered is written."""
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "on_exit"):  # of glibc, which gives the exit status to the handler
        return
    libc.on_exit(libc["_exit"], None)
    libc.__cxa_atexit(libc.fflush, None, None)  # the handler that is added last runs first


# When this is imported, so is onnxruntime: a child that compiles its first model must end as well.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
