"""Implement the `ortable` command: parser, help, `show`, and errors without a traceback.

The exit status is 0 on success, 1 if results differ or a check failed, 2 for a wrong command line
or an error, 130 for Ctrl-C, 141 if the reader of stdout closed the pipe (`ortable ops | head`).
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import textwrap
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ortable.errors import OrtableError, escape_control_characters

from .arguments import Parser, check_existing
from .compile import add_compile_commands, add_debug, add_profile
from .draw import add_draw
from .export import add_export
from .rewrites import add_rewrites
from .specs import add_ops, add_specs

EXAMPLES: dict[str, tuple[str, ...]] = {
    "show": ("ortable show model.onnx", "ortable show model.onnx --full | less"),
    "draw": (
        "ortable draw model.onnx -o model.json --overlay dtype",
        "ortable draw model.onnx -o layer.dot --module encoder.layer.0",
    ),
    "ops": ("ortable ops --grep conv", "ortable ops --missing model.pt2"),
    "export": (
        "ortable export my_models:bert -o bert.onnx",
        'ortable export net.py:Net -o net.onnx --inputs "x=f32[batch=2,10]"',
        "ortable export model.pt2 -o model.onnx --opset 20 --report report.md",
        "ortable export bert-folder -o bert.onnx --task fill-mask --dynamic",
        "ortable export llama-folder -o llama --weights int8 --json",
    ),
    "explain": (
        "ortable explain my_models:bert",
        "ortable explain my_models:bert --train --json",
        "ortable explain my_models:bert --options freeze=off optimize=False",
    ),
    "profile": (
        "ortable profile my_models:bert --html bert.html",
        "ortable profile model.onnx --size batch=8 --json profile.json",
    ),
    "bench": (
        "ortable bench my_models:bert",
        "ortable bench my_models:bert --train --rounds 50",
        'ortable bench net.py:Net --inputs "f32[64,10]" --json',
    ),
    "tune": (
        "ortable tune my_models:bert",
        "ortable tune my_models:bert --seconds 60 --cache-dir cache",
    ),
    "debug": (
        "ortable debug my_models:bert --train",
        "ortable debug my_models:bert --options freeze=off --script fault.py",
    ),
    "rewrites": ("ortable rewrites list --grep gelu", "ortable rewrites show cast_same"),
    "specs": ("ortable specs check my_ops.yaml", "ortable specs test my_ops.yaml"),
}

DESCRIPTIONS: dict[str, str] = {
    "show": "You get the text of an ONNX model: inputs, weights, a line for each node, outputs.",
    "draw": "You get a picture of an ONNX model, or open it in Model Explorer or Netron.",
    "ops": "You get the operators of PyTorch that can be converted, with opsets and dtypes; with "
    "--missing, those of your saved program that cannot.",
    "export": "You get an ONNX file that ONNX Runtime has run, and whose results are compared "
    "with those of PyTorch. Of a model of transformers that generates text you get a folder that "
    "onnxruntime-genai and optimum run.",
    "explain": "You get what torch.compile makes of a model: its graphs, why they break, which "
    "operators they have, what ONNX Runtime fuses, and where the seconds of the first call go.",
    "profile": "You get where the time of a call goes: by module, line of your code, operator and "
    "kernel.",
    "bench": "You get the time of a call in eager PyTorch and compiled by ortable, in turns.",
    "tune": "You get the settings of ONNX Runtime's sessions that are fastest for your model on "
    "this machine.",
    "debug": "You get the part that makes the model differ from eager, its file and line.",
    "rewrites": "You get the rules that make graphs smaller: all of them, one of them, or a check "
    "of a file of yours.",
    "specs": "You get a check of your file of operators or rewrites, or a run of its samples "
    "against PyTorch.",
}

FIRST_STEPS = """\
first steps, in a folder with a file net.py that has your model Net:
  ortable export net.py:Net -o net.onnx --inputs "f32[2,10]"
  ortable show net.onnx
  ortable bench net.py:Net --inputs "f32[2,10]"
  ortable COMMAND --help

exit status: 0 all is well; 1 results differ, or a check failed; 2 a wrong command line, or an
error; 130 stopped by Ctrl-C."""


def add_examples(commands: Mapping[str, argparse.ArgumentParser]) -> None:
    """Add examples to the help of each command, and a description unless the command has one."""
    for name, examples in EXAMPLES.items():
        command = commands[name]
        command.formatter_class = argparse.RawDescriptionHelpFormatter
        if name in DESCRIPTIONS and command.description is None:
            command.description = textwrap.fill(DESCRIPTIONS[name], 78)
        epilog = f"{command.epilog}\n\n" if command.epilog else ""
        command.epilog = f"{epilog}examples:\n" + "\n".join(f"  {example}" for example in examples)


_DEBUG: Any = {"action": "store_true", "help": "print tracebacks of errors"}
DIFFERS, ERROR = 1, 2
STOPPED, PIPE = 130, 141  # 128 + the signal number, as in shells
_COMPILE_COMMANDS = ("debug", "explain", "bench", "tune", "profile")

_NOISY_LOGGERS = ("torch._subclasses.fake_tensor", "torch.export._trace")
_SITE_PACKAGES = f"{os.sep}site-packages{os.sep}"
_PACKAGE_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status; with --debug, raise its error instead."""
    _open_streams()
    parser = _make_parser()
    _complete_words(parser)
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
        text = format_error(error, args.command, getattr(args, "verbose", 0))
        print(escape_control_characters(text), file=sys.stderr)
        if isinstance(error, OSError):
            _drop_output()  # else Python flushes stdout at exit and fails again
        return exit_status(error)


