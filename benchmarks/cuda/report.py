"""What benchmarks.cuda prints: tables of its records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.report import made_of, number, percent, table

_TITLES = {
    "inference": "Inference under `torch.no_grad()`, weights in the dtype of the row",
    "training": "Training steps, forward and backward without the optimizer",
}


def markdown(record: Mapping[str, Any]) -> str:
    """The page of a record: for each of its runs a table of inference and one of training."""
    return "\n\n".join(part for run in record["runs"] for part in _parts(run))


def _parts(run: Mapping[str, Any]) -> list[str]:
    parts = [made_of(run), f"{run['machine']}."]
    for kind, title in _TITLES.items():
        records = [each for each in run[kind] if "ms" in each]
        if records:
            parts += [f"{title}: milliseconds of eager, and ratios to it.", _table(records)]
        parts += [
            f"- `{each['model']}`, {each['dtype']}, {who}: {why}"
            for each in run[kind]
            for who, why in each["failed"].items()
        ]
    return parts


def _table(records: Sequence[Mapping[str, Any]]) -> str:
    compilers = list(dict.fromkeys(name for each in records for name in each["ratio"]))
    first = [f"{name}, first call, s" for name in compilers]
    rows = [
        [
            each["model"],
            each["dtype"],
            str(each["batch"]),
            number(each["ms"]["eager"], 2),
            *(number(each["ratio"].get(name), 2) for name in compilers),
            percent(each["band"]),
            *(number(each["first_seconds"].get(name), 1) for name in compilers),
        ]
        for each in records
    ]
    return table(["model", "dtype", "batch", "eager, ms", *compilers, "A/A band", *first], rows)
