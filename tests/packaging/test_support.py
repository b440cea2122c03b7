"""docs/support.md is generated from docs/support.json, and its rows agree with pyproject.toml."""

from __future__ import annotations

import sys
import tomllib

import pytest

from tests.packaging.files import ROOT
from tests.support import __main__ as command
from tests.support import page
from tests.support.__main__ import SETS, main
from tests.support.suites import Outcome, suites


def test_the_page_is_written_from_the_records() -> None:
    assert page.PAGE.read_text(encoding="utf-8") == page.text(page.load())


def test_every_row_ran_every_suite_without_a_failure() -> None:
    rows = page.load()
    assert {"pinned", "newest"} <= {row.name for row in rows}
    expected = {suite.name for suite in suites(jobs=1)}
    for row in rows:
        assert {outcome.suite for outcome in row.outcomes} == expected, row.name
        assert [o for o in row.outcomes if o.failed or not o.passed] == [], row.name


def test_the_classifiers_name_the_pythons_that_ran() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    prefix = "Programming Language :: Python :: 3."
    listed = {text.rpartition(" ")[2] for text in project["classifiers"] if text.startswith(prefix)}
    assert listed == {row.versions["python"] for row in page.load()}


def test_the_pinned_row_has_the_pinned_versions() -> None:
    pins = dict(
        line.split("==")
        for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
        if "==" in line
    )
    (row,) = (row for row in page.load() if row.name == "pinned")
    for name in ("onnx", "onnxruntime", "numpy"):
        assert row.versions[name] == pins[name]


def test_a_bounded_run_takes_a_part_of_the_core_tests_and_is_not_recorded(capsys) -> None:
    full, short = ({s.name: s.command for s in suites(2, bounded)} for bounded in (False, True))
    assert {name for name in full if full[name] != short[name]} == {"core"}
    assert set(short["core"]) - set(full["core"]) == {"--files-of", "5"}
    with pytest.raises(SystemExit):
        main(["--bounded", "--record"])
    assert "leave out --bounded" in capsys.readouterr().err


def test_a_row_of_a_python_is_run_by_that_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SETS, "Python 3.1", ())
    with pytest.raises(SystemExit, match=r"--set 'Python 3\.1': .* is Python 3\.\d+; name one"):
        main(["--set", "Python 3.1", "--interpreter", sys.executable])


def test_a_run_with_a_failure_is_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    run_stopped = Outcome("core", passed=3, failed=1, skipped=0, seconds=9.0)
    monkeypatch.setattr(command, "run", lambda *arguments: run_stopped)
    monkeypatch.setattr(page, "record", lambda row: pytest.fail("recorded"))
    assert command.main(["--set", "pinned", "--suites", "core", "--record"]) == 1
