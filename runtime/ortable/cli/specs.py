"""The commands about operators: `ortable ops`, `ortable specs check` and `ortable specs test`.

`ops` lists the supported operators, or the unsupported ones of a saved program. `specs check`
checks a user's file of entries or rewrites as codegen does, and `specs test` runs the samples of
such a file in ONNX Runtime.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable
from typing import Any

from ortable.errors import OptionError, SpecError

from .arguments import check_existing


def add_ops(commands: Any) -> None:
    """Add `ops` to the subparsers of argparse."""
    ops = commands.add_parser("ops", help="list the supported operators")
    ops.add_argument("--missing", metavar="MODEL.pt2", help="unsupported operators of a program")
    ops.add_argument("--grep", default="", metavar="TEXT", help="only names that contain this text")
    ops.set_defaults(run=_run_ops)


def _run_ops(args: argparse.Namespace) -> int:
    from ortable.interpreter.tables import generated_tables

    if args.missing is not None:
        return _print_missing(check_existing(args.missing), generated_tables().converters)
    _print_coverage(args.grep)
    return 0


def _print_coverage(text: str) -> None:
    """Print a row of the generated table for each operator whose name contains `text`.

    The names of operators that load_specs added follow.
    """
    from ortable.interpreter.tables import generated_tables
    from ortable_generated.coverage import COVERAGE

    tables = generated_tables()
    rows = [row for row in COVERAGE if text in row[0]]
    headings = (
        "operator", "opsets", "dtypes", "dynamic", "cases", "samples", "escape", "forward",
        "gradient",
    )  # fmt: skip
    row_format = "{:46} {:9} {:32} {:7} {:6} {:12} {:28} {:>9} {:>9}"
    print(row_format.format(*headings))
    for row in rows:
        name, alias_of, opsets, dtypes, dynamic, cases, refusals, samples, escape, *accuracy = row
        case_counts = f"{cases}" + (f" - {refusals}" if refusals else "")
        lowering = f"= {alias_of}" if alias_of else escape
        cells = (
            name, opsets, dtypes, "yes" if dynamic else "", case_counts, samples, lowering,
            *accuracy,
        )  # fmt: skip
        print(row_format.format(*cells).rstrip())
        if name in tables.place:
            print(f"    in torch, between sessions: {tables.place[name]}")
    package_operators = {row[0] for row in COVERAGE}
    user_operators = sorted(
        n for n in tables.converters if n not in package_operators and text in n
    )
    for name in user_operators:
        print(f"{name:46} {tables.spec_files.get(name, '')}")
    print(f"{len(rows) + len(user_operators)} operators")


def _print_missing(path: str, converters: Any) -> int:
    """Print a saved program's operators that lack a converter; return 1 if there are any."""
    import torch

    from ortable.compat.torch import OpOverload
    from ortable.exporter.capture.pt2 import load_program

    program = load_program(path)
    counts: dict[str, int] = {}
    for node in program.graph.nodes:
        if node.op != "call_function" or not isinstance(node.target, OpOverload):
            continue
        # conversion computes sizes (aten::sym_size.int) without converters
        if not isinstance(node.meta.get("val"), torch.SymInt | int):
            name = node.target.name()
            counts[name] = counts.get(name, 0) + 1
    missing = {name: count for name, count in counts.items() if name not in converters}
    for name, call_count in sorted(missing.items()):
        print(f"{name:50} {call_count} call{'s' if call_count > 1 else ''}")
    print(f"{len(missing)} of {len(counts)} operators have no converter")
    return 1 if missing else 0


def add_specs(commands: Any) -> None:
    """Add `specs` and its actions to the subparsers of argparse."""
    specs = commands.add_parser("specs", help="work with spec files")
    actions = specs.add_subparsers(dest="action", required=True, metavar="action")
    check = actions.add_parser(
        "check",
        help="check a spec file as codegen does",
        description="Check a spec file of yours with the compiler and the checks of codegen; every "
        "error has a line, and a fix where one is known. No checkout of ortable is needed.",
        epilog="ortable.load_specs(FILE) adds its operators in Python; docs/adding-an-operator.md "
        "and docs/language.md say what such a file holds.",
    )
    check.add_argument(
        "file", help="a YAML file of op, alias, number and condition entries, or of rewrites"
    )
    _add_import_arguments(check, "NAME", "name of a function that the file uses in python:")
    check.set_defaults(run=_run_check)
    _add_test(actions)


