"""The plots of docs/performance.md show the same values as its tables."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.plots.draw import IMAGES, draw, drawn
from benchmarks.plots.figures import FIGURES, Figure, load
from benchmarks.report import RESULTS
from tests.packaging.files import ROOT

PAGE = ROOT / "docs" / "performance.md"
# The benchmark whose results a plot shows.
TOPICS = {
    "inference": "backend", "rivals": "rivals", "training": "training", "conversion": "conversion",
    "language-models": "decode",
}  # fmt: skip


def make_figure(name: str) -> Figure:
    return FIGURES[name](load(RESULTS))


def read_rows(topic: str) -> list[list[str]]:
    """Return the cells of the tables of a benchmark on the page."""
    text = PAGE.read_text(encoding="utf-8")
    part = text.partition(f"<!-- benchmarks.{topic}: begin -->")[2].partition("<!-- benchmarks.")[0]
    lines = [line for line in part.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@pytest.mark.parametrize("name", FIGURES)
def test_a_picture_has_the_dots_of_the_records(name: str, tmp_path: Path) -> None:
    expected = {(panel.title, dot) for panel in make_figure(name).panels for dot in panel.dots}
    path = IMAGES / f"performance-{name}.svg"
    assert drawn(path) == expected, "the plot is outdated: run make bench TOPIC=plots"
    new_path = tmp_path / path.name
    draw(make_figure(name), new_path)
    assert drawn(new_path) == expected
    assert len(read_positions(new_path)) == len(expected)
    for key, (x, y) in read_positions(new_path).items():
        assert read_positions(path)[key] == pytest.approx((x, y), abs=3), (
            "a dot of the plot has a wrong position"
        )


def read_positions(path: Path) -> dict[str, tuple[float, float]]:
    """Return the positions of the dots in a file, by id."""
    text = path.read_text(encoding="utf-8")
    dots = re.findall(
        r'<g id="([^"]*\|[^"]*)">.*?<use [^>]*?x="([\d.]+)" y="([\d.]+)"', text, re.DOTALL
    )
    return {name: (float(x), float(y)) for name, x, y in dots}


@pytest.mark.parametrize("name", FIGURES)
def test_the_page_states_each_figure(name: str) -> None:
    topic = TOPICS[name]
    rows = read_rows(topic) + (read_rows("cache") if topic == "decode" else [])
    for panel in make_figure(name).panels:
        for dot in panel.dots:
            past, _, texts = dot.row.partition(" tokens x ")
            cells = [row for row in rows if row[0] == past and (not texts or row[1] == texts)]
            assert any(dot.text in row[1:] for row in cells), dot


@pytest.mark.parametrize("name", FIGURES)
def test_a_picture_needs_no_page_of_one_brightness(name: str) -> None:
    """A plot has no background, and no black or white text."""
    text = (IMAGES / f"performance-{name}.svg").read_text(encoding="utf-8")
    assert not re.search(r"fill: (?:#000000|black|#ffffff|white)(?! *;? *opacity: 0)\b", text)
