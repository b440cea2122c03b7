"""The table of benchmarks.decode, in Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.report import made_of, number, percent, table


def markdown(run: Mapping[str, Any]) -> str:
    """The page of one run: a table for each model and number of texts."""
    parts = [made_of(run), f"{run['machine']}."]
    for each in run["models"]:
        parts.append(_table(each))
        parts += [f"- `{name}` failed: {why}" for name, why in each["failed"].items()]
    parts += [f"- `{each['job']}`: {each['failed']}" for each in run["failed"]]
    return "\n\n".join(parts)


def _table(record: Mapping[str, Any]) -> str:
    millions = record["parameters"] / 1e6
    batch = record["batch"]
    head = [
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
    return f"{table(head, rows)}\n\nA/A band of a token: {percent(record['band'])}."
