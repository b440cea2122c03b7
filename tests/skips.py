"""A plugin that fails a run with skips or expected failures that skips.yaml does not allow.

Otherwise a test that needs something unavailable everywhere would always pass. tests/conftest.py
registers the plugin.
"""

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
    """Tests of a file that may be skipped, with a text that the reason must contain."""

    file: str
    reason: str
    most: int
    because: str

    def fits(self, nodeid: str, reason: str) -> bool:
        """Return whether a skipped test matches this row."""
        return nodeid.partition("::")[0] == self.file and self.reason in reason


@cache
def allowed() -> tuple[Allowed, ...]:
    """Return the rows of skips.yaml."""
    return tuple(Allowed(**row) for row in yaml.safe_load(LIST.read_text(encoding="utf-8")))


def faulty(skipped: Iterable[tuple[str, str]], rows: Sequence[Allowed]) -> list[str]:
    """Return messages about skipped tests `(node id, reason)` without a row or above its limit."""
    counts = dict.fromkeys(rows, 0)
    lines = []
    for nodeid, reason in skipped:
        row = next((item for item in rows if item.fits(nodeid, reason)), None)
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
    """A plugin that collects skips and fails the run at its end.

    With xdist the process that distributes the tests gets all reports.
    """

    skipped: list[tuple[str, str]] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record a test that was skipped or failed as expected."""
        self._add(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Record a file that was skipped."""
        self._add(report)

    def _add(self, report: Any) -> None:
        if report.skipped:
            reason = getattr(report, "wasxfail", None)
            if reason is None:
                reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
            self.skipped.append((report.nodeid, reason.removeprefix("Skipped: ")))

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail a run whose tests passed."""
        if hasattr(session.config, "workerinput"):
            return
        self.messages = faulty(self.skipped, allowed())
        if self.messages and session.exitstatus in (0, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the messages."""
        for line in self.messages:
            terminalreporter.write_line(f"SKIPS {line}", red=True)
