"""The table of benchmarks.autotune, from its records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.measure import geomean
from benchmarks.report import made_of, number, percent, table

from .measure import FIRST

COLUMNS = ("dynamo's graph", "ortable", "autotune")
LIMIT = 1.03  # of what a call costs without us
_USUAL = "ONNX Runtime"

Record = Mapping[str, Any]


def one_line(record: Record) -> str:
    """What is printed when a model is done."""
    if "failed" in record:
        return f"{record['name']}: FAILED, {record['failed']}"
    ratios = ", ".join(f"{name} {value:.2f}" for name, value in record["ratio"].items())
    return f"{record['name']}: ratios to eager: {ratios}; kept: {_kept(record)}"


def markdown(run: Mapping[str, Any]) -> str:
    """The table of a run, with what it means."""
    done = [each for each in run["records"] if "ratio" in each]
    parts = [made_of(run), f"{run['machine']}."]
    parts.append(
        'Latency as ratios to eager. `dynamo\'s graph` is `backend="eager"`: what a call of every '
        "compiled module costs, guards and all. Rows are the models that stay slower than eager, "
        "the mean is of all."
    )
    parts += [_table(done), _summary(done)]
    parts += [
        f"- `{each['name']}`: {each['failed']}" for each in run["records"] if "failed" in each
    ]
    return "\n\n".join(parts)


def _table(records: Sequence[Record]) -> str:
    shown = [each for each in records if each["ratio"]["autotune"] > 1 or _kept(each) != _USUAL]
    head = ["model", "eager, ms", *COLUMNS, "autotune / dynamo's graph", "A/A band"]
    rows = [
        [
            each["name"],
            f"{each['ms']:.3g}",
            *(number(each["ratio"][name], 2) for name in COLUMNS),
            number(each["to_floor"], 3),
            percent(each["band"]),
        ]
        for each in shown
    ]
    means = [number(geomean([each["ratio"][name] for each in records]), 2) for name in COLUMNS]
    floor = number(geomean([each["to_floor"] for each in records]), 3)
    rows.append(["geometric mean", "", *means, floor, ""])
    return table(head, rows)


def _summary(records: Sequence[Record]) -> str:
    """How many models are slower than eager, and than dynamo's graph in eager."""
    slower = [each["name"] for each in records if each["ratio"]["autotune"] > LIMIT]
    above = [each["name"] for each in records if each["to_floor"] > LIMIT]
    told = [
        f"Of {len(records)} models, {_listed(slower)} slower than eager beyond 3 % with autotune"
    ]
    told.append(f"{_listed(above)} beyond 3 % of dynamo's graph in eager.")
    kept = [f"{each['name']}: {_kept(each)}" for each in records if _kept(each) != _USUAL]
    first = geomean([each["first"]["with"] / each["first"]["without"] for each in records])
    return (
        f"{'; '.join(told)} ONNX Runtime is kept, but for {'; '.join(kept) or 'none'}. "
        f"Compilation and {FIRST} calls take {first:.2f} of the time without autotune."
    )


def _listed(names: Sequence[str]) -> str:
    if not names:
        return "none is"
    return f"{len(names)} ({', '.join(names)}) {'is' if len(names) == 1 else 'are'}"


def _kept(record: Record) -> str:
    words = {"onnxruntime": _USUAL, "torch": "torch", "None": "by size"}
    return ", ".join(words.get(each, each) for each in record["kept"]) or "not measured"
