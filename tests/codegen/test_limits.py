"""Expressions that Python's parser cannot handle raise SyntaxError: too deep, or invalid text."""

from __future__ import annotations

import pytest

from ortablegen.language.parse import MAX_CHARACTERS, MAX_LEVELS, python_tree


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
