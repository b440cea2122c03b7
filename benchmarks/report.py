"""Markdown helpers of all reports: tables, cells, and the marked part of a page."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

OUTLIERS = ("dlrm", "tiny_mlp")  # one of these models would dominate a mean
RESULTS = Path(__file__).resolve().parent / "results"  # records of complete runs


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(header)} |", "|" + "---|" * len(header)]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def number(value: float | None, digits: int) -> str:
    """Format a number as a cell; None becomes `-`."""
    return "-" if value is None else f"{value:.{digits}f}"


def made_of(run: Mapping[str, Any]) -> str:
    """Format the commit, the date and the package versions of a run as one line."""
    versions = ", ".join(f"{name} {version}" for name, version in run["versions"].items())
    return f"Commit {run['commit']}, {run['date']}: {versions}."


def percent(value: float) -> str:
    """Format a fraction as a percentage."""
    return f"{100 * value:.1f} %"


def insert(page: Path, text: str, package: str) -> None:
    """Replace the text between the two marks of a package in a page.

    Raises:
        ValueError: the page has no such marks.
    """
    begin_mark, end_mark = f"<!-- {package}: begin -->", f"<!-- {package}: end -->"
    before, begin, tail = page.read_text().partition(begin_mark)
    _, end, after = tail.partition(end_mark)
    if not begin or not end:
        raise ValueError(f"{page} has no part between {begin_mark} and {end_mark}")
    page.write_text(f"{before}{begin_mark}\n\n{text}\n\n{end_mark}{after}")


def save(path: Path, records: Any) -> None:
    """Write records as JSON, and create the folder if it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(records, indent=1) + "\n")


def publish(
    run: Any,
    text: str,
    package: str,
    path: Path | None = None,
    page: Path | None = None,
    details: str = "",
) -> None:
    """Print the tables of a run and `details`; save records to `path` and tables to `page`."""
    print(f"\n{text}\n\n{details}".rstrip())
    if path is not None:
        save(path, run)
    if page is not None:
        insert(page, text, package)
