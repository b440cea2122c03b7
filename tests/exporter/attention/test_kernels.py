"""kernels.yaml says what the installed ONNX Runtime does: a version that does something else fails
here, before a model computes something else there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from .kernels import Corner, corners, row, version

_TABLE = yaml.safe_load((Path(__file__).parent / "kernels.yaml").read_text(encoding="utf-8"))
_ROWS = {each["corner"]: each for each in _TABLE}
_VERSIONS = ("1.31", "1.32")


def test_the_table_has_every_corner_and_says_what_is_done() -> None:
    assert list(_ROWS) == [each.name for each in corners()]
    for name, said in _ROWS.items():
        found = {said["reference"], *(word for v in _VERSIONS for word in _words(said[v]))}
        assert (found == {"equal"}) == ("so" not in said), name


@pytest.mark.parametrize("corner", corners(), ids=lambda each: each.name)
def test_a_corner(corner: Corner) -> None:
    """By the column of the installed version; a newer one is held against the newest column."""
    said, found = _ROWS[corner.name], row(corner)
    column = said[version() if version() in _VERSIONS else _VERSIONS[-1]]
    assert found.pop("reference") == str(said["reference"])
    words = {opset: str(column[int(opset)]) for opset in found} if isinstance(column, dict) else {}
    assert found == (words or dict.fromkeys(found, str(column)))


def _words(column: Any) -> list[str]:
    return [str(each) for each in column.values()] if isinstance(column, dict) else [str(column)]
