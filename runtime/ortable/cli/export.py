"""The command `ortable export`: write an ONNX file, or the folder of a language model.

The command loads the model from Python code, a saved ExportedProgram or transformers, compares the
ONNX model with eager, and prints a report as text or JSON.
"""

from __future__ import annotations

import argparse
import inspect
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from ortable.errors import OptionError

from .arguments import JSON_HELP, add_flags, add_target, keep_stdout_for_json
from .hugging_face import TEXT_GENERATION
from .model_call import Target
from .progress import show_progress
from .rewrites import VERBOSE_HELP, add_rewrites_option, parse_rewrites_option
from .target import load_target

ROUNDED_WEIGHTS = ("int8", "int4", "float16", "int8+float16", "int4+float16")

_PROMPT_TOKENS = 5  # tokens that eager reads in one call, and the exported graph in two
# Flags for which export_language_model has no argument, and their default values.
_UNSUPPORTED_FLAGS: dict[str, Any] = {
    "large": False,
    "functions": False,
    "report": None,
    "no_optimize": False,
    "rewrites": "default",
    "bypass": False,
    "max_error": None,
}


def export_text_generation(
    args: argparse.Namespace, target: Target, export_options: Any
) -> dict[str, Any]:
    """Write the folder of a language model and, without --no-validate, compare logits with eager.

    Returns:
        What --json prints, and the lines to print otherwise as the entry `text`.

    Raises:
        OptionError: a flag does not apply to language models.
    """
    import ortable

    _check_flags(args, target)
    folder = Path(args.output)
    exported = ortable.export_language_model(
        target.model,
        folder,
        loop=args.loop,
        weights=args.weights,
        cache=args.cache,
        tokenizer=target.tokenizer,
        target_opset=args.opset,
        export_options=export_options,
        validate=select_validation(args),
    )
    facts = {
        "model": str(folder),
        "files": file_sizes(sorted(folder.iterdir())),
        **_graph_facts(folder / "model.onnx"),
        "largest_difference": None
        if args.no_validate
        else _max_logits_difference(target.model, exported),
    }
    return {**facts, "text": _format_lines(args, facts)}


def _check_flags(args: argparse.Namespace, target: Target) -> None:
    name = type(target.model).__name__
    if args.output.endswith(".onnx"):
        folder = args.output.removesuffix(".onnx")
        raise OptionError(
            f"{name} generates text, which is a folder of files: -o {folder}. One call "
            "without a cache: write a function that returns (model, args)"
        )
    if args.inputs:
        raise OptionError(f"{name} generates text, its inputs are known: leave out --inputs")
    for flag, default in _UNSUPPORTED_FLAGS.items():
        if getattr(args, flag) != default:
            dashed = flag.replace("_", "-")
            raise OptionError(f"--{dashed} does not go with {name}, which generates text")


def select_validation(args: argparse.Namespace) -> bool | float:
    """Return the argument `validate`: whether to compare with eager, or the value of --atol.

    A model with rounded weights is compared only if --atol is given.
    """
    if args.no_validate or (args.weights in ROUNDED_WEIGHTS and args.atol is None):
        return False
    return True if args.atol is None else args.atol


def _graph_facts(path: Path) -> dict[str, Any]:
    import onnx

    from ortable.exporter.reporting.report import graph_facts

    return graph_facts(onnx.load(path, load_external_data=False))


