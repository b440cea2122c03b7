"""Requests per second of one model that 1 to 32 threads call at once, with one thread a call.

All candidates take turns in one process. See benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from benchmarks.measure import machine, origin
from benchmarks.report import RESULTS, publish

from .measure import measure_all
from .report import markdown

MODULE = "benchmarks.load"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.load", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--rounds", type=int, default=7, help="measured rounds")
    parser.add_argument("--seconds", type=float, default=1.0, help="of a candidate in a round")
    parser.add_argument("--json", type=Path, help="file for the records")
    parser.add_argument("--docs", type=Path, help="page with a marked part for the tables")
    parser.add_argument("--from-json", type=Path, help="make the tables from these records")
    options = parser.parse_args()
    if options.rounds < 1 or options.seconds <= 0:
        parser.error("--rounds is at least 1, and --seconds more than 0")
    if options.from_json:
        run = json.loads(options.from_json.read_text())
    else:
        run = {**origin(), "machine": machine(1), **measure_all(options)}
    publish(run, markdown(run), MODULE, options.json or RESULTS / "load.json", options.docs)


if __name__ == "__main__":
    main()
