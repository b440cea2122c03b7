"""Markdown report of benchmarks.autotune."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.measure import geomean
from benchmarks.report import made_of, number, percent, table

from .measure import FIRST

COLUMNS = ("dynamo's graph", "ortable", "autotune")
LIMIT = 1.03  # of the time of a call without ortable
_DEFAULT = "ONNX Runtime"

Record = Mapping[str, Any]


def one_line(record: Record) -> str:
    """Format the progress line of a measured model."""
    if "failed" in record:
        return f"{record['name']}: FAILED, {record['failed']}"
    ratios = ", ".join(f"{name} {value:.2f}" for name, value in record["ratio"].items())
    return f"{record['name']}: ratios to eager: {ratios}; kept: {_choice(record)}"


def markdown(run: Mapping[str, Any]) -> str:
    """Format the page of a run: its table, with explanations."""
    measured = [r for r in run["records"] if "ratio" in r]
    parts = [made_of(run), f"{run['machine']}."]
    parts.append(
        'Latency as ratios to eager. `dynamo\'s graph` is `backend="eager"`: what a call of every '
        "compiled module costs, guards and all. Rows are the models that stay slower than eager, "
        "the mean is of all."
    )
    parts += [_table(measured), _summary(measured)]
    parts += [f"- `{r['name']}`: {r['failed']}" for r in run["records"] if "failed" in r]
    return "\n\n".join(parts)


def _table(records: Sequence[Record]) -> str:
    selected = [r for r in records if r["ratio"]["autotune"] > 1 or _choice(r) != _DEFAULT]
    header = ["model", "eager, ms", *COLUMNS, "autotune / dynamo's graph", "A/A band"]
    rows = [
        [
            r["name"],
            f"{r['ms']:.3g}",
            *(number(r["ratio"][name], 2) for name in COLUMNS),
            number(r["to_floor"], 3),
            percent(r["band"]),
        ]
        for r in selected
    ]
    means = [number(geomean([r["ratio"][name] for r in records]), 2) for name in COLUMNS]
    floor = number(geomean([r["to_floor"] for r in records]), 3)
    rows.append(["geometric mean", "", *means, floor, ""])
    return table(header, rows)


def _summary(records: Sequence[Record]) -> str:
    """Name the models that are slower than eager, and than dynamo's graph in eager."""
    slower = [r["name"] for r in records if r["ratio"]["autotune"] > LIMIT]
    above = [r["name"] for r in records if r["to_floor"] > LIMIT]
    sentences = [
        f"Of {len(records)} models, {_describe(slower)} slower than eager beyond 3 % with autotune"
    ]
    sentences.append(f"{_describe(above)} beyond 3 % of dynamo's graph in eager.")
    exceptions = [f"{r['name']}: {_choice(r)}" for r in records if _choice(r) != _DEFAULT]
    first = geomean([r["first"]["with"] / r["first"]["without"] for r in records])
    return (
        f"{'; '.join(sentences)} ONNX Runtime is kept, but for {'; '.join(exceptions) or 'none'}. "
        f"Compilation and {FIRST} calls take {first:.2f} of the time without autotune."
    )


def _describe(names: Sequence[str]) -> str:
    if not names:
        return "none is"
    return f"{len(names)} ({', '.join(names)}) {'is' if len(names) == 1 else 'are'}"


def _choice(record: Record) -> str:
    labels = {"onnxruntime": _DEFAULT, "torch": "torch", "None": "by size"}
    return ", ".join(labels.get(choice, choice) for choice in record["kept"]) or "not measured"
