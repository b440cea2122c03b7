"""What commands of the shell have in common: words of a command line that mean the same in all of
them, and what they become. In comes a subparser or its Namespace; called by every command."""

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

from .rewrites import ERRORS_INTO_A_FILE, add_choice, chosen_names

JSON = "print JSON"  # what is printed is one JSON document
# Words that may follow --options and --inputs; the first that looks otherwise ends the list, so
# that `ortable bench --options freeze=off my_models:bert` has a target.
_LISTS = {
    "--options": re.compile(r"\w+=.*", re.DOTALL),
    "--config": re.compile(r"\w+=.*", re.DOTALL),
    "--inputs": re.compile(r"\w+=.*|[a-z]+[0-9]*\[.*", re.DOTALL),
}


def at_least(least: int) -> Callable[[str], int]:
    """A type of argparse: whole numbers from ``least`` on."""

    def whole(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if number < least:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number of {least} or more")
        return number

    return whole


def distance(text: str) -> float:
    """A type of argparse: how far numbers may be apart."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not number >= 0:  # NaN is none
        raise argparse.ArgumentTypeError(f"{text!r} is no number of 0 or more")
    return number


class Parser(argparse.ArgumentParser):
    """A parser whose lists of NAME=VALUE end where another word begins, and whose errors are one
    line, with the option that may be meant."""

    below: Any = None  # the parsers of its commands, where it has some

    def add_subparsers(self, **keywords: Any) -> Any:
        """As argparse has it."""
        self.below = super().add_subparsers(**keywords)
        return self.below

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse has it; a command says itself what it does not know."""
        words = None if args is None else _one_by_one(args)
        found, rest = super().parse_known_args(words, namespace)
        if rest and self.below is None:
            self.error(self._unknown(rest))
        return found, rest

    def actions(self) -> list[argparse.ArgumentParser]:
        """The parsers of what a command does: those of `list` and `show` in `rewrites`."""
        return list(self._below().values())

    def _below(self) -> dict[str, argparse.ArgumentParser]:
        return {} if self.below is None else dict(self.below.choices)

    def error(self, message: str) -> NoReturn:
        """Ends Python with status 2."""
        choice = re.match(r"argument (?:command|action): invalid choice: '(.*?)'", message)
        if choice is not None:
            message = self._no_command(choice[1])
        self.exit(2, f"error: {message}\nMore: {self.prog} --help\n")

    def _unknown(self, words: Sequence[str]) -> str:
        options = [word for word in words if word.startswith("-")]
        if not options:
            return f"{words[0]!r} is one word too many"
        name = options[0].partition("=")[0]
        close = difflib.get_close_matches(name, self._option_string_actions, n=1)
        return f"unknown option {name!r}." + (f" Did you mean {close[0]!r}?" if close else "")

    def _no_command(self, word: str) -> str:
        known = list(self._below())
        close = difflib.get_close_matches(word, known, n=1, cutoff=0.7)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        return f"there is no command {word!r}.{hint} All: {', '.join(known)}."


def _one_by_one(words: Sequence[str]) -> list[str]:
    """``--options a=1 b=2 target`` as ``--options=a=1 --options=b=2 target``."""
    found: list[str] = []
    flag = ""
    for word in words:
        if flag and _LISTS[flag].fullmatch(word):
            if found[-1] == flag:
                found.pop()
            found.append(f"{flag}={word}")
            continue
        flag = word if word in _LISTS else ""
        found.append(word)
    return found


# -- one word each


def add_target(command: Any, also: str = "") -> None:
    """Adds ``TARGET``, a model, and how it is called; `target.load_target` reads them.

    Args:
        command: the subparser.
        also: what else the command takes, ``"or a file MODEL.onnx"``.
    """
    about = (
        "a model: module:name or file.py:name of a module, of its class, or of a function that "
        "returns (model, args); or a model of transformers, by its folder or class"
    )
    command.add_argument("target", metavar="TARGET", help=f"{about}; {also}" if also else about)
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


def add_flags(command: Any, **helps: str) -> None:
    """Adds flags that are on where they are given: ``large="weights in a file"`` is ``--large``."""
    for name, text in helps.items():
        command.add_argument(f"--{name.replace('_', '-')}", action="store_true", help=text)


def add_compile_arguments(command: Any) -> None:
    """Adds how a model is compiled: what every command about torch.compile has."""
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
    add_choice(command)
    add_flags(command, verbose=ERRORS_INTO_A_FILE)


# -- what they mean


@contextmanager
def only_json(wanted: bool) -> Iterator[None]:
    """What else is printed in the block, by the model for one, goes to stderr where JSON is
    wanted: stdout has the document alone."""
    with redirect_stdout(sys.stderr) if wanted else nullcontext():
        yield


def backend_options(args: argparse.Namespace) -> dict[str, Any]:
    """``--options``, ``--fallback`` and ``--rewrites`` as `torch.compile(options=...)` takes them.

    Raises OptionError for a word that is not NAME=VALUE, and for a name given twice.
    """
    found = pairs(args.options)
    if args.rewrites != "default":
        _once(found, "rewrites", "--rewrites")
        found["rewrites"] = chosen_names(args)
    fallback = getattr(args, "fallback", None)
    if fallback is not None:
        _once(found, "fallback", "--fallback" if fallback else "--no-fallback")
        found["fallback"] = "eager" if fallback else "error"
    return found


def how_compiled(args: argparse.Namespace) -> dict[str, Any]:
    """Options, gradients and sizes, as `explain`, `profile` and `bisect` take them."""
    dynamic = True if args.dynamic else None
    return {"options": backend_options(args), "train": args.train, "dynamic": dynamic}


def _once(found: Mapping[str, Any], name: str, flag: str) -> None:
    if name in found:
        raise OptionError(f"option {name!r} is given by --options and by {flag}: give it once")


def pairs(words: Sequence[str]) -> dict[str, Any]:
    """``freeze=off`` as a name and a value; numbers, lists and dicts as Python writes them.

    Raises OptionError for a word that is not NAME=VALUE, and for a name given twice.
    """
    found: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise OptionError(f"{word!r} is not NAME=VALUE, for instance freeze=off")
        if name in found:
            raise OptionError(f"{name!r} is given twice; give it once")
        try:
            found[name] = ast.literal_eval(value)
        except (SyntaxError, ValueError):
            found[name] = _WORDS.get(value.lower(), value)
    return found


_WORDS = {"true": True, "false": False, "none": None}  # as other shells write them


def existing(path: str) -> str:
    """``path`` itself; FileNotFoundError where nothing is, OptionError for a folder or a file with
    nothing in it."""
    if not Path(path).exists():
        raise FileNotFoundError(f"no file {path!r}")
    if Path(path).is_dir():
        raise OptionError(f"{path!r} is a folder; give a file")
    if Path(path).is_file() and Path(path).stat().st_size == 0:
        raise OptionError(f"{path!r} is empty")
    return path


def writable(path: str) -> str:
    """``path`` itself, of a file to write; OptionError where it cannot be written."""
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


def folder(path: str) -> str:
    """``path`` itself, of a folder that may not be there yet; OptionError where none can be."""
    place = Path(path)
    while path and not place.exists():
        place = place.parent
    if not path or not place.is_dir():
        raise OptionError(f"{path!r} cannot be a folder: '{place}' is none")
    if not os.access(place, os.W_OK):
        raise OptionError(f"{path!r} cannot be written: folder '{place}' is closed")
    return path
