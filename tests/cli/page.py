"""Generate the reference of docs/shell.md: the commands and the names of their options.

The parser is the source; only `--help` explains the options. `python -m tests.cli.page` writes the
page.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from ortable.cli.main import EXAMPLES, _make_parser
from tests.packaging.files import ROOT

PAGE = ROOT / "docs" / "shell.md"
BEGIN = "<!-- What follows is written by `python -m tests.cli.page`. -->\n"


def page() -> str:
    """Return the text of the page: the manual part and the generated reference."""
    manual_part = PAGE.read_text(encoding="utf-8").partition(BEGIN)[0]
    return manual_part + BEGIN + "\n" + "\n\n".join(_format_sections()) + "\n"


def _format_sections() -> Iterator[str]:
    parser = _make_parser()
    yield "## The commands"
    yield (
        "`--help` behind a command says what its options mean. Before the command:"
        f" {_format_flags(parser._actions)}."
    )
    for name, command in _list_commands(parser).items():
        yield f"### ortable {name}"
        yield " ".join((command.description or "").split())
        examples = "\n".join(EXAMPLES.get(name, ()))
        yield f"```\n{examples}\n```"
        yield from _format_groups(command)
        for action, subcommand in _list_commands(command).items():
            about = " ".join((subcommand.description or "").split())
            yield f"`ortable {name} {action}`: {about}".rstrip(": ")
            yield from _format_groups(subcommand)


def _list_commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the subparsers by name."""
    actions = parser._subparsers._group_actions if parser._subparsers is not None else []
    return {
        name: subparser for action in actions for name, subparser in (action.choices or {}).items()
    }


def _format_groups(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield the arguments of a command, one line for each titled group."""
    default_titles = ("positional arguments", "options")
    default_actions = [
        a for g in parser._action_groups if g.title in default_titles for a in g._group_actions
    ]
    if flags := _format_flags(default_actions):
        yield f"Arguments: {flags}."
    for group in parser._action_groups:
        if group.title not in default_titles and group._group_actions:
            yield f"{str(group.title).capitalize()}: {_format_flags(group._group_actions)}."


def _format_flags(actions: list[argparse.Action]) -> str:
    return ", ".join(text for action in actions if (text := _format_flag(action)))


def _format_flag(action: argparse.Action) -> str:
    """Return the longest flag and its value; an empty string for flags of all commands."""
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
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
