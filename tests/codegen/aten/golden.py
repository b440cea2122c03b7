"""Run codegen on a file of specs/aten for the golden files of ``tests/codegen/golden.py``."""

from __future__ import annotations

from pathlib import Path

from ortable_generated.kernels import KERNELS_CPU, WIDER
from ortable_generated.onnx.traits import DTYPE_SENSITIVE
from ortablegen.aten.check import check_specs
from ortablegen.aten.emit import emit_aten
from ortablegen.aten.read import read_text
from ortablegen.language.precision import NumberTable, read_numbers
from ortablegen.language.served import Kernels
from ortablegen.schemas.record import PLACE, read_record
from ortablegen.source.diagnostics import Diagnostics

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
RECORD = read_record(ROOT / PLACE)
KERNELS = Kernels(KERNELS_CPU, WIDER, DTYPE_SENSITIVE)
NUMBERS = read_numbers(ROOT / "specs" / "runtime" / "kernels_cpu.yaml")


def _numbers(file: str) -> NumberTable | None:
    """Return the precision of kernels for the golden files that test it, and None for others."""
    return NUMBERS if file.startswith("precision") else None


def collect_errors(text: str, file: str) -> str:
    """Return the errors that codegen prints for an invalid spec in ``file``."""
    diagnostics = Diagnostics()
    specs = read_text(text, file, diagnostics, registry=RECORD)
    check_specs(specs, diagnostics, kernels=KERNELS, numbers=_numbers(file))
    return diagnostics.render() + "\n" if diagnostics.errors else ""


def generate_python(path: Path) -> str:
    """Return the Python that codegen emits for a valid spec.

    This is the module of its family if it has one, the traits or the dispatch table otherwise.
    """
    diagnostics = Diagnostics()
    specs = read_text(path.read_text(), path.name, diagnostics, registry=RECORD)
    check_specs(specs, diagnostics, kernels=KERNELS, numbers=_numbers(path.name))
    diagnostics.raise_if_any()
    files = emit_aten(specs)
    family = f"ortable_generated/aten/{path.stem}.py"
    if path.stem == "trait_tables":
        family = "ortable_generated/aten/traits.py"
    if path.stem == "torch_dispatch":
        family = "ortable_generated/aten/dispatch.py"
    return files.get(family, files["ortable_generated/aten/dispatch.py"])
