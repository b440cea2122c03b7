"""The suites that run in an environment: tests of this checkout against the installed ortable."""

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

# The tests that a version of torch or ONNX Runtime can break: capture, conversion, execution. The
# spec tables are tested with the pinned set, except operators that only newer versions have.
CORE = (
    "tests/backend", "tests/builder", "tests/cli", "tests/compat", "tests/debug", "tests/examples",
    "tests/exporter", "tests/interpreter", "tests/lowerings", "tests/optimizers",
    "tests/specs/test_control_flow.py", "tests/specs/test_newer_operators.py",
)  # fmt: skip
# Limits for a suite, so that a hang fails with its name: bounded, and with all tests.
MINUTES = {True: 20, False: 60}


@dataclass(frozen=True)
class Outcome:
    """The outcome of a suite: counts of tests, or 1 passed for a script with exit status 0."""

    suite: str
    passed: int
    failed: int
    skipped: int
    seconds: float


@dataclass(frozen=True)
class Suite:
    """A column of the table: its title, and the arguments of the interpreter."""

    name: str
    title: str
    command: tuple[str, ...]


def _pytest(*paths: str) -> tuple[str, ...]:
    # the checkout's packages are not on the path, so that the installed ones are tested
    return ("-m", "pytest", "-q", "-o", "pythonpath=.", "-p", "no:cacheprovider", *paths)


def suites(jobs: int, bounded: bool = False) -> tuple[Suite, ...]:
    """Return the suites in the order of their duration.

    ``bounded`` selects a fifth of the core tests by the commit.
    """
    selection = ("--files-of", "5") if bounded else ()
    parallel = ("-n", str(jobs), "--dist", "worksteal")
    pages = "tests/examples/test_documentation.py"
    short = ("--bounded", "--parts", "8", "--jobs", str(jobs))
    return (
        Suite("run", "`make run`", ("examples/train_diabetes.py",)),
        Suite(
            "documents", "blocks of the documents", (*_pytest(pages), *parallel, "--every-program")
        ),
        Suite("core", "core tests", (*_pytest(*CORE), *parallel, *selection, "--deselect", pages)),
        Suite("conformance", "short conformance", ("-m", "tests.conformance", *short)),
    )


def run(suite: Suite, environment: Environment, minutes: int) -> Outcome:
    """Run one suite with its output on the terminal; stop it after some minutes."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        is_pytest = "pytest" in suite.command
        extra = [f"--junitxml={report}"] if is_pytest else []
        if suite.name == "conformance":
            extra = ["--results", str(Path(folder) / "results.jsonl")]
        started = time.monotonic()
        status = _status([str(environment.python), *suite.command, *extra], minutes)
        seconds = round(time.monotonic() - started, 1)
        if not report.exists():
            return Outcome(suite.name, int(status == 0), int(status != 0), 0, seconds)
        passed, failed, skipped = _counts(report)
    # an interrupted run has a report of the completed tests, and is a failure nevertheless
    failed = max(failed, int(status != 0))
    return Outcome(suite.name, passed, failed, skipped, seconds)


def _status(command: list[str], minutes: int) -> int:
    # the root makes `tests` and `benchmarks` importable, but not the packages in its folders
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    print("$", " ".join(command), flush=True)
    try:
        return subprocess.run(command, cwd=ROOT, env=env, timeout=60 * minutes).returncode
    except subprocess.TimeoutExpired:
        print(f"stopped after {minutes} minutes", flush=True)
        return 124


def _counts(report: Path) -> tuple[int, int, int]:
    """Return (passed, failed, skipped) of a JUnit report."""
    counts = [0, 0, 0, 0]
    for suite in _testsuites(report):
        for index, name in enumerate(("tests", "failures", "errors", "skipped")):
            counts[index] += int(suite.get(name, 0))
    tests, failures, errors, skipped = counts
    return tests - failures - errors - skipped, failures + errors, skipped


def _testsuites(report: Path) -> Iterator[ElementTree.Element]:
    yield from ElementTree.parse(report).getroot().iter("testsuite")
