"""mutants.yaml agrees with the sources and the record, and the runner classifies mutants."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from .__main__ import HANDFUL
from .mutants import KINDS, ROOT, Mutant, digest, mutated, problem, read_mutants
from .propose import proposals
from .report import WANTED, counts, faulty, read_record, table
from .runner import Verdict, baseline, faults, together, workers

MUTANTS = read_mutants()
SOURCE = """def larger(a, b):
    return a if a > b else b


def counted(n):
    while n > 0:
        n -= 1
    return n
"""
OPTION = """def pytest_addoption(parser):
    parser.addoption("--every-program", action="store_true")
"""
TESTS = """from package.code import counted, larger


def test_larger():
    assert larger(1, 2) == 2


def test_counted():
    assert counted(3) == 0
"""


def test_every_text_stands_once_where_the_list_says() -> None:
    problems = [text for text in map(problem, MUTANTS) if text]
    assert not problems, "\n".join(problems)


def test_the_list_has_its_mutants_of_every_kind() -> None:
    assert len(MUTANTS) >= 240
    assert {mutant.kind for mutant in MUTANTS} == set(KINDS)
    names = Counter(mutant.name for mutant in MUTANTS)
    assert not [name for name, count in names.items() if count > 1]
    edits = Counter((mutant.file, mutant.text, mutant.by) for mutant in MUTANTS)
    assert not [edit for edit, count in edits.items() if count > 1]


def test_the_record_is_of_this_list() -> None:
    """After a change of the list, run `make mutate ARGS=--record`."""
    stored = read_record()
    assert stored["list"] == digest(MUTANTS)
    killed, tried = map(sum, zip(*stored["kinds"].values(), strict=True))
    assert tried == len(MUTANTS) and killed >= WANTED * tried
    assert tried - killed == sum(bool(mutant.survives) for mutant in MUTANTS)


def test_the_page_shows_the_record() -> None:
    page = (ROOT / "docs" / "contributing.md").read_text()
    assert table(read_record()["kinds"]) in page


def test_a_changed_line_is_another_list_and_another_reason_is_not() -> None:
    first, *rest = MUTANTS
    assert digest([replace(first, breaks="something else"), *rest]) == digest(MUTANTS)
    assert digest([replace(first, by="something else"), *rest]) != digest(MUTANTS)
    assert digest([replace(first, run=("tests",)), *rest]) != digest(MUTANTS)


def test_what_is_wrong_with_a_line_is_told() -> None:
    first = MUTANTS[0]
    assert "0 times" in problem(replace(first, text="nothing like that"))
    assert "unknown kind" in problem(replace(first, kind="other"))
    assert "there is no" in problem(replace(first, file="no/such/file"))
    assert "nothing is changed" in problem(replace(first, by=first.text))
    assert "there is no" in problem(replace(first, run=("tests/no_such_test.py",)))


def test_tests_of_a_folder_with_the_same_options_run_together() -> None:
    runs = [
        ("tests/a/x.py",),
        ("tests/a/y.py::t",),
        ("tests/b/z.py", "-k", "one"),
        ("tests/a/x.py",),
    ]
    assert together(runs) == [
        ("tests/a/x.py", "tests/a/y.py::t"),
        ("tests/b/z.py", "-k", "one"),
    ]


def _mutant(name: str, text: str, by: str, run: str = "tests/test_code.py") -> Mutant:
    return Mutant(name, "builder", "runtime/package/code.py", text, by, name, (run,))


@pytest.mark.slow
def test_faults_are_noticed_or_survive(tmp_path: Path) -> None:
    """A failing test, a hang and the end of the process kill a mutant of a small tree.

    A mutant with passing tests survives, and one that breaks the import is an error of the list.
    """
    root = tmp_path / "root"
    (root / "runtime" / "package").mkdir(parents=True)
    (root / "runtime" / "package" / "__init__.py").touch()
    (root / "runtime" / "package" / "code.py").write_text(SOURCE)
    (root / "tests").mkdir()
    (root / "tests" / "conftest.py").write_text(OPTION)
    (root / "tests" / "test_code.py").write_text(TESTS)
    mutants = [
        _mutant("noticed", "a > b", "a < b"),
        _mutant("unnoticed", "a > b", "a >= b"),
        _mutant("ends the process", "n -= 1", "import os; os._exit(3)"),
        _mutant("broken", "def larger(a, b)", "def larger(a, b"),
        _mutant("no name", "if a > b", "if c > b"),
    ]
    with workers(1, root) as pool:
        (unmodified,) = baseline(pool, mutants)
        assert unmodified.outcome == "passed"
        verdicts = {verdict.name: verdict for verdict in faults(pool, mutants)}
    outcomes = {name: verdict.outcome for name, verdict in verdicts.items()}
    assert outcomes == {
        "noticed": "failed",
        "unnoticed": "passed",
        "ends the process": "crashed",
        "broken": "broken",
        "no name": "broken",
    }
    assert (root / "runtime" / "package" / "code.py").read_text() == SOURCE
    lines = faulty(mutants, verdicts)
    assert [line.split()[0] for line in lines] == ["unnoticed", "broken", "no", "only"]
    assert counts(mutants, verdicts) == {"builder": [2, 5]}


def test_a_survivor_needs_a_reason_and_a_reason_a_survivor() -> None:
    mutant = _mutant("m", "a > b", "a >= b")
    passed, failed = (Verdict("m", outcome, "t", "", 1.0) for outcome in ("passed", "failed"))
    explained = replace(mutant, survives="they are equal")
    killed = [replace(mutant, name=f"other {n}") for n in range(30)]
    verdicts = {killed_mutant.name: failed for killed_mutant in killed}
    assert faulty([mutant, *killed], {"m": failed, **verdicts}) == []
    assert faulty([explained, *killed], {"m": passed, **verdicts}) == []
    assert "survives" in faulty([mutant, *killed], {"m": passed, **verdicts})[0]
    assert "take out" in faulty([explained, *killed], {"m": failed, **verdicts})[0]


def test_proposals_stand_once_and_change_something() -> None:
    text = (ROOT / "runtime" / "ortable" / "passes" / "folding.py").read_text()
    pairs = list(proposals(text))
    assert len(pairs) > 50
    for old, new in pairs:
        assert text.count(old) == 1 and old != new


def test_mutated_changes_one_place() -> None:
    assert mutated(_mutant("m", "a > b", "a < b"), SOURCE) == SOURCE.replace("a > b", "a < b")


def test_the_gate_runs_a_handful() -> None:
    gate = (ROOT / ".ci" / "run").read_text()
    assert re.search(r"^bounded \d+ mutate --bounded$", gate, re.MULTILINE)
    assert 0 < HANDFUL < 40
