"""The shell command `ortable debug`: what makes a model differ from eager, with file and line. In
comes a target, see `target`, out comes the fault as text or JSON; status 1 when there is one."""

from __future__ import annotations

import argparse
import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from .arguments import (
    JSON,
    add_compile_arguments,
    add_flags,
    add_target,
    distance,
    how_compiled,
    only_json,
    writable,
)
from .progress import progress
from .target import call_of

if TYPE_CHECKING:
    from ortable.debug.bisection.records import Bisection

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
