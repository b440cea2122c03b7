"""`ortable export` of a model of transformers that generates text: a folder with a graph for each
step of a text. In come the arguments of the command and the model, out goes what to print. Called
by `export`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ortable.errors import OptionError

from .export_report import file_sizes
from .model_call import Target

ROUNDED = ("int8", "int4")

_PROMPT = 5  # tokens of the text that is compared with eager, the last of them after the others
# Flags of the command that export_language_model has no argument for, and their value when unused.
_NOT_HERE: dict[str, Any] = {
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
    """Writes the folder, and compares it with eager on a prompt and the token after it.

    Raises OptionError for a flag that means nothing here, and what export_language_model raises.
    """
    import ortable

    _check(args, target)
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
        validate=compared(args),
    )
    found = {
        "model": str(folder),
        "files": file_sizes(sorted(folder.iterdir())),
        **_graph(folder / "model.onnx"),
        "largest_difference": None if args.no_validate else _difference(target.model, exported),
    }
    return {**found, "text": _lines(args, found)}


def _check(args: argparse.Namespace, target: Target) -> None:
    name = type(target.model).__name__
    if args.output.endswith(".onnx"):
        folder = args.output.removesuffix(".onnx")
        raise OptionError(
            f"{name} generates text, which is a folder of files: -o {folder}. One call "
            "without a cache: write a function that returns (model, args)"
        )
    if args.inputs:
        raise OptionError(f"{name} generates text, its inputs are known: leave out --inputs")
    for flag, unused in _NOT_HERE.items():
        if getattr(args, flag) != unused:
            shown = flag.replace("_", "-")
            raise OptionError(f"--{shown} does not go with {name}, which generates text")


def compared(args: argparse.Namespace) -> bool | float:
    """Rounded weights are compared where --atol says how far they may be off."""
    if args.no_validate or (args.weights in ROUNDED and args.atol is None):
        return False
    return True if args.atol is None else args.atol


def _graph(path: Path) -> dict[str, Any]:
    import onnx

    from ortable.exporter.account.report import facts_of_graph

    return facts_of_graph(onnx.load(path, load_external_data=False))


def _difference(model: Any, exported: Any) -> float:
    """The largest difference between logits of eager and of the graph, which reads a prompt and
    then one more token."""
    import torch

    most = int(model.config.get_text_config().vocab_size)
    generator = torch.Generator().manual_seed(0)
    text = torch.randint(min(20, most // 2), most, (1, _PROMPT), generator=generator)
    with torch.no_grad():
        expected = model(input_ids=text).logits.float()
    first, cache = exported.step(text[:, :-1], torch.ones(1, _PROMPT - 1))
    last, _ = exported.step(text[:, -1:], torch.ones(1, _PROMPT), cache)
    got = torch.cat([torch.as_tensor(first), torch.as_tensor(last)], 1).float()
    return float((got - expected).abs().max())


def _lines(args: argparse.Namespace, found: dict[str, Any]) -> list[str]:
    lines = [f"wrote {args.output}: {found['nodes']} nodes, opset {found['opset']}"]
    width = max(len(Path(name).name) for name in found["files"])
    lines += [
        f"  {Path(name).name:{width}}  {_shown(size)}" for name, size in found["files"].items()
    ]
    if found["largest_difference"] is not None:
        rounded = [f"--{n} {getattr(args, n)}" for n in ("weights", "cache") if getattr(args, n)]
        why = f", with {' and '.join(rounded)}" if rounded else ""
        gap = found["largest_difference"]
        lines.append(f"  logits differ from PyTorch by at most {gap:.3g}{why}")
    return lines


def _shown(size: int) -> str:
    for unit, bytes_ in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if size >= bytes_:
            return f"{size / bytes_:.1f} {unit}"
    return f"{size} bytes"
