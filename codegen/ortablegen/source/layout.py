"""Format YAML specs: break lines of more than `WIDTH` columns without changing the parsed content.

Flow collections are broken at commas of the outermost nesting depth that helps, scalars between
words. Shorter lines stay as they are. ``python -m ortablegen format`` formats the spec files.
"""

from __future__ import annotations

import re
import textwrap
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from .yaml_source import LOADER

WIDTH = 120
_BRACKET = re.compile(r"[\[{]")
_SPACE = re.compile(r"(?<=[^\s\\]) (?=\S)")
_Position = tuple[int, int]  # line and column, from 0


@dataclass(frozen=True)
class _Break:
    """A possible line break before ``column``; breaks of the smallest ``depth`` are preferred.

    The rest of the line moves to ``indent`` columns right of ``anchor``, a position in the old
    text. At equal depth, a break is preferred to others up to ``bonus`` columns further right.
    """

    column: int
    depth: float
    anchor: _Position
    indent: int
    bonus: int = 0


@dataclass
class _Level:
    """A collection whose end event has not been read yet, with ``count`` children so far.

    ``item`` is the position of the current list item, or of the current key of a mapping.
    """

    start: _Position
    is_flow: bool
    is_mapping: bool
    depth: int
    count: int = 0
    item: _Position = (0, 0)


def format_yaml(text: str) -> str:
    """Break the long lines of a YAML text; its content and comments stay the same.

    Raises:
        yaml.YAMLError: the text is not YAML.
    """
    breaks = _find_breaks(text)
    # for each line: the old and the new column at which each of its parts begins
    parts_by_line: list[list[_Position]] = []
    lines: list[str] = []
    for number, line in enumerate(text.split("\n")):
        parts_by_line.append([(0, 0)])
        if len(line) > WIDTH and line.lstrip().startswith("#") and number not in breaks:
            prefix = line[: line.index("#")] + "# "
            words = line.strip()[1:].strip()
            lines += textwrap.wrap(
                words, WIDTH, initial_indent=prefix, subsequent_indent=prefix,
                break_long_words=False, break_on_hyphens=False,
            )  # fmt: skip
        else:
            lines += _split_line(line, breaks.get(number, []), parts_by_line)
    formatted = "\n".join(lines)
    if _parse_content(formatted) != _parse_content(text):
        raise AssertionError("formatting changed the content of the file")
    return formatted


def long_lines(text: str) -> list[int]:
    """Return the numbers, from 1, of the lines longer than `WIDTH` columns."""
    return [n for n, line in enumerate(text.split("\n"), 1) if len(line) > WIDTH]


def _split_line(
    line: str, breaks: list[_Break], parts_by_line: list[list[_Position]]
) -> Iterator[str]:
    """Yield the new lines for a line; append the start columns to ``parts_by_line[-1]``."""
    parts = parts_by_line[-1]
    while True:
        start, indent = parts[-1]
        shift = indent - start
        usable_breaks = [
            candidate
            for candidate in breaks
            if candidate.column > start
            and len(line[: candidate.column].rstrip()) + shift <= WIDTH
            and _break_column(candidate, parts_by_line) < candidate.column + shift
        ]
        if len(line) + shift <= WIDTH or not usable_breaks:
            yield " " * indent + line[start:]
            return
        best = min(
            usable_breaks,
            key=lambda line_break: (line_break.depth, -line_break.column - line_break.bonus),
        )
        yield " " * indent + line[start : best.column].rstrip()
        parts.append((best.column, _break_column(best, parts_by_line)))


def _break_column(line_break: _Break, parts_by_line: list[list[_Position]]) -> int:
    """Return the column in the new text at which the rest of a broken line begins."""
    line, column = line_break.anchor
    start, indent = max(part for part in parts_by_line[line] if part[0] <= column)
    return column - start + indent + line_break.indent


def _find_breaks(text: str) -> dict[int, list[_Break]]:
    """Return, by line, the positions where YAML accepts a line break instead of a space."""
    lines = text.split("\n")
    breaks: dict[int, list[_Break]] = defaultdict(list)
    levels: list[_Level] = []
    for event in yaml.parse(text, Loader=LOADER):
        if isinstance(event, yaml.CollectionEndEvent):
            levels.pop()
        if not isinstance(event, yaml.NodeEvent):
            continue
        mark: Any = event.start_mark
        position = mark.line, mark.column
        is_key = False
        if levels:
            level = levels[-1]
            is_key = level.is_mapping and level.count % 2 == 0
            if is_key or not level.is_mapping:
                level.item = position
                if level.is_flow and level.count:
                    breaks[mark.line].append(_Break(mark.column, level.depth, level.start, 1))
            level.count += 1
        if isinstance(event, yaml.CollectionStartEvent):
            is_mapping = isinstance(event, yaml.MappingStartEvent)
            if event.flow_style:  # an anchor may precede the bracket
                bracket = _BRACKET.search(lines[mark.line], mark.column)
                position = mark.line, bracket.start() if bracket is not None else mark.column
            levels.append(_Level(position, bool(event.flow_style), is_mapping, len(levels)))
        elif isinstance(event, yaml.ScalarEvent) and levels and not is_key:
            _add_word_breaks(event, levels[-1], lines, breaks)
    return breaks


def _add_word_breaks(
    event: yaml.ScalarEvent, level: _Level, lines: list[str], breaks: dict[int, list[_Break]]
) -> None:
    """Add the breaks between the words of a scalar."""
    start: Any = event.start_mark
    end: Any = event.end_mark
    # the words of a quoted list item continue behind its quote
    indent = 2 if level.is_mapping else int(event.style in ("'", '"'))
    is_block = event.style in ("|", ">")
    for number in range(start.line, end.line + 1 - is_block):
        if is_block:
            # the line of a block scalar may begin with '#', but is not a comment
            breaks[number] = []
            continue
        first_column = start.column if number == start.line else 0
        last_column = end.column if number == end.line else len(lines[number])
        for space in _SPACE.finditer(lines[number], first_column, last_column):
            # prefer to break a text after a comma
            bonus = 24 if lines[number][space.start() - 1] == "," else 0
            line_break = _Break(space.end(), level.depth + 0.5, level.item, indent, bonus)
            breaks[number].append(line_break)


def _parse_content(text: str) -> object:
    """Return the events of a YAML text with anchors and values, and its characters but spaces.

    The characters include the comments, but not the marks at the beginning of comment lines.
    """
    values = [
        (type(event), getattr(event, "anchor", None), getattr(event, "value", None))
        for event in yaml.parse(text, Loader=LOADER)
    ]
    return values, re.sub(r"\s+", "", re.sub(r"^ *# ?", "", text, flags=re.MULTILINE))
