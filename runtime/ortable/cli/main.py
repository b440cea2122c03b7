"""The shell command `ortable`: show; the others stand in their own files. An error is said without
a traceback. The exit status is 0 when all is well, 1 when results differ or a check failed, 2 for a
wrong command line or an error, 130 for Ctrl-C."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ortable.errors import OrtableError

from .arguments import Parser
from .compile import add_compile_commands
from .debug import add_debug
from .draw import add_draw
from .examples import FIRST_STEPS, add_examples
from .export import add_export
from .files import existing
from .ops import add_ops
from .profile import add_profile
from .rewrites import add_rewrites
from .specs import add_specs

_DEBUG: Any = {"action": "store_true", "help": "print tracebacks of errors"}
DIFFERS, ERROR = 1, 2
STOPPED, PIPE = 130, 141  # as shells have it: 128 and the number of the signal
_COMPILE = ("explain", "bench", "tune", "profile")

_TALKATIVE = ("torch._subclasses.fake_tensor", "torch.export._trace")
_LIBRARIES = f"{os.sep}site-packages{os.sep}"
_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


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


# -- errors


@contextmanager
def quiet_torch(debug: bool) -> Iterator[None]:
    """torch logs the traceback of an error that it raises then, and that `said` says."""
    loggers = [] if debug else [logging.getLogger(name) for name in _TALKATIVE]
    try:
        for logger in loggers:
            logger.addFilter(_nothing)  # torch sets the levels anew when it is imported
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(_nothing)


def _nothing(record: logging.LogRecord) -> bool:
    return False


def status_of(error: BaseException) -> int:
    """1 where a comparison failed and nothing else, 2 for other errors."""
    return DIFFERS if isinstance(error, OrtableError) and error.differs else ERROR


def said(error: BaseException, command: str = "export", verbose: int = 0) -> str:
    """What is printed of an error: ours say what to do, the others where they were raised."""
    if isinstance(error, OrtableError):
        from ortable.interpreter.diagnostics.advice import advise, in_words_of_the_shell

        if command in _COMPILE:  # these take options by their names
            advise(error, "shell compile", verbose)
            return f"error: {error}"
        advise(error, "shell", verbose)
        return f"error: {in_words_of_the_shell(str(error))}"
    frame = _frame(error)
    if isinstance(error, OSError) and (frame is None or not _own(frame)):
        return f"error: {_of_file(error)}"
    if isinstance(error, SystemExit):
        lines = [f"error: your code left Python with exit status {error.code!r}"]
    else:
        text = str(error).strip() or "no message"
        lines = [f"error: {type(error).__name__}: {text}"]
    if isinstance(error, SyntaxError):  # its place is in the file, not in a frame
        lines[0] = f"error: {type(error).__name__}: {error.msg}"
        if error.filename is not None:
            lines.append(f"  at {os.path.basename(error.filename)}:{error.lineno}")
            lines.append(f"    {(error.text or '').strip()}")
    elif frame is not None:
        lines.append(f"  at {os.path.basename(frame.filename)}:{frame.lineno}, in {frame.name}")
        if frame.line:
            lines.append(f"    {frame.line}")
    lines.append("With --debug the whole traceback is printed.")
    return "\n".join(lines)


def _of_file(error: OSError) -> str:
    """``No space left on device: 'model.onnx'``; the message itself where there is no number."""
    if error.errno is None or error.strerror is None:
        return str(error)
    names = [repr(each) for each in (error.filename, error.filename2) if each is not None]
    return ": ".join([error.strerror, *names])


def _frame(error: BaseException) -> traceback.FrameSummary | None:
    """The innermost frame in files of the user, else the innermost."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [each for each in frames if _own(each)]
    found = own or list(frames)
    return found[-1] if found else None


def _own(frame: traceback.FrameSummary) -> bool:
    return (
        _LIBRARIES not in frame.filename
        and not os.path.abspath(frame.filename).startswith(_HERE)
        and not frame.filename.startswith("<frozen ")
        and not frame.filename.startswith(os.path.dirname(os.__file__))
    )


if __name__ == "__main__":
    sys.exit(main())