def _max_logits_difference(model: Any, exported: Any) -> float:
    """Compute the largest absolute difference between the last logits of eager and of the graph.

    The graph runs twice: on all tokens but the last, then on the last one with the cache.
    """
    import torch

    vocab_size = int(model.config.get_text_config().vocab_size)
    generator = torch.Generator().manual_seed(0)
    # most special tokens have ids below 20, in most vocabularies
    token_ids = torch.randint(
        min(20, vocab_size // 2), vocab_size, (1, _PROMPT_TOKENS), generator=generator
    )
    with torch.no_grad():
        expected = model(input_ids=token_ids).logits.float()
    prompt_logits, cache = exported.step(token_ids[:, :-1], torch.ones(1, _PROMPT_TOKENS - 1))
    last_logits, _ = exported.step(token_ids[:, -1:], torch.ones(1, _PROMPT_TOKENS), cache)
    actual = torch.stack([prompt_logits[:, -1], last_logits[:, -1]], 1).float()
    return float((actual - expected[:, -2:]).abs().max())


def _format_lines(args: argparse.Namespace, facts: dict[str, Any]) -> list[str]:
    lines = [f"wrote {args.output}: {facts['nodes']} nodes, opset {facts['opset']}"]
    width = max(len(Path(name).name) for name in facts["files"])
    lines += [
        f"  {Path(name).name:{width}}  {_format_size(size)}"
        for name, size in facts["files"].items()
    ]
    if facts["largest_difference"] is not None:
        quantization = [
            f"--{n} {getattr(args, n)}" for n in ("weights", "cache") if getattr(args, n)
        ]
        suffix = f", with {' and '.join(quantization)}" if quantization else ""
        difference = facts["largest_difference"]
        lines.append(f"  logits differ from PyTorch by at most {difference:.3g}{suffix}")
    return lines


def _format_size(size: int) -> str:
    for unit, unit_bytes in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if size >= unit_bytes:
            return f"{size / unit_bytes:.1f} {unit}"
    return f"{size} bytes"


def make_report(model: Any, builder: Any, output: str) -> dict[str, Any]:
    """Make the report of an exported model: what --json prints, and `text`, the lines to print.

    Args:
        model: a ModelProto or LargeModel.
        builder: the builder that to_onnx returns with the model.
        output: the path that the model was written to.
    """
    from ortable.debug.explain_records import fired_lines, rewrite_summary
    from ortable.exporter.reporting.report import export_facts

    record = builder.record
    facts = export_facts(record, model)
    rewrites = facts["rewrites"]
    summary = f"{facts['nodes']} nodes, opset {facts['opset']}, {rewrite_summary(rewrites)}"
    rule_lines = fired_lines(rewrites, getattr(model, "proto", model))
    lines = [f"wrote {output}: {summary}", *(f"  {line}" for line in rule_lines)]
    if record.weights is not None:
        lines += [f"  {line}".rstrip() for line in str(record.weights).splitlines()]
    files = file_sizes([output, f"{output}.data"])
    return {"model": output, "files": files, **facts, "text": lines}


def file_sizes(paths: Sequence[str | Path]) -> dict[str, int]:
    """Return the size in bytes of each file that exists."""
    return {str(path): Path(path).stat().st_size for path in paths if Path(path).is_file()}


def add_export(commands: Any) -> None:
    """Add `export` to the subparsers of argparse."""
    export = commands.add_parser(
        "export", help="a model as an ONNX file, compared with the model in PyTorch"
    )
    add_target(export, "or a file MODEL.pt2 of torch.export.save")
    export.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="PATH",
        help="the ONNX file to write; for text-generation, the folder",
    )
    add_flags(export, dynamic="every size is free; of models of transformers, batch and length")
    export.add_argument("--opset", type=int, metavar="N", help="opset of ONNX to write")
    export.add_argument(
        "--target",
        dest="runtime",
        choices=["onnxruntime"],
        help="the model may use operators that only ONNX Runtime has",
    )
    export.add_argument(
        "--weights", choices=[*ROUNDED_WEIGHTS, "keep", "float32"], help="how weights are stored"
    )
    export.add_argument(
        "--max-error",
        type=float,
        metavar="X",
        help="with --weights of these kinds: how far results may be off, 0.01 is a hundredth",
    )
    add_flags(
        export,
        large="weights in a file beside the model",
        functions="submodules as local functions",
    )
    add_rewrites_option(export)
    add_flags(export, no_optimize="leave out the graph passes", no_validate="do not run the model")
    export.add_argument("--atol", type=float, metavar="X", help="largest difference accepted")
    export.add_argument("--report", metavar="FILE.md", help="write a report there")
    add_flags(export, json=JSON_HELP, verbose=VERBOSE_HELP)
    _add_text_generation(export)
    _add_capture_options(export)
    export.set_defaults(run=_run_export)


def _add_text_generation(export: Any) -> None:
    group = export.add_argument_group("models that generate text")
    group.add_argument("--cache", choices=["int8"], help="keys and values as codes of 8 bits")
    group.add_argument(
        "--loop", choices=["greedy", "sample"], help="also write all steps as one graph"
    )


def _add_capture_options(export: Any) -> None:
    export = export.add_argument_group("how torch makes the graph, and what to try where it cannot")
    export.add_argument(
        "--strict",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="let dynamo read the Python code, or run it; default: run it, read it if that fails",
    )
    add_flags(
        export,
        fallback="try the documented strategies",
        tracing="capture both sides of branches on tensors",
        loops="one step of loops over sizes",
        bypass="work around known failures",
    )


def _run_export(args: argparse.Namespace) -> int:
    from ortable.exporter.arguments import check_file

    # a target without a colon may be a language model, whose output is a folder
    if args.output.endswith(".onnx") or ":" in args.target:
        check_file("filename", args.output)  # fail before the model is loaded
    check_file("report", args.report)
    _check_not_source(args.target, args.output)
    with keep_stdout_for_json(args.json):
        with show_progress("loading"):
            target = load_target(args.target, args.inputs, args.task, args.config)
        facts = _write_export(args, target)
    lines = facts.pop("text")
    print(json.dumps(facts, indent=2) if args.json else "\n".join(lines))
    return 0


