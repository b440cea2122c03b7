"""The front end of specs/onnx for golden files: a YAML file comes in, the errors or the Python that
codegen makes of it go out. Called by tests/codegen/golden.py."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from ortablegen.onnx.emit import emit_onnx_rules
from ortablegen.onnx.read import load_onnx_rules
from ortablegen.source.diagnostics import Diagnostics

HERE = Path(__file__).parent


def errors_of(text: str, file: str) -> str:
    """What codegen prints for a wrong spec of a file of that name."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / file).write_text(text)
        diagnostics = Diagnostics()
        load_onnx_rules(Path(folder), diagnostics)
    return diagnostics.render() + "\n"


def python_of(path: Path) -> str:
    """The generated files of a good spec, as one text; the module of traits where it has some."""
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
