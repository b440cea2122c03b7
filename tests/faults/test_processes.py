"""Several processes on one folder of a cache while some are killed: who stays gets right numbers,
meets no half file, waits for nobody who is gone, and cleans up."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path
from typing import Any

import pytest

from ortable.backend import store as room
from ortable.ir.proto.atomic_files import TEMPORARY_PREFIX as BESIDE
from tests.rotation import turn

from .processes import Herd, compiles, damages, fills, herd, prepare, slowly, writes_and_reads
from .scenarios import NEW, OLD, SCENARIOS

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform does not fork")


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: Any) -> Path:
    """A folder for all processes, and one of torch's for all of them."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "torch"))
    folder = tmp_path / "cache"
    folder.mkdir()
    prepare(tmp_path)
    return folder


def assert_well(found: Herd, kills: int) -> None:
    assert found.wrong == ()
    assert (found.killed, found.stuck) == (kills, 0)


def leftovers(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.name.startswith(BESIDE)]


def assert_cleaned(folder: Path, kills: int) -> None:
    """A process that is killed leaves one file at most, which is gone after an hour."""
    left = leftovers(folder)
    assert len(left) <= kills
    for path in left:
        os.utime(path, (time.time() - 3601,) * 2)
    others = {path for path in folder.iterdir() if not path.name.endswith(room._SUFFIXES)}
    assert others == set(left), "files of nobody"
    room._folder_sizes.clear()  # as a new process begins
    room.enforce_limits(folder / "the last one", 0, room.Limits(size=1 << 30))
    assert leftovers(folder) == []


@pytest.mark.parametrize(
    ("of_each", "kills"), [(1, 25), pytest.param(4, 150, marks=pytest.mark.slow)]
)
def test_processes_that_share_files(of_each: int, kills: int, shared: Path, tmp_path: Path) -> None:
    works = [writes_and_reads(shared)] * of_each + [fills(shared)] * of_each
    found = herd(works, kills, 0.02, turn(), tmp_path)
    assert_well(found, kills)
    assert found.said["found"] and found.said["missing"] and not found.said["damaged"]
    assert_cleaned(shared, kills)


@pytest.mark.slow
def test_eight_processes_that_compile(shared: Path, tmp_path: Path) -> None:
    """The folder is too small for all, so entries go while others look for them."""
    works = [compiles(shared)] * 7 + [slowly(fills(shared, keys=14, kept=10))]
    found = herd(works, 20, 0.1, turn(), tmp_path, rounds=10)
    assert_well(found, 20)
    assert found.said["disk"] and found.said["miss"] and not found.said["damaged"]
    assert_cleaned(shared, 20)


@pytest.mark.slow
def test_one_process_that_damages(shared: Path, tmp_path: Path) -> None:
    """What was damaged is told, written again, and never taken for another graph."""
    filled = fills(shared, keys=14, kept=10)
    works = [compiles(shared)] * 4 + [slowly(filled), slowly(damages(shared))] * 2
    found = herd(works, 15, 0.1, turn(), tmp_path, rounds=15)
    assert_well(found, 15)
    assert found.said["damaged"] and found.said["damage done"] and found.said["miss"]
    assert_cleaned(shared, 15)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["model", "model and shards", "exported program", "picture"])
def test_three_processes_that_write_one_file(name: str, tmp_path: Path) -> None:
    """Nobody is refused, and what is there in the end is one of them, whole."""
    it, folder = SCENARIOS[name], tmp_path / "files"
    folder.mkdir()
    it.write(folder, OLD)

    def write(draw: random.Random) -> str:
        it.write(folder, draw.choice((OLD, NEW)))
        return "written"

    for seed in range(6):
        (tmp_path / "stop").unlink(missing_ok=True)
        found = herd([write] * 3, 2, 0.1, turn() + seed, tmp_path)
        assert_well(found, 2)
        assert found.said["written"] > 3
        assert it.read(folder) in (OLD, NEW)
