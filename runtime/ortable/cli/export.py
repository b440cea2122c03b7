"""The shell command `ortable export`: a model from Python, or a saved ExportedProgram, becomes an
ONNX file that has been compared with eager."""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from ortable.errors import ExportError

from .rewrites import ERRORS_INTO_A_FILE, add_choice, chosen_names

__all__ = ["add_export"]

DESCRIPTION = (
    "TARGET is module:callable, whose callable returns (model, args), (model, args, kwargs) or "
    "(model, args, kwargs, dynamic_shapes); or a file MODEL.pt2 of torch.export.save."
)


def add_export(commands: Any) -> None:
    """Adds the command to the subparsers of argparse."""
    export = commands.add_parser(
        "export", help="export a model and compare it with eager", description=DESCRIPTION
    )
    export.add_argument("target", metavar="TARGET")
    export.add_argument("-o", "--output", required=True, help="path of the ONNX model")
    export.add_argument("--opset", type=int, default=None)
    export.add_argument("--target", dest="runtime", choices=["onnxruntime"], default=None)
    export.add_argument("--large", action="store_true", help="weights in a file beside the model")
    export.add_argument("--functions", action="store_true", help="submodules as local functions")
    add_choice(export)
    export.add_argument("--no-optimize", action="store_true", help="leave out the graph passes")
    export.add_argument("--no-validate", action="store_true", help="do not run the model")
    export.add_argument("--atol", type=float, default=None, help="largest difference accepted")
    export.add_argument("--report", metavar="FILE.md", default=None, help="write a report there")
    export.add_argument(
        "--strict",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="let dynamo read the Python code, or run it; default: run it, read it if that fails",
    )
    export.add_argument("--fallback", action="store_true", help="try the documented strategies")
    export.add_argument("--tracing", action="store_true", help="follow branches on tensors")
    export.add_argument("--loops", action="store_true", help="one step of loops over sizes")
    export.add_argument("--bypass", action="store_true", help="work around known failures")
    export.add_argument("--verbose", action="store_true", help=ERRORS_INTO_A_FILE)
    export.set_defaults(run=_export)


def _export(args: argparse.Namespace) -> int:
    import ortable
    from ortable.debug.rewrites_text import fired_lines, summary
    from ortable.exporter.request.arguments import check_file

    check_file("filename", args.output)  # before the model is made
    check_file("report", args.report)
    model, inputs, kwargs, dynamic_shapes = load_target(args.target)
    steps = ["export", "decompose", "convert"] + ([] if args.no_optimize else ["rewrite"])
    if not hasattr(model, "forward"):
        steps.remove("export")
    steps += ["serialise"] + ([] if args.no_validate else ["validate"]) + ["write"]
    progress = Progress(steps)
    options = ortable.ExportOptions(
        strict=args.strict,
        fallback=args.fallback,
        tracing=args.tracing,
        loops=args.loops,
        progress=progress.done,
    )
    around = ortable.bypass_export_some_errors() if args.bypass else nullcontext()
    with around:
        made, builder = ortable.to_onnx(
            model,
            inputs,
            kwargs,
            dynamic_shapes=dynamic_shapes,
            target_opset=args.opset,
            target=args.runtime,
            optimize=not args.no_optimize,
            rewrites=chosen_names(args),
            large_model=args.large,
            export_modules_as_functions=args.functions,
            validate=False if args.no_validate else (True if args.atol is None else args.atol),
            filename=args.output,
            report=args.report,
            return_builder=True,
            export_options=options,
        )
    rewrites = builder.record.rewrites.counts()
    about = f"{len(builder.nodes)} nodes, opset {builder.opset}, {summary(rewrites)}"
    print(f"wrote {args.output}: {about}")
    for line in fired_lines(rewrites, getattr(made, "proto", made)):
        print(f"  {line}")
    return 0


class Progress:
    """One line that fills up on a terminal; one line per step elsewhere."""

    def __init__(self, steps: Sequence[str]) -> None:
        self.steps = list(steps)
        self.begin = time.perf_counter()
        self.terminal = sys.stderr.isatty()

    def done(self, step: str, _seconds: float = 0.0) -> None:
        """Say that a step has ended."""
        if step not in self.steps:
            return
        number = self.steps.index(step) + 1
        seconds = time.perf_counter() - self.begin
        width = 24 * number // len(self.steps)
        line = f"[{'#' * width:<24}] {number}/{len(self.steps)} {step:9} {seconds:.2f} s"
        last = number == len(self.steps)
        print(line, end="\r" if self.terminal and not last else "\n", file=sys.stderr, flush=True)


def load_target(target: str) -> tuple[Any, tuple[Any, ...], Any, Any]:
    """The model, its example arguments and its dynamic shapes: of a saved program, or from what
    ``module:callable`` returns.

    Raises ExportError when the target is neither, or returns something else.
    """
    if target.endswith(".pt2"):
        from ortable.exporter.capture.pt2 import opened

        return opened(target), (), None, None
    module_name, _, name = target.partition(":")
    if not name:
        raise ExportError(
            f"{target!r} is not module:callable, for instance my_package.models:tiny, nor a file "
            "MODEL.pt2."
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
    sizes = (2, 3, 4)
    if not isinstance(found, tuple) or len(found) not in sizes or not isinstance(found[1], tuple):
        raise ExportError(
            f"{target} must return (model, args), (model, args, kwargs) or (model, args, kwargs, "
            f"dynamic_shapes), args being a tuple; it returned a {type(found).__name__}."
        )
    model, args, kwargs, dynamic_shapes = (*found, None, None)[:4]
    return model, args, kwargs, dynamic_shapes
