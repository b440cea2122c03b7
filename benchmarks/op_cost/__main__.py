"""Time and memory of every operator of the tables, next to torch's kernel and to inductor.

Every call is measured by a process of its own: a crash, or a call that takes too long, costs one
row. Results are kept, so that a run that was stopped goes on. See benchmarks/README.md.
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
_LIMIT_S = 25
_MAX_BYTES = 9 << 30

Rows = dict[str, dict[str, Any]]


def main() -> int:
    """Measure, report, and return 1 where an operator of the backend exceeds its limit."""
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
                cheap = size == "small" and not is_costly(rows[f"{entry.key} {dtype} large"])
                if name not in rows and not cheap:
                    rows[name] = _measure_apart(entry, number, elements, options.candidates)
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
    for what, find in (("time", exceeding), ("memory", exceeding_memory)):
        for name, ratio in find(rows, "ortable", limit).items():
            why = reasons.get(name.rpartition(" ")[0])
            failed |= why is None
            print(f"{name}: {ratio:.1f} times eager's {what}, the limit is {limit:g}. {why or ''}")
    return 1 if failed else 0


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.op_cost", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--operators", default="", help="some operators: parts of their names")
    parser.add_argument(
        "--dtypes", nargs="*", default=_DTYPES, help="of the first tensor; others count as these"
    )
    parser.add_argument(
        "--bounded", action="store_true", help=f"a rotating {PARTS}th of the operators, compiled"
    )
    parser.add_argument(
        "--candidates", nargs="*", default=["session", "ortable"], choices=CANDIDATES
    )
    parser.add_argument("--rows", type=Path, default=Path("build/op_cost.jsonl"))
    parser.add_argument("--fresh", action="store_true", help="forget the rows of earlier runs")
    parser.add_argument("--json", type=Path, help="where the records go")
    parser.add_argument("--docs", type=Path, help="a page that gets the table")
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
    """Return the number of commits, so that each takes the next part; 0 outside of a checkout."""
    command = ["git", "rev-list", "--count", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return int(done.stdout) if done.returncode == 0 else 0


def _import_converters() -> None:
    """Import what every child process would import for itself."""
    for key in CONVERTERS:
        CONVERTERS[key]


def _read_rows(path: Path) -> Rows:
    lines = path.read_text().splitlines() if path.exists() else []
    return dict(map(json.loads, lines))


def _measure_apart(
    entry: Entry, number: int, elements: int, candidates: Sequence[str]
) -> dict[str, Any]:
    """Measure in a child process, which may crash, hang, or ask for too much memory."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()

    def work() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (_MAX_BYTES, _MAX_BYTES))
        for record in measure_sample(entry, number, elements, candidates):
            theirs.send(record)

    process = context.Process(target=work, daemon=True)
    process.start()
    theirs.close()
    record: dict[str, Any] = {}
    try:
        while ours.poll(_LIMIT_S):
            record = ours.recv()
        record["died"] = f"over {_LIMIT_S} s"
    except EOFError:  # it is done, or dead
        process.join()
        if process.exitcode:
            record["died"] = f"exit code {process.exitcode}"
    process.kill()
    process.join()
    return record


if __name__ == "__main__":
    raise SystemExit(main())
