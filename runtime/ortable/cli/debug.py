"""The shell command `ortable debug`: what makes a model differ from eager, with file and line. In
comes a target, see `target`, out comes the fault as text or JSON; status 1 when there is one."""

from __future__ import annotations

import argparse
import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from .arguments import (
    add_compile_arguments,
    add_json,
    add_target,
    backend_options,
    distance,
    only_json,
)
from .files import writable
from .model_call import ModelCall
from .progress import progress
from .target import load_target

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
    debug.add_argument(
        "--export", action="store_true", help="the exported model, in place of the compiled one"
    )
    debug.add_argument(
        "--atol", type=distance, metavar="X", help="how far floats may be from eager's"
    )
    debug.add_argument(
        "--rtol", type=distance, metavar="X", help="how far they may be, relative to eager's"
    )
    debug.add_argument(
        "--script", metavar="FILE.py", help="write a program of one operator that shows the fault"
    )
    add_json(debug)
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

    target = load_target(args.target, args.inputs, args.task, args.config)
    call = ModelCall(target, args.train)
    options = backend_options(args)
    if args.export and target.dynamic_shapes is not None:
        options.setdefault("dynamic_shapes", target.dynamic_shapes)
    with progress("compiling") as step, _steps(step):
        return bisect(
            call.model,
            call.args,
            call.kwargs,
            train=args.train,
            dynamic=True if args.dynamic else None,
            options=options,
            export=args.export,
            atol=args.atol,
            rtol=args.rtol,
        )


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
    """In the block each run of the search is a step."""
    logger = logging.getLogger(_SEARCH)
    handler, level, up = _Handler(step), logger.level, logger.propagate
    try:
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logger.propagate = False
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = up


class _Handler(logging.Handler):
    """Hands what is logged to a function."""

    def __init__(self, step: Callable[[str], None]) -> None:
        super().__init__()
        self._step = step

    def emit(self, record: logging.LogRecord) -> None:
        """One run has ended."""
        self._step(record.getMessage())
