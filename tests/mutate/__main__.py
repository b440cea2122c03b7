"""``python -m tests.mutate``: puts each fault of mutants.yaml into a copy of the tree and runs the
tests that must notice it. ``--bounded`` takes a handful, which the commit chooses. 0 when every
fault is noticed, or is one of those that nobody can notice.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Sequence

from tests.rotation import turn

from .mutants import Mutant, problem, read_mutants
from .report import RECORD, counts, faulty, record, survivors, table
from .runner import Verdict, Workers, baseline, faults, workers

HANDFUL = 16


def main(argv: Sequence[str] | None = None) -> int:
    """Run, report, and tell whether a fault went unnoticed."""
    given = _arguments(argv)
    every = read_mutants()
    problems = [text for text in map(problem, every) if text]
    chosen = _chosen(every, given)
    if problems or not chosen:
        print("\n".join(problems or ["no mutant has such a name"]))
        return 2
    begun = time.monotonic()
    with workers(given.jobs) as pool:
        red, verdicts = _run(pool, chosen)
    if red:
        print("\n".join(["these fail without any fault:", *red]))
        return 1
    lines = faulty(chosen, verdicts)
    whole = survivors(chosen)
    print("", table(counts(chosen, verdicts)), "", sep="\n")
    print("\n".join([*(f"not noticed: {each}" for each in whole), *lines]))
    print(f"{len(chosen)} of {len(every)} mutants, {time.monotonic() - begun:.0f} s")
    if given.record and len(chosen) == len(every) and not lines:
        RECORD.write_text(record(every, verdicts))
    return int(bool(lines))


def _run(pool: Workers, chosen: Sequence[Mutant]) -> tuple[list[str], dict[str, Verdict]]:
    """What fails without a fault, and the verdict on each mutant (none when something does)."""
    red = []
    for verdict in baseline(pool, chosen):
        shown = f"{verdict.name[:90]}..." if len(verdict.name) > 90 else verdict.name
        print(f"{verdict.outcome} {verdict.seconds:5.1f} s  {shown}", flush=True)
        if verdict.outcome != "passed":
            red.append(f"{verdict.name}: {verdict.outcome} {verdict.test} {verdict.said}")
    verdicts: dict[str, Verdict] = {}
    for verdict in faults(pool, chosen) if not red else ():
        verdicts[verdict.name] = verdict
        word = "killed" if verdict.killed else "SURVIVES"
        first = verdict.said.splitlines()[0][:90] if verdict.said else ""
        print(f"{word} {verdict.seconds:5.1f} s  {verdict.name}  {verdict.outcome}: {first}")
        sys.stdout.flush()
    return red, verdicts


def _chosen(every: Sequence[Mutant], given: argparse.Namespace) -> list[Mutant]:
    if given.only:
        return [each for each in every if any(part in each.name for part in given.only)]
    if given.bounded:
        drawn = random.Random(turn()).sample(range(len(every)), min(HANDFUL, len(every)))
        return [every[number] for number in sorted(drawn)]
    return list(every)


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutate", description=__doc__)
    parser.add_argument("--bounded", action="store_true", help=f"{HANDFUL} of them, in rotation")
    parser.add_argument("--only", action="append", metavar="NAME", help="part of a name; again")
    parser.add_argument("--jobs", type=int, default=2, help="processes (2)")
    parser.add_argument("--record", action="store_true", help="write recorded.yaml after all")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
