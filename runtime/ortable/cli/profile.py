"""The shell command `ortable profile`: where the time of a call goes, as tables, and as files that
browsers and viewers open."""

from __future__ import annotations

import argparse
import ast
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ortable.errors import OptionError

from .export import load_target
from .rewrites import ERRORS_INTO_A_FILE, add_choice, chosen_names

if TYPE_CHECKING:
    from ortable.debug.profiling.report import Profile

__all__ = ["add_profile"]

_FILES = {
    "json": "all numbers",
    "trace": "one call, for chrome://tracing and Perfetto",
    "html": "a page with a flame graph and the tables",
    "png": "the flame graph as a picture",
}


def add_profile(commands: Any) -> None:
    """Adds the command to the subparsers of argparse."""
    about = (
        "module:callable, whose callable returns (model, args) or (model, args, kwargs); or a file "
        "MODEL.onnx"
    )
    profile = commands.add_parser("profile", help="where the time of a call goes, by module")
    profile.add_argument("target", metavar="TARGET", help=about)
    for name, text in _FILES.items():
        profile.add_argument(f"--{name}", metavar="FILE", help=f"write {text}")
    profile.add_argument("--calls", type=int, default=10, help="measured calls, after a warm-up")
    profile.add_argument("--rows", type=int, default=15, help="rows of a table")
    profile.add_argument("--train", action="store_true", help="with gradients, in training mode")
    profile.add_argument("--dynamic", action="store_true", help="free sizes from the start")
    profile.add_argument(
        "--options",
        metavar="NAME=VALUE",
        nargs="+",
        default=[],
        help="options of the backend, freeze=off, or of a file's session",
    )
    profile.add_argument(
        "--size",
        metavar="NAME=NUMBER",
        action="append",
        default=[],
        help="a dimension of the inputs that are made for a file; others are 8",
    )
    add_choice(profile)
    profile.add_argument("--verbose", action="store_true", help=ERRORS_INTO_A_FILE)
    profile.set_defaults(run=_profile)


def _profile(args: argparse.Namespace) -> int:
    files = {name: getattr(args, name) for name in _FILES if getattr(args, name)}
    for path in files.values():
        _check_file(Path(path))  # before the calls
    found = _profiled(args, dict(map(_pair, args.options)), dict(map(_pair, args.size)))
    _print(found, args.rows)
    for name, path in files.items():
        getattr(found, f"save_{name}")(path)
        print(f"wrote {path}")
    return 0


def _profiled(args: argparse.Namespace, options: dict[str, Any], sizes: Any) -> Profile:
    import torch

    from ortable.debug.profiling.call import profile

    dynamic = True if args.dynamic else None
    if args.target.endswith(".onnx"):
        return profile(
            args.target,
            calls=args.calls,
            options=options,
            train=args.train,
            dynamic=dynamic,
            sizes=sizes,
        )
    options.setdefault("rewrites", chosen_names(args))
    model, inputs, kwargs, _ = load_target(args.target)
    if isinstance(model, torch.nn.Module):
        model.train(args.train)
    return profile(
        model,
        *inputs,
        **(kwargs or {}),
        calls=args.calls,
        options=options,
        train=args.train,
        dynamic=dynamic,
        sizes=sizes,
    )


def _check_file(path: Path) -> None:
    """:raises OptionError: the file cannot be written"""
    if not path.parent.is_dir():
        raise OptionError(f"folder '{path.parent}' does not exist")
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise OptionError(f"'{path}' cannot be written")


def _pair(text: str) -> tuple[str, Any]:
    """``freeze=off`` as a name and a value; numbers, lists and dicts as Python writes them."""
    name, equals, value = text.partition("=")
    if not equals:
        raise OptionError(f"{text!r} is not NAME=VALUE, for instance freeze=off")
    try:
        return name, ast.literal_eval(value)
    except (SyntaxError, ValueError):
        return name, value


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
    from ortable.debug.profiling.tables import HEADS, head, tables_of

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
