"""Processes share a cache folder while some are killed: the others work and clean up."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path
from typing import Any

import pytest

from ortable.backend import store
from ortable.ir.proto.atomic_files import TEMPORARY_PREFIX as TEMPORARY_PREFIX
from tests.rotation import rotation_seed

from .processes import (
    RunSummary,
    compile_all_graphs,
    compile_task,
    damage_task,
    fill_task,
    run_processes,
    slow_task,
    write_and_read_task,
)
from .scenarios import NEW, OLD, SCENARIOS

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform does not fork")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: Any) -> Path:
    """Return a cache folder for all processes, which also share a folder of torch."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "torch"))
    folder = tmp_path / "cache"
    folder.mkdir()
    compile_all_graphs(tmp_path)
    return folder


def assert_no_errors(result: RunSummary, kills: int) -> None:
    assert result.errors == ()
    assert (result.killed, result.hung) == (kills, 0)


def find_leftovers(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.name.startswith(TEMPORARY_PREFIX)]


def assert_cleanup(folder: Path, kills: int) -> None:
    """A killed process leaves at most one file, which another process removes after an hour."""
    leftover_files = find_leftovers(folder)
    assert len(leftover_files) <= kills
    for path in leftover_files:
        os.utime(path, (time.time() - 3601,) * 2)
    others = {path for path in folder.iterdir() if not path.name.endswith(store._SUFFIXES)}
    assert others == set(leftover_files), "files that no process should leave"
    store._folder_sizes.clear()  # as in a new process
    store.enforce_limits(folder / "the last one", 0, store.Limits(size=1 << 30))
    assert find_leftovers(folder) == []


@pytest.mark.parametrize(
    ("copies", "kills"), [(1, 25), pytest.param(4, 150, marks=pytest.mark.slow)]
)
def test_processes_that_share_files(copies: int, kills: int, cache: Path, tmp_path: Path) -> None:
    tasks = [write_and_read_task(cache)] * copies + [fill_task(cache)] * copies
    result = run_processes(tasks, kills, 0.02, rotation_seed(), tmp_path)
    assert_no_errors(result, kills)
    assert result.counts["found"] and result.counts["missing"] and not result.counts["damaged"]
    assert_cleanup(cache, kills)


@pytest.mark.slow
def test_eight_processes_that_compile(cache: Path, tmp_path: Path) -> None:
    """The folder is too small for all entries, so entries vanish while others read them."""
    tasks = [compile_task(cache)] * 7 + [slow_task(fill_task(cache, keys=14, capacity=10))]
    result = run_processes(tasks, 20, 0.1, rotation_seed(), tmp_path, rounds=10)
    assert_no_errors(result, 20)
    assert result.counts["disk"] and result.counts["miss"] and not result.counts["damaged"]
    assert_cleanup(cache, 20)


@pytest.mark.slow
def test_one_process_that_damages(cache: Path, tmp_path: Path) -> None:
    """Damaged entries are reported and rewritten, and never used for another graph."""
    fill = fill_task(cache, keys=14, capacity=10)
    tasks = [compile_task(cache)] * 4 + [slow_task(fill), slow_task(damage_task(cache))] * 2
    result = run_processes(tasks, 15, 0.1, rotation_seed(), tmp_path, rounds=15)
    assert_no_errors(result, 15)
    assert result.counts["damaged"] and result.counts["damage done"] and result.counts["miss"]
    assert_cleanup(cache, 15)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["model", "model and shards", "exported program", "picture"])
def test_three_processes_that_write_one_file(name: str, tmp_path: Path) -> None:
    """No write fails, and the final file is complete."""
    scenario, folder = SCENARIOS[name], tmp_path / "files"
    folder.mkdir()
    scenario.write(folder, OLD)

    def write(rng: random.Random) -> str:
        scenario.write(folder, rng.choice((OLD, NEW)))
        return "written"

    for seed in range(6):
        (tmp_path / "stop").unlink(missing_ok=True)
        result = run_processes([write] * 3, 2, 0.1, rotation_seed() + seed, tmp_path)
        assert_no_errors(result, 2)
        assert result.counts["written"] > 3
        assert scenario.read(folder) in (OLD, NEW)
