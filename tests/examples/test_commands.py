"""The commands that README.md and the pages tell you to type are real: each `ortable ...` line is
parsed by the shell command's own parser, each `make` target is one of the Makefile's, and each
`python -m` names a module that is there. Nothing is run."""

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
SHELL = ("", "sh", "bash", "console", "text")  # languages of blocks in which commands stand
MESSAGES = "docs/errors.md"  # its blocks are what errors say, not what is typed


class Parsed(BaseException):
    """Raised in place of a run."""


def typed(first: str) -> Iterator[tuple[str, int, str]]:
    """(page, line, command) of every command that begins with a word, in blocks and in the text."""
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        blocks = [] if page == MESSAGES else [b for b in FENCED.finditer(text) if b[1] in SHELL]
        found = [
            (number, line.strip().removeprefix("$ "))
            for block in blocks
            for number, line in enumerate(block[2].splitlines(), line_of(text, block) + 1)
            if f"{line}\nerror: " not in block[2]  # a mistake, and what is said about it
        ]
        prose = FENCED.sub(lambda block: "\n" * block[0].count("\n"), text)
        found += [(line_of(prose, code), code[1]) for code in INLINE.finditer(prose)]
        for number, line in found:
            if re.match(rf"{first} (?!\.)", line):
                yield page, number, line


def line_of(text: str, match: re.Match[str]) -> int:
    return text.count("\n", 0, match.start()) + 1


def words(line: str) -> list[str]:
    """The words of a command without comment, pipe, redirection and dots for the rest."""
    found = shlex.split(line, comments=True)
    ends = [found.index(mark) for mark in ("|", ">", "&&", ";", "...") if mark in found]
    return found[: min(ends, default=len(found))]


def parses(argv: list[str], monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the parser takes a command; its help and its version are fine, too."""
    whole = argparse.ArgumentParser.parse_args

    def parsed(parser: argparse.ArgumentParser, args=None, namespace=None):
        whole(parser, args, namespace)
        raise Parsed

    with monkeypatch.context() as patched:
        patched.setattr(argparse.ArgumentParser, "parse_args", parsed)
        try:
            main(argv)
        except Parsed:
            return True
        except SystemExit as left:
            return left.code == 0
    return False


COMMANDS = list(dict.fromkeys((page, line) for page, _, line in typed("ortable")))


@pytest.mark.parametrize(("page", "line"), COMMANDS)
def test_a_command_of_the_shell_is_taken(
    page: str, line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = words(line)[1:]
    named = all(word.strip("-").isalpha() for word in argv)  # `ortable show` in a sentence
    taken = parses(argv, monkeypatch) or (named and parses([*argv, "--help"], monkeypatch))
    assert taken, capsys.readouterr().err


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
    asked = {(page, n, word) for page, n, line in typed("make") for word in words(line)[1:2]}
    missing = [
        each for each in asked if re.fullmatch(r"[a-z-]+", each[2]) and each[2] not in targets
    ]
    assert len(asked) > 20 and not missing


def test_modules_that_are_run_exist() -> None:
    modules = {
        (page, number, line.split()[2])
        for page, number, line in typed("python3? -m")
        if len(line.split()) > 2
    }
    missing = [each for each in modules if importlib.util.find_spec(each[2].rstrip(":")) is None]
    assert len(modules) > 5 and not missing
