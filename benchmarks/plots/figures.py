"""Convert the records of the benchmarks to the figures that `python -m benchmarks.plots` draws.

The value of a dot is the text in the tables of docs/performance.md; a test compares the two.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.report import OUTLIERS
from benchmarks.rivals.measure import OTHERS, OURS, is_exact

Runs = Mapping[str, Any]
ORTABLE = "ortable"


@dataclass(frozen=True)
class Dot:
    """One value of a table: its row, its series, and the text of its cell."""

    row: str
    series: str
    text: str


@dataclass(frozen=True)
class Panel:
    """Dots over one axis; ``one`` adds a line at 1, and ``values`` the text beside each dot."""

    title: str
    axis: str
    dots: tuple[Dot, ...]
    one: bool = False
    values: bool = False

    @property
    def rows(self) -> list[str]:
        return list(dict.fromkeys(dot.row for dot in self.dots))


@dataclass(frozen=True)
class Figure:
    """Panels side by side with the same rows, or ``stacked``, above the name of the machine."""

    panels: tuple[Panel, ...]
    machine: str
    stacked: bool = False


def load(results: Path) -> Runs:
    return {path.stem: json.loads(path.read_text()) for path in sorted(results.glob("*.json"))}


def _dots(rows: Iterable[tuple[str, Mapping[str, float]]], names: Sequence[str]) -> tuple[Dot, ...]:
    """Return dots of ratios with two digits; the row with ortable's smallest ratio is first."""
    sorted_rows = sorted(rows, key=lambda row: row[1][ORTABLE])
    return tuple(
        Dot(row, name, f"{values[name]:.2f}")
        for row, values in sorted_rows
        for name in names
        if name in values
    )


def inference(runs: Runs) -> Figure:
    """Return the figure of call times as ratios to eager."""
    run = runs["backend"]
    rows = [(r["name"], r["ratio"]) for r in run["records"] if "ratio" in r]
    names = ("bare session", "inductor", "inductor, freezing", ORTABLE)
    panel = Panel("", "time of a call / eager's: left of 1 is faster", _dots(rows, names), one=True)
    return Figure((panel,), run["machine"])


def rivals(runs: Runs) -> Figure:
    """Return the figure of call times of ortable and of other engines, as ratios to eager.

    An engine that fails, or whose result is not eager's, has no dot.
    """
    run = runs["rivals"]
    names = (*OTHERS, *(label for label in OURS if label != OURS[1]))
    rows = [
        (r["name"], {label: r["ratio"][label] for label in names if is_exact(r, label)})
        for r in run["records"]
        if r.get("ratio", {}).get(ORTABLE) and is_exact(r, ORTABLE) and r["name"] not in OUTLIERS
    ]
    title = "time of a call / eager's: left of 1 is faster"
    return Figure((Panel("", title, _dots(rows, names), one=True),), run["machine"])


def training(runs: Runs) -> Figure:
    """Return the figure of training step times as ratios to eager, by number of threads."""
    panels = []
    for threads, records in runs["training"]["threads"].items():
        rows = [(r["model"], r["ratio"]) for r in records["models"]]
        dots = _dots(rows, ("inductor", "ortable+autotune+torch_regions", ORTABLE))
        title = f"{threads} thread" + ("s" if threads != "1" else "")
        panels.append(Panel(title, "time of a step / eager's: left of 1 is faster", dots, one=True))
    machines = [records["machine"] for records in runs["training"]["threads"].values()]
    return Figure(tuple(panels), machines[0])


def conversion(runs: Runs) -> Figure:
    """Return the figure of conversion times, without and with weights, and peak memory."""
    run = runs["conversion"]
    records = [r for r in run["records"] if not r["dynamic"] and "median" in r]
    records.sort(key=lambda r: r["median"][f"{ORTABLE}, weights left in torch"])
    digits = {ORTABLE: 3, "torch.onnx": 2}  # as in the tables
    panels = []
    for label in ("weights left in torch", "one ModelProto"):
        dots = tuple(
            Dot(r["name"], name, f"{r['median'][f'{name}, {label}']:.{digits[name]}f}")
            for r in records
            for name in ("torch.onnx", ORTABLE)
            if f"{name}, {label}" in r["median"]
        )
        panels.append(Panel(label, "seconds of a conversion", dots))
    dots = tuple(
        Dot(r["name"], name, f"{r['memory'][name]:.0f}")
        for r in records
        for name in ("torch.onnx", ORTABLE)
        if r.get("memory", {}).get(name, 0) >= 1  # below 1 MB, the measurement shows nothing
    )
    panels.append(Panel("one ModelProto", "MB at the peak", dots))
    return Figure(tuple(panels), run["machine"])


def language_models(runs: Runs) -> Figure:
    """Return the figure of tokens per second, and the sizes of float32 and int8 caches."""
    panels: dict[str, list[Dot]] = {}
    for record in runs["decode"]["models"]:
        millions, batch = record["parameters"] / 1e6, record["batch"]
        batch_label = f"{batch} text" + ("s" if batch != 1 else "")
        dots = panels.setdefault(f"{millions:,.0f} million parameters, {batch_label}", [])
        drawn_rows = {dot.row for dot in dots}  # two processes measured this model
        for name, token in record["ms"]["token_again"].items():
            if name not in drawn_rows and name != "eager again":
                dots.append(Dot(name, name, f"{batch * 1e3 / token:.1f}"))
    result = [Panel(title, "tokens/s", tuple(dots), values=True) for title, dots in panels.items()]
    cache_dots = tuple(
        Dot(f"{step['past']} tokens x {step['batch']}", name, f"{size / 1e6:.0f}")
        for step in runs["cache"]["steps"]
        for name, size in step["bytes"].items()
    )
    result.append(Panel("cache of keys and values", "MB", cache_dots, values=True))
    return Figure(tuple(result), runs["decode"]["machine"], stacked=True)


FIGURES: dict[str, Callable[[Runs], Figure]] = {
    "inference": inference,
    "rivals": rivals,
    "training": training,
    "conversion": conversion,
    "language-models": language_models,
}
