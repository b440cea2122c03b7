"""What the pictures show: in come the records of the benchmarks, out come panels of dots, whose
values are texts as the tables of docs/performance.md state them. Called by `python -m
benchmarks.plots`, which draws them, and by the test that compares them with the page."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Runs = Mapping[str, Any]
OURS = "ortable"


@dataclass(frozen=True)
class Dot:
    """One figure of a table: its row, who it is of, and the text of its cell."""

    row: str
    series: str
    text: str


@dataclass(frozen=True)
class Panel:
    """Dots over one axis. ``one`` draws the line at 1; ``values`` writes the texts beside dots."""

    title: str
    axis: str
    dots: tuple[Dot, ...]
    one: bool = False
    values: bool = False

    @property
    def rows(self) -> list[str]:
        """The rows, in the order of the dots."""
        return list(dict.fromkeys(dot.row for dot in self.dots))


@dataclass(frozen=True)
class Figure:
    """Panels with the same rows beside each other, or ``stacked``; the machine stands below."""

    panels: tuple[Panel, ...]
    machine: str
    stacked: bool = False


def load(results: Path) -> Runs:
    """The records, by benchmark."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(results.glob("*.json"))}


def _dots(rows: Iterable[tuple[str, Mapping[str, float]]], names: Sequence[str]) -> tuple[Dot, ...]:
    """Dots of ratios with two digits, rows with the smallest ratio of ours first."""
    chosen = sorted(rows, key=lambda row: row[1][OURS])
    return tuple(
        Dot(row, name, f"{values[name]:.2f}")
        for row, values in chosen
        for name in names
        if name in values
    )


def inference(runs: Runs) -> Figure:
    """Time of a call as a ratio to eager."""
    run = runs["backend"]
    rows = [(r["name"], r["ratio"]) for r in run["records"] if "ratio" in r]
    names = ("bare session", "inductor", "inductor, freezing", OURS)
    panel = Panel("", "time of a call / eager's: left of 1 is faster", _dots(rows, names), one=True)
    return Figure((panel,), run["machine"])


def training(runs: Runs) -> Figure:
    """Time of a step as a ratio to eager, by number of threads."""
    panels = []
    for threads, records in runs["training"]["threads"].items():
        rows = [(r["model"], r["ratio"]) for r in records["models"]]
        dots = _dots(rows, ("inductor", "ortable+autotune", OURS))
        title = f"{threads} thread" + ("s" if threads != "1" else "")
        panels.append(Panel(title, "time of a step / eager's: left of 1 is faster", dots, one=True))
    machines = [records["machine"] for records in runs["training"]["threads"].values()]
    return Figure(tuple(panels), machines[0])


def conversion(runs: Runs) -> Figure:
    """Seconds of a conversion, weights left in torch or in one ModelProto, and its memory."""
    run = runs["conversion"]
    records = [r for r in run["records"] if not r["dynamic"] and "median" in r]
    records.sort(key=lambda r: r["median"][f"{OURS}, weights left in torch"])
    digits = {OURS: 3, "torch.onnx": 2}  # as the tables have them
    panels = []
    for label in ("weights left in torch", "one ModelProto"):
        dots = tuple(
            Dot(r["name"], name, f"{r['median'][f'{name}, {label}']:.{digits[name]}f}")
            for r in records
            for name in ("torch.onnx", OURS)
            if f"{name}, {label}" in r["median"]
        )
        panels.append(Panel(label, "seconds of a conversion", dots))
    dots = tuple(
        Dot(r["name"], name, f"{r['memory'][name]:.0f}")
        for r in records
        for name in ("torch.onnx", OURS)
        if r.get("memory", {}).get(name, 0) >= 1  # of the smallest nothing was measured
    )
    panels.append(Panel("one ModelProto", "MB at the peak", dots))
    return Figure(tuple(panels), run["machine"])


def language_models(runs: Runs) -> Figure:
    """Tokens in a second, and what a cache of 8 bits takes."""
    panels: dict[str, list[Dot]] = {}
    for record in runs["decode"]["models"]:
        millions, batch = record["parameters"] / 1e6, record["batch"]
        texts = f"{batch} text" + ("s" if batch != 1 else "")
        dots = panels.setdefault(f"{millions:,.0f} million parameters, {texts}", [])
        known = {dot.row for dot in dots}  # a model that two processes measured
        for name, token in record["ms"]["token_again"].items():
            if name not in known and name != "eager again":
                dots.append(Dot(name, name, f"{batch * 1e3 / token:.1f}"))
    made = [Panel(title, "tokens/s", tuple(dots), values=True) for title, dots in panels.items()]
    cache = tuple(
        Dot(f"{each['past']} tokens x {each['batch']}", name, f"{size / 1e6:.0f}")
        for each in runs["cache"]["steps"]
        for name, size in each["bytes"].items()
    )
    made.append(Panel("cache of keys and values", "MB", cache, values=True))
    return Figure(tuple(made), runs["decode"]["machine"], stacked=True)


FIGURES: dict[str, Callable[[Runs], Figure]] = {
    "inference": inference,
    "training": training,
    "conversion": conversion,
    "language-models": language_models,
}
