"""What `profile` returns: a Profile of times by module, source line, ATen operator and kernel, as
text, as JSON, as files. Made by `call`; read by users and by the shell."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ortable.ir.proto.atomic_files import write_file

from .times import Times, head, lines_of, tables_of
from .trace import trace_of


@dataclass(frozen=True)
class Profile(Times):
    """Where the time of `model(*args)` goes. `str` and `print` give the text.

    All times are microseconds a call, the mean of the calls whose time is in the middle half. The
    kernels' and those of `rest` add up to `call_us`, in every table: `sum(row.us for row in
    [*profile.lines, *profile.rest])`.

    Attributes:
        model: what was called.
        calls: how many calls were measured.
        counted: how many of them count: the fastest and the slowest quarter do not.
        call_us: a call with the profiler on, from the outside.
        plain_us: a call in the same sessions after the profiler was turned off.
        graphs: the graphs that ran.
        nodes: each node that ONNX Runtime ran, and operators that torch ran.
        modules: by module, each with what is inside, in the order in which they ran.
        lines: by source line, the slowest first.
        operators: by ATen operator; "aten::addmm + aten::relu" where ONNX Runtime fused two.
        kernels: by kernel and execution provider, "torch" for its own.
        rest: what is in no kernel: of the sessions, of torch, of Python.
        timeline: the call of middle length, event by event.
        timeline_us: how long that call took.
        notes: what else one should know.
    """

    def __str__(self) -> str:
        return self.text()

    def text(self, rows: int = 15) -> str:
        """The tables as text, in milliseconds.

        Args:
            rows: how many rows a table has; the others are one row. Modules that take less than
                1 % of the call are in those around them only.
        """
        parts = [head(self), *(f"  {note}" for note in self.notes)]
        for table in tables_of(self, rows):
            parts += ["", *lines_of(table)]
        return "\n".join(parts)

    def as_dict(self) -> dict[str, Any]:
        """All of it as plain values, but for the timeline; docs/profiling.md has the fields."""
        found = asdict(self)
        del found["timeline"], found["timeline_us"]
        return {"version": 1, **found}

    def json(self, indent: int | None = 2) -> str:
        """`as_dict` as JSON.

        Args:
            indent: spaces of a step; None for one line.
        """
        return json.dumps(self.as_dict(), indent=indent)

    def trace(self) -> dict[str, Any]:
        """The call of middle length as a trace of Chrome: modules above their kernels, times in
        microseconds."""
        return trace_of(self)

    def save_json(self, path: str | os.PathLike[str]) -> None:
        """Writes `json()`.

        Args:
            path: the file.
        """
        write_file(Path(path), f"{self.json()}\n".encode())

    def save_trace(self, path: str | os.PathLike[str]) -> None:
        """Writes `trace()` for chrome://tracing and https://ui.perfetto.dev.

        Args:
            path: the file.
        """
        write_file(Path(path), f"{json.dumps(self.trace())}\n".encode())

    def save_html(self, path: str | os.PathLike[str]) -> None:
        """Writes a page with a flame graph of the modules and all tables. It reads nothing else, so
        it opens without a network.

        Args:
            path: the file.

        Raises:
            OrtableError: plotly is absent: `pip install 'ortable[profile]'`.
        """
        from .page import html_of

        write_file(Path(path), html_of(self).encode())
