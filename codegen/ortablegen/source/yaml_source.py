"""Parse YAML safely into nodes with file, line and column; duplicate keys are errors.

Scalars stay strings (``on`` and ``1e-5`` would otherwise change type); the reader of a value
converts it.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml
from yaml.reader import ReaderError

from ortable.errors import SpecError

from .diagnostics import Diagnostics, Span

# Spec files written by hand reach at most a tenth of this; checks of a larger file take hours.
MAX_BYTES = 1 << 20
MAX_NODES = 50_000
MAX_LEVELS = 40


@dataclass(frozen=True)
class Piece:
    """A value that replaced ``$name`` in a scalar: its line (from 1) and columns (from 0).

    ``start`` and ``end`` enclose the value in the new text, ``written_start`` and ``written_end``
    enclose ``$name`` in the old one.
    """

    line: int
    start: int
    end: int
    written_start: int
    written_end: int


@dataclass(frozen=True)
class YScalar:
    """A YAML scalar: its text with quotes resolved, its position and its quoting style.

    ``pieces`` are the parts that came from a row of ``for:``. ``starts`` has a tuple for each of
    its lines in the file: line (from 1) and column (from 0) in the text, column (from 1) in the
    file. It is empty for a plain or quoted scalar on one line.
    """

    text: str
    span: Span
    style: str = ""
    pieces: tuple[Piece, ...] = ()
    starts: tuple[tuple[int, int, int], ...] = ()

    def at(self, line: int, column: int) -> Span:
        """Return the position in the file of a line (from 1) and column (from 0) of the text."""
        column = _written_column(self.pieces, line, column)
        index = max((n for n, s in enumerate(self.starts) if s[:2] <= (line, column)), default=None)
        if index is None:
            return replace(self.span, column=self.span.column + column)
        text_line, first_column, file_column = self.starts[index]
        # a line that begins after an escaped line break has no line of its own in the file
        offset = column - first_column if text_line == line else 0
        return replace(self.span, line=self.span.line + index, column=file_column + offset)

    def is_null(self) -> bool:
        """Whether this is an empty plain scalar, ``null`` or ``~``."""
        return self.style == "" and self.text in ("", "null", "~")


@dataclass(frozen=True)
class YSeq:
    """A YAML sequence."""

    values: tuple[YNode, ...]
    span: Span

    def __iter__(self) -> Iterator[YNode]:
        return iter(self.values)

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True)
class YMap:
    """A YAML mapping with unique scalar keys, in file order."""

    pairs: tuple[tuple[YScalar, YNode], ...]
    span: Span

    def items(self) -> tuple[tuple[YScalar, YNode], ...]:
        """Return the pairs in file order."""
        return self.pairs

    def get(self, key: str) -> YNode | None:
        """Return the value of ``key``, or None if the key is absent."""
        for name, value in self.pairs:
            if name.text == key:
                return value
        return None

    def key(self, key: str) -> YScalar | None:
        """Return the key node of ``key``, for its position, or None if the key is absent."""
        for name, _ in self.pairs:
            if name.text == key:
                return name
        return None


YNode = YScalar | YSeq | YMap


def _written_column(pieces: tuple[Piece, ...], line: int, column: int) -> int:
    """Convert a column of a scalar's text to a column in the file, from the scalar's start."""
    shift = 0
    for piece in pieces:
        if piece.line == line and column >= piece.end:
            shift = piece.written_end - piece.end
        elif piece.line == line and column >= piece.start:
            return piece.written_start
    return column + shift


def read_utf8(path: Path, what: str) -> str:
    """Return the text of a user's file; ``what`` describes the file in errors.

    Raises:
        SpecError: the file cannot be read, is not UTF-8, or has more than `MAX_BYTES` bytes.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise ValueError(f"it has more than {MAX_BYTES} bytes")
        return content.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SpecError(f"cannot read the {what} '{path}': {reason}") from error


def printable_name(path: Path) -> str:
    """Return the name of a user's file, printable and on one line, for messages."""
    return _to_printable(path.name)


def printable_folder(path: Path) -> str:
    """Return the folder part of a path as the user gave it: ``"ops/"``, or empty."""
    return _to_printable(str(path).removesuffix(path.name))


def _to_printable(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in text)


def load(path: Path, display: str, diagnostics: Diagnostics) -> YSeq:
    """Read a spec file, a YAML sequence; report problems and return the valid entries."""
    return parse(path.read_text(encoding="utf-8"), display, diagnostics)


def parse(text: str, display: str, diagnostics: Diagnostics) -> YSeq:
    """Parse the text of a spec file; ``display`` is the file name that diagnostics show.

    Text that is not a YAML list is an error, and gives no entries.
    """
    diagnostics.add_source(display, text)
    start = Span(display, 1, 1)
    try:
        node = _parse_nodes(text, display, diagnostics)
    except yaml.MarkedYAMLError as error:
        _report_error(error, text, display, diagnostics)
        return YSeq((), start)
    except ReaderError as error:
        span = _find_position(text, error.position, display)
        diagnostics.error(span, f"YAML does not allow the character U+{error.character:04X}")
        return YSeq((), start)
    except _Unreadable as error:
        diagnostics.error(error.span, str(error), fix=error.fix)
        return YSeq((), start)
    if node is None:
        return YSeq((), start)
    if not isinstance(node, YSeq):
        diagnostics.error(
            node.span, "a spec file is a YAML list of entries", fix="begin each entry with '- '"
        )
        return YSeq((), start)
    return node


