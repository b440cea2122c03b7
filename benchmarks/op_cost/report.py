"""The page of benchmarks.op_cost: which operators cost more than torch's, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.report import made_of, number, table

__all__ = ["MAX_RATIO", "exceeding", "markdown", "shorten"]

MAX_RATIO = 3.0  # of compiled calls
_SLOW, _MIN_LOSS_MS = 2.0, 0.3
_SHOWN = 10.0  # of exported calls, on the page; the record has all
Rows = Mapping[str, Mapping[str, Any]]


def exceeding(rows: Rows, candidate: str, ratio: float = _SLOW) -> dict[str, float]:
    """Return the calls that take more than `ratio` times eager's time and lose over 0.3 ms.

    Args:
        rows: measured rows by name.
        candidate: whose time; gradients are compared with those of eager.
        ratio: the limit.
    """
    base = "training eager" if candidate.startswith("training") else "eager"
    calls = {}
    for name, row in rows.items():
        ms = row.get("ms", {})
        if candidate in ms and base in ms and ms[candidate] - ms[base] > _MIN_LOSS_MS:
            calls[name] = ms[candidate] / ms[base]
    return {name: value for name, value in calls.items() if value > ratio}


def shorten(rows: Rows) -> Rows:
    """Return the rows that a record keeps: calls above twice eager's time, or without figures."""
    slow = {name for candidate in ("session", "ortable") for name in exceeding(rows, candidate)}
    return {name: row for name, row in sorted(rows.items()) if name in slow or not row.get("ms")}


def markdown(run: Mapping[str, Any]) -> str:
    """Write counts per candidate, and a row for each call above 10 exported, or 2 compiled."""
    rows: Rows = run["rows"]
    candidates = list(dict.fromkeys(c for row in rows.values() for c in row.get("ms", ())))
    counts = [
        [
            name,
            *(str(len(exceeding(rows, name, limit))) for limit in (2, 3, 5, 10, 20)),
        ]
        for name in candidates
        if not name.endswith("eager")
    ]
    head = ["", "above 2", "above 3", "above 5", "above 10", "above 20"]
    parts = [
        made_of(run),
        f"{run['machine']}. {run['calls']} calls; the table counts those that lose over "
        f"{_MIN_LOSS_MS} ms, by their time over eager's.",
        table(head, counts),
    ]
    slow = exceeding(rows, "session", _SHOWN) | exceeding(rows, "ortable")
    slow = {name: ratio for name, ratio in slow.items() if name.endswith(" large")}
    shown = [
        [
            f"`{name.split()[0]}`",
            ", ".join(rows[name]["shapes"]),
            *(
                number(rows[name]["ms"].get(c), 2)
                for c in ("eager", "session", "ortable", "inductor")
            ),
            *(number(rows[name]["mb"].get(c), 0) for c in ("eager", "session", "ortable")),
        ]
        for name in sorted(slow, key=lambda name: -slow[name])
    ]
    head = [
        "operator", "arguments", "eager, ms", "exported, ms", "compiled, ms", "inductor, ms",
        "eager, MB", "exported, MB", "compiled, MB",
    ]  # fmt: skip
    return "\n\n".join([*parts, table(head, shown)])
