"""Interrupt code at a chosen line of ortable."""

from __future__ import annotations

import linecache
import os
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import ortable
import ortable_generated
from tests.process_state import changes, process_state

PACKAGE_FOLDERS = tuple(
    f"{Path(str(package.__file__)).parent}{os.sep}" for package in (ortable, ortable_generated)
)


@dataclass
class Lines:
    """Record executed lines of ortable; the line with number `index` raises KeyboardInterrupt."""

    index: int
    executed: list[tuple[str, int]] = field(default_factory=list)
    where: tuple[str, int] | None = None

    def trace_call(self, frame: FrameType, event: str, argument: Any) -> Any:
        return self.trace_line if frame.f_code.co_filename.startswith(PACKAGE_FOLDERS) else None

    def trace_line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line" and not (_is_try(frame) or _is_block_end(frame)):
            self.executed.append((frame.f_code.co_filename, frame.f_lineno))
            if len(self.executed) - 1 == self.index:
                self.where = self.executed[-1]
                sys.settrace(None)
                raise KeyboardInterrupt
        return self.trace_line


def _is_try(frame: FrameType) -> bool:
    """Return whether the line is a ``try:``, where Python takes no signal."""
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
    return line.strip() == "try:"


def _is_block_end(frame: FrameType) -> bool:
    """Return whether a `with` block ends at the line: Python takes no signal before `__exit__`."""
    offsets = [offset for offset, _, line in frame.f_code.co_lines() if line == frame.f_lineno]
    return frame.f_lasti > min(offsets) and _is_with(frame.f_code, frame.f_lineno)


@cache
def _is_with(code: CodeType, line: int) -> bool:
    text = linecache.getline(code.co_filename, line).lstrip()
    return text.startswith(("with ", "async with "))


def run_with_interrupt(index: int, work: Callable[[], Any]) -> Lines:
    """Run ``work``, interrupt it at a line (-1: none), and require unchanged process state."""
    lines = Lines(index)
    previous_trace, filters, state = sys.gettrace(), list(warnings.filters), process_state()
    # CPython 3.11 may collect garbage between reading the trace function and calling it. When the
    # interrupt is in `gc.callbacks`, tracing ends there, so a name has to keep the method alive.
    trace_call = lines.trace_call
    sys.settrace(trace_call)
    try:
        work()
    except KeyboardInterrupt:
        assert lines.where is not None, "KeyboardInterrupt came from elsewhere"
    finally:
        sys.settrace(previous_trace)
    assert not changes(state) and list(warnings.filters) == filters, lines.where
    return lines


def draw_indices(lines: Lines, count: int, random: Any) -> list[int]:
    """Draw indices of executed lines; a line that runs once is as likely as a frequent line."""
    executions: dict[str, dict[int, list[int]]] = {}
    for index, (file, line) in enumerate(lines.executed):
        executions.setdefault(file, {}).setdefault(line, []).append(index)
    files = sorted(executions)
    indices = []
    for _ in range(count):
        lines_of_file = executions[random.choice(files)]
        indices.append(random.choice(lines_of_file[random.choice(sorted(lines_of_file))]))
    return indices
