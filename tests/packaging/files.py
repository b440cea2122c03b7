"""Finding and parsing the files of this repository, for the tests of its frame."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOP = (
    ".ci", ".devcontainer", ".github", "benchmarks", "codegen", "docs", "examples", "generated",
    "runtime", "specs", "tests",
)  # fmt: skip
SUFFIXES = {".cfg", ".err", ".jinja", ".md", ".py", ".toml", ".txt", ".yaml", ".yml"}


def text_files() -> Iterator[Path]:
    """Text files of the repository, relative to its root. Caches and environments are not in it."""
    found = [path for path in ROOT.iterdir() if path.is_file()]
    for top in TOP:
        found += (path for path in (ROOT / top).rglob("*") if path.is_file())
    for path in sorted(found):
        relative = path.relative_to(ROOT)
        skipped = any(
            part == "__pycache__" or part.endswith(".egg-info") for part in relative.parts
        )
        if not skipped and (path.suffix in SUFFIXES or path.name in {"Makefile", "run"}):
            yield relative


@dataclass(frozen=True)
class Import:
    """One imported module: absolute dotted name, line, and whether only type checkers read it."""

    module: str
    line: int
    typing_only: bool


def module_name(path: Path, package_root: Path) -> str:
    """``runtime/ortable/builder/__init__.py`` under ``runtime`` -> ``ortable.builder``."""
    parts = list(path.relative_to(package_root).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_type_checking(test: ast.expr) -> bool:
    """``TYPE_CHECKING`` or ``typing.TYPE_CHECKING``."""
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


@functools.cache
def imports(path: Path, package_root: Path) -> tuple[Import, ...]:
    """Every import of a file, those inside functions too.

    ``from package import name`` counts as ``package.name``: the name may be a submodule, and for
    a class of ``package`` the longer name still begins with the room that it comes from.
    """
    name = module_name(path, package_root)
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    found: list[Import] = []

    def visit(node: ast.AST, typing_only: bool) -> None:
        if isinstance(node, ast.Import):
            found.extend(Import(alias.name, node.lineno, typing_only) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            start = ".".join(base + ([node.module] if node.module else []))
            found.extend(
                Import(f"{start}.{alias.name}", node.lineno, typing_only) for alias in node.names
            )
        if isinstance(node, ast.If) and is_type_checking(node.test):
            for child in node.body:
                visit(child, True)
            for child in node.orelse:
                visit(child, typing_only)
            return
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.expr):
                visit(child, typing_only)

    visit(ast.parse(path.read_text(encoding="utf-8"), str(path)), False)
    return tuple(found)
