"""Apply each mutant of mutants.yaml to a copy of the tree and run the tests that must notice it.

``--bounded`` runs a few mutants, which the commit selects. The exit status is 0 when
tests notice every mutant, except those listed as equivalent.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Sequence

from tests.rotation import rotation_seed

from .mutants import Mutant, problem, read_mutants
from .report import RECORD, counts, faulty, record, survivors, table
from .runner import Verdict, Workers, baseline, faults, workers

HANDFUL = 16


def main(argv: Sequence[str] | None = None) -> int:
    """Run the mutants, print a report and return the exit status."""
    options = _parse_arguments(argv)
    mutants = read_mutants()
    problems = [text for text in map(problem, mutants) if text]
    selected = _select_mutants(mutants, options)
    if problems or not selected:
        print("\n".join(problems or ["no mutant matches --only"]))
        return 2
    started = time.monotonic()
    with workers(options.jobs) as pool:
        failures, verdicts = _run(pool, selected)
    if failures:
        print("\n".join(["these fail without a mutant:", *failures]))
        return 1
    lines = faulty(selected, verdicts)
    unnoticed = survivors(selected)
    print("", table(counts(selected, verdicts)), "", sep="\n")
    print("\n".join([*(f"not noticed: {line}" for line in unnoticed), *lines]))
    print(f"{len(selected)} of {len(mutants)} mutants, {time.monotonic() - started:.0f} s")
    if options.record and len(selected) == len(mutants) and not lines:
        RECORD.write_text(record(mutants, verdicts))
    return int(bool(lines))


def _run(pool: Workers, selected: Sequence[Mutant]) -> tuple[list[str], dict[str, Verdict]]:
    """Return the failures without a mutant, and the verdict on each mutant if there are none."""
    failures = []
    for verdict in baseline(pool, selected):
        label = f"{verdict.name[:90]}..." if len(verdict.name) > 90 else verdict.name
        print(f"{verdict.outcome} {verdict.seconds:5.1f} s  {label}", flush=True)
        if verdict.outcome != "passed":
            failures.append(f"{verdict.name}: {verdict.outcome} {verdict.test} {verdict.message}")
    verdicts: dict[str, Verdict] = {}
    for verdict in faults(pool, selected) if not failures else ():
        verdicts[verdict.name] = verdict
        status = "killed" if verdict.killed else "SURVIVES"
        message = verdict.message.splitlines()[0][:90] if verdict.message else ""
        print(f"{status} {verdict.seconds:5.1f} s  {verdict.name}  {verdict.outcome}: {message}")
        sys.stdout.flush()
    return failures, verdicts


def _select_mutants(mutants: Sequence[Mutant], options: argparse.Namespace) -> list[Mutant]:
    if options.only:
        return [mutant for mutant in mutants if any(part in mutant.name for part in options.only)]
    if options.bounded:
        indices = random.Random(rotation_seed()).sample(
            range(len(mutants)), min(HANDFUL, len(mutants))
        )
        return [mutants[index] for index in sorted(indices)]
    return list(mutants)


def _parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutate", description=__doc__)
    parser.add_argument("--bounded", action="store_true", help=f"run {HANDFUL}, in rotation")
    parser.add_argument("--only", action="append", metavar="NAME", help="part of a name")
    parser.add_argument("--jobs", type=int, default=2, help="number of processes (2)")
    parser.add_argument("--record", action="store_true", help="update recorded.yaml")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
