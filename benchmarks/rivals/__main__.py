"""Inference next to other CPU engines, each set up as its users run it.

Every model has its own process, in which all engines take turns. See benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from benchmarks.measure import in_process, machine, origin
from benchmarks.models.inference import MODELS
from benchmarks.packages import install_packages
from benchmarks.report import RESULTS, publish

from .engines import FOLDER, PACKAGES
from .measure import measure_model
from .report import markdown

MODULE = "benchmarks.rivals"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.rivals", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--models", help="names, separated by commas; default: all")
    parser.add_argument("--small", action="store_true", help="use the sizes of the tests")
    parser.add_argument("--rounds", type=int, default=21, help="rounds after the warm-up")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", type=Path, help="file for the records")
    parser.add_argument("--docs", type=Path, help="page with a marked part for the table")
    parser.add_argument("--from-json", type=Path, help="make the table from these records")
    parser.add_argument("--one", help=argparse.SUPPRESS)  # internal: one job, in this process
    options = parser.parse_args()
    options.names = options.models.split(",") if options.models else list(MODELS)
    unknown = [name for name in options.names if name not in MODELS]
    if unknown:
        parser.error(f"unknown models {', '.join(unknown)}; known: {', '.join(MODELS)}")
    if options.rounds < 1 or options.threads < 1:
        parser.error("--rounds and --threads are at least 1")
    return options


def main() -> None:
    options = parse()
    if options.one:
        options.json.write_text(json.dumps(measure_model(options.one, options)))
        return
    if options.from_json:
        run = json.loads(options.from_json.read_text())
    else:
        install_packages(FOLDER, PACKAGES)
        flags = [f"--rounds={options.rounds}", f"--threads={options.threads}"]
        flags += ["--small"] if options.small else []
        run = {**origin(), "machine": machine(options.threads), "records": []}
        for name in options.names:
            record = {"name": name, **in_process(MODULE, name, flags, options.threads)}
            run["records"].append(record)
            print(name, record.get("failed") or record["ratio"], flush=True)
    path = options.json or (None if options.models or options.small else RESULTS / "rivals.json")
    publish(run, markdown(run), MODULE, path, options.docs)


if __name__ == "__main__":
    main()
