"""Markdown report of benchmarks.accuracy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.report import made_of, number, percent, table


def markdown(run: Mapping[str, Any]) -> str:
    """Format the report of one run: a row for each quantizer, the smallest divergence first."""
    parts = [made_of(run), f"{run['machine']}."]
    header = [
        f"{run['parameters'] / 1e6:.1f} million parameters", "bits a weight", "KB", "perplexity",
        "divergence, millinats", "same byte", "seconds",
    ]  # fmt: skip
    records = [record for record in run["models"] if "failed" not in record]
    rows = [
        [
            record["name"],
            number(8 * record["bytes"] / run["parameters"], 2),
            number(record["bytes"] / 1e3, 0),
            number(record["perplexity"], 4),
            number(1e3 * record["kl"], 3),
            percent(record["same"]),
            number(record["seconds"], 1),
        ]
        for record in sorted(records, key=lambda record: record["kl"])
    ]
    parts.append(table(header, rows))
    parts += [
        f"- `{record['name']}` failed: {record['failed']}"
        for record in run["models"]
        if "failed" in record
    ]
    return "\n\n".join(parts)
