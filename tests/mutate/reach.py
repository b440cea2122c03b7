"""Which tests run each line, for faults that are drawn (`drawn`): a plugin of pytest.

``make test ARGS='-p tests.mutate.reach'`` writes what coverage saw, one file for each process, and
the seconds of each test, to ``build/reach``; `read_reach` puts them together. What a test does in
other processes is not seen.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import coverage
import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "reach"
MEASURED = ("runtime/ortable", "codegen/ortablegen")


@dataclass(frozen=True)
class Reach:
    """What the tests ran.

    Attributes:
        tests: of a file, relative to the repository, the tests that ran each of its lines; lines
            that run at import alone have none.
        seconds: how long each test took, with coverage.
    """

    tests: dict[str, dict[int, frozenset[str]]]
    seconds: dict[str, float]

    def of(self, file: str, line: int) -> list[str]:
        """The tests of a line, the shortest of each test file first: faults are found by tests of
        a topic, not by the hundred samples that also pass there."""
        found = sorted(self.tests.get(file, {}).get(line, ()), key=self.seconds.__getitem__)
        ranks: dict[str, int] = {}
        ranked = []
        for test in found:
            where = test.partition("::")[0]
            ranks[where] = ranks.get(where, -1) + 1
            ranked.append((ranks[where], test))
        return [test for _, test in sorted(ranked, key=lambda each: each[0])]


def read_reach(folder: Path = FOLDER) -> Reach:
    """What the processes wrote.

    Raises:
        FileNotFoundError: nothing was recorded.
    """
    seconds: dict[str, float] = {}
    for path in sorted(folder.glob("*.json")):
        seconds.update(json.loads(path.read_text()))
    if not seconds:
        raise FileNotFoundError(f"nothing in {folder}: make test ARGS='-p tests.mutate.reach'")
    found: dict[str, dict[int, frozenset[str]]] = {}
    for path in sorted(folder.glob("*.coverage")):
        data = coverage.CoverageData(str(path))
        data.read()
        for name in data.measured_files():
            lines = found.setdefault(Path(name).relative_to(ROOT).as_posix(), {})
            for line, tests in data.contexts_by_lineno(name).items():
                lines[line] = lines.get(line, frozenset()) | (seconds.keys() & set(tests))
    return Reach(found, seconds)


class _Recorder:
    """Coverage of one process that runs tests; its context is the test's name."""

    def __init__(self, folder: Path) -> None:
        self._seconds: dict[str, float] = {}
        self._place = folder / str(os.getpid())
        self._coverage = coverage.Coverage(
            data_file=str(self._place.with_suffix(".coverage")),
            source=[str(ROOT / each) for each in MEASURED],
            branch=False,
            config_file=False,
        )
        self._coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._coverage.switch_context(item.nodeid)
        begun = time.perf_counter()
        try:
            return (yield)
        finally:
            self._seconds[item.nodeid] = time.perf_counter() - begun
            self._coverage.switch_context("")

    def pytest_sessionfinish(self) -> None:
        self._coverage.stop()
        self._coverage.save()
        self._place.with_suffix(".json").write_text(json.dumps(self._seconds))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--reach", type=Path, default=FOLDER, help="folder of what each test ran")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    folder = config.getoption("--reach")
    is_worker = hasattr(config, "workerinput")
    if not is_worker:
        shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    if is_worker or not getattr(config.option, "numprocesses", None):
        config.pluginmanager.register(_Recorder(folder), "reach-of-the-tests")
