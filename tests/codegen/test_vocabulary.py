"""The vocabulary of the spec language: no word without a use, no word that torch uses otherwise."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from ortablegen.aten.rule_words import DTYPE_WORDS, MAX_WORDS, SHAPE_WORDS
from ortablegen.language import vocabulary
from ortablegen.schemas.torch import argument_names

ROOT = Path(__file__).parents[2]


def _sources() -> str:
    specs = [path.read_text() for path in (ROOT / "specs" / "aten").glob("*.yaml")]
    runtime = [path.read_text() for path in (ROOT / "runtime" / "ortable").rglob("*.py")]
    return "\n".join(specs + runtime)


def test_every_prelude_word_is_used() -> None:
    text = _sources()
    unused = [word for word in vocabulary.prelude() if len(re.findall(rf"\b{word}\b", text)) < 2]
    assert unused == []


def test_every_prelude_word_has_a_docstring_and_a_class_of_result() -> None:
    for path in sorted((ROOT / "runtime" / "ortable").glob("prelude*.py")):
        for function in ast.parse(path.read_text()).body:
            if isinstance(function, ast.FunctionDef) and not function.name.startswith("_"):
                assert ast.get_docstring(function), f"{function.name} has no docstring"
                assert function.returns is not None, f"{function.name} says no result"


def test_no_prelude_word_is_an_argument_name_of_torch() -> None:
    assert not argument_names() & set(vocabulary.prelude())


def test_rule_words_stay_few() -> None:
    assert len(SHAPE_WORDS) <= MAX_WORDS
    assert len(DTYPE_WORDS) <= MAX_WORDS
