"""Draws figures as SVG: in comes a Figure, out goes a file whose dots have ids that say what they
are. Colours and texts are of middle brightness on no background, so that a page may be light or
dark. Called by `python -m benchmarks.plots`."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from .figures import Dot, Figure, Panel

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"
INK, GRID = "#7d838c", "#8b919a40"
# Colour and marker of a series: they differ in both, and ours stands out.
STYLES: dict[str, tuple[str, str]] = {
    "ortable": ("#1f8fe0", "o"),
    "ortable+autotune": ("#1f8fe0", "d"),
    "ortable int8": ("#1f8fe0", "s"),
    "ortable int4": ("#1f8fe0", "^"),
    "inductor": ("#e07b1f", "x"),
    "inductor, freezing": ("#c9922a", "+"),
    "bare session": ("#3aa655", "v"),
    "torch.onnx": ("#b45fd0", "v"),
    "openvino": ("#3aa655", "D"),
    "eager": ("#7d838c", "o"),
    "float32": ("#7d838c", "o"),
    "int8": ("#1f8fe0", "s"),
}
ROW, WIDTH = 0.21, 8.6  # inches


def draw(figure: Figure, path: Path) -> None:
    """Writes a figure; the same one gives the same file."""
    import matplotlib

    settings = {
        "svg.hashsalt": "ortable", "svg.fonttype": "none", "font.size": 9,
        "font.family": "sans-serif", "text.color": INK, "axes.labelcolor": INK,
        "axes.edgecolor": INK, "xtick.color": INK, "ytick.color": INK, "axes.titlesize": 9,
    }  # fmt: skip
    with matplotlib.rc_context(settings):
        _draw(figure, path)


def _draw(figure: Figure, path: Path) -> None:
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure as Canvas

    panels = figure.panels
    rows = [len(panel.rows) for panel in panels]
    shape = (len(panels), 1) if figure.stacked else (1, len(panels))
    inside = sum(rows) * ROW + 0.62 * len(rows) if figure.stacked else max(rows) * ROW + 0.6
    canvas = Canvas(figsize=(WIDTH, inside + 0.65), layout="constrained")
    FigureCanvasSVG(canvas)
    heights = rows if figure.stacked else [1]
    axes = canvas.subplots(*shape, squeeze=False, gridspec_kw={"height_ratios": heights}).flat
    shared = list(dict.fromkeys(row for panel in panels for row in panel.rows))
    for number, (place, panel) in enumerate(zip(axes, panels, strict=True)):
        alone = figure.stacked or number == 0
        _panel(place, panel, panel.rows if figure.stacked else shared, labelled=alone)
    seen = dict.fromkeys(dot.series for panel in panels for dot in panel.dots)
    if not all(dot.row == dot.series for dot in panels[0].dots):
        handles = [_mark(axes[0], [], [], name) for name in seen]
        canvas.legend(
            handles, list(seen), loc="outside upper center", ncols=len(seen), frameon=False
        )
    canvas.supxlabel(figure.machine, fontsize=7, color=INK)
    canvas.savefig(path, metadata={"Date": None, "Creator": None}, transparent=True)
    text = path.read_text(encoding="utf-8")
    path.write_text("\n".join(line.rstrip() for line in text.splitlines()) + "\n", encoding="utf-8")


def _mark(axes: Any, x: Any, y: Any, series: str) -> Any:
    colour, marker = STYLES[series]
    size = 42 if series.startswith("ortable") else 26
    return axes.scatter(x, y, s=size, c=colour, marker=marker, linewidths=1.4, zorder=3)


def _panel(axes: Any, panel: Panel, rows: list[str], labelled: bool) -> None:
    """One panel: rows from the top, a line through the dots of each."""
    places = {row: -number for number, row in enumerate(rows)}
    for row in panel.rows:
        found = sorted((dot for dot in panel.dots if dot.row == row), key=lambda d: float(d.text))
        ends, y = [float(found[0].text), float(found[-1].text)], places[row]
        axes.plot(ends, [y, y], color=GRID, linewidth=2, zorder=1)
        for dot in found:
            mark = _mark(axes, [float(dot.text)], [y], dot.series)
            mark.set_gid(f"{panel.title}|{dot.row}|{dot.series}|{dot.text}")
            if panel.values:
                text = dot.text if len(found) == 1 else f"{dot.series}: {dot.text}"
                _beside(axes, text, float(dot.text), y, left=dot is not found[-1])
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    _ticks(axes, [float(dot.text) for dot in panel.dots], 0.15 if panel.values else 0.08)
    axes.set_yticks(list(places.values()), rows if labelled else [""] * len(rows))
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(-len(places) + 0.4, 0.6)
    axes.set_xlabel(panel.axis)
    axes.set_title(panel.title)
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    for side in ("left", "right", "top"):
        axes.spines[side].set_visible(False)
    if panel.one:
        axes.axvline(1, color=INK, linewidth=1.2, zorder=2)


def _beside(axes: Any, text: str, x: float, y: float, *, left: bool) -> None:
    where, side = (-7, "right") if left else (7, "left")
    axes.annotate(
        text, (x, y), (where, 0), textcoords="offset points", va="center", ha=side, fontsize=8
    )


def _ticks(axes: Any, values: list[float], room: float) -> None:
    """Room at both ends, and ticks as close as they may stand."""
    span = max(values) / min(values)
    low, high = min(values) / span**room, max(values) * span**room
    axes.set_xlim(low, high)
    if span < 3:
        ticks = [number / 10 for number in range(math.ceil(10 * low), math.floor(10 * high) + 1)]
    else:
        first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
        steps = (1, 2, 5) if span < 300 else (1,)
        ticks = [step * 10.0**e for e in range(first, last + 1) for step in steps]
    axes.set_xticks([tick for tick in ticks if low <= tick <= high])
    axes.minorticks_off()


def drawn(path: Path) -> set[tuple[str, Dot]]:
    """The dots that a file has, with the titles of their panels."""
    found = set()
    for element in ElementTree.parse(path).iter():
        if re.fullmatch(r"[^|]*(\|[^|]+){3}", name := element.get("id", "")):
            title, row, series, text = name.split("|")
            found.add((title, Dot(row, series, text)))
    return found
