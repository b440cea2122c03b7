"""The recorded counts of sample calls by case are current; `test_cases` checks that none is 0."""

from __future__ import annotations

from dataclasses import replace

from ortable_generated.coverage import COVERAGE
from ortablegen.aten.coverage import CASES, case_digest, load_cases
from ortablegen.aten.model import OpEntry
from ortablegen.schemas.registry import import_problem, installed_torch

from .reached import ROOT, reached_by
from .test_cases import ENTRIES

RECORD = load_cases(ROOT / CASES)


def _current_counts() -> dict[str, tuple[OpEntry, tuple[int, ...]]]:
    """Return the entries whose recorded count is of their present text."""
    return {
        name: (entry, RECORD[name][1])
        for name, entry in ENTRIES.items()
        if isinstance(entry, OpEntry)
        and name in RECORD
        and RECORD[name][0] == case_digest(entry)
        and entry.versions.has(installed_torch())
        and (entry.requires is None or import_problem(entry.requires) is None)
    }


def test_a_count_has_a_number_for_each_case_and_is_what_a_new_one_gives() -> None:
    current = _current_counts()
    assert len(current) > 150
    for entry, counts in current.values():
        assert len(counts) == len(entry.case_names()), entry.key
        assert max(counts) <= len(entry.samples), entry.key
    smallest = sorted(current.values(), key=lambda row: (len(row[0].samples), row[0].key))
    for entry, counts in smallest[40:50]:
        assert tuple(reached_by(entry)) == counts, entry.key


def test_a_changed_entry_has_no_count() -> None:
    entry, _ = _current_counts()["aten::addmm"]
    assert case_digest(replace(entry, samples=entry.samples[1:])) != case_digest(entry)
    assert case_digest(replace(entry, lower=entry.lower[1:])) != case_digest(entry)
    assert case_digest(replace(entry, file="elsewhere.yaml")) == case_digest(entry)
    rows = {row[0]: row for row in COVERAGE}
    assert len(rows["aten::addmm"][7].split()) == rows["aten::addmm"][5] > 1
    assert rows["aten::bitwise_and.Tensor"][5] == 1 and not rows["aten::bitwise_and.Tensor"][7]
