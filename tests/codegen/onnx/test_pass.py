"""Each feature of specs/onnx has a file, and the exact Python that codegen makes of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ortablegen.onnx.emit import emit_onnx_rules
from ortablegen.onnx.read import load_onnx_rules
from ortablegen.source.diagnostics import Diagnostics

from . import golden

_FOLDER = Path(__file__).parent / "pass"
_ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("path", sorted(_FOLDER.glob("*.yaml")), ids=lambda p: p.stem)
def test_feature_becomes_the_golden_python(path: Path) -> None:
    assert golden.python_of(path) == path.with_suffix(".out").read_text()


def test_generated_rules_are_fresh_and_deterministic() -> None:
    diagnostics = Diagnostics()
    model = load_onnx_rules(_ROOT / "specs" / "onnx", diagnostics)
    assert diagnostics.render() == ""
    files = emit_onnx_rules(model)
    assert files == emit_onnx_rules(model)
    stale = [n for n, text in files.items() if (_ROOT / "generated" / n).read_text() != text]
    assert stale == [], "run `make codegen`"


def test_generated_text_has_the_header_and_no_long_names_of_machines() -> None:
    files = emit_onnx_rules(load_onnx_rules(_ROOT / "specs" / "onnx", Diagnostics()))
    for name, text in files.items():
        if not name.endswith("__init__.py"):
            assert text.startswith("# Generated from specs/onnx/")
            assert "then run `make codegen`" in text.splitlines()[0]
        compile(text, name, "exec")
