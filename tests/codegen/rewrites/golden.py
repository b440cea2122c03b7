"""Run codegen on a file of specs/rewrites for the golden files of ``tests/codegen/golden.py``."""

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


def collect_errors(text: str, file: str) -> str:
    """Return the errors that codegen prints for an invalid rewrite in ``file``."""
    diagnostics = Diagnostics()
    rewrites = read_rewrites_text(text, file, diagnostics, BY_TRAIT)
    numbers = NUMBERS if file.startswith("precision") else None
    check_rewrites(rewrites, diagnostics, numbers)
    return diagnostics.render() + "\n" if diagnostics.errors else ""


def generate_python(path: Path) -> str:
    """Return the Python that codegen emits for a valid file."""
    diagnostics = Diagnostics()
    rewrites = read_rewrites_text(path.read_text(), path.name, diagnostics, BY_TRAIT)
    check_rewrites(rewrites, diagnostics)
    diagnostics.raise_if_any()
    return rewrites_text(rewrites, path.name)
