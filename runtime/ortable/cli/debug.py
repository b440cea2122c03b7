"""The shell command `ortable debug`: what makes a model differ from eager, with file and line. In
comes module:callable, out comes the fault as text or JSON; status 1 when there is one."""

from __future__ import annotations

import argparse
import contextlib
import logging
import sys
from collections.abc import Iterator
from typing import Any

from .arguments import (
    add_dynamic,
    add_fallback,
    add_json,
    add_options,
    add_train,
    add_verbose,
    backend_options,
)
from .export import load_target
from .rewrites import add_choice

__all__ = ["add_debug"]

_DESCRIPTION = (
    "Compiles the model, compares it with eager, and when they differ switches parts off until "
    "they agree: options, ONNX Runtime's optimizers, rules, passes, constants, entries of the "
    "specs, decompositions. What is printed is the one that is wrong, where it stands, and what "
    "to do today."
)


def add_debug(commands: Any) -> None:
    """Adds the command to the subparsers of argparse."""
    debug = commands.add_parser(
        "debug", help="find what makes a model differ from eager", description=_DESCRIPTION
    )
    debug.add_argument(
        "target",
        metavar="module:callable",
        help="module:callable, whose callable returns (model, args) or (model, args, kwargs)",
    )
    add_train(debug)
    add_dynamic(debug)
    add_options(debug)
    add_fallback(debug)
    add_choice(debug)
    debug.add_argument(
        "--export", action="store_true", help="the exported model, in place of the compiled one"
    )
    debug.add_argument("--atol", type=float, default=None, help="largest difference accepted")
    debug.add_argument("--rtol", type=float, default=None, help="the same, relative to the value")
    debug.add_argument(
        "--script", metavar="FILE", help="write a program of one operator that shows the fault"
    )
    add_json(debug)
    add_verbose(debug)
    debug.set_defaults(run=_debug)


def _debug(args: argparse.Namespace) -> int:
    import torch

    from ortable.debug.bisection.search import bisect

    model, inputs, kwargs, dynamic_shapes = load_target(args.target)
    if isinstance(model, torch.nn.Module):
        model.train(args.train)
    options = backend_options(args)
    if args.export and dynamic_shapes is not None:
        options.setdefault("dynamic_shapes", dynamic_shapes)
    with _progress():
        found = bisect(
            model,
            inputs,
            kwargs,
            train=args.train,
            dynamic=True if args.dynamic else None,
            options=options,
            export=args.export,
            atol=args.atol,
            rtol=args.rtol,
        )
    print(found.to_json() if args.json else found)
    if args.script and found.fault is not None:
        _write_script(found, args.script)
    return 0 if found else 1


def _write_script(found: Any, path: str) -> None:
    """The program of the one operator that differs, where the fault is in one."""
    if found.difference is None or not found.difference.script:
        print(f"no script: {found.fault.kind} {found.fault.name} is not one operator alone")
        return
    print(f"wrote {found.difference.save(path)}")


@contextlib.contextmanager
def _progress() -> Iterator[None]:
    """On a terminal, one line that says which run it is."""
    if not sys.stderr.isatty():
        yield
        return
    logger = logging.getLogger("ortable.debug.bisection")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("\r\x1b[K%(message)s"))
    handler.terminator = ""
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        sys.stderr.write("\r\x1b[K")