def _open_streams() -> None:
    """Replace a closed stdout or stderr, as in `ortable ops >&-`, by the null device."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115


def _drop_output() -> None:
    """Flush stdout; if the flush fails, redirect stdout to the null device."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complete_words(parser: argparse.ArgumentParser) -> None:
    """Print shell completions and exit, if the shell requests them and argcomplete is installed."""
    if "_ARGCOMPLETE" not in os.environ:  # the shell sets it to request completions
        return
    try:
        import argcomplete
    except ImportError:
        return
    argcomplete.autocomplete(parser)


def _make_parser() -> argparse.ArgumentParser:
    from ortable import __version__

    parser = Parser(
        prog="ortable",
        description="Models of PyTorch as ONNX models, and faster by ONNX Runtime.",
        epilog=FIRST_STEPS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"ortable {__version__}")
    parser.add_argument("--debug", **_DEBUG)
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="command")

    show = subparsers.add_parser("show", help="print an ONNX model as text")
    show.add_argument("model", help="path of the model")
    show.add_argument("--full", action="store_true", help="print every value of initializers")
    show.set_defaults(run=_run_show)

    add_draw(subparsers)

    add_ops(subparsers)
    add_export(subparsers)
    add_compile_commands(subparsers)
    add_debug(subparsers)
    add_profile(subparsers)
    add_rewrites(subparsers)

    add_specs(subparsers)
    add_examples(subparsers.choices)
    for command in subparsers.choices.values():  # --debug may stand before or after the command
        for subparser in (command, *command.action_parsers()):
            subparser.add_argument("--debug", **_DEBUG, default=argparse.SUPPRESS)
    return parser


def _run_show(args: argparse.Namespace) -> int:
    from ortable.ir.proto.text import pretty_onnx

    print(pretty_onnx(check_existing(args.model), shorten=not args.full))
    return 0


# -- errors


@contextmanager
def quiet_torch(debug: bool) -> Iterator[None]:
    """Drop the records of `_NOISY_LOGGERS`: tracebacks of errors that `format_error` prints."""
    loggers = [] if debug else [logging.getLogger(name) for name in _NOISY_LOGGERS]
    try:
        for logger in loggers:
            logger.addFilter(_drop_record)  # not a level: importing torch resets levels
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(_drop_record)


def _drop_record(record: logging.LogRecord) -> bool:
    return False


def exit_status(error: BaseException) -> int:
    """Return 1 if a comparison failed, 2 for other errors."""
    return DIFFERS if isinstance(error, OrtableError) and error.differs else ERROR


def format_error(error: BaseException, command: str = "export", verbose: int = 0) -> str:
    """Format an error of ortable with advice, and other errors with the line that raised them.

    Errors of the operating system outside of the user's code, such as a full disk, have no line.
    """
    if isinstance(error, OrtableError):
        from ortable.interpreter.diagnostics.advice import attach_advice, format_for_cli

        if command in _COMPILE_COMMANDS:  # --options takes the names in messages as they are
            attach_advice(error, "shell compile", verbose)
            return f"error: {error}"
        attach_advice(error, "shell", verbose)
        return f"error: {format_for_cli(str(error))}"
    frame = _find_frame(error)
    if isinstance(error, OSError) and (frame is None or not _is_user_frame(frame)):
        return f"error: {_format_os_error(error)}"
    if isinstance(error, SystemExit):
        lines = [f"error: your code left Python with exit status {error.code!r}"]
    else:
        text = str(error).strip() or "no message"
        lines = [f"error: {type(error).__name__}: {text}"]
    if isinstance(error, SyntaxError):  # the error is in the parsed file, not in a stack frame
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


def _format_os_error(error: OSError) -> str:
    """Format as ``No space left on device: 'model.onnx'``; without an errno, as ``str(error)``."""
    if error.errno is None or error.strerror is None:
        return str(error)
    names = [repr(name) for name in (error.filename, error.filename2) if name is not None]
    return ": ".join([error.strerror, *names])


def _find_frame(error: BaseException) -> traceback.FrameSummary | None:
    """Find the innermost frame in the user's code, else the innermost frame; None if no frame."""
    frames = traceback.extract_tb(error.__traceback__)
    user_frames = [frame for frame in frames if _is_user_frame(frame)]
    candidates = user_frames or list(frames)
    return candidates[-1] if candidates else None


def _is_user_frame(frame: traceback.FrameSummary) -> bool:
    return (
        _SITE_PACKAGES not in frame.filename
        and not os.path.abspath(frame.filename).startswith(_PACKAGE_FOLDER)
        and not frame.filename.startswith("<frozen ")
        and not frame.filename.startswith(os.path.dirname(os.__file__))
    )


if __name__ == "__main__":
    sys.exit(main())
