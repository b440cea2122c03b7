"""Latency, compilation and call overhead of the torch.compile backend, model by model.

Inference runs under torch.no_grad(). Evaluation with gradients enabled has a separate column: such
a graph could train, so its weights are inputs in the first calls. Every model runs in its own
process, in which the candidates take turns. See benchmarks/README.md.
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

from . import report
from .measure import OVERHEAD, measure_model, measure_overhead

MODULE = "benchmarks.backend"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.backend", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--models", help="names, separated by commas; default: all")
    parser.add_argument("--quick", action="store_true", help="run a third of the rounds")
    parser.add_argument("--small", action="store_true", help="use the sizes of the tests")
    parser.add_argument("--repeat", type=int, default=21, help="rounds after the warm-up")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--no-inductor", action="store_true", help="leave inductor out; needs no C++ compiler"
    )
    parser.add_argument("--no-overhead", action="store_true", help="skip the overhead table")
    parser.add_argument("--json", type=Path, help="file for the records")
    parser.add_argument("--docs", type=Path, help="page with a marked part for the tables")
    parser.add_argument("--from-json", type=Path, help="make the tables from these records")
    parser.add_argument("--one", help=argparse.SUPPRESS)  # internal: one job, in this process
    options = parser.parse_args()
    options.rounds = max(5, options.repeat // 3) if options.quick else options.repeat
    options.names = options.models.split(",") if options.models else list(MODELS)
    unknown = [name for name in options.names if name not in MODELS]
    if unknown:
        parser.error(f"unknown models {', '.join(unknown)}; known: {', '.join(MODELS)}")
    if options.repeat < 1 or options.threads < 1:
        parser.error("--repeat and --threads are at least 1")
    return options


def main() -> None:
    options = parse()
    if options.one:
        record = (
            measure_overhead(options)
            if options.one == OVERHEAD
            else measure_model(options.one, options)
        )
        options.json.write_text(json.dumps(record))
        return
    run = json.loads(options.from_json.read_text()) if options.from_json else run_all(options)
    is_complete = options.models is None and not options.small
    path = options.json or (RESULTS / "backend.json" if is_complete else None)
    text = report.markdown(run)
    publish(run, text, MODULE, path, options.docs, report.details(run))


def run_all(options: argparse.Namespace) -> dict[str, Any]:
    """Measure each model in a process of its own, and return the records of the run."""
    flags = [f"--repeat={options.rounds}", f"--threads={options.threads}"]
    flags += ["--small"] if options.small else []
    flags += ["--no-inductor"] if options.no_inductor else []
    names = options.names + ([] if options.no_overhead else [OVERHEAD])
    records = []
    for name in names:
        result = in_process(MODULE, name, flags, options.threads)
        records.append({"name": name, **result})
        print(report.one_line(records[-1]), flush=True)
    return {**origin(), "machine": machine(options.threads), "records": records}


if __name__ == "__main__":
    main()
