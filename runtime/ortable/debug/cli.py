"""The shell command `ortable`: show, draw, ops, export, specs check.
Errors of ours are printed without a traceback and end with status 1."""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ortable.errors import ExportError, OrtableError

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit status."""
    args = _parser().parse_args(argv)
    try:
        return int(args.run(args) or 0)
    except (OrtableError, FileNotFoundError) as exc:
        print(f"error: {exc}", file=sys.stderr)
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

    export = commands.add_parser(
        "export",
        help="export a model and compare it with eager",
        description="TARGET is module:callable; the callable returns (model, args) or "
        "(model, args, kwargs).",
    )
    export.add_argument("target", metavar="module:callable")
    export.add_argument("-o", "--output", required=True, help="path of the ONNX model")
    export.add_argument("--opset", type=int, default=None)
    export.add_argument("--no-validate", action="store_true", help="do not run the model")
    export.add_argument("--atol", type=float, default=1e-4, help="largest difference accepted")
    export.set_defaults(run=_export)

    specs = commands.add_parser("specs", help="work with spec files")
    actions = specs.add_subparsers(dest="action", required=True, metavar="action")
    check = actions.add_parser("check", help="check a spec file as codegen does")
    check.add_argument("file")
    check.add_argument(
        "--import",
        dest="imports",
        metavar="MODULE",
        action="append",
        default=[],
        help="import this first: it registers the operators with torch.library",
    )
    check.add_argument(
        "--lowering",
        dest="lowerings",
        metavar="NAME",
        action="append",
        default=[],
        help="a function that load_specs will be given, for python:",
    )
    check.set_defaults(run=_specs_check)
    return parser


def _show(args: argparse.Namespace) -> int:
    from .text import pretty_onnx

    print(pretty_onnx(_existing(args.model), shorten=not args.full))
    return 0


def _draw(args: argparse.Namespace) -> int:
    from .plot import draw_onnx, to_dot

    output = Path(args.output)
    model = _existing(args.model)
    if output.suffix == ".dot":
        output.write_text(to_dot(model, rankdir=args.rankdir))
    else:
        output.write_bytes(draw_onnx(model, output.suffix[1:] or "svg", rankdir=args.rankdir))
    print(f"wrote {output}")
    return 0


def _ops(args: argparse.Namespace) -> int:
    from ortable_generated.aten import dispatch

    if args.missing:
        return _missing(_existing(args.missing), dispatch.CONVERTERS)
    _print_coverage(args.grep)
    return 0


def _print_coverage(text: str) -> None:
    """The table of docs/operators.md, one line an operator; loaded specs have a name only."""
    from ortable_generated.aten import dispatch
    from ortable_generated.coverage import COVERAGE

    rows = [row for row in COVERAGE if text in row[0]]
    heads = ("operator", "opsets", "dtypes", "dynamic", "cases", "escape", "forward", "gradient")
    line = "{:46} {:9} {:32} {:7} {:6} {:28} {:>9} {:>9}"
    print(line.format(*heads))
    for name, _, means, opsets, kinds, dynamic, cases, refused, _, escape, *measured in rows:
        numbers = f"{cases}" + (f" - {refused}" if refused else "")
        how = f"= {means}" if means else escape
        cells = (name, opsets, kinds, "yes" if dynamic else "", numbers, how, *measured)
        print(line.format(*cells).rstrip())
        if name in dispatch.PLACE:
            print(f"    in torch, between sessions: {dispatch.PLACE[name]}")
    known = {row[0] for row in COVERAGE}
    loaded = sorted(n for n in dispatch.CONVERTERS if n not in known and text in n)
    for name in loaded:
        print(f"{name:46} {dispatch.SPEC_FILES.get(name, '')}")
    print(f"{len(rows) + len(loaded)} operators")


def _missing(path: str, converters: Any) -> int:
    """Operators of a saved ExportedProgram without a converter; status 1 when there are some."""
    import torch

    program = torch.export.load(path)
    counts: dict[str, int] = {}
    for node in program.graph.nodes:
        if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
            continue
        if not isinstance(node.meta.get("val"), torch.SymInt | int):
            name = node.target.name()
            counts[name] = counts.get(name, 0) + 1
    missing = {name: n for name, n in counts.items() if name not in converters}
    for name, number in sorted(missing.items()):
        print(f"{name:50} {number} call{'s' if number > 1 else ''}")
    print(f"{len(missing)} of {len(counts)} operators have no converter")
    return 1 if missing else 0


def _export(args: argparse.Namespace) -> int:
    import torch

    import ortable

    model, inputs, kwargs = _load_target(args.target)
    steps = ["export", "save"] + ([] if args.no_validate else ["validate"])
    progress = _Progress(steps)
    options = {} if args.opset is None else {"target_opset": args.opset}
    with torch.no_grad():
        proto = ortable.to_onnx(model, inputs, kwargs, **options)
    progress.done("export")
    Path(args.output).write_bytes(proto.SerializeToString())
    progress.done("save")
    difference = None
    if not args.no_validate:
        difference = _largest_difference(model, inputs, kwargs, args.output)
        progress.done("validate")
    opset = proto.opset_import[0].version
    print(f"wrote {args.output}: {len(proto.graph.node)} nodes, opset {opset}")
    if difference is not None:
        print(f"largest difference with eager: {difference:.3g}")
        if not difference <= args.atol:
            raise ExportError(
                f"The exported model differs from eager by {difference:.3g}, more than "
                f"{args.atol}: raise --atol if that is acceptable, or find the node with the "
                "debug backend."
            )
    return 0


def _largest_difference(model: Any, args: tuple[Any, ...], kwargs: Any, path: str) -> float:
    """Largest absolute difference between eager and ONNX Runtime over all outputs."""
    import onnxruntime
    import torch
    from torch.utils import _pytree as pytree

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    with torch.no_grad():
        expected = pytree.tree_leaves(model(*args, **(kwargs or {})))
    leaves = [t for t in pytree.tree_leaves((args, kwargs or {})) if isinstance(t, torch.Tensor)]
    names = [value.name for value in session.get_inputs()]
    if len(names) != len(leaves):
        raise ExportError(
            f"The model has {len(names)} inputs and the example {len(leaves)} tensors; "
            "validate it by hand, or use --no-validate."
        )
    feeds = {n: t.detach().contiguous().numpy() for n, t in zip(names, leaves, strict=True)}
    worst = 0.0
    got = session.run(None, feeds)
    for value, reference in zip(got, [e for e in expected if e is not None], strict=True):
        actual, wanted = torch.as_tensor(value), torch.as_tensor(reference)
        if actual.shape != wanted.shape or actual.dtype != wanted.dtype:
            return float("inf")
        if actual.numel():
            worst = max(worst, float((actual.double() - wanted.double()).abs().max()))
    return worst


class _Progress:
    """One line that fills up on a terminal; one line per step elsewhere."""

    def __init__(self, steps: Sequence[str]) -> None:
        self.steps = list(steps)
        self.begin = time.perf_counter()
        self.terminal = sys.stderr.isatty()

    def done(self, step: str) -> None:
        number = self.steps.index(step) + 1
        seconds = time.perf_counter() - self.begin
        width = 24 * number // len(self.steps)
        line = f"[{'#' * width:<24}] {number}/{len(self.steps)} {step} {seconds:.2f} s"
        last = number == len(self.steps)
        print(line, end="\r" if self.terminal and not last else "\n", file=sys.stderr, flush=True)


def _load_target(target: str) -> tuple[Any, tuple[Any, ...], Any]:
    """The model and its example arguments, from what `module:callable` returns."""
    module_name, _, name = target.partition(":")
    if not name:
        raise ExportError(
            f"{target!r} is not module:callable, for instance my_package.models:tiny."
        )
    sys.path.insert(0, "")
    try:
        module = importlib.import_module(module_name)
    except ImportError as exc:
        raise ExportError(f"Cannot import {module_name!r}: {exc}") from exc
    factory = getattr(module, name, None)
    if not callable(factory):
        raise ExportError(f"Module {module_name!r} has no callable {name!r}.")
    found = factory()
    if not isinstance(found, tuple) or len(found) not in (2, 3) or not isinstance(found[1], tuple):
        raise ExportError(
            f"{target} must return (model, args) or (model, args, kwargs), args being a tuple; it "
            f"returned a {type(found).__name__}."
        )
    model, args = found[:2]
    return model, args, found[2] if len(found) == 3 else None


def _specs_check(args: argparse.Namespace) -> int:
    from ortable.errors import SpecError
    from ortable.specs import check_spec_file

    sys.path.insert(0, "")  # modules of the current folder, as for `python -m`
    for module in args.imports:
        importlib.import_module(module)
    try:
        operators = check_spec_file(args.file, frozenset(args.lowerings))
    except SpecError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{args.file}: {len(operators)} operators, no error")
    return 0


def _existing(path: str) -> str:
    if not Path(path).exists():
        raise FileNotFoundError(f"no file {path!r}")
    return path


if __name__ == "__main__":
    sys.exit(main())
