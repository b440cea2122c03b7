"""Find and parse the files of this repository."""

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
    """Yield relative paths of files at the root and in ``TOP`` with a suffix in ``SUFFIXES``."""
    paths = [path for path in ROOT.iterdir() if path.is_file()]
    for top in TOP:
        paths += (path for path in (ROOT / top).rglob("*") if path.is_file())
    for path in sorted(paths):
        relative = path.relative_to(ROOT)
        skipped = any(
            part == "__pycache__" or part.endswith(".egg-info") for part in relative.parts
        )
        if not skipped and (path.suffix in SUFFIXES or path.name in {"Makefile", "run"}):
            yield relative


@dataclass(frozen=True)
class Import:
    """One import: absolute dotted name, line, and whether only type checkers execute it."""

    module: str
    line: int
    typing_only: bool


def module_name(path: Path, package_root: Path) -> str:
    """Return the dotted name: ``runtime/ortable/ir/__init__.py`` -> ``ortable.ir``."""
    parts = list(path.relative_to(package_root).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_type_checking(test: ast.expr) -> bool:
    """Return whether a condition is ``TYPE_CHECKING`` or ``typing.TYPE_CHECKING``."""
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


@functools.cache
def imports(path: Path, package_root: Path) -> tuple[Import, ...]:
    """Return every import of a file, including those inside functions.

    ``from package import name`` counts as ``package.name``, because the name may be a submodule.
    """
    name = module_name(path, package_root)
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    result: list[Import] = []

    def visit(node: ast.AST, typing_only: bool) -> None:
        if isinstance(node, ast.Import):
            result.extend(Import(alias.name, node.lineno, typing_only) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            prefix = ".".join(base + ([node.module] if node.module else []))
            result.extend(
                Import(f"{prefix}.{alias.name}", node.lineno, typing_only) for alias in node.names
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
    return tuple(result)
