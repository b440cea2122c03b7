"""Draw figures as SVG files; the id of each dot names its panel, row, series and value.

Colours are of medium brightness on a transparent background, for light and dark pages.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from .figures import Dot, Figure, Panel

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"
INK, GRID = "#7d838c", "#8b919a40"
# Colour and marker of each series; ortable's are the most prominent.
STYLES: dict[str, tuple[str, str]] = {
    "ortable": ("#1f8fe0", "o"),
    "ortable+autotune+torch_regions": ("#1f8fe0", "d"),
    "ortable, bare session": ("#1f8fe0", "v"),
    "ortable int8": ("#1f8fe0", "s"),
    "ortable int4": ("#1f8fe0", "^"),
    "inductor": ("#e07b1f", "x"),
    "inductor, freezing": ("#c9922a", "+"),
    "bare session": ("#3aa655", "v"),
    "torch.onnx": ("#b45fd0", "v"),
    "openvino": ("#3aa655", "D"),
    "OpenVINO": ("#3aa655", "D"),
    "ExecuTorch": ("#b45fd0", "^"),
    "AOTInductor, freezing": ("#e07b1f", "x"),
    "eager": ("#7d838c", "o"),
    "float32": ("#7d838c", "o"),
    "int8": ("#1f8fe0", "s"),
}
ROW, WIDTH = 0.21, 8.6  # inches


def draw(figure: Figure, path: Path) -> None:
    """Write a figure to a file; equal figures give equal files."""
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
    panels_height = sum(rows) * ROW + 0.62 * len(rows) if figure.stacked else max(rows) * ROW + 0.6
    canvas = Canvas(figsize=(WIDTH, panels_height + 0.65), layout="constrained")
    FigureCanvasSVG(canvas)
    heights = rows if figure.stacked else [1]
    axes = canvas.subplots(*shape, squeeze=False, gridspec_kw={"height_ratios": heights}).flat
    all_rows = list(dict.fromkeys(row for panel in panels for row in panel.rows))
    for number, (plot, panel) in enumerate(zip(axes, panels, strict=True)):
        labelled = figure.stacked or number == 0
        _draw_panel(plot, panel, panel.rows if figure.stacked else all_rows, labelled=labelled)
    series = dict.fromkeys(dot.series for panel in panels for dot in panel.dots)
    if not all(dot.row == dot.series for dot in panels[0].dots):
        handles = [_draw_marker(axes[0], [], [], name) for name in series]
        canvas.legend(
            handles, list(series), loc="outside upper center", ncols=len(series), frameon=False
        )
    canvas.supxlabel(figure.machine, fontsize=7, color=INK)
    canvas.savefig(path, metadata={"Date": None, "Creator": None}, transparent=True)
    text = path.read_text(encoding="utf-8")
    path.write_text("\n".join(line.rstrip() for line in text.splitlines()) + "\n", encoding="utf-8")


def _draw_marker(axes: Any, x: Any, y: Any, series: str) -> Any:
    colour, marker = STYLES[series]
    size = 42 if series.startswith("ortable") else 26
    return axes.scatter(x, y, s=size, c=colour, marker=marker, linewidths=1.4, zorder=3)


def _draw_panel(axes: Any, panel: Panel, rows: list[str], labelled: bool) -> None:
    """Draw one panel: rows from the top, with a line through the dots of each row."""
    positions = {row: -number for number, row in enumerate(rows)}
    for row in panel.rows:
        dots = sorted((dot for dot in panel.dots if dot.row == row), key=lambda d: float(d.text))
        ends_x, y = [float(dots[0].text), float(dots[-1].text)], positions[row]
        axes.plot(ends_x, [y, y], color=GRID, linewidth=2, zorder=1)
        for dot in dots:
            marker = _draw_marker(axes, [float(dot.text)], [y], dot.series)
            marker.set_gid(f"{panel.title}|{dot.row}|{dot.series}|{dot.text}")
            if panel.values:
                text = dot.text if len(dots) == 1 else f"{dot.series}: {dot.text}"
                _write_value(axes, text, float(dot.text), y, left=dot is not dots[-1])
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    _set_ticks(axes, [float(dot.text) for dot in panel.dots], 0.15 if panel.values else 0.08)
    axes.set_yticks(list(positions.values()), rows if labelled else [""] * len(rows))
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(-len(positions) + 0.4, 0.6)
    axes.set_xlabel(panel.axis)
    axes.set_title(panel.title)
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    for side in ("left", "right", "top"):
        axes.spines[side].set_visible(False)
    if panel.one:
        axes.axvline(1, color=INK, linewidth=1.2, zorder=2)


def _write_value(axes: Any, text: str, x: float, y: float, *, left: bool) -> None:
    offset, alignment = (-7, "right") if left else (7, "left")
    axes.annotate(
        text, (x, y), (offset, 0), textcoords="offset points", va="center", ha=alignment, fontsize=8
    )


def _set_ticks(axes: Any, values: list[float], margin: float) -> None:
    """Set the limits, with a margin at both ends, and ticks that do not overlap."""
    span = max(values) / min(values)
    low, high = min(values) / span**margin, max(values) * span**margin
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
    """Return the dots in a file, with the titles of their panels."""
    dots = set()
    for element in ElementTree.parse(path).iter():
        if re.fullmatch(r"[^|]*(\|[^|]+){3}", name := element.get("id", "")):
            title, row, series, text = name.split("|")
            dots.add((title, Dot(row, series, text)))
    return dots
