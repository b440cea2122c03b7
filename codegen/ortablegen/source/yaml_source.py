"""Safe YAML with positions: every key and value knows its file, line and column; duplicate keys are
errors.

Scalars stay strings (``on`` and ``1e-5`` would otherwise change type); the reader of a value
decides what it is.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from .diagnostics import Diagnostics, Span


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
    and what of it is not written there but came from a row of ``for:``."""

    text: str
    span: Span
    style: str = ""
    pieces: tuple[Piece, ...] = ()

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


def written_column(pieces: tuple[Piece, ...], line: int, column: int) -> int:
    """The column in the file, from the start of the scalar, of a column of its text."""
    shift = 0
    for piece in pieces:
        if piece.line == line and column >= piece.end:
            shift = piece.written_end - piece.end
        elif piece.line == line and column >= piece.start:
            return piece.written_start
    return column + shift


def load(path: Path, display: str, diagnostics: Diagnostics) -> YSeq:
    """Read a spec file, which is one YAML sequence; problems go to ``diagnostics``, the rest is
    still returned."""
    return parse(path.read_text(encoding="utf-8"), display, diagnostics)


def parse(text: str, display: str, diagnostics: Diagnostics) -> YSeq:
    """Read the text of a spec file; ``display`` is the file name that diagnostics show."""
    diagnostics.add_source(display, text)
    start = Span(display, 1, 1)
    try:
        root = _compose(text)
    except yaml.MarkedYAMLError as error:
        _report(error, text, display, diagnostics)
        return YSeq((), start)
    if root is None:
        return YSeq((), start)
    node = _convert(root, display, diagnostics)
    if not isinstance(node, YSeq):
        diagnostics.error(
            node.span, "a spec file is a YAML list of entries", fix="begin each entry with '- '"
        )
        return YSeq((), start)
    return node


def load_plain(path: Path) -> Any:
    """A YAML file as plain Python values (tables that codegen itself writes), None when empty."""
    return yaml.load(path.read_text(encoding="utf-8"), Loader=_LOADER)


# libyaml, which every wheel of PyYAML carries; without it the reader in Python
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _compose(text: str) -> yaml.Node | None:
    """The nodes of a YAML text; libyaml's reader is five times faster than the one in Python, whose
    errors say more."""
    with contextlib.suppress(yaml.YAMLError):
        return yaml.compose(text, Loader=_LOADER)
    return yaml.compose(text, Loader=yaml.SafeLoader)


def _report(error: yaml.MarkedYAMLError, text: str, display: str, diagnostics: Diagnostics) -> None:
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
    diagnostics.error(
        span, f"not valid YAML: {error.problem}", fix="quote text that holds ': ' or ' #'"
    )


def _is_indentation(error: yaml.MarkedYAMLError, text: str) -> bool:
    """Whether YAML stopped at the first word of a line of another column than those before."""
    mark, problem = error.problem_mark, error.problem or ""
    if mark is None:
        return False
    lines = text.splitlines()
    before = lines[mark.line][: mark.column] if mark.line < len(lines) else ""
    starts = not before.strip(" -")
    return starts and ("block" in problem or "block" in (error.context or ""))


def _convert(node: yaml.Node, display: str, diagnostics: Diagnostics) -> YNode:
    span = Span(display, node.start_mark.line + 1, node.start_mark.column + 1)
    if isinstance(node, yaml.SequenceNode):
        return YSeq(tuple(_convert(child, display, diagnostics) for child in node.value), span)
    if isinstance(node, yaml.MappingNode):
        return _convert_map(node, span, display, diagnostics)
    assert isinstance(node, yaml.ScalarNode)
    style = node.style or ""
    if style in ("'", '"'):
        span = Span(display, span.line, span.column + 1)
    elif style in ("|", ">"):
        # the text of a block starts on the next line; its indentation is found by the reader of the
        # block
        span = Span(display, span.line + 1, 1)
    return YScalar(node.value, span, style)


def _convert_map(
    node: yaml.MappingNode, span: Span, display: str, diagnostics: Diagnostics
) -> YMap:
    pairs: list[tuple[YScalar, YNode]] = []
    seen: dict[str, Span] = {}
    for key_node, value_node in node.value:
        key = _convert(key_node, display, diagnostics)
        value = _convert(value_node, display, diagnostics)
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
