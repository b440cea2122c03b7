"""Pages quote what a file of results holds, and nothing else."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

from benchmarks.report import RESULTS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "performance.md"
TOPICS = sorted(path.stem for path in RESULTS.glob("*.json"))


def part_of(page: str, package: str) -> str:
    """What stands between the two marks of a package."""
    _, begin, rest = page.partition(f"<!-- {package}: begin -->")
    inner, end, _ = rest.partition(f"<!-- {package}: end -->")
    assert begin and end, f"{PAGE.name} has no part of {package}"
    return inner.strip()


@pytest.mark.parametrize("topic", TOPICS)
def test_the_tables_of_a_page_are_those_of_the_file(topic):
    package = f"benchmarks.{topic}"
    run = json.loads((RESULTS / f"{topic}.json").read_text())
    tables = importlib.import_module(f"{package}.report").markdown(run)
    assert part_of(PAGE.read_text(), package) == tables.strip(), f"make a page of {topic}.json anew"


def test_every_part_of_the_page_has_a_file():
    marks = [line for line in PAGE.read_text().splitlines() if line.startswith("<!-- benchmarks.")]
    packages = {mark.split(":")[0].removeprefix("<!-- benchmarks.") for mark in marks}
    assert packages == set(TOPICS)
