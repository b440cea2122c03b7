"""``python -m tests.security.fuzz --count 100000``: that many files, in processes of their own, and
a summary of those that were neither accepted nor refused as they should be."""

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
    parser.add_argument("--count", type=int, default=2000, help="how many files")
    parser.add_argument("--first", type=int, default=0, help="number of the first one")
    parser.add_argument("--show", type=int, metavar="N", help="print the file of a number and end")
    args = parser.parse_args()
    if args.show is not None:
        print(made(args.show).text)
        return 0
    began = time.monotonic()
    finds: list[tuple[int, str]] = []
    end = args.first + args.count
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(KeyboardInterrupt):
        for done in _run(Path(folder), args.first, end, finds):
            print(f"up to {done}: {len(finds)} finds", flush=True)
            args.count = done - args.first
    groups = defaultdict(list)
    for number, what in finds:
        groups[re.sub(r"\d+ bytes|'[^']*'", "_", what)[:110]].append((number, what))
    for rows in sorted(groups.values(), key=len, reverse=True):
        print(f"{len(rows):6} times, first {rows[0][0]}: {rows[0][1]}")
    seconds = time.monotonic() - began
    print(f"{args.count} files from number {args.first}, {len(finds)} finds, {seconds:.0f} s")
    return 1 if finds else 0


def _run(folder: Path, first: int, end: int, finds: list[tuple[int, str]]) -> Iterator[int]:
    """Where a process has ended, again and again; what it found is added."""
    while first < end:
        until = min(end, first + _STEP)
        command = [
            sys.executable,
            "-m",
            "tests.security.fuzz.worker",
            str(folder),
            str(first),
            str(until),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
        finds += [(int(number), str(what)) for number, what in rows]
        if done.returncode:
            at = int((folder / "at").read_text())
            finds.append((at, f"the process ended with {done.returncode}: {done.stderr[-600:]}"))
            until = at + 1
        first = until
        yield first


if __name__ == "__main__":
    sys.exit(main())
