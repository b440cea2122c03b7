"""A bounded run selects its tests by the commit."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests import rotation
from tests.child import python


def _commit(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    for command in (["add", "-A"], [*identity, "commit", "-qm", name]):
        subprocess.run(["git", *command], cwd=root, check=True)


def test_a_change_of_what_is_tested_takes_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rotation, "ROOT", tmp_path)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    for folder in rotation.TESTED:
        _commit(tmp_path, f"{folder}/x", "1")
    rotation_seed = rotation.rotation_seed()
    _commit(tmp_path, "tests/expected.yaml", "a reason")
    assert rotation.rotation_seed() == rotation_seed
    _commit(tmp_path, "specs/x", "2")
    assert rotation.rotation_seed() != rotation_seed


def test_without_git_the_date_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rotation, "ROOT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert 700_000 < rotation.rotation_seed() < 900_000


def test_the_parts_are_every_file_once() -> None:
    names = [path.name for path in Path(rotation.ROOT, "tests").rglob("test_*.py")]
    parts = [
        [n for n in names if rotation.is_of_part(n, rotation_seed, 4)]
        for rotation_seed in range(6, 10)
    ]
    assert sorted(name for part in parts for name in part) == sorted(names)
    assert all(len(part) > 0.2 * len(names) for part in parts)


def _collect_tests(*options: str) -> list[str]:
    path, sweep = "tests/backend/test_autocast.py", "tests/sweeps/test_reductions.py"
    paths = (sweep, path)  # the sweeps are collected first
    run = python("-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *paths, *options)
    return [line for line in run.stdout.splitlines() if line.startswith(path)]


def test_the_sweeps_run_what_alternating_tests_leave_out() -> None:
    first, rest = _collect_tests(), _collect_tests("--sweeps")
    assert rest and set(first).isdisjoint(rest)
    assert sorted(first + rest) == sorted(_collect_tests("--every-program"))


def test_the_sweeps_collect_what_make_test_leaves_out() -> None:
    makefile = (rotation.ROOT / "Makefile").read_text().replace("\\\n", "")
    (swept,) = re.findall(r"\nSWEEPS := (.*)", makefile)
    paths = [*(rotation.ROOT / "tests").rglob("*.py")]
    marks_of = {
        p: set(re.findall(r"mark\.(alternates\(|slow\b|sweep\b)", p.read_text())) for p in paths
    }
    del marks_of[Path(__file__)]
    assert sum(map(bool, marks_of.values())) > 50
    for path, marks in marks_of.items():
        if marks - {"slow"} or (marks and "specs" not in path.parts):  # make opsets runs specs/
            name = path.relative_to(rotation.ROOT).as_posix()
            assert any(f"{name}/".startswith(f"{folder}/") for folder in swept.split()), name
