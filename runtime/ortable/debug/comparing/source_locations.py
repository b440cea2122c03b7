"""Find the file and line of spec entries, rewrite rules, optimizers, functions and FX nodes.

YAML files are parsed on demand. A `SourceLocation` has line 0 if the file is not available.
"""

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
from ortable.interpreter.tables import LOADED_SPECS, generated_tables
from ortable.passes.rewrite import rule_selection
from ortable.passes.rewrite.rule import Rule

_DECOMPOSITIONS = "specs/runtime/decompositions.yaml"
_RULE_PATTERN = r"- (?:\{)?rewrite:\s*([a-z][a-z0-9_]*)"
_OP_PATTERN = r"- (?:\{)?op:\s*([\w:.]+)"
_OPTIMIZER_PATTERN = r".*\bname: (\w+)"


@dataclass(frozen=True)
class SourceLocation:
    """A line of a spec file; line 0 if the file is missing, as in an installed package.

    Attributes:
        file: a path in the repository, or the user's file.
        line: the line number from 1; 0 if unknown.
    """

    file: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


def where_is(name: str, case: int = 0) -> SourceLocation | None:
    """Locate a spec entry, one of its cases (`"aten::addmm/2"`), or a rewrite rule.

    Args:
        name: an overload, as `ortable.supported_ops` names it, or a rule (`"gelu_erf"`).
        case: number of a case of `lower`, from 1; 0 for the whole entry.

    Returns:
        The location; None for an unknown name.
    """
    key, _, number = name.partition("/")
    case = case or int(number or 0)
    file = generated_tables().spec_files.get(key)
    if file is not None:
        lines = loaded_lines(key) or _read_entries(file).lines.get(key, (0,))
        return SourceLocation(file, lines[case] if case < len(lines) else lines[0])
    for rule in rule_selection.package_rules():
        if rule.name == key:
            return SourceLocation(rule.file, _find_lines(rule.file, _RULE_PATTERN).get(key, 0))
    return None


def locate_rule(rule: Rule, files: Iterable[str] = ()) -> SourceLocation:
    """Locate a rewrite rule; `files` are paths of user files, since `Rule.file` has no folder."""
    for file in files:
        if Path(file).name == rule.file:
            return SourceLocation(file, _find_lines(file, _RULE_PATTERN).get(rule.name, 0))
    return SourceLocation(rule.file, _find_lines(rule.file, _RULE_PATTERN).get(rule.name, 0))


def locate_entry(name: str, case: int = 0) -> SourceLocation:
    """Locate an entry or one of its cases; the location of a user's entry has the full path."""
    location = where_is(name, case) or SourceLocation("")
    loaded = next((item.file for item in reversed(LOADED_SPECS) if name in item.operators), "")
    return replace(location, file=loaded or location.file)


def locate_decomposition(name: str, function: Any) -> SourceLocation:
    """Locate a decomposition: the entry that requests it, or its function."""
    line = _find_lines(_DECOMPOSITIONS, _OP_PATTERN).get(name)
    return locate_function(function) if line is None else SourceLocation(_DECOMPOSITIONS, line)


def locate_optimizer(name: str, file: str) -> SourceLocation:
    """Locate an optimizer in the table of optimizers."""
    return SourceLocation(file, _find_lines(file, _OPTIMIZER_PATTERN).get(name, 0))


def locate_function(function: Any) -> SourceLocation:
    """Locate the definition of a Python function, or of the class of a callable object."""
    target: Any = inspect.unwrap(function)
    target = getattr(target, "func", target)  # functools.partial
    if not (inspect.isfunction(target) or inspect.ismethod(target) or inspect.isclass(target)):
        target = type(target)
    try:
        file, line = inspect.getsourcefile(target), inspect.getsourcelines(target)[1]
    except (OSError, TypeError):
        return SourceLocation("")
    path = Path(os.path.realpath(file or ""))
    for module, depth, prefix in ((__file__, 3, "runtime/"), (torch.__file__, 1, "")):
        root = Path(str(module)).resolve().parents[depth]  # of the checkout or of site-packages
        if path.is_relative_to(root):
            return SourceLocation(f"{prefix}{path.relative_to(root).as_posix()}", line)
    return SourceLocation(file or "", line)


def format_module(node: Node) -> str:
    """Format path and class of the module that called a node: `layers.1 (ReLU)`."""
    path, class_name = module_path(node)
    return f"{path or '(root)'} ({class_name})" if class_name else path


def resolve_alias(name: str) -> str:
    """Return the entry that converts an operator: its alias target, or the operator itself."""
    file = generated_tables().spec_files.get(name)
    return name if file is None else _read_entries(file).aliases.get(name, name)


def loaded_lines(key: str) -> tuple[int, ...]:
    """Return the lines of an entry of `ortable.load_specs` and of its cases; else empty."""
    for loaded in reversed(LOADED_SPECS):
        if key in loaded.operators:
            return tuple(loaded.lines.get(key, ()))
    return ()


def specs_root() -> Path | None:
    """Return the folder that holds `specs/` in a checkout; None in an installed package."""
    import ortable_generated

    root = Path(str(ortable_generated.__file__)).resolve().parents[2]
    return root if (root / "specs" / "aten").is_dir() else None


@dataclass(frozen=True)
class _SpecEntries:
    """Lines of the entries of a file and of their cases, and the targets of aliases."""

    lines: dict[str, tuple[int, ...]] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)


@lru_cache(maxsize=16)
def _read_entries(file: str) -> _SpecEntries:
    from ortablegen.aten.read import read_text
    from ortablegen.source.diagnostics import Diagnostics

    text = _read_file(file)
    if text is None:
        return _SpecEntries()
    specs = read_text(text, file, Diagnostics())
    lines = {
        item.key: (item.span.line, *(case.span.line for case in item.all_cases()))
        for item in specs.ops
    }
    lines |= {item.key: (item.span.line,) for item in specs.aliases}
    return _SpecEntries(lines, {item.key: item.of for item in specs.aliases})


@lru_cache(maxsize=64)
def _find_lines(file: str, pattern: str) -> dict[str, int]:
    """Map each match of the pattern's group, such as a rule name, to its first line number."""
    lines = enumerate((_read_file(file) or "").splitlines(), 1)
    matches = [(re.match(pattern, line), number) for number, line in lines]
    return {match[1]: number for match, number in reversed(matches) if match}


def _read_file(file: str) -> str | None:
    """Read a file by its path, or by its path in the checkout; None if there is none."""
    root = specs_root()
    for path in (Path(file), *([root / file] if root is not None else [])):
        if path.is_file():
            return path.read_text(encoding="utf-8")
    return None
