"""Training steps: forward and backward of small models through ortable, next to eager's.

Each model is compiled by each compiler and steps in turn with eager on the same batch, in a process
of its own; the tables hold medians. A step is the loss and its gradients; the optimizer, which is
torch's in all, is left out. See benchmarks/README.md.
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
    """A table of models by choices of rewrites."""
    print(f"{'model':12}" + "".join(f"{'nodes':>8}{choice + ' ms':>14}" for choice in choices))
    for name in names:
        found = measure_rewrites(name, rounds, choices, clock)
        row = "".join(f"{nodes:8}{milliseconds:14.2f}" for nodes, milliseconds in found)
        print(f"{name:12}{row}", flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.training", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--model", choices=tuple(TRAINABLES), action="append", help="default: all")
    parser.add_argument("--rounds", type=int, default=15, help="measured rounds")
    parser.add_argument(
        "--threads", default=f"{torch.get_num_threads()},1", help="numbers of threads, as 2,1"
    )
    parser.add_argument(
        "--compilers",
        default="ortable,ortable+autotune,inductor",
        help="compared with eager; + names an option",
    )
    parser.add_argument(
        "--rewrites", help="choices to compare, as none,default; + joins names of one choice"
    )
    parser.add_argument(
        "--cpu", action="store_true", help="with --rewrites: processor time, for a shared machine"
    )
    parser.add_argument("--profile", action="store_true", help="operators of each session")
    parser.add_argument("--top", type=int, default=12, help="operators that --profile lists")
    parser.add_argument("--json", type=Path, help="where the records go")
    parser.add_argument("--from-json", type=Path, help="tables of records that are there")
    parser.add_argument("--docs", type=Path, help="a page that gets the tables")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.threads = [int(each) for each in options.threads.split(",")]
    if options.rounds < 1 or min(options.threads) < 1:
        parser.error("--rounds and --threads are at least 1")
    return options


def measured(options: argparse.Namespace, names: list[str]) -> dict[str, Any]:
    """The records of a run; every model has a process of its own."""
    run: dict[str, Any] = {**origin(), "threads": {}}
    passed = ["--rounds", str(options.rounds), "--compilers", options.compilers]
    for threads in options.threads:
        found = []
        for name in names:
            job = [*passed, "--threads", str(threads)]
            found.append({"model": name, **in_process("benchmarks.training", name, job, threads)})
            print(threads, json.dumps(found[-1]), flush=True)
        run["threads"][str(threads)] = {
            "machine": machine(threads),
            "models": [each for each in found if "failed" not in each],
            "failed": [each for each in found if "failed" in each],
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
        run = json.loads(stored.read_text()) if stored else measured(options, names)
        publish(run, markdown(run), "benchmarks.training", options.json, options.docs)


if __name__ == "__main__":
    main()
