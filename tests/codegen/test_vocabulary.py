"""Words (functions) of the spec language are used, unambiguous, and in the right module."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from ortablegen.aten.check import check_specs
from ortablegen.aten.model import Specs
from ortablegen.aten.rule_functions import DTYPE_FUNCTIONS, MAX_FUNCTIONS, SHAPE_FUNCTIONS
from ortablegen.language import vocabulary
from ortablegen.language.vocabulary import BEGIN, END, insert_core_functions
from ortablegen.schemas.record import Record
from ortablegen.schemas.registry import INSTALLED
from ortablegen.source.diagnostics import Diagnostics

from .words_in_use import is_shared, resolve_dependencies, uses

ROOT = Path(__file__).parents[2]


WRITTEN_BY_CODEGEN = {"differs"}  # codegen emits it for `!=`


def _names_below(folder: Path) -> set[str]:
    """Return the names that the code below a folder reads, without imports and recursive calls."""
    paths = folder.rglob("*.py")
    return set().union(*(_read_names(ast.parse(path.read_text()), frozenset()) for path in paths))


def _read_names(node: ast.AST, enclosing: frozenset[str]) -> set[str]:
    """Return the names that a syntax tree reads, except those of the enclosing functions."""
    names = set()
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Name):
            names.add(child.id)
        elif isinstance(child, ast.Attribute):
            names.add(child.attr)
        functions = enclosing | {child.name} if isinstance(child, ast.FunctionDef) else enclosing
        names |= _read_names(child, functions)
    return names - enclosing


def test_every_function_of_the_prelude_and_of_lowerings_is_used() -> None:
    runtime = ROOT / "runtime" / "ortable"
    used = _names_below(runtime) | _names_below(ROOT / "generated" / "ortable_generated")
    used |= set(re.findall(r"python: ortable\.[\w.]+\.(\w+)", _read_specs()))
    assert [name for name in _public_functions() if name not in used] == []


def _read_specs() -> str:
    return "\n".join(path.read_text() for path in (ROOT / "specs" / "aten").glob("*.yaml"))


def _public_functions() -> list[str]:
    return [
        node.name
        for folder in ("prelude", "lowerings")
        for path in (ROOT / "runtime" / "ortable" / folder).rglob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    ]


def test_every_rewrite_word_is_used_and_none_hides_a_prelude_word() -> None:
    texts = [path.read_text() for path in (ROOT / "specs" / "rewrites").glob("*.yaml")]
    used = set(re.findall(r"\w+(?=\()", "\n".join(texts)))
    folder = "ortable.passes.rewrite.helpers."
    words = [
        word for word in vocabulary.rewrite_helpers().values() if word.module.startswith(folder)
    ]
    assert len(words) > 80
    assert [word.name for word in words if word.name not in used] == []
    assert [word.name for word in words if word.name in vocabulary.load_prelude()] == []


def test_a_use_is_no_definition_import_comment_or_call_of_itself() -> None:
    code = """
from a import imported
# commented
def word(x):
    return word(x - other) if x else module.attribute
"""
    names = _read_names(ast.parse(code), frozenset())
    assert names == {"x", "other", "module", "attribute"}


def test_every_prelude_word_has_a_docstring_and_a_class_of_result() -> None:
    runtime = ROOT / "runtime" / "ortable"
    for path in sorted(
        [*(runtime / "prelude").glob("*.py"), *(runtime / "lowerings").rglob("*.py")]
    ):
        for function in ast.parse(path.read_text()).body:
            if isinstance(function, ast.FunctionDef) and not function.name.startswith("_"):
                assert ast.get_docstring(function), f"{function.name} has no docstring"
                assert function.returns is not None, f"{function.name} has no return annotation"


def test_no_prelude_word_is_an_argument_name_of_torch() -> None:
    assert not INSTALLED.argument_names & set(vocabulary.load_prelude())
    text = "aten::x(Tensor cast, Tensor self) -> Tensor"
    diagnostics = Diagnostics()
    check_specs(Specs(registry=Record(((2, 13),), {"aten::x": {(2, 13): text}})), diagnostics)
    assert [error.message for error in diagnostics.errors] == [
        "the prelude function 'cast' is also an argument name of torch, so entries would be"
        " ambiguous"
    ]
    assert str(diagnostics.errors[0].span).startswith("runtime/ortable/prelude/")


def test_rule_words_stay_few() -> None:
    assert len(SHAPE_FUNCTIONS) <= MAX_FUNCTIONS
    assert len(DTYPE_FUNCTIONS) <= MAX_FUNCTIONS


def test_core_words_are_shared_and_others_live_with_their_family() -> None:
    words = vocabulary.load_prelude()
    callers = uses("aten", "rewrites")
    core = {name for name in words if is_shared(callers[name])}
    needed = resolve_dependencies(core, "prelude") | WRITTEN_BY_CODEGEN
    prelude = {n for n, word in words.items() if word.module.startswith("ortable.prelude.")}
    assert sorted(core - prelude) == [], (
        "used by three entries in two files: move it to ortable/prelude"
    )
    assert sorted(prelude - needed) == [], "used by too few entries: move it to ortable/lowerings"


def test_no_word_is_unused() -> None:
    callers = uses("aten", "rewrites")
    unused = [
        f"{listing.file}:{listing.line} {listing.name}"
        for listing in vocabulary.load_listings()
        if not callers[listing.name] and listing.name not in WRITTEN_BY_CODEGEN
    ]
    assert unused == []


def test_no_word_of_onnx_rules_is_unused() -> None:
    folders = (ROOT / "runtime" / "ortable", ROOT / "generated" / "ortable_generated")
    used = {name for folder in folders for name in _names_below(folder)}
    assert [word for word in vocabulary.inference_helpers() if word not in used] == []


def test_a_word_of_few_entries_or_of_one_file_is_no_core_word() -> None:
    assert is_shared({("aten/a.yaml", 1), ("aten/a.yaml", 2), ("aten/b.yaml", 1)})
    assert not is_shared({("aten/a.yaml", 1), ("aten/a.yaml", 2), ("aten/a.yaml", 3)})
    assert not is_shared({("aten/a.yaml", 1), ("aten/b.yaml", 2)})


def test_a_word_in_two_modules_has_both_places(monkeypatch: pytest.MonkeyPatch) -> None:
    first = vocabulary.Listing("turn", "runtime/ortable/prelude/a.py", 3, "")
    second = vocabulary.Listing("turn", "runtime/ortable/passes/rewrite/helpers/b.py", 7, "")
    monkeypatch.setattr(vocabulary, "load_listings", lambda: (first, second))
    assert vocabulary.find_duplicate_listings() == [(first, second)]
    diagnostics = Diagnostics()
    check_specs(Specs(), diagnostics)
    message = diagnostics.render()
    assert "helpers/b.py:7:1: error: the function 'turn' has two meanings" in message
    assert "first given at runtime/ortable/prelude/a.py:3" in message


def test_the_page_of_the_language_lists_the_core_words() -> None:
    page = (ROOT / "docs" / "language.md").read_text()
    assert insert_core_functions(page) == page
    assert "- `is_float(x: Result)`: " in page
    listed = page.partition(BEGIN)[2].partition(END)[0]
    type_names = re.findall(r"\w+: ([A-Z]\w+)(?: or None)?(?=[,)])", listed)
    explained = page.partition(BEGIN)[0].rpartition("| class | a value of it |")[2]
    assert not {type_name for type_name in type_names if f"`{type_name}`" not in explained}
    for name, word in vocabulary.load_prelude().items():
        assert (f"\n- `{name}(" in page) == word.module.startswith("ortable.prelude.")
