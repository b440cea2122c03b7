"""Files of specs/onnx have one rule per operator, and the generated files are up to date."""

from __future__ import annotations

from pathlib import Path

from ortablegen.onnx.emit import emit_onnx_rules
from ortablegen.onnx.read import load_onnx_rules
from ortablegen.source.diagnostics import Diagnostics

ROOT = Path(__file__).parents[3]


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
    assert "specs/onnx/two.yaml:1:3: error: duplicate entry for 'Relu'" in diagnostics.render()
    assert "first given at specs/onnx/one.yaml:1:3" in diagnostics.render()


def test_generated_rules_are_fresh_and_deterministic() -> None:
    diagnostics = Diagnostics()
    model = load_onnx_rules(ROOT / "specs" / "onnx", diagnostics)
    assert diagnostics.render() == ""
    files = emit_onnx_rules(model)
    assert files == emit_onnx_rules(model)
    stale = [n for n, text in files.items() if (ROOT / "generated" / n).read_text() != text]
    assert stale == [], "run `make codegen`"


def test_generated_text_has_the_header_and_no_long_names_of_machines() -> None:
    files = emit_onnx_rules(load_onnx_rules(ROOT / "specs" / "onnx", Diagnostics()))
    for name, text in files.items():
        if not name.endswith("__init__.py"):
            assert text.startswith("# Generated from specs/onnx/")
            assert "then run `make codegen`" in text.splitlines()[0]
        compile(text, name, "exec")
