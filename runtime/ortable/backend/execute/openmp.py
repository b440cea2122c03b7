"""torch's OpenMP threads, while a session runs. After an operator of torch they look for work for
some 20 ms more, on the processors that ONNX Runtime's threads need: the forward pass of a training
step, which follows the optimizer, computes on one processor fewer. In comes what runs a session,
out comes what ends those threads before a run that is long enough to gain from it; called by
`runner`.

Where torch has no OpenMP library with `omp_pause_resource_all` (OpenMP 5.0, section 3.2.43),
nothing is ended."""

from __future__ import annotations

import ctypes
import functools
import time
from collections.abc import Callable
from typing import Any

__all__ = ["without_waiting_threads"]

Run = Callable[..., Any]

_SOFT = 1  # omp_pause_soft: torch's next operator starts new threads, and finds all it knew
# Seconds of a run. To end the threads and to start others costs 0.05 to 0.1 ms, and much more where
# a new one is put behind a thread that computes; while they are there, a run takes up to a sixth
# longer.
_LONG = 6e-3


def without_waiting_threads(run: Run) -> Run:
    """`run`, for which torch's threads are ended when the run before took long."""
    pause = _pause()
    if pause is None:
        return run
    seconds = 0.0

    def call(*given: Any) -> Any:
        nonlocal seconds
        if seconds > _LONG:
            pause(_SOFT)  # of this thread's own parallel regions; refused inside one
        begin = time.perf_counter()
        result = run(*given)
        seconds = time.perf_counter() - begin
        return result

    return call


@functools.cache
def _pause() -> Callable[[int], int] | None:
    """The function of the OpenMP library that torch has loaded for everybody."""
    try:
        function: Callable[[int], int] = ctypes.CDLL(None).omp_pause_resource_all
    except (AttributeError, OSError, TypeError):  # no such function; no such way on this system
        return None
    return function
