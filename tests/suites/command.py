"""The command line that the suites share."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from tqdm import tqdm

from tests.rotation import rotation_seed

from .expected import LISTABLE, UNDEFINED, Expectations, compact, judge, load, matching, part_of
from .workers import Record, run


@dataclass(frozen=True)
class Suite:
    """A suite: functions that collect its cases, check one, and count a whole run.

    The short run of CI is one of ``parts``. Exceptions are in expected/ unless ``exceptions`` loads
    them; ``summary`` prints more.
    """

    name: str
    collect: Callable[[], Sequence[str]]
    check: Callable[[str], Record]
    counts: Callable[[Sequence[Record]], Mapping[str, int]]
    parts: int
    limit_s: float = 60.0
    exceptions: Callable[[], Expectations] | None = None
    summary: Callable[[Console, Sequence[Record]], None] | None = None


def arguments(suite: Suite) -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(prog=suite.name, description=__doc__)
    add = parser.add_argument
    add("names", nargs="*", help="cases, with wildcards (default: all)")
    add("--part", default="", metavar="I/N", help="the I-th of N parts, from 1 on")
    add(
        "--bounded",
        action="store_true",
        help="the short run of CI: a part selected by the commit",
    )
    add("--jobs", type=int, default=os.cpu_count() or 1)
    add("--limit", type=float, default=suite.limit_s, help="seconds a case may take")
    add("--results", type=Path, default=Path(f"build/{suite.name}.jsonl"))
    add("--resume", action="store_true", help="continue an interrupted run")
    add("--list", action="store_true", help="print the groups that are not listed")
    return parser


def main(suite: Suite, argv: Sequence[str] | None = None) -> int:
    """Run and report, and return the exit status."""
    options = arguments(suite).parse_args(argv)
    expected = load(suite.name) if suite.exceptions is None else suite.exceptions()
    all_cases = suite.collect()
    console = Console()
    part, parts = _select_part(options, suite, console)
    selected = part_of(matching(all_cases, options.names), part, parts)
    earlier = _read(options.results, selected) if options.resume else []
    remaining = [case for case in selected if case not in {record.case for record in earlier}]
    records = [*earlier, *_run(suite, remaining, options)]
    counts = suite.counts(records)
    _report(console, records, counts, expected)
    if suite.summary is not None:
        suite.summary(console, records)
    if options.list:
        _print_groups(console, records)
    problems = judge(records, selected, all_cases, expected, counts)
    for line in problems:
        console.print(line, style="red", markup=False, highlight=False, soft_wrap=True)
    console.print(f"{len(problems)} problems" if problems else "as expected")
    return 1 if problems else 0


def _select_part(options: argparse.Namespace, suite: Suite, console: Console) -> tuple[int, int]:
    if options.part:
        part, parts = map(int, options.part.split("/"))
        return part - 1, parts
    if not options.bounded:
        return 0, 1
    part = rotation_seed() % suite.parts
    console.print(f"{suite.name}: the short run, --part {part + 1}/{suite.parts}")
    return part, suite.parts


def _run(suite: Suite, cases: Sequence[str], options: argparse.Namespace) -> list[Record]:
    records = []
    options.results.parent.mkdir(parents=True, exist_ok=True)
    tqdm.monitor_interval = 0  # a thread of the progress bar must not exist at a fork
    with options.results.open("a" if options.resume else "w") as file:
        results = run(cases, suite.check, options.jobs, options.limit)
        for record in tqdm(results, total=len(cases), disable=not sys.stderr.isatty()):
            records.append(record)
            file.write(json.dumps(record.as_json()) + "\n")
            file.flush()
    return records


def _read(path: Path, selected: Sequence[str]) -> list[Record]:
    if not path.exists():
        return []
    records = [Record(**json.loads(line)) for line in path.read_text().splitlines()]
    cases = set(selected)
    return [record for record in records if record.case in cases]


def _report(
    console: Console,
    records: Sequence[Record],
    counts: Mapping[str, int],
    expected: Expectations,
) -> None:
    outcomes = Counter(record.outcome for record in records)
    console.print(f"{len(records)} cases: {dict(outcomes.most_common())}, {dict(counts)}")
    for record in records:
        allowed = UNDEFINED if expected.is_undefined(record.case) else ("exact", *LISTABLE)
        if record.outcome not in allowed:
            text = f"{record.case}: {record.outcome} ({record.where}): {record.detail}"
            console.print(text, markup=False, highlight=False, soft_wrap=True)


def _print_groups(console: Console, records: Sequence[Record]) -> None:
    """Print cases that are not exact, by outcome and detail, as YAML to start from."""
    groups: dict[tuple[str, str], list[str]] = {}
    for record in records:
        if record.outcome != "exact":
            groups.setdefault((record.outcome, record.detail[:160]), []).append(record.case)
    for (outcome, detail), cases in sorted(groups.items()):
        lines = [f"- outcome: {outcome}", f"  reason: {json.dumps(detail)}", "  cases:"]
        lines += [
            f"    - {case}" if isinstance(case, str) else f"    - {{{_format_numbered(case)}}}"
            for case in compact(cases)
        ]
        console.print("\n".join(lines), markup=False, highlight=False, soft_wrap=True)


def _format_numbered(case: Mapping[str, str]) -> str:
    ((prefix, numbers),) = case.items()
    return f'{prefix}: "{numbers}"'
