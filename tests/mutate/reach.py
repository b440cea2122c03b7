"""A pytest plugin that records which tests run each line, for `drawn`.

``make test ARGS='-p tests.mutate.reach'`` writes the coverage of each process and the seconds of
each test to ``build/reach``, and `read_reach` merges them. Child processes are not recorded.
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
    """The lines that the tests ran.

    Attributes:
        tests: for each file, relative to the repository, the tests that ran each line; lines that
            run only at import have none here.
        seconds: the duration of each test, with coverage.
    """

    tests: dict[str, dict[int, frozenset[str]]]
    seconds: dict[str, float]

    def of(self, file: str, line: int) -> list[str]:
        """Return the tests of a line: the shortest of every test file, then the second shortest.

        A test of the topic finds a mutant sooner than the many sample tests that run the line.
        Lines that run at import, in a child process or not at all have the tests of their file.
        """
        lines = self.tests.get(file, {})
        tests = lines.get(line) or frozenset().union(*lines.values())
        tests = sorted(tests, key=self.seconds.__getitem__)
        ranks: dict[str, int] = {}
        ranked = []
        for test in tests:
            module = test.partition("::")[0]
            ranks[module] = ranks.get(module, -1) + 1
            ranked.append((ranks[module], test))
        return [test for _, test in sorted(ranked, key=lambda pair: pair[0])]


def read_reach(folder: Path = FOLDER) -> Reach:
    """Merge the files that the processes wrote.

    Raises:
        FileNotFoundError: nothing was recorded.
    """
    seconds: dict[str, float] = {}
    for path in sorted(folder.glob("*.json")):
        seconds.update(json.loads(path.read_text()))
    if not seconds:
        raise FileNotFoundError(f"nothing in {folder}: make test ARGS='-p tests.mutate.reach'")
    by_file: dict[str, dict[int, frozenset[str]]] = {}
    for path in sorted(folder.glob("*.coverage")):
        data = coverage.CoverageData(str(path))
        data.read()
        for name in data.measured_files():
            lines = by_file.setdefault(Path(name).relative_to(ROOT).as_posix(), {})
            for line, tests in data.contexts_by_lineno(name).items():
                lines[line] = lines.get(line, frozenset()) | (seconds.keys() & set(tests))
    return Reach(by_file, seconds)


class _Recorder:
    """Coverage of one process that runs tests; the context is the name of the test."""

    def __init__(self, folder: Path) -> None:
        self._seconds: dict[str, float] = {}
        self._path = folder / str(os.getpid())
        self._coverage = coverage.Coverage(
            data_file=str(self._path.with_suffix(".coverage")),
            source=[str(ROOT / folder_name) for folder_name in MEASURED],
            branch=False,
            config_file=False,
        )
        self._coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._coverage.switch_context(item.nodeid)
        started = time.perf_counter()
        try:
            return (yield)
        finally:
            self._seconds[item.nodeid] = time.perf_counter() - started
            self._coverage.switch_context("")

    def pytest_sessionfinish(self) -> None:
        self._coverage.stop()
        self._coverage.save()
        self._path.with_suffix(".json").write_text(json.dumps(self._seconds))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--reach", type=Path, default=FOLDER, help="folder for the recorded coverage")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    folder = config.getoption("--reach")
    is_worker = hasattr(config, "workerinput")
    if not is_worker:
        shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    if is_worker or not getattr(config.option, "numprocesses", None):
        config.pluginmanager.register(_Recorder(folder), "reach-of-the-tests")
