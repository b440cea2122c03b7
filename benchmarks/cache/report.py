"""The table of benchmarks.cache, in Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.report import made_of, number, percent, table

_HEAD = (
    "tokens before", "texts", "float32, ms", "int8, ms", "int8 of float32", "cache of float32, MB",
    "of int8, MB", "band",
)  # fmt: skip


def markdown(run: Mapping[str, Any]) -> str:
    """The page of one run."""
    rows = [
        (
            str(each["past"]), str(each["batch"]), number(each["ms"]["float32"], 2),
            number(each["ms"]["int8"], 2), number(each["ratio"], 2),
            number(each["bytes"]["float32"] / 1e6, 0), number(each["bytes"]["int8"] / 1e6, 0),
            percent(each["band"]),
        )
        for each in run["steps"]
    ]  # fmt: skip
    return "\n\n".join([made_of(run), f"{run['machine']}.", table(_HEAD, rows)])
