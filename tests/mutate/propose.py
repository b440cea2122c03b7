"""Propose mutants of a Python file: ``python -m tests.mutate.propose FILE [--draw 5]``.

The output is lines for mutants.yaml; a person adds `breaks` and `run`, because only a person can
judge which mutants would be silently wrong.
"""

from __future__ import annotations

import argparse
import ast
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

_SWAPPED_COMPARISONS: dict[type[ast.cmpop], str] = {
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
Change = tuple[int, int, str]  # start, end, replacement


def main(argv: Sequence[str] | None = None) -> int:
    """Print lines for mutants.yaml."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutate.propose", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--draw", type=int, help="number of random mutants of each file")
    options = parser.parse_args(argv)
    for path in options.files:
        text = path.read_text()
        pairs = list(proposals(text))
        if options.draw is not None:
            pairs = random.Random(str(path)).sample(pairs, min(options.draw, len(pairs)))
        lines = [{"file": str(path), "text": old, "by": new} for old, new in pairs]
        print(yaml.safe_dump(lines, sort_keys=False, width=1000))
    return 0


def proposals(text: str) -> Iterator[tuple[str, str]]:
    """Yield a unique piece of ``text`` and its replacement for each proposal."""
    starts = [0]
    for line in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    raw = text.encode()
    for node in ast.walk(ast.parse(text)):
        for start, end, new in _changes(node, raw, starts):
            pair = _unique(raw, start, end, new.encode())
            if pair is not None:
                yield pair


def _changes(node: ast.AST, raw: bytes, starts: list[int]) -> Iterator[Change]:
    def span(item: ast.AST) -> tuple[int, int]:
        assert isinstance(item, ast.expr | ast.stmt)
        assert item.end_lineno is not None and item.end_col_offset is not None
        first = starts[item.lineno - 1] + item.col_offset
        return first, starts[item.end_lineno - 1] + item.end_col_offset

    def code(item: ast.AST) -> str:
        first, last = span(item)
        return raw[first:last].decode()

    if isinstance(node, ast.BoolOp):  # drop each operand in turn
        operator = " and " if isinstance(node.op, ast.And) else " or "
        for dropped in range(len(node.values)):
            operands = [code(v) for number, v in enumerate(node.values) if number != dropped]
            yield (*span(node), operator.join(operands))
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        sign = _SWAPPED_COMPARISONS[type(node.ops[0])]
        yield (*span(node), f"{code(node.left)} {sign} {code(node.comparators[0])}")
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub | ast.FloorDiv | ast.Div):
        between = raw[span(node.left)[1] : span(node.right)[0]].decode()
        yield (*span(node), code(node.right) + between + code(node.left))
    elif isinstance(node, ast.Constant) and type(node.value) is int and 0 <= node.value < 100:
        yield (*span(node), str(node.value + 1))
    elif isinstance(node, ast.Call) and node.keywords and node.keywords[-1].arg:
        last = node.keywords[-1]
        arguments = [*node.args, *(item.value for item in node.keywords[:-1])]
        if arguments:
            yield (span(arguments[-1])[1], span(last.value)[1], "")
    elif isinstance(node, ast.If) and not node.orelse and len(node.body) == 1:
        if isinstance(node.body[0], ast.Raise | ast.Return | ast.Continue):
            yield (*span(node.test), "False")
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield (*span(node), "pass")


def _unique(raw: bytes, start: int, end: int, new: bytes) -> tuple[str, str] | None:
    """Return the old and the new text, with enough surrounding lines to make the old one unique."""
    first = raw.rfind(b"\n", 0, start) + 1
    last = raw.find(b"\n", end)
    for _ in range(3):
        old = raw[first:last]
        if raw.count(old) == 1:
            return old.decode(), (raw[first:start] + new + raw[end:last]).decode()
        first = raw.rfind(b"\n", 0, max(first - 1, 0)) + 1
    return None


if __name__ == "__main__":
    main()
