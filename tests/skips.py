"""Skips have a list. A test that is skipped, or is expected to fail, for a reason that skips.yaml
does not have, or more of them than it allows, makes the run fail: a test that asks for something
nobody has anywhere would otherwise be green for ever.

tests/conftest.py registers Skips; the list is read by tests/packaging, too."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

LIST = Path(__file__).with_suffix(".yaml")


@dataclass(frozen=True)
class Allowed:
    """Tests of a file that may be skipped: those whose reason has a text in it."""

    file: str
    reason: str
    most: int
    because: str

    def fits(self, nodeid: str, reason: str) -> bool:
        """Whether a skipped test is one of these."""
        return nodeid.partition("::")[0] == self.file and self.reason in reason


@cache
def allowed() -> tuple[Allowed, ...]:
    """The list."""
    return tuple(Allowed(**row) for row in yaml.safe_load(LIST.read_text(encoding="utf-8")))


def faulty(skipped: Iterable[tuple[str, str]], rows: Sequence[Allowed]) -> list[str]:
    """What is wrong with skipped tests `(node id, reason)`: those of no row, and rows that have
    more than they allow."""
    counts = dict.fromkeys(rows, 0)
    lines = []
    for nodeid, reason in skipped:
        row = next((each for each in rows if each.fits(nodeid, reason)), None)
        if row is None:
            lines.append(f"{nodeid} is skipped and not in {LIST.name}: {reason}")
        else:
            counts[row] += 1
    lines += [
        f"{row.file}: {count} are skipped for {row.reason!r}, and {LIST.name} allows {row.most}"
        for row, count in counts.items()
        if count > row.most
    ]
    return lines


@dataclass(eq=False)
class Skips:
    """The plugin: it collects what was skipped, and fails the run at its end. With xdist the
    process that hands tests out sees the reports of all."""

    found: list[tuple[str, str]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test that was skipped, or failed as expected."""
        self._add(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file that was skipped as a whole."""
        self._add(report)

    def _add(self, report: Any) -> None:
        if report.skipped:
            reason = getattr(report, "wasxfail", None)
            if reason is None:
                reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
            self.found.append((report.nodeid, reason.removeprefix("Skipped: ")))

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Red, where the tests themselves were green."""
        if hasattr(session.config, "workerinput"):
            return
        self.wrong = faulty(self.found, allowed())
        if self.wrong and session.exitstatus in (0, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Says which."""
        for line in self.wrong:
            terminalreporter.write_line(f"SKIPS {line}", red=True)
