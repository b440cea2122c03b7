"""The vocabulary of the spec language: no word without a use, no word that torch uses otherwise."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from ortablegen.aten.rule_words import DTYPE_WORDS, MAX_WORDS, SHAPE_WORDS
from ortablegen.language import vocabulary
from ortablegen.schemas.torch import argument_names

ROOT = Path(__file__).parents[2]


def _used() -> set[str]:
    """Words in specs, and names that code reads; a function that calls itself does not use itself,
    nor does an import use what it names."""
    specs = [path.read_text() for path in (ROOT / "specs" / "aten").glob("*.yaml")]
    found = set(re.findall(r"\w+", "\n".join(specs)))
    for path in (ROOT / "runtime" / "ortable").rglob("*.py"):
        found |= _read(ast.parse(path.read_text()), frozenset())
    return found


def _read(node: ast.AST, inside: frozenset[str]) -> set[str]:
    """Names that a piece of code reads, but those of the functions that it stands in."""
    found = set()
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Name):
            found.add(child.id)
        elif isinstance(child, ast.Attribute):
            found.add(child.attr)
        around = inside | {child.name} if isinstance(child, ast.FunctionDef) else inside
        found |= _read(child, around)
    return found - inside


def test_every_prelude_word_is_used() -> None:
    used = _used()
    assert [word for word in vocabulary.prelude() if word not in used] == []


def test_every_rewrite_word_is_used_and_none_hides_a_prelude_word() -> None:
    rules = [path.read_text() for path in (ROOT / "specs" / "rewrites").glob("*.yaml")]
    used = set(re.findall(r"\w+(?=\()", "\n".join(rules)))
    folder = "ortable.passes.rewrite.words."
    own = [word for word in vocabulary.rewrite_words().values() if word.module.startswith(folder)]
    assert len(own) > 100
    assert [word.name for word in own if word.name not in used] == []
    assert [word.name for word in own if word.name in vocabulary.prelude()] == []


def test_a_use_is_no_definition_import_comment_or_call_of_itself() -> None:
    code = """
from a import imported
# commented
def word(x):
    return word(x - other) if x else module.attribute
"""
    names = _read(ast.parse(code), frozenset())
    assert names == {"x", "other", "module", "attribute"}


def test_every_prelude_word_has_a_docstring_and_a_class_of_result() -> None:
    runtime = ROOT / "runtime" / "ortable"
    for path in sorted(
        [*(runtime / "prelude").glob("*.py"), *(runtime / "lowerings").rglob("*.py")]
    ):
        for function in ast.parse(path.read_text()).body:
            if isinstance(function, ast.FunctionDef) and not function.name.startswith("_"):
                assert ast.get_docstring(function), f"{function.name} has no docstring"
                assert function.returns is not None, f"{function.name} says no result"


def test_no_prelude_word_is_an_argument_name_of_torch() -> None:
    assert not argument_names() & set(vocabulary.prelude())


def test_rule_words_stay_few() -> None:
    assert len(SHAPE_WORDS) <= MAX_WORDS
    assert len(DTYPE_WORDS) <= MAX_WORDS
