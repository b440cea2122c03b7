"""Whatever stands in a file of rewrites, codegen answers with its own errors or with Python that
compiles: rewrites are damaged at random (fixed generators)."""

from __future__ import annotations

import random
import re
import warnings

import pytest

from ortable_generated.onnx.traits import BY_TRAIT
from ortablegen.rewrites.check import check_rewrites
from ortablegen.rewrites.emit import emit_rewrites
from ortablegen.rewrites.read import read_rewrites_text
from ortablegen.source.diagnostics import Diagnostics

from . import golden

PIECES = ["*", "(", ")", "[", "]", "{", "}", ":", ",", "x", "1", "null", "_", "-", "|", "*x", "res"]
PIECES += ["maybe(", "optional(", "any_of(", "None", "{a: 1}", "[1]", "''", "not ", "== ", "="]


def _entries() -> list[str]:
    folders = [golden.HERE / "pass", golden.HERE.parents[2] / "specs" / "rewrites"]
    texts = [path.read_text() for folder in folders for path in sorted(folder.glob("*.yaml"))]
    parts = [part for text in texts for part in re.split(r"\n(?=- )", text)]
    return [part for part in parts if part.startswith("- ")]


def _damaged(entry: str, draw: random.Random) -> str:
    place = draw.randrange(len(entry))
    kind = draw.random()
    if kind < 0.35:
        return entry[:place] + entry[place + draw.randrange(1, 6) :]
    if kind < 0.7:
        return entry[:place] + draw.choice(PIECES) + entry[place:]
    words = re.findall(r"\w+", entry)
    wrong, right = draw.choice(words), draw.choice(words + PIECES)
    return re.sub(rf"\b{re.escape(wrong)}\b", lambda _: right, entry, count=1)


@pytest.mark.parametrize("start", range(3))
def test_a_damaged_rewrite_gives_errors_of_codegen_or_python_that_compiles(start: int) -> None:
    draw = random.Random(start)
    entries = _entries()
    refused = 0
    for _ in range(400):
        text = _damaged(draw.choice(entries), draw)
        diagnostics = Diagnostics()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # "1if" and the like, from ast.parse
            try:
                rewrites = read_rewrites_text(text, "damaged.yaml", diagnostics, BY_TRAIT)
                check_rewrites(rewrites, diagnostics)
                for source in {} if diagnostics.errors else emit_rewrites(rewrites).values():
                    compile(source, "damaged", "exec")
            except Exception as error:
                pytest.fail(f"{type(error).__name__}: {error}\n{text}")
        refused += bool(diagnostics.errors)
        assert not diagnostics.errors or ": error: " in diagnostics.render()
    assert refused > 150  # most damage is noticed
