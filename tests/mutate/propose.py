"""Proposes mutants of a Python file: ``python -m tests.mutate.propose FILE [--draw 5]``.

In comes a path, out come lines for mutants.yaml, whose `breaks` and `run` somebody has to write:
which fault would be silently wrong is a matter of judgement, so the list itself is fixed.
"""

from __future__ import annotations

import argparse
import ast
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

_COMPARED: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
Change = tuple[int, int, str]  # from and to in the text, and what stands there instead


def main(argv: Sequence[str] | None = None) -> int:
    """Print lines for the list."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutate.propose", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--draw", type=int, help="so many of each file, not all")
    given = parser.parse_args(argv)
    for path in given.files:
        text = path.read_text()
        found = list(proposals(text))
        if given.draw is not None:
            found = random.Random(str(path)).sample(found, min(given.draw, len(found)))
        lines = [{"file": str(path), "text": old, "by": new} for old, new in found]
        print(yaml.safe_dump(lines, sort_keys=False, width=1000))
    return 0


def proposals(text: str) -> Iterator[tuple[str, str]]:
    """A text that stands in ``text`` once, and what could stand there, for each proposal."""
    starts = [0]
    for line in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    raw = text.encode()
    for node in ast.walk(ast.parse(text)):
        for begin, end, new in _changes(node, raw, starts):
            found = _unique(raw, begin, end, new.encode())
            if found is not None:
                yield found


def _changes(node: ast.AST, raw: bytes, starts: list[int]) -> Iterator[Change]:
    def place(each: ast.AST) -> tuple[int, int]:
        assert isinstance(each, ast.expr | ast.stmt)
        assert each.end_lineno is not None and each.end_col_offset is not None
        first = starts[each.lineno - 1] + each.col_offset
        return first, starts[each.end_lineno - 1] + each.end_col_offset

    def code(each: ast.AST) -> str:
        first, last = place(each)
        return raw[first:last].decode()

    if isinstance(node, ast.BoolOp):  # each part dropped
        word = " and " if isinstance(node.op, ast.And) else " or "
        for number in range(len(node.values)):
            kept = [code(each) for place_, each in enumerate(node.values) if place_ != number]
            yield (*place(node), word.join(kept))
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        sign = _COMPARED[type(node.ops[0])]
        yield (*place(node), f"{code(node.left)} {sign} {code(node.comparators[0])}")
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub | ast.FloorDiv | ast.Div):
        between = raw[place(node.left)[1] : place(node.right)[0]].decode()
        yield (*place(node), code(node.right) + between + code(node.left))
    elif isinstance(node, ast.Constant) and type(node.value) is int and 0 <= node.value < 100:
        yield (*place(node), str(node.value + 1))
    elif isinstance(node, ast.Call) and node.keywords and node.keywords[-1].arg:
        last = node.keywords[-1]
        before = [*node.args, *(each.value for each in node.keywords[:-1])]
        if before:
            yield (place(before[-1])[1], place(last.value)[1], "")
    elif isinstance(node, ast.If) and not node.orelse and len(node.body) == 1:
        if isinstance(node.body[0], ast.Raise | ast.Return | ast.Continue):
            yield (*place(node.test), "False")
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield (*place(node), "pass")


def _unique(raw: bytes, begin: int, end: int, new: bytes) -> tuple[str, str] | None:
    """The change as texts, with as much of the lines around it as makes it unique."""
    first = raw.rfind(b"\n", 0, begin) + 1
    last = raw.find(b"\n", end)
    for _ in range(3):
        old = raw[first:last]
        if raw.count(old) == 1:
            return old.decode(), (raw[first:begin] + new + raw[end:last]).decode()
        first = raw.rfind(b"\n", 0, max(first - 1, 0)) + 1
    return None


if __name__ == "__main__":
    main()
