"""What Python's own parser cannot take of the expression language is refused like any other text:
it is deeper than the parser goes, or no text at all."""

from __future__ import annotations

import pytest

from ortablegen.language.parse import MAX_CHARACTERS, MAX_LEVELS, python_tree


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("-" * 9000 + "1", "too deep|too complex|more than 50 levels"),  # by version of Python
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
