"""A graph of dynamo that trains, measured whole: a step of it is its call and the backward of what
the call returned, and eager's step is what nobody should be slower than. The graphs that
AOTAutograd cuts it into are measured first, against their own operators; those are decomposed, and
eager's are not. Made by `graphs`; what is decided, and how, is that of `tuned` and `trial`."""

from __future__ import annotations

import time
import weakref
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from ortable.compat.torch import pytree

from .trial import Trial
from .tuned import MeasuredCall, Tuned

_MOST_IDLE = 8  # calls in a row whose backward never came


class TunedStep(Tuned):
    """A Tuned whose candidates are timed from the call to its return, and from the first gradient
    that comes back to the last one that goes on; the next call notes it.  A call without a backward
    tells nothing, nor does one that another call follows before its backward; after some of them
    ONNX Runtime is kept."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._step: _Step | None = None  # the call whose backward is awaited
        self._idle = 0  # calls since a backward came

    def __str__(self) -> str:
        if self._idle > _MOST_IDLE:
            return f"{self.label}: not measured, its calls have no backward of their own"
        return super().__str__()

    @property
    def is_open(self) -> bool:
        return self._idle <= _MOST_IDLE and super().is_open

    def _trial(self, sizes: tuple[int, ...]) -> Trial | None:
        trial = super()._trial(sizes)
        if trial is not None and self._idle > _MOST_IDLE and self._ours is not None:
            self._run_from_now(self._ours)
            return None
        return trial

    def _begin_call(self, call: MeasuredCall, given: Sequence[Any], result: Any) -> None:
        self._step = _Step(call)
        self._step.watch(given, result)

    def _end_call(self) -> None:
        """Notes the step before this one, whose backward is over if there was one."""
        step, self._step = self._step, None
        if step is not None:
            seconds = step.end()
            self._idle = 0 if seconds is not None else self._idle + 1
            if seconds is not None:
                self._note(step.call, seconds, "steps")


class _Step:
    """One call and its backward."""

    def __init__(self, call: MeasuredCall) -> None:
        self.call = call
        self._first: float | None = None  # gradient of a result
        self._last: float | None = None  # gradient of an argument
        self._handles: list[Any] = []

    def watch(self, args: Sequence[Any], result: Any) -> None:
        """Looks at the gradients of what the call took and returned."""
        this = weakref.ref(self)  # the hooks go when the step does
        for watched, method in ((pytree.tree_leaves(result), _Step._begins), (args, _Step._ends)):
            for each in watched:
                if isinstance(each, torch.Tensor) and each.requires_grad:
                    self._handles.append(each.register_hook(partial(_call, this, method)))

    def end(self) -> float | None:
        """The seconds of both; None without a backward."""
        for handle in self._handles:
            handle.remove()
        if self._first is None or self._last is None:
            return None
        return self.call.seconds + self._last - self._first

    def _begins(self) -> None:
        if self._first is None:
            self._first = time.perf_counter()

    def _ends(self) -> None:
        self._last = time.perf_counter()


def _call(this: weakref.ref[_Step], method: Any, _: Any) -> None:
    step = this()
    if step is not None:
        method(step)
