"""Safe YAML with positions: every key and value knows its file, line and column; duplicate keys are
errors.

Scalars stay strings (``on`` and ``1e-5`` would otherwise change type); the reader of a value
decides what it is.
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

# A file of entries has a tenth of these at most; what has more is no work of a person, and would
# keep the checks busy for hours.
MAX_BYTES = 1 << 20
MAX_NODES = 50_000
MAX_LEVELS = 40


@dataclass(frozen=True)
class Piece:
    """A value that was put in the place of a parameter of ``for:``, on one line of a scalar: its
    columns in the text, and those of the parameter as it is written. Lines count from 1, columns
    from 0."""

    line: int
    start: int
    end: int
    written_start: int
    written_end: int


@dataclass(frozen=True)
class YScalar:
    """A YAML scalar: its text as written (quotes resolved), where it starts, how it was written,
    and what of it is not written there but came from a row of ``for:``.

    ``starts`` has a line and column of the text for each of its lines in the file, and the column
    there.
    """

    text: str
    span: Span
    style: str = ""
    pieces: tuple[Piece, ...] = ()
    starts: tuple[tuple[int, int, int], ...] = ()

    def at(self, line: int, column: int) -> Span:
        """The position in the file of a line (from 1) and column (from 0) of the text."""
        column = _written_column(self.pieces, line, column)
        index = max((n for n, s in enumerate(self.starts) if s[:2] <= (line, column)), default=None)
        if index is None:
            return replace(self.span, column=self.span.column + column)
        _, first, shift = self.starts[index]
        return replace(self.span, line=self.span.line + index, column=shift + column - first)

    def is_null(self) -> bool:
        """True for an empty plain scalar, ``null`` or ``~``."""
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
        """The pairs in file order."""
        return self.pairs

    def get(self, key: str) -> YNode | None:
        """The value of ``key``, or None when the key is absent."""
        for name, value in self.pairs:
            if name.text == key:
                return value
        return None

    def key(self, key: str) -> YScalar | None:
        """The key node itself, for its position."""
        for name, _ in self.pairs:
            if name.text == key:
                return name
        return None


YNode = YScalar | YSeq | YMap


def _written_column(pieces: tuple[Piece, ...], line: int, column: int) -> int:
    """The column in the file, from the start of the scalar, of a column of its text."""
    shift = 0
    for piece in pieces:
        if piece.line == line and column >= piece.end:
            shift = piece.written_end - piece.end
        elif piece.line == line and column >= piece.start:
            return piece.written_start
    return column + shift


def read_utf8(path: Path, what: str) -> str:
    """The text of a file of a user.

    Raises:
        SpecError: it cannot be read, is no text of UTF-8, or is longer than a file of entries is.
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


def shown_name(path: Path) -> str:
    """The name of a user's file as messages and the head of compiled text have it: one line."""
    return _to_printable(path.name)


def shown_folder(path: Path) -> str:
    """What stands before the name in a path as the user gave it: ``"ops/"``, or nothing."""
    return _to_printable(str(path).removesuffix(path.name))


def _to_printable(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in text)


def load(path: Path, display: str, diagnostics: Diagnostics) -> YSeq:
    """Read a spec file, which is one YAML sequence; problems go to ``diagnostics``, the rest is
    still returned."""
    return parse(path.read_text(encoding="utf-8"), display, diagnostics)


def parse(text: str, display: str, diagnostics: Diagnostics) -> YSeq:
    """Read the text of a spec file; ``display`` is the file name that diagnostics show."""
    diagnostics.add_source(display, text)
    start = Span(display, 1, 1)
    try:
        node = _parse_nodes(text, display, diagnostics)
    except yaml.MarkedYAMLError as error:
        _report_error(error, text, display, diagnostics)
        return YSeq((), start)
    except ReaderError as error:
        span = _find_position(text, error.position, display)
        diagnostics.error(span, f"YAML takes no character U+{error.character:04X}")
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
    """A YAML file as plain Python values (tables that codegen itself writes), None when empty."""
    return yaml.load(path.read_text(encoding="utf-8"), Loader=LOADER)


# libyaml, which every wheel of PyYAML carries; without it the reader in Python
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _parse_nodes(text: str, display: str, diagnostics: Diagnostics) -> YNode | None:
    """The node of a YAML text, None when it is empty; libyaml's reader is five times faster than
    the one in Python, whose errors say more."""
    with contextlib.suppress(yaml.YAMLError):
        return _Nodes(display, diagnostics).read_root(yaml.parse(text, Loader=LOADER))
    return _Nodes(display, diagnostics).read_root(yaml.parse(text, Loader=yaml.SafeLoader))


# what only an escape can write, and no file or terminal takes
_HALF = re.compile("[\ud800-\udfff]")


class _Unreadable(Exception):
    """YAML that nobody writes by hand: too deep, too much of the same, a loop of aliases, half a
    character."""

    def __init__(self, span: Span, message: str, fix: str | None = None) -> None:
        super().__init__(message)
        self.span = span
        self.fix = fix


@dataclass
class _Open:
    """A sequence or mapping of which not all is read yet."""

    node: yaml.CollectionStartEvent
    span: Span
    items: list[YNode] = field(default_factory=list)
    size: int = 1


