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
from dataclasses import replace
from pathlib import Path

from tests.rotation import turn

from .mutants import ROOT, Mutant
from .propose import proposals
from .reach import MEASURED, Reach, read_reach
from .runner import Verdict, Worker, Workers, workers

# Seconds of tests for a fault, as they took with coverage: at first, and again where none notices.
BUDGETS = (40.0, 400.0)
LIMITS = (150.0, 900.0)  # then they hang
NOTICED = ("failed", "crashed", "late", "broken")  # broken: where the tests are imported


def main(argv: Sequence[str] | None = None) -> int:
    """Draw, run, and print what nobody noticed."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutate.drawn", description=__doc__)
    parser.add_argument("--count", type=int, default=60, help="so many faults (60)")
    parser.add_argument("--seed", type=int, default=None, help="the commit chooses it")
    parser.add_argument("--jobs", type=int, default=2, help="processes (2)")
    given = parser.parse_args(argv)
    reach = read_reach()
    drawn = draw(reach, given.count, turn() if given.seed is None else given.seed)
    left = {each.name: each for each in drawn if each.run}
    with workers(given.jobs) as pool:
        _run(pool, left, LIMITS[0])
        longer = {name: within(reach, each, BUDGETS[1]) for name, each in left.items()}
        again = {name: each for name, each in longer.items() if each.run != left[name].run}
        left = {name: each for name, each in left.items() if name not in again}
        _run(pool, again, LIMITS[1])
        left |= again
    for each in left.values():
        print(f"NOT NOTICED  {each.name}\n{_shown(each, reach)}")
    unrun = [each for each in drawn if not each.run]
    for each in unrun:
        print(f"NO TEST RUNS IT  {each.name}\n{_shown(each, reach)}")
    noticed = len(drawn) - len(left) - len(unrun)
    print(f"{noticed} of {len(drawn)} noticed, {len(unrun)} where no test runs")
    return 0


def _run(pool: Workers, mutants: dict[str, Mutant], limit: float) -> None:
    """Runs the tests of each, and takes out those that a test notices."""

    def work(worker: Worker, mutant: Mutant) -> Verdict:
        worker.overlay.apply(mutant)
        try:
            return worker.run(mutant.name, mutant.run, "", limit, False)
        finally:
            worker.overlay.restore(mutant)

    for verdict in pool.each(list(mutants.values()), work):
        word = "noticed" if verdict.outcome in NOTICED else "passed "
        print(f"{word} {verdict.seconds:5.1f} s  {verdict.name}  {verdict.test[:90]}", flush=True)
        if verdict.outcome in NOTICED:
            del mutants[verdict.name]


def draw(reach: Reach, count: int, seed: int, root: Path = ROOT) -> list[Mutant]:
    """So many faults of all that `propose` finds, one of a line, with the tests to run."""
    every = [
        (path.relative_to(root).as_posix(), old, new)
        for folder in MEASURED
        for path in sorted((root / folder).rglob("*.py"))
        for old, new in proposals(path.read_text())
    ]
    random.Random(seed).shuffle(every)
    found: dict[str, Mutant] = {}
    for file, old, new in every:
        line = _line((root / file).read_text(), old, new, reach.tests.get(file, {}))
        mutant = Mutant(f"{file}:{line}", "drawn", file, old, new, "", ())
        found.setdefault(mutant.name, within(reach, mutant, BUDGETS[0]))
        if len(found) == count:
            break
    return list(found.values())


def within(reach: Reach, mutant: Mutant, budget: float) -> Mutant:
    """The same with tests that take so many seconds, one at least."""
    file, _, line = mutant.name.rpartition(":")
    taken: list[str] = []
    for test in reach.of(file, int(line)):
        budget -= reach.seconds[test]
        if taken and budget < 0:
            break
        taken.append(test)
    return replace(mutant, run=tuple(taken))


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
