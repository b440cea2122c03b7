"""Errors of codegen: collected, sorted by position, printed in clang's format with caret, notes and
the fix."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ortable.errors import SpecError


@dataclass(frozen=True, order=True)
class Span:
    """A position in a spec file; line and column count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True)
class Diagnostic:
    """One error: where, what, what else to know, what to do."""

    span: Span
    message: str
    notes: tuple[str, ...] = ()
    fix: str | None = None


class SpecErrors(SpecError):
    """All errors that a run of codegen found; ``str()`` is the printed form."""

    def __init__(self, diagnostics: Diagnostics) -> None:
        super().__init__(diagnostics.render())
        self.diagnostics = diagnostics


class Diagnostics:
    """Collects errors and knows the source text that their carets point into."""

    def __init__(self) -> None:
        self.errors: list[Diagnostic] = []
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
    ) -> None:
        """Record an error; codegen goes on, so that one run shows all of them."""
        found = Diagnostic(span, message, tuple(notes), fix)
        if found not in self.errors:
            self.errors.append(found)

    def raise_if_any(self) -> None:
        """Raise :class:`SpecErrors` when at least one error was recorded."""
        if self.errors:
            raise SpecErrors(self)

    def render(self) -> str:
        """All errors, sorted by file, line and column, as one text."""
        return "\n".join(
            self._render_one(found)
            for found in sorted(self.errors, key=lambda e: (e.span, e.message))
        )

    def _render_one(self, found: Diagnostic) -> str:
        lines = [f"{found.span}: error: {found.message}"]
        source = self.source_line(found.span)
        if source is not None:
            lines.append(source)
            lines.append(" " * (found.span.column - 1) + "^")
        lines.extend(f"{found.span}: note: {note}" for note in found.notes)
        if found.fix:
            lines.append(f"{found.span}: fix: {found.fix}")
        return "\n".join(lines)
