"""Files of specs/rewrites have unique names, and the generated files are up to date."""

from __future__ import annotations

from pathlib import Path

import pytest

from ortable_generated.onnx.traits import BY_TRAIT
from ortablegen.rewrites.check import check_rewrites
from ortablegen.rewrites.emit import emit_rewrites
from ortablegen.rewrites.read import read_rewrites
from ortablegen.source.diagnostics import Diagnostics

from ..golden import read_table
from . import golden

ROOT = Path(__file__).parents[3]


def test_a_rewrite_in_two_files_is_an_error(tmp_path: Path) -> None:
    entries = read_table(golden.HERE / "fail" / "other.yaml")
    text = next(entry.spec for entry in entries if entry.name == "duplicate_name")
    first, second = text.split("- rewrite: ")[1:]
    (tmp_path / "one.yaml").write_text("- rewrite: " + first)
    (tmp_path / "two.yaml").write_text("- rewrite: " + second)
    diagnostics = Diagnostics()
    check_rewrites(read_rewrites(tmp_path, tmp_path, diagnostics, BY_TRAIT), diagnostics)
    assert "two.yaml:1:12: error: duplicate entry for 'neg_neg'" in diagnostics.render()
    assert "first given at one.yaml:1:12" in diagnostics.render()


@pytest.mark.slow
def test_generated_rewrites_are_fresh_and_deterministic() -> None:
    diagnostics = Diagnostics()
    rewrites = read_rewrites(ROOT / "specs" / "rewrites", ROOT, diagnostics, BY_TRAIT)
    check_rewrites(rewrites, diagnostics)
    assert diagnostics.render() == ""
    files = emit_rewrites(rewrites)
    assert files == emit_rewrites(rewrites[::-1])
    stale = [n for n, text in files.items() if (ROOT / "generated" / n).read_text() != text]
    assert stale == [], "run `make codegen`"
