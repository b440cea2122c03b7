"""The shell command `ortable profile`: where the time of a call goes, as tables, and as files that
browsers and viewers open."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ortable.errors import OptionError

from .arguments import (
    add_compile_arguments,
    add_target,
    at_least,
    existing,
    how_compiled,
    pairs,
    writable,
)
from .progress import progress
from .target import call_of

if TYPE_CHECKING:
    from ortable.debug.profiling.report import Profile

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
