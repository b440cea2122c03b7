"""Apply random mutants and print those that no test notices: ``python -m tests.mutate.drawn``.

mutants.yaml alone does not measure the tests, because each of its mutants has a test. This script
draws mutants from all that `propose` finds, and runs the tests that `reach` recorded for the line.
For each mutant without a failing test, a person decides whether a test is missing.
"""

from __future__ import annotations

import argparse
import ast
import random
import sys
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from tests.rotation import rotation_seed

from .mutants import ROOT, Mutant
from .propose import proposals
from .reach import MEASURED, Reach, read_reach
from .runner import Verdict, Worker, Workers, workers

# Seconds of recorded test time for a mutant: in the first run, and in the second if none fails.
BUDGETS = (40.0, 400.0)
LIMITS = (150.0, 900.0)  # a run that takes longer hangs
NOTICED = ("failed", "crashed", "late", "broken")  # broken: the tests cannot be imported


def main(argv: Sequence[str] | None = None) -> int:
    """Draw mutants, run their tests and print the mutants that no test notices."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutate.drawn", description=__doc__)
    parser.add_argument("--count", type=int, default=60, help="number of mutants (60)")
    parser.add_argument("--seed", type=int, default=None, help="default: from the commit")
    parser.add_argument("--jobs", type=int, default=2, help="number of processes (2)")
    options = parser.parse_args(argv)
    reach = read_reach()
    mutants = draw(reach, options.count, rotation_seed() if options.seed is None else options.seed)
    remaining = {mutant.name: mutant for mutant in mutants if mutant.run}
    with workers(options.jobs) as pool:
        _run(pool, remaining, LIMITS[0])
        longer = {name: select_tests(reach, m, BUDGETS[1]) for name, m in remaining.items()}
        second = {name: m for name, m in longer.items() if m.run != remaining[name].run}
        remaining = {name: mutant for name, mutant in remaining.items() if name not in second}
        _run(pool, second, LIMITS[1])
        remaining |= second
    for mutant in remaining.values():
        print(f"NOT NOTICED  {mutant.name}\n{_format_mutant(mutant, reach)}")
    untested = [mutant for mutant in mutants if not mutant.run]
    for mutant in untested:
        print(f"NO TEST RUNS IT  {mutant.name}\n{_format_mutant(mutant, reach)}")
    noticed = len(mutants) - len(remaining) - len(untested)
    print(f"{noticed} of {len(mutants)} noticed, {len(untested)} where no test runs")
    return 0


def _run(pool: Workers, mutants: dict[str, Mutant], limit: float) -> None:
    """Run the tests of each mutant, and remove the mutants that a test notices."""

    def work(worker: Worker, mutant: Mutant) -> Verdict:
        worker.overlay.apply(mutant)
        try:
            return worker.run(mutant.name, mutant.run, "", limit, False)
        finally:
            worker.overlay.restore(mutant)

    for verdict in pool.map(list(mutants.values()), work):
        status = "noticed" if verdict.outcome in NOTICED else "passed "
        print(f"{status} {verdict.seconds:5.1f} s  {verdict.name}  {verdict.test[:90]}", flush=True)
        if verdict.outcome in NOTICED:
            del mutants[verdict.name]


def draw(reach: Reach, count: int, seed: int, root: Path = ROOT) -> list[Mutant]:
    """Return random mutants of different lines, with the tests to run."""
    candidates = [
        (path.relative_to(root).as_posix(), old, new)
        for folder in MEASURED
        for path in sorted((root / folder).rglob("*.py"))
        for old, new in proposals(path.read_text())
    ]
    random.Random(seed).shuffle(candidates)
    mutants: dict[str, Mutant] = {}
    for file, old, new in candidates:
        line = _line((root / file).read_text(), old, new, reach.tests.get(file, {}))
        mutant = Mutant(f"{file}:{line}", "drawn", file, old, new, "", ())
        mutants.setdefault(mutant.name, select_tests(reach, mutant, BUDGETS[0]))
        if len(mutants) == count:
            break
    return list(mutants.values())


def select_tests(reach: Reach, mutant: Mutant, budget: float) -> Mutant:
    """Return a mutant with tests of at most `budget` seconds, and at least one test."""
    file, _, line = mutant.name.rpartition(":")
    tests: list[str] = []
    for test in reach.of(file, int(line)):
        budget -= reach.seconds[test]
        if tests and budget < 0:
            break
        tests.append(test)
    return replace(mutant, run=tuple(tests))


def _line(text: str, old: str, new: str, ran: Collection[int]) -> int:
    """Return the first changed line, or the line that ran before it in the same statement.

    Python records only some lines of an expression that spans several lines.
    """
    offset = next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), len(new))
    line = text[: text.index(old) + offset].count("\n") + 1
    starts = (
        node.lineno
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or line)
    )
    first = max(starts, default=line)
    return next((number for number in range(line, first - 1, -1) if number in ran), line)


def _format_mutant(mutant: Mutant, reach: Reach) -> str:
    old = [f"  - {line}" for line in mutant.text.splitlines()]
    new = [f"  + {line}" for line in mutant.by.splitlines()]
    line = int(mutant.name.rpartition(":")[2])
    count = len(reach.of(mutant.file, line))
    return "\n".join([*old, *new, f"  {len(mutant.run)} tests of the {count} that run the line"])


if __name__ == "__main__":
    sys.exit(main())
