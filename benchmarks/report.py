"""Markdown that the reports of all topics share: tables, cells, and the part of a page that belongs
to a benchmark. Records in, text out; the `report` modules of the topics call it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent / "results"  # where whole runs leave their records


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def number(value: float | None, digits: int) -> str:
    """A cell; `-` for nothing."""
    return "-" if value is None else f"{value:.{digits}f}"


def made_of(run: Mapping[str, Any]) -> str:
    """The commit, the day and the versions that records were made with, in one line."""
    versions = ", ".join(f"{name} {version}" for name, version in run["versions"].items())
    return f"Commit {run['commit']}, {run['date']}: {versions}."


def percent(value: float) -> str:
    """A share of 1, as a cell."""
    return f"{100 * value:.1f} %"


def insert(page: Path, text: str, package: str) -> None:
    """Replaces what stands between the two marks of a package in a page.

    :raises ValueError: the page has no such marks
    """
    first, last = f"<!-- {package}: begin -->", f"<!-- {package}: end -->"
    before, begin, rest = page.read_text().partition(first)
    _, end, after = rest.partition(last)
    if not begin or not end:
        raise ValueError(f"{page} has no part between {first} and {last}")
    page.write_text(f"{before}{first}\n\n{text}\n\n{last}{after}")


def save(path: Path, records: Any) -> None:
    """Writes records as JSON, in a folder that is made if need be."""
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
    """What a run of a topic ends with: its tables are printed, its records saved and its part of a
    page replaced, where a path of these is given. `details` are printed alone."""
    print(f"\n{text}\n\n{details}".rstrip())
    if path is not None:
        save(path, run)
    if page is not None:
        insert(page, text, package)
