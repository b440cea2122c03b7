"""What commands of the shell have in common: words of a command line that mean the same in all of
them, and what they become. In comes a subparser or its Namespace; called by every command."""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ortable.errors import OptionError

from .rewrites import ERRORS_INTO_A_FILE, add_choice, chosen_names

__all__ = [
    "Parser",
    "add_compile_arguments",
    "add_dynamic",
    "add_fallback",
    "add_inputs",
    "add_json",
    "add_options",
    "add_train",
    "add_verbose",
    "backend_options",
    "pairs",
]

# Words that may follow --options and --inputs; the first that looks otherwise ends the list, so
# that `ortable bench --options freeze=off my_models:bert` has a target.
_LISTS = {
    "--options": re.compile(r"\w+=.*", re.DOTALL),
    "--config": re.compile(r"\w+=.*", re.DOTALL),
    "--inputs": re.compile(r"(\w+=)?[a-z]+[0-9]*\[.*", re.DOTALL),
}


class Parser(argparse.ArgumentParser):
    """A parser whose lists of NAME=VALUE end where another word begins."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse has it."""
        return super().parse_known_args(None if args is None else _one_by_one(args), namespace)


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


def add_options(command: Any, about: str = "options of the backend: freeze=off") -> None:
    """Adds ``--options``; `backend_options` reads it."""
    command.add_argument(
        "--options",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help=f"{about}; several may follow",
    )


def add_fallback(command: Any) -> None:
    """Adds ``--fallback`` of torch.compile; `backend_options` reads it."""
    command.add_argument(
        "--fallback", action="store_true", help="what ortable cannot convert runs in torch"
    )


def add_train(command: Any) -> None:
    """Adds ``--train``."""
    command.add_argument(
        "--train", action="store_true", help="forward and backward, in training mode"
    )


def add_dynamic(command: Any, about: str = "free sizes from the start") -> None:
    """Adds ``--dynamic``."""
    command.add_argument("--dynamic", action="store_true", help=about)


def add_json(command: Any) -> None:
    """Adds ``--json``: what is printed is one JSON document."""
    command.add_argument("--json", action="store_true", help="print JSON")


def add_inputs(command: Any) -> None:
    """Adds ``--inputs``, for a target that has no arguments of its own."""
    command.add_argument(
        "--inputs",
        metavar="INPUT",
        action="append",
        default=[],
        help='example inputs: "f32[2,10]" or "x=f32[batch=2,10]", "i64[4] in 0..100"; several may '
        "follow",
    )


def add_verbose(command: Any) -> None:
    """Adds ``--verbose``."""
    command.add_argument("--verbose", action="store_true", help=ERRORS_INTO_A_FILE)


def add_compile_arguments(command: Any, train: bool = True) -> None:
    """Adds what every command about torch.compile has: the model, how it is compiled."""
    add_inputs(command)
    if train:
        add_train(command)
    add_dynamic(command)
    add_options(command)
    add_fallback(command)
    add_choice(command)
    add_verbose(command)


# -- what they mean


def backend_options(args: argparse.Namespace) -> dict[str, Any]:
    """``--options``, ``--fallback`` and ``--rewrites`` as `torch.compile(options=...)` takes them.

    Raises OptionError for a word that is not NAME=VALUE, and for a name given twice.
    """
    found = pairs(args.options)
    if args.rewrites != "default":
        _once(found, "rewrites", "--rewrites")
        found["rewrites"] = chosen_names(args)
    if getattr(args, "fallback", False):
        _once(found, "fallback", "--fallback")
        found["fallback"] = "eager"
    return found


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
