"""Each check of codegen rejects one wrong file with exactly this text, and each feature compiles to
exactly this code: specs/aten, specs/onnx, specs/rewrites."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from .golden import FRONT_ENDS, FrontEnd, Refused

# no line to quote: the file is no YAML
UNQUOTED = ("invalid_yaml",)
# a dispatch table of no module, where every rule is a function: specs/onnx has others
UNPARSED = ("python_rule",)


WRONG = [
    pytest.param(front, refused, id=f"{name}-{refused.name}")
    for name, front in FRONT_ENDS.items()
    for refused in front.wrong()
]
RIGHT = [
    pytest.param(front, path, id=f"{name}-{path.stem}")
    for name, front in FRONT_ENDS.items()
    for path in front.right()
]


@pytest.mark.parametrize(("front", "refused"), WRONG)
def test_a_wrong_file_is_rejected_with_this_message(front: FrontEnd, refused: Refused) -> None:
    found = front.refuse(refused)
    assert ": error: " in found
    assert found == refused.errors


@pytest.mark.parametrize(("front", "path"), RIGHT)
def test_a_feature_compiles_to_this_code(front: FrontEnd, path: Path) -> None:
    found = front.python_of(path)
    if path.stem not in UNPARSED:
        ast.parse(found)
    assert found == path.with_suffix(".out").read_text()


@pytest.mark.parametrize("name", FRONT_ENDS)
def test_every_error_quotes_the_line_and_points_into_it(name: str) -> None:
    for refused in FRONT_ENDS[name].wrong():
        lines = refused.errors.split("\n")
        for number, line in enumerate(lines):
            if ": error: " in line and refused.name not in UNQUOTED:
                assert set(lines[number + 2].strip()) == {"^"}, refused.name
