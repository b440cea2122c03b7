"""A recorded measurement that is older than the code it measures gives a warning."""

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
RECORD_LIST = ROOT / "tests" / "records.yaml"
# The forms of a date in a record: JSON, YAML, the row of a table, or prose.
DATE_PATTERN = re.compile(r'(?:"?date"?: "|^\| |[Mm]easured on )(\d{4}-\d{2}-\d{2})', re.MULTILINE)


class StaleRecordWarning(UserWarning):
    """A record should be measured again."""


@dataclass(frozen=True)
class Record:
    """A file of measurements, the command that renews it, and the code that it measures."""

    record: str
    days: int
    by: str
    code: Sequence[str]

    def oldest_date(self) -> datetime.date:
        """Return the date of the oldest measurement in the file."""
        dates = DATE_PATTERN.findall((ROOT / self.record).read_text(encoding="utf-8"))
        assert dates, f"{self.record} has no date of its measurement"
        return min(map(datetime.date.fromisoformat, dates))


RECORDS = {
    row["record"]: Record(**row) for row in yaml.safe_load(RECORD_LIST.read_text(encoding="utf-8"))
}


@cache
def _last_change(*folders: str) -> datetime.date | None:
    """Return the date of the newest commit to some folders, or None without a full git history."""
    command = ["git", "-C", str(ROOT)]
    try:
        shallow = subprocess.run(
            [*command, "rev-parse", "--is-shallow-repository"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        log = subprocess.run(
            [*command, "log", "-1", "--format=%cs", "--", *folders],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return None
    if shallow.stdout.strip() != "false" or not log.stdout.strip():
        return None
    return datetime.date.fromisoformat(log.stdout.strip())


def is_stale(measured: datetime.date, changed: datetime.date, days: int) -> bool:
    """Return whether code changed more than `days` days after the measurement."""
    return (changed - measured).days > days


@pytest.mark.parametrize("name", RECORDS)
@pytest.mark.filterwarnings("default::tests.packaging.test_records.StaleRecordWarning")
def test_a_record_that_is_older_than_its_code_gives_a_warning(name: str) -> None:
    row = RECORDS[name]
    assert row.code and all((ROOT / folder).exists() for folder in row.code), row
    changed = _last_change(*row.code)
    if changed is None:
        pytest.skip("no whole checkout of git: the dates of changes are unknown")
    if is_stale(row.oldest_date(), changed, row.days):
        message = f"{name} is of {row.oldest_date()}, {', '.join(row.code)} of {changed}: {row.by}"
        warnings.warn(message, StaleRecordWarning, stacklevel=1)


def test_records_without_a_row() -> None:
    results = {str(f.relative_to(ROOT)) for f in ROOT.glob("benchmarks/results/*.json")}
    assert results <= set(RECORDS)


def test_a_day_too_old_is_stale() -> None:
    measured = datetime.date(2026, 11, 20)
    assert not is_stale(measured, datetime.date(2026, 11, 19), 0)
    assert not is_stale(measured, datetime.date(2026, 11, 27), 7)
    assert is_stale(measured, datetime.date(2026, 11, 28), 7)


@pytest.mark.parametrize(
    "text", ['{"date": "2026-11-20"}', 'date: "2026-11-20"', "| 2026-11-20 | 40,000 |",
             "x\nwas measured on 2026-11-20, on two cores"]
)  # fmt: skip
def test_how_a_record_says_its_day(text: str) -> None:
    assert DATE_PATTERN.findall(text) == ["2026-11-20"]
