"""The shell commands about a compiled model: `ortable explain`, `bench`, `tune`, `profile`, and
`debug`, which says what makes it differ from eager and ends with status 1 when something does. Each
takes a model, see `target`."""

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
    JSON,
    add_compile_arguments,
    add_flags,
    add_target,
    at_least,
    backend_options,
    distance,
    existing,
    folder,
    how_compiled,
    only_json,
    pairs,
    writable,
)
from .progress import progress
from .rewrites import named_rules
from .target import call_of

if TYPE_CHECKING:
    from ortable.debug.bisection.records import Bisection
    from ortable.debug.profiling.report import Profile


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
    return partial(onnx_custom_backend, options=options)


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


_DESCRIPTION = (
    "Compiles the model, compares it with eager, and when they differ switches parts off until "
    "they agree: options, ONNX Runtime's optimizers, rules, passes, constants, entries of the "
    "specs, decompositions. What is printed is the one that is wrong, where it stands, and what "
    "to do today."
)
_SEARCH = "ortable.debug.bisection.search"


def add_debug(commands: Any) -> None:
    """Adds the command to the subparsers of argparse."""
    debug = commands.add_parser(
        "debug", help="find what makes a model differ from eager", description=_DESCRIPTION
    )
    add_target(debug)
    add_flags(debug, export="the exported model, in place of the compiled one")
    debug.add_argument(
        "--atol", type=distance, metavar="X", help="how far floats may be from eager's"
    )
    debug.add_argument(
        "--rtol", type=distance, metavar="X", help="how far they may be, relative to eager's"
    )
    debug.add_argument(
        "--script", metavar="FILE.py", help="write a program of one operator that shows the fault"
    )
    add_flags(debug, json=JSON)
    add_compile_arguments(debug)
    debug.set_defaults(run=_debug)


def _debug(args: argparse.Namespace) -> int:
    if args.script is not None:
        writable(args.script)  # before the search
    with only_json(args.json):
        found = _searched(args)
        written = _script(found, args.script)
    print(found.to_json() if args.json else found)
    if written and not args.json:
        print(written)
    return 0 if found else 1


def _searched(args: argparse.Namespace) -> Bisection:
    from ortable.debug.bisection.search import bisect

    call, how = call_of(args), how_compiled(args)
    if args.export and call.dynamic_shapes is not None:
        how["options"].setdefault("dynamic_shapes", call.dynamic_shapes)
    how |= {"export": args.export, "atol": args.atol, "rtol": args.rtol}
    with progress("compiling") as step, _steps(step):
        return bisect(call.model, call.args, call.kwargs, **how)


def _script(found: Bisection, path: str | None) -> str:
    """Writes the program of the one operator that differs, where the fault is in one; what to
    say of it."""
    if path is None or found.fault is None:
        return ""
    if found.difference is None or not found.difference.script:
        return f"no script: {found.fault.kind} {found.fault.name} is not one operator alone"
    return f"wrote {found.difference.save(path)}"


@contextlib.contextmanager
def _steps(step: Callable[[str], None]) -> Iterator[None]:
    """In the block each run of the search, which it logs, is a step."""
    logger, handler = logging.getLogger(_SEARCH), logging.Handler()
    handler.emit = lambda record: step(record.getMessage())  # type: ignore[method-assign]
    level, up = logger.level, logger.propagate
    try:
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logger.propagate = False
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = up


_FILES = {
    "json": "all numbers",
    "trace": "one call, for chrome://tracing and Perfetto",
    "html": "a page with a flame graph and the tables",
}


def add_profile(commands: Any) -> None:
    """Adds the command to the subparsers of argparse."""
    profile = commands.add_parser("profile", help="where the time of a call goes, by module")
    add_target(profile, "or a file MODEL.onnx")
    for name, text in _FILES.items():
        profile.add_argument(f"--{name}", metavar="FILE", help=f"write {text}")
    profile.add_argument(
        "--calls", type=int, default=10, metavar="N", help="measured calls, after a warm-up (10)"
    )
    profile.add_argument(
        "--rows", type=at_least(0), default=15, metavar="N", help="rows of a table (15)"
    )
    profile.add_argument(
        "--size",
        metavar="NAME=NUMBER",
        action="append",
        default=[],
        help="of MODEL.onnx: a dimension of the inputs that are made; others are 8",
    )
    add_compile_arguments(profile)
    profile.set_defaults(run=_profile)


def _profile(args: argparse.Namespace) -> int:
    files = {name: getattr(args, name) for name in _FILES if getattr(args, name) is not None}
    for path in files.values():
        writable(path)  # before the calls
    with progress("compiling and measuring", quiet=True):
        found = _profiled(args)
    _print(found, args.rows)
    for name, path in files.items():
        getattr(found, f"save_{name}")(path)
        print(f"wrote {path}")
    return 0


def _profiled(args: argparse.Namespace) -> Profile:
    from ortable.debug.profiling.call import profile

    how = {**how_compiled(args), "calls": args.calls, "sizes": pairs(args.size)}
    if not args.target.endswith(".onnx"):
        call = call_of(args)
        return profile(call.model, *call.args, **call.kwargs, **how)
    if args.inputs or args.fallback is not None:
        flag = "--inputs" if args.inputs else "--fallback"
        raise OptionError(f"{flag} is for models of PyTorch; sizes of a file: --size batch=8")
    return profile(existing(args.target), **how)


def _print(found: Profile, rows: int) -> None:
    """The tables, with lines and colors where rich is installed and somebody looks."""
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        print(found.text(rows))
        return
    console = Console(highlight=False)
    if not console.is_terminal:
        print(found.text(rows))
        return
    from ortable.debug.profiling.report import HEADS, head, tables_of

    console.print(head(found), style="bold", markup=False)
    for note in found.notes:
        console.print(note, markup=False)
    for table in tables_of(found, rows):
        shown = Table(table.title, *HEADS)
        _fill(shown, table.rows)
        console.print(shown)


def _fill(shown: Any, rows: Sequence[Sequence[str]]) -> None:
    from rich.text import Text

    for column in shown.columns[1:]:
        column.justify = "right"
    for row in rows:
        shown.add_row(*map(Text, row))
