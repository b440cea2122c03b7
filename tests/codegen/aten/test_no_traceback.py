"""Whatever stands in a spec, codegen answers with its own errors or with Python that compiles:
entries of the repository are damaged at random (fixed generators), a thousand times over."""

from __future__ import annotations

import random
import re
import warnings
from pathlib import Path

import pytest

from ortablegen.aten.check import check_specs
from ortablegen.aten.emit import emit_aten
from ortablegen.aten.read import read_text
from ortablegen.source.diagnostics import Diagnostics

ROOT = Path(__file__).parents[3]
PIECES = ["*", "(", ")", "[", "]", "{", "}", ":", ",", "self", "1", "null", "x", "-", "|", "*self"]
PIECES += ["res", "{a: 1}", "[1]", "''", "not ", "== ", "%"]


def _entries() -> list[str]:
    texts = [path.read_text() for path in sorted((ROOT / "specs" / "aten").glob("*.yaml"))]
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


@pytest.mark.parametrize("start", range(4))
def test_a_damaged_entry_gives_errors_of_codegen_or_python_that_compiles(start: int) -> None:
    draw = random.Random(start)
    entries = _entries()
    refused = 0
    for _ in range(250):
        text = _damaged(draw.choice(entries), draw)
        diagnostics = Diagnostics()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # "1if" and the like, from ast.parse
            try:
                specs = read_text(text, "damaged.yaml", diagnostics)
                check_specs(specs, diagnostics)
                for source in {} if diagnostics.errors else emit_aten(specs).values():
                    compile(source, "damaged", "exec")
            except Exception as error:
                pytest.fail(f"{type(error).__name__}: {error}\n{text}")
        refused += bool(diagnostics.errors)
        assert not diagnostics.errors or ": error: " in diagnostics.render()
    assert refused > 100  # most damage is noticed
