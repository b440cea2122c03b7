"""Markdown report of benchmarks.cuda."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.report import made_of, number, percent, table

_TITLES = {
    "inference": "Inference under `torch.no_grad()`, weights in the dtype of the row",
    "training": "Training steps, forward and backward without the optimizer",
}


def markdown(record: Mapping[str, Any]) -> str:
    """Format the page of a record: tables of inference and of training for each run."""
    return "\n\n".join(part for run in record["runs"] for part in _format_run(run))


def _format_run(run: Mapping[str, Any]) -> list[str]:
    parts = [made_of(run), f"{run['machine']}."]
    for kind, title in _TITLES.items():
        records = [record for record in run[kind] if "ms" in record]
        if records:
            parts += [f"{title}: milliseconds of eager, and ratios to it.", _table(records)]
        parts += [
            f"- `{record['model']}`, {record['dtype']}, {candidate}: {error}"
            for record in run[kind]
            for candidate, error in record["failed"].items()
        ]
    return parts


def _table(records: Sequence[Mapping[str, Any]]) -> str:
    compilers = list(dict.fromkeys(name for record in records for name in record["ratio"]))
    first = [f"{name}, first call, s" for name in compilers]
    rows = [
        [
            record["model"],
            record["dtype"],
            str(record["batch"]),
            number(record["ms"]["eager"], 2),
            *(number(record["ratio"].get(name), 2) for name in compilers),
            percent(record["band"]),
            *(number(record["first_seconds"].get(name), 1) for name in compilers),
        ]
        for record in records
    ]
    return table(["model", "dtype", "batch", "eager, ms", *compilers, "A/A band", *first], rows)
