"""The shell command `ortable`: show, ops, specs check; the others stand in their own files.
Errors of ours are printed without a traceback and end with status 1."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any

from ortable.errors import OrtableError

from .compile import add_compile_commands
from .debug import add_debug
from .draw import add_draw
from .examples import add_examples
from .export import add_export
from .failures import said
from .files import existing
from .profile import add_profile
from .rewrites import add_rewrites
from .specs import add_specs

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit status."""
    parser = _parser()
    _complete(parser)
    args = parser.parse_args(argv)
    try:
        status = int(args.run(args) or 0)
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:  # ortable show model.onnx | head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if args.debug:
            raise
        print(_message(error, int(getattr(args, "verbose", 0) or 0)), file=sys.stderr)
        return 1


def _message(error: Exception, verbose: int) -> str:
    """What is printed of an error: ours say what to do, the others where they were raised."""
    if isinstance(error, OrtableError):
        from ortable.interpreter.diagnostics.advice import advise, in_words_of_the_shell

        advise(error, "shell", verbose)
        return f"error: {in_words_of_the_shell(str(error))}"
    if isinstance(error, FileNotFoundError) and error.errno is None:
        return f"error: {error}"  # of `existing`
    return said(error)


def _complete(parser: argparse.ArgumentParser) -> None:
    """Completes words in the shell, where argcomplete is installed and switched on."""
    if "_ARGCOMPLETE" not in os.environ:  # the shell asks
        return
    try:
        import argcomplete
    except ImportError:
        return
    argcomplete.autocomplete(parser)


def _parser() -> argparse.ArgumentParser:
    from ortable import __version__

    parser = argparse.ArgumentParser(prog="ortable", description="PyTorch to ONNX, from tables.")
    parser.add_argument("--version", action="version", version=f"ortable {__version__}")
    parser.add_argument("--debug", action="store_true", help="print tracebacks of errors")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")

    show = commands.add_parser("show", help="print an ONNX model as text")
    show.add_argument("model", help="path of the model")
    show.add_argument("--full", action="store_true", help="print every value of initializers")
    show.set_defaults(run=_show)

    add_draw(commands)

    ops = commands.add_parser("ops", help="list the supported operators")
    ops.add_argument("--missing", metavar="MODEL.pt2", help="what a saved program still lacks")
    ops.add_argument("--grep", default="", help="only names that contain this text")
    ops.set_defaults(run=_ops)

    add_export(commands)
    add_compile_commands(commands)
    add_debug(commands)
    add_profile(commands)
    add_rewrites(commands)

    add_specs(commands)
    add_examples(commands.choices)
    return parser


def _show(args: argparse.Namespace) -> int:
    from ortable.ir.proto.text import pretty_onnx

    print(pretty_onnx(existing(args.model), shorten=not args.full))
    return 0


def _ops(args: argparse.Namespace) -> int:
    from ortable.interpreter.tables import generated_tables

    if args.missing:
        return _missing(existing(args.missing), generated_tables().converters)
    _print_coverage(args.grep)
    return 0


def _print_coverage(text: str) -> None:
    """The table of docs/operators.md, one line an operator; loaded specs have a name only."""
    from ortable.interpreter.tables import generated_tables
    from ortable_generated.coverage import COVERAGE

    tables = generated_tables()

    rows = [row for row in COVERAGE if text in row[0]]
    heads = (
        "operator",
        "opsets",
        "dtypes",
        "dynamic",
        "cases",
        "samples",
        "escape",
        "forward",
        "gradient",
    )
    line = "{:46} {:9} {:32} {:7} {:6} {:12} {:28} {:>9} {:>9}"
    print(line.format(*heads))
    for (
        name,
        _,
        means,
        opsets,
        kinds,
        dynamic,
        cases,
        refused,
        _,
        reached,
        escape,
        *measured,
    ) in rows:
        numbers = f"{cases}" + (f" - {refused}" if refused else "")
        how = f"= {means}" if means else escape
        cells = (name, opsets, kinds, "yes" if dynamic else "", numbers, reached, how, *measured)
        print(line.format(*cells).rstrip())
        if name in tables.place:
            print(f"    in torch, between sessions: {tables.place[name]}")
    known = {row[0] for row in COVERAGE}
    loaded = sorted(n for n in tables.converters if n not in known and text in n)
    for name in loaded:
        print(f"{name:46} {tables.spec_files.get(name, '')}")
    print(f"{len(rows) + len(loaded)} operators")


def _missing(path: str, converters: Any) -> int:
    """Operators of a saved ExportedProgram without a converter; status 1 when there are some."""
    import torch

    from ortable.compat.torch import OpOverload
    from ortable.exporter.capture.pt2 import opened

    program = opened(path)
    counts: dict[str, int] = {}
    for node in program.graph.nodes:
        if node.op != "call_function" or not isinstance(node.target, OpOverload):
            continue
        if not isinstance(node.meta.get("val"), torch.SymInt | int):
            name = node.target.name()
            counts[name] = counts.get(name, 0) + 1
    missing = {name: n for name, n in counts.items() if name not in converters}
    for name, number in sorted(missing.items()):
        print(f"{name:50} {number} call{'s' if number > 1 else ''}")
    print(f"{len(missing)} of {len(counts)} operators have no converter")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
