"""The reference of docs/shell.md: every command with the names of its options, from the parser
itself. What an option means is said by `--help` alone.

python -m tests.cli.page  # writes it"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from ortable.cli.main import EXAMPLES, _make_parser
from tests.packaging.files import ROOT

PAGE = ROOT / "docs" / "shell.md"
BEGIN = "<!-- What follows is written by `python -m tests.cli.page`. -->\n"


def page() -> str:
    """The page as it should be: the words that people wrote, and the reference."""
    written = PAGE.read_text(encoding="utf-8").partition(BEGIN)[0]
    return written + BEGIN + "\n" + "\n\n".join(_sections()) + "\n"


def _sections() -> Iterator[str]:
    parser = _make_parser()
    yield "## The commands"
    yield (
        "`--help` behind a command says what its options mean. Before the command:"
        f" {_flags(parser._actions)}."
    )
    for name, command in _commands(parser).items():
        yield f"### ortable {name}"
        yield " ".join((command.description or "").split())
        examples = "\n".join(EXAMPLES.get(name, ()))
        yield f"```\n{examples}\n```"
        yield from _groups(command)
        for action, below in _commands(command).items():
            about = " ".join((below.description or "").split())
            yield f"`ortable {name} {action}`: {about}".rstrip(": ")
            yield from _groups(below)


def _commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The subparsers by name."""
    found = parser._subparsers._group_actions if parser._subparsers is not None else []
    return {name: each for action in found for name, each in (action.choices or {}).items()}


def _groups(parser: argparse.ArgumentParser) -> Iterator[str]:
    """The arguments of a command, those of a group with a title of its own apart."""
    usual = ("positional arguments", "options")
    first = [a for g in parser._action_groups if g.title in usual for a in g._group_actions]
    if flags := _flags(first):
        yield f"Arguments: {flags}."
    for group in parser._action_groups:
        if group.title not in usual and group._group_actions:
            yield f"{str(group.title).capitalize()}: {_flags(group._group_actions)}."


def _flags(actions: list[argparse.Action]) -> str:
    return ", ".join(shown for each in actions if (shown := _shown(each)))


def _shown(action: argparse.Action) -> str:
    """The longest flag and what follows it; nothing for what every command has."""
    if isinstance(action, (argparse._SubParsersAction, argparse._HelpAction)):
        return ""
    if "--debug" in action.option_strings and action.default is argparse.SUPPRESS:
        return ""
    value = ""
    if action.nargs != 0:
        choices = "|".join(map(str, action.choices or ()))
        value = choices or str(action.metavar or action.dest.upper())
    if not action.option_strings:
        return f"`{action.metavar or action.dest}`"
    flag = max(action.option_strings, key=len)
    if isinstance(action, argparse.BooleanOptionalAction):
        flag = action.option_strings[0]
    return f"`{flag} {value}`".replace(" `", "`")


def main() -> int:
    """Writes the page."""
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
