"""Training steps: forward and backward of small models through ortable, next to eager's.

Each model is compiled with ``torch.compile(backend="ortable")`` and steps in turn with eager on the
same batch, in one process; the table holds medians. A step is the loss and its gradients; the
optimizer, which is torch's in both, is left out. See benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable

import torch

from benchmarks.measure import geomean
from benchmarks.models.training import TRAINABLES

from .measure import measure, measure_rewrites, profile
from .report import print_operators


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
    parser.add_argument("--rounds", type=int, default=30, help="measured rounds, after three")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--backend", default="ortable", help="what is compared with eager")
    parser.add_argument(
        "--rewrites", help="choices to compare, as none,default; + joins names of one choice"
    )
    parser.add_argument(
        "--cpu", action="store_true", help="processor time, for a machine that is shared (1 thread)"
    )
    parser.add_argument("--profile", action="store_true", help="operators of each session")
    parser.add_argument("--top", type=int, default=12, help="operators that --profile lists")
    options = parser.parse_args()
    if options.rounds < 1 or options.threads < 1:
        parser.error("--rounds and --threads are at least 1")
    return options


def main() -> None:
    options = arguments()
    torch.set_num_threads(options.threads)
    names = options.model or list(TRAINABLES)
    if options.profile:
        for name in names:
            for events in profile(name, options.rounds):
                print_operators(name, events, options.top)
        return
    clock = time.process_time if options.cpu else time.perf_counter
    kind = "processor time" if options.cpu else "time"
    print(
        f"forward and backward, {kind}, {options.rounds} rounds interleaved, medians; "
        f"torch {torch.__version__}, {options.threads} threads, Python {platform.python_version()}"
    )
    if options.rewrites:
        print_rewrites(names, options.rounds, options.rewrites.split(","), clock)
        return
    print(f"{'model':12}{'eager ms':>10}{options.backend + ' ms':>14}{'ratio':>8}{'first s':>9}")
    ratios = []
    for name in names:
        eager, compiled, seconds = measure(name, options.rounds, options.backend, clock)
        ratios.append(compiled / eager)
        row = f"{name:12}{eager:10.2f}{compiled:14.2f}{ratios[-1]:8.2f}{seconds:9.1f}"
        print(row, flush=True)
    print(f"{'geomean':36}{geomean(ratios):8.2f}")


if __name__ == "__main__":
    main()
