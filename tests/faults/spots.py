"""Interrupt code at each spot, which is an instruction after which Python checks for signals.

Python checks for signals when a function begins, when a generator continues, when a call of C code
returns, and when a loop jumps back, but not between two lines. `interrupts.py` interrupts at lines,
which differ from spots: `x.y = z` and a `try:` after it are two lines without a spot, and the
return of a call that has changed something is a spot within a line.
"""

from __future__ import annotations

import contextlib
import dis
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from .interrupts import PACKAGE_FOLDERS

_CALLS = ("CALL", "CALL_FUNCTION_EX", "CALL_KW")


@dataclass
class Spots:
    """Count spots; the spot with number ``index`` raises KeyboardInterrupt once."""

    index: int
    files: tuple[str, ...] = ()  # ortable's files with spots; all if empty
    passed: int = 0
    where: str = ""
    last_instructions: dict[int, int | None] = field(default_factory=dict)  # by frame
    calling_frames: set[int] = field(default_factory=set)  # those that have called Python since

    def trace_call(self, frame: FrameType, event: str, argument: Any) -> Any:
        outer = frame.f_back
        self.calling_frames.add(id(outer))
        if self.where or not (
            _is_in_ortable(frame) or (_is_contextlib(frame) and outer and _is_in_ortable(outer))
        ):
            return None
        if self.files and not frame.f_code.co_filename.endswith(self.files):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        self.last_instructions[id(frame)] = None
        return self.trace_opcode

    def trace_opcode(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event != "opcode" or self.where:
            return self.trace_opcode
        last, self.last_instructions[id(frame)] = self.last_instructions[id(frame)], frame.f_lasti
        called_python = id(frame) in self.calling_frames and not _is_contextlib(frame)
        self.calling_frames.discard(id(frame))
        if last is None and frame.f_code.co_name == "__exit__" and not _is_contextlib(frame):
            return self.trace_opcode  # an interrupted `__exit__` cannot restore anything
        if last is None or _checks_signals(frame, last, called_python):
            if self.passed == self.index:
                self.where = f"{frame.f_code.co_filename}:{frame.f_lineno}, {frame.f_code.co_name}"
                raise KeyboardInterrupt
            self.passed += 1
        return self.trace_opcode


def _checks_signals(frame: FrameType, last: int, called_python: bool) -> bool:
    """Return whether Python checks for signals after the instruction at ``last``."""
    name = dis.opname[frame.f_code.co_code[last]]
    if name in _CALLS:
        return not called_python
    return name == "RESUME" or (name.startswith("JUMP_BACKWARD") and "NO_INTERRUPT" not in name)


def _is_in_ortable(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(PACKAGE_FOLDERS)


def _is_contextlib(frame: FrameType) -> bool:
    """Return whether the frame is contextlib's, where `next(generator)` is a call of C code."""
    return frame.f_code.co_filename == contextlib.__file__


def interrupted_at(index: int, work: Callable[[], Any], files: tuple[str, ...] = ()) -> Spots:
    """Run ``work`` and interrupt it at a spot; -1 only counts the spots."""
    spots = Spots(index, files)
    previous_trace = sys.gettrace()
    trace_call = spots.trace_call  # keeps the method alive, as in `interrupts.py`
    sys.settrace(trace_call)
    try:
        work()
    except KeyboardInterrupt:
        assert spots.where, "KeyboardInterrupt came from elsewhere"
    finally:
        sys.settrace(previous_trace)
    return spots
