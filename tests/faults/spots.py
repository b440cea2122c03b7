"""Ctrl-C at every spot of some code where Python looks for one. In comes a function and a number,
out goes where it was interrupted; called by test_state.py.

Python looks for signals when a function begins, when a generator goes on, when a call of C code
returns, and when a loop jumps back, not between two lines. `interrupts.py` takes lines, which are
more and less than that: `x.y = z` and the `try:` behind it are two lines and no spot, and a call
that has changed something but not returned is a spot inside a line."""

from __future__ import annotations

import contextlib
import dis
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from .interrupts import OURS

_CALLS = ("CALL", "CALL_FUNCTION_EX", "CALL_KW")


@dataclass
class Spots:
    """The spots that were passed; number ``at`` raises KeyboardInterrupt, once."""

    at: int
    files: tuple[str, ...] = ()  # names of ours that are looked at; all where there are none
    passed: int = 0
    where: str = ""
    before: dict[int, int | None] = field(default_factory=dict)  # last instruction, by frame
    calls: set[int] = field(default_factory=set)  # frames that have called Python since

    def called(self, frame: FrameType, event: str, argument: Any) -> Any:
        outer = frame.f_back
        self.calls.add(id(outer))
        if self.where or not (_ours(frame) or (_helps(frame) and outer and _ours(outer))):
            return None
        if self.files and not frame.f_code.co_filename.endswith(self.files):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        self.before[id(frame)] = None
        return self.step

    def step(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event != "opcode" or self.where:
            return self.step
        last, self.before[id(frame)] = self.before[id(frame)], frame.f_lasti
        python = id(frame) in self.calls and not _helps(frame)
        self.calls.discard(id(frame))
        if last is None and frame.f_code.co_name == "__exit__" and not _helps(frame):
            return self.step  # nobody can put back what is to be put back from here on
        if last is None or _looks(frame, last, python):
            if self.passed == self.at:
                self.where = f"{frame.f_code.co_filename}:{frame.f_lineno}, {frame.f_code.co_name}"
                raise KeyboardInterrupt
            self.passed += 1
        return self.step


def _looks(frame: FrameType, last: int, python: bool) -> bool:
    """Whether Python looks for signals as the instruction at ``last`` ends."""
    name = dis.opname[frame.f_code.co_code[last]]
    if name in _CALLS:
        return not python
    return name == "RESUME" or (name.startswith("JUMP_BACKWARD") and "NO_INTERRUPT" not in name)


def _ours(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(OURS)


def _helps(frame: FrameType) -> bool:
    """What is between a `with` and a generator of ours: `next(generator)` is a call of C code."""
    return frame.f_code.co_filename == contextlib.__file__


def interrupted_at(at: int, work: Callable[[], Any], files: tuple[str, ...] = ()) -> Spots:
    """Runs ``work`` and interrupts it at a spot; -1: not at all, so that its spots are counted."""
    spots = Spots(at, files)
    before = sys.gettrace()
    called = spots.called  # kept alive, as in `interrupts.py`
    sys.settrace(called)
    try:
        work()
    except KeyboardInterrupt:
        assert spots.where, "an interrupt of somebody else"
    finally:
        sys.settrace(before)
    return spots
