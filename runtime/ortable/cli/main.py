"""The shell command `ortable`: show; the others stand in their own files. An error is said without
a traceback. The exit status is 0 when all is well, 1 when results differ or a check failed, 2 for a
wrong command line or an error, 130 for Ctrl-C."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any

from .arguments import Parser
from .compile import add_compile_commands
from .debug import add_debug
from .draw import add_draw
from .examples import FIRST_STEPS, add_examples
from .export import add_export
from .failures import quiet_torch, said, status_of
from .files import existing
from .ops import add_ops
from .profile import add_profile
from .rewrites import add_rewrites
from .specs import add_specs

_DEBUG: Any = {"action": "store_true", "help": "print tracebacks of errors"}
STOPPED, PIPE = 130, 141  # as shells have it: 128 and the number of the signal


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit status."""
    _open_streams()
    parser = _parser()
    _complete(parser)
    args = parser.parse_args(sys.argv[1:] if argv is None else argv)
    try:
        with quiet_torch(args.debug):
            status = int(args.run(args) or 0)
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return STOPPED
    except BrokenPipeError:  # ortable show model.onnx | head
        _drop_output()
        return PIPE
    except (Exception, SystemExit) as error:
        if args.debug:
            raise
        print(said(error, args.command, getattr(args, "verbose", 0)), file=sys.stderr)
        if isinstance(error, OSError):
            _drop_output()  # Python writes the rest when it ends, and would fail once more
        return status_of(error)


def _open_streams() -> None:
    """What a closed stream would take goes nowhere: `ortable ops >&-`."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115


def _drop_output() -> None:
    """What is not written yet goes nowhere."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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

    parser = Parser(
        prog="ortable",
        description="Models of PyTorch as ONNX models, and faster by ONNX Runtime.",
        epilog=FIRST_STEPS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"ortable {__version__}")
    parser.add_argument("--debug", **_DEBUG)
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")

    show = commands.add_parser("show", help="print an ONNX model as text")
    show.add_argument("model", help="path of the model")
    show.add_argument("--full", action="store_true", help="print every value of initializers")
    show.set_defaults(run=_show)

    add_draw(commands)

    add_ops(commands)
    add_export(commands)
    add_compile_commands(commands)
    add_debug(commands)
    add_profile(commands)
    add_rewrites(commands)

    add_specs(commands)
    add_examples(commands.choices)
    for command in commands.choices.values():  # before the command, or behind it
        for each in (command, *command.actions()):
            each.add_argument("--debug", **_DEBUG, default=argparse.SUPPRESS)
    return parser


def _show(args: argparse.Namespace) -> int:
    from ortable.ir.proto.text import pretty_onnx

    print(pretty_onnx(existing(args.model), shorten=not args.full))
    return 0


if __name__ == "__main__":
    sys.exit(main())
