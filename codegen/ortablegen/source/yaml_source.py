"""Safe YAML with positions: every key and value knows its file, line and column; duplicate keys are
errors.

Scalars stay strings (``on`` and ``1e-5`` would otherwise change type); the reader of a value
decides what it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from .diagnostics import Diagnostics, Span


@dataclass(frozen=True)
class YScalar:
    """A YAML scalar: its text as written (quotes resolved), where it starts, and how it was
    written."""

    text: str
    span: Span
    style: str = ""

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


def load(path: Path, display: str, diagnostics: Diagnostics) -> YSeq:
    """Read a spec file, which is one YAML sequence; problems go to ``diagnostics``, the rest is
    still returned."""
    return parse(path.read_text(encoding="utf-8"), display, diagnostics)


def parse(text: str, display: str, diagnostics: Diagnostics) -> YSeq:
    """Read the text of a spec file; ``display`` is the file name that diagnostics show."""
    diagnostics.add_source(display, text)
    start = Span(display, 1, 1)
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        span = Span(display, mark.line + 1, mark.column + 1) if mark else start
        diagnostics.error(
            span, f"not valid YAML: {error.problem}", fix="quote text that holds ': ' or ' #'"
        )
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
