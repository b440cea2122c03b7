"""Tables as text and as Markdown. In come rows of texts, out goes one text. Called by report.py
and validate.py."""

from __future__ import annotations

from collections.abc import Sequence


def text_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns padded to their widest cell, heads first."""
    lines = [heads, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def markdown_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The same as a Markdown table; a bar inside a cell is escaped."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in line) + " |"
        for line in lines
    )
