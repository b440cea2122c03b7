"""``python -m tests.support``: installs ortable as a user does, runs its documents and its core
tests there, and says how it went. Exit status 1 when anything failed."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from rich.console import Console
from rich.table import Table

from . import page
from .environment import (
    ROOT,
    Environment,
    build_wheel,
    cache_folder,
    inspect,
    install,
    newest_python,
)
from .suites import Outcome, run, suites

# What each set holds back. A row of docs/support.md has the set's name.
SETS: dict[str, tuple[str, ...]] = {
    "newest": (),
    "torch 2.14": ("torch==2.14.*", "onnxruntime==1.31.*"),
    "Python 3.14": (),  # with --interpreter, where another one is the newest of the machine
}


def arguments() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.support", description=__doc__)
    add = parser.add_argument
    add(
        "--set",
        default="newest",
        choices=[*SETS, "pinned"],
        help="which versions (default: newest)",
    )
    add("--interpreter", help="the Python of the environment (default: the newest here)")
    add("--folder", type=Path, help="the environment (default: below ~/.cache/ortable)")
    add("--suites", default=",".join(s.name for s in suites(1)), help="which, with commas")
    add("--jobs", type=int, default=os.cpu_count() or 1)
    add(
        "--bounded", action="store_true", help="a fifth of the core tests, which the commit chooses"
    )
    add("--record", action="store_true", help="write the row to docs/support.json and the page")
    add("--page", action="store_true", help="write docs/support.md from docs/support.json, no more")
    return parser


def environment(options: argparse.Namespace) -> Environment:
    """The environment of a set; ``pinned`` is the one that runs this."""
    if options.set == "pinned":
        return inspect(Path(sys.executable))
    interpreter = options.interpreter or newest_python()
    said = subprocess.run([interpreter, "--version"], capture_output=True, text=True, check=True)
    tag = said.stdout.split()[1].rpartition(".")[0]
    if options.set.startswith("Python ") and options.set != f"Python {tag}":
        sys.exit(f"--set '{options.set}': {interpreter} is Python {tag}; name one by --interpreter")
    name = f"{options.set.replace(' ', '-')}-python{tag}"
    wheel = build_wheel(ROOT / "build" / "dist")
    return install(options.folder or cache_folder() / name, interpreter, wheel, SETS[options.set])


def show(console: Console, made: Environment, outcomes: Sequence[Outcome]) -> None:
    """One line a suite."""
    table = Table(title=", ".join(f"{name} {number}" for name, number in made.versions.items()))
    for head in ("suite", "passed", "failed", "skipped", "seconds"):
        table.add_column(head, justify="left" if head == "suite" else "right")
    for each in outcomes:
        row = (each.suite, each.passed, each.failed, each.skipped, each.seconds)
        table.add_row(*(str(cell) for cell in row))
    console.print(table)


def main(argv: Sequence[str] | None = None) -> int:
    """Install, run, report."""
    parser = arguments()
    options = parser.parse_args(argv)
    if options.record and options.bounded:
        parser.error("--record is of all tests: leave out --bounded")
    if options.page:
        page.PAGE.write_text(page.text(page.load()), encoding="utf-8")
        return 0
    made = environment(options)
    console = Console(width=100)
    chosen = options.suites.split(",")
    every = suites(options.jobs, options.bounded)
    outcomes = tuple(run(suite, made) for suite in every if suite.name in chosen)
    show(console, made, outcomes)
    if options.record:
        commit = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True
        ).stdout.strip()
        today = date.today().isoformat()
        page.record(page.Row(options.set, made.versions, commit, today, outcomes))
        page.PAGE.write_text(page.text(page.load()), encoding="utf-8")
    return int(any(outcome.failed or not outcome.passed for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
