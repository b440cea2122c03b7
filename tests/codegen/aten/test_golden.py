"""Each check of the spec language rejects one wrong spec with exactly this text; each feature
compiles to exactly this code."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from . import golden

FAIL = sorted((golden.HERE / "fail").glob("*.yaml"))
PASS = sorted((golden.HERE / "pass").glob("*.yaml"))


@pytest.mark.parametrize("path", FAIL, ids=lambda path: path.stem)
def test_a_wrong_spec_is_rejected_with_this_message(path: Path) -> None:
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
            if ": error: " in line and path.stem not in ("invalid_yaml",):
                assert set(lines[number + 2].strip()) == {"^"}, path.stem