def load_plain(path: Path) -> Any:
    """Load a YAML table that codegen writes as plain Python values; None if empty."""
    return yaml.load(path.read_text(encoding="utf-8"), Loader=LOADER)


# libyaml is in every wheel of PyYAML; other builds use the loader in Python
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _parse_nodes(text: str, display: str, diagnostics: Diagnostics) -> YNode | None:
    """Return the root node, or None; after an error, parse in Python for a better message."""
    with contextlib.suppress(yaml.YAMLError):
        return _NodeBuilder(display, diagnostics).read_root(yaml.parse(text, Loader=LOADER))
    return _NodeBuilder(display, diagnostics).read_root(yaml.parse(text, Loader=yaml.SafeLoader))


# surrogates: only an escape can write them, and files and terminals reject them
_SURROGATE = re.compile("[\ud800-\udfff]")


class _Unreadable(Exception):
    """YAML with an invalid structure: too deep, too large, recursive aliases, surrogates."""

    def __init__(self, span: Span, message: str, fix: str | None = None) -> None:
        super().__init__(message)
        self.span = span
        self.fix = fix


@dataclass
class _OpenCollection:
    """A sequence or mapping whose end event has not been read; ``size`` counts its nodes."""

    node: yaml.CollectionStartEvent
    span: Span
    items: list[YNode] = field(default_factory=list)
    size: int = 1


class _NodeBuilder:
    """Builds nodes from events with an explicit stack, so deep nesting is no RecursionError.

    An anchored node is shared by its aliases, but counts toward `MAX_NODES` at each alias, since
    readers traverse it each time.
    """

    def __init__(self, display: str, diagnostics: Diagnostics) -> None:
        self.display = display
        self.diagnostics = diagnostics
        self.open: list[_OpenCollection] = []
        self.named: dict[str, tuple[YNode, int]] = {}  # nodes by anchor, with their sizes
        self.size = 0
        self.documents = 0
        self.root_node: YNode | None = None

    def read_root(self, events: Iterable[yaml.Event]) -> YNode | None:
        """Return the node of the only document, or None if it is empty."""
        for event in events:
            if isinstance(event, yaml.ScalarEvent):
                self.add_node(self.make_scalar(event), 1, event.anchor)
            elif isinstance(event, yaml.CollectionStartEvent):
                self.start_collection(event)
            elif isinstance(event, yaml.CollectionEndEvent):
                self.end_collection()
            elif isinstance(event, yaml.AliasEvent):
                self.add_alias(event)
            elif isinstance(event, yaml.DocumentStartEvent):
                self.start_document(event)
        return self.root_node

    def event_span(self, event: yaml.Event) -> Span:
        mark: Any = event.start_mark
        return Span(self.display, mark.line + 1, mark.column + 1)

    def start_document(self, event: yaml.Event) -> None:
        self.documents += 1
        if self.documents > 1:
            text = "not valid YAML: expected a single document, but found another document"
            raise _Unreadable(self.event_span(event), text)

    def start_collection(self, event: yaml.CollectionStartEvent) -> None:
        span = self.event_span(event)
        if len(self.open) >= MAX_LEVELS:
            text = f"lists and mappings are nested in more than {MAX_LEVELS} levels"
            raise _Unreadable(span, text)
        self.open.append(_OpenCollection(event, span))

    def end_collection(self) -> None:
        closed = self.open.pop()
        node: YNode
        if isinstance(closed.node, yaml.SequenceStartEvent):
            node = YSeq(tuple(closed.items), closed.span)
        else:
            node = _make_mapping(closed.items, closed.span, self.diagnostics)
        self.add_node(node, closed.size, closed.node.anchor)

    def add_alias(self, event: yaml.AliasEvent) -> None:
        if any(collection.node.anchor == event.anchor for collection in self.open):
            raise _Unreadable(
                self.event_span(event),
                f"the alias '*{event.anchor}' is inside the value that it refers to",
            )
        if event.anchor not in self.named:
            text = f"not valid YAML: found undefined alias {event.anchor!r}"
            raise _Unreadable(self.event_span(event), text, fix="quote text that begins with '*'")
        node, size = self.named[event.anchor]
        self.add_node(node, size, None, event)

    def add_node(
        self, node: YNode, size: int, anchor: str | None, alias: yaml.AliasEvent | None = None
    ) -> None:
        """Add a complete node to the innermost open collection."""
        self.size += 1 if alias is None else size
        if self.size > MAX_NODES:
            span = node.span if alias is None else self.event_span(alias)
            text = f"the file has more than {MAX_NODES} values, with those that aliases repeat"
            raise _Unreadable(span, text, fix="split it into several files")
        if anchor is not None:
            self.named[anchor] = node, size
        if self.open:
            self.open[-1].items.append(node)
            self.open[-1].size += size
        else:
            self.root_node = node

    def make_scalar(self, event: yaml.ScalarEvent) -> YScalar:
        span, style = self.event_span(event), event.style or ""
        if style in ("'", '"'):
            span = replace(span, column=span.column + 1)
        elif style in ("|", ">"):  # the text of a block scalar starts on the next line
            span = Span(self.display, span.line + 1, 1)
        if not event.value.isascii() and (surrogate := _SURROGATE.search(event.value)) is not None:
            text = f"'\\u{ord(surrogate[0]):04X}' is half of a surrogate pair"
            raise _Unreadable(span, text, fix="write the character itself")
        return YScalar(event.value, span, style, starts=self.line_starts(event, span))

    def line_starts(self, event: yaml.ScalarEvent, span: Span) -> tuple[tuple[int, int, int], ...]:
        """Return where the lines of a multi-line scalar begin in its text and in the file."""
        end: Any = event.end_mark
        if event.style in ("|", ">"):
            first_line = self.diagnostics.source_line(span) or ""
            column = 1 + len(first_line) - len(first_line.lstrip())
            return tuple((n, 0, column) for n in range(1, event.value.count("\n") + 2))
        starts, text_end, is_next_filled = [], len(event.value), True
        for number in range(end.line + 1, span.line, -1):
            line = self.diagnostics.source_line(Span(self.display, number, 1)) or ""
            text = (
                line[: end.column - bool(event.style)] if number == end.line + 1 else line.rstrip()
            )
            stripped = text.lstrip()
            text_end -= len(_ESCAPE.sub("x", stripped) if event.style == '"' else stripped)
            line_start = event.value.rfind("\n", 0, text_end) + 1
            lines = event.value.count("\n", 0, text_end)
            starts.append((1 + lines, text_end - line_start, 1 + len(text) - len(stripped)))
            # YAML reads one line break as a space, and n + 1 of them as n line breaks
            text_end -= bool(stripped) or not is_next_filled
            is_next_filled = bool(stripped)
        return ((1, 0, span.column), *reversed(starts)) if starts else ()


