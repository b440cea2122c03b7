"""Two calls of each command of the shell, which its --help ends with. Called by `main`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

EXAMPLES: dict[str, tuple[str, str]] = {
    "show": ("ortable show model.onnx", "ortable show model.onnx --full | less"),
    "draw": (
        "ortable draw model.onnx -o model.html",
        "ortable draw model.onnx -o layer.svg --module encoder.layer.0",
    ),
    "ops": ("ortable ops --grep conv", "ortable ops --missing model.pt2"),
    "export": (
        "ortable export my_models:bert -o bert.onnx",
        "ortable export model.pt2 -o model.onnx --opset 20 --report report.md",
    ),
    "explain": ("ortable explain my_models:bert", "ortable explain my_models:bert --train --json"),
    "profile": (
        "ortable profile my_models:bert --html bert.html",
        "ortable profile model.onnx --size batch=8 --json profile.json",
    ),
    "bench": ("ortable bench my_models:bert", "ortable bench my_models:bert --rounds 50"),
    "tune": (
        "ortable tune my_models:bert",
        "ortable tune my_models:bert --seconds 60 --cache-dir cache",
    ),
    "debug": (
        "ortable debug my_models:bert --train",
        "ortable debug my_models:bert --options freeze=off --script fault.py",
    ),
    "rewrites": ("ortable rewrites list --grep gelu", "ortable rewrites show cast_same"),
    "specs": ("ortable specs check my_ops.yaml", "ortable specs test my_ops.yaml"),
}


def add_examples(commands: Mapping[str, argparse.ArgumentParser]) -> None:
    """Put the examples under the help of the commands."""
    for name, calls in EXAMPLES.items():
        command = commands[name]
        command.formatter_class = argparse.RawDescriptionHelpFormatter
        before = f"{command.epilog}\n\n" if command.epilog else ""
        command.epilog = f"{before}examples:\n  {calls[0]}\n  {calls[1]}"
