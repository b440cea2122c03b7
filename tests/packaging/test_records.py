"""A recorded number that is older than the code it speaks of gives a warning: tests/records.yaml
says which numbers there are, which code each is about, and by how many days it may be older."""

from __future__ import annotations

import datetime
import re
import subprocess
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
LIST = ROOT / "tests" / "records.yaml"
# How a record says its day: JSON, YAML, or the row of a table.
DAY = re.compile(r'(?:"?date"?: "|^\| |[Mm]easured on )(\d{4}-\d{2}-\d{2})', re.MULTILINE)


class StaleRecordWarning(UserWarning):
    """Numbers that should be measured again."""


@dataclass(frozen=True)
class Record:
    """A file of numbers, how to make it anew, and the folders it speaks of."""

    record: str
    days: int
    by: str
    code: Sequence[str]

    def day(self) -> datetime.date:
        """The day of the oldest number in it, since that one may be wrong first."""
        found = DAY.findall((ROOT / self.record).read_text(encoding="utf-8"))
        assert found, f"{self.record} does not say when it was measured"
        return min(map(datetime.date.fromisoformat, found))


RECORDS = {row["record"]: Record(**row) for row in yaml.safe_load(LIST.read_text(encoding="utf-8"))}


@cache
def _changed(*folders: str) -> datetime.date | None:
    """The day of the newest commit of some folders; None outside of a whole checkout of git."""
    command = ["git", "-C", str(ROOT)]
    try:
        shallow = subprocess.run(
            [*command, "rev-parse", "--is-shallow-repository"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        told = subprocess.run(
            [*command, "log", "-1", "--format=%cs", "--", *folders],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return None
    if shallow.stdout.strip() != "false" or not told.stdout.strip():
        return None
    return datetime.date.fromisoformat(told.stdout.strip())


def stale(measured: datetime.date, changed: datetime.date, days: int) -> bool:
    """Whether code has changed too long after it was measured."""
    return (changed - measured).days > days


@pytest.mark.parametrize("name", RECORDS)
@pytest.mark.filterwarnings("default::tests.packaging.test_records.StaleRecordWarning")
def test_a_record_that_is_older_than_its_code_gives_a_warning(name: str) -> None:
    row = RECORDS[name]
    assert row.code and all((ROOT / folder).exists() for folder in row.code), row
    changed = _changed(*row.code)
    if changed is None:
        pytest.skip("no whole checkout of git: days of changes are not there")
    if stale(row.day(), changed, row.days):
        message = f"{name} is of {row.day()}, {', '.join(row.code)} of {changed}: {row.by}"
        warnings.warn(message, StaleRecordWarning, stacklevel=1)


def test_records_without_a_row() -> None:
    results = {str(f.relative_to(ROOT)) for f in ROOT.glob("benchmarks/results/*.json")}
    assert results <= set(RECORDS)


def test_a_day_too_old_is_stale() -> None:
    day = datetime.date(2026, 11, 20)
    assert not stale(day, datetime.date(2026, 11, 19), 0)
    assert not stale(day, datetime.date(2026, 11, 27), 7)
    assert stale(day, datetime.date(2026, 11, 28), 7)


@pytest.mark.parametrize(
    "text", ['{"date": "2026-11-20"}', 'date: "2026-11-20"', "| 2026-11-20 | 40,000 |",
             "x\nwas measured on 2026-11-20, on two cores"]
)  # fmt: skip
def test_how_a_record_says_its_day(text: str) -> None:
    assert DAY.findall(text) == ["2026-11-20"]
