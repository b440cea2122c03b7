"""Conversion of an ExportedProgram to ONNX: ortable next to torch.onnx, model by model.

Seconds of both exporters from the same ExportedProgram, taking turns in one process: the graph with
its weights left in torch, and one ModelProto that holds every weight. Then the number of nodes of
both graphs, their latency in ONNX Runtime, peak memory, and what a node costs as a model gets
deeper. Every model runs in a process of its own. See benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import json
import os
import pstats
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

MODULE = "benchmarks.conversion"
RESULTS = ROOT / "benchmarks" / "results"
DEPTHS = (12, 24, 48, 96)

# Where time goes, by the path of the function: the first part that matches names the phase.
PHASES = (
    ("ortable/interpreter/", "walk the FX graph"),
    ("ortable/export/", "export: inputs, outputs, options"),
    ("ortable/builder/serialize", "write the protobuf"),
    ("ortable/builder/", "builder: nodes, names, passes"),
    ("ortable/rewrite/", "rewrites"),
    ("ortable_generated/onnx/", "ONNX shape and type rules"),
    ("ortable_generated/aten/", "converters"),
    ("ortable/lowerings/", "converters"),
    ("ortable/prelude", "converters"),
    ("ortable/promotion", "converters"),
    ("ortable/dims", "symbolic dimensions"),
    ("ortable/rules", "ONNX shape and type rules"),
    ("ortable/", "ortable, the rest"),
    ("google/protobuf", "write the protobuf"),
    ("/onnx/", "onnx"),
    ("numpy/", "numpy"),
    ("/sympy/", "sympy"),
    ("/torch/", "torch"),
)


def phase(filename: str) -> str:
    """The phase of :data:`PHASES` that a function's file belongs to."""
    path = filename.replace("\\", "/")
    if path == "~":
        return "C functions (built-ins, protobuf, torch)"
    return next((label for part, label in PHASES if part in path), "Python's library")


def profile(ep: Any, opset: int, large: bool, top: int) -> None:
    """One conversion under cProfile: own time by phase, then the functions that cost most.

    The profiler charges every Python call, so the shares lean towards small functions.
    """
    import ortable

    gc.collect()
    profiler = cProfile.Profile()
    profiler.runcall(ortable.to_onnx, ep, target_opset=opset, large_model=large)
    stats = pstats.Stats(profiler)
    rows = [(*key, *value[:4]) for key, value in stats.stats.items()]  # type: ignore[attr-defined]
    total = sum(row[5] for row in rows)
    phases: dict[str, tuple[int, float]] = {}
    for filename, _line, _name, _primitive, calls, own, _cumulative in rows:
        count, seconds = phases.get(phase(filename), (0, 0.0))
        phases[phase(filename)] = count + calls, seconds + own
    title = "weights left in torch" if large else "one ModelProto"
    print(f"\nprofile, {title}: {total:.3f} s under cProfile")
    for label, (count, seconds) in sorted(phases.items(), key=lambda item: -item[1][1]):
        print(f"  {seconds:8.4f} s  {100 * seconds / total:5.1f} %  {count:9d} calls  {label}")
    print("  own time, function")
    for filename, line, name, _, calls, own, _ in sorted(rows, key=lambda row: -row[5])[:top]:
        place = "" if filename == "~" else f" ({'/'.join(Path(filename).parts[-2:])}:{line})"
        print(f"  {own:8.4f} s  {calls:9d} calls  {name}{place}")


def profile_models(options: argparse.Namespace) -> None:
    """--profile: ortable alone, in this process."""
    import ortable
    from benchmarks.conversion.measure import exported, quiet

    quiet()
    for name in options.names:
        for dynamic in options.modes:
            _, _, ep = exported(name, options.small, dynamic, options.layers)
            print(f"\n{name}, {'free' if dynamic else 'fixed'} dimensions")
            ortable.to_onnx(ep, target_opset=options.opset, large_model=True)  # imports, caches
            profile(ep, options.opset, large=True, top=options.top)
            profile(ep, options.opset, large=False, top=options.top)


def run_in_process(job: str, passed: list[str], threads: int) -> dict[str, Any]:
    """The record of one job, ``name:mode`` or ``layers:mode``, measured by a process of its own."""
    from benchmarks import measure as harness

    name, _, mode = job.partition(":")
    found = harness.in_process(MODULE, job, passed, threads)
    return {"name": name, "dynamic": mode == "dynamic", **found}


def run_one(job: str, options: argparse.Namespace) -> dict[str, Any]:
    """What the process of one job does."""
    from benchmarks.conversion.measure import measure, measure_depth

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
    from benchmarks.models.architectures import ARCHITECTURES

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
    from benchmarks import measure as harness
    from benchmarks.backend.report import insert
    from benchmarks.conversion import report

    if options.from_json:
        found = json.loads(options.from_json.read_text())
    elif options.profile:
        profile_models(options)
        return
    else:
        found = {"machine": harness.machine(options.threads), "records": [], "depths": []}
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
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(found, indent=1) + "\n")
    text = report.markdown(found)
    print("\n" + text)
    if options.docs is not None:
        insert(options.docs, text, "benchmarks.conversion")


if __name__ == "__main__":
    main()