def _add_test(actions: Any) -> None:
    test = actions.add_parser(
        "test",
        help="run the samples of a spec file against torch",
        description="Run every sample of a file of entries or rewrites. A call of an operator is\n"
        "converted and run by ONNX Runtime, and compared with torch in value, dtype and\n"
        "shape, at its own and at larger sizes of dynamic dimensions; a rewrite must fire\n"
        "on its graph and compute what the graph did, also for infinities and NaN.",
        epilog="examples:\n"
        "  ortable specs test my_ops.yaml --import my_library\n"
        "  ortable specs test my_ops.yaml --lowering my_norm=my_library.onnx:norm -k double\n"
        "  ortable specs test squares.yaml        (a file of rewrites)",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    test.add_argument("file", help="a YAML file of entries, or of rewrites")
    lowering_help = "a function that the file uses in python:, by its name there"
    _add_import_arguments(test, "NAME=module:function", lowering_help)
    test.add_argument(
        "--opset",
        dest="opsets",
        metavar="N",
        type=int,
        action="append",
        help="opsets to convert entries to (default: the lowest and the highest)",
    )
    test.add_argument("-k", dest="only", metavar="TEXT", default="", help="only matching entries")
    test.set_defaults(run=_run_test)


def _add_import_arguments(command: Any, metavar: str, help_text: str) -> None:
    """Add ``--import`` and ``--lowering``; both may be given several times."""
    append: Any = {"action": "append", "default": []}
    import_text = "import this first: it registers the operators with torch.library"
    command.add_argument("--import", dest="imports", metavar="MODULE", help=import_text, **append)
    command.add_argument("--lowering", dest="lowerings", metavar=metavar, help=help_text, **append)


def _import_modules(modules: list[str]) -> None:
    sys.path.insert(0, "")  # find modules of the current folder, as `python -m` does
    for module in modules:
        importlib.import_module(module)


def _run_check(args: argparse.Namespace) -> int:
    from ortable.interpreter.user_specs import check_spec_file
    from ortable.testing.user_file import is_file_of_rewrites

    from .rewrites import check_rules

    _import_modules(args.imports)
    try:
        if is_file_of_rewrites(args.file):
            return check_rules(args.file)
        operators = check_spec_file(args.file, frozenset(args.lowerings))
    except SpecError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{args.file}: {len(operators)} operators, no error")
    return 0


def _run_test(args: argparse.Namespace) -> int:
    from ortable.testing.user_file import run_spec_file
    from ortablegen.schemas.onnx import CEILING, FLOOR

    _import_modules(args.imports)
    lowerings = dict(_parse_lowering(text) for text in args.lowerings)
    opsets = args.opsets or [FLOOR, CEILING]
    for opset in opsets:
        if not FLOOR <= opset <= CEILING:
            raise OptionError(f"--opset {opset}: opsets {FLOOR} to {CEILING} are supported")
    equal_count = expected_count = failed_count = 0
    try:
        for result in run_spec_file(args.file, lowerings=lowerings, opsets=opsets, only=args.only):
            location = f"{args.file}:{result.line}:{result.column}"
            if result.failure:
                failed_count += 1
                print(f"{location:24} {result.entry:40} FAILED")
                print(
                    "\n".join(f"    {failure_line}" for failure_line in result.failure.splitlines())
                )
            else:
                is_equal = result.outcome == "equal"
                equal_count += is_equal
                expected_count += not is_equal  # refused or unchanged
                outcome = "ok" if is_equal else f"{result.outcome}, as expected"
                print(f"{location:24} {result.entry:40} {outcome}, {result.runs} conversions")
    except SpecError as error:
        print(error, file=sys.stderr)
        return 1
    if not equal_count + expected_count + failed_count:
        print(f"{args.file}: no sample" + (f" of an entry with '{args.only}'" if args.only else ""))
        return 1
    expected_note = f", {expected_count} refused or unchanged as expected" if expected_count else ""
    print(f"{args.file}: {equal_count} samples equal{expected_note}, {failed_count} failed")
    return 1 if failed_count else 0


def _parse_lowering(text: str) -> tuple[str, Callable[..., Any]]:
    """Parse ``NAME=module:function``; return the name and the imported function."""
    name, _, target = text.partition("=")
    module, _, function = target.partition(":")
    if not (name and module and function):
        raise OptionError(f"--lowering {text}: write it as NAME=module:function")
    try:
        value = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise OptionError(f"--lowering {text}: {error}") from error
    if not callable(value):
        raise OptionError(f"--lowering {text}: {target} is not a function")
    return name, value
