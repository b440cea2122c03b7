"""Expressions that Python's parser cannot handle raise SyntaxError: too deep, or invalid text."""

from __future__ import annotations

from pathlib import Path

import pytest

from ortablegen.language.parse import MAX_CHARACTERS, MAX_LEVELS, python_tree
from ortablegen.source.diagnostics import Diagnostics
from ortablegen.source.yaml_source import YMap, YScalar, load


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("-" * 9000 + "1", "too deep|too complex|more than 50 levels"),  # by Python version
        ("a" + "+a" * 4900, "recursion depth|too deep|more than 50 levels"),
        ("'\ud800'", "surrogates not allowed"),
        ("x\0", "null bytes"),
        ("(" * 3000, "too many nested parentheses"),
        ("not " * MAX_LEVELS + "x", f"more than {MAX_LEVELS} levels"),
        ("x" * (MAX_CHARACTERS + 1), f"more than {MAX_CHARACTERS} characters"),
    ],
)
def test_what_is_too_much_for_the_parser(text: str, message: str) -> None:
    with pytest.raises(SyntaxError, match=message):
        python_tree(text, "eval")


def test_what_is_not_too_much() -> None:
    assert python_tree("not " * (MAX_LEVELS // 2 - 2) + "x", "eval") is not None
    assert python_tree("x" * MAX_CHARACTERS, "eval") is not None


def test_a_position_after_an_escaped_line_break_is_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "given.yaml"
    path.write_text('- key: "long enough\\rcd(e\n    f) g"\n')
    (entry,) = load(path, path.name, Diagnostics())
    assert isinstance(entry, YMap)
    text = entry.get("key")
    assert isinstance(text, YScalar) and text.text == "long enough\rcd(e f) g"
    assert [str(text.at(*position)) for position in ((1, 0), (1, 3), (2, 0), (2, 9))] == [
        "given.yaml:1:9",
        "given.yaml:1:12",
        "given.yaml:2:5",
        "given.yaml:2:5",
    ]
