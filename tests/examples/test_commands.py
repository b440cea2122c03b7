"""Commands in README.md and the pages are valid: `ortable`, `make` and `python -m`.

The tests parse the commands and look up targets and modules, but run nothing.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import shlex
from collections.abc import Iterator

import pytest

from ortable.cli.main import main
from tests.packaging.files import ROOT

PAGES = (
    "README.md",
    "benchmarks/README.md",
    *sorted(f"docs/{p.name}" for p in ROOT.glob("docs/*.md")),
)
FENCED = re.compile(r"^ *```(\w*)\n(.*?)^ *```", flags=re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
SHELL = ("", "sh", "bash", "console", "text")  # languages of blocks with commands
MESSAGES = "docs/errors.md"  # its blocks are error messages, not commands


class Parsed(BaseException):
    """Raised once a command is parsed, instead of running it."""


def find_commands(first: str) -> Iterator[tuple[str, int, str]]:
    """Yield (page, line, command) for each command that begins with `first`, in blocks and text."""
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        blocks = [] if page == MESSAGES else [b for b in FENCED.finditer(text) if b[1] in SHELL]
        commands = [
            (number, line.strip().removeprefix("$ "))
            for block in blocks
            for number, line in enumerate(block[2].splitlines(), line_number(text, block) + 1)
            if f"{line}\nerror: " not in block[2]  # an invalid command that is shown with its error
        ]
        prose = FENCED.sub(lambda block: "\n" * block[0].count("\n"), text)
        commands += [(line_number(prose, code), code[1]) for code in INLINE.finditer(prose)]
        for number, line in commands:
            if re.match(rf"{first} (?!\.)", line):
                yield page, number, line


def line_number(text: str, match: re.Match[str]) -> int:
    return text.count("\n", 0, match.start()) + 1


def split_words(line: str) -> list[str]:
    """Split a command into words, without comment, pipe, redirection and ellipsis."""
    parts = shlex.split(line, comments=True)
    ends = [parts.index(mark) for mark in ("|", ">", "&&", ";", "...") if mark in parts]
    return parts[: min(ends, default=len(parts))]


def parses(argv: list[str], monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the parser accepts a command, or exits with status 0 as for --help."""
    parse_args = argparse.ArgumentParser.parse_args

    def parse_and_stop(parser: argparse.ArgumentParser, args=None, namespace=None):
        parse_args(parser, args, namespace)
        raise Parsed

    with monkeypatch.context() as patch:
        patch.setattr(argparse.ArgumentParser, "parse_args", parse_and_stop)
        try:
            main(argv)
        except Parsed:
            return True
        except SystemExit as exit_error:
            return exit_error.code == 0
    return False


COMMANDS = list(dict.fromkeys((page, line) for page, _, line in find_commands("ortable")))


@pytest.mark.parametrize(("page", "line"), COMMANDS)
def test_a_command_of_the_shell_is_taken(
    page: str, line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = split_words(line)[1:]
    is_name = all(word.strip("-").isalpha() for word in argv)  # the text names a command
    accepted = parses(argv, monkeypatch) or (is_name and parses([*argv, "--help"], monkeypatch))
    assert accepted, capsys.readouterr().err


def test_commands_are_found() -> None:
    assert len(COMMANDS) >= 25
    assert {line.split()[1] for _, line in COMMANDS} >= {"export", "explain", "draw", "rewrites"}


def test_what_is_wrong_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not parses(["exprot", "m:f"], monkeypatch)
    assert not parses(["export", "m:f", "-o", "m.onnx", "--no-such-option"], monkeypatch)


def test_targets_of_make_exist() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", text, flags=re.MULTILINE))
    used = {
        (page, n, word)
        for page, n, line in find_commands("make")
        for word in split_words(line)[1:2]
    }
    missing = [use for use in used if re.fullmatch(r"[a-z-]+", use[2]) and use[2] not in targets]
    assert len(used) > 20 and not missing


def test_modules_that_are_run_exist() -> None:
    modules = {
        (page, number, line.split()[2])
        for page, number, line in find_commands("python3? -m")
        if len(line.split()) > 2
    }
    missing = [m for m in modules if importlib.util.find_spec(m[2].rstrip(":")) is None]
    assert len(modules) > 5 and not missing
