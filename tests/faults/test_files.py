"""Everything that writes files, while the system refuses an operation, or while the process dies:
at each operation in turn. Nothing is lost, nothing is half, nothing is of two states; an error
says so, and the next attempt works."""

from __future__ import annotations

import errno
import os
import warnings
from functools import partial
from pathlib import Path

import pytest

from ortable.ir.proto import atomic_files

from .layer import ERRORS, count, dies_at, fails_at
from .scenarios import ABSENT, NEW, OLD, SCENARIOS

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform does not fork")


def _names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(params=SCENARIOS)
def scenario(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.mark.alternates(parts=3)
@pytest.mark.parametrize("before", [OLD, ABSENT])
def test_a_process_that_dies_leaves_the_old_state_or_the_new_one(
    scenario: str, before: str, tmp_path: Path
) -> None:
    it = SCENARIOS[scenario]
    first, made = tmp_path / "first", tmp_path / "made"
    first.mkdir()
    made.mkdir()
    it.write(first, NEW)  # what is done once in a process is done
    if before == OLD:
        it.write(made, OLD)
    operations = count(lambda: it.write(made, NEW))
    assert len(operations) >= 3, "nothing is written here"
    for at in range(len(operations)):
        folder = tmp_path / str(at)
        folder.mkdir()
        if before == OLD:
            it.write(folder, OLD)
        assert dies_at(at, partial(it.write, folder, NEW)), operations[at]
        left = it.after if before == OLD else {NEW, ABSENT}
        assert _state(scenario, folder) in left, (at, operations[at])
        it.write(folder, NEW)  # what was left behind is in nobody's way
        assert it.read(folder) == NEW


@pytest.mark.alternates("number")
@pytest.mark.parametrize("number", ERRORS, ids=errno.errorcode.get)
def test_an_operation_that_is_refused_is_an_error_and_nothing_is_lost(
    scenario: str, number: int, tmp_path: Path
) -> None:
    it = SCENARIOS[scenario]
    it.write(tmp_path, OLD)
    at, reached = 0, True
    while reached:
        it.write(tmp_path, OLD)
        kept = _names(tmp_path)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                reached = fails_at(at, number, lambda: it.write(tmp_path, NEW))
        except Exception as error:
            assert it.refused is not None, "a cache that cannot be written is no error"
            assert isinstance(error, it.refused)
            assert os.strerror(number) in str(error), "the reason is told"
        assert it.read(tmp_path) in it.after
        it.write(tmp_path, NEW)
        assert it.read(tmp_path) == NEW
        at += 1
    assert at >= 4
    assert _names(tmp_path) == kept


def _state(scenario: str, folder: Path) -> str:
    try:
        return SCENARIOS[scenario].read(folder)
    except FileNotFoundError:
        return ABSENT


def test_a_file_that_goes_while_it_is_looked_at_is_replaced_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process drops entries of a cache: between two questions the file was no file, and was
    written to as a stream is, so that readers saw a part of it."""
    path, taken = tmp_path / "entry", []
    path.write_bytes(b"old")
    is_file, replace = Path.is_file, os.replace

    def gone(self: Path, *rest: object) -> bool:
        self.unlink(missing_ok=True)
        return is_file(self)

    monkeypatch.setattr(Path, "is_file", gone)
    monkeypatch.setattr(os, "replace", lambda a, b: (taken.append(b), replace(a, b))[1])
    atomic_files.write_file(path, b"new")
    assert taken == [path] and path.read_bytes() == b"new"
