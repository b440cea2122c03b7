"""``python -m tests.mutate.drawn --count 60``: faults that nobody chose, and whether tests notice.

The list of mutants says little by itself: a test was written for each that none noticed. So faults
are drawn at random from all that `propose` finds in the sources, and the tests that run the line
(`reach`, recorded before) are run with each. Printed are those that no test noticed: somebody says
of each whether a program shows it, and writes the test, or not.
"""

from __future__ import annotations

import argparse
import ast
import random
import sys
from collections.abc import Collection, Sequence
from pathlib import Path

from tests.rotation import turn

from .mutants import ROOT, Mutant
from .propose import proposals
from .reach import MEASURED, Reach, read_reach
from .runner import faults, workers

BUDGET = 40.0  # seconds of tests for a fault, as they took with coverage
MOST = 80  # tests


def main(argv: Sequence[str] | None = None) -> int:
    """Draw, run, and print what nobody noticed."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutate.drawn", description=__doc__)
    parser.add_argument("--count", type=int, default=60, help="so many faults (60)")
    parser.add_argument("--seed", type=int, default=None, help="the commit chooses it")
    parser.add_argument("--jobs", type=int, default=2, help="processes (2)")
    given = parser.parse_args(argv)
    reach = read_reach()
    drawn = draw(reach, given.count, turn() if given.seed is None else given.seed)
    reached = {each.name: each for each in drawn if each.run}
    noticed = 0
    with workers(given.jobs) as pool:
        for verdict in faults(pool, list(reached.values())):
            noticed += verdict.killed
            word = "noticed" if verdict.killed else f"NOT NOTICED ({verdict.outcome})"
            print(f"{word} {verdict.seconds:5.1f} s  {verdict.name}  {verdict.test[:80]}")
            if not verdict.killed:
                print(_shown(reached[verdict.name], reach))
            sys.stdout.flush()
    for each in drawn:
        if not each.run:
            print(f"NO TEST RUNS IT  {each.name}\n{_shown(each, reach)}")
    print(f"{noticed} of {len(drawn)} noticed, {len(drawn) - len(reached)} where no test runs")
    return 0


def draw(reach: Reach, count: int, seed: int, root: Path = ROOT) -> list[Mutant]:
    """So many faults of all that `propose` finds, with the tests to run."""
    every = [
        (path.relative_to(root).as_posix(), old, new)
        for folder in MEASURED
        for path in sorted((root / folder).rglob("*.py"))
        for old, new in proposals(path.read_text())
    ]
    chosen = random.Random(seed).sample(every, count)
    found = []
    for file, old, new in chosen:
        line = _line((root / file).read_text(), old, new, reach.tests.get(file, {}))
        run = tuple(_affordable(reach, reach.of(file, line)))
        found.append(Mutant(f"{file}:{line}", "drawn", file, old, new, "", run))
    return found


def _affordable(reach: Reach, tests: Sequence[str]) -> list[str]:
    taken: list[str] = []
    left = BUDGET
    for test in tests:
        left -= reach.seconds[test]
        if taken and (left < 0 or len(taken) == MOST):
            break
        taken.append(test)
    return taken


def _line(text: str, old: str, new: str, ran: Collection[int]) -> int:
    """Where the two differ first, or the line that ran before it in the same statement: of an
    expression on many lines Python tells some."""
    same = next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), len(new))
    line = text[: text.index(old) + same].count("\n") + 1
    around = (
        each.lineno
        for each in ast.walk(ast.parse(text))
        if isinstance(each, ast.stmt) and each.lineno <= line <= (each.end_lineno or line)
    )
    first = max(around, default=line)
    return next((each for each in range(line, first - 1, -1) if each in ran), line)


def _shown(mutant: Mutant, reach: Reach) -> str:
    old = [f"  - {line}" for line in mutant.text.splitlines()]
    new = [f"  + {line}" for line in mutant.by.splitlines()]
    line = int(mutant.name.rpartition(":")[2])
    count = len(reach.of(mutant.file, line))
    return "\n".join([*old, *new, f"  {len(mutant.run)} tests of the {count} that run the line"])


if __name__ == "__main__":
    sys.exit(main())
