"""Convert docstrings in Google's style to Markdown: the description and the sections by name."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, field

HEADS = ("Args", "Attributes", "Returns", "Yields", "Raises")
_HEAD = re.compile(rf"^({'|'.join(HEADS)}):$")


@dataclass(frozen=True)
class Row:
    """One entry of a section: its name (``args, kwargs`` are one entry) and its text."""

    name: str
    text: str


@dataclass(frozen=True)
class Parts:
    """A docstring: the text outside of its sections, and the entries of the sections."""

    text: str
    sections: dict[str, tuple[Row, ...]] = field(default_factory=dict)

    def list_arguments(self) -> dict[str, str]:
        """Return the texts of the arguments by name."""
        return {
            name.strip().lstrip("*"): row.text
            for head in ("Args", "Attributes")
            for row in self.sections.get(head, ())
            for name in row.name.split(",")
        }


def markdown(text: str) -> str:
    """Convert paragraphs: one line each, code in Markdown, indented blocks as code blocks."""
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
    """Convert reStructuredText markup to Markdown."""
    text = re.sub(r"(?<=[.:])  (?=\S)", " ", text)
    text = re.sub(r"::$", ":", text.replace("``", "`"))
    return re.sub(r"(?<![\w`])docs/([\w-]+)\.md", r"[\1.md](\1.md)", text)


def parts(doc: str) -> Parts:
    """Split a docstring into its parts."""
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
    """Return a section of prose as one entry without a name."""
    return (Row("", _marks(" ".join(line.strip() for line in lines).strip())),)


def _rows(lines: list[str]) -> tuple[Row, ...]:
    """Split a section into entries: a line with the least indentation begins an entry."""
    rows: list[list[str]] = []
    for line in inspect.cleandoc("\n".join(["", *lines])).split("\n"):
        if line and not line.startswith(" "):
            rows.append([line])
        elif rows:
            rows[-1].append(line.strip())
    result = []
    for row in rows:
        text = " ".join(row).strip()
        match = re.match(r"([*\w., ]+?): (.*)", text, re.DOTALL)
        result.append(Row(match[1], _marks(match[2])) if match else Row("", _marks(text)))
    return tuple(result)