class _Nodes:
    """Builds nodes from events, with a stack of its own: a text that goes deep or grows without
    bounds ends in an error of its place. What an anchor names is one node wherever it is meant, and
    counts each time, since readers walk it each time."""

    def __init__(self, display: str, diagnostics: Diagnostics) -> None:
        self.display = display
        self.diagnostics = diagnostics
        self.open: list[_Open] = []
        self.named: dict[str, tuple[YNode, int]] = {}
        self.size = 0
        self.documents = 0
        self.root_node: YNode | None = None

    def read_root(self, events: Iterable[yaml.Event]) -> YNode | None:
        """The node of the only document; None when it is empty."""
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
        self.open.append(_Open(event, span))

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
                self.event_span(event), f"'*{event.anchor}' is a part of what it names"
            )
        if event.anchor not in self.named:
            text = f"not valid YAML: found undefined alias {event.anchor!r}"
            raise _Unreadable(self.event_span(event), text, fix="quote text that begins with '*'")
        node, size = self.named[event.anchor]
        self.add_node(node, size, None, event)

    def add_node(
        self, node: YNode, size: int, anchor: str | None, alias: yaml.AliasEvent | None = None
    ) -> None:
        """Puts a complete node where it belongs."""
        self.size += 1 if alias is None else size
        if self.size > MAX_NODES:
            span = node.span if alias is None else self.event_span(alias)
            text = f"the file has more than {MAX_NODES} values, those that aliases repeat included"
            raise _Unreadable(span, text, fix="make several files of it")
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
        elif style in ("|", ">"):  # the text of a block starts on the next line
            span = Span(self.display, span.line + 1, 1)
        if not event.value.isascii() and (half := _HALF.search(event.value)) is not None:
            text = f"'\\u{ord(half[0]):04X}' is half a character"
            raise _Unreadable(span, text, fix="write the character itself")
        return YScalar(event.value, span, style, starts=self.line_starts(event, span))

    def line_starts(self, event: yaml.ScalarEvent, span: Span) -> tuple[tuple[int, int, int], ...]:
        """Where the lines of a scalar begin in its text and in the file, if it has several."""
        end: Any = event.end_mark
        if event.style in ("|", ">"):
            first = self.diagnostics.source_line(span) or ""
            column = 1 + len(first) - len(first.lstrip())
            return tuple((n, 0, column) for n in range(1, event.value.count("\n") + 2))
        starts, last, below = [], len(event.value), True
        for number in range(end.line + 1, span.line, -1):
            line = self.diagnostics.source_line(Span(self.display, number, 1)) or ""
            text = (
                line[: end.column - bool(event.style)] if number == end.line + 1 else line.rstrip()
            )
            stripped = text.lstrip()
            last -= len(_ESCAPE.sub("x", stripped) if event.style == '"' else stripped)
            line_start = event.value.rfind("\n", 0, last) + 1
            lines = event.value.count("\n", 0, last)
            starts.append((1 + lines, last - line_start, 1 + len(text) - len(stripped)))
            # the space that a line break stands for; of empty lines all but one are a break, too
            last -= bool(stripped) or not below
            below = bool(stripped)
        return ((1, 0, span.column), *reversed(starts)) if starts else ()


_ESCAPE = re.compile(r"\\(x..|u.{4}|U.{8}|.)")


def _find_position(text: str, position: int, display: str) -> Span:
    """The line and column of a character of a text."""
    before = text[:position]
    return Span(display, before.count("\n") + 1, len(before) - before.rfind("\n"))


def _report_error(
    error: yaml.MarkedYAMLError, text: str, display: str, diagnostics: Diagnostics
) -> None:
    """Say what a person did: a tab, a line that is indented otherwise than its neighbours, or text
    that YAML reads as something else."""
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    # a tab may be found lines after the one that it began
    first = error.context_mark.line if error.context_mark else line - 1
    for number, content in enumerate(text.splitlines()[first : line + 1], first + 1):
        indentation = content[: len(content) - len(content.lstrip())]
        if "\t" in indentation:
            span = Span(display, number, indentation.index("\t") + 1)
            diagnostics.error(
                span, "a tab in the indentation", fix="indent with spaces: YAML takes no tabs there"
            )
            return
    span = Span(display, line, column)
    if _is_indentation(error, text):
        diagnostics.error(
            span,
            "this line is indented as no line above it is",
            fix="give the keys of an entry the same column, two right of its '- '",
        )
        return
    bracket = (error.problem or "").endswith(("got '['", "got '{'"))
    fix = "quote text that holds ': ' or ' #'"
    if bracket:
        fix = 'quote text that holds brackets: "f32[2,3]"'
    diagnostics.error(span, f"not valid YAML: {error.problem}", fix=fix)


def _is_indentation(error: yaml.MarkedYAMLError, text: str) -> bool:
    """Whether YAML stopped at the first word of a line of another column than those before."""
    mark, problem = error.problem_mark, error.problem or ""
    if mark is None:
        return False
    lines = text.splitlines()
    before = lines[mark.line][: mark.column] if mark.line < len(lines) else ""
    starts = not before.strip(" -")
    return starts and ("block" in problem or "block" in (error.context or ""))


def _make_mapping(items: list[YNode], span: Span, diagnostics: Diagnostics) -> YMap:
    """The mapping of keys and values, which alternate."""
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
