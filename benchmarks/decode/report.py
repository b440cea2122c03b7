"""Markdown report of benchmarks.decode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.report import made_of, number, percent, table


def markdown(run: Mapping[str, Any]) -> str:
    """Format the report of one run: a table for each model and batch."""
    parts = [made_of(run), f"{run['machine']}."]
    for record in run["models"]:
        parts.append(_table_of_files(record) if "kind" in record else _table(record))
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
            number(record["to_base"]["prompt"][name], 2),
            number(token[name], 2),
            number(batch * 1e3 / token[name], 1),
            number(record["to_base"]["token_again"][name], 2),
            number(record["to_float32"].get(name), 2),
        ]
        for name in token
        if name != "eager again"
    ]
    return f"{table(header, rows)}\n\nA/A band of a token: {percent(record['band'])}."


def _table_of_files(record: Mapping[str, Any]) -> str:
    millions, batch = record["parameters"] / 1e6, record["batch"]
    header = [
        f"{record['kind']}, {millions:,.0f} million, {batch} x {record['prompt']} tokens",
        "first token, ms",
        "of ortable",
        "tokens/s",
        "time of a token, of ortable",
        "error of logits",
        "file, MB",
        "peak memory, MB",
    ]
    prompt, token = record["ms"]["prompt"], record["ms"]["token_again"]
    rows = [
        [
            name,
            number(prompt[name], 0),
            number(record["to_base"]["prompt"][name], 2),
            number(batch * 1e3 / token[name], 1),
            number(record["to_base"]["token_again"][name], 2),
            number(record["errors"][name], 6 if record["kind"] == "float32" else 3),
            number(record["bytes"][name] / 1e6, 0),
            number(record["peak_mb"].get(name), 0),
        ]
        for name in token
        if name != "ortable again"
    ]
    return f"{table(header, rows)}\n\nA/A band of a token: {percent(record['band'])}."
