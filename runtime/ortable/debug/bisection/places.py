"""File and line of what can be wrong: an entry of the specs and its case, a rule of rewriting, a
pass, a function. In comes what it is called, or the object, out come a path and a line, which is 0
where the file is not at hand. Called by `search`."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from ortable.interpreter.tables import LOADED
from ortable.passes.rewrite import choose
from ortable.passes.rewrite.rule import Rule

__all__ = ["entry_place", "function_place", "optimizer_place", "rule_place"]

Place = tuple[str, int]


def entry_place(name: str, file: str, case: int) -> Place:
    """Where an entry stands, or the case of it: `aten::relu` of `specs/aten/activation.yaml`."""
    for loaded in reversed(LOADED):
        if name in loaded.operators and loaded.path == file and loaded.file:
            return loaded.file, _entry_line(Path(loaded.file), name, case)
    root = _root()
    return file, 0 if root is None else _entry_line(root / file, name, case)


def rule_place(rule: Rule) -> Place:
    """Where a rule stands, in the package's files or in one of the user."""
    own = choose.path_of(rule)
    root = _root()
    path = own if own is not None else root and root / rule.file
    line = _line_of(path, rf"- rewrite: *{re.escape(rule.name)}\b") if path else 0
    return (str(own) if own is not None else rule.file), line


def optimizer_place(name: str, file: str) -> Place:
    """Where the table of optimizers says what is known about one."""
    root = _root()
    return file, 0 if root is None else _line_of(root / file, rf".*\bname: {re.escape(name)}\b")


def function_place(function: Callable[..., Any]) -> Place:
    """Where a Python function, or the class of a callable object, is defined."""
    found: Any = inspect.unwrap(function)
    found = getattr(found, "func", found)  # functools.partial
    if not (inspect.isfunction(found) or inspect.ismethod(found) or inspect.isclass(found)):
        found = type(found)
    try:
        file, line = inspect.getsourcefile(found), inspect.getsourcelines(found)[1]
    except (OSError, TypeError):
        return "", 0
    return _shown(file or ""), line


def _shown(file: str) -> str:
    """A file of this package as the repository calls it."""
    here = str(Path(__file__).resolve().parents[3])
    path = os.path.realpath(file)
    return f"runtime/{os.path.relpath(path, here)}" if path.startswith(here + os.sep) else file


def _root() -> Path | None:
    """The folder that holds `specs/`; None in an installed package."""
    import ortable_generated

    root = Path(str(ortable_generated.__file__)).resolve().parents[2]
    return root if (root / "specs" / "aten").is_dir() else None


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


def _entry_line(path: Path, name: str, case: int) -> int:
    try:
        changed = path.stat().st_mtime_ns
    except OSError:
        return 0
    lines = _entry_lines(str(path), changed).get(name, (0,))
    return lines[case] if case < len(lines) else lines[0]


@lru_cache(maxsize=16)
def _entry_lines(path: str, _changed: int) -> dict[str, tuple[int, ...]]:
    """By operator of a file: the line of its entry, then those of its cases."""
    document = yaml.compose(Path(path).read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    found: dict[str, tuple[int, ...]] = {}
    for entry in document.value if isinstance(document, yaml.SequenceNode) else ():
        keys = {key.value: value for key, value in entry.value}
        head = keys.get("op") or keys.get("alias")
        if head is None:
            continue
        name = str(head.value).partition("(")[0].strip()
        lower = keys.get("lower")
        cases = lower.value if isinstance(lower, yaml.SequenceNode) else ()
        lines = (entry.start_mark.line + 1, *(each.start_mark.line + 1 for each in cases))
        found[name] = lines
    return found
