"""The shell commands about torch.compile: `ortable explain`, `bench` and `tune`. Each takes a
model, see `target`."""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from .arguments import (
    JSON,
    add_compile_arguments,
    add_flags,
    add_target,
    at_least,
    backend_options,
    folder,
    how_compiled,
    only_json,
)
from .progress import progress
from .rewrites import named_rules
from .target import call_of

_STEADY = 3.0  # the slowest round by the fastest, where nothing else runs


def add_compile_commands(commands: Any) -> None:
    """Adds the commands to the subparsers of argparse."""
    explain = commands.add_parser("explain", help="what torch.compile makes of a model")
    add_target(explain)
    form = explain.add_mutually_exclusive_group()
    add_flags(form, json=JSON)
    add_flags(form, markdown="print Markdown")
    add_compile_arguments(explain)
    explain.set_defaults(run=_explain)
    bench = commands.add_parser("bench", help="how much faster than eager a model is")
    add_target(bench)
    bench.add_argument(
        "--rounds",
        type=at_least(1),
        default=15,
        metavar="N",
        help="measured rounds, after a warm-up (15)",
    )
    add_flags(bench, json=JSON)
    add_compile_arguments(bench)
    bench.set_defaults(run=_bench)
    tune = commands.add_parser("tune", help="find the session settings that are fastest here")
    add_target(tune)
    tune.add_argument(
        "--seconds", type=float, default=20.0, metavar="S", help="how long to search a graph (20)"
    )
    tune.add_argument("--cache-dir", metavar="FOLDER", help="keep the result for torch.compile")
    add_flags(tune, json=JSON)
    add_compile_arguments(tune)
    tune.set_defaults(run=_tune)


def _explain(args: argparse.Namespace) -> int:
    from ortable.debug.explain_call import explain
    from ortable.debug.explain_records import as_markdown, as_text

    how = how_compiled(args)
    with only_json(args.json):
        call = call_of(args)
        named = named_rules(args)
        with progress("compiling"):
            found = explain(call.model, *call.args, **call.kwargs, **how)
    if args.json:
        print(found.to_json())
    else:
        print((as_markdown if args.markdown else as_text)(found, named))
    return 0


# -- bench


def _bench(args: argparse.Namespace) -> int:
    options = backend_options(args)
    rounds = args.rounds
    from ortable.backend.timing import interleave, median_ratio

    with only_json(args.json):
        call = call_of(args)
        compiled = call.compiled(_backend(options), args.dynamic)
        with progress("compiling", rounds + 1, quiet=True) as step:
            begin = time.perf_counter()
            call(compiled)
            first = time.perf_counter() - begin
            call(compiled)
            step("measuring")
            calls = {"eager": partial(call, call.model), "compiled": partial(call, compiled)}
            found = interleave(calls, rounds, 0.02, tell=step)
    eager, ours = found.values()
    ratio = median_ratio(found, "compiled", "eager")
    if args.json:
        record = {
            "model": args.target,
            "train": args.train,
            "rounds": rounds,
            "first_call_s": first,
            "eager_ms": _spread(eager),
            "ortable_ms": _spread(ours),
            "ratio": ratio,
        }
        print(json.dumps(record, indent=2))
        return 0
    print(f"first call, with compilation: {first:.2f} s")
    for name, values in (("eager", eager), ("compiled", ours)):
        of = _spread(values)
        low, high = f"{of['least']:.3f}", f"{of['most']:.3f}"
        print(f"{name:9} {of['median']:9.3f} ms a call  [{low} .. {high}]")
    what = ", forward and backward" if args.train else ""
    print(f"compiled takes {ratio:.2f} of eager's time ({rounds} rounds{what})")
    varied = max(max(values) / min(values) for values in (eager, ours))
    if varied > _STEADY:
        print(f"times of one model vary by a factor of {varied:.0f}: this machine does other work")
    return 0


def _backend(options: Mapping[str, Any]) -> Callable[..., Any]:
    from ortable import onnx_custom_backend
    from ortable.backend.options import OrtOptions

    OrtOptions.from_mapping(options)  # an unknown one is told before the model is called
    return functools.partial(onnx_custom_backend, options=options)


def _spread(seconds: list[float]) -> dict[str, float]:
    milliseconds = [1e3 * value for value in seconds]
    median = statistics.median(milliseconds)
    return {"median": median, "least": min(milliseconds), "most": max(milliseconds)}


# -- tune


def _tune(args: argparse.Namespace) -> int:
    storage: dict[str, Any] = {}
    options = {"tune": args.seconds, "storage": storage, **backend_options(args)}
    if args.cache_dir is not None:
        options["cache_dir"] = folder(args.cache_dir)
    with only_json(args.json):
        call = call_of(args)
        with progress(f"searching, {args.seconds:g} s a graph"):
            call(call.compiled(_backend(options), args.dynamic))
    found = [dict(record.tuned) for record in storage.get("instance", ())]
    if args.json:
        print(json.dumps(found, indent=2))
        return 0
    for number, each in enumerate(found):
        said = ", ".join(f"{name}={value}" for name, value in each.get("settings", {}).items())
        print(
            f"graph {number}: {said or 'the usual settings'}, {each.get('ratio', 1.0):.2f} of the "
            f"usual time ({each.get('found', 'torch runs it')}, {each.get('tried', 0)} tried)"
        )
    if not found:
        print("nothing was compiled: there is no graph to tune", file=sys.stderr)
    return 0
