"""Whatever stands in a file of specs or of rewrites, codegen answers with its own errors or with
Python that compiles: entries of the repository are damaged at random (fixed generators)."""

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
    """Folders of entries, pieces that damage puts in, how many entries of a generator are damaged,
    and what compiles a text: the generated files, none where it is refused."""

    folders: tuple[Path, ...]
    pieces: tuple[str, ...]
    count: int
    compiled: Callable[[str, Diagnostics], Mapping[str, str]]

    def entries(self) -> list[str]:
        """All entries, as text."""
        texts = [path.read_text() for each in self.folders for path in sorted(each.glob("*.yaml"))]
        parts = [part for text in texts for part in re.split(r"\n(?=- )", text)]
        return [part for part in parts if part.startswith("- ")]


def _aten(text: str, diagnostics: Diagnostics) -> Mapping[str, str]:
    specs = read_text(text, "damaged.yaml", diagnostics)
    check_specs(specs, diagnostics)
    return {} if diagnostics.errors else emit_aten(specs)


def _rewrites(text: str, diagnostics: Diagnostics) -> Mapping[str, str]:
    rewrites = read_rewrites_text(text, "damaged.yaml", diagnostics, BY_TRAIT)
    check_rewrites(rewrites, diagnostics)
    return {} if diagnostics.errors else emit_rewrites(rewrites)


LANGUAGES = {
    "aten": Language((SPECS / "aten",), (*_COMMON, "self", "*self", "%"), 250, _aten),
    "rewrites": Language(
        (HERE / "rewrites" / "pass", SPECS / "rewrites"),
        (*_COMMON, "_", "*x", "maybe(", "optional(", "any_of(", "None", "="),
        400,
        _rewrites,
    ),
}


def _damaged(entry: str, pieces: tuple[str, ...], draw: random.Random) -> str:
    place = draw.randrange(len(entry))
    kind = draw.random()
    if kind < 0.35:
        return entry[:place] + entry[place + draw.randrange(1, 6) :]
    if kind < 0.7:
        return entry[:place] + draw.choice(pieces) + entry[place:]
    words = re.findall(r"\w+", entry)
    wrong, right = draw.choice(words), draw.choice([*words, *pieces])
    return re.sub(rf"\b{re.escape(wrong)}\b", lambda _: right, entry, count=1)


@pytest.mark.alternates("start")
@pytest.mark.parametrize("start", range(3))
@pytest.mark.parametrize("name", LANGUAGES)
def test_a_damaged_entry_gives_errors_of_codegen_or_python_that_compiles(
    name: str, start: int
) -> None:
    language, draw = LANGUAGES[name], random.Random(start)
    entries = language.entries()
    refused = 0
    for _ in range(language.count):
        text = _damaged(draw.choice(entries), language.pieces, draw)
        diagnostics = Diagnostics()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # "1if" and the like, from ast.parse
            try:
                for source in language.compiled(text, diagnostics).values():
                    compile(source, "damaged", "exec")
            except Exception as error:
                pytest.fail(f"{type(error).__name__}: {error}\n{text}")
        refused += bool(diagnostics.errors)
        assert not diagnostics.errors or ": error: " in diagnostics.render()
    assert refused > 0.35 * language.count  # most damage is noticed
