"""What rewrites do to the graphs that ortable writes for ONNX Runtime, model by model.

Latency of sessions that take turns in one process: torch.onnx's optimized graph, ortable's without
rewrites, and with them. Then nodes, which rules fired, seconds of rewriting, how these grow with
depth, and what single rules do (--rules). Every model runs in a process of its own. See
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
    """What the process of one job does: ``bert``, ``bert@4x128``, or ``96:dynamic``, a depth."""
    name, _, mode = job.partition(":")
    if name.isdigit():
        return measure_depth(int(name), mode == "dynamic", options)
    return measure(name, options)


def run_all(options: argparse.Namespace) -> dict[str, Any]:
    """The records of every model and depth that was asked for."""
    passed = passed_on(options)
    found: dict[str, Any] = {**origin(), "machine": described(options.threads)}
    found.update(records=[], depths=[])
    found["set"] = options.set
    for name in options.names:
        record = in_process(MODULE, name, passed, options.threads)
        found["records"].append({"name": name, **record})
        print(report.one_line(found["records"][-1]), flush=True)
    for layers, mode in options.depths:
        job = f"{layers}:{mode}"
        record = in_process(MODULE, job, passed, options.threads)
        found["depths"].append({"layers": layers, "dynamic": mode == "dynamic", **record})
        print(report.one_line(found["depths"][-1]), flush=True)
    return found


def described(threads: int) -> str:
    """Processors and versions."""
    import onnxruntime

    return f"{machine(threads)}, ONNX Runtime {onnxruntime.__version__}"


def passed_on(options: argparse.Namespace) -> list[str]:
    """The options that the process of one model needs."""
    values = ("opset", "rounds", "repeat", "seconds", "threads")
    given = [(name, getattr(options, name)) for name in values]
    passed = [f"--{name}={value}" for name, value in given if value is not None]
    passed += [f"--{name}={','.join(getattr(options, name))}" for name in ("set", "rules")]
    flags = ("small", "no_torch", "no_latency")
    return passed + [f"--{name.replace('_', '-')}" for name in flags if getattr(options, name)]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.rewrites", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "--models",
        "--model",
        default="all",
        help="names separated by commas, a language model also as bert@4x128 (batch x length); "
        "default: the whole set, and language models at longer sizes",
    )
    parser.add_argument(
        "--set", default="default", help="the rewrites that are measured, separated by commas"
    )
    parser.add_argument("--opset", type=int, help="of ortable's graphs; default: to_onnx's own")
    parser.add_argument(
        "--rules",
        default="",
        help="what these rules do alone, instead of the rest: names separated by commas, or 'all' "
        "for each that fires",
    )
    parser.add_argument("--seconds", type=float, default=20.0, help="of measuring, for a model")
    parser.add_argument("--repeat", type=int, default=40, help="rounds of the sessions, at most")
    parser.add_argument("--rounds", type=int, default=7, help="measured conversions of each kind")
    parser.add_argument("--quick", action="store_true", help="a third of the time, no depths")
    parser.add_argument("--small", action="store_true", help="the sizes of the tests")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--no-torch", action="store_true", help="leave torch.onnx out")
    parser.add_argument("--no-latency", action="store_true", help="nothing is run")
    parser.add_argument("--no-depth", action="store_true", help="leave the deep models out")
    parser.add_argument("--only-depth", action="store_true", help="the deep models alone")
    parser.add_argument("--json", type=Path, help="where the records go")
    parser.add_argument("--docs", type=Path, help="a page whose marked part the tables replace")
    parser.add_argument(
        "--from-json",
        type=Path,
        nargs="+",
        help="no measuring: the tables of these records, later files before earlier ones",
    )
    parser.add_argument("--one", help=argparse.SUPPRESS)  # measure this one, in this process
    options = parser.parse_args()
    if min(options.repeat, options.rounds, options.threads) < 1 or options.seconds <= 0:
        parser.error("--repeat, --rounds and --threads are at least 1, --seconds more than 0")
    options.set = [name for name in options.set.split(",") if name]
    options.rules = [name for name in options.rules.split(",") if name]
    if not (options.one or options.from_json):
        _choose(options, parser)
    return options


def _choose(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """The models and depths to measure, and checks of the names."""
    from ortable import OrtableError, OrtOptions

    try:
        OrtOptions(rewrites=[*options.set, *(name for name in options.rules if name != "all")])
        everything = options.models == "all"
        options.names = [*MODELS, *LONGER] if everything else options.models.split(",")
        for name in options.names:
            size_of(name)
    except (OrtableError, ValueError) as error:
        parser.error(str(error))
    if options.quick:
        options.seconds, options.rounds = options.seconds / 3, max(1, options.rounds // 3)
    deep = options.only_depth or not (
        options.no_depth or options.quick or options.small or options.rules or not everything
    )
    options.depths = [(layers, mode) for mode in MODES for layers in DEPTHS] if deep else []
    if options.only_depth:
        options.names = []
    options.whole = everything and not (
        options.quick or options.small or options.rules or options.no_torch
        or options.no_latency or options.only_depth
    )  # fmt: skip


def main() -> None:
    options = parse()
    if options.one:
        options.json.write_text(json.dumps(run_one(options.one, options)))
        return
    if options.from_json:
        found, path = report.merged(options.from_json), None
    else:
        found = run_all(options)
        path = options.json or (RESULTS / "rewrites.json" if options.whole else None)
    text = report.markdown(found)
    publish(found, text, MODULE, path, options.docs, report.details(found))


if __name__ == "__main__":
    main()
