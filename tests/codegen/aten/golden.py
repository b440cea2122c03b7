"""The front end of specs/aten for golden files: a YAML file comes in, the errors or the Python that
codegen makes of it go out. Called by tests/codegen/golden.py."""

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
    """How kernels compute matters to the files that are about it."""
    return NUMBERS if file.startswith("precision") else None


def errors_of(text: str, file: str) -> str:
    """What codegen prints for a wrong spec of a file of that name."""
    diagnostics = Diagnostics()
    specs = read_text(text, file, diagnostics, registry=RECORD)
    check_specs(specs, diagnostics, kernels=KERNELS, numbers=_numbers(file))
    return diagnostics.render() + "\n" if diagnostics.errors else ""


def python_of(path: Path) -> str:
    """What codegen emits for a good spec: its family module, or the tables of traits, or the
    dispatch rows, of a table without one too."""
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
