"""The front end of specs/rewrites for golden files: a YAML file comes in, the errors or the Python
that codegen makes of it go out. Called by tests/codegen/golden.py."""

from __future__ import annotations

from pathlib import Path

from ortable_generated.onnx.traits import BY_TRAIT
from ortablegen.language.precision import read_numbers
from ortablegen.rewrites.check import check_rewrites
from ortablegen.rewrites.emit import rewrites_text
from ortablegen.rewrites.read import read_rewrites_text
from ortablegen.source.diagnostics import Diagnostics

HERE = Path(__file__).parent
NUMBERS = read_numbers(HERE.parents[2] / "specs" / "runtime" / "kernels_cpu.yaml")


def errors_of(text: str, file: str) -> str:
    """What codegen prints for a wrong file of that name."""
    diagnostics = Diagnostics()
    rewrites = read_rewrites_text(text, file, diagnostics, BY_TRAIT)
    numbers = NUMBERS if file.startswith("precision") else None
    check_rewrites(rewrites, diagnostics, numbers)
    return diagnostics.render() + "\n" if diagnostics.errors else ""


def python_of(path: Path) -> str:
    """What codegen emits for a good file."""
    diagnostics = Diagnostics()
    rewrites = read_rewrites_text(path.read_text(), path.name, diagnostics, BY_TRAIT)
    check_rewrites(rewrites, diagnostics)
    diagnostics.raise_if_any()
    return rewrites_text(rewrites, path.name)
