"""The pictures of docs/performance.md have the figures that the page states."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.plots.draw import IMAGES, draw, drawn
from benchmarks.plots.figures import FIGURES, Figure, load
from benchmarks.report import RESULTS
from tests.packaging.files import ROOT

PAGE = ROOT / "docs" / "performance.md"
# The benchmark whose tables a picture shows.
TOPICS = {
    "inference": "backend", "training": "training", "conversion": "conversion",
    "language-models": "decode",
}  # fmt: skip


def figure(name: str) -> Figure:
    return FIGURES[name](load(RESULTS))


def rows_of(topic: str) -> list[list[str]]:
    """Cells of the tables of a benchmark on the page."""
    text = PAGE.read_text(encoding="utf-8")
    part = text.partition(f"<!-- benchmarks.{topic}: begin -->")[2].partition("<!-- benchmarks.")[0]
    lines = [line for line in part.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@pytest.mark.parametrize("name", FIGURES)
def test_a_picture_has_the_dots_of_the_records(name: str, tmp_path: Path) -> None:
    wanted = {(panel.title, dot) for panel in figure(name).panels for dot in panel.dots}
    path = IMAGES / f"performance-{name}.svg"
    assert drawn(path) == wanted, "draw the pictures anew: make bench TOPIC=plots"
    again = tmp_path / path.name
    draw(figure(name), again)
    assert drawn(again) == wanted
    assert len(places(again)) == len(wanted)
    for key, (x, y) in places(again).items():
        assert places(path)[key] == pytest.approx((x, y), abs=3), "its dots are where they belong"


def places(path: Path) -> dict[str, tuple[float, float]]:
    """Where the dots of a file stand: those of series with equal figures lie on one another."""
    text = path.read_text(encoding="utf-8")
    found = re.findall(
        r'<g id="([^"]*\|[^"]*)">.*?<use [^>]*?x="([\d.]+)" y="([\d.]+)"', text, re.DOTALL
    )
    return {name: (float(x), float(y)) for name, x, y in found}


@pytest.mark.parametrize("name", FIGURES)
def test_the_page_states_each_figure(name: str) -> None:
    topic = TOPICS[name]
    rows = rows_of(topic) + (rows_of("cache") if topic == "decode" else [])
    for panel in figure(name).panels:
        for dot in panel.dots:
            past, _, texts = dot.row.partition(" tokens x ")
            cells = [row for row in rows if row[0] == past and (not texts or row[1] == texts)]
            assert any(dot.text in row[1:] for row in cells), dot


@pytest.mark.parametrize("name", FIGURES)
def test_a_picture_needs_no_page_of_one_brightness(name: str) -> None:
    """No background, and no black or white text."""
    text = (IMAGES / f"performance-{name}.svg").read_text(encoding="utf-8")
    assert not re.search(r"fill: (?:#000000|black|#ffffff|white)(?! *;? *opacity: 0)\b", text)
