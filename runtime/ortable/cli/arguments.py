"""Define and parse the arguments that several commands share."""

from __future__ import annotations

import argparse
import ast
import difflib
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from pathlib import Path
from typing import Any, NoReturn

from ortable.errors import OptionError

from .rewrites import VERBOSE_HELP, add_rewrites_option, parse_rewrites_option

JSON_HELP = "print JSON"
# Patterns of the values of list options. The first word that does not match ends the list, so
# that `ortable bench --options freeze=off my_models:bert` has a target.
_LIST_VALUE_PATTERNS = {
    "--options": re.compile(r"\w+=.*", re.DOTALL),
    "--config": re.compile(r"\w+=.*", re.DOTALL),
    "--inputs": re.compile(r"\w+=.*|[a-z]+[0-9]*\[.*", re.DOTALL),
}


def make_integer_type(minimum: int) -> Callable[[str], int]:
    """Make an argparse type for integers of at least ``minimum``."""

    def parse_number(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = minimum - 1
        if number < minimum:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number of {minimum} or more")
        return number

    return parse_number


def parse_tolerance(text: str) -> float:
    """Parse a number of at least 0; an argparse type."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not number >= 0:  # also true for NaN
        raise argparse.ArgumentTypeError(f"{text!r} is no number of 0 or more")
    return number


class Parser(argparse.ArgumentParser):
    """A parser whose list options, such as --inputs, end at the first word that is not a value.

    An unknown option or command is an error that suggests the closest name.
    """

    subparsers_action: Any = None  # holds the parsers of the commands, if there are any

    def add_subparsers(self, **keywords: Any) -> Any:
        """Add subparsers as argparse does, and store their action."""
        self.subparsers_action = super().add_subparsers(**keywords)
        return self.subparsers_action

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse as argparse does, but without subparsers report unknown words as an error.

        So the parser of the command reports them, which knows the command's options.
        """
        words = None if args is None else _split_lists(args)
        parsed, unknown = super().parse_known_args(words, namespace)
        if unknown and self.subparsers_action is None:
            self.error(self._unknown_message(unknown))
        return parsed, unknown

    def action_parsers(self) -> list[argparse.ArgumentParser]:
        """Return the parsers of the actions of a command, such as `list` of `rewrites`."""
        return list(self._command_parsers().values())

    def _command_parsers(self) -> dict[str, argparse.ArgumentParser]:
        return {} if self.subparsers_action is None else dict(self.subparsers_action.choices)

    def error(self, message: str) -> NoReturn:
        """Print the error and, in a second line, how to get help; exit with status 2."""
        choice = re.match(r"argument (?:command|action): invalid choice: '(.*?)'", message)
        if choice is not None:
            message = self._unknown_command_message(choice[1])
        self.exit(2, f"error: {message}\nMore: {self.prog} --help\n")

    def _unknown_message(self, words: Sequence[str]) -> str:
        options = [word for word in words if word.startswith("-")]
        if not options:
            return f"{words[0]!r} is one word too many"
        name = options[0].partition("=")[0]
        close = difflib.get_close_matches(name, self._option_string_actions, n=1)
        return f"unknown option {name!r}." + (f" Did you mean {close[0]!r}?" if close else "")

    def _unknown_command_message(self, word: str) -> str:
        commands = list(self._command_parsers())
        close = difflib.get_close_matches(word, commands, n=1, cutoff=0.7)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        return f"there is no command {word!r}.{hint} All: {', '.join(commands)}."


def _split_lists(words: Sequence[str]) -> list[str]:
    """Convert ``--options a=1 b=2 target`` to ``--options=a=1 --options=b=2 target``."""
    converted: list[str] = []
    flag = ""
    for word in words:
        if flag and _LIST_VALUE_PATTERNS[flag].fullmatch(word):
            if converted[-1] == flag:
                converted.pop()
            converted.append(f"{flag}={word}")
            continue
        flag = word if word in _LIST_VALUE_PATTERNS else ""
        converted.append(word)
    return converted


# -- definitions


def add_target(command: Any, alternative: str = "") -> None:
    """Add ``TARGET``, --inputs, --task and --config, the arguments of `target.load_target`.

    Args:
        command: the subparser.
        alternative: help text for other targets of the command: ``"or a file MODEL.onnx"``.
    """
    target_help = (
        "a model: module:name or file.py:name of a module, of its class, or of a function that "
        "returns (model, args); or a model of transformers, by its folder or class"
    )
    command.add_argument(
        "target",
        metavar="TARGET",
        help=f"{target_help}; {alternative}" if alternative else target_help,
    )
    command.add_argument(
        "--inputs",
        metavar="INPUT",
        action="append",
        default=[],
        help='what the model is called with: "f32[2,10]", "x=f32[batch=2,10]", "i64[4] in '
        '0..100"; several may follow',
    )
    command.add_argument(
        "--task",
        default="",
        metavar="NAME",
        help="of a model of transformers: fill-mask, text-generation, ...",
    )
    command.add_argument(
        "--config",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="of a class of transformers: a field of its configuration, or the folder of one; its "
        "weights are random",
    )


def add_flags(command: Any, **help_texts: str) -> None:
    """Add boolean flags: ``no_validate="do not run"`` adds ``--no-validate`` with this help."""
    for name, help_text in help_texts.items():
        command.add_argument(f"--{name.replace('_', '-')}", action="store_true", help=help_text)


def add_compile_arguments(command: Any) -> None:
    """Add the arguments that all commands about torch.compile share."""
    add_flags(
        command,
        train="forward and backward, in training mode",
        dynamic="free sizes from the start",
    )
    command.add_argument(
        "--options",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="options of the backend: freeze=off; several may follow",
    )
    command.add_argument(
        "--fallback",
        action=argparse.BooleanOptionalAction,
        help="what ortable cannot convert runs in torch (the default), or is an error",
    )
    add_rewrites_option(command)
    add_flags(command, verbose=VERBOSE_HELP)


# -- values


@contextmanager
def keep_stdout_for_json(enabled: bool) -> Iterator[None]:
    """Redirect stdout of the block to stderr if `enabled`, so that stdout is only the JSON."""
    with redirect_stdout(sys.stderr) if enabled else nullcontext():
        yield


def backend_options(args: argparse.Namespace) -> dict[str, Any]:
    """Parse ``--options``, ``--fallback`` and ``--rewrites`` for `torch.compile(options=...)`.

    Raises:
        OptionError: a value is not NAME=VALUE, or a name is given twice.
    """
    options = parse_pairs(args.options)
    if args.rewrites != "default":
        _check_unset(options, "rewrites", "--rewrites")
        options["rewrites"] = parse_rewrites_option(args)
    fallback = getattr(args, "fallback", None)
    if fallback is not None:
        _check_unset(options, "fallback", "--fallback" if fallback else "--no-fallback")
        options["fallback"] = "eager" if fallback else "error"
    return options


def compile_arguments(args: argparse.Namespace) -> dict[str, Any]:
    """Make the keyword arguments that `explain`, `profile` and `bisect` share."""
    dynamic = True if args.dynamic else None
    return {"options": backend_options(args), "train": args.train, "dynamic": dynamic}


def _check_unset(options: Mapping[str, Any], name: str, flag: str) -> None:
    if name in options:
        raise OptionError(f"option {name!r} is given by --options and by {flag}: give it once")


def parse_pairs(words: Sequence[str]) -> dict[str, Any]:
    """Parse ``NAME=VALUE`` words to a dict; a value is a Python literal or else a string.

    Raises:
        OptionError: a word is not NAME=VALUE, or a name is given twice.
    """
    values: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise OptionError(f"{word!r} is not NAME=VALUE, for instance freeze=off")
        if name in values:
            raise OptionError(f"{name!r} is given twice; give it once")
        try:
            values[name] = ast.literal_eval(value)
        except (SyntaxError, ValueError):
            values[name] = _LITERALS.get(value.lower(), value)
    return values


_LITERALS = {"true": True, "false": False, "none": None}  # spellings that Python does not parse


def check_existing(path: str) -> str:
    """Return ``path`` if it is an existing file that is not empty.

    Raises:
        FileNotFoundError: the path does not exist.
        OptionError: the path is a folder, or the file is empty.
    """
    if not Path(path).exists():
        raise FileNotFoundError(f"no file {path!r}")
    if Path(path).is_dir():
        raise OptionError(f"{path!r} is a folder; give a file")
    if Path(path).is_file() and Path(path).stat().st_size == 0:
        raise OptionError(f"{path!r} is empty")
    return path


def check_writable(path: str) -> str:
    """Return ``path`` if a file can be written there.

    Raises:
        OptionError: the file cannot be written.
    """
    file = Path(path)
    if not path:
        raise OptionError(f"{path!r} is no file to write")
    if not file.parent.is_dir():
        raise OptionError(f"folder '{file.parent}' does not exist")
    if file.is_dir():
        raise OptionError(f"'{path}' cannot be written: it is a folder")
    if not os.access(file if file.exists() else file.parent, os.W_OK):
        raise OptionError(f"'{path}' cannot be written")
    return path


def check_folder(path: str) -> str:
    """Return ``path`` if it is a writable folder or can be created as a folder.

    Raises:
        OptionError: the path cannot be a folder, or cannot be written.
    """
    ancestor = Path(path)
    while path and not ancestor.exists():
        ancestor = ancestor.parent
    if not path or not ancestor.is_dir():
        raise OptionError(f"{path!r} cannot be a folder: '{ancestor}' is not a folder")
    if not os.access(ancestor, os.W_OK):
        raise OptionError(f"{path!r} cannot be written: folder '{ancestor}' is not writable")
    return path