def _check_not_source(target: str, output: str) -> None:
    """Raise OptionError if the output would overwrite the file of the target."""
    source = Path(target.rpartition(":")[0] or target)
    if source.is_file() and Path(output).is_file() and source.samefile(output):
        raise OptionError(f"{output!r} is the file of the model itself: give another file with -o")


def _write_export(args: argparse.Namespace, target: Target) -> dict[str, Any]:
    if target.task != TEXT_GENERATION:
        for name in ("cache", "loop"):
            if getattr(args, name):
                raise OptionError(f"--{name} is for models of transformers that generate text")
        return _to_onnx(args, target)
    with show_progress("export") as step:
        options = _make_export_options(args, lambda phase, _: step(phase))
        return export_text_generation(args, target, options)


def _to_onnx(args: argparse.Namespace, target: Target) -> dict[str, Any]:
    import ortable

    is_transformers = target.free is not None or bool(target.task)
    bypass = (
        ortable.bypass_export_some_errors() if args.bypass or is_transformers else nullcontext()
    )
    with _report_phases(args, target) as end_phase, bypass:
        model, builder = ortable.to_onnx(
            target.model,
            target.args,
            dict(target.kwargs),
            dynamic_shapes=_dynamic_shapes(args, target),
            output_names="auto" if is_transformers else None,
            target_opset=args.opset,
            target=args.runtime,
            optimize=not args.no_optimize,
            rewrites=parse_rewrites_option(args),
            weights=args.weights,
            large_model=args.large,
            export_modules_as_functions=args.functions,
            max_error=args.max_error,
            validate=select_validation(args),
            filename=args.output,
            report=args.report,
            return_builder=True,
            export_options=_make_export_options(args, end_phase),
        )
    report = make_report(model, builder, args.output)
    if target.free is not None and not args.dynamic:
        shapes = ", ".join(f"{item['name']} {item['shape']}" for item in report["inputs"])
        report["text"].append(f"  sizes are fixed: {shapes}; --dynamic frees them")
    return report


@contextmanager
def _report_phases(
    args: argparse.Namespace, target: Target
) -> Iterator[Callable[[str, float], None]]:
    """Show a progress bar whose steps are the phases of to_onnx, in the order in which they end.

    Yields a function to call at the end of a phase.
    """
    steps = ["export", "decompose", "convert"] + ([] if args.no_optimize else ["rewrite"])
    if not hasattr(target.model, "forward"):
        steps.remove("export")
    steps += ["round weights"] if args.weights in ROUNDED_WEIGHTS else []
    steps += ["serialise"] + (["validate"] if select_validation(args) else []) + ["write"]
    with show_progress(steps[0], len(steps)) as step:

        def end_phase(phase: str, _seconds: float) -> None:
            if phase in steps:  # the label is the next phase; the last phase keeps its label
                step(([*steps, phase])[steps.index(phase) + 1])

        yield end_phase


def _make_export_options(args: argparse.Namespace, end_phase: Callable[[str, float], None]) -> Any:
    from ortable import ExportOptions

    return ExportOptions(
        strict=args.strict,
        fallback=args.fallback,
        tracing=args.tracing,
        loops=args.loops,
        progress=end_phase,
    )


# -- sizes


def _dynamic_shapes(args: argparse.Namespace, target: Target) -> Any:
    if not args.dynamic or target.dynamic_shapes is not None:
        return target.dynamic_shapes
    return target.free if target.free is not None else _make_auto_shapes(target)


def _make_auto_shapes(target: Target) -> Any:
    """Make dynamic shapes of `Dim.AUTO`, with which torch.export decides which sizes are dynamic.

    For a call `forward(x)` with a matrix: ``{"x": {0: Dim.AUTO, 1: Dim.AUTO}}``.
    """
    if not hasattr(target.model, "forward"):
        raise OptionError("a saved program has its dynamic sizes already: leave out --dynamic")
    signature = inspect.signature(target.model.forward)
    bound = signature.bind(*target.args, **target.kwargs)
    shapes: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            shapes.update({key: _make_auto_dims(item) for key, item in value.items()})
        else:
            shapes[name] = _make_auto_dims(value)
    return shapes


def _make_auto_dims(value: Any) -> Any:
    import torch

    from ortable.compat.torch import pytree

    def mark_dims(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return None
        return dict.fromkeys(range(leaf.dim()), torch.export.Dim.AUTO)

    return pytree.tree_map(mark_dims, value)
