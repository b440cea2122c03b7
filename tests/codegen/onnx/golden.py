"""Run codegen on a file of specs/onnx for the golden files of ``tests/codegen/golden.py``."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from ortablegen.onnx.emit import emit_onnx_rules
from ortablegen.onnx.read import load_onnx_rules
from ortablegen.source.diagnostics import Diagnostics

HERE = Path(__file__).parent


def collect_errors(text: str, file: str) -> str:
    """Return the errors that codegen prints for an invalid spec in ``file``."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / file).write_text(text)
        diagnostics = Diagnostics()
        load_onnx_rules(Path(folder), diagnostics)
    return diagnostics.render() + "\n"


def generate_python(path: Path) -> str:
    """Return the files generated from a valid spec as one text, with traits if it declares any."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(path, folder)
        diagnostics = Diagnostics()
        model = load_onnx_rules(Path(folder), diagnostics)
        files = emit_onnx_rules(model)
    diagnostics.raise_if_any()
    if not any(entry.traits for entry in model.entries):
        del files["ortable_generated/onnx/traits.py"]
    return "".join(
        f"#### {name}\n{text}" for name, text in sorted(files.items()) if "__init__" not in name
    )
