"""File and line of an entry of the specs, of one of its cases, and of a rule of rewriting. The
lines are found by reading the YAML file when somebody asks. In comes a name, out comes a `Place`;
called for differences, by the shell and by tests."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from ortable.interpreter.tables import LOADED, generated_tables
from ortable.passes.rewrite import choose
from ortable.passes.rewrite.rule import Rule

_DECOMPOSITIONS = "specs/runtime/decompositions.yaml"
_RULE = re.compile(r"- (?:\{)?rewrite:\s*([a-z][a-z0-9_]*)")
_OP = re.compile(r"- (?:\{)?op:\s*([\w:.]+)")


@dataclass(frozen=True)
class Place:
    """A line of a spec file; line 0 where the file is not at hand, which an installed package does
    not carry.

    Attributes:
        file: a path in the repository, or the user's file.
        line: from 1, or 0.
    """

    file: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


def where_is(name: str, case: int = 0) -> Place | None:
    """Where an entry of the specs stands (`"aten::addmm"`), one of its cases (`"aten::addmm/2"`, or
    `case`), or a rule of rewriting (`"gelu_erf"`); None for a name that is none of these.

    Args:
        name: an overload, as `ortable.supported_ops` names it, or a rule.
        case: number of a case of `lower`, from 1.
    """
    key, _, number = name.partition("/")
    case = case or int(number or 0)
    file = generated_tables().spec_files.get(key)
    if file is not None:
        lines = loaded_lines(key) or _entries(file).lines.get(key, (0,))
        return Place(file, lines[case] if case < len(lines) else lines[0])
    for rule in choose.packaged():
        if rule.name == key:
            return Place(rule.file, _rule_lines(rule.file).get(key, 0))
    return None


def place_of_rule(rule: Rule, files: Iterable[str] = ()) -> Place:
    """Where a rule stands; `files`: those of the user, by whose names such rules know them."""
    for file in files:
        if Path(file).name == rule.file:
            return Place(file, _rule_lines(file).get(rule.name, 0))
    return Place(rule.file, _rule_lines(rule.file).get(rule.name, 0))


def place_of_decomposition(name: str, function: Any) -> Place:
    """Where a decomposition stands: the entry by which ortable asks for it, or its function."""
    line = _decomposition_lines().get(name)
    if line is not None:
        return Place(_DECOMPOSITIONS, line)
    function = inspect.unwrap(function)
    code = getattr(function, "__code__", None)
    if code is None:
        return Place(getattr(function, "__module__", "") or repr(function))
    file = Path(code.co_filename)
    above = Path(str(torch.__file__)).parents[1]
    shown = file.relative_to(above) if file.is_relative_to(above) else file
    return Place(shown.as_posix(), code.co_firstlineno)


def meant_by(name: str) -> str:
    """The entry by which an operator is converted: that which an alias means, else its own."""
    file = generated_tables().spec_files.get(name)
    return name if file is None else _entries(file).aliases.get(name, name)


def loaded_lines(key: str) -> tuple[int, ...]:
    """Lines of an entry that `ortable.load_specs` added, and of its cases; empty for others."""
    for loaded in reversed(LOADED):
        if key in loaded.operators:
            return tuple(loaded.lines.get(key, ()))
    return ()


def specs_root() -> Path | None:
    """The folder that holds `specs/`, in a checkout; None in an installed package."""
    import ortable_generated

    root = Path(str(ortable_generated.__file__)).resolve().parents[2]
    return root if (root / "specs" / "aten").is_dir() else None


@dataclass(frozen=True)
class _Entries:
    """Entries of a file: lines of each and of its cases, and what aliases mean."""

    lines: dict[str, tuple[int, ...]] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)


@lru_cache(maxsize=16)
def _entries(file: str) -> _Entries:
    from ortablegen.aten.read import read_text
    from ortablegen.source.diagnostics import Diagnostics

    text = _text(file)
    if text is None:
        return _Entries()
    specs = read_text(text, file, Diagnostics())
    lines = {
        each.key: (each.span.line, *(case.span.line for case in each.every_case()))
        for each in specs.ops
    }
    lines |= {each.key: (each.span.line,) for each in specs.aliases}
    return _Entries(lines, {each.key: each.of for each in specs.aliases})


@lru_cache(maxsize=64)
def _rule_lines(file: str) -> dict[str, int]:
    """Lines of the rules of a file: a rule begins an entry, `- rewrite: its_name`."""
    found = {}
    for number, line in enumerate((_text(file) or "").splitlines(), 1):
        match = _RULE.match(line)
        if match:
            found[match[1]] = number
    return found


@lru_cache(maxsize=1)
def _decomposition_lines() -> dict[str, int]:
    lines = (_text(_DECOMPOSITIONS) or "").splitlines()
    matches = ((_OP.match(line), number) for number, line in enumerate(lines, 1))
    return {match[1]: number for match, number in matches if match}


def _text(file: str) -> str | None:
    """What a file holds: the user's, or one of the checkout."""
    root = specs_root()
    for path in (Path(file), *([root / file] if root is not None else [])):
        if path.is_file():
            return path.read_text(encoding="utf-8")
    return None
