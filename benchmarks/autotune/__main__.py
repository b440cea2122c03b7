"""Latency of compiled models with option `autotune`, next to eager and to dynamo's graph in eager.

Every inference model runs at its benchmark size and at the small size of the tests, each in its own
process. See benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

from benchmarks.measure import in_process, machine, origin
from benchmarks.models.inference import MODELS
from benchmarks.report import RESULTS, publish

from .measure import measure_model
from .report import markdown, one_line

MODULE = "benchmarks.autotune"
NAMES = [*MODELS, *(f"{name}, small" for name in MODELS)]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.autotune", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--model", choices=NAMES, action="append", help="default: all")
    parser.add_argument("--rounds", type=int, default=21, help="measured rounds")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", type=Path, help="file for the records")
    parser.add_argument("--from-json", type=Path, help="make the table from these records")
    parser.add_argument("--docs", type=Path, help="page to write the table to")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rounds < 1 or options.threads < 1:
        parser.error("--rounds and --threads are at least 1")
    return options


def main() -> None:
    options = parse()
    if options.one:
        options.json.write_text(json.dumps(measure_model(options.one, options)))
        return
    run = json.loads(options.from_json.read_text()) if options.from_json else run_all(options)
    path = options.json or (None if options.model else RESULTS / "autotune.json")
    publish(run, markdown(run), MODULE, path, options.docs)


def run_all(options: argparse.Namespace) -> dict[str, Any]:
    """Measure each model in a process of its own, and return the records of the run."""
    flags = [f"--rounds={options.rounds}", f"--threads={options.threads}"]
    records = []
    for name in options.model or NAMES:
        result = in_process(MODULE, name, flags, options.threads)
        records.append({"name": name, **result})
        print(one_line(records[-1]), flush=True)
    return {**origin(), "machine": machine(options.threads), "records": records}


if __name__ == "__main__":
    main()
