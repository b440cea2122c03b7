"""Markdown report of benchmarks.op_cost: operators slower than torch's, with reasons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from benchmarks.report import made_of, number, table

from .placement import TABLE

MAX_RATIO = 3.0  # of compiled calls, in time and in memory
_MIN_RATIO, _MIN_LOSS_MS, _MIN_LOSS_MB = 2.0, 0.3, 100
_MIN_EXPORTED_RATIO = 100.0  # of exported calls on the page; the record has all
_MIN_MS = 0.1  # faster calls are views and the like
Rows = Mapping[str, Mapping[str, Any]]


def exceeding(rows: Rows, candidate: str, ratio: float = _MIN_RATIO) -> dict[str, float]:
    """Return the calls that take more than `ratio` times eager's time and lose over 0.3 ms.

    Args:
        rows: measured rows by name.
        candidate: the measured candidate; gradients are compared with those of eager.
        ratio: the ratio above which a call is returned.
    """
    base = "training eager" if candidate.startswith("training") else "eager"
    calls = {}
    for name, row in rows.items():
        ms = row.get("ms", {})
        if candidate in ms and base in ms and ms[candidate] - ms[base] > _MIN_LOSS_MS:
            calls[name] = ms[candidate] / ms[base]
    return {name: value for name, value in calls.items() if value > ratio}


def exceeding_memory(rows: Rows, candidate: str, ratio: float = MAX_RATIO) -> dict[str, float]:
    """Return calls whose first run takes over `ratio` times eager's memory, and 100 MB more."""
    calls = {}
    for name, row in rows.items():
        mb = row.get("mb", {})
        if candidate in mb and mb[candidate] - mb["eager"] > _MIN_LOSS_MB:
            calls[name] = mb[candidate] / max(mb["eager"], 1)
    return {name: value for name, value in calls.items() if value > ratio}


def read_reasons() -> dict[str, str]:
    """Read the reasons of costly calls, by `aten::operator dtype`."""
    rows = yaml.safe_load(TABLE.read_text())
    return {f"{row['op']} {row['dtype']}": row["why"] for row in rows if "from" not in row}


def shorten(rows: Rows) -> Rows:
    """Return the rows to record: calls above twice eager's time, or without figures."""
    candidates = ("session", "ortable", "training ortable")
    slow = {name for candidate in candidates for name in exceeding(rows, candidate)}
    return {name: row for name, row in sorted(rows.items()) if name in slow or not row.get("ms")}


def _format_label(candidate: str, rows: Rows) -> str:
    """Format a candidate, with the number of its calls if few were measured."""
    measured = sum(candidate in row.get("ms", {}) for row in rows.values())
    return candidate if measured > len(rows) / 4 else f"{candidate} (of {measured})"


def markdown(run: Mapping[str, Any]) -> str:
    """Format counts, and the worst call of each operator above 100 exported, or 2 compiled."""
    rows: Rows = run["rows"]
    candidates = list(dict.fromkeys(c for row in rows.values() for c in row.get("ms", ())))
    counts = [
        [
            _format_label(name, rows),
            *(str(len(exceeding(rows, name, limit))) for limit in (2, 3, 5, 10, 20)),
        ]
        for name in candidates
        if not name.endswith("eager")
    ]
    header = ["", "above 2", "above 3", "above 5", "above 10", "above 20"]
    parts = [
        made_of(run),
        f"{run['machine']}. {run['calls']} calls; the table counts those that lose over "
        f"{_MIN_LOSS_MS} ms, by their time over eager's.",
        table(header, counts),
    ]
    slow = exceeding(rows, "session", _MIN_EXPORTED_RATIO)
    slow = {name: ratio for name, ratio in slow.items() if rows[name]["ms"]["eager"] > _MIN_MS}
    slow |= exceeding(rows, "ortable")
    slow = {name: ratio for name, ratio in slow.items() if name.endswith(" large")}
    worst: dict[str, str] = {}  # the slowest call of each operator
    for name in sorted(slow, key=lambda name: -slow[name]):
        worst.setdefault(name.split()[0], name)
    reasons = read_reasons()
    table_rows = [
        [
            f"`{name.split()[0]}`",
            ", ".join(rows[name]["shapes"]),
            *(number(rows[name]["ms"].get(c), 2) for c in ("eager", "session", "ortable")),
            *(number(rows[name]["mb"].get(c), 0) for c in ("eager", "session", "ortable")),
            reasons.get(name.rpartition(" ")[0], ""),
        ]
        for name in worst.values()
    ]
    header = [
        "operator", "arguments", "eager, ms", "exported, ms", "compiled, ms",
        "eager, MB", "exported, MB", "compiled, MB", "why it is so",
    ]  # fmt: skip
    return "\n\n".join([*parts, table(header, table_rows)])
