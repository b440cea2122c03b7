"""``python -m tests.derive``: runs derived samples and reports by entry, sample and outcome.

Results are kept, so that a run that was stopped goes on; ``--fresh`` begins again. 0 when every
failure is known (known.yaml, and ``deviates:`` of the entries) and every known one still fails.
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
    """Run, report, and tell whether something failed that nobody wrote down."""
    given = _arguments(argv)
    part = rotating(TENTH, given.seed) if given.bounded else Part()
    if given.bounded:
        print(f"every {part.count}th form, from number {part.number} (--seed {part.number})")
    path = given.results / f"{part.number}-of-{part.count}.jsonl"
    if given.fresh:
        path.unlink(missing_ok=True)
    entries = chosen(given.entries, given.part)
    done = _read(path)
    rest = [entry for entry in entries if key_of(entry) not in done]
    print(f"{len(entries)} entries, {len(rest)} to run; results in {path}", flush=True)
    known = read_known(deviations(entries))
    begun = time.monotonic()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        for key, outcomes in run(rest, given.jobs, part):
            file.write(json.dumps([key, [asdict(each) for each in outcomes]]) + "\n")
            file.flush()
            done[key] = outcomes
            _show(known.unknown(outcomes))
            if time.monotonic() - begun > given.seconds:
                print("out of time: run it again to go on")
                return 2
    results = {key_of(entry): done[key_of(entry)] for entry in entries}
    if given.record:
        print(yaml.safe_dump(shortened(_unknown(known, results)), width=1000))
    return _report(known, results, whole=part.count == 1)


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.derive", description=__doc__)
    parser.add_argument("--part", default="1/1", help="the n-th of m parts of the entries: 3/20")
    parser.add_argument("--entries", default="", help="operators or files of specs/aten, by name")
    parser.add_argument("--bounded", action="store_true", help="a rotating tenth of the forms")
    parser.add_argument("--seed", type=int, help="which tenth (default: by the commit)")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--results", type=Path, default=Path("build/derive"))
    parser.add_argument("--fresh", action="store_true", help="forget the results of earlier runs")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so many seconds")
    parser.add_argument("--record", action="store_true", help="print patterns of new failures")
    return parser.parse_args(argv)


def _read(path: Path) -> Results:
    done = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        key, outcomes = json.loads(line)
        done[key] = [Outcome(**each) for each in outcomes]
    return done


def _unknown(known: Known, results: Results) -> list[Outcome]:
    return known.unknown(each for outcomes in results.values() for each in outcomes)


def _show(failures: Iterable[Outcome]) -> None:
    for each in failures:
        print(each.line()[:240], flush=True)


def _report(known: Known, results: Results, whole: bool) -> int:
    unknown = _unknown(known, results)
    kinds = Counter(each.kind for outcomes in results.values() for each in outcomes)
    print(", ".join(f"{count} {kind}" for kind, count in kinds.most_common()))
    stale = known.stale(results) if whole else []
    for line in stale:
        print(f"fails no more, take it off the list: {line}")
    for entry, count in Counter(each.entry for each in unknown).most_common():
        print(f"{entry}: {count} failures that are not known")
    print(f"{len(unknown)} failures that are not known, {len(stale)} known ones that fail no more")
    return 1 if unknown or stale else 0


if __name__ == "__main__":
    sys.exit(main())
