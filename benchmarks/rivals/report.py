"""Markdown report of benchmarks.rivals; rows where another engine is faster come first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.measure import geomean
from benchmarks.report import OUTLIERS, made_of, number, percent, table

from .measure import OTHERS, OURS, is_exact


def lead(record: Mapping[str, Any]) -> float | None:
    """Return the time of our fastest form relative to the fastest other engine that is exact.

    Return None if one side has no exact result.
    """
    ours, others = (
        [record["ratio"][label] for label in labels if is_exact(record, label)]
        for labels in (OURS, OTHERS)
    )
    return float(min(ours) / min(others)) if ours and others else None


def _cell(record: Mapping[str, Any], label: str) -> str:
    if label in record["errors"]:
        return "fails"
    if not is_exact(record, label):
        return f"wrong by {record['difference'][label]:.0e}"
    return f"{record['ratio'][label]:.2f}"


def markdown(run: Mapping[str, Any]) -> str:
    """Format the table of ratios to eager, with the means, and the reasons of failures."""
    records: Sequence[Mapping[str, Any]] = [r for r in run["records"] if "failed" not in r]
    labels = (*OURS, *OTHERS)
    rows = [
        [
            record["name"], f"{1e3 * record['seconds']['eager']:.3g}",
            *(_cell(record, label) for label in labels),
            number(lead(record), 2), "-" if record["band"] is None else percent(record["band"]),
        ]
        for record in sorted(records, key=lambda record: -(lead(record) or 0))
    ]  # fmt: skip
    counted = [record for record in records if record["name"] not in OUTLIERS]
    means = [
        geomean([r["ratio"][label] for r in counted if is_exact(r, label)]) for label in labels
    ]
    title = f"geometric mean without {', '.join(OUTLIERS)}"
    leads = [value for value in map(lead, counted) if value is not None]
    mean_lead = f"{geomean(leads):.2f}"
    rows.append([title, "", *(f"{mean:.2f}" for mean in means), mean_lead, ""])
    header = ["model", "eager, ms", *labels, "our fastest / fastest other", "A/A band"]
    failures = [
        f"- {record['name']}, {label}: {text[:160]}"
        for record in records
        for label, text in record["errors"].items()
    ]
    failures += [f"- {r['name']}: {r['failed']}" for r in run["records"] if "failed" in r]
    parts = [made_of(run), run["machine"] + ".", table(header, rows)]
    return "\n\n".join([*parts, *(["Failures:\n\n" + "\n".join(failures)] if failures else [])])
