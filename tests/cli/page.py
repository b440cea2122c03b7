"""The reference of docs/shell.md: every command with its options, from the parser itself.

python -m tests.cli.page  # writes it"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from ortable.cli.examples import EXAMPLES
from ortable.cli.main import _parser
from tests.packaging.files import ROOT

__all__ = ["PAGE", "page"]

PAGE = ROOT / "docs" / "shell.md"
BEGIN = "<!-- What follows is written by `python -m tests.cli.page`. -->\n"


def page() -> str:
    """The page as it should be: the words that people wrote, and the reference."""
    written = PAGE.read_text(encoding="utf-8").partition(BEGIN)[0]
    return written + BEGIN + "\n" + "\n\n".join(_sections()) + "\n"


def _sections() -> Iterator[str]:
    parser = _parser()
    yield "## The commands"
    yield _options("Before the command:", parser._actions)
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
    """A table of what stands first, and one for each group with a title of its own."""
    usual = ("positional arguments", "options")
    first = [a for g in parser._action_groups if g.title in usual for a in g._group_actions]
    if table := _options("", first):
        yield table
    for group in parser._action_groups:
        if group.title not in usual and group._group_actions:
            yield _options(f"{str(group.title).capitalize()}:", group._group_actions)


def _options(title: str, actions: list[argparse.Action]) -> str:
    rows = [row for each in actions if (row := _row(each))]
    if not rows:
        return ""
    head = f"{title}\n\n" if title else ""
    return head + "\n".join(["| word | says |", "|---|---|", *rows])


def _row(action: argparse.Action) -> str:
    """Flags, what follows them, and the help; nothing for what every command has."""
    if isinstance(action, (argparse._SubParsersAction, argparse._HelpAction)):
        return ""
    if "--debug" in action.option_strings and action.default is argparse.SUPPRESS:
        return ""
    value = ""
    if action.nargs != 0:
        choices = ", ".join(map(str, action.choices or ()))
        value = choices or str(action.metavar or action.dest.upper())
    if not action.option_strings:
        shown = f"`{action.metavar or action.dest}`"
    else:
        shown = ", ".join(f"`{flag} {value}`".replace(" `", "`") for flag in action.option_strings)
    text = " ".join((action.help or "").split())
    text = text.replace("show program's version number and exit", "print the version")
    return f"| {shown} | {text.replace('|', chr(92) + '|')} |"


def main() -> int:
    """Writes the page."""
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
