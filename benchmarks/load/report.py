"""Markdown report of benchmarks.load."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.report import made_of, table

from .measure import COUNTS

BASE = "bare session"


def markdown(run: Mapping[str, Any]) -> str:
    """Format requests per second, with the ratio to the bare session, and latencies."""
    rows = {(row["label"], row["threads"]): row for row in run["rows"]}
    labels = list(dict.fromkeys(label for label, _ in rows))

    def rate(label: str, count: int) -> str:
        value = rows[label, count]["rate"]
        return f"{value:,.0f} ({value / rows[BASE, count]['rate']:.2f})"

    def latency(label: str, count: int) -> str:
        row = rows[label, count]
        return f"{1e3 * row['p50']:.1f} / {1e3 * row['p99']:.1f}"

    parts = [made_of(run), run["machine"] + "."]
    for title, cell in (
        ("Requests per second, and their ratio to those of the bare session:", rate),
        ("Milliseconds of a request, median / 99th percentile:", latency),
    ):
        header = ["candidate", *(f"{count} thread{'s' * (count > 1)}" for count in COUNTS)]
        cells = [[label, *(cell(label, count) for count in COUNTS)] for label in labels]
        parts.append(f"{title}\n\n{table(header, cells)}")
    parts += [f"{label}: {text}" for label, text in run["errors"].items()]
    return "\n\n".join(parts)
