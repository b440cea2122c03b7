"""Fuzz the loaders of spec and rewrite files in child processes and summarize the failures."""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from .mutate import made

_STEP = 4000  # files of one process


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.security.fuzz", description=__doc__)
    parser.add_argument("--count", type=int, default=2000, help="number of files")
    parser.add_argument("--first", type=int, default=0, help="number of the first file")
    parser.add_argument("--show", type=int, metavar="N", help="print the file of a number and exit")
    args = parser.parse_args()
    if args.show is not None:
        print(made(args.show).text)
        return 0
    started = time.monotonic()
    failures: list[tuple[int, str]] = []
    end = args.first + args.count
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(KeyboardInterrupt):
        for reached in _run(Path(folder), args.first, end, failures):
            print(f"up to {reached}: {len(failures)} failures", flush=True)
            args.count = reached - args.first
    groups = defaultdict(list)
    for number, problem in failures:
        groups[re.sub(r"\d+ bytes|'[^']*'", "_", problem)[:110]].append((number, problem))
    for group in sorted(groups.values(), key=len, reverse=True):
        print(f"{len(group):6} times, first {group[0][0]}: {group[0][1]}")
    seconds = time.monotonic() - started
    print(f"{args.count} files from number {args.first}, {len(failures)} failures, {seconds:.0f} s")
    return 1 if failures else 0


def _run(folder: Path, first: int, end: int, failures: list[tuple[int, str]]) -> Iterator[int]:
    """Fuzz a range of files; extend `failures` and yield the end of each process."""
    while first < end:
        stop = min(end, first + _STEP)
        command = [
            sys.executable,
            "-m",
            "tests.security.fuzz.worker",
            str(folder),
            str(first),
            str(stop),
        ]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        rows = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("[")]
        failures += [(int(number), str(problem)) for number, problem in rows]
        if result.returncode:
            crashed = int((folder / "at").read_text())
            failures.append((crashed, f"exit status {result.returncode}: {result.stderr[-600:]}"))
            stop = crashed + 1
        first = stop
        yield first


if __name__ == "__main__":
    sys.exit(main())
