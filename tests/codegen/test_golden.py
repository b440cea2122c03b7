"""Codegen's errors and generated code equal the golden files, for every kind of spec."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from .golden import FRONT_ENDS, FrontEnd, InvalidSpec

# invalid YAML: the error quotes no line
ERRORS_WITHOUT_QUOTE = ("invalid_yaml",)
# its dispatch table names no generated module, which is invalid Python: every rule is a function
INVALID_PYTHON = ("python_rule",)


INVALID_SPECS = [
    pytest.param(front, invalid_spec, id=f"{name}-{invalid_spec.name}")
    for name, front in FRONT_ENDS.items()
    for invalid_spec in front.invalid_specs()
]
VALID_FILES = [
    pytest.param(front, path, id=f"{name}-{path.stem}")
    for name, front in FRONT_ENDS.items()
    for path in front.valid_files()
]


@pytest.mark.parametrize(("front", "invalid_spec"), INVALID_SPECS)
def test_a_wrong_file_is_rejected_with_this_message(
    front: FrontEnd, invalid_spec: InvalidSpec
) -> None:
    errors = front.get_errors(invalid_spec)
    assert ": error: " in errors
    assert errors == invalid_spec.errors


@pytest.mark.parametrize(("front", "path"), VALID_FILES)
def test_a_feature_compiles_to_this_code(front: FrontEnd, path: Path) -> None:
    code = front.generate_python(path)
    if path.stem not in INVALID_PYTHON:
        ast.parse(code)
    assert code == path.with_suffix(".out").read_text()


@pytest.mark.parametrize("name", FRONT_ENDS)
def test_every_error_quotes_the_line_and_points_into_it(name: str) -> None:
    for invalid_spec in FRONT_ENDS[name].invalid_specs():
        lines = invalid_spec.errors.split("\n")
        for number, line in enumerate(lines):
            if ": error: " in line and invalid_spec.name not in ERRORS_WITHOUT_QUOTE:
                assert set(lines[number + 2].strip()) == {"^"}, invalid_spec.name
