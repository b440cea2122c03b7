"""Markdown report of benchmarks.cache."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.report import made_of, number, percent, table

_HEAD = (
    "tokens before", "texts", "float32, ms", "int8, ms", "int8 of float32", "cache of float32, MB",
    "of int8, MB", "band",
)  # fmt: skip


def markdown(run: Mapping[str, Any]) -> str:
    rows = [
        (
            str(step["past"]), str(step["batch"]), number(step["ms"]["float32"], 2),
            number(step["ms"]["int8"], 2), number(step["ratio"], 2),
            number(step["bytes"]["float32"] / 1e6, 0), number(step["bytes"]["int8"] / 1e6, 0),
            percent(step["band"]),
        )
        for step in run["steps"]
    ]  # fmt: skip
    return "\n\n".join([made_of(run), f"{run['machine']}.", table(_HEAD, rows)])
