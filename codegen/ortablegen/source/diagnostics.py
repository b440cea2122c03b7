"""Errors of codegen: collected, sorted by position, printed in clang's format with caret, notes and
the fix."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ortable.errors import SpecError

MAX_ERRORS = 1000  # of a run: after these it ends, since what is wrong is another thing
SHOWN_ROWS = 2  # of an error that stands in what several rows share


@dataclass(frozen=True, order=True)
class Span:
    """A position in a spec file; line and column count from 1. ``row`` is the row of ``for:`` for
    which the entry around it is written out."""

    file: str
    line: int
    column: int
    row: Row | None = field(default=None, compare=False)

    @property
    def origin(self) -> Span:
        """The location of the entry: its row, or the span itself."""
        return self.row.span if self.row is not None else self

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True)
class Row:
    """A row of ``for:``: where it begins, and how many are above it."""

    span: Span
    number: int


@dataclass(frozen=True)
class Diagnostic:
    """One error: where, what, what else to know, what to do."""

    span: Span
    message: str
    notes: tuple[str, ...] = ()
    fix: str | None = None


def did_you_mean(word: str, candidates: Iterable[str]) -> str:
    """``; did you mean 'x'?`` for the known word that is closest, or nothing."""
    close = difflib.get_close_matches(word, list(candidates), n=1)
    return f"; did you mean '{close[0]}'?" if close else ""


class SpecErrors(SpecError):
    """All errors of a codegen run; ``str()`` is the printed form."""

    def __init__(self, diagnostics: Diagnostics) -> None:
        super().__init__(diagnostics.render())
        self.diagnostics = diagnostics


class Diagnostics:
    """Collects errors, and the source text for their carets.

    Args:
        max_columns: the longest allowed line of the language; None for a user's file.
        folder: printed before the file's name, as the user wrote it.
    """

    def __init__(self, max_columns: int | None = 100, folder: str = "") -> None:
        self.max_columns = max_columns
        self.folder = folder
        self.errors: list[Diagnostic] = []
        self.reports = 0  # those of an error that was recorded before are counted, too
        self._seen: set[Diagnostic] = set()
        self._rows: dict[Diagnostic, list[Span]] = {}
        self._sources: dict[str, list[str]] = {}

    def add_source(self, file: str, text: str) -> None:
        """Make the text of ``file`` known, so that errors can quote its lines."""
        self._sources[file] = text.split("\n")

    def source_line(self, span: Span) -> str | None:
        """The line a span points to, or None when the file's text is unknown."""
        lines = self._sources.get(span.file)
        if lines is None or not 1 <= span.line <= len(lines):
            return None
        return lines[span.line - 1]

    def error(
        self, span: Span, message: str, notes: Iterable[str] = (), fix: str | None = None
    ) -> Any:
        """Record an error and return None, which most readers then return.

        Codegen goes on, so that one run shows all of them, up to `MAX_ERRORS`. Equal errors of
        several rows of ``for:`` are one.
        """
        self.reports += 1
        diagnostic = Diagnostic(span, message, tuple(notes), fix)
        if diagnostic not in self._seen:
            self._seen.add(diagnostic)
            self.errors.append(diagnostic)
        if len(self.errors) > MAX_ERRORS:
            raise SpecErrors(self)
        rows = self._rows.setdefault(diagnostic, [])
        if span.row is not None and span.row.span not in rows:
            rows.append(span.row.span)

    def check_unique(self, named: Iterable[tuple[str, Span]]) -> None:
        """Report the names that are given twice."""
        seen: dict[str, Span] = {}
        for name, span in named:
            first = seen.setdefault(name, span)
            if first is not span:
                self.error(
                    span, f"duplicate entry for '{name}'", [f"first given at {first.origin}"]
                )

    def check_sorted(
        self, named: Iterable[tuple[str, Span]], fix: str = "keep the entries of a file sorted"
    ) -> None:
        """Report the first name that stands after a greater one."""
        for (before, _), (after, span) in itertools.pairwise(named):
            if after < before:
                return self.error(span, f"'{after}' stands after '{before}'", fix=fix)

    def raise_if_any(self) -> None:
        """Raise :class:`SpecErrors` when at least one error was recorded."""
        if self.errors:
            raise SpecErrors(self)

    def render(self) -> str:
        """All errors, sorted by file, line and column, as one text."""
        return "\n".join(
            self._render_one(diagnostic)
            for diagnostic in sorted(self.errors, key=lambda e: (e.span, e.message))
        )

    def _render_one(self, diagnostic: Diagnostic) -> str:
        at = f"{self.folder}{diagnostic.span}"
        lines = [f"{at}: error: {diagnostic.message}"]
        source = self.source_line(diagnostic.span)
        if source is not None:
            lines.append(source)
            lines.append(" " * (diagnostic.span.column - 1) + "^")
        lines.extend(f"{at}: note: {note}" for note in diagnostic.notes)
        rows = [row for row in self._rows.get(diagnostic, ()) if row.line != diagnostic.span.line]
        shared = "note: with the values of this row"
        lines.extend(f"{self.folder}{row}: {shared}" for row in rows[:SHOWN_ROWS])
        if len(rows) > SHOWN_ROWS:
            lines.append(f"{at}: note: and of {len(rows) - SHOWN_ROWS} rows more")
        if diagnostic.fix:
            lines.append(f"{at}: fix: {diagnostic.fix}")
        return "\n".join(lines)
