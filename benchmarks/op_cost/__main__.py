"""Time and memory of every operator of the tables, next to torch's kernel and to inductor.

Every call is measured in its own process: a crash or a timeout affects only one row. The rows are
saved, so that a run can resume after an interruption. See benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.measure import machine, origin
from benchmarks.report import publish
from ortable_generated.aten.dispatch import CONVERTERS

from .entries import choose_samples, read_entries
from .measure import CANDIDATES, measure_sample
from .placement import is_costly, write_placement
from .report import (
    MAX_RATIO,
    exceeding,
    exceeding_memory,
    markdown,
    read_reasons,
    shorten,
)
from .scaling import Entry

SIZES = {"large": 1_000_000, "small": 10_000}
PARTS = 40
_DTYPES = ("float32", "int64", "bool", "complex64")
_MAX_SECONDS = 25
_MAX_BYTES = 9 << 30

Rows = dict[str, dict[str, Any]]


def main() -> int:
    """Measure and report; return 1 if an operator of the backend exceeds its limit."""
    options = _parse_arguments()
    rows = _read_rows(options.rows)
    _import_converters()
    sizes = {"large": SIZES["large"]} if options.bounded else SIZES
    for entry in _select_entries(options):
        for dtype, number in choose_samples(entry):
            if dtype not in options.dtypes:
                continue
            for size, elements in sizes.items():
                name = f"{entry.key} {dtype} {size}"
                is_cheap = size == "small" and not is_costly(rows[f"{entry.key} {dtype} large"])
                if name not in rows and not is_cheap:
                    rows[name] = _measure_in_process(entry, number, elements, options.candidates)
                    with options.rows.open("a") as file:
                        file.write(json.dumps([name, rows[name]]) + "\n")
    run = {**origin(), "machine": machine(1), "calls": len(rows), "rows": shorten(rows)}
    if options.place:
        write_placement(rows)
    publish(run, markdown(run), "benchmarks.op_cost", options.json, options.docs)
    # a bounded run shares its machine with other work
    limit = 2 * MAX_RATIO if options.bounded else MAX_RATIO
    reasons = read_reasons()
    failed = False
    for cost, find_exceeding in (("time", exceeding), ("memory", exceeding_memory)):
        for name, ratio in find_exceeding(rows, "ortable", limit).items():
            why = reasons.get(name.rpartition(" ")[0])
            failed |= why is None
            print(f"{name}: {ratio:.1f} times eager's {cost}, the limit is {limit:g}. {why or ''}")
    return 1 if failed else 0


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.op_cost", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--operators", default="", help="parts of operator names; default: all")
    parser.add_argument(
        "--dtypes", nargs="*", default=_DTYPES, help="dtypes of the first tensor to measure"
    )
    parser.add_argument(
        "--bounded", action="store_true", help=f"a rotating {PARTS}th of the operators, compiled"
    )
    parser.add_argument(
        "--candidates", nargs="*", default=["session", "ortable"], choices=CANDIDATES
    )
    parser.add_argument("--rows", type=Path, default=Path("build/op_cost.jsonl"))
    parser.add_argument("--fresh", action="store_true", help="delete the rows of earlier runs")
    parser.add_argument("--json", type=Path, help="file for the records")
    parser.add_argument("--docs", type=Path, help="page to write the table to")
    parser.add_argument(
        "--place", action="store_true", help="write specs/runtime/operator_cost.yaml"
    )
    options = parser.parse_args()
    if options.bounded:
        options.candidates, options.fresh = ["ortable"], True
    if options.fresh:
        options.rows.unlink(missing_ok=True)
    options.rows.parent.mkdir(parents=True, exist_ok=True)
    return options


def _select_entries(options: argparse.Namespace) -> list[Entry]:
    entries = read_entries()
    if options.bounded:
        number = _count_commits() % PARTS
        print(f"operators {number} of {PARTS}, every {PARTS}th")
        return entries[number::PARTS]
    words = options.operators.split()
    return [entry for entry in entries if not words or any(word in entry.key for word in words)]


def _count_commits() -> int:
    """Return the number of commits, which selects the part to measure; 0 outside of a checkout."""
    command = ["git", "rev-list", "--count", "HEAD"]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    return int(process.stdout) if process.returncode == 0 else 0


def _import_converters() -> None:
    """Import all converters, so that child processes need not import them."""
    for key in CONVERTERS:
        CONVERTERS[key]


def _read_rows(path: Path) -> Rows:
    lines = path.read_text().splitlines() if path.exists() else []
    return dict(map(json.loads, lines))


def _measure_in_process(
    entry: Entry, number: int, elements: int, candidates: Sequence[str]
) -> dict[str, Any]:
    """Measure in a child process, which may crash, hang, or allocate too much memory."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe()

    def send_records() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (_MAX_BYTES, _MAX_BYTES))
        for record in measure_sample(entry, number, elements, candidates):
            sender.send(record)

    process = context.Process(target=send_records, daemon=True)
    process.start()
    sender.close()
    record: dict[str, Any] = {}
    try:
        while receiver.poll(_MAX_SECONDS):
            record = receiver.recv()
        record["died"] = f"over {_MAX_SECONDS} s"
    except EOFError:  # the process has ended
        process.join()
        if process.exitcode:
            record["died"] = f"exit code {process.exitcode}"
    process.kill()
    process.join()
    return record


if __name__ == "__main__":
    raise SystemExit(main())
