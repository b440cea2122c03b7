"""Tables of the documentation equal the reports of the recorded results."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

from benchmarks.report import RESULTS

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = [DOCS / "performance.md", DOCS / "operator-cost.md"]
# names of topics, or of parts of one: "topic.part"
RECORDS = sorted(path.stem for path in RESULTS.glob("*.json"))


def read_part(package: str) -> str:
    """Return the text between the two marks of a package."""
    pages = "\n".join(page.read_text() for page in PAGES)
    _, begin, tail = pages.partition(f"<!-- {package}: begin -->")
    part, end, _ = tail.partition(f"<!-- {package}: end -->")
    assert begin and end, f"no page has marks of {package}"
    return part.strip()


@pytest.mark.parametrize("name", RECORDS)
def test_the_tables_of_a_page_are_those_of_the_file(name):
    run = json.loads((RESULTS / f"{name}.json").read_text())
    report = importlib.import_module(f"benchmarks.{name.split('.')[0]}.report")
    tables = report.markdown(run)
    assert read_part(f"benchmarks.{name}") == tables.strip(), f"update the page from {name}.json"


def test_every_part_of_the_page_has_a_file():
    lines = [line for page in PAGES for line in page.read_text().splitlines()]
    marks = [line for line in lines if line.startswith("<!-- benchmarks.")]
    packages = {mark.split(":")[0].removeprefix("<!-- benchmarks.") for mark in marks}
    assert packages == set(RECORDS)
