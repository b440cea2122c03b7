"""Docstrings as Markdown. In comes a docstring in Google's style, out come its parts: what it says,
and its sections by name. Called by the pages of this folder."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, field

HEADS = ("Args", "Attributes", "Returns", "Yields", "Raises")
_HEAD = re.compile(rf"^({'|'.join(HEADS)}):$")


@dataclass(frozen=True)
class Row:
    """What a section says of one thing: its name (``args, kwargs`` are one row), and the text."""

    name: str
    text: str


@dataclass(frozen=True)
class Parts:
    """A docstring: what stands outside of its sections, and the sections' rows."""

    text: str
    sections: dict[str, tuple[Row, ...]] = field(default_factory=dict)

    def said(self) -> dict[str, str]:
        """Texts of the arguments, by name."""
        return {
            name.strip().lstrip("*"): row.text
            for head in ("Args", "Attributes")
            for row in self.sections.get(head, ())
            for name in row.name.split(",")
        }


def markdown(text: str) -> str:
    """Paragraphs of a docstring: code in Markdown's marks, a line for each paragraph, indented
    blocks as code."""
    blocks = []
    for block in re.split(r"\n\s*\n", inspect.cleandoc(text)):
        if not block.strip():
            continue
        lines = block.split("\n")
        if all(line.startswith("    ") for line in lines):
            blocks.append("```py\n" + inspect.cleandoc(block) + "\n```")
        elif any(line.startswith("- ") for line in lines):
            blocks.append(_marks(block))
        else:
            blocks.append(_marks(" ".join(line.strip() for line in lines)))
    return "\n\n".join(blocks)


def _marks(text: str) -> str:
    """Marks of reStructuredText as those of Markdown."""
    text = re.sub(r"(?<=[.:])  (?=\S)", " ", text)
    text = re.sub(r"::$", ":", text.replace("``", "`"))
    return re.sub(r"(?<![\w`])docs/([\w-]+)\.md", r"[\1.md](\1.md)", text)


def parts(doc: str) -> Parts:
    """The parts of a docstring."""
    outside: list[str] = []
    sections: dict[str, list[str]] = {}
    current: list[str] = outside
    for line in inspect.cleandoc(doc).split("\n"):
        if head := _HEAD.match(line):
            current = sections.setdefault(head[1], [])
        elif line and not line.startswith(" ") and current is not outside:
            current = outside
            current += ["", line]
        else:
            current.append(line)
    return Parts(
        markdown("\n".join(outside)),
        {
            name: _prose(lines) if name in ("Returns", "Yields") else _rows(lines)
            for name, lines in sections.items()
        },
    )


def _prose(lines: list[str]) -> tuple[Row, ...]:
    """A section that says one thing, in one row without a name."""
    return (Row("", _marks(" ".join(line.strip() for line in lines).strip())),)


def _rows(lines: list[str]) -> tuple[Row, ...]:
    """Rows of a section: a line less indented than the others begins one."""
    rows: list[list[str]] = []
    for line in inspect.cleandoc("\n".join(["", *lines])).split("\n"):
        if line and not line.startswith(" "):
            rows.append([line])
        elif rows:
            rows[-1].append(line.strip())
    found = []
    for row in rows:
        text = " ".join(row).strip()
        match = re.match(r"([*\w., ]+?): (.*)", text, re.DOTALL)
        found.append(Row(match[1], _marks(match[2])) if match else Row("", _marks(text)))
    return tuple(found)
