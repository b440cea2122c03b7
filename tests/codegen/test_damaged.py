"""Mutated specs and rewrites give codegen errors or valid Python; the random seeds are fixed."""

from __future__ import annotations

import random
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from ortable_generated.onnx.traits import BY_TRAIT
from ortablegen.aten.check import check_specs
from ortablegen.aten.emit import emit_aten
from ortablegen.aten.read import read_text
from ortablegen.rewrites.check import check_rewrites
from ortablegen.rewrites.emit import emit_rewrites
from ortablegen.rewrites.read import read_rewrites_text
from ortablegen.source.diagnostics import Diagnostics

HERE = Path(__file__).parent
SPECS = HERE.parents[1] / "specs"
_COMMON = ["*", "(", ")", "[", "]", "{", "}", ":", ",", "1", "null", "x", "-", "|", "res", "{a: 1}"]
_COMMON += ["[1]", "''", "not ", "== "]


@dataclass(frozen=True)
class Language:
    """A spec language: its entries, the mutations of them, and its compiler.

    ``count`` mutated entries are tested for each seed. ``compile_text`` returns the generated
    files, or an empty mapping if codegen reports errors.
    """

    folders: tuple[Path, ...]
    insertions: tuple[str, ...]
    count: int
    compile_text: Callable[[str, Diagnostics], Mapping[str, str]]

    def entries(self) -> list[str]:
        """Return the text of every entry."""
        texts = [path.read_text() for d in self.folders for path in sorted(d.glob("*.yaml"))]
        parts = [part for text in texts for part in re.split(r"\n(?=- )", text)]
        return [part for part in parts if part.startswith("- ")]


def _compile_specs(text: str, diagnostics: Diagnostics) -> Mapping[str, str]:
    specs = read_text(text, "damaged.yaml", diagnostics)
    check_specs(specs, diagnostics)
    return {} if diagnostics.errors else emit_aten(specs)


def _compile_rewrites(text: str, diagnostics: Diagnostics) -> Mapping[str, str]:
    rewrites = read_rewrites_text(text, "damaged.yaml", diagnostics, BY_TRAIT)
    check_rewrites(rewrites, diagnostics)
    return {} if diagnostics.errors else emit_rewrites(rewrites)


LANGUAGES = {
    "aten": Language((SPECS / "aten",), (*_COMMON, "self", "*self", "%"), 250, _compile_specs),
    "rewrites": Language(
        (HERE / "rewrites" / "pass", SPECS / "rewrites"),
        (*_COMMON, "_", "*x", "maybe(", "optional(", "any_of(", "None", "="),
        400,
        _compile_rewrites,
    ),
}


def _mutate_entry(entry: str, insertions: tuple[str, ...], rng: random.Random) -> str:
    offset = rng.randrange(len(entry))
    kind = rng.random()
    if kind < 0.35:
        return entry[:offset] + entry[offset + rng.randrange(1, 6) :]
    if kind < 0.7:
        return entry[:offset] + rng.choice(insertions) + entry[offset:]
    words = re.findall(r"\w+", entry)
    word, replacement = rng.choice(words), rng.choice([*words, *insertions])
    return re.sub(rf"\b{re.escape(word)}\b", lambda _: replacement, entry, count=1)


@pytest.mark.alternates("start")
@pytest.mark.parametrize("start", range(3))
@pytest.mark.parametrize("name", LANGUAGES)
def test_a_damaged_entry_gives_errors_of_codegen_or_python_that_compiles(
    name: str, start: int
) -> None:
    language, rng = LANGUAGES[name], random.Random(start)
    entries = language.entries()
    error_count = 0
    for _ in range(language.count):
        text = _mutate_entry(rng.choice(entries), language.insertions, rng)
        diagnostics = Diagnostics()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # ast.parse warns about "1if"
            try:
                for source in language.compile_text(text, diagnostics).values():
                    compile(source, "damaged", "exec")
            except Exception as error:
                pytest.fail(f"{type(error).__name__}: {error}\n{text}")
        error_count += bool(diagnostics.errors)
        assert not diagnostics.errors or ": error: " in diagnostics.render()
    assert error_count > 0.35 * language.count  # most mutations are errors
