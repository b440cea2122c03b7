"""Hostile spec and rewrite files: each is accepted or refused at a line, and none runs code."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ortable.errors import SpecError
from ortable.interpreter.user_specs import check_spec_file, compile_spec_file, load_specs
from ortable.passes.rewrite import rule_selection
from ortable.testing.user_file import is_file_of_rewrites
from tests.rotation import rotation_seed

from .fuzz.mutate import CODE, KINDS, MARK, WORDS, Input, entries, made
from .fuzz.worker import marked, problem

FILE_COUNT = 150  # files in a run; the commit selects them
LOADERS: tuple[Callable[[Path], object], ...] = (check_spec_file, rule_selection.load_rules)


def _nest_aliases(levels: int) -> str:
    lines = ["- &a0 [x, x, x, x, x, x, x, x, x]"]
    for level in range(1, levels):
        lines.append(f"- &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]")
    return "\n".join(lines)


YAML_ERRORS = {
    "a billion of one list": (_nest_aliases(9), "more than 50000 values"),
    "an alias in what it names": ("- &a [*a]", "is inside the value that it refers to"),
    "an alias of nothing": ("- *a", "undefined alias 'a'"),
    "deep lists": ("[" * 5000 + "]" * 5000, "more than 40 levels"),
    "deep lists without end": ("- " * 5000, "more than 40 levels"),
    "deep mappings": ("{a: " * 5000 + "}" * 5000, "more than 40 levels"),
    "NUL": ("- op: \0", "the character U+0000"),
    "a bell": ("- op: \a", "the character U+0007"),
    "an object of Python": ("- !!python/object/apply:os.system [x]", "is a mapping"),
    "two documents": ("- a\n---\n- b", "another document"),
    "another version of YAML": ("%YAML 9.9\n---\n- a", "YAML"),
    "a list for a key": ("- {? [a]: b}", "a key must be a plain word"),
    "a thousand errors": ("- x\n" * 5000, "is a mapping"),
    "a merge": ("- &a {op: x}\n- <<: *a", "<<"),
}


@pytest.mark.parametrize("loader", LOADERS, ids=["specs", "rewrites"])
@pytest.mark.parametrize("name", YAML_ERRORS)
def test_yaml(name: str, loader: Callable[[Path], object], tmp_path: Path) -> None:
    text, message = YAML_ERRORS[name]
    path = tmp_path / "given.yaml"
    path.write_text(text)
    with pytest.raises(SpecError, match=r"given\.yaml:\d+:\d+: error: ") as caught:
        loader(path)
    assert message in str(caught.value.message)
    assert is_file_of_rewrites(path) is False


@pytest.mark.parametrize("loader", [*LOADERS, is_file_of_rewrites])
def test_files_that_cannot_be_read(loader: Callable[[Path], object], tmp_path: Path) -> None:
    path = tmp_path / "given.yaml"
    for content, message in ((b"\xff\xfe- x", "can't decode"), (b"- x\n" * 300_000, "more than")):
        path.write_bytes(content)
        with pytest.raises(SpecError, match=message):
            loader(path)
    with pytest.raises(SpecError, match="directory"):
        loader(tmp_path)
    with pytest.raises(SpecError, match="cannot read"):
        loader(tmp_path / "absent.yaml")


def test_the_name_of_a_file_is_no_code(tmp_path: Path) -> None:
    """The name of a file appears in a one-line comment of the compiled text."""
    text = (
        "- op: aten::relu(Tensor self) -> Tensor\n  out: {shape: same(self), dtype: same(self)}\n"
    )
    text += "  lower: return Relu(self)\n  samples: [{self: 'f32[2]'}]\n"
    for separator in ("\n", "\r", "\x0c", "\u2028"):
        path = tmp_path / f"x{separator}{MARK}(){separator}.yaml"
        path.write_text(text)
        assert marked(compile_spec_file(path)) is None
        rules = tmp_path / f"r{separator}{MARK}(){separator}.yaml"
        rules.write_text(json.dumps([_make_valid_rule()], indent=1))
        assert marked(rule_selection.compile_rules_to_source(rules)) is None


def test_a_note_is_no_code(tmp_path: Path) -> None:
    """The note of a case is a comment in the compiled text, which contains no NUL."""
    for separator in ("\0", "\n", "\r", "\x85", "\u2028", "\x1b"):
        entry = {
            "op": "aten::relu(Tensor self) -> Tensor",
            "out": {"shape": "same(self)", "dtype": "same(self)"},
            "lower": [{"note": f"a{separator}{MARK}(){separator}b", "do": "return Relu(self)"}],
            "samples": [{"self": "f32[2]"}],
        }
        assert problem(Input("aten", json.dumps([entry], indent=1)), tmp_path) is None


def _make_valid_rule() -> Any:
    return {
        "rewrite": "relu_of_relu",
        "stage": "simplify",
        "why": "a second Relu changes nothing",
        "pattern": "return Relu(Relu(x))",
        "replace": "return Relu(x)",
        "samples": [
            {"graph": "return Relu(Relu(x))", "x": "f32[2]", "expect": "Relu"},
            {"graph": "return Relu(x)", "x": "f32[2]", "unchanged": "pattern"},
        ],
    }


def test_a_file_imports_nothing(tmp_path: Path) -> None:
    path = tmp_path / "given.yaml"
    entry = {
        "op": "aten::relu(Tensor self) -> Tensor",
        "out": {"shape": "same(self)", "dtype": "same(self)"},
        "lower": {"python": "os.system", "why": "x"},
        "samples": [{"self": "f32[2]"}],
    }
    path.write_text(json.dumps([entry]))
    with pytest.raises(SpecError, match=r"given\.yaml:\d+"):
        load_specs(path, override=True)
    entry.update(lower="return Relu(self)", requires="this")
    path.write_text(json.dumps([entry]))
    with pytest.raises(SpecError, match="cannot import modules"):
        load_specs(path, override=True)


DEEP_SCHEMAS = (
    "aten::f(" + "(" * 3000,
    "aten::f(" + "Dict(int, " * 350,
    "aten::f(Tensor" + "[]" * 1500 + " x) -> ()",
    "aten::f(int x=" + "9" * 99 + ") -> ()",
    "aten::f(" + "Tensor a, " * 5000,
    "aten::\u00e9\u20ac(Tensor x) -> Tensor",
)


@pytest.mark.parametrize("schema", DEEP_SCHEMAS, ids=range(len(DEEP_SCHEMAS)))
def test_schemas_that_end_the_parser_of_torch(schema: str, tmp_path: Path) -> None:
    path = tmp_path / "given.yaml"
    path.write_text(json.dumps([{"op": schema, "samples": []}]))
    with pytest.raises(SpecError, match="torch cannot parse this schema"):
        check_spec_file(path)


def _list_paths(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = (
        node.items()
        if isinstance(node, dict)
        else enumerate(node)
        if isinstance(node, list)
        else ()
    )
    paths = [path] if path else []
    for key, value in items:
        paths += _list_paths(value, (*path, key))
    return paths


def _replace_field(node: Any, path: tuple[Any, ...], word: Any, as_key: bool) -> Any:
    """Return a copy of a node with one field replaced by a word or renamed to it."""
    copy = json.loads(json.dumps(node))
    target = copy
    for key in path[:-1]:
        target = target[key]
    if as_key:
        renamed = [(word if key == path[-1] else key, value) for key, value in target.items()]
        target.clear()
        target.update(renamed)
    else:
        target[path[-1]] = word
    return copy


@pytest.mark.parametrize("kind", KINDS)
def test_code_in_every_field(kind: str, tmp_path: Path) -> None:
    """Every field and every key of the entry with the most fields becomes a piece of code."""
    largest = max(entries(kind), key=lambda entry: (len(entry), -len(json.dumps(entry))))
    first = rotation_seed()
    for number, path in enumerate(_list_paths(largest)):
        for as_key in (False, True) if isinstance(path[-1], str) else (False,):
            word = CODE[(first + number) % len(CODE)]
            text = json.dumps([_replace_field(largest, path, word, as_key)], indent=1)
            assert problem(Input(kind, text), tmp_path) is None, (path, word)


def test_files_that_are_nearly_right(tmp_path: Path) -> None:
    """A few of the files of ``python -m tests.security.fuzz`` are accepted or refused."""
    first = rotation_seed()
    for number in range(first, first + FILE_COUNT):
        assert problem(made(number), tmp_path) is None, f"--show {number}"


def test_the_words_have_every_kind() -> None:
    """The fuzzer has words and entries of every kind."""
    assert len(WORDS) == len(set(WORDS)) > 100
    assert all(len(entries(kind)) > 100 for kind in KINDS)
