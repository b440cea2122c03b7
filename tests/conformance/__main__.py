"""Run PyTorch's operator tests (OpInfo) through ortable: ``python -m tests.conformance``.

Every sample call is exported, converted, checked, run by ONNX Runtime and compared with eager, at
several opsets, with static and with dynamic shapes; the torch.compile backend runs it, too. Exit
status 1 when an outcome is not expected or an expectation is stale (expected.py), 3 when
``--minutes`` ended before everything had run.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from tqdm import tqdm

from tests.conformance import expected, plan, report, workers
from tests.conformance.samples import DTYPES
from tests.rotation import rotation_seed

MEASURED = Path("specs/runtime/conformance.yaml")
UNFINISHED = 3


def arguments() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    add = parser.add_argument
    add("names", nargs="*", default=["*"], help="OpInfos, with wildcards (default: all)")
    add("--dtypes", help=f"of {','.join(DTYPES)} (default: all)")
    add("--samples", type=int, help="maximum for an OpInfo and dtype (default: see plan.py)")
    add("--opsets", help="default: oldest, newest, and for some dtypes a middle one")
    add("--modes", help="static, dynamic (default: both)")
    add("--kinds", default=",".join(plan.KINDS))
    add("--jobs", type=int, default=os.cpu_count() or 1)
    add("--limit", type=float, default=60.0, help="seconds a sample may take")
    add("--results", type=Path, default=Path("build/conformance.jsonl"))
    add("--resume", action="store_true", help="continue an interrupted run")
    add("--minutes", type=float, help="start no task after this time; --resume continues")
    add("--bounded", action="store_true", help="the short run of CI: a share of the groups")
    add("--part", type=int, help="the share of the short run (default: from the commit)")
    add("--parts", default="1", help="N: one of N equal parts of the OpInfos; i/N: the i-th")
    add("--record", action="store_true", help=f"write the numbers to {MEASURED}")
    add("--record-expected", action="store_true",
        help="write which samples fail to tests/conformance/recorded-V.yaml")  # fmt: skip
    return parser


def choice_of(options: argparse.Namespace) -> plan.Choice:
    """Return the choice that the command line makes."""
    part = rotation_seed() if options.part is None else options.part
    index, _, parts = options.parts.rpartition("/")
    opsets = tuple(int(opset) for opset in options.opsets.split(",")) if options.opsets else None
    return plan.Choice(
        names=options.names, kinds=options.kinds.split(","),
        dtypes=options.dtypes.split(",") if options.dtypes else None,
        samples=options.samples, opsets=opsets,
        modes=tuple(options.modes.split(",")) if options.modes else None,
        bounded=options.bounded, part=part, slices=int(parts),
        slice=int(index) if index else (part if options.bounded else 0),
    )  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Run and report, and return the exit status."""
    options = arguments().parse_args(argv)
    revision = plan.commit()
    choice = choice_of(options)
    torch.set_num_threads(1)
    console = Console()
    if choice.bounded:
        console.print(f"the short run, --bounded --part {choice.part} (commit {revision[:12]})")
    tasks = plan.tasks(choice)
    if not tasks:
        raise SystemExit(f"no OpInfo matches {' '.join(options.names)}")
    records, done = _run(options, tasks, revision)
    finished = [task for task in tasks if task.key in done]
    reasons = expected.load()
    recorded, unrecorded = expected.read_recorded()
    console.print(report.summary(records))
    if options.record_expected:
        recorded = _record_expected(console, recorded, records, finished)
    elif choice == plan.Choice():
        console.print(f"{unrecorded} groups of the full run are not recorded")
    if options.record:
        report.write_measured(MEASURED, records, report.commits(options.results))
    complete = not choice.bounded and options.samples is None
    files = sorted(expected.FOLDER.glob("recorded-*.yaml"))
    known = {group: entry for f in files for group, entry in expected.read_recorded(f)[0].items()}
    verdict = expected.judge(records, reasons, recorded, complete=complete, known=known)
    report.print_verdict(console, verdict)
    console.print(
        f"{len(records)} samples, {len(verdict.unexpected)} unexpected outcomes, "
        f"{len(verdict.stale)} stale expectations, {len(verdict.low)} floors not reached; "
        f"{verdict.unrecorded} samples are not recorded; results in {options.results}"
    )
    if not verdict.passed:
        return 1
    if len(finished) < len(tasks):
        console.print(f"{len(tasks) - len(finished)} of {len(tasks)} groups are left: --resume")
        return UNFINISHED
    return 0


def _run(
    options: argparse.Namespace, tasks: list[plan.Task], revision: str
) -> tuple[list[dict[str, Any]], set[tuple[str, str, str]]]:
    """Return the records of the tasks, earlier ones included, and the finished tasks' keys."""
    earlier, done = report.read(options.results) if options.resume else ([], set())
    keys = {task.key for task in tasks}
    records = [r for r in earlier if (r["op"], r["dtype"], r["kind"]) in keys]
    remaining = [task for task in tasks if task.key not in done]
    options.results.parent.mkdir(parents=True, exist_ok=True)
    workers.warm_up()
    tqdm.monitor_interval = 0  # a thread of the progress bar must not exist at a fork
    with (
        options.results.open("a" if options.resume else "w") as stream,
        tqdm(
            total=len(tasks),
            initial=len(tasks) - len(remaining),
            unit="op",
            smoothing=0,
            mininterval=0.2 if sys.stderr.isatty() else 30,  # fewer lines in a log
        ) as bar,
    ):
        report.write(stream, report.heading(revision))
        for task, record in workers.run(_until_timeout(remaining, options.minutes), options.jobs,
                                        options.limit):  # fmt: skip
            if record is None:
                done.add(task.key)
                report.write(stream, {"done": list(task.key)})
                bar.update()
                continue
            records.append(record)
            report.write(stream, record)
    finished = done & keys
    return [r for r in records if (r["op"], r["dtype"], r["kind"]) in finished], finished


def _until_timeout(tasks: Sequence[plan.Task], minutes: float | None) -> Iterator[plan.Task]:
    """Yield the tasks until the time is over."""
    started = time.monotonic()
    for task in tasks:
        if minutes is not None and time.monotonic() - started > 60 * minutes:
            return
        yield task


def _record_expected(
    console: Console,
    recorded: dict[expected.Group, expected.Recorded],
    records: list[dict[str, Any]],
    finished: list[plan.Task],
) -> dict[expected.Group, expected.Recorded]:
    groups = [(task.kind, task.op, task.dtype) for task in finished]
    fresh, failed = expected.updated(recorded, records, groups)
    all_groups = set(plan.groups())
    fresh = {group: entry for group, entry in fresh.items() if group in all_groups}
    unrecorded = len(all_groups) - len(fresh)
    expected.write_recorded(expected.recorded_file(), fresh, unrecorded)
    console.print(
        f"{len(fresh)} groups are recorded in {expected.recorded_file().name}, {unrecorded} are not"
    )
    for kind, op, dtype in failed:
        console.print(f"not recorded: {op} ({kind}, {dtype}): a fault, or not the full run's runs")
    return fresh


if __name__ == "__main__":
    sys.exit(main())
