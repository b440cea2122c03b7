"""A rotating part of the derived samples equals eager, and declared deviations still exist.

`make test` runs one part of the reviewed families, some 90 forms, which the commit selects.
``--derived 7`` repeats part 7. ``python -m tests.derive`` runs all families.
"""

from __future__ import annotations

import pytest

from ortable.testing import entries as harness
from ortablegen.aten.model import Deviation, OpEntry
from ortablegen.source.diagnostics import Span
from tests.specs.test_cases import ENTRIES

from .known import Known, families, read_known
from .parts import Part, chosen, deviations, key_of, rotating
from .runner import Outcome, jobs_of
from .workers import run

FORMS = 60  # in one run: twelve seconds of CPU


def test_a_part_of_the_derived_samples_equals_eager(request: pytest.FixtureRequest) -> None:
    entries = chosen(" ".join(families()))
    count = max(1, sum(1 for entry in entries for _ in jobs_of(entry)) // FORMS)
    part = rotating(count, request.config.getoption("--derived"))
    print(f"part {part.number} of {count}: --derived {part.number} repeats it")
    known = read_known(deviations(entries))
    outcomes = [outcome for _, results in run(entries, 1, part) for outcome in results]
    forms = sum(part.has(job) for entry in entries for job in jobs_of(entry))
    assert len(outcomes) > 3 * forms  # parts have 40 to 70 forms
    failures = [failure.line() for failure in known.unknown(outcomes)]
    assert not failures, "\n".join(failures[:40])


def test_deviations_are_still_there() -> None:
    entries = [entry for entry in chosen() if isinstance(entry, OpEntry)]
    fixed = [
        f"{entry.key}: {deviation.what}"
        for entry in entries
        for deviation in entry.deviates
        if not still_deviates(entry, deviation)
    ]
    assert not fixed, f"these deviations are exact now; make cases of their samples: {fixed}"


def still_deviates(entry: OpEntry, deviation: Deviation) -> bool:
    """Return whether the sample call of a deviation differs from eager."""
    try:
        for target in (None, "onnxruntime"):
            harness.check_sample_at(entry.schema, deviation.repro, 18, target)
    except AssertionError:
        return True
    return False


def test_a_deviation_that_is_gone_is_found() -> None:
    entry = ENTRIES["aten::relu"]
    assert isinstance(entry, OpEntry)
    span = Span("", 0, 0)
    exact = Deviation("", "", "", entry.samples[0], (), span)
    assert not still_deviates(entry, exact)


def test_known_failures_only_shrink() -> None:
    failing = Outcome("aten::relu", 0, "float16/nan", "nan")
    known = Known({"aten::relu": ["nan */nan", "value */drawn"]})
    other = Outcome("aten::relu", 0, "float16/drawn", "dtype")
    assert known.unknown([failing, other]) == [other]
    assert known.stale(["aten::relu"]) == ["aten::relu: value */drawn"]


def test_known_failures_name_entries_that_there_are() -> None:
    assert set(read_known().patterns) <= {key_of(entry) for entry in ENTRIES.values()}


def test_the_parts_are_all_forms_once() -> None:
    jobs = list(jobs_of(ENTRIES["aten::relu"]))
    selected = [job for n in range(7) for job in jobs if Part(n, 7).has(job)]
    assert sorted(map(id, selected)) == sorted(map(id, jobs))
