"""Print the errors that no recorded test raises: ``python -m tests.mutate.unreached``.

These are the `raise` statements and the reports of codegen that no test of `make test` ran in its
own process. Sweeps, child processes and other versions of torch may reach some of them.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from .reach import MEASURED, ROOT, Reach, read_reach

_REPORTED = ("error", "unknown", "warn")  # methods of codegen's diagnostics, and warnings


def main() -> int:
    """Print the unreached errors and their number."""
    reach = read_reach()
    rows = list(errors())
    unreached = [row for row in rows if not is_reached(reach, *row[:3])]
    for file, first, _, text in unreached:
        print(f"{file}:{first}: {text}")
    print(f"{len(unreached)} of {len(rows)}")
    return 0


def errors(root: Path = ROOT) -> Iterator[tuple[str, int, int, str]]:
    """Yield the file, the first and the last line, and the first line's text of each error."""
    for folder in MEASURED:
        for path in sorted((root / folder).rglob("*.py")):
            source = path.read_text()
            lines = source.splitlines()
            spans = sorted(
                (node.lineno, node.end_lineno or node.lineno)
                for node in ast.walk(ast.parse(source))
                if isinstance(node, ast.Raise | ast.Expr) and _is_report(node)
            )
            for first, last in spans:
                yield path.relative_to(root).as_posix(), first, last, lines[first - 1].strip()


def is_reached(reach: Reach, file: str, first: int, last: int) -> bool:
    """Return whether a test ran one of the lines."""
    lines = reach.tests.get(file, {})
    return any(lines.get(line) for line in range(first, last + 1))


def _is_report(node: ast.Raise | ast.Expr) -> bool:
    if isinstance(node, ast.Raise) or not isinstance(node.value, ast.Call):
        return isinstance(node, ast.Raise)
    function = node.value.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name in _REPORTED


if __name__ == "__main__":
    sys.exit(main())
