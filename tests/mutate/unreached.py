"""``python -m tests.mutate.unreached``: errors that no test has met, by what `reach` recorded.

Out come the file, the line and the text of each `raise`, and of each error that codegen reports,
that no test of `make test` ran in its own process: sweeps, other processes and other versions of
torch may meet some. Such a line may be wrong in its words, or never be reached where it should be.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from .reach import MEASURED, ROOT, Reach, read_reach

_REPORTED = ("error", "unknown", "warn")  # of codegen's diagnostics, and warnings


def main() -> int:
    """Print them, and how many of how many they are."""
    reach = read_reach()
    every = list(errors())
    left = [each for each in every if not is_reached(reach, *each[:3])]
    for file, first, _, text in left:
        print(f"{file}:{first}: {text}")
    print(f"{len(left)} of {len(every)}")
    return 0


def errors(root: Path = ROOT) -> Iterator[tuple[str, int, int, str]]:
    """File, first and last line, and text of the first line of each."""
    for folder in MEASURED:
        for path in sorted((root / folder).rglob("*.py")):
            source = path.read_text()
            lines = source.splitlines()
            found = sorted(
                (node.lineno, node.end_lineno or node.lineno)
                for node in ast.walk(ast.parse(source))
                if isinstance(node, ast.Raise | ast.Expr) and _reports(node)
            )
            for first, last in found:
                yield path.relative_to(root).as_posix(), first, last, lines[first - 1].strip()


def is_reached(reach: Reach, file: str, first: int, last: int) -> bool:
    """Whether a test ran one of the lines."""
    lines = reach.tests.get(file, {})
    return any(lines.get(line) for line in range(first, last + 1))


def _reports(node: ast.Raise | ast.Expr) -> bool:
    if isinstance(node, ast.Raise) or not isinstance(node.value, ast.Call):
        return isinstance(node, ast.Raise)
    function = node.value.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name in _REPORTED


if __name__ == "__main__":
    sys.exit(main())
