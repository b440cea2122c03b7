"""Conversion of an ExportedProgram to ONNX: ortable next to torch.onnx, model by model.

Both exporters convert the same ExportedProgram in turns: to a graph whose weights stay in torch,
and to one ModelProto with every weight. The records also have nodes and latency of both graphs in
ONNX Runtime, peak memory, and the time per node in deeper models. Every model runs in its own
process. See benchmarks/README.md.
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


def run_in_process(job: str, flags: list[str], threads: int) -> dict[str, Any]:
    """Measure one job, ``name:mode`` or ``layers:mode``, in a process of its own."""
    name, _, mode = job.partition(":")
    record = in_process(MODULE, job, flags, threads)
    return {"name": name, "dynamic": mode == "dynamic", **record}


def run_one(job: str, options: argparse.Namespace) -> dict[str, Any]:
    """Measure one job in this process."""
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
    parser.add_argument("--quick", action="store_true", help="fewer rounds, and no deep models")
    parser.add_argument("--small", action="store_true", help="use the sizes of the tests")
    modes = parser.add_mutually_exclusive_group()
    modes.add_argument("--dynamic", action="store_true", help="dynamic dimensions only")
    modes.add_argument("--static", action="store_true", help="static dimensions only")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--no-torch", action="store_true", help="do not measure torch.onnx")
    parser.add_argument("--no-latency", action="store_true", help="do not run the graphs")
    parser.add_argument("--no-depth", action="store_true", help="skip the deep models")
    parser.add_argument("--profile", action="store_true", help="profile ortable by phase")
    parser.add_argument("--top", type=int, default=12, help="functions that --profile lists")
    parser.add_argument("--json", type=Path, help="file for the records")
    parser.add_argument("--docs", type=Path, help="page with a marked part for the tables")
    parser.add_argument("--from-json", type=Path, help="make the tables from these records")
    parser.add_argument("--one", help=argparse.SUPPRESS)  # internal: one job, in this process
    options = parser.parse_args()
    if min(options.rounds, options.latency_rounds, options.threads, options.layers or 1) < 1:
        parser.error("--rounds, --latency-rounds, --threads and --layers are at least 1")
    if options.layers and options.models != "bert":
        parser.error("--layers needs --model bert")
    if options.quick:
        options.rounds = max(1, options.rounds // 3)
        options.latency_rounds = max(5, options.latency_rounds // 3)
    options.modes = [mode for mode in (False, True) if _is_selected(mode, options)]
    if options.one or options.from_json:
        return options
    options.names = list(ARCHITECTURES) if options.models == "all" else options.models.split(",")
    unknown = [name for name in options.names if name not in ARCHITECTURES]
    if unknown:
        parser.error(f"unknown models {', '.join(unknown)}; known: {', '.join(ARCHITECTURES)}")
    return options


def _is_selected(dynamic: bool, options: argparse.Namespace) -> bool:
    return not (options.static if dynamic else options.dynamic)


def format_options(options: argparse.Namespace) -> list[str]:
    """Format the options as arguments for the process of one model."""
    values = ("opset", "rounds", "latency_rounds", "threads", "layers", "models")
    flags = ("small", "no_torch", "no_latency")
    settings = [(name, getattr(options, name)) for name in values]
    return [
        f"--{name.replace('_', '-')}={value}" for name, value in settings if value is not None
    ] + [f"--{name.replace('_', '-')}" for name in flags if getattr(options, name)]


def main() -> None:
    options = parse()
    if options.one:
        options.json.write_text(json.dumps(run_one(options.one, options)))
        return

    if options.from_json:
        run, path = json.loads(options.from_json.read_text()), None
    elif options.profile:
        profile_models(options)
        return
    else:
        run = {**origin(), "machine": machine(options.threads), "records": [], "depths": []}
        flags = format_options(options)
        has_all_models = options.models == "all"
        jobs = [(model, mode) for model in options.names for mode in options.modes]
        for name, dynamic in jobs:
            job = f"{name}:{'dynamic' if dynamic else 'static'}"
            run["records"].append(run_in_process(job, flags, options.threads))
            print(report.one_line(run["records"][-1]), flush=True)
        if has_all_models and not (options.no_depth or options.quick):
            for layers in DEPTHS:
                for dynamic in options.modes:
                    job = f"{layers}:{'dynamic' if dynamic else 'static'}"
                    run["depths"].append(run_in_process(job, flags, options.threads))
        path = options.json or (
            RESULTS / "conversion.json" if has_all_models and not options.small else None
        )
    text = report.markdown(run)
    publish(run, text, MODULE, path, options.docs, report.details(run))


if __name__ == "__main__":
    main()
