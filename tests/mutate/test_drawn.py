"""Random mutants have the tests that run their line, as a recorded run lists them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.child import python

from .drawn import _line, draw
from .mutants import mutated
from .reach import Reach, read_reach
from .unreached import errors, is_reached

SPREAD = """def spread(a, b):
    first = (
        a
        - b
    )
    return first if first > 0 else -first
"""


def test_a_fault_is_on_the_line_that_differs_or_on_the_one_that_ran_before_it() -> None:
    assert _line(SPREAD, "first > 0", "first >= 0", {6}) == 6
    assert _line(SPREAD, "a\n        - b", "b\n        - a", {2, 4}) == 2
    # line 2 belongs to the previous statement
    assert _line(SPREAD, "first > 0", "first >= 0", {2}) == 6


def test_tests_of_a_line_alternate_between_files_the_shortest_first() -> None:
    tests = frozenset({"a.py::slow", "a.py::fast", "b.py::one", "a.py::mid"})
    seconds = {"a.py::slow": 3.0, "a.py::fast": 0.1, "b.py::one": 2.0, "a.py::mid": 1.0}
    reach = Reach({"m.py": {7: tests}}, seconds)
    assert reach.of("m.py", 7) == ["a.py::fast", "b.py::one", "a.py::mid", "a.py::slow"]
    assert reach.of("m.py", 8) == reach.of("m.py", 7)  # of the file
    assert reach.of("n.py", 7) == []


def test_what_is_drawn_can_be_put_in_and_is_another_for_another_seed(tmp_path: Path) -> None:
    source = tmp_path / "runtime" / "ortable" / "numbers.py"
    source.parent.mkdir(parents=True)
    lines = [f"    if a + {n} < b - {n}:\n        return {n}\n" for n in range(1, 40)]
    source.write_text("def of(a, b):\n" + "".join(lines))
    tests = {"runtime/ortable/numbers.py": {line: frozenset({"a.py::one"}) for line in range(90)}}
    reach = Reach(tests, {"a.py::one": 1.0})
    first, second = draw(reach, 5, 1, tmp_path), draw(reach, 5, 2, tmp_path)
    assert first == draw(reach, 5, 1, tmp_path) != second
    for mutant in (*first, *second):
        assert mutant.run == ("a.py::one",)
        changed = mutated(mutant, source.read_text())
        differing = [
            number
            for number, (a, b) in enumerate(
                zip(source.read_text().splitlines(), changed.splitlines(), strict=True), 1
            )
            if a != b
        ]
        assert differing == [int(mutant.name.rpartition(":")[2])]


def test_errors_that_no_test_meets_are_found(tmp_path: Path) -> None:
    source = tmp_path / "codegen" / "ortablegen" / "rows.py"
    source.parent.mkdir(parents=True)
    source.write_text(
        "def row(self, text):\n"
        "    if not text:\n"
        "        raise ValueError(\n"
        '            "no text"\n'
        "        )\n"
        "    self.error(text)\n"
        "    print(text)\n"
    )
    rows = list(errors(tmp_path))
    file = "codegen/ortablegen/rows.py"
    assert [row[:3] for row in rows] == [(file, 3, 5), (file, 6, 6)]
    reach = Reach({file: {4: frozenset({"a.py::one"}), 6: frozenset()}}, {"a.py::one": 1.0})
    assert [is_reached(reach, *row[:3]) for row in rows] == [True, False]


@pytest.mark.slow
def test_a_recorded_run_names_the_tests_of_a_line(tmp_path: Path) -> None:
    test = "tests/dims/test_dims.py"
    plugins = ["-p", "no:cacheprovider", "-p", "tests.mutate.reach", "--reach", tmp_path]
    assert python("-m", "pytest", "-q", *plugins, test).returncode == 0
    reach = read_reach(tmp_path)
    assert reach.seconds and all(name.startswith(test) for name in reach.seconds)
    lines = reach.tests["runtime/ortable/dims/expression.py"]
    assert any(tests for tests in lines.values())
