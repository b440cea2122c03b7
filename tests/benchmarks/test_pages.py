"""Tables of the documentation equal the reports of the recorded results."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

from benchmarks.report import RESULTS

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = [DOCS / "performance.md", DOCS / "operator-cost.md"]
TOPICS = sorted(path.stem for path in RESULTS.glob("*.json"))


def read_part(package: str) -> str:
    """Return the text between the two marks of a package."""
    pages = "\n".join(page.read_text() for page in PAGES)
    _, begin, tail = pages.partition(f"<!-- {package}: begin -->")
    part, end, _ = tail.partition(f"<!-- {package}: end -->")
    assert begin and end, f"no page has marks of {package}"
    return part.strip()


@pytest.mark.parametrize("topic", TOPICS)
def test_the_tables_of_a_page_are_those_of_the_file(topic):
    package = f"benchmarks.{topic}"
    run = json.loads((RESULTS / f"{topic}.json").read_text())
    tables = importlib.import_module(f"{package}.report").markdown(run)
    assert read_part(package) == tables.strip(), f"update the page from {topic}.json"


def test_every_part_of_the_page_has_a_file():
    lines = [line for page in PAGES for line in page.read_text().splitlines()]
    marks = [line for line in lines if line.startswith("<!-- benchmarks.")]
    packages = {mark.split(":")[0].removeprefix("<!-- benchmarks.") for mark in marks}
    assert packages == set(TOPICS)
