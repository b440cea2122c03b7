"""File operations fail, or the process dies at one: files stay complete and consistent."""

from __future__ import annotations

import errno
import os
import warnings
from functools import partial
from pathlib import Path

import pytest

from ortable.ir.proto import atomic_files

from .layer import ERRORS, list_operations, run_and_kill, run_with_error
from .scenarios import ABSENT, NEW, OLD, SCENARIOS

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform does not fork")


def _list_files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(params=SCENARIOS)
def scenario_name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.mark.alternates(parts=3)
@pytest.mark.parametrize("before", [OLD, ABSENT])
def test_a_process_that_dies_leaves_the_old_state_or_the_new_one(
    scenario_name: str, before: str, tmp_path: Path
) -> None:
    scenario = SCENARIOS[scenario_name]
    warm_up, reference = tmp_path / "first", tmp_path / "made"
    warm_up.mkdir()
    reference.mkdir()
    scenario.write(warm_up, NEW)  # warms up caches of this process
    if before == OLD:
        scenario.write(reference, OLD)
    operations = list_operations(lambda: scenario.write(reference, NEW))
    assert len(operations) >= 3, "the scenario should write files"
    for index in range(len(operations)):
        folder = tmp_path / str(index)
        folder.mkdir()
        if before == OLD:
            scenario.write(folder, OLD)
        assert run_and_kill(index, partial(scenario.write, folder, NEW)), operations[index]
        allowed_states = scenario.states_after_crash if before == OLD else {NEW, ABSENT}
        assert _read_state(scenario_name, folder) in allowed_states, (index, operations[index])
        scenario.write(folder, NEW)  # leftover files do not disturb the next write
        assert scenario.read(folder) == NEW


@pytest.mark.alternates("error_number")
@pytest.mark.parametrize("error_number", ERRORS, ids=errno.errorcode.get)
def test_an_operation_that_is_refused_is_an_error_and_nothing_is_lost(
    scenario_name: str, error_number: int, tmp_path: Path
) -> None:
    scenario = SCENARIOS[scenario_name]
    scenario.write(tmp_path, OLD)
    index, reached = 0, True
    while reached:
        scenario.write(tmp_path, OLD)
        files_before = _list_files(tmp_path)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                reached = run_with_error(index, error_number, lambda: scenario.write(tmp_path, NEW))
        except Exception as error:
            assert scenario.error_types is not None, "a cache without write access should not raise"
            assert isinstance(error, scenario.error_types)
            assert os.strerror(error_number) in str(error), "the error should contain the reason"
        assert scenario.read(tmp_path) in scenario.states_after_crash
        scenario.write(tmp_path, NEW)
        assert scenario.read(tmp_path) == NEW
        index += 1
    assert index >= 4
    assert _list_files(tmp_path) == files_before


def _read_state(scenario_name: str, folder: Path) -> str:
    try:
        return SCENARIOS[scenario_name].read(folder)
    except FileNotFoundError:
        return ABSENT


def test_a_file_that_goes_while_it_is_looked_at_is_replaced_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If another process removed the file between checks, it was once written in place."""
    path, replaced_paths = tmp_path / "entry", []
    path.write_bytes(b"old")
    is_file, replace = Path.is_file, os.replace

    def remove_and_check(self: Path, *rest: object) -> bool:
        self.unlink(missing_ok=True)
        return is_file(self)

    monkeypatch.setattr(Path, "is_file", remove_and_check)
    monkeypatch.setattr(os, "replace", lambda a, b: (replaced_paths.append(b), replace(a, b))[1])
    atomic_files.write_file(path, b"new")
    assert replaced_paths == [path] and path.read_bytes() == b"new"
