"""The shell command `ortable ops`: which operators are supported, and which a saved program has
that are not."""

from __future__ import annotations

import argparse
from typing import Any

from .arguments import existing


def add_ops(commands: Any) -> None:
    """Adds the command to the subparsers of argparse."""
    ops = commands.add_parser("ops", help="list the supported operators")
    ops.add_argument("--missing", metavar="MODEL.pt2", help="what a saved program still lacks")
    ops.add_argument("--grep", default="", metavar="TEXT", help="only names that contain this text")
    ops.set_defaults(run=_ops)


def _ops(args: argparse.Namespace) -> int:
    from ortable.interpreter.tables import generated_tables

    if args.missing is not None:
        return _missing(existing(args.missing), generated_tables().converters)
    _print_coverage(args.grep)
    return 0


def _print_coverage(text: str) -> None:
    """The table of docs/operators.md, one line an operator; loaded specs have a name only."""
    from ortable.interpreter.tables import generated_tables
    from ortable_generated.coverage import COVERAGE

    tables = generated_tables()
    rows = [row for row in COVERAGE if text in row[0]]
    heads = (
        "operator", "opsets", "dtypes", "dynamic", "cases", "samples", "escape", "forward", "gradient"
    )  # fmt: skip
    line = "{:46} {:9} {:32} {:7} {:6} {:12} {:28} {:>9} {:>9}"
    print(line.format(*heads))
    for row in rows:
        name, means, opsets, kinds, dynamic, cases, refused, reached, escape, *measured = row
        numbers = f"{cases}" + (f" - {refused}" if refused else "")
        how = f"= {means}" if means else escape
        cells = (name, opsets, kinds, "yes" if dynamic else "", numbers, reached, how, *measured)
        print(line.format(*cells).rstrip())
        if name in tables.place:
            print(f"    in torch, between sessions: {tables.place[name]}")
    known = {row[0] for row in COVERAGE}
    loaded = sorted(n for n in tables.converters if n not in known and text in n)
    for name in loaded:
        print(f"{name:46} {tables.spec_files.get(name, '')}")
    print(f"{len(rows) + len(loaded)} operators")


def _missing(path: str, converters: Any) -> int:
    """Operators of a saved ExportedProgram without a converter; status 1 when there are some."""
    import torch

    from ortable.compat.torch import OpOverload
    from ortable.exporter.capture.pt2 import opened

    program = opened(path)
    counts: dict[str, int] = {}
    for node in program.graph.nodes:
        if node.op != "call_function" or not isinstance(node.target, OpOverload):
            continue
        if not isinstance(node.meta.get("val"), torch.SymInt | int):
            name = node.target.name()
            counts[name] = counts.get(name, 0) + 1
    missing = {name: n for name, n in counts.items() if name not in converters}
    for name, number in sorted(missing.items()):
        print(f"{name:50} {number} call{'s' if number > 1 else ''}")
    print(f"{len(missing)} of {len(counts)} operators have no converter")
    return 1 if missing else 0
