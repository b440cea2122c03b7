"""Ctrl-C at a chosen line of our own code. In comes a function, out goes where it was interrupted;
called by the tests of this folder."""

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

OURS = tuple(
    f"{Path(str(package.__file__)).parent}{os.sep}" for package in (ortable, ortable_generated)
)


@dataclass
class Lines:
    """The lines of ours that run; line number `at` raises KeyboardInterrupt."""

    at: int
    run: list[tuple[str, int]] = field(default_factory=list)
    where: tuple[str, int] | None = None

    def called(self, frame: FrameType, event: str, argument: Any) -> Any:
        return self.line if frame.f_code.co_filename.startswith(OURS) else None

    def line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line" and not (_is_try(frame) or _leaves_a_block(frame)):
            self.run.append((frame.f_code.co_filename, frame.f_lineno))
            if len(self.run) - 1 == self.at:
                self.where = self.run[-1]
                sys.settrace(None)
                raise KeyboardInterrupt
        return self.line


def _is_try(frame: FrameType) -> bool:
    """Whether the line is a ``try:``, which does nothing: Python takes no signal at it."""
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
    return line.strip() == "try:"


def _leaves_a_block(frame: FrameType) -> bool:
    """Whether a `with` statement is run for the second time, to leave its block. Python tells of
    its line again, but takes no signal between the block's end and `__exit__`, so that a Ctrl-C
    cannot keep a lock there; an exception from here could."""
    starts = [first for first, _, line in frame.f_code.co_lines() if line == frame.f_lineno]
    return frame.f_lasti > min(starts) and _is_with(frame.f_code, frame.f_lineno)


@cache
def _is_with(code: CodeType, line: int) -> bool:
    text = linecache.getline(code.co_filename, line).lstrip()
    return text.startswith(("with ", "async with "))


def interrupted(at: int, work: Callable[[], Any]) -> Lines:
    """Runs ``work`` and interrupts it; -1: not at all, so that its lines are counted. What belongs
    to the whole process is as it was."""
    lines = Lines(at)
    before, filters, state = sys.gettrace(), list(warnings.filters), process_state()
    # CPython 3.11 may collect garbage between reading what it traces with and calling it. When the
    # interrupt is in `gc.callbacks`, tracing ends there, so a name has to keep the method alive.
    called = lines.called
    sys.settrace(called)
    try:
        work()
    except KeyboardInterrupt:
        assert lines.where is not None, "an interrupt of somebody else"
    finally:
        sys.settrace(before)
    assert not changes(state) and list(warnings.filters) == filters, lines.where
    return lines


def drawn(lines: Lines, count: int, random: Any) -> list[int]:
    """Numbers of lines to interrupt at: a file first, then a line of it, then one of the times
    that it runs, so that what runs once is drawn as often as what runs a thousand times."""
    numbers: dict[str, dict[int, list[int]]] = {}
    for number, (file, line) in enumerate(lines.run):
        numbers.setdefault(file, {}).setdefault(line, []).append(number)
    files = sorted(numbers)
    found = []
    for _ in range(count):
        of_file = numbers[random.choice(files)]
        found.append(random.choice(of_file[random.choice(sorted(of_file))]))
    return found
