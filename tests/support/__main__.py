"""Install ortable in an environment, run its documents and core tests there, and print a summary.

Run ``python -m tests.support``. The exit status is 1 when anything failed.
"""

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
from .suites import MINUTES, Outcome, run, suites

# The pins of each set; the name of a set is the name of a row of docs/support.md.
SETS: dict[str, tuple[str, ...]] = {
    "newest": (),
    "torch 2.14": ("torch==2.14.*", "onnxruntime==1.31.*"),
    "Python 3.12": (),  # rows of a Python need --interpreter, unless it is the newest one
    "Python 3.14": (),
}


def arguments() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.support", description=__doc__)
    add = parser.add_argument
    add(
        "--set",
        default="newest",
        choices=[*SETS, "pinned"],
        help="the set of versions (default: newest)",
    )
    add("--interpreter", help="the Python of the environment (default: the newest here)")
    add("--folder", type=Path, help="folder of the environment (default: below ~/.cache/ortable)")
    add("--suites", default=",".join(s.name for s in suites(1)), help="names, with commas")
    add("--jobs", type=int, default=os.cpu_count() or 1)
    add("--bounded", action="store_true", help="a fifth of the core tests, by the commit")
    add("--record", action="store_true", help="write the row to docs/support.json and the page")
    add("--page", action="store_true", help="write docs/support.md from docs/support.json only")
    return parser


def environment(options: argparse.Namespace) -> Environment:
    """Return the environment of a set; ``pinned`` is the current environment."""
    if options.set == "pinned":
        return inspect(Path(sys.executable))
    interpreter = options.interpreter or newest_python()
    result = subprocess.run([interpreter, "--version"], capture_output=True, text=True, check=True)
    tag = result.stdout.split()[1].rpartition(".")[0]
    if options.set.startswith("Python ") and options.set != f"Python {tag}":
        sys.exit(f"--set '{options.set}': {interpreter} is Python {tag}; name one by --interpreter")
    name = f"{options.set.replace(' ', '-')}-python{tag}"
    wheel = build_wheel(ROOT / "build" / "dist")
    return install(options.folder or cache_folder() / name, interpreter, wheel, SETS[options.set])


def show(console: Console, target: Environment, outcomes: Sequence[Outcome]) -> None:
    """Print a table with a row for each suite."""
    table = Table(title=", ".join(f"{name} {number}" for name, number in target.versions.items()))
    for head in ("suite", "passed", "failed", "skipped", "seconds"):
        table.add_column(head, justify="left" if head == "suite" else "right")
    for outcome in outcomes:
        row = (outcome.suite, outcome.passed, outcome.failed, outcome.skipped, outcome.seconds)
        table.add_row(*(str(cell) for cell in row))
    console.print(table)


def main(argv: Sequence[str] | None = None) -> int:
    """Install, run the suites, print and record the results."""
    parser = arguments()
    options = parser.parse_args(argv)
    if options.record and options.bounded:
        parser.error("--record is of all tests: leave out --bounded")
    if options.page:
        page.PAGE.write_text(page.text(page.load()), encoding="utf-8")
        return 0
    target = environment(options)
    console = Console(width=100)
    names = options.suites.split(",")
    all_suites = suites(options.jobs, options.bounded)
    minutes = MINUTES[options.bounded]
    outcomes = tuple(run(suite, target, minutes) for suite in all_suites if suite.name in names)
    show(console, target, outcomes)
    if any(outcome.failed or not outcome.passed for outcome in outcomes):
        print("not recorded" if options.record else "failed")
        return 1
    if options.record:
        commit = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True
        ).stdout.strip()
        today = date.today().isoformat()
        page.record(page.Row(options.set, target.versions, commit, today, outcomes))
        page.PAGE.write_text(page.text(page.load()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
