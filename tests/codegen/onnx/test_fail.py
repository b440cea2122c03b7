"""Every check of specs/onnx has a file that violates it, and the exact text that codegen prints for
it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ortablegen.onnx.read import load_onnx_rules
from ortablegen.source.diagnostics import Diagnostics

from . import golden

_FOLDER = Path(__file__).parent / "fail"
_FILES = sorted(_FOLDER.glob("*.yaml"))


@pytest.mark.parametrize("path", _FILES, ids=lambda p: p.stem)
def test_violation_prints_the_golden_error(path: Path) -> None:
    assert golden.errors_of(path) == path.with_suffix(".err").read_text()


def test_a_file_named_like_a_generated_table_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "traits.yaml").write_text("- {onnx: Relu, shape: same(X)}\n")
    diagnostics = Diagnostics()
    load_onnx_rules(tmp_path, diagnostics)
    assert "traits.yaml:1:1: error: 'traits' is a generated table" in diagnostics.render()


def test_an_operator_in_two_files_is_an_error(tmp_path: Path) -> None:
    for name in ("one.yaml", "two.yaml"):
        (tmp_path / name).write_text("- {onnx: Relu, shape: same(X)}\n")
    diagnostics = Diagnostics()
    load_onnx_rules(tmp_path, diagnostics)
    assert "specs/onnx/two.yaml:1:3: error: a second rule for Relu" in diagnostics.render()
    assert "the first is at specs/onnx/one.yaml:1:3" in diagnostics.render()