# an escape in double quotes, which is one character of the text
_ESCAPE = re.compile(r"\\(x..|u.{4}|U.{8}|.)")


def _find_position(text: str, position: int, display: str) -> Span:
    """Convert an offset in a text to line and column."""
    text_before = text[:position]
    return Span(display, text_before.count("\n") + 1, len(text_before) - text_before.rfind("\n"))


def _report_error(
    error: yaml.MarkedYAMLError, text: str, display: str, diagnostics: Diagnostics
) -> None:
    """Report a YAML error by its likely cause: a tab, the indentation, special characters."""
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    # YAML may report a tab some lines after the line that contains it
    first_line = error.context_mark.line if error.context_mark else line - 1
    for number, content in enumerate(text.splitlines()[first_line : line + 1], first_line + 1):
        indentation = content[: len(content) - len(content.lstrip())]
        if "\t" in indentation:
            span = Span(display, number, indentation.index("\t") + 1)
            diagnostics.error(
                span,
                "a tab in the indentation",
                fix="indent with spaces: YAML does not allow tabs there",
            )
            return
    span = Span(display, line, column)
    if _is_indentation_error(error, text):
        diagnostics.error(
            span,
            "no line above has the indentation of this line",
            fix="give the keys of an entry the same column, two right of its '- '",
        )
        return
    has_bracket = (error.problem or "").endswith(("got '['", "got '{'"))
    fix = "quote text that contains ': ' or ' #'"
    if has_bracket:
        fix = 'quote text that contains brackets: "f32[2,3]"'
    diagnostics.error(span, f"not valid YAML: {error.problem}", fix=fix)


def _is_indentation_error(error: yaml.MarkedYAMLError, text: str) -> bool:
    """Whether YAML failed at the first word of a line with unexpected indentation."""
    mark, problem = error.problem_mark, error.problem or ""
    if mark is None:
        return False
    lines = text.splitlines()
    text_before = lines[mark.line][: mark.column] if mark.line < len(lines) else ""
    is_line_start = not text_before.strip(" -")
    return is_line_start and ("block" in problem or "block" in (error.context or ""))


def _make_mapping(items: list[YNode], span: Span, diagnostics: Diagnostics) -> YMap:
    """Build a mapping from alternating keys and values."""
    pairs: list[tuple[YScalar, YNode]] = []
    seen: dict[str, Span] = {}
    for key, value in zip(items[::2], items[1::2], strict=True):
        if not isinstance(key, YScalar):
            diagnostics.error(key.span, "a key must be a plain word")
            continue
        if key.text in seen:
            diagnostics.error(
                key.span,
                f"duplicate key '{key.text}'",
                notes=[f"first given at line {seen[key.text].line}"],
                fix="keep one of the two",
            )
            continue
        seen[key.text] = key.span
        pairs.append((key, value))
    return YMap(tuple(pairs), span)
