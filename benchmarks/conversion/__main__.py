"""Conversion of an ExportedProgram to ONNX: ortable next to torch.onnx, model by model.

Seconds of both exporters from the same ExportedProgram, taking turns in one process: the graph with
its weights left in torch, and one ModelProto that holds every weight. Then the number of nodes of
both graphs, their latency in ONNX Runtime, peak memory, and what a node costs as a model gets
deeper. Every model runs in a process of its own. See benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

from benchmarks.measure import in_process, machine, origin
from benchmarks.models.architectures import ARCHITECTURES
from benchmarks.report import RESULTS, publish

from . import report
from .measure import measure, measure_depth
from .profile import profile_models

MODULE = "benchmarks.conversion"
DEPTHS = (12, 24, 48, 96)


def run_in_process(job: str, passed: list[str], threads: int) -> dict[str, Any]:
    """The record of one job, ``name:mode`` or ``layers:mode``, measured by a process of its own."""
    name, _, mode = job.partition(":")
    found = in_process(MODULE, job, passed, threads)
    return {"name": name, "dynamic": mode == "dynamic", **found}


def run_one(job: str, options: argparse.Namespace) -> dict[str, Any]:
    """What the process of one job does."""
    name, _, mode = job.partition(":")
    if name.isdigit():
        return measure_depth(int(name), mode == "dynamic", options)
    return measure(name, mode == "dynamic", options)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.conversion", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "--models", "--model", default="all", help="names, separated by commas; default: all"
    )
    parser.add_argument("--layers", type=int, help="layers of bert (12 is base), with --model bert")
    parser.add_argument("--opset", type=int, default=18)
    parser.add_argument("--rounds", type=int, default=5, help="measured rounds, after a warm-up")
    parser.add_argument("--latency-rounds", type=int, default=15, help="rounds of both sessions")
    parser.add_argument("--quick", action="store_true", help="a third of the rounds, no depths")
    parser.add_argument("--small", action="store_true", help="the sizes of the tests")
    modes = parser.add_mutually_exclusive_group()
    modes.add_argument("--dynamic", action="store_true", help="free dimensions only")
    modes.add_argument("--static", action="store_true", help="fixed dimensions only")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--no-torch", action="store_true", help="measure ortable alone")
    parser.add_argument("--no-latency", action="store_true", help="conversion alone")
    parser.add_argument("--no-depth", action="store_true", help="leave the deep models out")
    parser.add_argument("--profile", action="store_true", help="time per phase, ortable alone")
    parser.add_argument("--top", type=int, default=12, help="functions that --profile lists")
    parser.add_argument("--json", type=Path, help="where the records go")
    parser.add_argument("--docs", type=Path, help="a page whose marked part the tables replace")
    parser.add_argument("--from-json", type=Path, help="no measuring: the tables of these records")
    parser.add_argument("--one", help=argparse.SUPPRESS)  # measure this one, in this process
    options = parser.parse_args()
    if min(options.rounds, options.latency_rounds, options.threads, options.layers or 1) < 1:
        parser.error("--rounds, --latency-rounds, --threads and --layers are at least 1")
    if options.layers and options.models != "bert":
        parser.error("--layers is read with --model bert")
    if options.quick:
        options.rounds = max(1, options.rounds // 3)
        options.latency_rounds = max(5, options.latency_rounds // 3)
    options.modes = [mode for mode in (False, True) if _wanted(mode, options)]
    if options.one or options.from_json:
        return options
    options.names = list(ARCHITECTURES) if options.models == "all" else options.models.split(",")
    unknown = [name for name in options.names if name not in ARCHITECTURES]
    if unknown:
        parser.error(f"unknown models {', '.join(unknown)}; known: {', '.join(ARCHITECTURES)}")
    return options


def _wanted(dynamic: bool, options: argparse.Namespace) -> bool:
    return not (options.static if dynamic else options.dynamic)


def passed_on(options: argparse.Namespace) -> list[str]:
    """The options that the process of one model needs."""
    values = ("opset", "rounds", "latency_rounds", "threads", "layers", "models")
    flags = ("small", "no_torch", "no_latency")
    given = [(name, getattr(options, name)) for name in values]
    return [f"--{name.replace('_', '-')}={value}" for name, value in given if value is not None] + [
        f"--{name.replace('_', '-')}" for name in flags if getattr(options, name)
    ]


def main() -> None:
    options = parse()
    if options.one:
        options.json.write_text(json.dumps(run_one(options.one, options)))
        return

    if options.from_json:
        found, path = json.loads(options.from_json.read_text()), None
    elif options.profile:
        profile_models(options)
        return
    else:
        found = {**origin(), "machine": machine(options.threads), "records": [], "depths": []}
        passed = passed_on(options)
        whole = options.models == "all"
        jobs = [(n, m) for n in options.names for m in options.modes]
        for name, dynamic in jobs:
            job = f"{name}:{'dynamic' if dynamic else 'static'}"
            found["records"].append(run_in_process(job, passed, options.threads))
            print(report.one_line(found["records"][-1]), flush=True)
        if whole and not (options.no_depth or options.quick):
            for layers in DEPTHS:
                for dynamic in options.modes:
                    job = f"{layers}:{'dynamic' if dynamic else 'static'}"
                    found["depths"].append(run_in_process(job, passed, options.threads))
        path = options.json or (
            RESULTS / "conversion.json" if whole and not options.small else None
        )
    text = report.markdown(found)
    publish(found, text, MODULE, path, options.docs, report.details(found))


if __name__ == "__main__":
    main()
