"""kernels.yaml holds the measured behaviour of the installed ONNX Runtime's Attention kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from .kernels import Corner, corners, row, version

_TABLE = yaml.safe_load((Path(__file__).parent / "kernels.yaml").read_text(encoding="utf-8"))
_ROWS = {entry["corner"]: entry for entry in _TABLE}
_VERSIONS = ("1.31", "1.32")


def test_the_table_has_every_corner_and_says_what_is_done() -> None:
    assert list(_ROWS) == [corner.name for corner in corners()]
    for name, entry in _ROWS.items():
        verdicts = {entry["reference"], *(word for v in _VERSIONS for word in _words(entry[v]))}
        assert (verdicts == {"equal"}) == ("so" not in entry), name


@pytest.mark.parametrize("corner", corners(), ids=lambda c: c.name)
def test_a_corner(corner: Corner) -> None:
    """A version newer than the table is compared with the newest column."""
    entry, result = _ROWS[corner.name], row(corner)
    column = entry[version() if version() in _VERSIONS else _VERSIONS[-1]]
    assert result.pop("reference") == str(entry["reference"])
    words = {opset: str(column[int(opset)]) for opset in result} if isinstance(column, dict) else {}
    assert result == (words or dict.fromkeys(result, str(column)))


def _words(column: Any) -> list[str]:
    return [str(word) for word in column.values()] if isinstance(column, dict) else [str(column)]
