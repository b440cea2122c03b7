"""Run derived samples and report by entry, sample and outcome: ``python -m tests.derive``.

Results are stored, so that a stopped run continues; ``--fresh`` restarts. The exit status is 0 when
every failure is known (known.yaml, and ``deviates:`` of the entries) and still fails.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

import yaml

from .known import Known, read_known, shortened
from .parts import TENTH, Part, chosen, deviations, key_of, rotating
from .runner import Outcome
from .workers import run

Results = dict[str, list[Outcome]]


def main(argv: list[str] | None = None) -> int:
    """Run and report, and return the exit status."""
    options = _arguments(argv)
    part = rotating(TENTH, options.seed) if options.bounded else Part()
    if options.bounded:
        print(f"every {part.count}th form, from number {part.number} (--seed {part.number})")
    path = options.results / f"{part.number}-of-{part.count}.jsonl"
    if options.fresh:
        path.unlink(missing_ok=True)
    entries = chosen(options.entries, options.part)
    done = _read(path)
    remaining = [entry for entry in entries if key_of(entry) not in done]
    print(f"{len(entries)} entries, {len(remaining)} to run; results in {path}", flush=True)
    known = read_known(deviations(entries))
    started = time.monotonic()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        for key, outcomes in run(remaining, options.jobs, part):
            file.write(json.dumps([key, [asdict(outcome) for outcome in outcomes]]) + "\n")
            file.flush()
            done[key] = outcomes
            _show(known.unknown(outcomes))
            if time.monotonic() - started > options.seconds:
                print("out of time: run the command again to continue")
                return 2
    results = {key_of(entry): done[key_of(entry)] for entry in entries}
    if options.record:
        print(yaml.safe_dump(shortened(_unknown(known, results)), width=1000))
    return _report(known, results, is_complete=part.count == 1)


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.derive", description=__doc__)
    parser.add_argument("--part", default="1/1", help="the n-th of m parts of the entries: 3/20")
    parser.add_argument("--entries", default="", help="operators or files of specs/aten, by name")
    parser.add_argument("--bounded", action="store_true", help="a rotating tenth of the forms")
    parser.add_argument("--seed", type=int, help="the tenth to run (default: from the commit)")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--results", type=Path, default=Path("build/derive"))
    parser.add_argument("--fresh", action="store_true", help="delete the results of earlier runs")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after this time")
    parser.add_argument("--record", action="store_true", help="print patterns of new failures")
    return parser.parse_args(argv)


def _read(path: Path) -> Results:
    done = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        key, outcomes = json.loads(line)
        done[key] = [Outcome(**fields) for fields in outcomes]
    return done


def _unknown(known: Known, results: Results) -> list[Outcome]:
    return known.unknown(o for outcomes in results.values() for o in outcomes)


def _show(failures: Iterable[Outcome]) -> None:
    for failure in failures:
        print(failure.line()[:240], flush=True)


def _report(known: Known, results: Results, is_complete: bool) -> int:
    unknown = _unknown(known, results)
    kinds = Counter(o.kind for outcomes in results.values() for o in outcomes)
    print(", ".join(f"{count} {kind}" for kind, count in kinds.most_common()))
    stale = known.stale(results) if is_complete else []
    for line in stale:
        print(f"passes, remove it from the list: {line}")
    for entry, count in Counter(o.entry for o in unknown).most_common():
        print(f"{entry}: {count} failures that are not known")
    print(f"{len(unknown)} failures that are not known, {len(stale)} known ones that pass")
    return 1 if unknown or stale else 0


if __name__ == "__main__":
    sys.exit(main())
