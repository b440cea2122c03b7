"""File and line of what can be wrong: an entry of the specs and its case, a rule of rewriting, a
pass, a function. In comes what it is called, or the object, out come a path and a line, which is 0
where the file is not at hand. Called by `search`."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ortable.debug.comparing.places import (
    Place,
    place_of_decomposition,
    place_of_rule,
    specs_root,
    where_is,
)
from ortable.interpreter.tables import LOADED
from ortable.passes.rewrite import choose
from ortable.passes.rewrite.rule import Rule


def entry_place(name: str, file: str, case: int) -> Place:
    """Where an entry stands, or the case of it: `aten::relu` of `specs/aten/activation.yaml`."""
    for loaded in reversed(LOADED):
        if name in loaded.operators and loaded.path == file:
            lines = loaded.lines.get(name, (0,))
            return Place(loaded.file, lines[case] if case < len(lines) else lines[0])
    return where_is(name, case) or Place(file)


def rule_place(rule: Rule) -> Place:
    """Where a rule stands, in the package's files or in one of the user."""
    own = choose.path_of(rule)
    return place_of_rule(rule, () if own is None else (str(own),))


def decomposition_place(name: str, function: Callable[..., Any]) -> Place:
    """Where a decomposition stands: the function of the user, or what ortable says of torch's."""
    if getattr(inspect.unwrap(function), "__module__", "").partition(".")[0] == "torch":
        return place_of_decomposition(name, function)
    return function_place(function)


def optimizer_place(name: str, file: str) -> Place:
    """Where the table of optimizers says what is known about one."""
    root = specs_root()
    line = 0 if root is None else _line_of(root / file, rf".*\bname: {re.escape(name)}\b")
    return Place(file, line)


def function_place(function: Callable[..., Any]) -> Place:
    """Where a Python function, or the class of a callable object, is defined."""
    found: Any = inspect.unwrap(function)
    found = getattr(found, "func", found)  # functools.partial
    if not (inspect.isfunction(found) or inspect.ismethod(found) or inspect.isclass(found)):
        found = type(found)
    try:
        file, line = inspect.getsourcefile(found), inspect.getsourcelines(found)[1]
    except (OSError, TypeError):
        return Place("")
    return Place(_shown(file or ""), line)


def _shown(file: str) -> str:
    """A file of this package as the repository calls it."""
    here = str(Path(__file__).resolve().parents[3])
    path = os.path.realpath(file)
    return f"runtime/{os.path.relpath(path, here)}" if path.startswith(here + os.sep) else file


def _line_of(path: Path, pattern: str) -> int:
    """The first line that matches, from 1; 0 for none."""
    found = re.compile(pattern)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError:
        return 0
    for number, line in enumerate(text.splitlines(), 1):
        if found.match(line):
            return number
    return 0
