"""Collect errors of codegen, and print them in clang's format with caret, notes and a fix."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ortable.errors import SpecError

MAX_ERRORS = 1000  # a run stops after more, since they probably have a common cause
MAX_SHOWN_ROWS = 2  # rows listed for an error in text that several rows of `for:` share


@dataclass(frozen=True, order=True)
class Span:
    """A position in a spec file; line and column count from 1.

    In an entry with ``for:``, ``row`` is the table row that the entry is expanded for.
    """

    file: str
    line: int
    column: int
    row: Row | None = field(default=None, compare=False)

    @property
    def origin(self) -> Span:
        """The position of the row of ``for:`` if there is one, else the span itself."""
        return self.row.span if self.row is not None else self

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True)
class Row:
    """A row of ``for:``: its position and its index, from 0."""

    span: Span
    number: int


@dataclass(frozen=True)
class Diagnostic:
    """An error: position, message, notes, and a suggested fix."""

    span: Span
    message: str
    notes: tuple[str, ...] = ()
    fix: str | None = None


def did_you_mean(word: str, candidates: Iterable[str]) -> str:
    """Return ``; did you mean 'x'?`` for the closest candidate, or an empty string."""
    close = difflib.get_close_matches(word, list(candidates), n=1)
    return f"; did you mean '{close[0]}'?" if close else ""


class SpecErrors(SpecError):
    """All errors of a codegen run; ``str()`` formats them."""

    def __init__(self, diagnostics: Diagnostics) -> None:
        super().__init__(diagnostics.render())
        self.diagnostics = diagnostics


class Diagnostics:
    """Collects errors, and the source text that their carets point into.

    Args:
        max_columns: the longest allowed line of code in the spec language; None for a user's file.
        folder: the folder of the file as the user wrote it, printed before the file's name.
    """

    def __init__(self, max_columns: int | None = 100, folder: str = "") -> None:
        self.max_columns = max_columns
        self.folder = folder
        self.errors: list[Diagnostic] = []
        self.error_calls = 0  # number of `error` calls, including repeated errors
        self._seen: set[Diagnostic] = set()
        self._rows: dict[Diagnostic, list[Span]] = {}
        self._sources: dict[str, list[str]] = {}

    def add_source(self, file: str, text: str) -> None:
        """Store the text of ``file``, so that errors can quote its lines."""
        self._sources[file] = text.split("\n")

    def source_line(self, span: Span) -> str | None:
        """Return the line that a span points to, or None if the file's text is unknown."""
        lines = self._sources.get(span.file)
        if lines is None or not 1 <= span.line <= len(lines):
            return None
        return lines[span.line - 1]

    def error(
        self, span: Span, message: str, notes: Iterable[str] = (), fix: str | None = None
    ) -> Any:
        """Record an error and return None, which most callers then return.

        Codegen continues, so that one run reports all errors, up to `MAX_ERRORS`. Equal errors at
        one position, as of several rows of ``for:``, are recorded once.
        """
        self.error_calls += 1
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
        """Report the names that occur more than once."""
        spans: dict[str, Span] = {}
        for name, span in named:
            first_span = spans.setdefault(name, span)
            if first_span is not span:
                self.error(
                    span, f"duplicate entry for '{name}'", [f"first given at {first_span.origin}"]
                )

    def check_sorted(
        self, named: Iterable[tuple[str, Span]], fix: str = "keep the entries of a file sorted"
    ) -> None:
        """Report the first name that is less than its predecessor."""
        for (before, _), (after, span) in itertools.pairwise(named):
            if after < before:
                return self.error(span, f"'{after}' must come before '{before}'", fix=fix)

    def raise_if_any(self) -> None:
        """Raise :class:`SpecErrors` if at least one error was recorded."""
        if self.errors:
            raise SpecErrors(self)

    def render(self) -> str:
        """Return all errors, sorted by file, line and column, as one text."""
        return "\n".join(
            self._render_one(diagnostic)
            for diagnostic in sorted(self.errors, key=lambda e: (e.span, e.message))
        )

    def _render_one(self, diagnostic: Diagnostic) -> str:
        position = f"{self.folder}{diagnostic.span}"
        lines = [f"{position}: error: {diagnostic.message}"]
        source = self.source_line(diagnostic.span)
        if source is not None:
            lines.append(source)
            lines.append(" " * (diagnostic.span.column - 1) + "^")
        lines.extend(f"{position}: note: {note}" for note in diagnostic.notes)
        rows = [row for row in self._rows.get(diagnostic, ()) if row.line != diagnostic.span.line]
        row_note = "note: with the values of this row"
        lines.extend(f"{self.folder}{row}: {row_note}" for row in rows[:MAX_SHOWN_ROWS])
        if len(rows) > MAX_SHOWN_ROWS:
            lines.append(f"{position}: note: and {len(rows) - MAX_SHOWN_ROWS} more rows")
        if diagnostic.fix:
            lines.append(f"{position}: fix: {diagnostic.fix}")
        return "\n".join(lines)
