"""The commands about a compiled model: `ortable explain`, `bench`, `tune`, `profile` and `debug`.

`target.py` loads their models, except the ONNX files of `profile`. `debug` exits with status 1 if
the model differs from eager.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ortable.errors import OptionError

from .arguments import (
    JSON_HELP,
    add_compile_arguments,
    add_flags,
    add_target,
    backend_options,
    check_existing,
    check_folder,
    check_writable,
    compile_arguments,
    keep_stdout_for_json,
    make_integer_type,
    parse_pairs,
    parse_tolerance,
)
from .progress import show_progress
from .rewrites import select_named_rules
from .target import make_call

if TYPE_CHECKING:
    from ortable.debug.bisection.records import Bisection
    from ortable.debug.profiling.report import Profile


# `bench` warns if the slowest round of a model takes this many times as long as the fastest.
_MAX_STEADY_RATIO = 3.0


def add_compile_commands(commands: Any) -> None:
    """Add `explain`, `bench` and `tune` to the subparsers of argparse."""
    explain = commands.add_parser("explain", help="what torch.compile makes of a model")
    add_target(explain)
    form = explain.add_mutually_exclusive_group()
    add_flags(form, json=JSON_HELP)
    add_flags(form, markdown="print Markdown")
    add_compile_arguments(explain)
    explain.set_defaults(run=_run_explain)
    bench = commands.add_parser("bench", help="how much faster than eager a model is")
    add_target(bench)
    bench.add_argument(
        "--rounds",
        type=make_integer_type(1),
        default=15,
        metavar="N",
        help="measured rounds, after a warm-up (15)",
    )
    add_flags(bench, json=JSON_HELP)
    add_compile_arguments(bench)
    bench.set_defaults(run=_run_bench)
    tune = commands.add_parser("tune", help="find the session settings that are fastest here")
    add_target(tune)
    tune.add_argument(
        "--seconds", type=float, default=20.0, metavar="S", help="how long to search a graph (20)"
    )
    tune.add_argument("--cache-dir", metavar="FOLDER", help="keep the result for torch.compile")
    add_flags(tune, json=JSON_HELP)
    add_compile_arguments(tune)
    tune.set_defaults(run=_run_tune)


def _run_explain(args: argparse.Namespace) -> int:
    from ortable.debug.explain_call import explain
    from ortable.debug.explain_records import as_markdown, as_text

    arguments = compile_arguments(args)
    with keep_stdout_for_json(args.json):
        call = make_call(args)
        named = select_named_rules(args)
        with show_progress("compiling"):
            explanation = explain(call.model, *call.args, **call.kwargs, **arguments)
    if args.json:
        print(explanation.to_json())
    else:
        print((as_markdown if args.markdown else as_text)(explanation, named))
    return 0


# -- bench


def _run_bench(args: argparse.Namespace) -> int:
    options = backend_options(args)
    rounds = args.rounds
    from ortable.backend.timing import median_ratio, time_interleaved

    with keep_stdout_for_json(args.json):
        call = make_call(args)
        compiled = call.compile_model(_make_backend(options), args.dynamic)
        with show_progress("compiling", rounds + 1, quiet=True) as step:
            begin = time.perf_counter()
            call(compiled)
            first_call_seconds = time.perf_counter() - begin
            call(compiled)
            step("measuring")
            calls = {"eager": partial(call, call.model), "compiled": partial(call, compiled)}
            times = time_interleaved(calls, rounds, 0.02, on_round=step)  # 20 ms per measurement
    eager_times, compiled_times = times.values()
    ratio = median_ratio(times, "compiled", "eager")
    if args.json:
        record = {
            "model": args.target,
            "train": args.train,
            "rounds": rounds,
            "first_call_s": first_call_seconds,
            "eager_ms": _summarize_times(eager_times),
            "ortable_ms": _summarize_times(compiled_times),
            "ratio": ratio,
        }
        print(json.dumps(record, indent=2))
        return 0
    print(f"first call, with compilation: {first_call_seconds:.2f} s")
    for name, values in (("eager", eager_times), ("compiled", compiled_times)):
        summary = _summarize_times(values)
        low, high = f"{summary['least']:.3f}", f"{summary['most']:.3f}"
        print(f"{name:9} {summary['median']:9.3f} ms a call  [{low} .. {high}]")
    mode = ", forward and backward" if args.train else ""
    print(f"compiled takes {ratio:.2f} of eager's time ({rounds} rounds{mode})")
    spread = max(max(values) / min(values) for values in (eager_times, compiled_times))
    if spread > _MAX_STEADY_RATIO:
        print(f"times of one model vary by a factor of {spread:.0f}: this machine does other work")
    return 0


def _make_backend(options: Mapping[str, Any]) -> Callable[..., Any]:
    from ortable import onnx_custom_backend
    from ortable.backend.options import OrtOptions

    OrtOptions.from_mapping(options)  # validates before the model is called
    return partial(onnx_custom_backend, options=options)


def _summarize_times(seconds: list[float]) -> dict[str, float]:
    """Return the median, the least and the most of times, in milliseconds."""
    milliseconds = [1e3 * value for value in seconds]
    median = statistics.median(milliseconds)
    return {"median": median, "least": min(milliseconds), "most": max(milliseconds)}


# -- tune


def _run_tune(args: argparse.Namespace) -> int:
    storage: dict[str, Any] = {}
    options = {"tune": args.seconds, "storage": storage, **backend_options(args)}
    if args.cache_dir is not None:
        options["cache_dir"] = check_folder(args.cache_dir)
    with keep_stdout_for_json(args.json):
        call = make_call(args)
        with show_progress(f"searching, {args.seconds:g} s a graph"):
            call(call.compile_model(_make_backend(options), args.dynamic))
    results = [dict(record.tuned) for record in storage.get("instance", ())]
    if args.json:
        print(json.dumps(results, indent=2))
        return 0
    for number, row in enumerate(results):
        text = ", ".join(f"{name}={value}" for name, value in row.get("settings", {}).items())
        print(
            f"graph {number}: {text or 'the usual settings'}, {row.get('ratio', 1.0):.2f} of the "
            f"usual time ({row.get('found', 'torch runs it')}, {row.get('tried', 0)} tried)"
        )
    if not results:
        print("nothing was compiled: there is no graph to tune", file=sys.stderr)
    return 0


_DEBUG_DESCRIPTION = (
    "Compiles the model, compares it with eager, and when they differ switches parts off until "
    "they agree: options, ONNX Runtime's optimizers, rules, passes, constants, entries of the "
    "specs, decompositions. It prints the part that is wrong, its file and line, and how to avoid "
    "the fault."
)
_SEARCH_LOGGER = "ortable.debug.bisection.search"


def add_debug(commands: Any) -> None:
    """Add `debug` to the subparsers of argparse."""
    debug = commands.add_parser(
        "debug", help="find what makes a model differ from eager", description=_DEBUG_DESCRIPTION
    )
    add_target(debug)
    add_flags(debug, export="the exported model, in place of the compiled one")
    debug.add_argument(
        "--atol", type=parse_tolerance, metavar="X", help="how far floats may be from eager's"
    )
    debug.add_argument(
        "--rtol", type=parse_tolerance, metavar="X", help="how far they may be, relative to eager's"
    )
    debug.add_argument(
        "--script", metavar="FILE.py", help="write a program of one operator that shows the fault"
    )
    add_flags(debug, json=JSON_HELP)
    add_compile_arguments(debug)
    debug.set_defaults(run=_run_debug)


def _run_debug(args: argparse.Namespace) -> int:
    if args.script is not None:
        check_writable(args.script)  # fail before the long search
    with keep_stdout_for_json(args.json):
        bisection = _search_fault(args)
        message = _write_script(bisection, args.script)
    print(bisection.to_json() if args.json else bisection)
    if message and not args.json:
        print(message)
    return 0 if bisection else 1


def _search_fault(args: argparse.Namespace) -> Bisection:
    from ortable.debug.bisection.search import bisect

    call, arguments = make_call(args), compile_arguments(args)
    if args.export and call.dynamic_shapes is not None:
        arguments["options"].setdefault("dynamic_shapes", call.dynamic_shapes)
    arguments |= {"export": args.export, "atol": args.atol, "rtol": args.rtol}
    with show_progress("compiling") as step, _report_steps(step):
        return bisect(call.model, call.args, call.kwargs, **arguments)


def _write_script(bisection: Bisection, path: str | None) -> str:
    """Write the script that shows the fault to `path`; return what to print about the script.

    Return an empty string if no path or no fault is given.
    """
    if path is None or bisection.fault is None:
        return ""
    if bisection.difference is None or not bisection.difference.script:
        return f"no script: {bisection.fault.kind} {bisection.fault.name} is not a single operator"
    return f"wrote {bisection.difference.save(path)}"


@contextlib.contextmanager
def _report_steps(step: Callable[[str], None]) -> Iterator[None]:
    """Call `step` with each message that the search logs in the block, and log it nowhere else."""
    logger, handler = logging.getLogger(_SEARCH_LOGGER), logging.Handler()
    handler.emit = lambda record: step(record.getMessage())  # type: ignore[method-assign]
    level, propagate = logger.level, logger.propagate
    try:
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logger.propagate = False
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate


_PROFILE_FILES = {
    "json": "all numbers",
    "trace": "one call, for chrome://tracing and Perfetto",
    "html": "a page with a flame graph and the tables",
}


def add_profile(commands: Any) -> None:
    """Add `profile` to the subparsers of argparse."""
    profile = commands.add_parser("profile", help="where the time of a call goes, by module")
    add_target(profile, "or a file MODEL.onnx")
    for name, text in _PROFILE_FILES.items():
        profile.add_argument(f"--{name}", metavar="FILE", help=f"write {text}")
    profile.add_argument(
        "--calls", type=int, default=10, metavar="N", help="measured calls, after a warm-up (10)"
    )
    profile.add_argument(
        "--rows", type=make_integer_type(0), default=15, metavar="N", help="rows of a table (15)"
    )
    profile.add_argument(
        "--size",
        metavar="NAME=NUMBER",
        action="append",
        default=[],
        help="size of a named dimension of the inputs of MODEL.onnx, 8 by default",
    )
    add_compile_arguments(profile)
    profile.set_defaults(run=_run_profile)


def _run_profile(args: argparse.Namespace) -> int:
    files = {
        name: getattr(args, name) for name in _PROFILE_FILES if getattr(args, name) is not None
    }
    for path in files.values():
        check_writable(path)  # fail before the long measurement
    with show_progress("compiling and measuring", quiet=True):
        profile = _measure_profile(args)
    _print_profile(profile, args.rows)
    for name, path in files.items():
        getattr(profile, f"save_{name}")(path)
        print(f"wrote {path}")
    return 0


def _measure_profile(args: argparse.Namespace) -> Profile:
    from ortable.debug.profiling.call import profile

    arguments = {**compile_arguments(args), "calls": args.calls, "sizes": parse_pairs(args.size)}
    if not args.target.endswith(".onnx"):
        call = make_call(args)
        return profile(call.model, *call.args, **call.kwargs, **arguments)
    flags = {
        "--inputs": args.inputs,
        "--fallback": args.fallback is not None,
        "--task": args.task,
        "--config": args.config,
    }
    for flag, is_given in flags.items():
        if is_given:
            raise OptionError(f"{flag} is for models of PyTorch; an ONNX file takes --size batch=8")
    return profile(check_existing(args.target), **arguments)


def _print_profile(profile: Profile, rows: int) -> None:
    """Print the tables with rich if it is installed and stdout is a terminal, else as text."""
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        print(profile.text(rows))
        return
    console = Console(highlight=False)
    if not console.is_terminal:
        print(profile.text(rows))
        return
    from ortable.debug.profiling.report import HEADS, format_head, make_tables

    console.print(format_head(profile), style="bold", markup=False)
    for note in profile.notes:
        console.print(note, markup=False)
    for table in make_tables(profile, rows):
        rich_table = Table(table.title, *HEADS)
        _fill_table(rich_table, table.rows)
        console.print(rich_table)


def _fill_table(rich_table: Any, rows: Sequence[Sequence[str]]) -> None:
    from rich.text import Text

    for column in rich_table.columns[1:]:
        column.justify = "right"
    for row in rows:
        rich_table.add_row(*map(Text, row))
