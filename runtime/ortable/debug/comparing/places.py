"""File and line of an entry of the specs, of one of its cases, and of a rule of rewriting. The
lines are found by reading the YAML file when somebody asks. In comes a name, out comes a `Place`;
called for differences, by the shell and by tests."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ortable.interpreter.tables import generated_tables

__all__ = ["Place", "where_is"]


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
        lines = _entry_lines(file).get(key, (0,))
        return Place(file, lines[case] if case < len(lines) else lines[0])
    return None


def _specs_root() -> Path | None:
    """The folder that holds `specs/`, in a checkout; None in an installed package."""
    import ortable_generated

    root = Path(str(ortable_generated.__file__)).resolve().parents[2]
    return root if (root / "specs" / "aten").is_dir() else None


@lru_cache(maxsize=16)
def _entry_lines(file: str) -> dict[str, tuple[int, ...]]:
    """By entry of a file: its line, then those of its cases."""
    from ortablegen.aten.read import read_text
    from ortablegen.source.diagnostics import Diagnostics

    root = _specs_root()
    path = None if root is None else root / file
    if path is None or not path.is_file():
        return {}
    specs = read_text(path.read_text(encoding="utf-8"), file, Diagnostics())
    return {
        each.key: (each.span.line, *(one.span.line for one in each.every_case()))
        for each in specs.ops
    } | {each.key: (each.span.line,) for each in specs.aliases}
