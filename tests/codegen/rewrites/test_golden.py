"""Each check of rewrites rejects one wrong file with exactly this text; each feature of patterns
compiles to exactly this code."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from ortable_generated.onnx.traits import BY_TRAIT
from ortablegen.rewrites.check import check_rewrites
from ortablegen.rewrites.emit import emit_rewrites
from ortablegen.rewrites.read import read_rewrites
from ortablegen.source.diagnostics import Diagnostics

from . import golden

FAIL = sorted((golden.HERE / "fail").glob("*.yaml"))
PASS = sorted((golden.HERE / "pass").glob("*.yaml"))
ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("path", FAIL, ids=lambda path: path.stem)
def test_a_wrong_rewrite_is_rejected_with_this_message(path: Path) -> None:
    found = golden.errors_of(path)
    assert ": error: " in found
    assert found == path.with_suffix(".err").read_text()


@pytest.mark.parametrize("path", PASS, ids=lambda path: path.stem)
def test_a_feature_compiles_to_this_code(path: Path) -> None:
    found = golden.python_of(path)
    ast.parse(found)
    assert found == path.with_suffix(".out").read_text()


def test_every_error_quotes_the_line_and_points_into_it() -> None:
    for path in FAIL:
        lines = path.with_suffix(".err").read_text().split("\n")
        for number, line in enumerate(lines):
            if ": error: " in line:
                assert set(lines[number + 2].strip()) == {"^"}, path.stem


def test_a_rewrite_in_two_files_is_an_error(tmp_path: Path) -> None:
    text = (golden.HERE / "fail" / "duplicate_name.yaml").read_text()
    first, second = text.split("- rewrite: ")[1:]
    (tmp_path / "one.yaml").write_text("- rewrite: " + first)
    (tmp_path / "two.yaml").write_text("- rewrite: " + second)
    diagnostics = Diagnostics()
    check_rewrites(read_rewrites(tmp_path, tmp_path, diagnostics, BY_TRAIT), diagnostics)
    assert "two.yaml:1:12: error: duplicate entry for 'neg_neg'" in diagnostics.render()
    assert "first given at one.yaml:1:12" in diagnostics.render()


def test_generated_rewrites_are_fresh_and_deterministic() -> None:
    diagnostics = Diagnostics()
    rewrites = read_rewrites(ROOT / "specs" / "rewrites", ROOT, diagnostics, BY_TRAIT)
    check_rewrites(rewrites, diagnostics)
    assert diagnostics.render() == ""
    files = emit_rewrites(rewrites)
    assert files == emit_rewrites(rewrites[::-1])
    stale = [n for n, text in files.items() if (ROOT / "generated" / n).read_text() != text]
    assert stale == [], "run `make codegen`"
