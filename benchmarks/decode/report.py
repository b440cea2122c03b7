"""Markdown report of benchmarks.decode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.report import made_of, number, percent, table


def markdown(run: Mapping[str, Any]) -> str:
    """Format the report of one run: a table for each model and batch."""
    parts = [made_of(run), f"{run['machine']}."]
    for record in run["models"]:
        parts.append(_table(record))
        parts += [f"- `{name}` failed: {error}" for name, error in record["failed"].items()]
    parts += [f"- `{record['job']}`: {record['failed']}" for record in run["failed"]]
    return "\n\n".join(parts)


def _table(record: Mapping[str, Any]) -> str:
    millions = record["parameters"] / 1e6
    batch = record["batch"]
    header = [
        f"{millions:,.0f} million parameters, {batch} x {record['prompt']} tokens",
        "first token, ms",
        "of eager",
        "a token, ms",
        "tokens/s",
        "of eager",
        "of ortable float32",
    ]
    prompt, token = record["ms"]["prompt"], record["ms"]["token_again"]
    rows = [
        [
            name,
            number(prompt[name], 1),
            number(record["to_eager"]["prompt"][name], 2),
            number(token[name], 2),
            number(batch * 1e3 / token[name], 1),
            number(record["to_eager"]["token_again"][name], 2),
            number(record["to_float32"].get(name), 2),
        ]
        for name in token
        if name != "eager again"
    ]
    return f"{table(header, rows)}\n\nA/A band of a token: {percent(record['band'])}."
