"""The shell command `ortable`: show, draw, ops, specs check; the others stand in their own files.
Errors of ours are printed without a traceback and end with status 1."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ortable.errors import OrtableError
from ortable.interpreter.diagnostics.advice import advise, in_words_of_the_shell

from .compile import add_compile_commands
from .export import add_export
from .profile import add_profile
from .rewrites import add_rewrites
from .specs import add_specs

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit status."""
    args = _parser().parse_args(argv)
    try:
        return int(args.run(args) or 0)
    except OrtableError as error:
        advise(error, "shell", int(getattr(args, "verbose", 0) or 0))
        print(f"error: {in_words_of_the_shell(str(error))}", file=sys.stderr)
        return 1
    except FileNotFoundError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="ortable", description="PyTorch to ONNX, from tables.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")

    show = commands.add_parser("show", help="print an ONNX model as text")
    show.add_argument("model", help="path of the model")
    show.add_argument("--full", action="store_true", help="print every value of initializers")
    show.set_defaults(run=_show)

    draw = commands.add_parser("draw", help="draw an ONNX model")
    draw.add_argument("model", help="path of the model")
    draw.add_argument("-o", "--output", required=True, help="graph.svg, .png, .pdf, or .dot")
    draw.add_argument("--rankdir", default="TB", choices=["TB", "LR", "BT", "RL"])
    draw.set_defaults(run=_draw)

    ops = commands.add_parser("ops", help="list the supported operators")
    ops.add_argument("--missing", metavar="MODEL.pt2", help="what a saved program still lacks")
    ops.add_argument("--grep", default="", help="only names that contain this text")
    ops.set_defaults(run=_ops)

    add_export(commands)
    add_compile_commands(commands)
    add_profile(commands)
    add_rewrites(commands)

    add_specs(commands)
    return parser


def _show(args: argparse.Namespace) -> int:
    from ortable.ir.proto.text import pretty_onnx

    print(pretty_onnx(_existing(args.model), shorten=not args.full))
    return 0


def _draw(args: argparse.Namespace) -> int:
    from ortable.debug.plot import draw_onnx, to_dot

    output = Path(args.output)
    model = _existing(args.model)
    if output.suffix == ".dot":
        output.write_text(to_dot(model, rankdir=args.rankdir))
    else:
        output.write_bytes(draw_onnx(model, output.suffix[1:] or "svg", rankdir=args.rankdir))
    print(f"wrote {output}")
    return 0


def _ops(args: argparse.Namespace) -> int:
    from ortable.interpreter.tables import generated_tables

    if args.missing:
        return _missing(_existing(args.missing), generated_tables().converters)
    _print_coverage(args.grep)
    return 0


def _print_coverage(text: str) -> None:
    """The table of docs/operators.md, one line an operator; loaded specs have a name only."""
    from ortable.interpreter.tables import generated_tables
    from ortable_generated.coverage import COVERAGE

    tables = generated_tables()

    rows = [row for row in COVERAGE if text in row[0]]
    heads = (
        "operator",
        "opsets",
        "dtypes",
        "dynamic",
        "cases",
        "samples",
        "escape",
        "forward",
        "gradient",
    )
    line = "{:46} {:9} {:32} {:7} {:6} {:12} {:28} {:>9} {:>9}"
    print(line.format(*heads))
    for (
        name,
        _,
        means,
        opsets,
        kinds,
        dynamic,
        cases,
        refused,
        _,
        reached,
        escape,
        *measured,
    ) in rows:
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

    program = torch.export.load(path)
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


def _existing(path: str) -> str:
    if not Path(path).exists():
        raise FileNotFoundError(f"no file {path!r}")
    return path


if __name__ == "__main__":
    sys.exit(main())
