"""File and line of what can be wrong: an entry of the specs and its case, a rule of rewriting, an
optimizer, a function; and the module of a node. Lines of YAML files are found by reading them when
somebody asks. In comes a name or an object, out comes a `Place`, whose line is 0 where the file is
not at hand; called for differences and faults, by the shell and by tests."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch.fx import Node

from ortable.interpreter.diagnostics.origin import module_path
from ortable.interpreter.tables import LOADED, generated_tables
from ortable.passes.rewrite import rule_selection
from ortable.passes.rewrite.rule import Rule

_DECOMPOSITIONS = "specs/runtime/decompositions.yaml"
_RULE = r"- (?:\{)?rewrite:\s*([a-z][a-z0-9_]*)"
_OP = r"- (?:\{)?op:\s*([\w:.]+)"
_NAME = r".*\bname: (\w+)"


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
    for rule in rule_selection.packaged():
        if rule.name == key:
            return Place(rule.file, _lines(rule.file, _RULE).get(key, 0))
    return None


def place_of_rule(rule: Rule, files: Iterable[str] = ()) -> Place:
    """Where a rule stands; `files`: those of the user, by whose names such rules know them."""
    for file in files:
        if Path(file).name == rule.file:
            return Place(file, _lines(file, _RULE).get(rule.name, 0))
    return Place(rule.file, _lines(rule.file, _RULE).get(rule.name, 0))


def place_of_entry(name: str, case: int = 0) -> Place:
    """Where an entry stands, or the case of it; a user's by the path of its file."""
    place = where_is(name, case) or Place("")
    loaded = next((each.file for each in reversed(LOADED) if name in each.operators), "")
    return replace(place, file=loaded or place.file)


def place_of_decomposition(name: str, function: Any) -> Place:
    """Where a decomposition stands: the entry by which ortable asks for it, or its function."""
    line = _lines(_DECOMPOSITIONS, _OP).get(name)
    return place_of_function(function) if line is None else Place(_DECOMPOSITIONS, line)


def place_of_optimizer(name: str, file: str) -> Place:
    """Where the table of optimizers says what is known about one."""
    return Place(file, _lines(file, _NAME).get(name, 0))


def place_of_function(function: Any) -> Place:
    """Where a Python function, or the class of a callable object, is defined."""
    found: Any = inspect.unwrap(function)
    found = getattr(found, "func", found)  # functools.partial
    if not (inspect.isfunction(found) or inspect.ismethod(found) or inspect.isclass(found)):
        found = type(found)
    try:
        file, line = inspect.getsourcefile(found), inspect.getsourcelines(found)[1]
    except (OSError, TypeError):
        return Place("")
    path = Path(os.path.realpath(file or ""))
    for module, depth, above in ((__file__, 3, "runtime/"), (torch.__file__, 1, "")):
        root = Path(str(module)).resolve().parents[depth]  # files as their repository calls them
        if path.is_relative_to(root):
            return Place(f"{above}{path.relative_to(root).as_posix()}", line)
    return Place(file or "", line)


def module_of(node: Node) -> str:
    """Path and class of the module that a node comes from: `layers.1 (ReLU)`."""
    path, kind = module_path(node)
    return f"{path or '(root)'} ({kind})" if kind else path


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
def _lines(file: str, pattern: str) -> dict[str, int]:
    """Lines of a file that match, by what the pattern's group is: `- rewrite: its_name`."""
    lines = enumerate((_text(file) or "").splitlines(), 1)
    matches = [(re.match(pattern, line), number) for number, line in lines]
    return {match[1]: number for match, number in reversed(matches) if match}


def _text(file: str) -> str | None:
    """What a file holds: the user's, or one of the checkout."""
    root = specs_root()
    for path in (Path(file), *([root / file] if root is not None else [])):
        if path.is_file():
            return path.read_text(encoding="utf-8")
    return None
