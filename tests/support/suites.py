"""What runs in an environment, and how it went. The tests are those of this checkout; the ortable
that they import is the one that is installed there."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .environment import ROOT, Environment

# The parts of the tests that a version of torch or ONNX Runtime can break: what is captured, how it
# is converted, how it runs. The tables themselves are tested with the pinned set, but for operators
# that it does not have.
CORE = (
    "tests/backend", "tests/builder", "tests/cli", "tests/compat", "tests/debug", "tests/examples",
    "tests/exporter", "tests/interpreter", "tests/lowerings", "tests/optimizers",
    "tests/specs/test_control_flow.py", "tests/specs/test_newer_operators.py",
)  # fmt: skip
MINUTES = 20  # what a suite may take, so that a hang fails by its name


@dataclass(frozen=True)
class Outcome:
    """One suite in one environment: counts of tests, or 1 passed for a script that ended well."""

    suite: str
    passed: int
    failed: int
    skipped: int
    seconds: float


@dataclass(frozen=True)
class Suite:
    """A column of the table: its title, and the command behind the interpreter."""

    name: str
    title: str
    command: tuple[str, ...]


def _pytest(*paths: str) -> tuple[str, ...]:
    # the checkout's own packages are left off the path: the installed ones are under test
    return ("-m", "pytest", "-q", "-o", "pythonpath=.", "-p", "no:cacheprovider", *paths)


def suites(jobs: int, bounded: bool = False) -> tuple[Suite, ...]:
    """The suites in the order in which they run, the shortest first; ``bounded``: of the core tests
    the fifth that the commit chooses."""
    part = ("--files-of", "5") if bounded else ()
    parallel = ("-n", str(jobs), "--dist", "worksteal")
    pages = "tests/examples/test_documentation.py"
    short = ("--bounded", "--parts", "8", "--jobs", str(jobs))
    return (
        Suite("run", "`make run`", ("examples/train_diabetes.py",)),
        Suite(
            "documents", "blocks of the documents", (*_pytest(pages), *parallel, "--every-program")
        ),
        Suite("core", "core tests", (*_pytest(*CORE), *parallel, *part, "--deselect", pages)),
        Suite("conformance", "short conformance", ("-m", "tests.conformance", *short)),
    )


def run(suite: Suite, environment: Environment) -> Outcome:
    """Runs one suite; its output goes to the terminal as it comes."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        is_pytest = "pytest" in suite.command
        extra = [f"--junitxml={report}"] if is_pytest else []
        if suite.name == "conformance":
            extra = ["--results", str(Path(folder) / "results.jsonl")]
        started = time.monotonic()
        status = _status([str(environment.python), *suite.command, *extra])
        seconds = round(time.monotonic() - started, 1)
        if not report.exists():
            return Outcome(suite.name, int(status == 0), int(status != 0), 0, seconds)
        passed, failed, skipped = _counts(report)
    # a run that broke off has a report of what came before; it failed all the same
    failed = max(failed, int(status != 0))
    return Outcome(suite.name, passed, failed, skipped, seconds)


def _status(command: list[str]) -> int:
    # `tests` and `benchmarks` are found; the packages are not: they lie in folders below
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    print("$", " ".join(command), flush=True)
    try:
        return subprocess.run(command, cwd=ROOT, env=env, timeout=60 * MINUTES).returncode
    except subprocess.TimeoutExpired:
        print(f"stopped after {MINUTES} minutes", flush=True)
        return 124


def _counts(report: Path) -> tuple[int, int, int]:
    """(passed, failed, skipped) of a report in JUnit's format."""
    counts = [0, 0, 0, 0]
    for suite in _testsuites(report):
        for index, name in enumerate(("tests", "failures", "errors", "skipped")):
            counts[index] += int(suite.get(name, 0))
    tests, failures, errors, skipped = counts
    return tests - failures - errors - skipped, failures + errors, skipped


def _testsuites(report: Path) -> Iterator[ElementTree.Element]:
    yield from ElementTree.parse(report).getroot().iter("testsuite")
