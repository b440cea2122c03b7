"""Training steps: forward and backward of small models through ortable, next to eager.

Each model is measured in its own process, compiled by each compiler, in turns with eager and on the
same batch; the tables hold medians. A step computes the loss and its gradients, without the
optimizer, which is torch's for all. See benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks.measure import in_process, machine, origin
from benchmarks.models.training import TRAINABLES
from benchmarks.report import publish, save

from .measure import measure, measure_rewrites, profile
from .report import markdown, print_operators


def print_rewrites(
    names: list[str], rounds: int, choices: list[str], clock: Callable[[], float]
) -> None:
    """Print a table of models by sets of rewrites."""
    print(f"{'model':12}" + "".join(f"{'nodes':>8}{choice + ' ms':>14}" for choice in choices))
    for name in names:
        results = measure_rewrites(name, rounds, choices, clock)
        row = "".join(f"{nodes:8}{milliseconds:14.2f}" for nodes, milliseconds in results)
        print(f"{name:12}{row}", flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.training", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--model", choices=tuple(TRAINABLES), action="append", help="default: all")
    parser.add_argument("--rounds", type=int, default=15, help="measured rounds")
    parser.add_argument(
        "--threads", default=f"{torch.get_num_threads()},1", help="numbers of threads, such as 2,1"
    )
    parser.add_argument(
        "--compilers",
        default="ortable,ortable+autotune,ortable+autotune+torch_regions,inductor",
        help="compared with eager; + names options",
    )
    parser.add_argument(
        "--rewrites", help="sets to compare, such as none,default; + joins the names of one set"
    )
    parser.add_argument(
        "--cpu", action="store_true", help="with --rewrites: processor time, for a shared machine"
    )
    parser.add_argument("--profile", action="store_true", help="list the operators of each session")
    parser.add_argument("--top", type=int, default=12, help="operators that --profile lists")
    parser.add_argument("--json", type=Path, help="file for the records")
    parser.add_argument("--from-json", type=Path, help="make the tables from these records")
    parser.add_argument("--docs", type=Path, help="page to write the tables to")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.threads = [int(count) for count in options.threads.split(",")]
    if options.rounds < 1 or min(options.threads) < 1:
        parser.error("--rounds and --threads are at least 1")
    return options


def measure_models(options: argparse.Namespace, names: list[str]) -> dict[str, Any]:
    """Measure each model in a process of its own, and return the records of the run."""
    run: dict[str, Any] = {**origin(), "threads": {}}
    flags = ["--rounds", str(options.rounds), "--compilers", options.compilers]
    for threads in options.threads:
        records = []
        for name in names:
            job_flags = [*flags, "--threads", str(threads)]
            records.append(
                {"model": name, **in_process("benchmarks.training", name, job_flags, threads)}
            )
            print(threads, json.dumps(records[-1]), flush=True)
        run["threads"][str(threads)] = {
            "machine": machine(threads),
            "models": [record for record in records if "failed" not in record],
            "failed": [record for record in records if "failed" in record],
        }
    return run


def main() -> None:
    options = arguments()
    names = options.model or list(TRAINABLES)
    threads = options.threads[0]
    torch.set_num_threads(threads)
    if options.one:
        record = measure(options.one, options.rounds, options.compilers.split(","))
        save(options.json, record)
    elif options.profile:
        for name in names:
            for events in profile(name, options.rounds):
                print_operators(name, events, options.top)
    elif options.rewrites:
        clock = time.process_time if options.cpu else time.perf_counter
        print_rewrites(names, options.rounds, options.rewrites.split(","), clock)
    else:
        stored = options.from_json
        run = json.loads(stored.read_text()) if stored else measure_models(options, names)
        publish(run, markdown(run), "benchmarks.training", options.json, options.docs)


if __name__ == "__main__":
    main()
