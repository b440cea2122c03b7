"""Effect of rewrites on the graphs that ortable writes for ONNX Runtime, model by model.

Sessions take turns in one process: torch.onnx's optimized graph, and ortable's without and with
rewrites. The records also have nodes, the rules that fired, seconds of rewriting, their growth with
depth, and the effect of single rules (--rules). Every model runs in its own process. See
benchmarks/README.md.
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
from .measure import LONGER, measure, measure_depth, size_of

MODULE = "benchmarks.rewrites"
DEPTHS = (12, 24, 48, 96)
MODES = ("static", "dynamic")


def run_one(job: str, options: argparse.Namespace) -> dict[str, Any]:
    """Measure one job in this process: ``bert``, ``bert@4x128``, or ``96:dynamic`` (a depth)."""
    name, _, mode = job.partition(":")
    if name.isdigit():
        return measure_depth(int(name), mode == "dynamic", options)
    return measure(name, options)


def run_all(options: argparse.Namespace) -> dict[str, Any]:
    """Measure every selected model and depth in a process of its own."""
    flags = format_options(options)
    run: dict[str, Any] = {**origin(), "machine": describe_machine(options.threads)}
    run.update(records=[], depths=[])
    run["set"] = options.set
    for name in options.names:
        record = in_process(MODULE, name, flags, options.threads)
        run["records"].append({"name": name, **record})
        print(report.one_line(run["records"][-1]), flush=True)
    for layers, mode in options.depths:
        job = f"{layers}:{mode}"
        record = in_process(MODULE, job, flags, options.threads)
        run["depths"].append({"layers": layers, "dynamic": mode == "dynamic", **record})
        print(report.one_line(run["depths"][-1]), flush=True)
    return run


def describe_machine(threads: int) -> str:
    import onnxruntime

    return f"{machine(threads)}, ONNX Runtime {onnxruntime.__version__}"


def format_options(options: argparse.Namespace) -> list[str]:
    """Format the options as arguments for the process of one model."""
    values = ("opset", "rounds", "repeat", "seconds", "threads")
    settings = [(name, getattr(options, name)) for name in values]
    arguments = [f"--{name}={value}" for name, value in settings if value is not None]
    arguments += [f"--{name}={','.join(getattr(options, name))}" for name in ("set", "rules")]
    flags = ("small", "no_torch", "no_latency")
    return arguments + [f"--{name.replace('_', '-')}" for name in flags if getattr(options, name)]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.rewrites", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "--models",
        "--model",
        default="all",
        help="names separated by commas; a language model also as bert@4x128 (batch x length); "
        "default: all models, and language models at longer sizes",
    )
    parser.add_argument("--set", default="default", help="rewrites to measure, separated by commas")
    parser.add_argument(
        "--opset", type=int, help="opset of ortable's graphs; default: that of to_onnx"
    )
    parser.add_argument(
        "--rules",
        default="",
        help="measure only the effect of these rules: names separated by commas, or 'all' for "
        "each rule that fires",
    )
    parser.add_argument("--seconds", type=float, default=20.0, help="measured seconds per model")
    parser.add_argument("--repeat", type=int, default=40, help="maximum rounds of the sessions")
    parser.add_argument("--rounds", type=int, default=7, help="measured conversions of each kind")
    parser.add_argument("--quick", action="store_true", help="a third of the time, no deep models")
    parser.add_argument("--small", action="store_true", help="use the sizes of the tests")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--no-torch", action="store_true", help="do not measure torch.onnx")
    parser.add_argument("--no-latency", action="store_true", help="do not run the graphs")
    parser.add_argument("--no-depth", action="store_true", help="skip the deep models")
    parser.add_argument("--only-depth", action="store_true", help="measure only the deep models")
    parser.add_argument("--json", type=Path, help="file for the records")
    parser.add_argument("--docs", type=Path, help="page with a marked part for the tables")
    parser.add_argument(
        "--from-json",
        type=Path,
        nargs="+",
        help="make the tables from these records; later files override earlier ones",
    )
    parser.add_argument("--one", help=argparse.SUPPRESS)  # internal: one job, in this process
    options = parser.parse_args()
    if min(options.repeat, options.rounds, options.threads) < 1 or options.seconds <= 0:
        parser.error("--repeat, --rounds and --threads are at least 1, --seconds more than 0")
    options.set = [name for name in options.set.split(",") if name]
    options.rules = [name for name in options.rules.split(",") if name]
    if not (options.one or options.from_json):
        _select_jobs(options, parser)
    return options


def _select_jobs(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Set the models and depths to measure, and check their names."""
    from ortable import OrtableError, OrtOptions

    try:
        OrtOptions(rewrites=[*options.set, *(name for name in options.rules if name != "all")])
        has_all_models = options.models == "all"
        options.names = [*MODELS, *LONGER] if has_all_models else options.models.split(",")
        for name in options.names:
            size_of(name)
    except (OrtableError, ValueError) as error:
        parser.error(str(error))
    if options.quick:
        options.seconds, options.rounds = options.seconds / 3, max(1, options.rounds // 3)
    with_depths = options.only_depth or not (
        options.no_depth or options.quick or options.small or options.rules or not has_all_models
    )
    options.depths = [(layers, mode) for mode in MODES for layers in DEPTHS] if with_depths else []
    if options.only_depth:
        options.names = []
    options.whole = has_all_models and not (
        options.quick or options.small or options.rules or options.no_torch
        or options.no_latency or options.only_depth
    )  # fmt: skip


def main() -> None:
    options = parse()
    if options.one:
        options.json.write_text(json.dumps(run_one(options.one, options)))
        return
    if options.from_json:
        run, path = report.merged(options.from_json), None
    else:
        run = run_all(options)
        path = options.json or (RESULTS / "rewrites.json" if options.whole else None)
    text = report.markdown(run)
    publish(run, text, MODULE, path, options.docs, report.details(run))


if __name__ == "__main__":
    main()
